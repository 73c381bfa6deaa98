"""`client.aggregates` of a blocking client."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType

from tidings import client as asynchronous
from tidings.client import AggregateValue
from tidings.model import ROOT_SCOPE, Filter

from ._thread import LoopThread, waiting_for


class AggregateWatch(Iterator[AggregateValue]):
    """A value that is watched: `tidings.client.AggregateWatch`, but blocking."""

    def __init__(self, thread: LoopThread, twin: asynchronous.AggregateWatch) -> None:
        self._thread = thread
        self._twin = twin

    @property
    def last(self) -> AggregateValue | None:
        """The newest value; None: none has arrived yet."""
        return self._twin.last

    @property
    def max_error(self) -> float:
        """How far from the truth a complete value may be, once nothing is under way."""
        return self._twin.max_error

    def __iter__(self) -> AggregateWatch:
        return self

    def __next__(self) -> AggregateValue:
        value = self._thread.call(self._wait(None))
        if value is None:
            raise StopIteration
        return value

    def receive(self, timeout: float | None = None) -> AggregateValue | None:
        """Return the next value; None if none arrives in `timeout` seconds, or if the watch has been closed."""
        try:
            return self._thread.call(self._wait(timeout))
        except TimeoutError:
            return None

    async def _wait(self, timeout: float | None) -> AggregateValue | None:
        async with asyncio.timeout(timeout):
            return await anext(self._twin, None)

    def set_max_error(self, max_error: float) -> None:
        """Ask for another bound from now on."""
        self._thread.visit(self._twin.set_max_error, max_error)

    def close(self) -> None:
        """Watch no longer. Closing it again does nothing."""
        self._thread.visit(self._twin.close)

    def __enter__(self) -> AggregateWatch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Aggregates:
    """The aggregates of the network: `tidings.client.Aggregates`, but blocking."""

    def __init__(self, thread: LoopThread, twin: asynchronous.Aggregates) -> None:
        self._thread = thread
        self._twin = twin

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
        """Watch an aggregate; iterating waits for values. Everything else is as in `tidings.client.Aggregates`."""

        def watch() -> asynchronous.AggregateWatch:
            return self._twin.watch(
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

        return AggregateWatch(self._thread, self._thread.visit(watch))

    get = waiting_for(asynchronous.Aggregates.get)
    potential_receivers = waiting_for(asynchronous.Aggregates.potential_receivers)
    list = waiting_for(asynchronous.Aggregates.list)
    status = waiting_for(asynchronous.Aggregates.status)
    who = waiting_for(asynchronous.Aggregates.who)
    deploy = waiting_for(asynchronous.Aggregates.deploy)
    upgrade = waiting_for(asynchronous.Aggregates.upgrade)
    rollback = waiting_for(asynchronous.Aggregates.rollback)
    remove = waiting_for(asynchronous.Aggregates.remove)
    quarantine = waiting_for(asynchronous.Aggregates.quarantine)
    deployed = waiting_for(asynchronous.Aggregates.deployed)
    fetch = waiting_for(asynchronous.Aggregates.fetch)
    state = waiting_for(asynchronous.Aggregates.state)
    newest_version = waiting_for(asynchronous.Aggregates.newest_version)
    manifest = waiting_for(asynchronous.Aggregates.manifest)
