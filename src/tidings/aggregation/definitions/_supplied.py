"""The definitions that every broker has for the traffic itself: who listens, who speaks, and how often."""

from __future__ import annotations

from tidings.model import EVERYTHING, Filter

from ._aggregate import Aggregate, Split
from ._codec import plain, whole
from ._counts import Rate
from ._distinct import Distinct
from ._measured import peer
from ._record import JP, Record
from ._windows import Sliding


class _Gauge(Aggregate[int]):
    """A sum of what came and went."""

    version = "1"
    split = Split.SUM
    ranged = True
    integral = True

    def zero(self) -> int:
        return 0

    def combine(self, a: int, b: int) -> int:
        return a + b

    def invert(self, partial: int) -> int:
        return -partial

    def decode(self, data: bytes) -> int:
        return whole(plain(data), self.name)


class SubscriberCount(_Gauge):
    """How many clients subscribe to a key: each counts once, whatever the number of its subscriptions."""

    name = "subscriber_count"
    joinpoints = frozenset({JP.SUB_ADD, JP.SUB_DEL})

    def lift(self, record: Record) -> int | None:
        """A client's first subscription counts, and so does its last one's end."""
        return record.edge if record.ingress and record.edge else None


class PublisherCount(SubscriberCount):
    """How many clients advertise a key."""

    name = "publisher_count"
    joinpoints = frozenset({JP.AD_ADD, JP.AD_DEL})


class SubscriptionCount(_Gauge):
    """How many subscriptions there are to a key: each counts, also if a client has several."""

    name = "subscription_count"
    joinpoints = frozenset({JP.SUB_ADD, JP.SUB_DEL})

    def lift(self, record: Record) -> int | None:
        """One more, or one less."""
        if not record.ingress:
            return None
        return 1 if record.jp is JP.SUB_ADD else -1


class _ByTopic(Aggregate[object]):
    """The key is the topic, not a group."""

    def key(self, record: Record) -> str:
        return record.topic


class PublicationRate(_ByTopic, Rate):
    """How many notifications are published per second, over a window, each counted where it enters."""

    def __init__(self, window: Sliding, where: Filter = EVERYTHING) -> None:
        super().__init__(window=window, where=where, name="publication_rate")


class SubscriptionRate(_ByTopic, Rate):
    """How many subscriptions begin per second, over a window; with `ends`, how many begin or end."""

    def __init__(self, window: Sliding, *, ends: bool = False) -> None:
        joinpoints = frozenset({JP.SUB_ADD, JP.SUB_DEL} if ends else {JP.SUB_ADD})
        super().__init__(window=window, joinpoints=joinpoints, name="subscription_rate")


class ActivePublishers(_ByTopic, Distinct):
    """About how many clients published something within a window.

    A publisher that speaks in two panes is one publisher, so the panes keep sketches of pseudonyms, never numbers.
    """

    def __init__(self, window: Sliding, where: Filter = EVERYTHING) -> None:
        super().__init__(peer, window=window, where=where, name="active_publishers")
