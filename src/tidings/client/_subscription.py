"""A subscription in the hands of an application: iterate over it, wait for it, change it, end it."""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Generator, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, NamedTuple
from weakref import WeakSet

from tidings.broker import Cause, LocalBroker, during, enter, handled_here, leave
from tidings.model import Duplicates, Matches, Notification, Position, TidingsError
from tidings.wire import Gap, HistoryReport, Past

from ._arguments import check_stays, filter_of
from ._callbacks import MISTAKES, Callbacks
from ._terms import Terms
from ._traced import Traced
from ._typed import Misfit

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from ._durable import Durable
    from ._jobs import Jobs
    from ._subscriptions import Subscriptions

    _T = TypeVar("_T", default=Notification)
else:
    from typing import TypeVar

    _T = TypeVar("_T")

log = logging.getLogger("tidings.client")

MAX_QUEUE = 10_000
"""Notifications that wait for a slow application; beyond that the client stops reading from the broker."""
MAX_GAPS = 1_000
"""The most gaps that are remembered."""
COMPLAINT_SECONDS = 60.0
"""How often the log says that notifications do not fit the class that was asked for."""


class _Caused(NamedTuple):
    """A notification that waits, and what it is the cause of."""

    item: Any
    cause: Cause


class Subscription(AsyncIterator[_T], Generic[_T]):
    """A subscription, as `Client.subscribe` returns it.

    `async for n in subscription` yields notifications, or instances of the class that was given as `as_`.
    `await subscription` waits until it has settled: from then on everything that is published anywhere in the network
    arrives. `async with subscription` ends it at the end.
    """

    def __init__(self, subscriptions: Subscriptions, local: LocalBroker, terms: Terms[_T], id: str) -> None:
        self._subscriptions = subscriptions
        self._local = local
        self._terms = terms
        self.filter: Matches = terms.filter
        self.id = id
        self._callback = terms.callback
        """Called with each notification, until it turns out that it has to be awaited."""
        self._calls: Callbacks[_T] | None = None
        """The calls of a callback that has to be awaited."""
        self._queue: deque[Any] = deque()
        self._news = asyncio.Event()
        self._settled = asyncio.Event()
        self._error: TidingsError | None = None
        self._ended = False
        self._unsettled = False
        """Whether it has ended before it settled."""
        self._paused = False
        self.durable: Durable | None = None
        """What makes it outlive this client, if it was asked for."""
        self.jobs: Jobs | None = None
        """What the application says about its jobs, if it is a member of an acknowledged group."""
        self.history_report: HistoryReport | None = None
        """The report on the past, once that has arrived; None before, and for a subscription without a past."""
        self.gaps: deque[Gap] = deque(maxlen=MAX_GAPS)
        """The latest losses that were reported."""
        self.misfits = 0
        """How many notifications were left out because they did not fit the class given as `as_`."""
        self._complained: float | None = None
        self._interrupted = False
        """Whether what has been read has to be looked at again, before the application gets it."""
        self._causes: WeakSet[Cause] = WeakSet()
        """What the application may be handling; what a task has not finished is forgotten when the task is gone."""

    # --- for applications -----------------------------------------------------------------------------

    def __aiter__(self) -> Subscription[_T]:
        return self

    async def __anext__(self) -> _T:
        if self._terms.callback is not None:
            raise TidingsError(
                f"subscription {self.id} hands everything to its callback; iterate over one without `callback`"
            )
        return await self.next()

    async def next(self) -> _T:
        """Wait for the next notification; asking for it counts the one before as handled.

        Until the next is asked for, what this task publishes is a reaction to this one: see docs/sessions.md.
        """
        handling = handled_here()
        if handling:
            self.leave()
        if self.durable is not None:
            self.durable.asked()
        while not self._queue:
            await self._arrival()
        item: _T = self._queue[0]
        if not handling and type(item) is not _Caused and self.durable is None and not self._paused:
            self._queue.popleft()
            return item  # as most are: from no session, and nothing else to do
        item, cause = self._take()
        enter(self, cause)
        return item

    def enter(self, cause: Cause | None) -> None:
        """From now on, what is published in this task or thread is a reaction to what `taken` has returned."""
        enter(self, cause)

    def leave(self) -> None:
        """The notification before is handled."""
        if (cause := leave(self)) is not None:
            self._causes.discard(cause)

    async def taken(self) -> tuple[_T, Cause | None]:
        """Wait for the next notification, and for what it is the cause of, without making it one here."""
        if self.durable is not None:
            self.durable.asked()
        while not self._queue:
            await self._arrival()
        return self._take()

    def _arrival(self) -> Awaitable[object]:
        """To be awaited while nothing is there; the error, or `StopAsyncIteration`, if nothing will come."""
        if self._error is not None:
            raise self._error
        if self._ended:
            raise StopAsyncIteration
        self._news.clear()
        return self._news.wait()

    def _take(self) -> tuple[_T, Cause | None]:
        item, cause = self._queue.popleft(), None
        if type(item) is _Caused:
            item, cause = item
            if not self._terms.keep_context:  # or else it never ends
                self._causes.add(cause)
        if self.durable is not None:
            self.durable.taken()
        if self._paused and len(self._queue) <= MAX_QUEUE // 2:
            self._paused = False
            self._subscriptions.keeps_up(self)
        return item, cause

    def __await__(self) -> Generator[None, None, Subscription[_T]]:
        return self._wait().__await__()

    async def _wait(self) -> Subscription[_T]:
        await self._settled.wait()
        if self._error is not None:
            raise self._error
        if self._unsettled:
            raise TidingsError(f"subscription {self.id} has ended before the network knew it; subscribe again")
        return self

    @property
    def receive_own(self) -> bool:
        """Whether it also gets what this client publishes."""
        return self._terms.receive_own

    @property
    def duplicates(self) -> Duplicates:
        """What counts as a second copy."""
        return self._terms.duplicates

    @property
    def past(self) -> Past | None:
        """How far it reaches into the past, if it does."""
        return self._terms.past

    @property
    def with_origin(self) -> bool:
        """Whether each notification carries its origin, as a `Traced`."""
        return self._terms.with_origin

    @property
    def settled(self) -> bool:
        """Whether every broker that must know this subscription knows it."""
        return self._settled.is_set() and self._error is None and not self._unsettled

    @property
    def ended(self) -> bool:
        """Whether it has ended, so that nothing more arrives."""
        return self._ended

    @property
    def waiting(self) -> int:
        """How many notifications wait for the application."""
        return len(self._queue)

    async def acknowledge(self) -> None:
        """Count everything taken from a durable subscription as handled; return when the broker has that on disk.

        Asking for the next notification acknowledges the one before, too, but does not wait.
        """
        if self.durable is None:
            raise TidingsError(f"subscription {self.id} is not durable, so nothing is kept; subscribe with `durable`")
        await self.durable.keep()

    def update(self, filter: Matches | str) -> None:
        """Change the filter. Notifications that pass both the old and the new one arrive without loss and once."""
        wanted = filter_of(filter)
        self._subscriptions.check(wanted)
        if self._terms.group is not None:
            raise TidingsError(
                f"subscription {self.id} shares what group '{self._terms.group}' gets, and so does its filter; "
                "unsubscribe, and join another group"
            )
        if self.durable is not None:
            check_stays(wanted)
        if self._ended:
            raise TidingsError(f"subscription {self.id} has ended, and its filter cannot be changed; subscribe again")
        self.filter = wanted
        self._interrupted = True
        self._settled.clear()
        if self.durable is not None:
            self.durable.changes()
        self._subscriptions.change(self)

    def unsubscribe(self) -> None:
        """End the subscription. Notifications that wait can still be read, but are not given to a callback.

        Ending it again does nothing.
        """
        self.leave()
        self._end_causes()
        if not self._ended:
            self._subscriptions.end(self)
            if self._calls is not None:
                self._queue.clear()
                self._calls.stop()
            self.finish(None)

    async def __aenter__(self) -> Subscription[_T]:
        return await self._wait()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.unsubscribe()

    # --- for the client -------------------------------------------------------------------------------

    def notify(self, notification: Notification) -> None:
        """Take a notification that has arrived."""
        item: Any = notification
        if self.jobs is not None:
            item = self._subscriptions.job_of(self.jobs, notification)
        elif self._terms.with_origin:
            item = Traced.of(notification, self._subscriptions.delivering, self._subscriptions.delivering_past)
        elif self._terms.typed is not None:
            item = self._terms.typed.of(notification)
            if type(item) is Misfit:
                self._does_not_fit(item)
                return
        if tags := self._local.delivering_tags:
            cause = Cause(tags, kept=self._terms.keep_context)
            if cause.request and item is notification:
                item = self._subscriptions.request_of(notification, cause)
            if self._callback is not None:
                self._call_in_context(item, cause)
                return
            item = _Caused(item, cause)
        elif self._callback is not None:
            self._call(item)
            return
        self._queue.append(item)
        if self.durable is not None:
            self.durable.queued(self._subscriptions.delivering)
        waiting = len(self._queue)
        if waiting == 1:  # only then can anybody have found nothing
            self._news.set()
        if waiting >= MAX_QUEUE and not self._paused:
            self._paused = True
            self._subscriptions.falls_behind(self)

    @property
    def takes_many(self) -> bool:
        """Whether notifications that belong to no session can be taken together: nothing else is asked about each."""
        terms = self._terms
        return self.jobs is None and self.durable is None and terms.typed is None and not terms.with_origin

    def notify_many(self, notifications: Iterator[Any]) -> None:
        """Take notifications that belong to no session, until none is left or the subscription changes."""
        self._interrupted = False
        if self._callback is not None:
            for notification in notifications:
                self._call(notification)
                if self._interrupted:
                    return
                if self._callback is None:
                    break  # it has to be awaited: what follows waits for it
            else:
                return
        waiting = len(self._queue)
        self._queue.extend(notifications)
        if waiting == 0:
            self._news.set()
        if len(self._queue) >= MAX_QUEUE and not self._paused:
            self._paused = True
            self._subscriptions.falls_behind(self)

    def _call(self, item: _T) -> None:
        """Call the callback. If it turns out that it must be awaited, all that follow wait for it."""
        assert self._callback is not None
        result: object = None
        try:
            result = self._callback(item)
        except MISTAKES:  # a mistake of the application must not cost it the connection
            log.exception("a callback failed; subscription %s goes on", self.id)
        if result is not None and inspect.isawaitable(result):
            if self.durable is not None:
                self.durable.queued(self._subscriptions.delivering)
                self.durable.taken()
            self._calls, self._callback = Callbacks(self, self._callback, result), None
            self._subscriptions.calls(self._calls)
        elif self.durable is not None:
            self.durable.moved()

    def _call_in_context(self, item: _T, cause: Cause) -> None:
        """Call the callback; what it publishes, until it has returned or was awaited, reacts to this."""
        with during(self, cause):
            self._call(item)
        if self._calls is None:  # or else it has to be awaited, and what it was begun with ends then
            cause.end()

    def _does_not_fit(self, misfit: Misfit) -> None:
        """Tell the application, or else the log, once in a while."""
        self.misfits += 1
        if self.durable is not None:
            self.durable.moved()
        if self._terms.on_misfit is not None:
            try:
                self._terms.on_misfit(misfit)
            except MISTAKES:  # as in `_call`
                log.exception("`on_misfit` failed; subscription %s goes on", self.id)
            return
        now = time.monotonic()
        if self._complained is None or now - self._complained >= COMPLAINT_SECONDS:
            self._complained = now
            log.warning(
                "subscription %s: %s in %.200r; %s left out so far. `on_misfit` hears of each",
                self.id,
                misfit.problem,
                misfit.notification,
                f"{self.misfits:,}",
            )

    def has_settled(self) -> None:
        """Take note that the subscription has settled."""
        if self.durable is not None:
            self.durable.settled()
        else:
            self._settled.set()

    def position(self) -> dict[str, Position] | None:
        """Return how far it has seen each origin; None if it has ended."""
        return self._subscriptions.position(self)

    def missed(self, gap: Gap) -> None:
        """Take note of a loss that was found before the subscription begins."""
        if not self._ended:
            self._subscriptions.gap(gap)

    def begin(self, after: dict[str, Position] | None) -> None:
        """Begin a durable subscription where the broker says that it left off."""
        if not self._ended:
            self._subscriptions.begin(self, after)

    def is_kept(self) -> None:
        """Take note that a durable subscription has settled, and that the broker has it on disk."""
        self._settled.set()

    def refused(self, error: TidingsError) -> None:
        """Take note that the broker does not keep a durable subscription."""
        self._subscriptions.end(self)
        self.finish(error)

    def remembered(self, report: HistoryReport) -> None:
        """Keep the report on the past."""
        self.history_report = report

    def lost(self, gap: Gap) -> bool:
        """Take note of a loss; return whether the application was told."""
        self.gaps.append(gap)
        if self._terms.on_gap is None:
            return False
        try:
            self._terms.on_gap(gap)
        except MISTAKES:  # as in `_call`
            log.exception("`on_gap` failed; subscription %s goes on", self.id)
        return True

    def _end_causes(self) -> None:
        """Whatever was handed over is handled: a program that goes on without this subscription reacts to nothing."""
        for cause in list(self._causes):
            cause.end()
        self._causes.clear()

    def finish(self, error: TidingsError | None) -> None:
        """End the subscription, with an error if the client failed."""
        if self._ended:
            return
        self._ended = self._interrupted = True
        if self.jobs is not None:
            self.jobs.end()
        self._end_causes()
        self._error = error
        if self._paused:
            self._paused = False
            self._subscriptions.keeps_up(self)
        self._unsettled = not self._settled.is_set()
        self._settled.set()
        self._news.set()
