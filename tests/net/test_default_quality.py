"""What is published without a word is stored where the broker can, and its receipt says what became of it."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import random
import shutil
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from net.proxy import proxy
from net.test_status import fetch, metrics
from net.world import Raw, connected, options, running, take, until, url

import tidings
from tidings.net import Server, serve
from tidings.store import Store
from tidings.store._queue import Operation
from tidings.store._writer import Writer
from tidings.wire import Deliver, Publish, PublishAck, Quality, Subscribe, encode_body


@contextlib.contextmanager
def full_disk(server: Server) -> Iterator[None]:
    """There is no room for another page: what is larger than what is left of the last one is refused."""
    assert server.store is not None
    connection = server.store._writing
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count={pages}")
    try:
        yield
    finally:
        connection.execute("PRAGMA max_page_count=1000000")


@contextlib.contextmanager
def slow_disk(server: Server) -> Iterator[None]:
    """Every write has to wait."""
    assert server.store is not None
    with contextlib.closing(sqlite3.connect(server.store.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


@contextlib.contextmanager
def full_queue(server: Server) -> Iterator[None]:
    """Nothing more may wait for the disk."""
    assert server.store is not None
    queue = server.store._queue
    before, queue.max_count = queue.max_count, 0
    try:
        yield
    finally:
        queue.max_count = before


def kept(server: Server) -> list[tuple[int, Quality]]:
    """The publications in the store of a broker, and the quality in their envelopes."""
    assert server.store is not None
    return [(found.notification["n"], found.quality) for found in server.store.read(server.host.epoch, 0)]  # type: ignore[misc]


@running
async def test_a_broker_with_a_store_remembers_what_nobody_told_it_to(tmp_path: Path) -> None:
    async with serve(options("b", data=tmp_path)) as server, tidings.connect(url(server)) as client:
        subscription = await client.subscribe("EXISTS(n)")
        receipt = await client.publish(n=1)
        assert receipt.quality is None
        await receipt
        assert receipt.quality is Quality.STORED
        assert len(await take(subscription, 1)) == 1
        assert kept(server) == [(1, Quality.STORED)]
    async with serve(options("b", data=tmp_path)) as server, tidings.connect(url(server)) as client:
        past = await client.subscribe("EXISTS(n)", past=tidings.last(10))
        assert [n["n"] for n in await take(past, 1)] == [1]


@running
async def test_a_broker_without_a_store_accepts() -> None:
    async with serve(options("b")) as server, tidings.connect(url(server)) as client:
        await (receipt := await client.publish(n=1))
        assert receipt.quality is Quality.ACCEPTED
        assert not server.host.broker.statistics.unstored
        assert server.host.broker.publications.recent[0].quality is Quality.ACCEPTED


@running
async def test_who_chooses_gets_what_was_chosen(tmp_path: Path) -> None:
    async with serve(options("b", data=tmp_path)) as server, tidings.connect(url(server)) as client:
        for n, quality in enumerate(("fire", "accepted", "stored", "default")):
            await (receipt := await client.publish(n=n, quality=quality))
            assert receipt.quality is (Quality.STORED if quality == "default" else Quality[quality.upper()])
        assert kept(server) == [(2, Quality.STORED), (3, Quality.STORED)]


@running
async def test_acknowledgements_of_different_qualities_are_not_joined(tmp_path: Path) -> None:
    async with serve(options("b", data=tmp_path)) as server, await Raw.open(server) as raw:
        body = encode_body(tidings.Notification(n=1))
        await raw.hello("p")
        raw.send(*(Publish(seq, body, Quality.ACCEPTED if seq % 2 else Quality.DEFAULT) for seq in range(1, 9)))
        told: dict[int, Quality] = {}
        while len(told) < 8:
            ack = await raw.expect(PublishAck)
            told |= {ack.seq - back: ack.quality for back in range(ack.count)}
        assert told == {seq: Quality.ACCEPTED if seq % 2 else Quality.STORED for seq in range(1, 9)}


@running
async def test_no_subscriber_ever_sees_the_default(tmp_path: Path) -> None:
    async with serve(options("b", data=tmp_path)) as server, await Raw.open(server) as raw:
        await raw.hello("p")
        raw.send(Subscribe("s", tidings.Filter.parse("EXISTS(n)")), Publish(1, encode_body(tidings.Notification(n=1))))
        assert (await raw.expect(Deliver)).envelope.quality is Quality.STORED


@running
async def test_what_is_handed_over_to_a_broker_without_a_store_is_accepted_there(tmp_path: Path) -> None:
    async with (
        serve(options("a", data=tmp_path)) as first,
        serve(options("b")) as second,
        proxy(first.port) as way,
        tidings.connect([way.url, url(second)], name="alice") as client,
        tidings.connect(url(second)) as reader,
    ):
        subscription = await reader.subscribe("EXISTS(n)")
        await (receipt := await client.publish(n=1))
        assert receipt.quality is Quality.STORED
        way.stall()
        receipt = await client.publish(n=2)
        await way.stop()
        await receipt
        assert receipt.quality is Quality.ACCEPTED
        assert [n["n"] for n in await take(subscription, 1)] == [2]


@running
async def test_a_full_queue_lets_the_default_go_on_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "tidings.net")
    async with (
        serve(options("b", data=tmp_path, metrics_port=0)) as server,
        tidings.connect(url(server)) as client,
    ):
        subscription = await client.subscribe("EXISTS(n)")
        with full_queue(server):
            for n in range(3):
                await (receipt := await client.publish(n=n))
                assert receipt.quality is Quality.ACCEPTED
            with pytest.raises(tidings.TidingsError, match="cannot take more for now"):
                await (await client.publish(n=9, quality="stored"))
            assert (await client.status()).counters.unstored == 3
            found = metrics((await fetch(server.metrics_port, "/metrics"))[1])
            assert found["tidings_unstored_publications_total", ""] == 3
        await (receipt := await client.publish(n=3))
        assert receipt.quality is Quality.STORED
        assert [n["n"] for n in await take(subscription, 4)] == [0, 1, 2, 3]
        assert kept(server) == [(3, Quality.STORED)]
    said = [record.message for record in caplog.records if "the store" in record.message]
    assert len(said) == 2
    assert "refuses publications: the queue of writes for its disk is full" in said[0]
    assert "takes publications again; 3 were only accepted" in said[1]


@running
async def test_a_disk_that_refuses_lets_the_default_go_on_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "tidings.net")
    async with (
        serve(options("b", data=tmp_path, metrics_port=0)) as server,
        tidings.connect(url(server)) as client,
    ):
        subscription = await client.subscribe("EXISTS(n)")
        await (await client.publish(n=0))
        assert (await fetch(server.metrics_port, "/health"))[0] == 200
        noise = random.Random(1).randbytes(60_000)
        with full_disk(server):
            for n in range(1, 4):
                await (receipt := await client.publish(n=n, noise=noise))
                assert receipt.quality is Quality.ACCEPTED
            with pytest.raises(tidings.TidingsError, match="published, but could not be stored"):
                await (await client.publish(n=4, noise=noise, quality="stored"))
            code, body = await fetch(server.metrics_port, "/health")
            assert code == 503
            assert "those without a quality are only accepted" in body
        await (receipt := await client.publish(n=5))
        assert receipt.quality is Quality.STORED
        assert (await fetch(server.metrics_port, "/health"))[0] == 200
        assert [n["n"] for n in await take(subscription, 6)] == [0, 1, 2, 3, 4, 5]
        assert kept(server) == [(0, Quality.STORED), (5, Quality.STORED)]
        assert server.host.broker.statistics.unstored == 3
    said = [record.message for record in caplog.records if "the store" in record.message]
    assert len(said) == 2


@running
async def test_a_full_queue_shows_in_health_until_it_is_worked_off(tmp_path: Path) -> None:
    async with (
        serve(options("b", data=tmp_path, metrics_port=0)) as server,
        tidings.connect(url(server)) as client,
    ):
        await (await client.publish(n=0, quality="accepted"))  # the disk has noted that not everything is stored
        with slow_disk(server):
            waiting = await client.publish(n=1)
            await until(lambda: server.host.broker.publications.last == 2)  # it is in the queue, and not on disk
            with full_queue(server):
                await (fallen := await client.publish(n=2))
                assert fallen.quality is Quality.ACCEPTED
            code, body = await fetch(server.metrics_port, "/health")
            assert code == 503
            assert "the store falls behind" in body
        await waiting
        assert waiting.quality is Quality.STORED
        await until(lambda: server.store is not None and not server.store.statistics().queued)
        assert (await fetch(server.metrics_port, "/health"))[0] == 200


def noted(directory: Path) -> bool:
    """Whether the disk, as a crash would leave it, knows that numbers were given to what is not on it."""
    with contextlib.closing(sqlite3.connect(directory / "store.sqlite")) as disk:
        return disk.execute("SELECT count(*) FROM state WHERE name = 'complete'").fetchone() == (0,)


@running
async def test_what_is_not_stored_is_acknowledged_only_when_a_crash_would_be_told(tmp_path: Path) -> None:
    gaps: list[tidings.Gap] = []
    async with contextlib.AsyncExitStack() as stack:
        a = await stack.enter_async_context(serve(options("a")))
        reader = await stack.enter_async_context(tidings.connect(url(a)))
        subscription = await reader.subscribe("EXISTS(n)", on_gap=gaps.append)
        async with serve(options("b", data=tmp_path / "b", neighbours=(url(a),))) as b:
            await until(lambda: connected([a, b]))
            client = await stack.enter_async_context(tidings.connect(url(b)))
            with full_queue(b):
                with slow_disk(b):
                    receipts = [await client.publish(n=0, quality="accepted"), await client.publish(n=1)]
                    await client.publish(n=2, quality="fire")
                    broker = b.host.broker
                    await until(lambda: broker.publications.last + len(broker.delivery.waiting) == 3)
                    assert not noted(tmp_path / "b")
                    assert broker.publications.last == 0
                    assert [receipt.quality for receipt in receipts] == [None, None]
                    assert subscription.waiting == 0
                for receipt in receipts:
                    await receipt
                    assert receipt.quality is Quality.ACCEPTED
            assert noted(tmp_path / "b")
            assert not broker.publications.unnoted
            assert [n["n"] for n in await take(subscription, 3)] == [0, 1, 2]
            epoch = b.host.epoch
            shutil.copytree(tmp_path / "b", tmp_path / "crashed")
        assert gaps == []
        async with serve(options("b", data=tmp_path / "crashed", neighbours=(url(a),))) as b:
            await until(lambda: gaps)
    assert [(gap.origin, gap.epoch, gap.first, gap.last) for gap in gaps] == [("b", epoch, 4, None)]


@running
async def test_a_disk_that_could_not_take_the_note_is_asked_again(tmp_path: Path) -> None:
    async with (
        serve(options("b", data=tmp_path, metrics_port=0)) as server,
        tidings.connect(url(server)) as client,
    ):
        assert server.store is not None
        server.store._writing.execute("PRAGMA query_only = 1")
        await (receipt := await client.publish(n=1, quality="accepted"))
        assert receipt.quality is Quality.ACCEPTED
        assert not noted(tmp_path)
        code, body = await fetch(server.metrics_port, "/health")
        assert code == 503
        assert "the disk could not note that some publications are not stored" in body
        server.store._writing.execute("PRAGMA query_only = 0")
        await until(lambda: noted(tmp_path))
        await until(lambda: not server.host.broker.publications.unnoted)


@running
async def test_a_publication_that_comes_again_is_answered_as_the_first_time(tmp_path: Path) -> None:
    body = encode_body(tidings.Notification(n=1))
    async with serve(options("b", data=tmp_path, limits={"client_resume": 0.01})) as server:
        async with await Raw.open(server) as raw:
            await raw.hello("p")
            raw.send(Publish(1, body))
            assert (await raw.expect(PublishAck)).quality is Quality.STORED
            with full_queue(server):
                raw.send(Publish(2, body))
                assert (await raw.expect(PublishAck)).quality is Quality.ACCEPTED
        async with await Raw.open(server) as raw:
            await until(lambda: not server.host.peers)
            await raw.hello("p")
            raw.send(Publish(1, body), Publish(2, body))
            again = [await raw.expect(PublishAck) for _ in range(2)]
            assert [(ack.seq, ack.number, ack.quality) for ack in again] == [
                (1, 0, Quality.STORED),
                (2, 0, Quality.ACCEPTED),
            ]
        assert server.host.broker.statistics.repeated_publications == 2


@running
async def test_a_broker_stops_in_time_however_much_waits_for_its_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidings.store._queue.COMMIT_COUNT", 10)
    commit = Writer._commit

    def slowly(self: Writer, operations: list[Operation]) -> object:
        time.sleep(0.1)
        return commit(self, operations)

    monkeypatch.setattr(Writer, "_commit", slowly)
    body = encode_body(tidings.Notification(n=1))
    async with contextlib.AsyncExitStack() as stack:
        server = await stack.enter_async_context(serve(options("b", data=tmp_path, limits={"drain": 0.5})))
        raw = await stack.enter_async_context(await Raw.open(server))
        await raw.hello("p")
        qualities = itertools.cycle((Quality.STORED, Quality.DEFAULT))  # else the engine stores many of them as one
        raw.send(*(Publish(seq, body, next(qualities)) for seq in range(1, 2_001)))  # 20 s of writing
        await until(lambda: server.host.broker.publications.storing > 1_900)
        epoch, loop = server.host.epoch, asyncio.get_running_loop()
        before = loop.time()
        await server.stop()
        assert loop.time() - before < 5
        acknowledged = []
        with contextlib.suppress(EOFError, OSError):
            while True:
                acknowledged.append((await raw.expect(PublishAck)).seq)
    with Store.open(tmp_path, owner="b", post=lambda call: call()) as store:
        last = store.ended(epoch)
        assert last is not None
        assert max(acknowledged, default=0) <= last < 2_000
