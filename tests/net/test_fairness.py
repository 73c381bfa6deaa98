"""Fairness: whoever fills a queue waits for it, and nobody else does."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from pathlib import Path

import pytest
from net.faults import Process
from net.proxy import proxy
from net.test_default_quality import slow_disk
from net.world import Raw, brokers, connected, options, running, until, url

import tidings
from tidings.net import Server, SlowPolicy, serve
from tidings.wire import Subscribe, Welcome

SMALL = {"window_parts": 40, "queue_parts": 100, "window_bytes": 400_000, "queue_bytes": 1_000_000}
FILLING = b"x" * 1_000


async def reads_nothing(server: Server, name: str = "slow", filter: str = "EXISTS(n)") -> Raw:
    """A subscriber that does not read."""
    raw = await Raw.open(server)
    assert isinstance(await raw.hello(name), Welcome)
    raw.send(Subscribe("s1", tidings.Filter.parse(filter)))
    await until(lambda: any(link.name == name for link in subscribers(server)))
    return raw


def subscribers(server: Server) -> list[object]:
    broker = server.host.broker
    return [link for link in broker.clients if broker.registrations.subscriptions(link)]


def is_full(server: Server, name: str) -> bool:
    return any(peer.link.name == name and peer.congested_since is not None for peer in server.host.peers)


async def flood(writer: tidings.Client, count: int = 3_000) -> None:
    for n in range(count):
        await writer.publish(n=n, filling=FILLING)
    await writer.flush()


class Pair:
    """A publisher and a subscriber who have to do with nobody else."""

    def __init__(self, writer: tidings.Client, reader: tidings.Client) -> None:
        self._writer = writer
        self._reader = reader
        self.got = 0

    async def start(self) -> None:
        await self._reader.subscribe("EXISTS(pair)", callback=self._take)

    def _take(self, notification: tidings.Notification) -> None:
        self.got += 1

    async def exchange(self, count: int, patience: float) -> None:
        """Publish and get, one after the other."""
        async with asyncio.timeout(patience):
            for _ in range(count):
                wanted = self.got + 1
                await self._writer.publish(pair=1)
                await until(lambda wanted=wanted: self.got >= wanted)


@contextlib.asynccontextmanager
async def ended(task: asyncio.Task[None]):
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@running
async def test_a_subscriber_that_does_not_read_holds_up_its_publisher_and_no_other_pair() -> None:
    limits = {**SMALL, "block_seconds": 30.0}
    async with brokers("b", limits=limits, slow_policy=SlowPolicy.BLOCK) as servers, contextlib.AsyncExitStack() as at:
        server = servers["b"]
        clients = [await at.enter_async_context(tidings.connect(url(server))) for _ in range(3)]
        pair = Pair(clients[1], clients[2])
        await pair.start()
        await at.enter_async_context(await reads_nothing(server))
        publishing = asyncio.create_task(flood(clients[0]))
        async with ended(publishing):
            await until(lambda: is_full(server, "slow"))
            await pair.exchange(100, patience=15)
            assert is_full(server, "slow")
            assert not publishing.done()


@running
async def test_a_subscriber_that_does_not_read_never_holds_up_the_link_of_a_neighbour() -> None:
    limits = {**SMALL, "block_seconds": 30.0}
    async with (
        brokers("ab", ["ab"], limits=limits, slow_policy=SlowPolicy.BLOCK) as servers,
        contextlib.AsyncExitStack() as at,
    ):
        far, near = servers["a"], servers["b"]
        writer, publisher = [await at.enter_async_context(tidings.connect(url(far))) for _ in range(2)]
        pair = Pair(publisher, await at.enter_async_context(tidings.connect(url(near))))
        await pair.start()
        raw = await at.enter_async_context(await reads_nothing(near))
        await until(lambda: len(far.host.broker.root.subscriptions) == 2)
        publishing = asyncio.create_task(flood(writer))
        async with ended(publishing):
            await until(lambda: is_full(near, "slow"))
            await pair.exchange(100, patience=15)
            await asyncio.wait_for(publishing, 15)  # backpressure ends at the border
            slow = next(peer for peer in near.host.peers if peer.link.name == "slow")
            assert slow.dropped > 0
        await raw.close()


@running
async def test_a_stopped_neighbour_is_given_up_and_gets_later_what_it_missed(tmp_path: Path) -> None:
    async with contextlib.AsyncExitStack() as at:
        other = Process("b", tmp_path, ())
        await other.start()
        at.push_async_callback(other.end)
        limits = {**SMALL, "stall_seconds": 1.0, "heartbeat": 60.0}
        here = await at.enter_async_context(
            serve(options("a", neighbours=(f"tidings://127.0.0.1:{other.port}",), limits=limits))
        )
        await until(lambda: len(here.host.broker.adjacency.open_links) == 1 and here.host.broker.recovery.baseline)
        got: list[int] = []
        reader = await at.enter_async_context(tidings.connect(f"tidings://127.0.0.1:{other.port}"))
        await reader.subscribe("EXISTS(n)", callback=lambda n: got.append(n["n"]))
        await until(lambda: len(here.host.broker.root.subscriptions) == 1)
        writer, *two = [await at.enter_async_context(tidings.connect(url(here))) for _ in range(3)]
        pair = Pair(two[0], two[1])
        await pair.start()
        other.send_signal(signal.SIGSTOP)
        try:
            publishing = asyncio.create_task(flood(writer, 4_000))
            async with ended(publishing):
                await until(lambda: is_full(here, "b"))
                await pair.exchange(50, patience=15)
                await asyncio.wait_for(publishing, 20)
                assert not here.host.broker.adjacency.open_links
                await asyncio.sleep(1.5)  # it accepts connections, as the system does for it; that is no link
                assert not here.host.broker.adjacency.open_links
        finally:
            other.send_signal(signal.SIGCONT)
        await until(lambda: len(set(got)) == 4_000)
        assert sorted(got) == list(range(4_000))


@running
async def test_publications_that_have_waited_wait_for_a_slow_neighbour_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidings.net._peer.OVERSHOOT_PARTS", 100)
    count = 1_500
    async with contextlib.AsyncExitStack() as stack:
        a = await stack.enter_async_context(serve(options("a", limits=SMALL)))
        link = await stack.enter_async_context(proxy(a.port))
        b = await stack.enter_async_context(serve(options("b", data=tmp_path, neighbours=(link.url,), limits=SMALL)))
        await until(lambda: connected([a, b]))
        reader = await stack.enter_async_context(tidings.connect(url(a)))
        got: list[int] = []
        await reader.subscribe("EXISTS(n)", callback=lambda n: got.append(n["n"]))
        writer = await stack.enter_async_context(tidings.connect(url(b), max_unacknowledged=count))
        link.bytes_per_second = 400_000
        broker = b.host.broker
        with slow_disk(b):  # which has yet to note that not everything is stored
            for n in range(count):
                await writer.publish(n=n, filling=b"x" * 500, quality="accepted")
            await until(lambda: len(broker.delivery.waiting) == count)
        most = 0
        while len(got) < count:
            await asyncio.sleep(0.005)
            most = max([most, *(peer.queued for peer in b.host.peers if peer.link.is_broker)])
        await writer.flush()
        assert got == list(range(count))
        assert SMALL["queue_parts"] < most < SMALL["queue_parts"] + 100, "the queue was full, and that was all"
        assert link.connections == 1


@running
async def test_who_fills_two_queues_waits_for_both() -> None:
    limits = {**SMALL, "block_seconds": 30.0}
    async with brokers("b", limits=limits, slow_policy=SlowPolicy.BLOCK) as servers, contextlib.AsyncExitStack() as at:
        server = servers["b"]
        writer = await at.enter_async_context(tidings.connect(url(server), name="writer"))
        raws = [await at.enter_async_context(await reads_nothing(server, name)) for name in ("one", "two")]
        publishing = asyncio.create_task(flood(writer))
        async with ended(publishing):
            await until(lambda: is_full(server, "one") and is_full(server, "two"))
            source = next(peer for peer in server.host.peers if peer.link.name == "writer")
            await until(lambda: len(source.congestion.waits_for) == 2)
            await raws[0].close()  # who is cut off holds nobody up
            await until(lambda: len(source.congestion.waits_for) == 1)
            assert source.stream is not None
            assert source.stream.paused
            await raws[1].close()
            await asyncio.wait_for(publishing, 15)
            assert not source.congestion.waits_for


@running
async def test_connecting_again_gives_a_slow_subscriber_no_more_time_to_hold_others_up() -> None:
    limits = {**SMALL, "block_seconds": 1.0}
    async with brokers("b", limits=limits, slow_policy=SlowPolicy.BLOCK) as servers, contextlib.AsyncExitStack() as at:
        server = servers["b"]
        writer = await at.enter_async_context(tidings.connect(url(server)))
        raw = await reads_nothing(server)
        await asyncio.wait_for(flood(writer, 1_000), 15)
        assert server.host.patience.left("anybody", "slow", server.host.loop.time()) == 0
        for _ in range(3):
            await raw.close()
            raw = await reads_nothing(server)
            publishing = asyncio.create_task(flood(writer, 1_000))
            async with ended(publishing):
                while not publishing.done():
                    assert not any(peer.congestion.waits_for for peer in server.host.peers)
                    await asyncio.sleep(0.001)
        await raw.close()


@running
async def test_a_neighbour_that_waits_for_a_slow_one_behind_it_is_not_taken_for_stalled() -> None:
    limits = {**SMALL, "queue_parts": 400, "stall_seconds": 0.8}
    async with brokers("ab", ["ab"], limits=limits) as servers, contextlib.AsyncExitStack() as at:
        link = await at.enter_async_context(proxy(servers["b"].port))
        servers["c"] = await at.enter_async_context(serve(options("c", neighbours=(link.url,), limits=limits)))
        await until(lambda: connected(servers.values()))
        writer = await at.enter_async_context(tidings.connect(url(servers["a"])))
        reader = await at.enter_async_context(tidings.connect(url(servers["c"])))
        got: list[int] = []
        await reader.subscribe("EXISTS(n)", callback=lambda n: got.append(n["n"]))
        await until(lambda: len(servers["a"].host.broker.root.subscriptions) == 1)
        peers = [peer for server in servers.values() for peer in server.host.peers if peer.link.is_broker]
        link.bytes_per_second = 100_000
        held_up = 0.0
        publishing = asyncio.create_task(flood(writer, 1_400))
        async with ended(publishing):
            while len(got) < 1_400:
                before = asyncio.get_running_loop().time()
                await asyncio.sleep(0.01)
                way = next(peer for peer in servers["b"].host.peers if peer.link.name == "a")
                held_up += (asyncio.get_running_loop().time() - before) if way.congestion.waits_for else 0
            await publishing
        assert got == list(range(1_400))
        assert held_up > 1.6
        now = [peer for server in servers.values() for peer in server.host.peers if peer.link.is_broker]
        assert now == peers


@running
async def test_the_tree_goes_round_a_stopped_broker_and_nothing_is_lost(tmp_path: Path) -> None:
    """A ring a - b - c - d of which b stops. At a its queue fills, and heartbeats would take minutes to tell; c sends
    it nothing, and hears by the heartbeats that it is silent."""
    limits = {**SMALL, "stall_seconds": 1.0, "heartbeat": 60.0}
    watchful = {"heartbeat": 0.5}
    async with contextlib.AsyncExitStack() as at:
        stopped = Process("b", tmp_path, (), "[limits]\nheartbeat = 60.0\n")
        await stopped.start()
        at.push_async_callback(stopped.end)
        beyond = f"tidings://127.0.0.1:{stopped.port}"
        d = await at.enter_async_context(serve(options("d", limits=watchful)))
        a = await at.enter_async_context(serve(options("a", neighbours=(beyond, url(d)), limits=limits)))
        c = await at.enter_async_context(serve(options("c", neighbours=(beyond, url(d)), limits=watchful)))
        for server in (a, c, d):
            await until(lambda broker=server.host.broker: len(broker.adjacency.tree.hops) == 3)
            await until(lambda broker=server.host.broker: broker.recovery.baseline)
        assert a.host.broker.adjacency.tree.hops["c"] == "b"
        got: list[int] = []
        reader = await at.enter_async_context(tidings.connect(url(c)))
        await reader.subscribe("EXISTS(n)", callback=lambda n: got.append(n["n"]))
        await until(lambda: len(a.host.broker.root.subscriptions) == 1)
        writer = await at.enter_async_context(tidings.connect(url(a)))
        stopped.send_signal(signal.SIGSTOP)
        try:
            await asyncio.wait_for(flood(writer, 2_000), 20)
            assert a.host.broker.adjacency.tree.hops["c"] == "d"
            await until(lambda: len(got) >= 2_000)
        finally:
            stopped.send_signal(signal.SIGCONT)
        assert sorted(got) == list(range(2_000))
