"""The client library against real brokers in the same process."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass

import pytest
from client.transports import brokers, on_both, on_sockets, options, serve, take, until, url

import tidings
from tidings.broker import RoutingOptions
from tidings.model import (
    Constraint,
    Filter,
    Kind,
    NotAdvertised,
    Scalar,
    TidingsError,
    ValueRefused,
    register_operator,
)
from tidings.net import Access, AccessEntry


@on_both
async def test_what_is_published_reaches_those_who_subscribed() -> None:
    async with brokers("b") as servers, tidings.connect(url(servers["b"])) as client:
        subscription = await client.subscribe("price > 100")
        await client.publish(symbol="ABC", price=12.5)
        await client.publish(symbol="SAP", price=182.4)
        assert await take(subscription, 1) == [tidings.Notification(symbol="SAP", price=182.4)]


@pytest.mark.req("MOB-003")
@on_both
async def test_a_topic_has_a_selector_over_attributes() -> None:
    async with brokers("b") as servers, tidings.connect(url(servers["b"])) as client:
        subscription = await client.subscribe("type = 'quote' AND (price > 100 OR symbol LIKE 'S%')")
        for number, (topic, symbol, price) in enumerate(
            [("quote", "ABC", 12), ("order", "SAP", 182), ("quote", "ABC", 182), ("quote", "SAP", 12)]
        ):
            await client.publish(type=topic, symbol=symbol, price=price, number=number)
        assert [one["number"] for one in await take(subscription, 2)] == [2, 3]


@on_both
async def test_json_works_as_well() -> None:
    async with brokers("b") as servers, tidings.connect(url(servers["b"]), serialiser="json") as client:
        subscription = await client.subscribe("price > 100")
        await client.publish(price=182.4, at=tidings.Location("earth/berlin"), raw=b"\x00\xff")
        (notification,) = await take(subscription, 1)
        assert notification["raw"] == b"\x00\xff"
        assert notification["at"] == tidings.Location("earth/berlin")


@on_both
async def test_receipts_name_the_event() -> None:
    async with brokers("b") as servers, tidings.connect(url(servers["b"])) as client:
        keys = [await (await client.publish(n=n)) for n in range(3)]
        assert [(key.origin, key.seq) for key in keys if key is not None] == [("b", 1), ("b", 2), ("b", 3)]
        assert await (await client.publish(n=4, quality="fire")) is None


@on_both
async def test_many_publications_are_flushed_at_the_end() -> None:
    async with brokers("b") as servers:
        got: list[int] = []
        async with tidings.connect(url(servers["b"])) as reader:
            await reader.subscribe("EXISTS(n)", callback=lambda n: got.append(n["n"]))
            async with tidings.connect(url(servers["b"])) as writer:
                for n in range(5_000):
                    await writer.publish(n=n)
            assert writer.statistics().unacknowledged == 0
            await until(lambda: len(got) == 5_000)
        assert got == list(range(5_000))


@on_both
async def test_after_unsubscribe_nothing_more_comes() -> None:
    async with brokers("b") as servers, tidings.connect(url(servers["b"])) as client:
        gone, stays = client.subscribe("EXISTS(n)"), client.subscribe("EXISTS(n)")
        await gone
        await stays
        await client.publish(n=1)
        await take(stays, 1)
        await take(gone, 1)
        gone.unsubscribe()
        gone.unsubscribe()
        await client.publish(n=2)
        await take(stays, 1)
        assert gone.waiting == 0
        with pytest.raises(StopAsyncIteration):
            await anext(gone)
        await until(lambda: len(servers["b"].host.broker.root.subscriptions) == 1)


@on_both
async def test_a_filter_changes_without_loss_or_repetition_under_traffic() -> None:
    async with (
        brokers("ab", ["ab"]) as servers,
        tidings.connect(url(servers["a"])) as writer,
        tidings.connect(url(servers["b"])) as reader,
    ):
        got: list[int] = []
        subscription = await reader.subscribe("n >= 0 AND n < 100000", callback=lambda n: got.append(n["n"]))
        for n in range(2_000):
            await writer.publish(n=n)
            if n % 100 == 50:
                subscription.update(f"n >= 0 AND n < {100_000 + n}")
        await writer.flush()
        await until(lambda: got and got[-1] == 1_999)
        assert got == list(range(2_000))
        await subscription
        assert len(servers["b"].host.broker.root.subscriptions) == 1


@on_both
async def test_own_publications_come_back_unless_that_is_switched_off() -> None:
    async with brokers("b") as servers, tidings.connect(url(servers["b"])) as client:
        with_own = await client.subscribe("EXISTS(n)")
        without = await client.subscribe("EXISTS(n)", receive_own=False)
        async with tidings.connect(url(servers["b"])) as other:
            await client.publish(n=1)
            await client.flush()
            await other.publish(n=2)
        assert [n["n"] for n in await take(with_own, 2)] == [1, 2]
        assert [n["n"] for n in await take(without, 1)] == [2]


@on_both
async def test_own_publications_stay_switched_off_when_the_filter_changes() -> None:
    async with (
        serve(options()) as server,
        tidings.connect(url(server)) as client,
        tidings.connect(url(server)) as other,
    ):
        subscription = await client.subscribe("n < 0", receive_own=False)
        subscription.update("EXISTS(n)")
        await subscription
        await client.publish(n=1)
        await client.flush()
        await other.publish(n=2)
        assert [n["n"] for n in await take(subscription, 1)] == [2]


@pytest.mark.req("ARC-017")
@on_both
async def test_with_advertisements_on_what_was_not_advertised_is_refused() -> None:
    async with (
        brokers("b", routing=RoutingOptions(advertisements=True)) as servers,
        tidings.connect(url(servers["b"])) as client,
    ):
        refused = await client.publish(type="quote", price=1)
        with pytest.raises(NotAdvertised, match="advertise a filter that it passes"):
            await refused
        id = await client.advertise("type = 'quote'")
        subscription = await client.subscribe("type = 'quote'")
        await (await client.publish(type="quote", price=2))
        assert [n["price"] for n in await take(subscription, 1)] == [2]
        with pytest.raises(NotAdvertised):
            await (await client.publish(type="trade", price=2))
        client.unadvertise(id)
        with pytest.raises(NotAdvertised):
            await (await client.publish(type="quote", price=3))


@on_both
async def test_a_refusal_that_nobody_asked_about_is_raised_when_flushing() -> None:
    async with brokers("b", routing=RoutingOptions(advertisements=True)) as servers:
        with pytest.raises(NotAdvertised):
            async with tidings.connect(url(servers["b"])) as client:
                await client.publish(type="quote")
        async with tidings.connect(url(servers["b"])) as client:
            await client.publish(type="quote", quality="fire")
            await until(lambda: client._publications._unheard)
            with pytest.raises(NotAdvertised):
                await client.flush()


@on_sockets
async def test_what_somebody_may_not_do_is_refused_to_it_and_to_nobody_else() -> None:
    access = Access(
        tokens={
            "r": AccessEntry("reader", publish=Filter.parse("type = 'none'"), subscribe=Filter.parse("type = 'quote'")),
            "w": AccessEntry("writer"),
        }
    )
    async with (
        brokers("b", access=access) as servers,
        tidings.connect(url(servers["b"]), token="r") as reader,
        tidings.connect(url(servers["b"]), token="w") as writer,
    ):
        with pytest.raises(TidingsError, match="'reader' may only publish"):
            await (await reader.publish(type="quote"))
        with pytest.raises(TidingsError, match="'reader' may only subscribe"):
            await reader.subscribe("type = 'secret'")
        with pytest.raises(TidingsError, match="'reader' may only advertise"):
            await reader.advertise("type = 'quote'")
        allowed = await reader.subscribe("type = 'quote' AND price > 1")
        await writer.publish(type="quote", price=2)
        assert len(await take(allowed, 1)) == 1
        allowed.update("price > 1")
        with pytest.raises(TidingsError, match="'reader' may only subscribe"):
            await allowed


@on_sockets
async def test_stored_needs_a_store(tmp_path) -> None:
    async with brokers("b") as servers, tidings.connect(url(servers["b"])) as client:
        with pytest.raises(TidingsError, match="has no store"):
            await (await client.publish(n=1, quality="stored"))
    async with brokers("b", data=tmp_path) as servers, tidings.connect(url(servers["b"])) as client:
        subscription = await client.subscribe("EXISTS(n)")
        key = await (await client.publish(n=1, quality="stored"))
        assert key is not None
        assert key.seq == 1
        assert len(await take(subscription, 1)) == 1
        assert [e.identity.seq for e in servers["b"].store.read(key.epoch, 0)] == [1]


@on_both
async def test_a_value_that_cannot_be_is_refused_before_it_is_sent() -> None:
    async with brokers("b") as servers, tidings.connect(url(servers["b"])) as client:
        with pytest.raises(ValueRefused):
            await client.publish(n=float("nan"))
        with pytest.raises(ValueRefused, match="too large"):
            await client.publish({f"n{at}": b"x" * 60_000 for at in range(20)})
        assert client.statistics().unacknowledged == 0


@on_both
async def test_a_callback_that_fails_costs_neither_the_connection_nor_other_notifications(caplog) -> None:
    async with brokers("b") as servers, tidings.connect(url(servers["b"])) as client:
        got: list[int] = []

        def picky(notification: tidings.Notification) -> None:
            got.append(notification["n"])
            if notification["n"] == 1:
                raise RuntimeError("not this one")

        await client.subscribe("EXISTS(n)", callback=picky)
        with caplog.at_level(logging.ERROR, "tidings.client"):
            for n in range(4):
                await client.publish(n=n)
            await until(lambda: len(got) == 4)
        assert got == [0, 1, 2, 3]
        assert client.statistics().reconnects == 0
        assert "not this one" in caplog.text


@on_both
async def test_nobody_there_is_a_clear_error() -> None:
    async with serve(options()) as server:
        address = url(server)
    with pytest.raises(tidings.ConnectionFailed, match="Is the server running"):
        async with tidings.connect(address):
            pass
    with pytest.raises(tidings.ConnectionFailed, match="write tidings://host:port"):
        tidings.connect("http://127.0.0.1:1")


@on_both
async def test_the_second_broker_of_the_list_is_used_if_the_first_is_not_there() -> None:
    async with serve(options("gone")) as gone:
        address = url(gone)
    async with (
        brokers("b") as servers,
        tidings.connect([address, url(servers["b"])]) as client,
    ):
        assert client.statistics().broker == "b"


@on_both
async def test_a_closed_client_says_so_and_does_not_hang() -> None:
    async with brokers("b") as servers:
        async with tidings.connect(url(servers["b"])) as client:
            subscription = await client.subscribe("EXISTS(n)")
        with pytest.raises(tidings.ConnectionFailed, match="is closed"):
            await client.publish(n=1)
        with pytest.raises(tidings.ConnectionFailed, match="is closed"):
            client.subscribe("EXISTS(n)")
        with pytest.raises(tidings.ConnectionFailed, match="is closed"):
            await client.advertise("EXISTS(n)")
        with pytest.raises(StopAsyncIteration):
            await anext(subscription)
        await until(lambda: not servers["b"].host.peers)


@on_both
async def test_a_later_client_of_the_same_name_is_heard() -> None:
    async with brokers("b") as servers, tidings.connect(url(servers["b"])) as reader:
        subscription = await reader.subscribe("EXISTS(n)")
        for n in range(3):
            async with tidings.connect(url(servers["b"]), name="sensor") as sensor:
                await (await sensor.publish(n=n))
        assert [n["n"] for n in await take(subscription, 3)] == [0, 1, 2]


@on_both
async def test_a_later_client_of_the_same_name_is_heard_although_its_clock_went_back(monkeypatch) -> None:
    async with brokers("b") as servers, tidings.connect(url(servers["b"])) as reader:
        subscription = await reader.subscribe("EXISTS(n)")
        async with tidings.connect(url(servers["b"]), name="sensor") as sensor:
            await sensor.publish(n=0)
        with monkeypatch.context() as patch:
            patch.setattr("tidings.client._client.time.time_ns", lambda: 1_000_000)
            async with tidings.connect(url(servers["b"]), name="sensor") as sensor:
                await sensor.publish(n=1)
        assert [n["n"] for n in await take(subscription, 2)] == [0, 1]


@on_both
async def test_several_subscriptions_get_a_notification_once_each() -> None:
    async with brokers("ab", ["ab"]) as servers, tidings.connect(url(servers["a"])) as client:
        subscriptions = [await client.subscribe(f"n >= {least}") for least in range(3)]
        async with tidings.connect(url(servers["b"])) as writer:
            for n in range(3):
                await writer.publish(n=n)
        assert [[n["n"] for n in await take(s, 3 - least)] for least, s in enumerate(subscriptions)] == [
            [0, 1, 2],
            [1, 2],
            [2],
        ]


@on_both
async def test_many_clients_at_once() -> None:
    async with brokers("ab", ["ab"]) as servers, asyncio.TaskGroup() as group:
        counts = []

        async def chat(number: int) -> None:
            async with tidings.connect(url(servers["ab"[number % 2]])) as client:
                mine = await client.subscribe(f"to = {number}")
                everybody.release()
                async with asyncio.timeout(20):
                    while everybody._value < 20:
                        await asyncio.sleep(0.01)
                await client.publish(to=(number + 1) % 20)
                counts.append(len(await take(mine, 1)))

        everybody = asyncio.Semaphore(0)
        for number in range(20):
            group.create_task(chat(number))
    assert counts == [1] * 20


@pytest.mark.req("ARC-003")
@on_sockets
async def test_a_client_that_knows_several_brokers_is_attached_to_one_of_them() -> None:
    async with brokers("ab", ["ab"]) as servers, tidings.connect([url(servers["a"]), url(servers["b"])]) as client:
        await client.subscribe("n > 0")
        assert [len(servers[name].host.broker.clients) for name in "ab"] == [1, 0]
        await servers["a"].stop()
        await until(lambda: servers["b"].host.broker.clients)
        await client.publish(n=1)
        assert len(servers["b"].host.broker.clients) == 1
        assert client.statistics().broker == "b"


class Reading(tidings.Notification):
    """A notification class of an application."""


@dataclass(frozen=True)
class Odd(Constraint):
    """An operator of an application."""

    name: str
    kind = Kind.NUMBER

    def holds(self, scalar: Scalar) -> bool:
        return isinstance(scalar, int) and scalar % 2 == 1

    def __str__(self) -> str:
        return f"{self.name} IS_ODD ()"


@pytest.mark.req("ARC-199")
@on_both
async def test_notifications_and_operators_of_ones_own_go_through_real_brokers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidings.model._operator_words._FACTORIES", {})
    register_operator("IS_ODD", Odd)
    async with brokers("ab", ["ab"]) as servers:
        async with tidings.connect(url(servers["a"])) as writer, tidings.connect(url(servers["b"])) as reader:
            subscription = await reader.subscribe("n IS_ODD () AND n > 1")
            for n in range(6):
                await (await writer.publish(Reading(n=n)))
            assert await take(subscription, 2) == [Reading(n=3), Reading(n=5)]
            (told,) = servers["a"].host.broker.root.subscriptions
            assert told.filter == Filter.parse("n IS_ODD () AND n > 1"), "what is sent to b is what is wanted there"
