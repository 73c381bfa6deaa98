"""`client.aggregates`: questions about the traffic, answered inside the network.

A watch is told a value now and whenever it changes by more than its bound. It survives reconnecting, as a subscription
does: a broker that begins a new session is asked again. While there is no connection, what is known is incomplete.
Values are absolute, so an application that is slow gets the newest one, and nothing piles up.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Any

import msgspec

from tidings import aggregation
from tidings.aggregation import check_bound
from tidings.aggregation.definitions import Included, group_of
from tidings.aggregation.messages import (
    AnyMessage,
    Declined,
    Look,
    Offered,
    Result,
    Seen,
    Tune,
    Unwatch,
    Watch,
    decode,
    encode,
)
from tidings.broker import check_filter, check_place
from tidings.model import ROOT_SCOPE, AggregateError, ArgumentRefused, Filter, FilterError, Notification, TidingsError
from tidings.wire import Refused, encode_body

from ._arguments import filter_of, name_of, shown, timeout_of
from ._deploying import Deploying
from ._pending import Pending
from ._receipt import error_of
from ._receivers import Counting, Identities

log = logging.getLogger("tidings.client")

GET_TIMEOUT = 10.0
"""Seconds to wait for a complete value, unless the caller says otherwise."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class AggregateValue:
    """A value of an aggregate, as one broker knew it."""

    value: Any
    """A number; of a question with several measures, a list; of one with BY, these by the values of each group."""
    error: float
    """At rest, the truth is at most this far away, if the value is complete."""
    complete: bool
    """Whether every broker of the network has contributed."""
    version: str
    """The version of the aggregate."""
    as_of: datetime
    """When the broker said so, by its clock."""
    window: tuple[datetime, datetime] | None = None
    """From when to when something was published that the value is about; None: it is about now."""
    withheld: bool = False
    """Whether there is a number, which is too small to be told to this client; `value` is None then."""
    included: tuple[Included, ...] | None = None
    """Of a complete value of a window, the publications that it is about: of each origin, those with numbers from
    `first` to `last` that fall into the window. None: that is not known, as of Python that was deployed."""


class AggregateWatch(AsyncIterator[AggregateValue]):
    """A value that is watched. Made by `Aggregates.watch`; iterate over it, and close it, or use `async with`."""

    def __init__(self, send: Callable[[AnyMessage], None], request: Watch, ended: Callable[[str], object]) -> None:
        self._send = send
        self._request = request
        self._on_end = ended
        self._known: AggregateValue | None = None
        self._next: AggregateValue | None = None
        self._news = asyncio.Event()
        self._error: TidingsError | None = None
        self._closed = False
        send(request)

    @property
    def aggregate(self) -> str:
        """The name of the aggregate."""
        return self._request.aggregate

    @property
    def max_error(self) -> float:
        """How far from the truth a complete value may be, once nothing is under way."""
        return self._request.max_error

    @property
    def last(self) -> AggregateValue | None:
        """The newest value; None: none has arrived yet."""
        return self._known

    def __aiter__(self) -> AggregateWatch:
        return self

    async def __anext__(self) -> AggregateValue:
        """Wait for a value that is newer than the one before."""
        while self._next is None:
            if self._error is not None:
                raise self._error
            if self._closed:
                raise StopAsyncIteration
            self._news.clear()
            await self._news.wait()
        value, self._next = self._next, None
        return value

    def set_max_error(self, max_error: float) -> None:
        """Ask for another bound from now on."""
        bound = check_bound(max_error)
        if self._closed:
            raise AggregateError(f"the watch of {self.aggregate} has been closed; watch it again")
        self._request = msgspec.structs.replace(self._request, max_error=bound)
        self._send(Tune(self._request.id, bound))

    def close(self) -> None:
        """Watch no longer. Closing it again does nothing."""
        if not self._closed:
            self._send(Unwatch(self._request.id))
            self._finish(None)

    async def __aenter__(self) -> AggregateWatch:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- for the client -------------------------------------------------------------------------------

    def heard(self, result: Result) -> None:
        """Take a value that has arrived."""
        value, window = result.value, None
        if result.window is not None:
            start, end = (_EPOCH + timedelta(milliseconds=one) for one in result.window)
            window = (start, end)
            if isinstance(value, dict):
                value = {group_of(group): one for group, one in value.items()}
        at = _EPOCH + timedelta(microseconds=result.as_of)
        known = AggregateValue(
            value, result.error, result.complete, result.version, at, window, result.withheld, result.included
        )
        self._offer(known)

    def refused(self, error: TidingsError) -> None:
        """The broker does not answer this."""
        self._finish(error)

    def disconnected(self) -> None:
        """What is known may be outdated."""
        if self._known is not None and self._known.complete:
            self._next = dataclasses.replace(self._known, complete=False)
            self._news.set()

    def resumed(self) -> None:
        """The connection is back, and the broker has said everything all the while."""
        if self._known is not None and self._known.complete:
            self._offer(self._known)

    def ask_again(self) -> None:
        """The session is new, and its broker knows nothing of this watch."""
        self._send(self._request)

    def _offer(self, value: AggregateValue) -> None:
        self._known = self._next = value
        self._news.set()

    def _finish(self, error: TidingsError | None) -> None:
        self._closed, self._error = True, error
        self._news.set()
        self._on_end(self._request.id)


