"""Links that survive: cuts, stalls, fail-over, restarts. Nothing lost, nothing doubled, order kept."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import pytest
from net.proxy import proxy
from net.world import Raw, brokers, connected, options, running, take, until, url
from promised import each_quality, happened, outcome

import tidings
from tidings.broker import Advice, Feature, Joinpoint, Link, RoutingOptions
from tidings.net import serve
from tidings.net._dialler import Dialler
from tidings.sim import Outcome
from tidings.wire import Deliver, Part, Publish, PublishAck, Subscribe, Welcome, encode_body, part

ANSWERED = outcome("answered", "connection cut", "net")


async def publish_numbers(
    client: tidings.Client, count: int, quality: str = "accepted", pause: float = 0.002
) -> list[tidings.Receipt]:
    """Publish 0, 1, 2, ... and wait until all are acknowledged."""
    receipts = []
    for n in range(count):
        receipts.append(await client.publish(n=n, quality=quality))
        if n % 10 == 0:
            await asyncio.sleep(pause)
    await client.flush()
    return receipts


@pytest.mark.req("MOB-014")
@pytest.mark.req("ARC-001", "VIS-202", "AGG-006")
@each_quality("connection cut", "net")
@running
async def test_a_cut_connection_resumes_with_nothing_lost_and_nothing_doubled(
    tmp_path: Path, quality: str, promised: Outcome
) -> None:
    async with (
        brokers("b", data=tmp_path) as servers,
        proxy(servers["b"].port) as to_reader,
        proxy(servers["b"].port) as to_writer,
        tidings.connect(to_reader.url) as reader,
        tidings.connect(to_writer.url) as writer,
    ):
        got: list[int] = []
        await reader.subscribe("EXISTS(n)", callback=lambda n: got.append(n["n"]))
        publishing = asyncio.create_task(publish_numbers(writer, 2_000, quality))
        rng = random.Random(1)
        while not publishing.done():
            await asyncio.sleep(rng.uniform(0.01, 0.08))
            rng.choice((to_reader, to_writer)).cut()
        receipts = await publishing
        await until(lambda: len(got) >= 2_000)
        assert got == list(range(2_000))
        assert happened(range(2_000), got) is promised
        if quality != "fire":
            answered = [n for n, receipt in enumerate(receipts) if await receipt is not None]
            assert happened(range(2_000), answered) is ANSWERED
        assert reader.statistics().reconnects + writer.statistics().reconnects > 2
        assert reader.statistics().duplicates == 0  # the session itself repeats nothing
        assert len(servers["b"].host.peers) == 2


@pytest.mark.req("AGG-125", "MOB-001")
@running
async def test_a_cut_link_between_brokers_resumes_without_a_new_tree() -> None:
    async with brokers("a") as first, proxy(first["a"].port) as link:
        async with serve(options("b", neighbours=(link.url,))) as b:
            await until(lambda: connected([first["a"], b]))
            tree = b.host.broker.adjacency.tree
            async with tidings.connect(url(first["a"])) as writer, tidings.connect(url(b)) as reader:
                got: list[int] = []
                await reader.subscribe("EXISTS(n)", callback=lambda n: got.append(n["n"]))
                publishing = asyncio.create_task(publish_numbers(writer, 1_500))
                while not publishing.done():
                    await asyncio.sleep(0.25)
                    link.cut()
                await publishing
                await until(lambda: len(got) >= 1_500)
                assert got == list(range(1_500))
            assert link.connections > 1
            assert b.host.broker.adjacency.tree == tree


@pytest.mark.req("MOB-019", "MOB-087")
@running
async def test_a_silent_neighbour_is_noticed_and_what_it_missed_is_fetched_when_it_is_back() -> None:
    limits = {"heartbeat": 0.2, "broker_resume": 0.2}
    async with brokers("a", limits=limits) as first, proxy(first["a"].port) as link:
        async with serve(options("b", neighbours=(link.url,), limits=limits)) as b:
            await until(lambda: connected([first["a"], b]))
            async with tidings.connect(url(first["a"])) as writer, tidings.connect(url(b)) as reader:
                subscription = await reader.subscribe("EXISTS(n)")
                await writer.publish(n=0)
                await take(subscription, 1)
                link.stall()
                await writer.publish(n=1)
                await until(lambda: not b.host.broker.adjacency.tree.hops)
                await until(lambda: not first["a"].host.broker.adjacency.tree.hops)
                await writer.publish(n=2)
                link.cut()
                link.flow()
                await until(lambda: connected([first["a"], b]))
                await writer.publish(n=3)
                assert [n["n"] for n in await take(subscription, 3)] == [1, 2, 3]
                assert not subscription.gaps


@pytest.mark.req("MOB-015", "MOB-019", "MOB-022")
@running
async def test_a_silent_broker_is_noticed_by_its_client_which_goes_to_another() -> None:
    async with brokers("ab", ["ab"], limits={"heartbeat": 0.2}) as servers, proxy(servers["a"].port) as way:
        async with (
            tidings.connect([way.url, url(servers["b"])]) as reader,
            tidings.connect(url(servers["b"])) as writer,
        ):
            subscription = await reader.subscribe("EXISTS(n)")
            await writer.publish(n=0)
            await take(subscription, 1)
            way.stall()
            way.closed = True
            await publish_numbers(writer, 20)
            assert [n["n"] for n in await take(subscription, 20)] == list(range(20))
            assert reader.statistics().broker == "b"
            way.flow()


@running
async def test_a_client_that_loses_its_broker_goes_on_at_the_next_without_loss_or_repetition() -> None:
    async with brokers("abc", ["ab", "bc"]) as servers, contextlib.AsyncExitStack() as stack:
        ways = {name: await stack.enter_async_context(proxy(servers[name].port)) for name in "ac"}
        reader = await stack.enter_async_context(tidings.connect([ways["a"].url, ways["c"].url]))
        writer = await stack.enter_async_context(tidings.connect([ways["c"].url, ways["a"].url]))
        got: list[int] = []
        await reader.subscribe("EXISTS(n)", callback=lambda n: got.append(n["n"]))
        publishing = asyncio.create_task(publish_numbers(writer, 2_000))
        homes = set()
        for turn in range(6):
            await asyncio.sleep(0.15)
            gone = ways["ac"[turn % 2]]
            gone.closed = True
            gone.cut()
            await asyncio.sleep(0.3)
            homes.add((reader.statistics().broker, writer.statistics().broker))
            gone.closed = False
        await publishing
        await until(lambda: len(got) >= 2_000)
        assert sorted(got) == list(range(2_000))  # once each; the order holds for each broker that took them
        assert {one for one, _ in homes} == {"a", "c"}


@running
async def test_a_broker_that_restarts_with_its_store_owes_what_was_stored(tmp_path) -> None:
    async with brokers("b") as servers, contextlib.AsyncExitStack() as stack:
        first = await stack.enter_async_context(serve(options("a", data=tmp_path, neighbours=(url(servers["b"]),))))
        await until(lambda: connected([first, servers["b"]]))
        way = await stack.enter_async_context(proxy(first.port))
        reader = await stack.enter_async_context(tidings.connect(url(servers["b"])))
        writer = await stack.enter_async_context(tidings.connect(way.url))
        subscription = await reader.subscribe("EXISTS(n)")
        await publish_numbers(writer, 50, "stored")
        epoch = first.host.epoch
        await first.stop()
        publishing = asyncio.create_task(publish_numbers(writer, 50, "stored"))
        second = await stack.enter_async_context(serve(options("a", data=tmp_path, neighbours=(url(servers["b"]),))))
        way.target = second.port
        assert second.host.epoch > epoch
        await publishing
        assert [n["n"] for n in await take(subscription, 100)] == [*range(50), *range(50)]
        assert not subscription.gaps
        await stack.aclose()


@running
async def test_a_stored_publication_sent_again_is_acknowledged_only_once_it_is_on_disk(tmp_path) -> None:
    async with brokers("b", data=tmp_path) as servers:
        held = []
        store = servers["b"].store
        keep = store.keep
        store.keep = lambda envelope, heard: held.append((envelope, heard))
        body = encode_body(tidings.Notification(n=1))
        async with await Raw.open(servers["b"]) as raw:
            await raw.hello("p")
            raw.send(Publish(5, body, tidings.Quality.STORED))
            await until(lambda: held)
        await until(lambda: servers["b"].host.peers[0].stream is None)
        async with await Raw.open(servers["b"]) as raw:
            welcome = await raw.hello("p")
            assert isinstance(welcome, Welcome)
            assert not welcome.resumed
            assert welcome.published == 5
            raw.send(Publish(5, body, tidings.Quality.STORED), Publish(6, body, tidings.Quality.ACCEPTED))
            acknowledged = await raw.expect(PublishAck)
            assert acknowledged.seq == 6
            for one in held:
                keep(*one)
            acknowledged = await raw.expect(PublishAck)
            assert (acknowledged.seq, acknowledged.number) == (5, 1)


@running
async def test_two_brokers_that_dial_each_other_end_with_one_link() -> None:
    async with contextlib.AsyncExitStack() as stack:
        a = await stack.enter_async_context(serve(options("a")))
        b = await stack.enter_async_context(serve(options("b", neighbours=(url(a),))))
        await until(lambda: connected([a, b]))
        for _ in range(3):  # as if configured on both sides
            dialler = Dialler(a.host, url(b), None, None)
            task = asyncio.create_task(dialler.run())
            await until(lambda dialler=dialler: dialler.problem is not None or dialler._peer is not None)
            await until(lambda: connected([a, b]))
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        assert [peer.link.name for peer in a.host.peers] == ["b"]
        assert [peer.link.name for peer in b.host.peers] == ["a"]
        async with tidings.connect(url(a)) as writer, tidings.connect(url(b)) as reader:
            subscription = await reader.subscribe("EXISTS(n)")
            await writer.publish(n=1)
            assert len(await take(subscription, 1)) == 1


@running
async def test_a_client_that_dies_in_a_burst_leaves_nothing_behind() -> None:
    limits = {"client_resume": 0.2}
    async with brokers("ab", ["ab"], limits=limits) as servers, tidings.connect(url(servers["b"])) as other:
        wanted = await other.subscribe("EXISTS(n)")
        raw = await Raw.open(servers["a"])
        await raw.hello("mortal")
        for number in range(100):
            raw.send(
                Subscribe(f"s{number}", tidings.Filter.parse(f"n >= {number}"), after={"b": (1, 0), "gone": (1, 1)})
            )
        for number in range(1, 500):
            raw.send(Publish(number, encode_body(tidings.Notification(n=number))))
        raw.write(part(Part.DATA, b"half a part")[:9])
        await raw.drain()
        assert len(await take(wanted, 100)) == 100
        await raw.close()
        a, b = servers["a"].host, servers["b"].host
        await until(lambda: len(a.peers) == 1)
        await until(lambda: len(b.broker.root.subscriptions) == 1)
        assert [peer.link.name for peer in a.peers] == ["b"]
        assert not a.broker.clients
        assert len(a.broker.root.subscriptions) == 1  # what b told it
        assert not a.broker.recovery.suspended
        assert not a.connections - {peer.stream for peer in a.peers}
        assert len(a._sessions) == len(a._names) == 1
        assert a.reading is None
        assert not any(peer.congestion.waits_for for peer in a.peers)
        await take(wanted, 399)


@running
async def test_a_client_is_attached_to_one_broker_at_a_time_and_its_old_session_is_taken_over() -> None:
    async with brokers("b") as servers, await Raw.open(servers["b"]) as old:
        first = await old.hello("alice")
        assert isinstance(first, Welcome)
        old.send(Subscribe("s1", tidings.Filter.parse("EXISTS(n)")))
        async with await Raw.open(servers["b"]) as new:
            again = await new.hello("alice", session=first.session, received=0)
            assert isinstance(again, Welcome)
            assert again.resumed
            assert again.session == first.session
            await old.gone()
            assert len(servers["b"].host.peers) == 1
            async with tidings.connect(url(servers["b"])) as writer:
                await writer.publish(n=1)
            assert (await new.expect(Deliver)).subscriptions == ("s1",)


@pytest.mark.req("MOB-014")
@pytest.mark.parametrize("announced", [True, False])
@running
async def test_a_client_may_say_that_it_goes_and_need_not(tmp_path: Path, announced: bool) -> None:
    """If it does, it is gone at once, else when nobody resumes its session. It finds the same when it is back."""
    limits = {"client_resume": 60.0 if announced else 0.2}
    async with brokers("b", data=tmp_path, limits=limits) as servers, proxy(servers["b"].port) as way:
        host = servers["b"].host
        async with tidings.connect(url(servers["b"])) as writer:
            async with tidings.connect(way.url, name="alice") as client:
                await client.subscribe("EXISTS(n)", durable="numbers")
                await writer.publish(n=1, quality="stored")
                assert len(host.peers) == 2
                if not announced:
                    way.closed = True
                    way.cut()
                    await until(lambda: len(host.peers) == 1)
            await until(lambda: len(host.peers) == 1)
            await writer.publish(n=2, quality="stored")
            async with tidings.connect(url(servers["b"]), name="alice") as client:
                subscription = await client.subscribe("EXISTS(n)", durable="numbers")
                await writer.publish(n=3, quality="stored")
                assert [one["n"] for one in await take(subscription, 3)] == [1, 2, 3]
                assert not subscription.gaps


@running
async def test_a_silent_client_is_given_up_also_while_another_one_is_away() -> None:
    async with brokers("b", limits={"heartbeat": 0.1, "client_resume": 600.0}) as servers:
        away = await Raw.open(servers["b"])
        await away.hello("away")
        await away.close()
        await until(lambda: [peer.stream for peer in servers["b"].host.peers] == [None])
        async with await Raw.open(servers["b"]) as silent:
            await silent.hello("silent")
            await silent.gone()


class Noting(Feature):
    """Notes who is away and who is back."""

    name = "noting"

    def __init__(self) -> None:
        self.seen: list[tuple[str, str]] = []

    def advice(self) -> Mapping[Joinpoint, Advice]:
        return {step: partial(self._note, step.label) for step in (Joinpoint.AWAY, Joinpoint.BACK, Joinpoint.DETACH)}

    def _note(self, label: str, proceed: Callable[..., None], link: Link) -> None:
        self.seen.append((label, link.name))
        proceed(link)


@running
async def test_features_hear_who_is_away_and_whose_session_goes_on() -> None:
    noting = Noting()
    async with serve(options("b", limits={"client_resume": 3.0}), [noting]) as server, proxy(server.port) as way:
        async with tidings.connect(way.url, name="alice") as client:
            await client.subscribe("EXISTS(n)")
            way.cut()
            await until(lambda: noting.seen == [("away", "alice"), ("back", "alice")])
            way.closed = True
            way.cut()
            await until(lambda: len(noting.seen) == 4)
            assert noting.seen[2:] == [("away", "alice"), ("detach", "alice")]


@running
async def test_a_client_that_says_nothing_is_away_before_its_connection_is_given_up() -> None:
    noting = Noting()
    async with serve(options("b", limits={"heartbeat": 5.0, "client_silence": 0.2}), [noting]) as server:
        async with await Raw.open(server) as silent, tidings.connect(url(server), name="lively"):
            await silent.hello("silent")
            await until(lambda: noting.seen == [("away", "silent")])
            silent.write(part(Part.PONG))
            await until(lambda: noting.seen == [("away", "silent"), ("back", "silent")])


@running
async def test_nobody_resumes_the_session_of_another_name() -> None:
    async with brokers("b") as servers, await Raw.open(servers["b"]) as alice:
        first = await alice.hello("alice")
        assert isinstance(first, Welcome)
        async with await Raw.open(servers["b"]) as mallory:
            other = await mallory.hello("mallory", session=first.session)
            assert isinstance(other, Welcome)
            assert not other.resumed
            assert other.session != first.session


@running
async def test_a_server_that_stops_says_goodbye_and_its_clients_go_elsewhere() -> None:
    async with brokers("ab", ["ab"]) as servers, tidings.connect([url(servers["a"]), url(servers["b"])]) as client:
        subscription = await client.subscribe("EXISTS(n)")
        await servers["a"].stop()
        await until(lambda: client.statistics().broker == "b" and client.statistics().connected)
        await client.publish(n=1)
        assert len(await take(subscription, 1)) == 1


@pytest.mark.parametrize("other", [RoutingOptions(advertisements=True), RoutingOptions("flooding")])
@running
async def test_a_neighbour_that_routes_otherwise_is_refused_because_notifications_would_be_lost(
    other: RoutingOptions,
) -> None:
    async with serve(options("a")) as one, serve(options("b", routing=other, neighbours=(url(one),))) as two:
        await until(lambda: two.diallers[0].problem)
        assert (
            "notifications would be lost between them; run the same version of Tidings in both"
            in two.diallers[0].problem
        )
        assert not one.host.broker.adjacency.neighbours
    async with (
        serve(options("a", routing=RoutingOptions("simple"))) as one,
        serve(options("b", routing=RoutingOptions("merging"), neighbours=(url(one),))) as two,
    ):
        await until(lambda: two.host.broker.adjacency.neighbours)
