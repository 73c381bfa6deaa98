"""One suite, two transports: tests of the client run against real brokers on sockets, and in a simulated world.

    from client.transports import brokers, on_both, on_sockets, take, until, url

`@on_both` runs a test on both, `@on_sockets` where it is about sockets, TLS, files or the limits of a server. What a
test uses of a server is there in a world as well: its address, and the broker in it.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextvars import ContextVar
from types import SimpleNamespace
from typing import Any

from net import world as sockets
from net.proxy import proxy
from net.world import options, take, until

from tidings.aggregation import Aggregation, AggregationOptions, Quenching, Receivers
from tidings.broker import Feature, Role, RoutingOptions
from tidings.groups import Acknowledged, Desk, Groups
from tidings.history import HistoryOptions, Strict
from tidings.mobility import Arrivals, Following, Hosts
from tidings.net import Options, Server
from tidings.scopes import Requests, Rules, Scopes
from tidings.sim import World

__all__ = ["brokers", "on_both", "on_sockets", "options", "serve", "take", "until", "url", "way_to"]

on_sockets = sockets.running
_world: ContextVar[World | None] = ContextVar("world", default=None)


class Simulated:
    """What a test sees of a broker in a world."""

    def __init__(self, world: World, name: str) -> None:
        self._world = world
        self.name = name

    @property
    def host(self) -> SimpleNamespace:
        broker = self._world.network.brokers[self.name]
        return SimpleNamespace(broker=broker, epoch=broker.epoch, peers=self._world.guests(self.name))

    @property
    def url(self) -> str:
        return self._world.url(self.name)


def on_both(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Run an async test on sockets, and in a world; `pytest_generate_tests` in conftest.py makes two of it."""
    on_socket = sockets.running(test)

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        if run.transport == "sockets":  # type: ignore[attr-defined]
            on_socket(*args, **kwargs)
        else:
            asyncio.run(_in_a_world(test, *args, **kwargs))

    run.transport = ""  # type: ignore[attr-defined]
    return run


def _features(name: str) -> tuple[Feature, ...]:
    hosts = Hosts()
    counting = Aggregation(), Receivers(AggregationOptions()), Quenching()
    moving = hosts, Following(hosts.epoch_of), Arrivals()
    scopes, plain = Scopes(name), Groups()
    work = Acknowledged(plain)
    sharing = plain, work, Desk(plain, work)
    return (scopes, Rules(scopes), Strict(HistoryOptions()), *counting, *moving, *sharing, Requests())


async def _in_a_world(test: Callable[..., Awaitable[None]], *args: Any, **kwargs: Any) -> None:
    # The broker that every world has is not used: a test brings its own.
    async with World(brokers=["nobody"], features=_features) as world:
        token = _world.set(world)
        try:
            await test(*args, **kwargs)
        finally:
            _world.reset(token)


def url(server: Server | Simulated) -> str:
    return server.url if isinstance(server, Simulated) else sockets.url(server)


@contextlib.asynccontextmanager
async def serve(options: Options) -> AsyncIterator[Any]:
    """A broker, which ends in order."""
    world = _world.get()
    if world is None:
        async with sockets.serve(options) as server:
            yield server
        return
    assert options.role is Role.BORDER
    _route(world, options.routing)
    if options.name in world.network.names:
        world.restart(options.name)
    else:
        world.add_broker(options.name)
    try:
        yield Simulated(world, options.name)
    finally:
        await asyncio.sleep(1)  # until everything is on disk
        if options.name in world.network.brokers:
            world.crash(options.name)


@contextlib.asynccontextmanager
async def brokers(names: Iterable[str], links: Iterable[str] = (), **more: Any) -> AsyncIterator[dict[str, Any]]:
    """Several brokers, linked and ready."""
    world = _world.get()
    if world is None:
        async with sockets.brokers(names, links, **more) as servers:
            yield servers
        return
    assert more.keys() <= {"routing", "data"}, "a world has no such options: mark the test with on_sockets"
    _route(world, more.get("routing", RoutingOptions()))
    for name in names:
        world.add_broker(name)
    for one, two in links:
        world.link(one, two)
    await world.rest()
    yield {name: Simulated(world, name) for name in names}


class SimulatedWay:
    """What stands between clients and a broker in a world, as `Proxy` does on sockets."""

    def __init__(self, world: World, name: str) -> None:
        self._world = world
        self._name = name
        self._doors: dict[str, Any] = {}
        self.url = world.url(name)

    @property
    def closed(self) -> bool:
        return bool(self._doors)

    @closed.setter
    def closed(self, closed: bool) -> None:
        doors = self._world._connections._doors
        if closed:
            self._doors[self._name] = doors.pop(self._name)
        else:
            doors.update(self._doors)
            self._doors.clear()

    def cut(self) -> None:
        self._world.reset(self._name)


@contextlib.asynccontextmanager
async def way_to(server: Server | Simulated) -> AsyncIterator[Any]:
    """A way to a broker that can be cut, and closed to new connections."""
    if isinstance(server, Simulated):
        way = SimulatedWay(server._world, server.name)
        yield way
        way.closed = False
    else:
        async with proxy(server.port) as real:
            yield real


def _route(world: World, routing: RoutingOptions) -> None:
    world.network.routing = routing
