"""Claiming: how the claims and questions of a broker reach others, and come back with an answer.

A claim goes to the last broker of its client alone, or to everybody by a wave. Several claims share a wave, and a few
waves are under way at a time. A claim that did not reach everybody is repeated, as long as it stands: every second at
first, then more and more rarely, and at once on every new tree, which drops what was under way.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple, Protocol

import msgspec

from tidings.broker import Context, Timer
from tidings.wire import pack

from ._claims import MAX_CLAIMS, Claim, Claims, Held, Ruling, read_ruling

ASK_TIME = 2_000_000
"""Microseconds within which a client without an epoch is answered."""
LAST_TIME = 1_000_000
"""Microseconds for which the last broker of a client is waited for, before everybody is told."""
AGAIN = 1_000_000
"""Microseconds after which a claim is repeated that did not reach everybody."""
SOON = 3
"""How often it is repeated after that time, while its client counts as unsettled; after each further one twice as long
is waited."""
MAX_REPEATS = 7
"""How often it is repeated on one tree."""
MAX_WAVES = 4
"""The waves of one broker that are under way at a time; more claims wait and go together."""
MAX_TOLD = 10_000
"""The most claims that wait for the answer of one broker; more go to everybody."""


class Answer(NamedTuple):
    """What everybody says to a claim."""

    ruling: Ruling
    objection: Held | None
    """Who does not give the client away."""
    complete: bool
    """Whether everybody was reached."""
    final: bool
    """Whether it has been repeated for long enough to go on without those who were not reached."""


class Claimant(Protocol):
    """Who claims."""

    @property
    def context(self) -> Context: ...

    def stands(self, claim: Claim) -> bool:
        """Whether whoever the claim is for is still here, or still asks."""
        ...

    def answered(self, claim: Claim, answer: Answer) -> bool:
        """Everybody has answered; whether the claim is to be repeated."""
        ...


class Claiming:
    """The claims of one broker that are under way."""

    def __init__(self, claimant: Claimant) -> None:
        self._claimant = claimant
        self._queue: deque[tuple[Claim, int]] = deque()
        """Claims that wait for a wave, each with how often it was repeated."""
        self.waves = 0
        """How many are under way."""
        self._number = 0
        self._told: dict[int, Claim] = {}
        """Claims that the last broker of a client was told, by number."""
        self._open: dict[str, tuple[Claim, Timer | None]] = {}
        """Claims that did not reach everybody, by client, and when each is repeated; None: on the next tree."""

    # --- one broker -----------------------------------------------------------------------------------

    def tell(self, broker: str, claim: Claim) -> None:
        """Tell the last broker of a client; everybody, if it cannot be reached or says nothing."""
        if broker and broker != self._claimant.context.name and len(self._told) < MAX_TOLD:
            self._number += 1
            number = self._number
            if self._claimant.context.send_to(broker, pack(Claims((claim,), number))):
                self._told[number] = claim
                self._claimant.context.call_later(LAST_TIME, lambda: self._is_silent(number))
                return
        self.tell_all(claim)

    def _is_silent(self, number: int) -> None:
        if (claim := self._told.pop(number, None)) is not None:
            self.tell_all(claim)

    def told(self, number: int) -> Claim | None:
        """The claim that one broker was told under a number, and has not answered."""
        return self._told.get(number)

    def forget(self, number: int) -> None:
        """It has answered."""
        del self._told[number]

    # --- everybody ------------------------------------------------------------------------------------

    def tell_all(self, claim: Claim, repeats: int = 0) -> None:
        """Tell everybody."""
        self.settled(claim.name)
        self._queue.append((claim, repeats))
        self._start()

    def settled(self, client: str) -> None:
        """Whatever is open of a client is not repeated any more."""
        _, timer = self._open.pop(client, (None, None))
        if timer is not None:
            timer.cancel()

    def new_tree(self, claims: list[Claim]) -> None:
        """Tell everybody of these and of what is open, in another turn: the tree is being adopted."""
        for claim in claims:
            self.settled(claim.name)
        claims = [*(claim for claim, _ in self._open.values()), *claims]
        for client in list(self._open):
            self.settled(client)
        self._queue.extend((claim, 0) for claim in claims)
        if self._queue:
            self._claimant.context.call_later(0, self._start)

    def _start(self) -> None:
        while self._queue and self.waves < MAX_WAVES:
            sent = [self._queue.popleft() for _ in range(min(len(self._queue), MAX_CLAIMS))]
            sent = [one for one in sent if self._claimant.stands(one[0])]
            if sent:
                self.waves += 1
                body = pack(Claims(tuple(claim for claim, _ in sent)))
                self._claimant.context.wave("claim", body, self._done(sent), ASK_TIME)

    def _done(self, sent: list[tuple[Claim, int]]) -> Callable[[bytes, bool], None]:
        def done(answer: bytes, complete: bool) -> None:
            self.waves -= 1
            self._heard(sent, answer, complete)
            self._start()

        return done

    def _heard(self, sent: list[tuple[Claim, int]], answer: bytes, complete: bool) -> None:
        try:
            ruling = read_ruling(answer) if answer else Ruling()
        except (msgspec.MsgspecError, ValueError):
            self._claimant.context.refused()
            ruling, complete = Ruling(), False
        held = {one.name: one for one in ruling.held}
        for claim, repeats in sent:
            if self._claimant.stands(claim):
                heard = Answer(ruling, held.get(claim.name), complete, repeats >= SOON)
                if self._claimant.answered(claim, heard):
                    self._repeat(claim, repeats + 1)

    def _repeat(self, claim: Claim, repeats: int) -> None:
        def again() -> None:
            self.tell_all(claim, repeats)

        timer = None
        if repeats <= MAX_REPEATS:
            timer = self._claimant.context.call_later(AGAIN << max(repeats - SOON, 0), again)
        self._open[claim.name] = (claim, timer)
