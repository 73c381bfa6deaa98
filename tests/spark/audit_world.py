"""Real brokers that note what they send, some of them with a fault that somebody has planted."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

import tidings
from tidings.broker import Feature, Joinpoint, Registration
from tidings.net import Options, Server, StoreOptions, serve
from tidings.spark import Report, audit
from tidings.wire import Deliver

FOR_EVER = 2**62


class Planted(Feature):
    """Does something to the deliveries of notifications with some numbers `n`."""

    name = "planted"
    privileged = True
    fault = ""

    def __init__(self, fault: str = "", *numbers: int) -> None:
        self.fault = fault
        self._numbers = set(numbers)
        self._held: list[Callable[[], None]] = []

    def advice(self) -> Mapping[Joinpoint, Any]:
        return {Joinpoint.DELIVER: self._deliver}

    def _deliver(self, proceed: Any, route: Any, envelope: Any, link: Any, subscriptions: list[Registration]) -> None:
        chosen = envelope.notification.get("n") in self._numbers
        if chosen and self.fault == "loss":
            return
        if chosen and self.fault == "order":
            self._held.append(lambda: self.context.tell(link, _message(envelope, subscriptions)))
            return
        proceed(route, envelope, link, subscriptions)
        if chosen and self.fault == "duplicate":
            self.context.tell(link, _message(envelope, subscriptions))
        if chosen and self.fault == "leak":
            for other in self.context.clients:
                if other is not link:
                    ids = [one.id for one in self.context.subscriptions if one.link is other]
                    self.context.tell(other, Deliver(envelope, tuple(ids)))
        if chosen and self.fault == "stray":
            self.context.tell(link, Deliver(envelope, ("s99",)))
        held, self._held = self._held, []
        for send in held:
            send()


def _message(envelope: Any, subscriptions: list[Registration]) -> Deliver:
    return Deliver(envelope, tuple(one.id for one in subscriptions))


class World:
    """A line of brokers, each with a store and an archive."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.servers: dict[str, Server] = {}

    @contextlib.asynccontextmanager
    async def running(
        self, names: str = "ab", faults: Mapping[str, Feature] | None = None, **more: Any
    ) -> AsyncIterator[World]:
        async with contextlib.AsyncExitStack() as stack:
            before = ""
            for name in names:
                options = Options(
                    name,
                    port=0,
                    data=self.home / name,
                    neighbours=(self.url(before),) if before else (),
                    store=StoreOptions(deliveries=True),
                    **more,
                )
                features = [faults[name]] if faults and name in faults else []
                self.servers[name] = await stack.enter_async_context(serve(options, features))
                before = name
            async with asyncio.timeout(30):
                while not all(
                    len(one.host.broker.adjacency.tree.hops) == len(names) - 1 for one in self.servers.values()
                ):
                    await asyncio.sleep(0.01)
            yield self

    def url(self, name: str) -> str:
        return f"tidings://127.0.0.1:{self.servers[name].port}"

    def client(self, name: str, at: str) -> Any:
        return tidings.connect(self.url(at), name=name)

    async def acknowledged(self) -> None:
        """Marks follow a second after a publication, and are acknowledged."""
        await asyncio.sleep(2.2)

    def audit(self, **more: Any) -> Report:
        data = [path for path in sorted(self.home.iterdir()) if (path / "store.sqlite").exists()]
        return audit(data, **{"since": 0, "until": FOR_EVER, "skew": 0.0, **more})


async def publish(client: Any, *numbers: int, **more: object) -> None:
    for n in numbers:
        await client.publish({"type": "quote", "n": n, **more}, quality="stored")


def found(report: Report) -> list[tuple[str, str, int]]:
    """What is wrong, with whom, and with which number of its origin."""
    return [(one.kind.value, one.client, one.seq) for one in report.findings]


def rows_of_journal(data: Path) -> list[int]:
    """The rows of a journal, by id."""
    with contextlib.closing(sqlite3.connect(data / "store.sqlite")) as store:
        return [id for (id,) in store.execute("SELECT id FROM journal ORDER BY id")]


def damage_journal(data: Path, *rows: int) -> None:
    """Let some rows of a journal be unreadable."""
    with contextlib.closing(sqlite3.connect(data / "store.sqlite")) as store, store:
        store.executemany("UPDATE journal SET batch = x'00' WHERE id = ?", [(id,) for id in rows])
