"""Callbacks that have to be awaited: a task takes one notification after the other from the queue of a subscription.

So an `async def` callback gets what an iteration would: everything, in order, one at a time. While it is slow, the
queue grows; when that is full, the client stops reading. What it raises is logged, and the next notification follows.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Generic, TypeVar

from tidings.model import TidingsError

if TYPE_CHECKING:
    from ._subscription import Subscription

_T = TypeVar("_T")

log = logging.getLogger("tidings.client")

MISTAKES = (Exception, asyncio.CancelledError)
"""What a callback may raise without ending anything. `CancelledError` comes out of a future that was cancelled; only
where a task of the client awaits the callback can it mean that this task is cancelled."""


class Callbacks(Generic[_T]):
    """The calls of one subscription."""

    def __init__(
        self,
        subscription: Subscription[_T],
        callback: Callable[[_T], object],
        begun: Awaitable[object],
    ) -> None:
        """`begun` is what the first call has returned: only that tells whether a callback must be awaited."""
        self._subscription = subscription
        self._callback = callback
        self._left: int | None = None
        """How many more calls there will be, once it is known."""
        self._stopped = False
        self._calling = True
        self._task = asyncio.create_task(self._run(begun), name=f"tidings callbacks of {subscription.id}")
        if isinstance(begun, Coroutine):
            self._task.add_done_callback(lambda task: begun.close())  # a task may be cancelled before it begins

    def when_done(self, action: Callable[[Callbacks[_T]], None]) -> None:
        """Call `action` when nothing more will be called."""
        self._task.add_done_callback(lambda task: action(self))

    def stop(self) -> None:
        """Begin no more calls; the one of now goes on to its end."""
        self._stopped = True
        self._left = 0

    async def _run(self, begun: Awaitable[object]) -> None:
        if self._stopped:
            return
        await self._call(begun)
        while self._left is None or self._left > 0:
            try:
                notification = await self._subscription.next()
            except StopAsyncIteration:
                return
            except TidingsError as error:
                log.warning("subscription %s has ended: %s", self._subscription.id, error)
                return
            if self._left is not None:
                self._left -= 1
            await self._call(self._called(notification))

    async def _call(self, call: Awaitable[object]) -> None:
        self._calling = True
        try:
            await call
        except MISTAKES as error:  # a mistake of the application must not cost it what follows
            if isinstance(error, asyncio.CancelledError) and self._task.cancelling():
                raise  # it is this task that ends, not something that the callback waited for
            log.exception("a callback failed; subscription %s goes on", self._subscription.id)
        self._calling = False

    async def _called(self, notification: _T) -> None:
        result = self._callback(notification)
        if isinstance(result, Awaitable):
            await result

    async def drain(self) -> None:
        """Wait until everything that has come so far is handled. What comes now is left."""
        self._left = self._subscription.waiting
        if not self._left and not self._calling:
            self._task.cancel()
        await self._end()

    async def cancel(self) -> None:
        """Call no more, and give up the call of now."""
        self._left = 0
        if not self._is_current:
            self._task.cancel()
            await self._end()

    @property
    def _is_current(self) -> bool:
        """Whether this is called by the callback: one may close its client."""
        return self._task is asyncio.current_task()

    async def _end(self) -> None:
        if not self._is_current:
            await asyncio.wait([self._task])
