"""Doors: what features say to the same feature at other brokers, beside messages of their own.

Theory of operation
-------------------
*Attachments* ride on a message of the core. Those of `Context.attach` are for the SEND step that is being taken, and
are dropped with its end if it sends no message to their neighbours; those of
`Context.ride` wait for the next message to a neighbour that may carry them, and are made when it leaves: what rides is
never older than its carrier. If no message leaves in time, an `Extension` of the feature goes by itself. Nothing rides
on `LinkState` and `Attach`, which are heard outside the tree; what waits when the tree changes is dropped. A link with
a rider leaves its group for that frame. On the other side, `Feature.on_attached` is called before the message is
handled.

*Routed* messages go to any broker that the tree reaches, hop by hop, on the same FIFO links as everything else. They
are lost with the tree, as everything that is under way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from tidings.model import FeatureError, TidingsError
from tidings.wire import AnyMessage, Attach, Extension, LinkState, Routed

from ._failures import checked
from ._joinpoints import Joinpoint, Proceed
from ._links import Link
from ._runtime import Timer

if TYPE_CHECKING:
    from ._broker import Broker

MAX_ATTACHMENT = 65_536
"""The most bytes that one feature may attach to one message."""
MAX_ROUTED = 1_048_576
"""The most bytes of a message that a feature sends to another broker."""

Produce: TypeAlias = Callable[[], bytes | None]
"""Makes what rides when its carrier leaves; None: nothing any more."""
Carries: TypeAlias = Callable[[AnyMessage], bool]
"""Whether something may ride on a message."""

SENDS = frozenset(
    {Joinpoint.PUB_SEND, Joinpoint.SUB_SEND, Joinpoint.UNSUB_SEND, Joinpoint.AD_SEND, Joinpoint.UNAD_SEND}
)
"""The steps in which features may attach something."""

_OUTSIDE_THE_TREE = (LinkState, Attach)


@dataclass(slots=True, eq=False)
class _Rider:
    produce: Produce
    carries: Carries
    due: int
    timer: Timer


class Doors:
    """What the features of one broker attach and send on."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.attached: dict[Link, dict[str, bytes]] = {}
        """What the next message to each link carries for features; it lives for one step."""
        self.riding: dict[Link, dict[str, _Rider]] = {}
        """What waits for the next message to each link."""
        self._steps = 0
        """How many SEND steps with advice are being taken, one in another."""

    # --- attachments ----------------------------------------------------------------------------------

    def attach(self, link: Link, feature: str, data: bytes) -> None:
        """Let the message that this SEND step sends to a neighbour carry something; `FeatureError` in no such step."""
        if not self._steps or not link.is_broker:
            raise FeatureError(
                f"feature '{feature}' cannot attach anything for '{link.name}' now; attach for a neighbour, in advice "
                "around a SEND joinpoint, before `proceed`"
            )
        self.add(link, feature, bounded(feature, data))

    def add(self, link: Link, feature: str, data: bytes) -> None:
        """Let the next message to a link carry something; it leaves in this step."""
        self.attached.setdefault(link, {})[feature] = data

    def sending(self, step: Proceed) -> Proceed:
        """A SEND step, in which features may attach something."""
        attached = self.attached

        def stepped(*arguments: Any) -> Any:
            around = dict(attached) if attached else None  # of a step that this one is part of
            if around is not None:
                attached.clear()
            self._steps += 1
            try:
                return step(*arguments)
            finally:
                self._steps -= 1
                if attached:
                    attached.clear()
                if around is not None:
                    attached.update(around)

        return stepped

    def ride(
        self, link: Link, feature: str, produce: Callable[[], bytes | None], within: int, carries: Carries
    ) -> None:
        """Let the next message to a neighbour carry something, in the place of what this feature gave before."""
        broker = self._broker
        if not broker.adjacency.is_open(link):
            raise FeatureError(
                f"feature '{feature}' cannot ride to '{link.name}', which is no tree neighbour of broker "
                f"'{broker.name}' now; take a link from `context.neighbours`"
            )
        if within < 0:
            raise FeatureError(f"feature '{feature}' rides within {within:,}; give microseconds, 0 or more")
        due = broker.now() + within
        before = self.riding.get(link, {}).get(feature)
        if before is not None and before.due <= due:
            before.produce, before.carries = produce, carries
            return
        if before is not None:
            before.timer.cancel()
        timer = broker.call_later(within, lambda: self._go_alone(link, feature))
        self.riding.setdefault(link, {})[feature] = _Rider(produce, carries, due, timer)

    def _go_alone(self, link: Link, feature: str) -> None:
        """No message has left in time."""
        rider = self.riding[link].pop(feature)
        if not self.riding[link]:
            del self.riding[link]
        if (data := rider.produce()) is not None:
            self._broker.send(link, Extension(feature, data))

    def take(self, link: Link, message: AnyMessage) -> dict[str, bytes] | None:
        """What goes with a message that leaves on a link now."""
        if isinstance(message, _OUTSIDE_THE_TREE):
            return None
        data = self.attached.pop(link, None)
        if link not in self.riding:
            return data
        data = data if data is not None else {}
        going = {feature: rider for feature, rider in self.riding[link].items() if rider.carries(message)}
        for feature, rider in going.items():  # before anything is produced: that may fail, or ask for another ride
            rider.timer.cancel()
            del self.riding[link][feature]
        if not self.riding[link]:
            del self.riding[link]
        for feature, rider in going.items():
            if (produced := rider.produce()) is not None:
                data[feature] = produced
        return data or None

    def new_tree(self) -> None:
        """What waits was meant for neighbours of the old tree."""
        for riders in self.riding.values():
            for rider in riders.values():
                rider.timer.cancel()
        self.riding.clear()

    # --- messages to any broker -----------------------------------------------------------------------

    def send_to(self, target: str, feature: str, body: bytes) -> bool:
        """Send something to the same feature at a broker; False if the tree does not lead there now."""
        checked(feature, f"a message to broker '{target}'", body, MAX_ROUTED)
        return self.forward(Routed(target, self._broker.name, feature, body), target)

    def routed(self, link: Link, message: Routed) -> None:
        """A message to a broker has come; pass it on if it is for another one."""
        if message.target != self._broker.name:
            self.forward(message, message.target)
        elif (feature := self._broker.features.get(message.feature)) is not None:
            try:
                self._broker.failures.hear(feature, "in on_routed", feature.on_routed, message.source, message.body)
            except FeatureError:
                raise
            except TidingsError:  # the neighbour has only passed it on
                self._broker.statistics.refused += 1
        else:
            self._broker.statistics.refused += 1

    def forward(self, message: AnyMessage, target: str) -> bool:
        """Send a message on towards a broker; False if the tree does not lead there now."""
        link = self._broker.adjacency.hop_towards(target)
        if link is not None:
            self._broker.send(link, message)
        return link is not None


def bounded(feature: str, data: bytes) -> bytes:
    """What a feature attaches, if one message can carry it; else `FeatureError`."""
    return checked(feature, "an attachment", data, MAX_ATTACHMENT)
