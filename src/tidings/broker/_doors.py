"""Doors: what features say to the same feature at other brokers, beside messages of their own.

Theory of operation
-------------------
*Attachments* ride on a message of the core. Those of `Context.attach` are for the step that is being taken; those of
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
from typing import TYPE_CHECKING, TypeAlias

from tidings.model import FeatureError
from tidings.wire import AnyMessage, Attach, Extension, LinkState, Routed

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

_OUTSIDE_THE_TREE = (LinkState, Attach)


@dataclass(slots=True, eq=False)
class _Rider:
    produce: Produce
    timer: Timer
    carries: Carries


class Doors:
    """What the features of one broker attach and send on."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.attached: dict[Link, dict[str, bytes]] = {}
        """What the next message to each link carries for features; it lives for one step."""
        self.riding: dict[Link, dict[str, _Rider]] = {}
        """What waits for the next message to each link."""

    # --- attachments ----------------------------------------------------------------------------------

    def attach(self, link: Link, feature: str, data: bytes) -> None:
        """Let the next message to a link carry something, if it leaves in this step."""
        self.attached.setdefault(link, {})[feature] = _bounded(feature, data)

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
        waiting = self.riding.setdefault(link, {})
        if feature in waiting:
            waiting[feature].produce = produce
        else:
            timer = broker.call_later(within, lambda: self._go_alone(link, feature))
            waiting[feature] = _Rider(produce, timer, carries)

    def _go_alone(self, link: Link, feature: str) -> None:
        """No message has left in time."""
        rider = self.riding[link].pop(feature)
        if not self.riding[link]:
            del self.riding[link]
        if (data := rider.produce()) is not None:
            self._broker.send(link, Extension(feature, _bounded(feature, data)))

    def take(self, link: Link, message: AnyMessage) -> dict[str, bytes] | None:
        """What goes with a message that leaves on a link now."""
        data = self.attached.pop(link, None)
        if link not in self.riding or isinstance(message, _OUTSIDE_THE_TREE):
            return data
        data = data if data is not None else {}
        riders = self.riding.pop(link)  # whoever produces something may ask for another ride
        staying = {feature: rider for feature, rider in riders.items() if not rider.carries(message)}
        if staying:
            self.riding[link] = staying
        for feature, rider in riders.items():
            if feature in staying:
                continue
            rider.timer.cancel()
            if (produced := rider.produce()) is not None:
                data[feature] = _bounded(feature, produced)
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
        if len(body) > MAX_ROUTED:
            raise FeatureError(
                f"feature '{feature}' sends {len(body):,} bytes to broker '{target}'; send at most {MAX_ROUTED:,}"
            )
        return self.forward(Routed(target, self._broker.name, feature, body), target)

    def routed(self, link: Link, message: Routed) -> None:
        """A message to a broker has come; pass it on if it is for another one."""
        if message.target != self._broker.name:
            self.forward(message, message.target)
        elif (feature := self._broker.features.get(message.feature)) is not None:
            feature.on_routed(message.source, message.body)
        else:
            self._broker.statistics.refused += 1

    def forward(self, message: AnyMessage, target: str) -> bool:
        """Send a message on towards a broker; False if the tree does not lead there now."""
        link = self._broker.adjacency.hop_towards(target)
        if link is not None:
            self._broker.send(link, message)
        return link is not None


def _bounded(feature: str, data: bytes) -> bytes:
    if len(data) > MAX_ATTACHMENT:
        raise FeatureError(
            f"feature '{feature}' attaches {len(data):,} bytes, which is too large for one message; "
            f"attach at most {MAX_ATTACHMENT:,}"
        )
    return data