class Aggregates(Deploying):
    """The aggregates of the network, as far as this client may see them."""

    def __init__(
        self,
        send: Callable[[bytes], None],
        check: Callable[[], None],
        counting: Counting,
        deploy: Callable[[bytes], None] = lambda body: None,
    ) -> None:
        """`send` and `deploy` send a message about values, and one about deployments."""
        super().__init__(deploy, check)
        self._counting = counting
        self._send = send
        self._check = check
        self._watches: dict[str, AggregateWatch] = {}
        self._looks: Pending[Seen] = Pending()
        self._count = 0

    def watch(
        self,
        aggregate: str,
        *,
        filter: Filter | str | None = None,
        probe: Mapping[str, object] | None = None,
        max_error: float = 0,
        scope: str = ROOT_SCOPE,
        away: bool = False,
        window: str | None = None,
        of: str = "",
        edges: Sequence[float] = (),
    ) -> AggregateWatch:
        """Watch an aggregate: iterate over the result for a value now, and one whenever it changes.

        It is a name, as `list` returns them, or a question like `"p95(load) BY rack WINDOW 60s WHERE type = 'load'"`,
        which has its own filter, and a value for each window of time.

        The key is a `filter`; without one, everything counts. With `probe`, the attributes of a notification, exactly
        those subscriptions count that it would pass. A value may be off by `max_error`, which saves messages. The first
        values are not `complete`: not all brokers have answered yet. A name that no broker knows, or what this client
        may not count, is raised by the first iteration.

        `publication_rate`, `load`, `subscription_rate`, `active_publishers` and `distribution` are questions about what
        passes the `filter` within a `window`, by default of ten seconds; `distribution` is that of the values of the
        attribute `of` between `edges`.

        Those count who are in `scope`, or in scopes inside it whose borders let counts pass; by default, in the root
        scope. With `away=True`, clients count as well whose connections are lost, until their brokers give them up.
        """
        bound = check_bound(max_error)
        if aggregate in aggregation.SUPPLIED:
            wanted = None if filter is None else filter_of(filter)
            if wanted is not None and not isinstance(wanted, Filter):
                raise FilterError(f"{shown(wanted)} is a filter of a class of its own; use the filter language")
            lasting = window if window is not None else aggregation.DEFAULT_WINDOW
            question = aggregation.supplied_question(aggregate, wanted, window=lasting, of=of, edges=edges)
            assert question is not None
            aggregate, filter = question, None
        elif window is not None or of or edges:
            raise ArgumentRefused(
                f"{shown(aggregate)} is no aggregate with window, of and edges; choose one of "
                f"{', '.join(aggregation.SUPPLIED)}, or write a question"
            )
        if aggregation.is_question(aggregate):
            name = aggregation.question_of(aggregate).name
            if bound or filter is not None or probe is not None or away:
                raise ArgumentRefused(
                    f"{shown(aggregate)} has its own filter, behind WHERE, and is exact; leave filter, probe, "
                    "max_error and away out"
                )
        else:
            name = name_of(aggregate, "aggregate", "give the name of an aggregate, as `list` returns them")
        if filter is not None and probe is not None:
            raise ArgumentRefused("a filter and a probe; give one of them")
        key = "" if filter is None else _key(filter)
        body = b"" if probe is None else encode_body(_probe(probe))
        where = scope if scope == ROOT_SCOPE else name_of(scope, "scope", "give the name of a scope")
        self._check()
        self._count += 1
        id = f"w{self._count}"
        request = Watch(id, name, key, body, bound, where, away)
        watch = self._watches[id] = AggregateWatch(self._say, request, lambda id: self._watches.pop(id, None))
        return watch

    async def get(
        self,
        aggregate: str,
        *,
        filter: Filter | str | None = None,
        probe: Mapping[str, object] | None = None,
        max_error: float = 0,
        scope: str = ROOT_SCOPE,
        away: bool = False,
        window: str | None = None,
        of: str = "",
        edges: Sequence[float] = (),
        timeout: float | None = GET_TIMEOUT,
    ) -> AggregateValue:
        """Return one complete value. `AggregateError` if there is none in `timeout` seconds: a broker is missing.

        A question has a value when all of its window has passed; that time comes on top.
        """
        timeout_of(timeout)
        watching = self.watch(
            aggregate,
            filter=filter,
            probe=probe,
            max_error=max_error,
            scope=scope,
            away=away,
            window=window,
            of=of,
            edges=edges,
        )
        async with watching as watch:
            if timeout is not None and aggregation.is_question(watch.aggregate):
                lasting = aggregation.question_of(watch.aggregate).window
                assert lasting is not None
                timeout += (lasting.size_ms + 2 * lasting.slide_ms + 1_000) / 1_000
            try:
                async with asyncio.timeout(timeout):
                    async for value in watch:
                        if value.complete:
                            return value
            except TimeoutError:
                known = "nothing" if watch.last is None else f"{watch.last.value} so far"
                raise AggregateError(
                    f"{aggregate}: not every broker has answered in {timeout:g} seconds, {known}; `watch` it to see "
                    "incomplete values, or wait longer with `timeout`"
                ) from None
        raise AggregateError(f"{aggregate}: the watch was closed before there was a value; ask again")

    async def potential_receivers(
        self,
        key: Filter | str | Mapping[str, object] | None = None,
        /,
        *,
        scope: str = ROOT_SCOPE,
        timeout: float | None = GET_TIMEOUT,
        **attributes: object,
    ) -> int | None:
        """Return how many clients would hear a notification with these attributes, or could hear some of a filter.

        None: there are some, and so few that this client is not told how many.
        """
        probe: dict[str, object] | None = None
        if attributes or isinstance(key, Mapping):
            if key is not None and not isinstance(key, Mapping):
                raise ArgumentRefused(f"{shown(key)} and attributes; give a filter, or attributes of a notification")
            probe = {**(key or {}), **attributes}
            key = None
        value = await self.get("subscriber_count", filter=key, probe=probe, scope=scope, timeout=timeout)
        return None if value.withheld else int(value.value)

    async def who(
        self,
        key: Filter | str | Mapping[str, object] | None = None,
        /,
        *,
        scope: str = ROOT_SCOPE,
        timeout: float | None = GET_TIMEOUT,
        **attributes: object,
    ) -> Identities:
        """Return the names of clients that would hear a notification with these attributes, or some of a filter.

        Only administrators are told, and only the names of clients of brokers that allow it: `[aggregation] identity`.
        """
        timeout_of(timeout)
        if key is not None and attributes:
            raise ArgumentRefused(f"{shown(key)} and attributes; give a filter, or attributes of a notification")
        where = scope if scope == ROOT_SCOPE else name_of(scope, "scope", "give the name of a scope")
        self._check()
        if attributes or isinstance(key, Mapping):
            probe = encode_body(_probe(key if isinstance(key, Mapping) else attributes))
            return await self._counting.who("", probe, where, timeout)
        return await self._counting.who("" if key is None else _key(key), b"", where, timeout)

    async def list(self, *, timeout: float | None = GET_TIMEOUT) -> list[Offered]:
        """Return the aggregates that can be watched: name, version, and what they are about."""
        return (await self.status(timeout=timeout)).offered

    async def status(self, *, timeout: float | None = GET_TIMEOUT) -> Seen:
        """Return what is watched at the broker, by its own clients and by others through it."""
        timeout_of(timeout)
        self._check()
        self._count += 1
        id = f"l{self._count}"
        try:
            async with asyncio.timeout(timeout):
                self._say(Look(id))
                return await self._looks.wait(id)
        except TimeoutError:
            raise AggregateError(
                f"the broker has not said in {timeout:g} seconds what it counts; it may be of a version without "
                "aggregation, or have it switched off"
            ) from None

    # --- for the client -------------------------------------------------------------------------------

    def _say(self, message: AnyMessage) -> None:
        self._send(encode(message))

    def heard(self, body: bytes) -> None:
        """The broker has sent something about aggregates."""
        try:
            message = decode(body)
        except TidingsError as error:
            log.warning("the broker has sent something that this client cannot read: %s", error)
            return
        match message:
            case Result(id=id) if id in self._watches:
                self._watches[id].heard(message)
            case Declined(id=id):
                refusal = error_of(Refused(message.error, message.reason, id))
                if id in self._watches:
                    self._watches[id].refused(refusal)
                else:
                    self._looks.refused(id, refusal)
            case Seen(id=id):
                self._looks.came(id, message)

    def disconnected(self) -> None:
        """The connection is lost."""
        for watch in self._watches.values():
            watch.disconnected()

    def resumed(self) -> None:
        """The connection is back, and the session goes on."""
        for watch in self._watches.values():
            watch.resumed()

    def renewed(self) -> None:
        """The session is new."""
        for watch in self._watches.values():
            watch.ask_again()
        lost = AggregateError("the connection was lost before the answer came; ask again")
        self._looks.failed(lost)
        self.deploying_failed(lost)

    def failed(self, error: TidingsError) -> None:
        """Nothing will come any more."""
        for watch in [*self._watches.values()]:
            watch.refused(error)
        self._looks.failed(error)
        self.deploying_failed(error)


def _key(filter: Filter | str) -> str:
    wanted = filter_of(filter)
    if not isinstance(wanted, Filter):
        raise FilterError(
            f"{shown(wanted)} is a filter of a class of its own, which cannot be compared with others; use the filter "
            "language"
        )
    check_filter(wanted)
    check_place(wanted)
    return str(wanted)


def _probe(given: Mapping[str, object]) -> Notification:
    if not isinstance(given, Mapping):
        raise ArgumentRefused(f"probe={shown(given)}; give the attributes of a notification, like {{'price': 182.4}}")
    return given if isinstance(given, Notification) else Notification(given)
