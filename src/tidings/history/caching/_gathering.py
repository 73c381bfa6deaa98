"""What one broker has gathered for one request: what it remembers, what others have found, what is new meanwhile."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from tidings.broker import Link, Timer
from tidings.history._strategy_options import Align, MergeOrder
from tidings.model import Filter, Position
from tidings.wire import Envelope

from ._order import in_origin_order, key_of, merged, position
from ._requests import RequestId


class Item(NamedTuple):
    """A notification, and the link over which it came."""

    envelope: Envelope
    link: Link | None


class Gathering:
    """One request at one broker. What is old comes before what is new."""

    def __init__(
        self,
        id: RequestId,
        filter: Filter,
        *,
        limit: int,
        since: int | None,
        level: int,
        time: int,
        source: Link | None,
    ) -> None:
        self.id = id
        self.filter = filter
        self.limit = limit
        self.since = since
        self.level = level
        self.time = time
        """Microseconds that this broker may take."""
        self.source = source
        """Who asks; None: a client of this broker."""
        self.old: list[Item] = []
        self.new: list[Item] = []
        self.waiting: set[Link] = set()
        """The neighbours that have been asked and have not answered."""
        self.timer: Timer | None = None

    @property
    def count(self) -> int:
        """How many notifications there are."""
        return len(self.old) + len(self.new)

    @property
    def is_satisfied(self) -> bool:
        """Whether that is enough."""
        return self.count >= self.limit

    @property
    def have(self) -> dict[str, Position]:
        """For each origin, the oldest position that is here."""
        oldest: dict[str, Position] = {}
        for envelope, _ in (*self.old, *self.new):
            origin, at = envelope.identity.origin, position(envelope)
            oldest[origin] = min(at, oldest.get(origin, at))
        return oldest

    def unknown(self, align: Align, found: list[Envelope], link: Link) -> list[Envelope]:
        """What is not here yet of what a neighbour has found."""
        here = [*self.old, *self.new]
        match align:
            case Align.ID:
                keys = {key_of(item.envelope) for item in here}
                return [envelope for envelope in found if key_of(envelope) not in keys]
            case Align.ORIGIN:
                left_out = Counter(item.envelope.identity.origin for item in here)
                fresh = []
                for envelope in reversed(found):
                    if left_out[envelope.identity.origin] > 0:
                        left_out[envelope.identity.origin] -= 1
                    else:
                        fresh.append(envelope)
                return fresh[::-1]
            case Align.COUNT:
                known = sum(item.link is link for item in here)
                return found[: max(0, len(found) - known)]

    def add(self, order: MergeOrder, found: list[Envelope], link: Link) -> None:
        """Put what a neighbour has found, and is not here, among what is old."""
        links = {key_of(item.envelope): item.link for item in self.old}
        if order is MergeOrder.FCFS:
            self.old = [Item(envelope, link) for envelope in found] + self.old
            return
        arranged = merged(order, found, [item.envelope for item in self.old])
        self.old = [Item(envelope, links.get(key_of(envelope), link)) for envelope in arranged]

    def chosen(self, align: Align) -> list[Envelope]:
        """What is delivered: everything new, and of the old as much as the bound leaves.

        What came meanwhile may lie before something that was found, if only a narrower filter let it through. By
        identities each origin is put into its order; counting cannot tell.
        """
        old = [item.envelope for item in self.old]
        if (left := max(0, self.limit - len(self.new))) < len(old):
            old = old[len(old) - left :]
        whole = old + [item.envelope for item in self.new]
        return whole if align is Align.COUNT else in_origin_order(whole)

    def end(self) -> None:
        """Nothing is waited for any more."""
        self.waiting.clear()
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
