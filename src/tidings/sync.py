"""The blocking facade: the same client for programs without an event loop.

    with tidings.sync.connect("tidings://localhost:7311") as client:
        client.publish(type="quote", symbol="SAP", price=182.4)
        for quote in client.subscribe("type = 'quote' AND price > 100"):
            print(quote["symbol"], quote["price"])

An event loop runs in one background thread; every call is handed to it and waited for. Any number of threads may
share a client. Leaving the context manager ends the loop and the thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import logging
import ssl
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar

from tidings import client as asynchronous
from tidings.client import ClientStatistics
from tidings.history import CacheLimits
from tidings.model import EVERYTHING, Bound, Duplicates, EventKey, Matches, Notification, TidingsError
from tidings.scopes import ScopeEnded
from tidings.wire import Consistency, Gap, HistoryReport, Measured, Offers, Page, Quality, Status

__all__ = ["Admin", "Client", "Subscription", "connect"]

log = logging.getLogger("tidings.client")

BATCH = 1_000
"""Notifications that one visit to the loop's thread brings along at most."""

_T = TypeVar("_T")
_P = ParamSpec("_P")


class _Thread:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="tidings", daemon=True)
        self._thread.start()

    def call(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Run something on the loop and wait for it."""
        if threading.current_thread() is self._thread:
            work.close()
            raise TidingsError("a callback must not wait for the client; iterate over the subscription instead")
        if self._loop.is_closed():
            work.close()
            raise TidingsError("this client is closed; connect again")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()  # Ctrl-C: whoever waited no longer does
            raise

    def stop(self) -> None:
        """End the loop and the thread."""
        if self._loop.is_closed():
            return
        with contextlib.closing(self._loop):
            # In its own thread: that of the caller may have a running loop, as in a notebook.
            self.call(_end_tasks())
            self.call(self._loop.shutdown_asyncgens())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()


async def _end_tasks() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class Client:
    """A connection to the service. Made by `tidings.sync.connect`."""

    def __init__(self, make: Callable[[], asynchronous.Client]) -> None:
        self._thread = _Thread()
        try:
            self._client = self._thread.call(_opened(make))
        except BaseException:
            self._thread.stop()
            raise
        self._closed = False
        self.admin = Admin(self._thread, self._client.admin)
        """The scope graph: who sees what."""

    @property
    def name(self) -> str:
        """The name of this client at the broker."""
        return self._client.name

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close(error)

    def close(self) -> None:
        """Wait for what is under way, say goodbye, end the thread. Closing again does nothing."""
        self._close(None)

    def _close(self, error: BaseException | None) -> None:
        if self._closed:
            return
        self._closed = True
        try:
            self._thread.call(self._client.__aexit__(type(error) if error else None, error, None))
        finally:
            self._thread.stop()

    def publish(
        self,
        notification: Mapping[str, object] | None = None,
        /,
        *,
        quality: Quality | str = Quality.ACCEPTED,
        ttl: float | None = None,
        **attributes: object,
    ) -> EventKey | None:
        """Publish, wait until the publication has reached its quality, and return the key of the event.

        Quality `fire` does not wait, and has no key. `publish_many` is the fast way for many.
        """

        async def work() -> EventKey | None:
            given = notification if not attributes else Notification(notification or {}, **attributes)
            return await (await self._client.publish(given, quality=quality, ttl=ttl))

        return self._thread.call(work())

    def publish_many(
        self,
        notifications: Iterable[Mapping[str, object]],
        *,
        quality: Quality | str = Quality.ACCEPTED,
        first: int | None = None,
    ) -> int:
        """Publish one after the other without waiting for each, then wait for all; how many there were.

        `first` is the number of the first one, for clients that were connected with `own_numbers`.
        """
        source = iter(notifications)  # read here, in the thread of the caller: it may be slow
        count = 0
        while batch := list(itertools.islice(source, BATCH)):
            self._thread.call(self._publish_batch(batch, quality, None if first is None else first + count))
            count += len(batch)
        self._thread.call(self._client.flush())
        return count

    async def _publish_batch(
        self, batch: list[Mapping[str, object]], quality: Quality | str, first: int | None
    ) -> None:
        for at, notification in enumerate(batch):
            await self._client.publish(
                notification, quality=quality, publisher_seq=None if first is None else first + at
            )

    def subscribe(
        self,
        filter: Matches | str,
        *,
        callback: Callable[[Notification], None] | None = None,
        on_gap: Callable[[Gap], None] | None = None,
        receive_own: bool = True,
        durable: str | None = None,
        past: Bound | None = None,
        consistency: Consistency | str = Consistency.STRICT,
        timeout: float | None = None,
        respect_ttl: bool = False,
        with_origin: bool = False,
        duplicates: Duplicates | str = Duplicates.DEFAULT,
    ) -> Subscription:
        """Subscribe, and wait until the whole network knows. All is as in `tidings.Client.subscribe`.

        Iterate over the result. Or give a `callback`: it runs in the background thread, so it must be short and must
        not use this client.
        """

        async def work() -> asynchronous.Subscription:
            heard = None if callback is None else functools.partial(_call, callback)
            subscription = self._client.subscribe(
                filter,
                callback=heard,
                on_gap=on_gap,
                receive_own=receive_own,
                durable=durable,
                past=past,
                consistency=consistency,
                timeout=timeout,
                respect_ttl=respect_ttl,
                with_origin=with_origin,
                duplicates=duplicates,
            )
            return await subscription

        return Subscription(self._thread, self._thread.call(work()))

    def browse(self, filter: Matches | str = EVERYTHING) -> Offers:
        """What is advertised anywhere and may bring something that passes the filter; as `tidings.Client.browse`."""
        return self._thread.call(self._client.browse(filter))

    def measure_log(
        self, after: tuple[int, int] = (0, 0), *, rows: int = 0, size: int = 0, timeout: float | None = None
    ) -> Measured:
        """What the log of the broker holds, and how far one gets in it; as `tidings.Client.measure_log`."""
        return self._thread.call(self._client.measure_log(after, rows=rows, size=size, timeout=timeout))

    def read_log(
        self,
        after: tuple[int, int],
        upto: tuple[int, int],
        filter: Matches | str = EVERYTHING,
        *,
        timeout: float | None = None,
    ) -> Iterator[Page]:
        """What the log of the broker holds after one position, up to another; as `tidings.Client.read_log`."""
        pages = self._client.read_log(after, upto, filter, timeout=timeout)
        while (page := self._thread.call(_next(pages))) is not None:
            yield page

    def forget(self, name: str) -> None:
        """End a durable subscription for good: the broker keeps nothing of it. Ending it again does nothing."""
        self._thread.call(self._client.forget(name))

    def advertise(self, filter: Matches | str) -> str:
        """Announce what this client may publish; returns its id once the network knows."""
        return self._thread.call(self._client.advertise(filter))

    def unadvertise(self, id: str) -> None:
        """Take an advertisement back."""
        self._thread.call(_called(lambda: self._client.unadvertise(id)))

    def statistics(self) -> ClientStatistics:
        """What this client has done so far."""
        return self._thread.call(_called(self._client.statistics))

    def status(self) -> Status:
        """What the broker says about itself; only those who may administer it are answered."""
        return self._thread.call(self._client.status())


def _blocking(
    method: Callable[Concatenate[asynchronous.Admin, _P], Coroutine[Any, Any, _T]],
) -> Callable[Concatenate[Admin, _P], _T]:
    """The same method, waited for."""

    @functools.wraps(method)
    def call(self: Admin, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        return self.thread.call(method(self.admin, *args, **kwargs))

    return call


class Admin:
    """The scope graph, as far as this client may see and change it; as `tidings.client.Admin`, and waits."""

    def __init__(self, thread: _Thread, admin: asynchronous.Admin) -> None:
        self.thread = thread
        self.admin = admin

    create_scope = _blocking(asynchronous.Admin.create_scope)
    destroy_scope = _blocking(asynchronous.Admin.destroy_scope)
    set_interface = _blocking(asynchronous.Admin.set_interface)
    impose = _blocking(asynchronous.Admin.impose)
    set_delivery = _blocking(asynchronous.Admin.set_delivery)
    extend = _blocking(asynchronous.Admin.extend)
    retract = _blocking(asynchronous.Admin.retract)
    set_attributes = _blocking(asynchronous.Admin.set_attributes)
    set_administration = _blocking(asynchronous.Admin.set_administration)
    join = _blocking(asynchronous.Admin.join)
    leave = _blocking(asynchronous.Admin.leave)
    set_selective = _blocking(asynchronous.Admin.set_selective)
    set_mapping = _blocking(asynchronous.Admin.set_mapping)
    set_placement = _blocking(asynchronous.Admin.set_placement)
    change = _blocking(asynchronous.Admin.change)
    graph = _blocking(asynchronous.Admin.graph)
    explain = _blocking(asynchronous.Admin.explain)
    log = _blocking(asynchronous.Admin.log)

    @property
    def on_scope_end(self) -> Callable[[ScopeEnded], None]:
        """Called in the background thread when a scope has ended that this client is a member of."""
        return self.admin.on_scope_end

    @on_scope_end.setter
    def on_scope_end(self, callback: Callable[[ScopeEnded], None]) -> None:
        self.admin.on_scope_end = callback


class Subscription(Iterator[Notification]):
    """What `Client.subscribe` returns. Iterating waits for notifications, until the subscription ends."""

    def __init__(self, thread: _Thread, subscription: asynchronous.Subscription) -> None:
        self._thread = thread
        self._subscription = subscription
        self._here: deque[Notification] = deque()

    @property
    def gaps(self) -> list[Gap]:
        """What was lost, as far as it is known."""
        return list(self._subscription.gaps)

    def __iter__(self) -> Subscription:
        return self

    def __next__(self) -> Notification:
        return self._next(None)

    def receive(self, timeout: float | None = None) -> Notification | None:
        """The next notification; None if none came in `timeout` seconds, or if the subscription has ended."""
        try:
            return self._next(timeout)
        except (StopIteration, TimeoutError):
            return None

    def within(self, timeout: float) -> Iterator[Notification]:
        """Iterate until nothing has come for `timeout` seconds."""
        while (notification := self.receive(timeout)) is not None:
            yield notification

    def _next(self, timeout: float | None) -> Notification:
        while True:
            try:
                return self._here.popleft()
            except IndexError:
                if not self._thread.call(self._fetch(timeout)):
                    raise StopIteration from None

    async def _fetch(self, timeout: float | None) -> bool:
        """Bring what has come, at least one; False at the end. What came is kept here, so cancelling loses nothing."""
        try:
            async with asyncio.timeout(timeout):
                self._here.append(await anext(self._subscription))
        except StopAsyncIteration:
            return False
        if self._subscription.durable is not None:
            return True  # asking for more would say that this one has been handled
        for _ in range(min(self._subscription.waiting, BATCH)):
            self._here.append(await anext(self._subscription))
        return True

    @property
    def history_report(self) -> HistoryReport | None:
        """What came from the past, once that is known; None for a subscription that does not reach back."""
        return self._subscription.history_report

    def acknowledge(self) -> None:
        """Of a durable subscription: what was taken is handled. Returns when the broker has that on disk."""
        self._thread.call(self._subscription.acknowledge())

    def update(self, filter: Matches | str) -> None:
        """Change the filter. What passes both the old and the new one arrives without loss and once."""
        self._thread.call(self._updated(filter))

    async def _updated(self, filter: Matches | str) -> None:
        self._subscription.update(filter)
        await self._subscription

    def unsubscribe(self) -> None:
        """End the subscription; what is waiting can still be read. Ending it again does nothing."""
        self._thread.call(_called(self._subscription.unsubscribe))

    def __enter__(self) -> Subscription:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.unsubscribe()


def connect(
    urls: str | Sequence[str] = "tidings://localhost:7311",
    *,
    name: str | None = None,
    token: str | None = None,
    tls: ssl.SSLContext | None = None,
    remember: CacheLimits | None = None,
    own_numbers: bool = False,
) -> Client:
    """A blocking client of the service, connected. Use it with `with`, or call `close`.

    The parameters are those of `tidings.connect`.
    """
    return Client(
        lambda: asynchronous.connect(urls, name=name, token=token, tls=tls, remember=remember, own_numbers=own_numbers)
    )


async def _opened(make: Callable[[], asynchronous.Client]) -> asynchronous.Client:
    return await make().__aenter__()


async def _next(pages: AsyncIterator[Page]) -> Page | None:
    return await anext(pages, None)


async def _called(work: Callable[[], _T]) -> _T:
    return work()


def _call(callback: Callable[[Notification], None], notification: Notification) -> None:
    """An error in a callback is the application's; it must not end the connection."""
    try:
        callback(notification)
    except Exception:
        log.exception("a callback failed")
