"""Clients inside the broker: features that subscribe and publish, or stand in for somebody who is elsewhere.

Theory of operation
-------------------
An inner client is a client like any other: it has a link, is attached, is a member of scopes, may have a guard. Only
its connection is none. What the broker sends to it reaches it *in the turn that sends it*: with a queue in between,
something could be on its way while another link takes its subscriptions over, and be lost. What it sends is taken up
*when the turn has ended*, in order, each frame in a turn of its own: no turn begins inside another.

It stands for a *principal*, by default for itself: it sees what the principal may see, and publishes in its name.

By *adoption* the subscriptions and advertisements of one client become those of another that stands for the same
principal, in one turn, all of them or some: nothing is announced or withdrawn, what has settled stays settled, what is
owed or held stays so. From then on everything goes to the other link.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from tidings.model import Effort, FeatureError
from tidings.wire import Frame

from ._bounds import TURN_STEPS
from ._links import Guard, Link
from .interest import Registration

if TYPE_CHECKING:
    from ._broker import Broker

MAX_WAITING = 100_000
"""The most frames of one inner client that wait to be taken up."""


class InnerClient:
    """A client that a feature has opened. Made by `Context.open_client`."""

    def __init__(self, broker: Broker, link: Link, receive: Callable[[Frame], None]) -> None:
        self._broker = broker
        self._waiting: deque[Frame] = deque()
        self._open = True
        self.link = link
        broker.runtime.open_local(self.link, receive)
        try:
            broker.attach(self.link, inside=True)
        except Exception:
            broker.runtime.close_local(self.link)
            raise

    @property
    def published(self) -> int:
        """The number of the last publication under its name, in an earlier life of the broker, too; 0: none is known.

        What it publishes has larger ones: the broker takes others for repetitions.
        """
        return self._broker.publications.latest(self.link.name)

    def send(self, frame: Frame) -> None:
        """Say something to the broker; it hears it when the turn has ended."""
        if not self._open:
            raise FeatureError(f"the inner client '{self.link.name}' has been closed; open another one")
        if len(self._waiting) >= MAX_WAITING:
            raise FeatureError(f"the inner client '{self.link.name}' says more than {MAX_WAITING:,} things in one turn")
        if not self._waiting:
            self._broker.runtime.call_later(0, self._take_up)
        self._waiting.append(frame)

    def forget(self) -> None:
        """Let the broker hear nothing more of what was said and waits."""
        self._waiting.clear()

    def _take_up(self) -> None:
        for _ in range(len(self._waiting)):
            if self._open and self._waiting:
                self._broker.receive(self.link, self._waiting.popleft())
        if self._open and self._waiting:
            self._broker.runtime.call_later(0, self._take_up)

    def close(self) -> None:
        """It goes for good: what it subscribes to and advertises ends, unless another has adopted it.

        To be called in a turn, as everything that features do.
        """
        if self._open:
            self._open = False
            self._waiting.clear()
            with Effort(TURN_STEPS):
                self._broker.at_detach(self.link)


def guard_of(broker: Broker, principal: str) -> Guard | None:
    """What a principal may do, if one of its clients is attached here; None: nobody restricts it."""
    return next((link.guard for link in broker.standing_for(principal) if link.guard is not None), None)


def adopt(
    broker: Broker, feature: str, old: Link, new: Link, *, owned: set[Link], only: frozenset[Registration] | None
) -> None:
    """Let one client have what another subscribes to and advertises; `owned` are the clients of this feature."""
    if old not in owned and new not in owned:
        raise FeatureError(
            f"feature '{feature}' has opened neither '{old.name}' nor '{new.name}'; it adopts for, and from, clients "
            "of its own"
        )
    for link in (old, new):
        if broker.client(link.name) is not link:
            raise FeatureError(f"client '{link.name}' is not attached to broker '{broker.name}', so nothing is adopted")
    if old.principal != new.principal:
        raise FeatureError(
            f"'{new.name}' stands for '{new.principal}' and '{old.name}' for '{old.principal}'; a client adopts only "
            "what is the same principal's"
        )
    for registration in only or ():
        if registration.link is not old:
            raise FeatureError(
                f"feature '{feature}' lets '{new.name}' adopt the registration '{registration.id}' from '{old.name}', "
                f"which is a registration of '{registration.link.name}'; choose among those of '{old.name}'"
            )
    if old is not new:
        broker.registrations.check_adoption(old, new, only)
        broker.at_adopt(old, new, only)
