"""Where brokers keep their promises the audit finds nothing, whatever is cut, moved, changed and started again."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from net.proxy import Proxy
from serving import serving
from spark.audit_world import World, found, publish
from spark_processes import Child, free_port, until
from typer.testing import CliRunner

import tidings
from tidings import sync
from tidings.cli import app
from tidings.net import Limits, Options, Server, StoreOptions, serve
from tidings.store.archive import Promoted, roll

QUICK = Limits(broker_resume=0.3, client_resume=0.3, heartbeat=1.0, drain=0.5)


@contextlib.asynccontextmanager
async def proxied(server: Server) -> AsyncIterator[Proxy]:
    proxy = Proxy(server.port)
    await proxy.start()
    try:
        yield proxy
    finally:
        await proxy.stop()


def clean(world: World, **more: Any) -> Any:
    report = world.audit(**more)
    assert report.clean, (found(report)[:20], report.counts, [one.why for one in report.findings[:5]])
    assert report.silent == ()
    assert report.holes == {}
    return report


def test_clients_that_come_and_go_and_change_their_minds(tmp_path: Path) -> None:
    world = World(tmp_path)

    async def main() -> None:
        rng = random.Random(3)
        async with world.running("abc"):
            stop = asyncio.Event()

            async def publisher(at: str) -> None:
                async with world.client(f"publisher-{at}", at) as client:
                    n = 0
                    while not stop.is_set():
                        n += 1
                        await client.publish({"type": "quote", "n": n % 100}, quality="stored")
                        await asyncio.sleep(0.003)

            async def reader(number: int) -> None:
                while not stop.is_set():
                    async with world.client(f"reader-{number}", rng.choice("abc")) as client:
                        subscriptions = [
                            client.subscribe(f"n > {rng.randrange(90)}", callback=lambda _: None) for _ in range(3)
                        ]
                        for _ in range(4):
                            await asyncio.sleep(rng.uniform(0, 0.6))
                            one = rng.choice(subscriptions)
                            if rng.random() < 0.3:
                                one.unsubscribe()
                            else:
                                with contextlib.suppress(tidings.TidingsError):
                                    one.update(f"n < {rng.randrange(100)}")

            tasks = [asyncio.create_task(publisher(at)) for at in "ac"]
            tasks += [asyncio.create_task(reader(number)) for number in range(4)]
            await asyncio.sleep(5)
            stop.set()
            await asyncio.gather(*tasks)
            await world.acknowledged()

    asyncio.run(main())
    report = clean(world)
    assert report.verdict.owed > 200
    assert report.subscriptions > 12


def test_cut_connections_and_links_and_brokers_that_start_again(tmp_path: Path) -> None:
    """Links and clients lose their sessions, a broker stops and comes back: everything is fetched or told."""
    world = World(tmp_path)

    async def main() -> None:
        rng = random.Random(5)
        async with contextlib.AsyncExitStack() as stack:

            async def start(name: str, port: int = 0, *neighbours: str) -> Server:
                options = Options(
                    name,
                    port=port,
                    data=tmp_path / name,
                    neighbours=neighbours,
                    store=StoreOptions(deliveries=True),
                    limits=QUICK,
                )
                server = Server(options)
                await server.start()
                return server

            a = await start("a")
            link = await stack.enter_async_context(proxied(a))
            b = await start("b", 0, link.url)
            door = await stack.enter_async_context(proxied(b))
            stop = asyncio.Event()

            async def publisher() -> None:
                async with tidings.connect(f"tidings://127.0.0.1:{a.port}", name="publisher") as client:
                    n = 0
                    while not stop.is_set():
                        n += 1
                        await client.publish({"type": "quote", "n": n % 100}, quality="stored")
                        await asyncio.sleep(0.002)

            async def reader(number: int) -> None:
                async with tidings.connect(door.url, name=f"reader-{number}") as client:
                    await client.subscribe(f"n > {number * 20}", callback=lambda _: None)
                    await stop.wait()
                    await asyncio.sleep(2.5)

            tasks = [asyncio.create_task(reader(number)) for number in range(3)]
            await asyncio.sleep(0.5)
            tasks.append(asyncio.create_task(publisher()))
            for turn in range(6):
                await asyncio.sleep(rng.uniform(0.4, 1.2))
                if turn == 3:
                    port = b.port
                    await b.stop()
                    b = await start("b", port, link.url)
                elif turn % 2:
                    link.closed = True
                    link.cut()
                    await asyncio.sleep(0.8)
                    link.closed = False
                else:
                    door.closed = True
                    door.cut()
                    await asyncio.sleep(0.6)
                    door.closed = False
            await asyncio.sleep(2)
            stop.set()
            await asyncio.gather(*tasks)
            await b.stop()
            await a.stop()

    asyncio.run(main())
    report = clean(world)
    assert report.verdict.owed > 500
    assert report.subscriptions > 6


def test_durable_subscriptions_go_on_and_get_nothing_twice(tmp_path: Path) -> None:
    world = World(tmp_path)

    async def main() -> None:
        async with world.running("ab"), world.client("alice", "a") as alice:
            for round_ in range(3):
                async with world.client("billing", "b") as billing:
                    orders = await billing.subscribe("type = 'quote'", durable="orders")
                    if round_:
                        for _ in range(7 if round_ == 1 else 8):
                            await anext(orders)
                        await orders.acknowledge()
                    await asyncio.sleep(1.3)
                await publish(alice, *range(10 * round_, 10 * round_ + 10))
            await world.acknowledged()

    asyncio.run(main())
    clean(world)


def test_a_slow_subscriber_was_told_what_it_lost(tmp_path: Path) -> None:
    world = World(tmp_path)

    async def main() -> None:
        from net.world import Raw

        from tidings.wire import DeliverAck, Subscribe

        limits = Limits(window_parts=10, queue_parts=20, block_seconds=0.1)
        async with world.running("a", limits=limits), world.client("alice", "a") as alice:
            async with await Raw.open(world.servers["a"]) as slow:
                await slow.hello("slow")
                slow.send(Subscribe("s1", tidings.Filter.parse("type = 'quote'"), number=1))
                await slow.drain()
                await asyncio.sleep(0.3)
                await publish(alice, *range(200))
                await asyncio.sleep(1.5)
                broker = world.servers["a"].host.broker
                slow.send(DeliverAck("a", broker.epoch, 200))
                await slow.drain()
                await asyncio.sleep(0.2)

    asyncio.run(main())
    report = clean(world)
    assert report.verdict.told > 50
    assert report.verdict.told < report.verdict.owed == 200


def test_what_the_store_has_forgotten_is_read_from_the_archive(tmp_path: Path) -> None:
    world = World(tmp_path)

    async def main() -> None:
        async with world.running("ab"), world.client("alice", "a") as alice, world.client("bob", "b") as bob:
            await bob.subscribe("n >= 0", callback=lambda _: None)
            await publish(alice, *range(30))
            await asyncio.to_thread(roll, tmp_path / "a", tmp_path / "archive", [Promoted("type")])
            await publish(alice, *range(30, 50))
            await world.acknowledged()

    asyncio.run(main())
    report = clean(world, archive=tmp_path / "archive")
    assert (report.verdict.publications, report.verdict.owed) == (50, 50)
    late = clean(world, archive=tmp_path / "archive", since=report.verdict.publications)
    assert late.verdict.publications == 50
    assert clean(world, since=2**61).verdict.publications == 0


def test_brokers_that_note_nothing_are_named(tmp_path: Path) -> None:
    async def main() -> None:
        async with serve(Options("quiet", port=0, data=tmp_path / "quiet")) as server:
            url = f"tidings://127.0.0.1:{server.port}"
            async with tidings.connect(url, name="bob") as bob:
                await bob.subscribe("n > 1", callback=lambda _: None)

    asyncio.run(main())
    report = World(tmp_path).audit()
    assert report.silent == ("quiet",)
    assert report.clean


@pytest.mark.parametrize(
    ("publishes", "subscribes", "deliveries", "told"),
    [
        (False, True, True, "nothing was published in this time"),
        (True, False, True, "nobody was subscribed"),
        (True, True, False, "no broker with subscriptions noted what it sent; set deliveries = true"),
        (True, True, True, None),
    ],
)
def test_an_audit_that_could_judge_nothing_fails(
    tmp_path: Path, publishes: bool, subscribes: bool, deliveries: bool, told: str | None
) -> None:
    options = Options("b", port=0, data=tmp_path / "b", store=StoreOptions(deliveries=deliveries))
    with serving(options) as url, sync.connect(url, name="bob") as bob:
        if subscribes:
            bob.subscribe("n > 0", callback=lambda _: None)
        if publishes:
            bob.publish(n=1, quality="stored")
    said = CliRunner().invoke(app, ["audit", "--from", "1h", "--data", str(tmp_path / "b")])
    assert said.exit_code == (0 if told is None else 1), said.output
    assert (f"nothing was judged: {told}" in said.stderr) == (told is not None)
    in_json = CliRunner().invoke(app, ["audit", "--from", "1h", "--data", str(tmp_path / "b"), "--json"])
    assert in_json.exit_code == said.exit_code
    assert (json.loads(in_json.stdout)["why_nothing"] is None) == (told is None)


def test_a_broker_that_is_killed_leaves_a_journal_that_can_be_trusted(tmp_path: Path) -> None:
    """Rows of deliveries die with their broker; what is in the journal still agrees with itself."""
    port = free_port()
    config = tmp_path / "a.toml"
    config.write_text(f'name = "a"\nport = {port}\ndata = "{tmp_path / "a"}"\n[store]\ndeliveries = true\n')
    words = [sys.executable, "-m", "tidings", "serve", "--config", str(config)]
    url = f"tidings://127.0.0.1:{port}"

    def started() -> Child:
        child = Child(words, tmp_path / "a.log")
        until(lambda: b"listens on" in (tmp_path / "a.log").read_bytes())
        return child

    async def main() -> None:
        broker = started()
        got: list[object] = []
        try:
            async with tidings.connect(url, name="bob") as bob, tidings.connect(url, name="alice") as alice:
                await bob.subscribe("n >= 0", callback=lambda notification: got.append(notification["n"]))
                for round_ in range(3):
                    for n in range(100):
                        await alice.publish({"n": 100 * round_ + n}, quality="stored")
                        await asyncio.sleep(0.004)
                    if round_ < 2:
                        await asyncio.sleep(0 if round_ else 2.5)  # once with acknowledgements, once without
                        broker.kill()
                        (tmp_path / "a.log").write_bytes(b"")
                        broker = await asyncio.to_thread(started)
                async with asyncio.timeout(60):
                    while len(got) < 300:
                        await asyncio.sleep(0.05)
                await alice.publish({"n": 300}, quality="stored")  # the mark behind it is acknowledged
                await asyncio.sleep(2.5)
        finally:
            broker.process.terminate()
            await asyncio.to_thread(broker.process.wait)
        assert sorted(map(int, map(str, got))) == list(range(301))

    asyncio.run(main())
    report = clean(World(tmp_path))
    assert report.verdict.publications == 301
    assert report.verdict.owed >= 200
    assert report.subscriptions >= 2  # one more if its client was back before the second kill
