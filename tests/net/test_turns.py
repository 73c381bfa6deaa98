"""Turns: what takes long is handled bit by bit, in order, and everybody else is served in between."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator

import pytest
from net.world import Raw, brokers, running, until

import tidings
from tidings.broker import MAX_COST
from tidings.broker.interest._covering import COMPARED_COST
from tidings.model import Filter, FilterTooLarge
from tidings.model.operators.like import _compared
from tidings.net._turns import LIGHT, is_light
from tidings.wire import (
    JSON,
    MSGPACK,
    Deliver,
    DeliverAck,
    Frame,
    Part,
    Publish,
    PublishAck,
    Refused,
    Settled,
    Subscribe,
    Unsubscribe,
    encode_body,
    part,
)

BODY = encode_body(tidings.Notification(n=1))


@running
async def test_a_read_full_of_registrations_lets_others_register_in_between_and_keeps_its_order(monkeypatch) -> None:
    monkeypatch.setattr("tidings.net._connection.SLICE", 0.0)
    count = 300
    async with brokers("b") as servers, await Raw.open(servers["b"]) as many, await Raw.open(servers["b"]) as one:
        broker = servers["b"].host.broker
        await many.hello("many")
        await one.hello("one")
        filters = [Filter.parse(f"n = 1 AND x{number} IS NULL") for number in range(count)]
        many.send(*(Subscribe(f"s{number}", filter) for number, filter in enumerate(filters)))
        many.send(Publish(1, BODY), *(Unsubscribe(f"s{number}") for number in range(count - 1)), Publish(2, BODY))
        many.write(part(Part.PING))
        await many.drain()
        await until(lambda: broker.registrations.subscriptions(link(broker, "many")))
        one.send(Subscribe("mine", Filter.parse("EXISTS(m)")))
        await one.expect(Settled)
        peer = next(peer for peer in servers["b"].host.peers if peer.link.name == "many")
        assert peer.session.received < count
        got: list[tuple[str, ...]] = []
        acknowledged = 0
        while len(got) < 2 or acknowledged < 2:
            message = await many.message()
            if isinstance(message, Deliver):
                got.append(message.subscriptions)
            elif isinstance(message, PublishAck):
                acknowledged += message.count
        assert sorted(got[0]) == sorted(f"s{number}" for number in range(count))
        assert got[1] == (f"s{count - 1}",)
        assert peer.session.received == 2 * count + 1
        assert (await many.part())[0] in {Part.PONG, Part.ACK}
        await until(lambda: peer.stream is not None and not peer.stream.paused)


def link(broker, name: str):
    return next(link for link in broker.clients if link.name == name)


@running
async def test_what_waits_for_its_turn_comes_again_after_a_cut(monkeypatch) -> None:
    monkeypatch.setattr("tidings.net._connection.SLICE", 0.0)
    async with brokers("b") as servers:
        raw = await Raw.open(servers["b"])
        welcome = await raw.hello("cut")
        registrations = [Subscribe(f"s{number}", Filter.parse(f"n = {number}")) for number in range(500)]
        raw.send(*registrations)
        await raw.drain()
        peer = servers["b"].host.peers[0]
        await until(lambda: peer.session.received > 0)
        assert peer.session.received < 500
        assert peer.stream is not None
        peer.stream.abort()
        await until(lambda: peer.stream is None)
        received = peer.session.received
        await raw.close()
        async with await Raw.open(servers["b"]) as again:
            answer = await again.hello("cut", session=welcome.session)
            assert answer.received == received
            again.send(*registrations[received:])
            broker = servers["b"].host.broker
            await until(lambda: len(broker.registrations.subscriptions(link(broker, "cut"))) == 500)


@pytest.mark.parametrize("serialiser", [MSGPACK, JSON], ids=lambda one: one.name)
def test_what_never_takes_long_is_told_without_reading_it(serialiser) -> None:
    light = [Publish(1, BODY), DeliverAck("b", 1, 1)]
    heavy = [Subscribe("Publish", Filter.parse("type = 'Publish'")), Unsubscribe("Notify")]
    assert all(type(message) in LIGHT and is_light(serialiser.encode(Frame(message))) for message in light)
    assert not any(is_light(serialiser.encode(Frame(message))) for message in heavy)


@running
async def test_a_filter_that_costs_too_much_is_refused_with_its_cost_and_a_remedy() -> None:
    async with brokers("b") as servers, await Raw.open(servers["b"]) as raw:
        await raw.hello("greedy")
        raw.send(Subscribe("s1", Filter.parse(" AND ".join(f"a{at} = 1" for at in range(MAX_COST + 1)))))
        refusal = await raw.expect(Refused)
        assert refusal.error == FilterTooLarge.__name__
        for word in (f"{MAX_COST + 1}", f"{MAX_COST}", "several subscriptions"):
            assert word in refusal.reason
        raw.send(Subscribe("s2", Filter.parse("s LIKE '" + "a%" * (MAX_COST - 1) + "'")))
        await raw.expect(Settled)


@running
async def test_one_registration_compares_no_more_patterns_than_it_can_afford() -> None:
    rng = random.Random(1)
    async with brokers("ab", ["ab"]) as servers, await Raw.open(servers["b"]) as raw:
        await raw.hello("hard")
        most = 0
        for number in range(80):
            pattern = "%".join(rng.choice("ab") for _ in range(COMPARED_COST - 2))
            before = _compared.cache_info().misses
            raw.send(Subscribe(f"s{number}", Filter.parse(f"s LIKE '%{pattern}%'")))
            await raw.expect(Settled)
            most = max(most, _compared.cache_info().misses - before)
        assert 0 < most <= 2 * 25  # at both brokers; each has an allowance of its own


@contextlib.asynccontextmanager
async def slow_turns() -> AsyncIterator[None]:
    """Let every turn of the loop last a millisecond, so that what waits for its turn waits for others, too."""

    async def hold_up() -> None:
        while True:
            time.sleep(0.001)
            await asyncio.sleep(0)

    task = asyncio.create_task(hold_up())
    try:
        yield
    finally:
        task.cancel()


@running
async def test_a_read_full_of_publications_that_take_long_lets_others_publish_in_between(monkeypatch) -> None:
    monkeypatch.setattr("tidings.net._connection.LIGHT_SLICE", 0.0)
    monkeypatch.setattr("tidings.broker.forwarding._feeding.MAX_RUN", 5)  # the compiled engine takes a run in each turn
    count = 1_000
    async with brokers("b") as servers, await Raw.open(servers["b"]) as many, await Raw.open(servers["b"]) as one:
        latest = servers["b"].host.broker.publications.latest
        await many.hello("many")
        await one.hello("one")
        async with slow_turns():
            many.send(*(Publish(number, BODY) for number in range(1, count + 1)))
            await until(lambda: latest("many") > 0)
            assert latest("many") < count
            one.send(Publish(1, BODY))
            await until(lambda: latest("one") == 1)
            assert latest("many") < count, "it did not have to wait for all of them"
        await until(lambda: latest("many") == count)
        publications = servers["b"].host.broker.publications.recent
        numbers = [one.identity.publisher_seq for one in publications if one.identity.publisher == "many"]
        assert numbers == list(range(1, count + 1))
