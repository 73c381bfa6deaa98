"""Durable subscriptions: they go on where the application had come to, whoever has died in between."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from client.transports import on_both, on_sockets, options, serve, take, until, url
from net.world import connected
from promised import each_quality, happened, holds

import tidings
from tidings.model import TidingsError
from tidings.net import Server
from tidings.sim import Outcome
from tidings.store import Store

ACKNOWLEDGED_ONCE = holds("acknowledged-once", "durable")


async def publish(server: Server, *numbers: int, quality: str = "stored", **more: object) -> None:
    async with tidings.connect(url(server)) as publisher:
        await publisher.publish_many([{"n": number, **more} for number in numbers], quality=quality)
        await (await publisher.publish(quality="stored", end=True))  # behind what nobody answers


def numbers(notifications: list[tidings.Notification]) -> list[object]:
    return [notification["n"] for notification in notifications]


async def abandon(client: tidings.Client) -> None:
    """Leave as a process does that is killed: the broker hears nothing."""
    await client.__aexit__(RuntimeError, RuntimeError("killed"), None)


@pytest.mark.req("MOB-004")
@on_both
async def test_what_was_published_while_the_client_was_away_comes_once_and_in_order(tmp_path: Path) -> None:
    async with serve(options(data=tmp_path)) as server:
        async with tidings.connect(url(server), name="alice") as client:
            subscription = await client.subscribe("EXISTS(n)", durable="quotes")
            await publish(server, 1, 2, 3)
            assert numbers(await take(subscription, 3)) == [1, 2, 3]
        await publish(server, 4, 5)
        async with tidings.connect(url(server), name="alice") as client:
            subscription = await client.subscribe("EXISTS(n)", durable="quotes")
            await publish(server, 6)
            assert numbers(await take(subscription, 3)) == [4, 5, 6]
            assert not subscription.gaps


@pytest.mark.req("MOB-004")
@on_both
async def test_a_subscription_that_is_not_durable_misses_what_is_published_while_the_client_is_away(
    tmp_path: Path,
) -> None:
    async with serve(options(data=tmp_path)) as server:
        for turn in range(2):
            async with tidings.connect(url(server), name="alice") as client:
                plain = await client.subscribe("EXISTS(n)")
                kept = await client.subscribe("EXISTS(n)", durable="quotes")
                await publish(server, 10 * turn + 1)
                expected = [1] if not turn else [2, 11]
                assert numbers(await take(kept, len(expected))) == expected
                assert numbers(await take(plain, 1)) == [10 * turn + 1]
            if not turn:
                await publish(server, 2)


@pytest.mark.req("MOB-005")
@on_sockets
async def test_what_is_stored_survives_a_restart_until_it_is_consumed_and_what_is_accepted_does_not(
    tmp_path: Path,
) -> None:
    expected: list[tuple[list[int], int]] = [([], 0), ([1, 3], 1), ([5], 0)]
    for turn, (wanted, gaps) in enumerate(expected):
        async with serve(options(data=tmp_path)) as server, tidings.connect(url(server), name="bob") as writer:
            async with tidings.connect(url(server), name="alice") as client:
                subscription = await client.subscribe("EXISTS(n)", durable="quotes")
                assert numbers(await take(subscription, len(wanted))) == wanted
                assert len(subscription.gaps) == gaps
            if not turn:
                for n, quality in ((1, "stored"), (2, "accepted"), (3, "stored")):
                    await (await writer.publish(n=n, quality=quality))
            elif turn == 1:
                await (await writer.publish(n=5, quality="stored"))


@pytest.mark.req("MOB-007")
@each_quality("client crash", "durable")
@on_both
async def test_what_was_not_handled_before_a_crash_comes_again_and_what_was_acknowledged_does_not(
    tmp_path: Path, quality: str, promised: Outcome
) -> None:
    async with serve(options(data=tmp_path)) as server:
        client = await tidings.connect(url(server), name="alice").__aenter__()
        subscription = await client.subscribe("EXISTS(n)", durable="quotes")
        await publish(server, 1, 2, 3, 4, quality=quality)
        await until(lambda: subscription.waiting == 4)
        await take(subscription, 2)
        await subscription.acknowledge()
        await take(subscription, 1)  # it is in the hands of the application when that dies
        await abandon(client)
        await publish(server, 5, quality=quality)
        async with tidings.connect(url(server), name="alice") as client:
            subscription = await client.subscribe("EXISTS(n)", durable="quotes")
            got = numbers(await take(subscription, 3))
            assert happened([3, 4, 5], got) is promised
            assert (got == [3, 4, 5]) is ACKNOWLEDGED_ONCE


@each_quality("own broker crash", "durable")
@on_sockets
async def test_a_broker_that_dies_with_its_subscriber_costs_nothing_that_was_published_elsewhere(
    tmp_path: Path, quality: str, promised: Outcome
) -> None:
    home = options("home", data=tmp_path / "home")
    server = Server(home)
    await server.start()
    client = await tidings.connect(url(server), name="alice").__aenter__()
    await client.subscribe("EXISTS(n)", durable="quotes")
    async with serve(options("origin", data=tmp_path / "origin", neighbours=(url(server),))) as origin:
        await until(lambda: connected([server, origin]))
        await publish(origin, 1, quality=quality)
        await until(lambda: server.host.broker.progress.of("origin"))
        await abandon(client)
        await server.stop()
        await publish(origin, 2, 3, quality=quality)
        async with serve(replace(home, port=server.port)) as again, tidings.connect(url(again), name="alice") as client:
            subscription = await client.subscribe("EXISTS(n)", durable="quotes")
            got = numbers(await take(subscription, 3))
            assert happened([1, 2, 3], got, _in_gaps(subscription)) is promised


def _in_gaps(subscription: tidings.Subscription) -> set[int]:
    return {n for gap in subscription.gaps for n in range(gap.first, (gap.last or 1_000) + 1)}


@pytest.mark.req("MOB-007")
@on_both
async def test_what_a_callback_has_handled_is_kept(tmp_path: Path) -> None:
    got: list[object] = []
    async with serve(options(data=tmp_path)) as server:
        for first in (1, 4):
            async with tidings.connect(url(server), name="alice") as client:
                subscription = await client.subscribe(
                    "EXISTS(n)", durable="quotes", callback=lambda n: got.append(n["n"])
                )
                await publish(server, first, first + 1, first + 2)
                await until(lambda upto=first + 2: upto in got)
                await subscription.acknowledge()
        assert got == [1, 2, 3, 4, 5, 6]


@on_both
async def test_after_unsubscribe_it_goes_on_in_the_same_client(tmp_path: Path) -> None:
    async with serve(options(data=tmp_path)) as server, tidings.connect(url(server), name="alice") as client:
        async with client.subscribe("EXISTS(n)", durable="quotes") as subscription:
            await publish(server, 1, 2)
            await take(subscription, 2)
            with pytest.raises(TidingsError, match="'quotes' is in use by this client; unsubscribe it first"):
                client.subscribe("EXISTS(n)", durable="quotes")
        await publish(server, 3)
        subscription = await client.subscribe("EXISTS(n)", durable="quotes")
        assert numbers(await take(subscription, 2)) == [2, 3]  # nobody had asked for what follows 2


@on_both
async def test_another_filter_under_the_same_name_changes_it(tmp_path: Path) -> None:
    async with serve(options(data=tmp_path)) as server:
        async with tidings.connect(url(server), name="alice") as client:
            subscription = await client.subscribe("n < 10", durable="quotes")
            subscription.update("n < 20")
            await subscription
        await publish(server, 5, 15, 25)
        async with tidings.connect(url(server), name="alice") as client:
            subscription = await client.subscribe("n > 10", durable="quotes")
            assert numbers(await take(subscription, 2)) == [15, 25]


@on_sockets
async def test_what_is_forgotten_begins_anew(tmp_path: Path) -> None:
    async with serve(options(data=tmp_path)) as server, tidings.connect(url(server), name="alice") as client:
        subscription = await client.subscribe("EXISTS(n)", durable="quotes")
        await client.forget("quotes")
        await client.forget("never existed")
        assert server.durables.count == 0
        assert [n async for n in subscription] == []
        await publish(server, 1)
        subscription = await client.subscribe("EXISTS(n)", durable="quotes")
        await publish(server, 2)
        assert numbers(await take(subscription, 1)) == [2]


@each_quality("retention exceeded", "durable")
@on_sockets
async def test_what_the_store_has_forgotten_is_a_gap(tmp_path: Path, quality: str, promised: Outcome) -> None:
    async with serve(options(data=tmp_path)) as server:
        async with tidings.connect(url(server), name="alice") as client:
            await client.subscribe("EXISTS(n)", durable="quotes")
        await publish(server, 1, 2, 3, quality=quality)
    async with serve(options(data=tmp_path)) as server:  # what is in memory is forgotten, too
        store = server.store
        assert store is not None
        await publish(server, 4)
        while any(
            store.bounds(epoch) is not None for epoch in store.epochs()[:-1]
        ):  # the keeper's own limits may stand in the same commit
            store.retain(older_than=2**62)
            await asyncio.sleep(0.05)
        async with tidings.connect(url(server), name="alice") as client:
            subscription = await client.subscribe("EXISTS(n)", durable="quotes")
            await until(lambda: subscription.gaps)
            assert (subscription.gaps[0].first, subscription.gaps[0].last) == (1, 4)
            assert happened([1, 2, 3], [], _in_gaps(subscription)) is promised


@on_sockets
async def test_a_broker_that_has_come_since_is_not_missed(tmp_path: Path) -> None:
    async with serve(options("a", data=tmp_path / "a")) as server:
        async with tidings.connect(url(server), name="alice") as client:
            await client.subscribe("EXISTS(n)", durable="quotes")
        async with serve(options("b", data=tmp_path / "b", neighbours=(url(server),))) as other:
            await until(lambda: "b" in server.host.broker.adjacency.tree.hops)
            await publish(other, 1, 2)
            await until(lambda: server.host.broker.progress.of("b"))
            async with tidings.connect(url(server), name="alice") as client:
                subscription = await client.subscribe("EXISTS(n)", durable="quotes")
                assert numbers(await take(subscription, 2)) == [1, 2]


@on_sockets
async def test_a_client_that_lost_its_broker_goes_on_and_keeps_going(tmp_path: Path) -> None:
    async with serve(options(data=tmp_path)) as server:
        port = server.port
        client = await tidings.connect(url(server), name="alice").__aenter__()
        subscription = await client.subscribe("EXISTS(n)", durable="quotes")
        await publish(server, 1)
        await take(subscription, 1)
    async with serve(replace(options(data=tmp_path), port=port)) as server:
        await publish(server, 2)
        assert numbers(await take(subscription, 1)) == [2]
        await subscription.acknowledge()
        await abandon(client)
        await publish(server, 3)
        async with tidings.connect(url(server), name="alice") as client:
            subscription = await client.subscribe("EXISTS(n)", durable="quotes")
            assert numbers(await take(subscription, 1)) == [3]


@on_both
async def test_the_number_of_durable_subscriptions_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidings.broker._durables.MAX_DURABLE", 2)
    async with serve(options(data=tmp_path)) as server, tidings.connect(url(server), name="alice") as client:
        await client.subscribe("TRUE", durable="one")
        await client.subscribe("TRUE", durable="two")
        with pytest.raises(TidingsError, match=r"'three' is one durable subscription too many.*'alice'.*forget"):
            await client.subscribe("TRUE", durable="three")
        await client.forget("one")
        await client.subscribe("TRUE", durable="three")


@on_sockets
async def test_a_name_that_cannot_be_and_a_broker_without_a_store_are_refused(tmp_path: Path) -> None:
    async with serve(options(data=tmp_path)) as server, tidings.connect(url(server), name="alice") as client:
        for name in ("", "x" * 257):
            with pytest.raises(TidingsError, match="1 to 256"):
                await client.subscribe("TRUE", durable=name)
    async with serve(options()) as server, tidings.connect(url(server), name="alice") as client:
        with pytest.raises(TidingsError, match="no store to keep 'quotes' in; give it a data directory"):
            await client.subscribe("TRUE", durable="quotes")
        plain = await client.subscribe("TRUE")
        with pytest.raises(TidingsError, match="not durable"):
            await plain.acknowledge()


@on_both
async def test_two_clients_may_use_the_same_name(tmp_path: Path) -> None:
    async with serve(options(data=tmp_path)) as server:
        for client_name in ("alice", "bob"):
            async with tidings.connect(url(server), name=client_name) as client:
                await client.subscribe("EXISTS(n)", durable="quotes")
                await asyncio.sleep(0)
        await publish(server, 1)
        for client_name in ("alice", "bob"):
            async with tidings.connect(url(server), name=client_name) as client:
                assert numbers(await take(await client.subscribe("EXISTS(n)", durable="quotes"), 1)) == [1]


@on_sockets
async def test_a_record_that_cannot_be_read_costs_itself_and_not_the_broker(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with Store.open(tmp_path, post=lambda call: call(), owner="b") as store:
        store.put("durable", '["alice","quotes"]', b"damaged")
    async with serve(options(data=tmp_path)) as server, tidings.connect(url(server), name="alice") as client:
        assert "so it starts over" in caplog.text
        subscription = await client.subscribe("EXISTS(n)", durable="quotes")
        await publish(server, 1)
        assert numbers(await take(subscription, 1)) == [1]


@each_quality("client crash, elsewhere", "durable")
@on_sockets
async def test_a_client_that_dies_and_comes_back_at_another_broker_goes_on_there(
    tmp_path: Path, quality: str, promised: Outcome
) -> None:
    async with (
        serve(options("a", data=tmp_path / "a")) as one,
        serve(options("b", data=tmp_path / "b", neighbours=(url(one),))) as two,
    ):
        await until(lambda: connected([one, two]))
        client = await tidings.connect(url(one), name="alice").__aenter__()
        subscription = await client.subscribe("EXISTS(n)", durable="quotes")
        await publish(one, 1, 2, 3, quality=quality)
        await take(subscription, 2)
        await subscription.acknowledge()
        await abandon(client)
        await publish(one, 4, quality=quality)
        async with tidings.connect(url(two), name="alice") as client:
            subscription = await client.subscribe("EXISTS(n)", durable="quotes")
            got = numbers(await take(subscription, 2))
            assert happened([3, 4], got) is promised
            assert (got == [3, 4]) is ACKNOWLEDGED_ONCE
        await until(lambda: not one.durables.count)
        assert two.durables.count == 1
