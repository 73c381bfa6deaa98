"""An event loop in a thread of its own, and methods that wait for it."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import functools
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from tidings.client import ClientNotOpen
from tidings.model import TidingsError

BATCH = 1_000
"""Notifications that one visit to the loop's thread takes along at most."""

_T = TypeVar("_T")
_P = ParamSpec("_P")
_Twin = TypeVar("_Twin")
_Twin_co = TypeVar("_Twin_co", covariant=True)


class LoopThread:
    """The loop on which an asynchronous client lives while blocking ones call it."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._stopping = False
        self._turn = threading.RLock()  # a signal handler may interrupt a call, and call
        """Held while something is given to the loop: it is there before `stop` ends everything, or is refused."""
        self._thread = threading.Thread(target=self._loop.run_forever, name="tidings", daemon=True)
        self._thread.start()

    def call(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Run something on the loop and wait for it."""
        if self.is_current:
            work.close()
            raise TidingsError("a callback must not wait for the client; iterate over the subscription instead")
        with self._turn:
            if self._stopping:
                work.close()
                raise closed()
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
        return self._wait(future)

    def _wait(self, future: concurrent.futures.Future[_T]) -> _T:
        try:
            return future.result()
        except concurrent.futures.CancelledError:  # another thread has closed the client
            raise closed() from None
        except BaseException:
            future.cancel()  # Ctrl-C: whoever waited no longer does
            raise

    @property
    def is_current(self) -> bool:
        """Whether the caller runs in this thread, as callbacks do."""
        return threading.current_thread() is self._thread

    def visit(self, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Call a function that does not wait, where the loop runs."""

        async def work() -> _T:
            return function(*args, **kwargs)

        return self.call(work())

    def stop(self) -> None:
        """End the loop and the thread; calls that wait are told that the client is closed."""
        with self._turn:
            if self._stopping:
                return
            self._stopping = True
        with contextlib.closing(self._loop):
            # In its own thread: that of the caller may have a running loop, as in a notebook.
            self._wait(asyncio.run_coroutine_threadsafe(_end_tasks(), self._loop))
            self._wait(asyncio.run_coroutine_threadsafe(self._loop.shutdown_asyncgens(), self._loop))
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()


def closed() -> ClientNotOpen:
    """What a call of a closed client raises."""
    return ClientNotOpen("this client is closed; connect a new one with tidings.sync.connect(...)")


async def _end_tasks() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class Facade(Protocol[_Twin_co]):
    """What has an asynchronous twin on a loop."""

    @property
    def _thread(self) -> LoopThread: ...

    @property
    def _twin(self) -> _Twin_co: ...


def waiting_for(
    method: Callable[Concatenate[_Twin, _P], Coroutine[Any, Any, _T]],
) -> Callable[Concatenate[Facade[_Twin], _P], _T]:
    """The same method of the facade, which waits."""

    @functools.wraps(method)
    def call(self: Facade[_Twin], /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        return self._thread.call(method(self._twin, *args, **kwargs))

    return call
