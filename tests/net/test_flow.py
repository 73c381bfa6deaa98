"""Flow control: slow subscribers and neighbours, fast publishers. Memory is bounded, and nobody else is harmed."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import pytest
from net.proxy import proxy
from net.world import Raw, brokers, connected, options, running, take, until, url
from promised import each_quality, happened

import tidings
from tidings.net import Server, SlowPolicy, serve
from tidings.sim import Outcome
from tidings.wire import (
    Deliver,
    Extension,
    Gap,
    Opening,
    Part,
    Publish,
    PublishAck,
    Replied,
    Subscribe,
    Welcome,
    decode_body,
    encode_body,
    part,
    read_request,
)

SMALL = {"window_parts": 40, "queue_parts": 100, "window_bytes": 400_000, "queue_bytes": 1_000_000}
BODY = encode_body(tidings.Notification(n=1))


def load(server: Server, name: str) -> tuple[int, int]:
    """What waits for a peer: parts and bytes."""
    peer = next(peer for peer in server.host.peers if peer.link.name == name)
    return peer.queued + peer.session.waiting, peer._queue_bytes + peer.session._bytes


async def numbers(raw: Raw, upto: int) -> tuple[list[int], list[tuple[int, int]]]:
    """What a raw subscriber gets until the number `upto`: delivered ones and gaps."""
    delivered: list[int] = []
    gaps: list[tuple[int, int]] = []
    while not delivered or delivered[-1] < upto:
        message = await raw.message()
        raw.acknowledge()
        if isinstance(message, Deliver):
            delivered.append(message.envelope.identity.seq)
        elif isinstance(message, Gap):
            assert message.last is not None
            gaps.append((message.first, message.last))
    return delivered, gaps


async def slow_subscriber(server: Server) -> Raw:
    raw = await Raw.open(server)
    assert isinstance(await raw.hello("slow"), Welcome)
    raw.send(Subscribe("s1", tidings.Filter.parse("EXISTS(n)")))
    await until(lambda: len(server.host.broker.root.subscriptions) > 0)
    return raw


@each_quality("slow subscriber", "net")
@running
async def test_drop_oldest_loses_the_oldest_and_says_exactly_which(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, quality: str, promised: Outcome
) -> None:
    async with (
        brokers("b", limits=SMALL, slow_policy=SlowPolicy.DROP_OLDEST, data=tmp_path) as servers,
        tidings.connect(url(servers["b"])) as writer,
        tidings.connect(url(servers["b"])) as healthy,
    ):
        slow = await slow_subscriber(servers["b"])
        got: list[int] = []
        await healthy.subscribe("EXISTS(n)", callback=lambda n: got.append(n["n"]))
        most = 0
        for n in range(1, 2_001):
            await writer.publish(n=n, quality=quality)
            if n % 20 == 0:
                await writer.flush()
                await until(lambda n=n: len(got) == n)
                most = max(most, load(servers["b"], "slow")[0])
        assert most <= 150
        delivered, gaps = await numbers(slow, 2_000)
        assert len(delivered) < 500
        missing = {n for first, last in gaps for n in range(first, last + 1)}
        assert sorted({*delivered, *missing}) == list(range(1, 2_001))
        assert happened(range(1, 2_001), delivered, missing) is promised
        assert not missing & set(delivered)
        assert delivered == sorted(delivered)
        assert len(gaps) < 60
        (told,) = [one.getMessage() for one in caplog.records if "were dropped so far" in one.getMessage()]
        assert told.startswith("client slow ")
        await slow.close()


@running
async def test_large_notifications_are_bounded_by_bytes() -> None:
    async with (
        brokers("b", limits=SMALL, slow_policy=SlowPolicy.DROP_OLDEST) as servers,
        tidings.connect(url(servers["b"])) as writer,
    ):
        slow = await slow_subscriber(servers["b"])
        for n in range(1, 101):
            await (await writer.publish(n=n, filling=b"x" * 60_000))
            assert load(servers["b"], "slow")[1] < 1_700_000
        delivered, gaps = await numbers(slow, 100)
        assert gaps
        missing = {n for first, last in gaps for n in range(first, last + 1)}
        assert sorted({*delivered, *missing}) == list(range(1, 101))
        await slow.close()


@running
async def test_disconnect_ends_the_slow_one_with_a_reason_and_nobody_else() -> None:
    async with (
        brokers("b", limits=SMALL, slow_policy=SlowPolicy.DISCONNECT) as servers,
        tidings.connect(url(servers["b"])) as writer,
    ):
        slow = await slow_subscriber(servers["b"])
        for n in range(1, 1_001):
            await writer.publish(n=n)
        await writer.flush()
        rejection = await slow.rejection()
        assert rejection.code == "slow"
        assert "fast enough" in rejection.reason
        await until(lambda: len(servers["b"].host.peers) == 1)
        assert len(servers["b"].host.broker.root.subscriptions) == 0
        await slow.close()


@running
async def test_block_slows_the_publisher_down_and_loses_nothing() -> None:
    async with (
        brokers("b", limits=SMALL, slow_policy=SlowPolicy.BLOCK) as servers,
        tidings.connect(url(servers["b"])) as writer,
    ):
        slow = await slow_subscriber(servers["b"])

        async def publish() -> None:
            for n in range(1, 3_001):
                await writer.publish(n=n, filling=b"x" * 1_000)
            await writer.flush()

        publishing = asyncio.create_task(publish())
        (peer,) = [peer for peer in servers["b"].host.peers if peer.link.name == "slow"]
        await until(lambda: peer.congested_since is not None)
        await asyncio.sleep(0.3)
        assert not publishing.done()
        assert peer.queued < SMALL["queue_parts"] + 1_000  # and what had been read already
        delivered, gaps = await numbers(slow, 3_000)
        assert delivered == list(range(1, 3_001))
        assert not gaps
        await publishing
        assert writer.statistics().reconnects == 0
        await slow.close()


@running
async def test_two_slow_ones_do_not_lock_each_other_up() -> None:
    limits = {**SMALL, "block_seconds": 30.0}
    async with (
        brokers("b", limits=limits, slow_policy=SlowPolicy.BLOCK) as servers,
        contextlib.AsyncExitStack() as stack,
    ):
        writer = await stack.enter_async_context(tidings.connect(url(servers["b"])))
        raws = []
        for name in ("one", "two", "three"):
            raw = await stack.enter_async_context(await Raw.open(servers["b"]))
            await raw.hello(name)
            raw.send(Subscribe("s1", tidings.Filter.parse("EXISTS(n)")))
            raws.append(raw)
        await until(lambda: len(servers["b"].host.broker.root.subscriptions) == 3)

        async def publish() -> None:
            for n in range(1, 2_001):
                await writer.publish(n=n, filling=b"x" * 1_000)
            await writer.flush()

        publishing = asyncio.create_task(publish())
        await until(lambda: sum(peer.congested_since is not None for peer in servers["b"].host.peers) == 3)
        for delivered, gaps in await asyncio.gather(*(numbers(raw, 2_000) for raw in raws)):
            assert delivered == list(range(1, 2_001))
            assert not gaps
        await publishing


@running
async def test_patience_with_a_blocker_ends_although_nobody_says_anything() -> None:
    async with (
        brokers("b", limits={**SMALL, "block_seconds": 0.3}, slow_policy=SlowPolicy.BLOCK) as servers,
        tidings.connect(url(servers["b"])) as writer,
    ):
        slow = await slow_subscriber(servers["b"])
        for n in range(1, 1_001):
            await writer.publish(n=n, filling=b"x" * 1_000)
        await writer.flush()
        delivered, gaps = await numbers(slow, 1_000)
        missing = {n for first, last in gaps for n in range(first, last + 1)}
        assert missing
        assert sorted({*delivered, *missing}) == list(range(1, 1_001))
        await slow.close()


@running
async def test_acknowledgements_that_wait_become_one() -> None:
    async with brokers("b", limits=SMALL) as servers, await Raw.open(servers["b"]) as raw:
        await raw.hello("lazy")
        for number in range(1, 5_001):
            raw.send(Publish(number, BODY))
        await until(lambda: servers["b"].host.broker.publications.last == 5_000)
        (peer,) = servers["b"].host.peers
        assert peer.queued <= 1
        acknowledged: list[int] = []
        while len(acknowledged) < 5_000:
            answer = await raw.expect(PublishAck)
            acknowledged += range(answer.seq - answer.count + 1, answer.seq + 1)
            assert answer.seq == answer.number
            raw.acknowledge()
        assert acknowledged == list(range(1, 5_001))


@running
async def test_who_asks_and_reads_no_answer_is_ended_before_it_fills_the_memory() -> None:
    async with brokers("b", limits=SMALL) as servers, await Raw.open(servers["b"]) as raw:
        await raw.hello("deaf")
        with contextlib.suppress(OSError):
            for number in range(20_000):
                raw.send(Publish(-number, BODY))
                if number % 100 == 0:
                    await asyncio.sleep(0)
            await raw.drain()
        await until(lambda: not servers["b"].host.peers)


@running
async def test_a_slow_application_stops_reading_and_its_connection_stays() -> None:
    async with brokers("b", limits={"heartbeat": 0.25}) as servers, contextlib.AsyncExitStack() as stack:
        writer = await stack.enter_async_context(tidings.connect(url(servers["b"])))
        reader = await stack.enter_async_context(tidings.connect(url(servers["b"])))
        subscription = await reader.subscribe("EXISTS(n)")
        for n in range(25_000):
            await writer.publish(n=n)
        await until(lambda: subscription.waiting >= 10_000)
        await writer.flush()
        await asyncio.sleep(1.5)  # many heartbeats in which the application reads nothing
        assert subscription.waiting < 20_000
        assert [n["n"] for n in await take(subscription, 25_000)] == list(range(25_000))
        assert reader.statistics().reconnects == 0


@running
async def test_a_slow_application_stays_slow_after_a_cut() -> None:
    async with (
        brokers("b", limits={"heartbeat": 0.5}) as servers,  # who does not read notices a cut when it says something
        proxy(servers["b"].port) as way,
        tidings.connect(way.url) as reader,
    ):
        subscription = await reader.subscribe("EXISTS(n)")
        async with tidings.connect(url(servers["b"])) as writer:
            for n in range(15_000):
                await writer.publish(n=n)
            await until(lambda: subscription.waiting >= 10_000)
            way.cut()
            await until(lambda: reader.statistics().reconnects == 1)
            for n in range(15_000, 30_000):
                await writer.publish(n=n)
        assert subscription.waiting < 20_000
        assert [n["n"] for n in await take(subscription, 30_000)] == list(range(30_000))


@running
async def test_a_publisher_that_waits_for_a_slow_neighbour_is_not_taken_for_dead() -> None:
    limits = {**SMALL, "heartbeat": 0.25, "broker_resume": 5.0}
    async with brokers("a", limits=limits) as first, contextlib.AsyncExitStack() as stack:
        link = await stack.enter_async_context(proxy(first["a"].port))
        b = await stack.enter_async_context(serve(options("b", neighbours=(link.url,), limits=limits)))
        await until(lambda: connected([first["a"], b]))
        writer = await stack.enter_async_context(tidings.connect(url(first["a"])))
        reader = await stack.enter_async_context(tidings.connect(url(b)))
        got: list[int] = []
        await reader.subscribe("EXISTS(n)", callback=lambda n: got.append(n["n"]))
        link.bytes_per_second = 400_000

        async def publish() -> None:
            for n in range(1_500):
                await writer.publish(n=n, filling=b"x" * 500)
            await writer.flush()

        publishing = asyncio.create_task(publish())
        most = 0
        while len(got) < 1_500:
            await asyncio.sleep(0.02)
            most = max([most, *(peer.queued for peer in first["a"].host.peers)])
        await publishing
        assert got == list(range(1_500))
        assert 100 < most < SMALL["queue_parts"] + 1_000
        assert writer.statistics().reconnects == 0
        assert link.connections == 1


@running
async def test_a_notification_larger_than_a_peer_takes_is_reported_as_lost_to_it() -> None:
    async with brokers("b") as servers, await Raw.open(servers["b"]) as raw:
        await raw.hello("small", max_part=2_000)
        raw.send(Subscribe("s1", tidings.Filter.parse("EXISTS(n)")))
        await until(lambda: len(servers["b"].host.broker.root.subscriptions) == 1)
        async with tidings.connect(url(servers["b"])) as writer:
            await writer.publish(n=1, filling=b"x" * 3_000)
            await writer.publish(n=2)
        delivered, gaps = await numbers(raw, 2)
        assert delivered == [2]
        assert gaps == [(1, 1)]


@running
async def test_replies_beyond_what_a_requester_reads_are_refused_and_it_stays_connected() -> None:
    async with (
        brokers("b", limits=SMALL) as servers,
        tidings.connect(url(servers["b"]), name="answerer") as answerer,
        await Raw.open(servers["b"]) as asker,
    ):
        assert isinstance(await asker.hello("asker"), Welcome)
        questions = await answerer.subscribe("EXISTS(n)")
        asker.send(Publish(1, BODY, opens=Opening("many", replies=0)), Publish(2, BODY, opens=Opening("one")))
        question, other = await anext(questions), await anext(questions)
        replies = [question.reply(n=n, filling=b"x" * 60_000) for n in range(100)]
        outcomes = [await asyncio.gather(reply, return_exceptions=True) for reply in replies]
        taken = outcomes.count([None])
        (refused,) = outcomes[-1]
        assert isinstance(refused, tidings.BudgetExceeded)
        assert str(refused) == "the requester does not read the replies that it has; reply again later"
        await other.reply(n="late")  # the first reply to a request always goes
        came: list[object] = []
        while "late" not in came:
            message = await asker.message()
            asker.acknowledge()
            if isinstance(message, Extension) and isinstance(said := read_request(message.body), Replied):
                came.append(decode_body(said.body)["n"])
        assert came == [*range(taken), "late"]


@running
async def test_a_peer_that_never_reads_is_let_go_when_its_link_has_ended(monkeypatch) -> None:
    monkeypatch.setattr("tidings.wire._stream.CLOSE_SECONDS", 0.2)
    async with brokers("b") as servers, tidings.connect(url(servers["b"])) as writer:
        slow = await slow_subscriber(servers["b"])
        for n in range(150):
            await writer.publish(n=n, filling=b"x" * 60_000)
        await writer.flush()
        slow.write(part(Part.BYE))
        await until(lambda: len(servers["b"].host.connections) == 1)
        await slow.close()


@pytest.mark.parametrize("quality", ["fire", "accepted"])
@running
async def test_memory_of_publications_is_bounded_by_bytes(quality: str, monkeypatch) -> None:
    monkeypatch.setattr("tidings.broker.forwarding._numbers.MEMORY_BYTES", 1_000_000)
    async with brokers("b") as servers, tidings.connect(url(servers["b"])) as writer:
        for n in range(100):
            await writer.publish(n=n, filling=b"x" * 60_000, quality=quality)
        await writer.flush()
        await until(lambda: servers["b"].host.broker.publications.last == 100)
        assert sum(len(envelope.body) for envelope in servers["b"].host.broker.publications.recent) <= 1_000_000
