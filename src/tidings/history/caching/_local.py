"""Local broker caching: the past that an application's own local broker has seen. Nobody is asked.

One local broker may serve several parts of an application. What one of them has subscribed to is remembered, and
another that subscribes to the same, or to less, gets its past from there, at once and without a message.

A border broker names, with each notification, the subscriptions that it knows of. What was under way when a new
subscription set out does not name it, though it matches: it is handed over to it nevertheless, until the border broker
knows the subscription. So there is no hole between what is remembered and what is new.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from tidings.broker import Link, LinkKind, LocalBroker, Observer, from_past, is_located
from tidings.history._cache_limits import CacheLimits
from tidings.history._combinations import Requirement
from tidings.model import Filter, FilterError, Matches, Notification, Position
from tidings.wire import Deliver, Frame, Past

from ._cache import CacheEntry, EventCache
from ._provider import Question


class RememberingLocalBroker(LocalBroker):
    """A local broker with a cache."""

    kind = "local"
    requirements: frozenset[Requirement] = frozenset()

    def __init__(
        self,
        name: str,
        send: Callable[[Frame], None],
        observer: Observer | None = None,
        *,
        limits: CacheLimits | None = None,
        now: Callable[[], int] = lambda: 0,
        **settings: Any,
    ) -> None:
        """`now` is the clock that bounds in time are counted by, in microseconds since 1970 UTC."""
        super().__init__(name, send, observer, **settings)
        self.cache = EventCache(limits or CacheLimits())
        self._now = now
        self._border = Link("border", LinkKind.CLIENT)
        self._entries: dict[str, CacheEntry | None] = {}

    def subscribe(
        self,
        filter: Matches | str,
        callback: Callable[[Notification], None],
        *,
        id: str | None = None,
        past: Past | None = None,
        receive_own: bool = True,
        after: Mapping[str, Position] | None = None,
        **settings: Any,
    ) -> str:
        """As `LocalBroker.subscribe`. The past is delivered before this returns; no border broker hears of it."""
        if isinstance(filter, str):
            filter = Filter.parse(filter)
        if is_located(filter):
            raise FilterError(
                f"'{filter}' uses myloc, but a client that remembers keeps no places; connect without `remember`, or "
                "name the place"
            )
        known = id is not None and id in self.subscriptions
        id = super().subscribe(filter, callback, id=id, receive_own=receive_own, after=after, **settings)
        self.cache.release(self._entries.pop(id, None))
        self._entries[id] = self.cache.retain(filter)
        if past is not None and not known and not after and isinstance(filter, Filter):
            question = Question(filter=filter, limit=past.bound.count, since=past.bound.reference(self._now()))
            for envelope in self.cache.query(question):
                if receive_own or envelope.identity.publisher != self.name:
                    super().receive(Frame(Deliver(from_past(envelope), (id,))))
        return id

    def unsubscribe(self, id: str) -> None:
        self.cache.release(self._entries.pop(id, None))
        super().unsubscribe(id)

    def take(self, data: bytes, at: int) -> tuple[int, int]:
        """Take nothing: each notification is remembered."""
        return at, 0

    def receive(self, frame: Frame) -> None:
        """A frame has come from the border broker."""
        message = frame.message
        if isinstance(message, Deliver):
            self.cache.append(message.envelope, self._border)
            if unnamed := self._unnamed(message):
                message = msgspec.structs.replace(message, subscriptions=(*message.subscriptions, *unnamed))
                frame = Frame(message, frame.hop)
        super().receive(frame)

    def _unnamed(self, message: Deliver) -> list[str]:
        """The subscriptions that the border broker did not know when it sent this."""
        notification = message.envelope.notification
        return [
            id
            for id, filter in self.unconfirmed.items()
            if id not in message.subscriptions and filter.matches(notification)
        ]
