"""Real brokers on real sockets inside one event loop, and a peer that speaks the protocol byte by byte."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any

import tidings
from tidings.net import Limits, Options, Server, serve
from tidings.wire import (
    VERSION,
    AnyMessage,
    Frame,
    Hello,
    Parser,
    Part,
    PeerRole,
    Reject,
    Welcome,
    ack,
    decode,
    decode_words,
    encode,
    encode_words,
    part,
)

PATIENCE = 40.0
"""Seconds after which a test that waits for something has failed; a busy machine needs some."""


def running(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Run an async test; at its end no task and no thread may be left."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        threads = set(threading.enumerate())
        asyncio.run(_alone(test(*args, **kwargs)))
        gc.collect()  # whatever was not closed complains now
        assert set(threading.enumerate()) <= threads

    return run


async def _alone(test: Awaitable[None]) -> None:
    async with asyncio.timeout(PATIENCE):
        await test
    left = asyncio.all_tasks() - {asyncio.current_task()}
    assert not left


async def until(happened: Callable[[], object], patience: float = PATIENCE / 2) -> None:
    """Wait until something has happened that sets no event."""
    async with asyncio.timeout(patience):
        while not happened():
            await asyncio.sleep(0.005)


async def take(subscription: tidings.Subscription, count: int) -> list[tidings.Notification]:
    """The next notifications of a subscription."""
    async with asyncio.timeout(PATIENCE / 2):
        return [await anext(subscription) for _ in range(count)]


def url(server: Server) -> str:
    return f"tidings://127.0.0.1:{server.port}"


def options(name: str = "b", *, limits: dict[str, float] | None = None, **more: Any) -> Options:
    """Options of a broker on any free port."""
    return Options(name=name, port=0, limits=Limits(**(limits or {})), **more)  # type: ignore[arg-type]


@contextlib.asynccontextmanager
async def brokers(names: Iterable[str], links: Iterable[str] = (), **more: Any) -> AsyncIterator[dict[str, Server]]:
    """Several brokers; a link "ab" is dialled by b. Ready when all of them are one tree."""
    links = list(links)
    servers: dict[str, Server] = {}
    async with contextlib.AsyncExitStack() as stack:
        for name in names:
            dialled = tuple(url(servers[one]) for one, two in links if two == name)
            servers[name] = await stack.enter_async_context(serve(options(name, neighbours=dialled, **more)))
        if links:
            await until(lambda: connected(servers.values()))
        yield servers


def connected(servers: Iterable[Server]) -> bool:
    """Whether all these brokers are one tree whose links are ready."""
    servers = list(servers)
    return all(
        len(server.host.broker.adjacency.tree.hops) == len(servers) - 1
        and len(server.host.broker.adjacency.open_links) == len(server.host.broker.adjacency.tree_links)
        and server.host.broker.recovery.baseline
        for server in servers
    )


ROUTING = Options("any").routing_kind
"""How brokers of a test route, unless it says otherwise."""


class Raw:
    """One connection that says exactly what it is told to."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._parser = Parser()
        self._parts: list[tuple[int, bytes]] = []
        self.received = 0
        self.welcome: Welcome | None = None

    @classmethod
    async def open(cls, server: Server | int) -> Raw:
        port = server if isinstance(server, int) else server.port
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def __aenter__(self) -> Raw:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    async def close(self) -> None:
        self._writer.transport.abort()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()

    def write(self, data: bytes) -> None:
        self._writer.write(data)

    def finish(self) -> None:
        """Say that nothing more will come; the broker closes when it has read everything."""
        with contextlib.suppress(OSError):
            self._writer.write_eof()

    async def drain(self) -> None:
        await self._writer.drain()

    def send(self, *messages: AnyMessage, tree_epoch: int | None = None) -> None:
        for message in messages:
            frame = Frame(message)
            if tree_epoch is not None:
                frame = Frame(message, type(frame.hop)(tree_epoch))
            self.write(part(Part.DATA, encode(frame)))

    async def part(self) -> tuple[Part, bytes]:
        """The next part; `EOFError` at the end."""
        while not self._parts:
            async with asyncio.timeout(PATIENCE / 2):
                data = await self._reader.read(65_536)
            if not data:
                raise EOFError
            self._parts = self._parser.feed(data)
        kind, payload = self._parts.pop(0)
        self.received += kind == Part.DATA
        return Part(kind), payload

    async def hello(self, name: str = "raw", role: PeerRole = PeerRole.CLIENT, **more: Any) -> Welcome | Reject:
        if role is PeerRole.BROKER:
            more.setdefault("routing", ROUTING)
        hello = Hello(more.pop("versions", (VERSION,)), role, name, **more)
        self.write(part(Part.HELLO, encode_words(hello)))
        kind, payload = await self.part()
        if kind is Part.WELCOME:
            self.welcome = decode_words(payload, Welcome)
            return self.welcome
        assert kind is Part.REJECT
        return decode_words(payload, Reject)

    async def message(self) -> AnyMessage:
        """The next message; pings are answered on the way."""
        while True:
            kind, payload = await self.part()
            if kind is Part.DATA:
                return decode(payload).message
            if kind is Part.PING:
                self.write(part(Part.PONG))
            if kind is Part.REJECT:
                raise EOFError(decode_words(payload, Reject).reason)

    async def expect(self, kind: type[AnyMessage]) -> Any:
        """The next message of this type."""
        while True:
            message = await self.message()
            if isinstance(message, kind):
                return message

    async def gone(self) -> None:
        """Wait until the other side has closed; `TimeoutError` if it does not."""
        with contextlib.suppress(EOFError, ConnectionError):
            while True:
                await self.part()

    async def rejection(self) -> Reject:
        """Wait for the rejection that ends the connection."""
        while True:
            kind, payload = await self.part()
            if kind is Part.REJECT:
                return decode_words(payload, Reject)

    def acknowledge(self) -> None:
        self.write(ack(self.received))


async def well(server: Server) -> None:
    """A well-behaved client is served."""
    async with tidings.connect(url(server)) as client:
        subscription = await client.subscribe("well = TRUE")
        await client.publish(well=True)
        assert (await take(subscription, 1))[0]["well"]
