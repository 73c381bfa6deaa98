"""A subscription of a blocking client: iterate over it, wait for what comes, change it, end it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Generic, cast

from tidings import client as asynchronous
from tidings.model import Matches, Notification
from tidings.wire import Gap, HistoryReport

from ._jobs import Job
from ._requests import Request
from ._thread import BATCH, LoopThread, waiting_for

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    _T = TypeVar("_T", default=Notification)
else:
    from typing import TypeVar

    _T = TypeVar("_T")


class Subscription(Iterator[_T], Generic[_T]):
    """A subscription, as `Client.subscribe` returns it. Iterating waits for notifications until it ends."""

    def __init__(self, thread: LoopThread, twin: asynchronous.Subscription[_T]) -> None:
        self._thread = thread
        self._twin = twin
        self._here: deque[tuple[_T, asynchronous.Cause | None]] = deque()

    @property
    def id(self) -> str:
        """The id that this client and its broker know it by."""
        return self._twin.id

    @property
    def filter(self) -> Matches:
        """The filter that notifications must pass."""
        return self._twin.filter

    @property
    def settled(self) -> bool:
        """Whether every broker that must know this subscription knows it."""
        return self._twin.settled

    @property
    def ended(self) -> bool:
        """Whether it has ended, so that nothing more arrives."""
        return self._twin.ended

    @property
    def waiting(self) -> int:
        """How many notifications wait for the application."""
        return len(self._here) + self._twin.waiting

    @property
    def history_report(self) -> HistoryReport | None:
        """The report on the past, once it is known; None for a subscription without a past."""
        return self._twin.history_report

    @property
    def misfits(self) -> int:
        """How many notifications were left out because they did not fit the class given as `as_`."""
        return self._twin.misfits

    @property
    def gaps(self) -> list[Gap]:
        """The latest losses that were reported."""
        return list(self._twin.gaps)

    def __iter__(self) -> Subscription[_T]:
        return self

    def __next__(self) -> _T:
        return self._next(None)

    def receive(self, timeout: float | None = None) -> _T | None:
        """Return the next notification; None if none arrives in `timeout` seconds, or if the subscription has ended."""
        try:
            return self._next(timeout)
        except (StopIteration, TimeoutError):
            return None

    def within(self, timeout: float) -> Iterator[_T]:
        """Iterate until nothing has arrived for `timeout` seconds."""
        while (notification := self.receive(timeout)) is not None:
            yield notification

    def _next(self, timeout: float | None) -> _T:
        self._twin.leave()
        while True:
            try:
                item, cause = self._here.popleft()
            except IndexError:
                if not self._thread.call(self._fetch(timeout)):
                    raise StopIteration from None
            else:
                self._twin.enter(cause)  # in this thread: what it publishes now, the loop publishes with its context
                return item

    async def _fetch(self, timeout: float | None) -> bool:
        """Bring what has come, at least one; False at the end. What came is kept here, so cancelling loses nothing."""
        try:
            async with asyncio.timeout(timeout):
                self._here.append(self._for_threads(*await self._twin.taken()))
        except StopAsyncIteration:
            return False
        if self._twin.durable is not None:
            return True  # asking for more would say that this one has been handled
        for _ in range(min(self._twin.waiting, BATCH)):
            self._here.append(self._for_threads(*await self._twin.taken()))
        return True

    def _for_threads(self, item: _T, cause: asynchronous.Cause | None) -> tuple[_T, asynchronous.Cause | None]:
        if isinstance(item, asynchronous.Job):
            item = cast("_T", Job.of_twin(self._thread, item))
        elif isinstance(item, asynchronous.Request):
            item = cast("_T", Request.of_twin(self._thread, item))
        return item, cause

    acknowledge = waiting_for(asynchronous.Subscription.acknowledge)

    def update(self, filter: Matches | str) -> None:
        """Change the filter. Notifications that pass both the old and the new one arrive without loss and once."""
        self._thread.call(self._updated(filter))

    async def _updated(self, filter: Matches | str) -> None:
        self._twin.update(filter)
        await self._twin

    def unsubscribe(self) -> None:
        """End the subscription; notifications that wait can still be read. Ending it again does nothing."""
        self._twin.leave()
        self._thread.visit(self._twin.unsubscribe)

    def __enter__(self) -> Subscription[_T]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.unsubscribe()
