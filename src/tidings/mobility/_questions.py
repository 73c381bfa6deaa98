"""Questions: clients without an epoch wait until the host of their name was asked, if there is one.

Of two that ask at the same time the first one wins, or the last one if both force it; whoever asks while another broker
claims loses.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from tidings.broker import Context

from ._admission import Admitted, Denied, Newcomer, Verdict
from ._claiming import Answer, Claiming
from ._claims import Claim, Held

SOON = 200_000
"""Microseconds after which the host is not asked again, if the answer was incomplete."""
AGAIN_SOON = 50_000
"""Microseconds after which it is asked again."""
MAX_ASKING = 10_000
"""The most clients without an epoch that wait at one broker; more are refused."""


@dataclass(slots=True, eq=False)
class _Asking:
    """A client that waits until the host was asked."""

    newcomer: Newcomer
    at: int
    decide: Callable[[Verdict], None]
    beaten: Held | None = None
    """Whoever asked at the same time, and wins."""
    again: bool = False
    """Whether it asks for the second time."""


class Door(Protocol):
    """Where newcomers come in."""

    @property
    def context(self) -> Context: ...

    def epoch_of(self, name: str) -> int:
        """The epoch under which a client is hosted here; 0: it is not."""
        ...

    def enter(self, newcomer: Newcomer, decide: Callable[[Verdict], None]) -> None:
        """Somebody wants to begin a session."""
        ...

    def refuse(self, held: Held, newcomer: Newcomer, decide: Callable[[Verdict], None]) -> None:
        """The name is in use."""
        ...


class Questions:
    """The clients that wait at one broker."""

    def __init__(self, door: Door, claiming: Claiming) -> None:
        self._door = door
        self._claiming = claiming
        self._asking: dict[str, _Asking] = {}

    def ask(self, newcomer: Newcomer, decide: Callable[[Verdict], None]) -> None:
        """Ask for the host of a name."""
        context = self._door.context
        other = self._asking.get(newcomer.name)
        if other is not None or len(self._asking) >= MAX_ASKING:
            what = f"client '{newcomer.name}' is being connected" if other else "many clients are being connected"
            decide(Denied("busy", f"{what} to broker '{context.name}'; try again"))
            return
        asking = self._asking[newcomer.name] = _Asking(newcomer, context.now(), decide)
        self._claiming.tell_all(self._question(asking))

    def _question(self, asking: _Asking) -> Claim:
        newcomer = asking.newcomer
        return Claim(newcomer.name, newcomer.owner, self._door.context.name, asking.at, forced=newcomer.take_over)

    def stands(self, question: Claim) -> bool:
        """Whether whoever asked still waits."""
        asking = self._asking.get(question.name)
        return asking is not None and asking.at == question.at

    def answered(self, question: Claim, answer: Answer) -> None:
        """Everybody was asked; the newcomer is let in, or not."""
        asking, ceded = self._asking[question.name], answer.ruling.ceded.get(question.name, 0)
        newcomer, objection, now = asking.newcomer, answer.objection or asking.beaten, self._door.context.now()
        if objection is not None and 0 < objection.epoch <= ceded:
            objection = None  # a broker that it has left says where it went, and that one has let it go
        if objection is None and not answer.complete and not asking.again and now < asking.at + SOON:
            asking.again = True  # the tree has changed under it
            self._door.context.call_later(AGAIN_SOON, lambda: self._claiming.tell_all(self._question(asking)))
            return
        del self._asking[newcomer.name]
        if self._door.epoch_of(newcomer.name):
            self._door.enter(newcomer, asking.decide)  # somebody else was faster
        elif objection is not None:
            self._door.refuse(objection, newcomer, asking.decide)
        else:
            sure = answer.complete
            asking.decide(Admitted(max(now, ceded + 1), ceded, sure=sure, fencing=not sure))

    def compete(self, claim: Claim) -> tuple[bool, Held | None]:
        """Whether somebody here asks for the name that another broker claims; then, who wins, if not that one."""
        asking = self._asking.get(claim.name)
        if asking is None:
            return False, None
        here, forced = self._door.context.name, asking.newcomer.take_over
        mine, theirs = (asking.at, here), (claim.at, claim.broker)
        if forced and claim.forced:
            wins = mine > theirs
        elif forced != claim.forced:
            wins = forced
        else:
            wins = not claim.epoch and mine < theirs
        if wins:
            return True, Held(claim.name, here, 0, asking.at)
        asking.beaten = Held(claim.name, claim.broker, claim.epoch, claim.at)
        return True, None
