"""What a subscriber missed while it was away is fetched in pieces that it can take."""

from __future__ import annotations

import asyncio

import pytest
from net.proxy import proxy
from net.world import brokers, connected, options, running, until, url
from soaking import long

import tidings
from tidings.broker import Role
from tidings.net import SlowPolicy, serve
from tidings.sim import Promises, Scenario
from tidings.wire import Gap


@pytest.mark.parametrize(("count", "size"), [(9_000, 10), (700, 20_000)], ids=["many", "large"])
@running
async def test_much_that_was_missed_comes_in_order_and_overruns_nobody(tmp_path, count: int, size: int) -> None:
    limits = {"client_resume": 0.05, "window_parts": 500, "queue_parts": 4_000, "queue_bytes": 12_000_000}
    async with brokers("ab", ["ab"], limits=limits, slow_policy=SlowPolicy.DROP_OLDEST) as servers:
        async with proxy(servers["b"].port) as way, tidings.connect(way.url) as reader:
            got: list[int] = []
            gaps: list[Gap] = []
            await reader.subscribe("EXISTS(n)", callback=lambda n: got.append(n["n"]), on_gap=gaps.append)
            async with tidings.connect(url(servers["a"])) as writer:
                await writer.publish(n=0)
                await until(lambda: got == [0])
                way.closed = True
                way.cut()
                await until(lambda: not servers["b"].host.broker.clients)
                for n in range(1, count):
                    await writer.publish(n=n, filling=b"x" * size)
                await writer.flush()
                way.closed = False
                while len(got) < count // 2:
                    await asyncio.sleep(0.005)
                for n in range(count, count + 50):  # live ones wait behind those that are owed
                    await writer.publish(n=n)
            await until(lambda: len(got) >= count + 50)
            assert not gaps
            assert got == list(range(count + 50))
            assert not servers["b"].host.broker.recovery.suspended


@running
async def test_what_two_subscriptions_of_one_client_are_owed_is_fetched_once() -> None:
    async with brokers("ab", ["ab"], limits={"client_resume": 0.05}) as servers:
        async with proxy(servers["b"].port) as way, tidings.connect(way.url) as reader:
            got: list[tuple[int, int]] = []
            for at in range(20):
                await reader.subscribe("EXISTS(n)", callback=lambda n, at=at: got.append((at, n["n"])))
            async with tidings.connect(url(servers["a"])) as writer:
                way.closed = True
                way.cut()
                await until(lambda: not servers["b"].host.broker.clients)
                for n in range(10):
                    await writer.publish(n=n)
                await writer.flush()
                fetches = servers["a"].host.broker.statistics.messages_in["Fetch"]
                way.closed = False
                await until(lambda: len(got) >= 200)
            assert sorted(got) == [(at, n) for at in range(20) for n in range(10)]
            assert servers["a"].host.broker.statistics.messages_in["Fetch"] - fetches <= 3


@pytest.mark.parametrize("first", [41, long(81), long(121)])
def test_tiny_answers_keep_every_promise_in_random_networks(monkeypatch, first: int) -> None:
    """With answers of a few notifications each, nearly every recovery takes several."""
    for limit, value in (("FETCH_ANSWER", 3), ("FETCH_PIECE", 2), ("FETCH_LOST", 2), ("FETCH_SCAN", 7)):
        monkeypatch.setattr(f"tidings.broker.forwarding._publications.{limit}", value)
    monkeypatch.setattr("tidings.broker.outlets._fetching.MAX_FETCHES", 2)
    promises = Promises.load()
    for seed in range(first, first + 40, 2):
        result = Scenario.random(seed).run(promises)
        assert not result.violations, result.report()


@pytest.mark.parametrize("role", [Role.INNER, Role.BORDER])
@running
async def test_a_broker_without_a_store_tells_a_gap_when_it_is_back_only_if_it_can_have_lost_something(
    role: Role,
) -> None:
    gaps: list[Gap] = []
    async with brokers("a") as servers, tidings.connect(url(servers["a"])) as reader:
        a = servers["a"]
        await reader.subscribe("EXISTS(n)", callback=lambda n: None, on_gap=gaps.append)
        for _ in range(3):
            async with serve(options("b", role=role, neighbours=(url(a),))) as b:
                await until(lambda b=b: connected([a, b]) and not a.host.broker.recovery.suspended)  # type: ignore[misc]
        await until(lambda: a.host.broker.statistics.gaps == len(gaps))
    assert len(gaps) == (0 if role is Role.INNER else 2)
