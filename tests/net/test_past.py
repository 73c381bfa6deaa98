"""Subscriptions into the past on real brokers: memory, store and archive, through the client as applications use it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from net.world import brokers, options, running, take, until, url

import tidings
from tidings.broker import RoutingOptions
from tidings.history import CacheLimits, HistoryOptions
from tidings.net import ArchiveOptions, Server, StartError, StoreOptions, serve
from tidings.wire import Ending


async def published(client: tidings.Client, *prices: int, quality: str = "accepted") -> None:
    for price in prices:
        await client.publish(type="quote", price=price, quality=quality)
    await client.flush()


def prices(notifications: list[tidings.Notification]) -> list[object]:
    return [notification["price"] for notification in notifications]


@pytest.mark.req("ARC-198", "HIS-021", "HIS-022", "HIS-034")
@running
async def test_the_past_of_three_brokers_comes_first_and_then_what_is_new() -> None:
    async with brokers("abc", ["ab", "bc"]) as servers:
        async with tidings.connect(url(servers["a"])) as alice, tidings.connect(url(servers["b"])) as bob:
            await published(alice, 1, 2, 3)
            await published(bob, 4, 5)
            async with tidings.connect(url(servers["c"])) as carol:
                subscription = carol.subscribe("price > 1", past=tidings.last(3), with_origin=True)
                plain = await carol.subscribe("price > 1")
                past = await take(subscription, 3)
                await published(alice, 6)
                live = await take(subscription, 1)
                assert prices(await take(plain, 1)) == [6]
            assert prices(past) == [3, 4, 5]
            assert [one.from_past for one in past + live] == [True] * 3 + [False]
            assert isinstance(past[0], tidings.Traced)
            assert past[0].identity.origin == "a"
            assert repr(past[0]).startswith("Traced({'type': 'quote', 'price': 3}, from_past=True, published_at=20")
            assert "from_past=False" in repr(live[0])
            assert repr(live[0]).endswith("Z, origin='a')")
            report = subscription.history_report
            assert report is not None
            assert (report.count, report.ending, report.brokers) == (3, Ending.ANSWERED, 3)


@pytest.mark.req("HIS-003")
@running
async def test_parts_of_an_application_share_one_connection_to_one_broker_at_a_time() -> None:
    async with brokers("abc", ["ac", "bc"]) as servers, tidings.connect(url(servers["c"])) as feed:

        def at() -> list[str]:
            peers = [(name, peer) for name in "ab" for peer in servers[name].host.peers if peer.stream is not None]
            return [name for name, peer in peers if peer.link.name == "phone"]

        await published(feed, 1, 2, 3)
        async with tidings.connect([url(servers["a"]), url(servers["b"])], name="phone") as phone:
            chart = phone.subscribe("price > 0", past=tidings.last(3))
            display = phone.subscribe("price > 0", past=tidings.last(1))
            assert (prices(await take(chart, 3)), prices(await take(display, 1))) == ([1, 2, 3], [3])
            assert at() == ["a"]
            await servers["a"].stop()
            await until(lambda: at() == ["b"])
            await published(feed, 4)
            assert (prices(await take(chart, 1)), prices(await take(display, 1))) == ([4], [4])


@running
async def test_without_with_origin_nobody_can_tell_the_past_from_the_rest() -> None:
    async with brokers("a") as servers, tidings.connect(url(servers["a"])) as client:
        await published(client, 1)
        subscription = client.subscribe("price > 0", past=tidings.since("1h"))
        (one,) = await take(subscription, 1)
        assert one == tidings.Notification(type="quote", price=1)
        assert type(one) is tidings.Notification
        assert one.from_past is None


@running
async def test_a_restarted_broker_serves_what_it_had_acknowledged_as_stored(tmp_path: Path) -> None:
    async with serve(options("a", data=tmp_path)) as server, tidings.connect(url(server)) as client:
        await published(client, 1, 2, 3, quality="stored")
    async with serve(options("a", data=tmp_path)) as server, tidings.connect(url(server)) as client:
        await published(client, 4)
        subscription = client.subscribe("price > 0", past=tidings.last(3))
        assert prices(await take(subscription, 3)) == [2, 3, 4]
        assert subscription.history_report is not None
        assert subscription.history_report.found == {"memory": 1, "store": 2}


@running
async def test_what_the_store_has_forgotten_comes_from_the_archive(tmp_path: Path) -> None:
    archive = ArchiveOptions(tmp_path / "archive", roll_after=3_600)
    async with serve(options("a", data=tmp_path / "data", archive=archive)) as server:
        async with tidings.connect(url(server)) as client:
            await published(client, *range(10), quality="stored")
        assert server.keeper is not None
        await server.keeper.roll(archive)
    forgetful = StoreOptions(retain_for=0.001)
    async with serve(options("a", data=tmp_path / "data", archive=archive, store=forgetful)) as server:
        async with tidings.connect(url(server)) as client:
            await asyncio.sleep(0.05)
            assert server.keeper is not None
            assert server.store is not None
            server.keeper.retain()
            await published(client, 10, quality="stored")  # a slice goes with each commit
            store = server.store
            await until(lambda: not [one for one in store.query() if one.identity.epoch < store.epoch])
            subscription = client.subscribe("price >= 0", past=tidings.last(4))
            assert prices(await take(subscription, 4)) == [7, 8, 9, 10]
            assert subscription.history_report is not None
            assert subscription.history_report.found["archive"] == 3


@pytest.mark.req("HIS-132")
@running
async def test_history_can_be_switched_off_and_then_says_so() -> None:
    off = HistoryOptions(strategy="off")
    async with serve(options("a", history=off)) as server, tidings.connect(url(server)) as client:
        subscription = client.subscribe("price > 0", past=tidings.last(4))
        with pytest.raises(tidings.TidingsError, match="broker 'a' keeps no history, so it cannot answer last\\(4\\)"):
            await subscription
        assert "history" not in server.host.broker.features
        assert await client.subscribe("price > 0")


@pytest.mark.req("HIS-079")
def test_a_strategy_that_does_not_suit_the_routing_is_refused_at_the_start() -> None:
    with pytest.raises(StartError, match=r"history strategy 'border' .* does not work with routing 'covering'"):
        Server(options("a", history=HistoryOptions(strategy="border")))
    with pytest.raises(StartError, match="no history strategy is called 'best'"):
        Server(options("a", history=HistoryOptions(strategy="best")))


@running
async def test_bad_questions_are_refused_where_they_are_asked() -> None:
    async with brokers("a") as servers, tidings.connect(url(servers["a"])) as client:
        with pytest.raises(tidings.TidingsError, match='choose "strict" or "best_effort"'):
            client.subscribe("price > 0", past=tidings.last(1), consistency="loose")
        with pytest.raises(tidings.TidingsError, match="a timeout of -1 seconds"):
            client.subscribe("price > 0", past=tidings.last(1), timeout=-1)
        with pytest.raises(tidings.TidingsError, match="a timeout of nan seconds"):
            client.subscribe("price > 0", past=tidings.last(1), timeout=float("nan"))
        with pytest.raises(tidings.TidingsError, match="give either `durable` or `past`"):
            client.subscribe("price > 0", past=tidings.last(1), durable="quotes")
        with pytest.raises(tidings.BoundError):
            client.subscribe("price > 0", past=tidings.last(-1))


@pytest.mark.req("HIS-060")
@running
async def test_a_client_that_remembers_asks_nobody() -> None:
    """Under flooding, where brokers remember nothing."""
    local = options("a", history=HistoryOptions(strategy="local"), routing=RoutingOptions("flooding"))
    async with serve(local) as server, tidings.connect(url(server), remember=CacheLimits()) as client:
        first = await client.subscribe("price > 0")
        await published(client, 1, 2, 3)
        assert [one["price"] for one in await take(first, 3)] == [1, 2, 3]
        second = client.subscribe("price > 1", past=tidings.last(5), with_origin=True)
        await published(client, 4)
        found = await take(second, 3)
        assert [(one["price"], one.from_past) for one in found] == [(2, True), (3, True), (4, False)]
        async with tidings.connect(url(server)) as other:
            with pytest.raises(tidings.TidingsError, match="keeps no history"):
                await other.subscribe("price > 0", past=tidings.last(1))


@running
async def test_what_clients_ask_of_the_past_is_counted() -> None:
    async with brokers("a") as servers, tidings.connect(url(servers["a"])) as client:
        await published(client, 1, 2)
        await take(client.subscribe("price > 0", past=tidings.last(2)), 2)
        status = await client.status()
        assert {name: status.history[name] for name in ("asked", "answered", "delivered", "waiting")} == {
            "asked": 1,
            "answered": 1,
            "delivered": 2,
            "waiting": 0,
        }


def test_the_blocking_client_reaches_back_too(tmp_path: Path) -> None:
    started = asyncio.Event()

    async def host() -> None:
        async with serve(options("a")) as server:
            await asyncio.to_thread(ask, url(server))
            started.set()

    def ask(address: str) -> None:
        with tidings.sync.connect(address) as client:
            for price in (1, 2, 3):
                client.publish(price=price)
            subscription = client.subscribe("price > 0", past=tidings.last(2), with_origin=True)
            found = [subscription.receive(timeout=20) for _ in range(2)]
            assert [one and (one["price"], one.from_past) for one in found] == [(2, True), (3, True)]
            assert subscription.history_report is not None
            assert subscription.history_report.count == 2

    asyncio.run(host())
    assert started.is_set()
