"""The blocking client."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import ssl
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, TypeVar, overload

from tidings import client as asynchronous
from tidings.client import (
    COUNT_WITHIN,
    MAX_UNACKNOWLEDGED,
    REQUEST_TIMEOUT,
    Acks,
    AnyPast,
    AnyState,
    ClientStatistics,
    Misfit,
    OnDisconnect,
    OnReconnect,
    State,
)
from tidings.history import CacheLimits
from tidings.model import EVERYTHING, ArgumentRefused, Duplicates, Location, Matches, Notification, TidingsError
from tidings.wire import Consistency, Gap, Page, Quality

from ._admin import Admin
from ._aggregates import Aggregates
from ._groups import Groups
from ._jobs import Job
from ._moves import Moves
from ._receipt import Receipt
from ._subscription import Subscription
from ._thread import BATCH, LoopThread, closed, waiting_for

_T = TypeVar("_T")


class Client:
    """A connection to the service. Made by `tidings.sync.connect`."""

    def __init__(self, make: Callable[[], asynchronous.Client]) -> None:
        _refuse_in_a_world()
        self._thread = LoopThread()
        try:
            self._twin = self._thread.call(_opened(make))
        except BaseException:
            self._thread.stop()
            raise
        self._closed = False
        self.admin = Admin(self._thread, self._twin.admin)
        """The scope graph: who sees what."""
        self.aggregates = Aggregates(self._thread, self._twin.aggregates)
        """Questions about the traffic: how many would hear this?"""
        self.groups = Groups(self._thread, self._twin.groups)
        """Groups: who is in them, and what waits for them."""

    @property
    def name(self) -> str:
        """The name of this client at the broker."""
        return self._twin.name

    @property
    def state(self) -> State:
        """Whether the client is open, closed, or between the two."""
        return self._twin.state

    @property
    def connected(self) -> bool:
        """Whether there is a connection now. An open client without one is trying to reconnect."""
        return self._twin.connected

    @property
    def place(self) -> Location | None:
        """Where the broker of this client stands, which is what `myloc` means in filters; None: that has no place."""
        return self._twin.place

    @property
    def moved(self) -> Moves:
        """The moves of this client from broker to broker; see `tidings.Client.moved`."""
        return Moves(self._thread, self._twin)

    def __enter__(self) -> Client:
        if self._closed:
            raise closed()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close(error)

    def close(self) -> None:
        """Wait until everything under way is done, disconnect, and end the thread. Closing again does nothing.

        Other threads may go on calling: they get `ClientNotOpen`. A callback must not close its client.
        """
        self._close(None)

    def _close(self, error: BaseException | None) -> None:
        if self._closed:
            return
        if self._thread.is_current:
            raise TidingsError("a callback must not close its client, which waits for it; close it in another thread")
        self._closed = True
        try:
            self._thread.call(self._twin.__aexit__(type(error) if error else None, error, None))
        finally:
            self._thread.stop()

    def publish(
        self,
        notification: object = None,
        /,
        *,
        quality: Quality | str = Quality.DEFAULT,
        ttl: float | None = None,
        publisher_seq: int | None = None,
        count_receivers: bool | str = False,
        count_within: float = COUNT_WITHIN,
        quench: bool = False,
        **attributes: object,
    ) -> Receipt | None:
        """Publish, wait until the publication has reached its quality, and return the key of the event.

        Its `quality` says what was reached. Quality `fire` does not wait, and has no key;
        nor has what is left out by `quench`. Use `publish_many` for many
        publications: it is faster. Everything else is as in `tidings.Client.publish`.
        """

        async def work() -> Receipt | None:
            receipt = await self._twin.publish(
                notification,
                quality=quality,
                ttl=ttl,
                publisher_seq=publisher_seq,
                count_receivers=count_receivers,
                count_within=count_within,
                quench=quench,
                **attributes,
            )
            key = await receipt
            return None if key is None or receipt.quality is None else Receipt(key, receipt.quality, receipt.receivers)

        return self._thread.call(work())

    def request(
        self, notification: object = None, /, *, timeout: float = REQUEST_TIMEOUT, **attributes: object
    ) -> Notification:
        """Ask whoever subscribes to this, and return the first reply; see `tidings.Client.request`."""

        async def work() -> Notification:
            return await self._twin.request(notification, timeout=timeout, **attributes)

        return self._thread.call(work())

    reply = waiting_for(asynchronous.Client.reply)

    def publish_many(
        self,
        notifications: Iterable[object],
        *,
        quality: Quality | str = Quality.DEFAULT,
        first: int | None = None,
    ) -> int:
        """Publish one after the other without waiting for each, then wait for all; return how many there were.

        `first` is the number of the first one, for clients that were connected with `own_numbers`.
        """
        if isinstance(notifications, Mapping | str | bytes) or not hasattr(notifications, "__iter__"):
            raise ArgumentRefused(f"notifications={notifications!r:.60}; give a list of mappings or objects")
        source = iter(notifications)  # read here, in the thread of the caller: it may be slow
        count = 0
        while batch := list(itertools.islice(source, BATCH)):
            self._thread.call(self._publish_batch(batch, quality, None if first is None else first + count))
            count += len(batch)
        self._thread.call(self._twin.flush())
        return count

    async def _publish_batch(self, batch: list[object], quality: Quality | str, first: int | None) -> None:
        for at, notification in enumerate(batch):
            await self._twin.publish(notification, quality=quality, publisher_seq=None if first is None else first + at)

    @overload
    def subscribe(
        self,
        filter: Matches | str,
        *,
        callback: Callable[[Notification], object] | None = None,
        on_gap: Callable[[Gap], object] | None = None,
        receive_own: bool = True,
        durable: str | None = None,
        group: str | None = None,
        ack: Literal[False] = False,
        past: AnyPast | None = None,
        consistency: Consistency | str = Consistency.STRICT,
        timeout: float | None = None,
        respect_ttl: bool = False,
        with_origin: bool = False,
        duplicates: Duplicates | str = Duplicates.DEFAULT,
        as_: None = None,
        on_misfit: None = None,
        keep_context: bool = False,
    ) -> Subscription[Notification]: ...

    @overload
    def subscribe(
        self,
        filter: Matches | str,
        *,
        callback: Callable[[Job], object] | None = None,
        on_gap: Callable[[Gap], object] | None = None,
        receive_own: bool = True,
        durable: str | None = None,
        group: str,
        ack: Literal[True] | Acks,
        past: AnyPast | None = None,
        consistency: Consistency | str = Consistency.STRICT,
        timeout: float | None = None,
        respect_ttl: bool = False,
        with_origin: bool = False,
        duplicates: Duplicates | str = Duplicates.DEFAULT,
        as_: None = None,
        on_misfit: None = None,
        keep_context: bool = False,
    ) -> Subscription[Job]: ...

    @overload
    def subscribe(
        self,
        filter: Matches | str,
        *,
        callback: Callable[[_T], object] | None = None,
        on_gap: Callable[[Gap], object] | None = None,
        receive_own: bool = True,
        durable: str | None = None,
        group: str | None = None,
        ack: Literal[False] = False,
        past: AnyPast | None = None,
        consistency: Consistency | str = Consistency.STRICT,
        timeout: float | None = None,
        respect_ttl: bool = False,
        with_origin: bool = False,
        duplicates: Duplicates | str = Duplicates.DEFAULT,
        as_: type[_T],
        on_misfit: Callable[[Misfit], object] | None = None,
        keep_context: bool = False,
    ) -> Subscription[_T]: ...

    def subscribe(
        self,
        filter: Matches | str,
        *,
        callback: Callable[[Any], object] | None = None,
        on_gap: Callable[[Gap], object] | None = None,
        receive_own: bool = True,
        durable: str | None = None,
        group: str | None = None,
        ack: bool | Acks = False,
        past: AnyPast | None = None,
        consistency: Consistency | str = Consistency.STRICT,
        timeout: float | None = None,
        respect_ttl: bool = False,
        with_origin: bool = False,
        duplicates: Duplicates | str = Duplicates.DEFAULT,
        as_: type[Any] | None = None,
        on_misfit: Callable[[Misfit], object] | None = None,
        keep_context: bool = False,
    ) -> Subscription[Any]:
        """Subscribe, and wait until the whole network knows. Everything else is as in `tidings.Client.subscribe`.

        Iterate over the result. Or pass a `callback`: it runs in the background thread, so it must be short and must
        not use this client; an `async def` is awaited there, in order. `on_gap` and `on_misfit` run there, too.
        """

        terms: dict[str, Any] = {
            "callback": callback,
            "on_gap": on_gap,
            "receive_own": receive_own,
            "durable": durable,
            "group": group,
            "ack": ack,
            "past": past,
            "consistency": consistency,
            "timeout": timeout,
            "respect_ttl": respect_ttl,
            "with_origin": with_origin,
            "duplicates": duplicates,
            "as_": as_,
            "on_misfit": on_misfit,
            "keep_context": keep_context,
        }

        async def work() -> asynchronous.Subscription[Any]:
            subscription: asynchronous.Subscription[Any] = self._twin.subscribe(filter, **terms)
            try:
                return await subscription
            except BaseException:
                subscription.unsubscribe()  # nobody waits for it any more, and nobody could end it
                raise

        return Subscription(self._thread, self._thread.call(work()))

    flush = waiting_for(asynchronous.Client.flush)
    forget = waiting_for(asynchronous.Client.forget)
    advertise = waiting_for(asynchronous.Client.advertise)
    status = waiting_for(asynchronous.Client.status)
    browse = waiting_for(asynchronous.Client.browse)
    mobility = waiting_for(asynchronous.Client.mobility)
    evacuate = waiting_for(asynchronous.Client.evacuate)
    import_neighbours = waiting_for(asynchronous.Client.import_neighbours)
    forget_neighbours = waiting_for(asynchronous.Client.forget_neighbours)
    move = waiting_for(asynchronous.Client.move)
    check = waiting_for(asynchronous.Client.check)
    measure_log = waiting_for(asynchronous.Client.measure_log)

    def read_log(
        self,
        after: tuple[int, int],
        upto: tuple[int, int],
        filter: Matches | str = EVERYTHING,
        *,
        timeout: float | None = None,
    ) -> Iterator[Page]:
        """Read the log of the broker after one position, up to another, as `tidings.Client.read_log` does."""
        pages = self._twin.read_log(after, upto, filter, timeout=timeout)
        while (page := self._thread.call(_next(pages))) is not None:
            yield page

    def unadvertise(self, id: str) -> None:
        """Withdraw an advertisement."""
        self._thread.visit(self._twin.unadvertise, id)

    def snapshot(self) -> dict[str, Any]:
        """Return what the next process of this client needs to continue; see `tidings.Client.snapshot`."""
        return self._thread.visit(self._twin.snapshot)

    def statistics(self) -> ClientStatistics:
        """Return the counters of this client."""
        return self._thread.visit(self._twin.statistics)


def connect(
    urls: str | Sequence[str] = "tidings://localhost:7311",
    *,
    name: str | None = None,
    token: str | None = None,
    tls: ssl.SSLContext | None = None,
    serialiser: str = "msgpack",
    max_unacknowledged: int = MAX_UNACKNOWLEDGED,
    remember: CacheLimits | None = None,
    own_numbers: bool = False,
    insecure: bool = False,
    wait: float = 0.0,
    on_disconnect: OnDisconnect | None = None,
    on_reconnect: OnReconnect | None = None,
    attributes: Mapping[str, object] | None = None,
    take_over: bool = False,
    state: AnyState | None = None,
    silence: float | None = None,
    overlap: bool = False,
) -> Client:
    """Return a blocking client of the service, already connected. Use it with `with`, or call `close`.

    The parameters are those of `tidings.connect`. `on_disconnect` and `on_reconnect` run in the background thread.
    """
    return Client(
        lambda: asynchronous.connect(
            urls,
            name=name,
            token=token,
            tls=tls,
            serialiser=serialiser,
            max_unacknowledged=max_unacknowledged,
            remember=remember,
            own_numbers=own_numbers,
            insecure=insecure,
            wait=wait,
            on_disconnect=on_disconnect,
            on_reconnect=on_reconnect,
            attributes=attributes,
            take_over=take_over,
            state=state,
            silence=silence,
            overlap=overlap,
        )
    )


async def _opened(make: Callable[[], asynchronous.Client]) -> asynchronous.Client:
    return await make().__aenter__()


async def _next(pages: AsyncIterator[Page]) -> Page | None:
    return await anext(pages, None)


def _refuse_in_a_world() -> None:
    """Raise if this is a simulated world, whose loop has a `witness`: threads are not simulated."""
    with contextlib.suppress(RuntimeError):  # no loop is running
        if hasattr(asyncio.get_running_loop(), "witness"):
            raise TidingsError(
                "tidings.sync runs in a thread of its own, and a simulated world has none; in a world, use "
                "`async with tidings.connect(...)`"
            )
