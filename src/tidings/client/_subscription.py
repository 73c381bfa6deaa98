"""A subscription in the hands of an application: iterate over it, wait for it, change it, end it."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Generator
from types import TracebackType
from typing import TYPE_CHECKING

from tidings.broker import check_place
from tidings.model import Duplicates, Filter, Matches, Notification, TidingsError
from tidings.wire import Gap, HistoryReport, Past

from ._traced import Traced

if TYPE_CHECKING:
    from ._durable import Durable
    from ._subscriptions import Subscriptions

log = logging.getLogger("tidings.client")

MAX_QUEUE = 10_000
"""Notifications that wait for a slow application; beyond that the client stops reading from the broker."""
MAX_GAPS = 1_000
"""The most gaps that are remembered."""


class Subscription(AsyncIterator[Notification]):
    """What `Client.subscribe` returns.

    `async for n in subscription` yields notifications. `await subscription` waits until it has settled: from then on
    everything that is published anywhere in the network arrives. `async with subscription` ends it at the end.
    """

    def __init__(
        self,
        subscriptions: Subscriptions,
        filter: Matches,
        callback: Callable[[Notification], None] | None,
        on_gap: Callable[[Gap], None] | None,
        receive_own: bool,
    ) -> None:
        self._subscriptions = subscriptions
        self.filter = filter
        self.receive_own = receive_own
        """Whether what this client publishes is wanted, too."""
        self.duplicates = Duplicates.DEFAULT
        """What counts as a second copy."""
        self.past: Past | None = None
        """How far it reaches into the past, if it does."""
        self.with_origin = False
        """Whether each notification tells where it comes from."""
        self.id = ""
        self._callback = callback
        self._on_gap = on_gap
        self._queue: deque[Notification] = deque()
        self._news = asyncio.Event()
        self._settled = asyncio.Event()
        self._error: TidingsError | None = None
        self._ended = False
        self._unsettled = False
        """Whether it has ended before it settled."""
        self._paused = False
        self.durable: Durable | None = None
        """What makes it outlive this client, if it was asked for."""
        self.history_report: HistoryReport | None = None
        """What came from the past, once it has come; None before, and for a subscription that does not reach back."""
        self.gaps: deque[Gap] = deque(maxlen=MAX_GAPS)
        """What was lost, as far as it is known."""

    # --- for applications -----------------------------------------------------------------------------

    def __aiter__(self) -> Subscription:
        return self

    async def __anext__(self) -> Notification:
        if self.durable is not None:
            self.durable.asked()
        while not self._queue:
            if self._error is not None:
                raise self._error
            if self._ended:
                raise StopAsyncIteration
            self._news.clear()
            await self._news.wait()
        notification = self._queue.popleft()
        if self.durable is not None:
            self.durable.taken()
        if self._paused and len(self._queue) <= MAX_QUEUE // 2:
            self._paused = False
            self._subscriptions.keeps_up(self)
        return notification

    def __await__(self) -> Generator[None, None, Subscription]:
        return self._wait().__await__()

    async def _wait(self) -> Subscription:
        await self._settled.wait()
        if self._error is not None:
            raise self._error
        if self._unsettled:
            raise TidingsError(f"subscription {self.id} has ended before the network knew it; subscribe again")
        return self

    @property
    def settled(self) -> bool:
        """Whether everything that must know this subscription knows it."""
        return self._settled.is_set() and self._error is None and not self._unsettled

    @property
    def ended(self) -> bool:
        """Whether nothing more will come."""
        return self._ended

    @property
    def waiting(self) -> int:
        """How many notifications wait for the application."""
        return len(self._queue)

    async def acknowledge(self) -> None:
        """Of a durable subscription: what was taken is handled. Returns when the broker has that on disk.

        Asking for the next notification acknowledges the one before, too, but does not wait.
        """
        if self.durable is None:
            raise TidingsError(f"subscription {self.id} is not durable, so nothing is kept; subscribe with `durable`")
        await self.durable.keep()

    def update(self, filter: Matches | str) -> None:
        """Change the filter. What passes both the old and the new one arrives without loss and once."""
        if isinstance(filter, str):
            filter = Filter.parse(filter)
        check_place(filter)
        self.filter = filter
        self._settled.clear()
        if self.durable is not None:
            self.durable.changes()
        self._subscriptions.change(self)

    def unsubscribe(self) -> None:
        """End the subscription; what is waiting can still be read. Ending it again does nothing."""
        if not self._ended:
            self._subscriptions.end(self)
            self.finish(None)

    async def __aenter__(self) -> Subscription:
        return await self._wait()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.unsubscribe()

    # --- for the client -------------------------------------------------------------------------------

    def notify(self, notification: Notification) -> None:
        """A notification has come."""
        if self.with_origin:
            notification = Traced.of(notification, self._subscriptions.delivering, self._subscriptions.delivering_past)
        if self._callback is not None:
            try:
                self._callback(notification)
            except Exception:  # a mistake of the application must not cost it the connection
                log.exception("a callback failed; subscription %s goes on", self.id)
            if self.durable is not None:
                self.durable.moved()
            return
        self._queue.append(notification)
        if self.durable is not None:
            self.durable.queued(self._subscriptions.delivering)
        waiting = len(self._queue)
        if waiting == 1:  # only then can anybody have found nothing
            self._news.set()
        if waiting >= MAX_QUEUE and not self._paused:
            self._paused = True
            self._subscriptions.falls_behind(self)

    def has_settled(self) -> None:
        """The service says so."""
        if self.durable is not None:
            self.durable.settled()
        else:
            self._settled.set()

    def position(self) -> dict[str, tuple[int, int]] | None:
        """How far it has seen each origin; None if it has ended."""
        return self._subscriptions.position(self)

    def begin(self, after: dict[str, tuple[int, int]] | None) -> None:
        """Of a durable one: it is known where it goes on."""
        if not self._ended:
            self._subscriptions.begin(self, after)

    def is_kept(self) -> None:
        """Of a durable one: it has settled, and the broker has it on disk."""
        self._settled.set()

    def refused(self, error: TidingsError) -> None:
        """Of a durable one: the broker does not keep it."""
        self._subscriptions.end(self)
        self.finish(error)

    def remembered(self, report: HistoryReport) -> None:
        """The past is over."""
        self.history_report = report

    def lost(self, gap: Gap) -> bool:
        """Something was lost; whether the application was told."""
        self.gaps.append(gap)
        if self._on_gap is None:
            return False
        try:
            self._on_gap(gap)
        except Exception:  # as in `notify`
            log.exception("`on_gap` failed; subscription %s goes on", self.id)
        return True

    def finish(self, error: TidingsError | None) -> None:
        """Nothing more will come."""
        if self._ended:
            return
        self._ended = True
        self._error = error
        if self._paused:
            self._paused = False
            self._subscriptions.keeps_up(self)
        self._unsettled = not self._settled.is_set()
        self._settled.set()
        self._news.set()
