"""Memory: what is kept for clients is bounded for each identity and for all, and what is done at the limit is told."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import pytest
from net.test_flow import numbers
from net.test_status import fetch, metrics
from net.world import Raw, brokers, options, running, until, url

import tidings
from tidings.broker import Link, LinkKind
from tidings.broker.forwarding import _waiting as waiting
from tidings.model import Filter
from tidings.net import Access, Server, serve
from tidings.net._access import AccessEntry
from tidings.net._budget import Budget, BudgetExceeded
from tidings.wire import Keep, Kept, Refused, Settled, Subscribe, Unsubscribe, Welcome
from tidings.wire._framing import HEADER

LARGE = {"window_parts": 40, "window_bytes": 400_000, "queue_parts": 30_000, "queue_bytes": 30_000_000}
TOKENS = {"one": AccessEntry("one"), "two": AccessEntry("two")}


def test_a_budget_counts_for_each_owner_and_for_all() -> None:
    budget = Budget(1_000, 1_500)
    budget.add("a", 900)
    budget.add("b", 500)
    assert not budget.exceeded_by("a")
    assert not budget.exceeded
    budget.add("a", 200)
    assert budget.exceeded_by("a")
    assert not budget.exceeded_by("b")
    assert budget.exceeded
    budget.add("a", -1_100)
    budget.add("b", -500)
    assert budget.total == 0
    assert not budget._used


def test_without_access_control_a_client_stands_for_itself() -> None:
    assert Link("c", LinkKind.CLIENT).owner == "c"
    assert Link("c", LinkKind.CLIENT, AccessEntry("one")).owner == "one"


async def stalled(
    server: Server, names: list[str], at: contextlib.AsyncExitStack, token: str | None = None
) -> list[Raw]:
    raws = []
    for number, name in enumerate(names):
        raw = await at.enter_async_context(await Raw.open(server))
        assert isinstance(await raw.hello(name, token=token), Welcome)
        raw.send(Subscribe(f"s{number}", Filter.parse("EXISTS(n)")))
        raws.append(raw)
    await until(lambda: len(server.host.broker.root.subscriptions) >= len(names))
    return raws


@running
async def test_ten_that_do_not_read_share_one_bound_and_are_told_what_they_lost() -> None:
    limits = {**LARGE, "memory_bytes": 6_000_000}
    async with brokers("b", limits=limits) as servers, contextlib.AsyncExitStack() as at:
        server = servers["b"]
        raws = await stalled(server, [f"slow-{at}" for at in range(10)], at)
        writer = await at.enter_async_context(tidings.connect(url(server)))
        most = 0
        for n in range(1, 2_001):
            await writer.publish(n=n, filling=b"x" * 2_000)
            if n % 50 == 0:
                await writer.flush()
                most = max(most, sum(peer.queued_bytes for peer in server.host.peers))
        assert 4_000_000 < most <= 6_100_000
        server.host.census()
        assert server.host.budget.shortened > 0
        assert server.host.budget.total <= 6_000_000
        assert server.host.budget.ended == 0  # as long as queues can be shortened, nobody has to go
        for raw in raws[:3]:
            delivered, gaps = await numbers(raw, 2_000)
            missing = {n for first, last in gaps for n in range(first, last + 1)}
            assert missing
            assert sorted({*delivered, *missing}) == list(range(1, 2_001))
    assert server.host.budget.total <= 30_000  # the registrations


@running
async def test_what_one_identity_leaves_unread_costs_no_other_one_anything() -> None:
    limits = {**LARGE, "identity_bytes": 2_000_000}
    access = Access(tokens=TOKENS)
    async with brokers("b", limits=limits, access=access) as servers, contextlib.AsyncExitStack() as at:
        server = servers["b"]
        raws = await stalled(server, [f"one/{at}" for at in range(5)], at, "one")
        raws += await stalled(server, ["two/1"], at, "two")
        writer = await at.enter_async_context(tidings.connect(url(server), token="two", name="two/writer"))
        for n in range(1, 601):
            await writer.publish(n=n, filling=b"x" * 2_000)
        await writer.flush()
        dropped = {peer.link.name: peer.dropped for peer in server.host.peers}
        assert dropped.pop("two/1") == 0
        assert sum(dropped.values()) > 0
        assert sum(peer.queued_bytes for peer in server.host.peers if peer.owner == "one") <= 2_010_000


@running
async def test_registrations_beyond_the_budget_are_refused_and_an_ended_one_makes_room() -> None:
    async with (
        brokers("b", limits={"identity_bytes": 25_000}) as servers,
        await Raw.open(servers["b"]) as raw,
    ):
        await raw.hello("greedy")
        for number in range(5):
            raw.send(Subscribe(f"s{number}", Filter.parse(f"a = {number} AND b = 1")))
            await raw.expect(Settled)
        raw.send(Subscribe("more", Filter.parse("a = 7")))
        refusal = await raw.expect(Refused)
        assert refusal.error == BudgetExceeded.__name__
        assert "identity_bytes" in refusal.reason
        assert servers["b"].host.budget.refused == 1
        raw.send(Unsubscribe("s1"), Subscribe("more", Filter.parse("a = 7")))
        await raw.expect(Settled)
        assert 15_000 < servers["b"].host.budget.total <= 25_000


@running
async def test_many_values_and_long_notes_count_as_what_they_take() -> None:
    async with (
        brokers("b", limits={"identity_bytes": 1_000_000}) as servers,
        await Raw.open(servers["b"]) as raw,
    ):
        await raw.hello("greedy")
        for first in range(1_000_000, 1_001_200, 400):
            values = ",".join(map(str, range(first, first + 400)))
            raw.send(Subscribe(f"s{first}", Filter.parse(f"a IN ({values})")))
            await raw.expect(Settled)
        assert 300_000 < servers["b"].host.budget.total < 600_000, "each value stands in several tables"
        raw.send(*(Subscribe(f"m{n}", Filter.parse("a = 1"), meta={"k": "x" * 16_000}) for n in range(50)))
        answers = [await raw.message() for _ in range(50)]
        assert any(isinstance(answer, Refused) and "identity_bytes" in answer.reason for answer in answers)


@running
async def test_half_of_a_part_counts_and_costs_those_who_hold_most_of_it() -> None:
    limits = {"identity_bytes": 3_000_000}
    async with brokers("b", limits=limits) as servers, contextlib.AsyncExitStack() as at:
        server = servers["b"]
        greedy = await at.enter_async_context(await Raw.open(server))
        await greedy.hello("greedy")
        modest = await at.enter_async_context(await Raw.open(server))
        await modest.hello("modest")
        greedy.write(HEADER.pack(4_000_000, 0) + bytes(3_900_000))
        modest.write(HEADER.pack(4_000_000, 0) + bytes(100_000))
        await greedy.drain()
        await until(lambda: server.host.budget.total > 3_000_000 or server.host.peer_count == 1)
        await until(lambda: [peer.link.name for peer in server.host.peers] == ["modest"])


@running
async def test_windows_of_clients_that_are_cut_off_are_given_up_when_they_take_too_much() -> None:
    limits = {"identity_bytes": 1_000_000}
    async with brokers("b", limits=limits, access=Access(tokens=TOKENS)) as servers, contextlib.AsyncExitStack() as at:
        server = servers["b"]
        raws = await stalled(server, [f"one/{at}" for at in range(4)], at, "one")
        for raw in raws:
            await raw.close()
        await until(lambda: all(peer.stream is None for peer in server.host.peers))
        writer = await at.enter_async_context(tidings.connect(url(server), token="two", name="two"))
        for n in range(200):
            await writer.publish(n=n, filling=b"x" * 2_000)
        await writer.flush()
        await until(lambda: server.host.budget.ended > 0)
        left = [peer for peer in server.host.peers if peer.owner == "one"]
        assert sum(peer.session.held for peer in left) <= 1_000_000
        assert 0 < len(left) < 4


@running
async def test_clients_that_hold_most_are_disconnected_with_a_reason_and_no_more_than_it_takes() -> None:
    limits = {"identity_bytes": 1_000_000}
    async with brokers("b", limits=limits, access=Access(tokens=TOKENS)) as servers, contextlib.AsyncExitStack() as at:
        server = servers["b"]
        raws = await stalled(server, [f"one/{at}" for at in range(4)], at, "one")
        writer = await at.enter_async_context(tidings.connect(url(server), token="two", name="two"))
        for n in range(200):
            await writer.publish(n=n, filling=b"x" * 2_000)
        await writer.flush()
        await until(lambda: server.host.budget.ended > 0)
        left = [peer for peer in server.host.peers if peer.owner == "one"]
        assert len(left) == 2  # 400 kB each
        gone = next(raw for number, raw in enumerate(raws) if f"one/{number}" not in {peer.link.name for peer in left})
        assert (await gone.rejection()).code == "slow"


@running
async def test_durable_records_are_bounded_by_bytes_whatever_they_are_called(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("tidings.broker._durables.MAX_DURABLE_BYTES", 30_000)
    access = Access(tokens=TOKENS)
    async with brokers("b", data=tmp_path, access=access) as servers, contextlib.AsyncExitStack() as at:
        server = servers["b"]
        kept = refused = 0
        for name in ("one/a", "one/b"):
            raw = await at.enter_async_context(await Raw.open(server))
            await raw.hello(name, token="one")
            for number in range(4):
                raw.send(Keep(f"k{number}", f"durable-{number}", "type = '" + "x" * 9_000 + "'", {}))
                answer = await raw.message()
                kept += isinstance(answer, Kept)
                refused += isinstance(answer, Refused) and "forget one" in answer.reason
        assert kept == 3
        assert refused == 5 == server.durables.refused
        assert 27_000 < server.durables.size < 30_000
    async with brokers("b", data=tmp_path, access=access) as servers, await Raw.open(servers["b"]) as raw:
        assert servers["b"].durables.size > 27_000
        await raw.hello("one/c", token="one")
        raw.send(Keep("k", "one more", "type = '" + "x" * 9_000 + "'", {}))
        assert isinstance(await raw.message(), Refused)
        await asyncio.sleep(0)


@running
async def test_a_publication_without_room_to_wait_is_refused_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "MAX_WAITING_BYTES", 0)
    async with serve(options("b", data=tmp_path, metrics_port=0)) as server, tidings.connect(url(server)) as client:
        with pytest.raises(tidings.TidingsError, match=r"0 publications of .* wait at broker 'b'"):
            await (await client.publish(n=1, quality="accepted"))  # it would have to wait for the disk
        found = metrics((await fetch(server.metrics_port, "/metrics"))[1])
        assert found["tidings_memory_limited_total", "what=publications_refused"] == 1
