"""Durable subscriptions go where their client goes, whichever process it continues in."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec
import pytest

import tidings
from tidings.broker import Link, LinkKind
from tidings.mobility import Following
from tidings.mobility._whereabouts import NEVER, Copy, Found, Key, Moves, Pointer, Whereabouts, combined
from tidings.sim import World
from tidings.wire import pack

BROKERS = ("a", "b", "c")
KEY = Key("reader", "reader", "all")


def in_world(main: Callable[[World], Coroutine[Any, Any, None]], **more: Any) -> None:
    async def run() -> None:
        async with World(limit=1_000, brokers=BROKERS, **more) as world:
            await asyncio.sleep(1)
            await main(world)
            await world.check()

    asyncio.run(run())


async def read(world: World, broker: str, count: int, **more: Any) -> list[int]:
    """What the next process gets at a broker, and handles."""
    async with tidings.connect(world.url(broker), name="reader") as client:
        stream = client.subscribe("n >= 0", durable="all", **more)
        async with asyncio.timeout(300):
            got = [(await anext(stream))["n"] for _ in range(count)]
        await stream.acknowledge()
        return got


async def publish(world: World, broker: str, *numbers: int) -> None:
    async with tidings.connect(world.url(broker)) as client:
        await client.publish_many([{"n": n} for n in numbers], quality="stored")


def kept(world: World) -> list[str]:
    return [name for name in BROKERS if name in world.network.brokers and _following(world, name).copy_of(KEY)]


def _following(world: World, broker: str) -> Following:
    feature = world.network.brokers[broker].features["following"]
    assert isinstance(feature, Following)
    return feature


def test_a_process_that_dies_goes_on_at_another_broker() -> None:
    async def main(world: World) -> None:
        assert await read(world, "a", 0) == []
        await publish(world, "a", 1, 2)
        got: list[int] = []

        async def reader() -> None:
            async with tidings.connect(world.url("a"), name="reader") as client:
                stream = client.subscribe("n >= 0", durable="all")
                async for one in stream:
                    got.append(one["n"])
                    await stream.acknowledge()

        world.start("app", reader)
        await asyncio.sleep(5)
        world.crash("app")
        assert got == [1, 2]
        await publish(world, "a", 3, 4)
        assert await read(world, "b", 2) == [3, 4]
        assert kept(world) == ["b"]

    in_world(main)


@pytest.mark.parametrize("way", ["ab", "aba", "abca", "acbbca"])
def test_nothing_that_was_acknowledged_comes_again_wherever_the_client_goes(way: str) -> None:
    async def main(world: World) -> None:
        await read(world, way[0], 0)
        got: list[int] = []
        for turn, broker in enumerate(way):
            await publish(world, "abc"[turn % 3], 2 * turn, 2 * turn + 1)
            got += await read(world, broker, 2)
            await asyncio.sleep(1)
            assert kept(world) == [broker]
        assert got == list(range(2 * len(way)))

    in_world(main)


def test_a_client_that_moves_alive_takes_its_record_along() -> None:
    async def main(world: World) -> None:
        urls = [world.url("a"), world.url("b")]
        client = await tidings.connect(urls, name="reader")
        stream = await client.subscribe("n >= 0", durable="all")
        await publish(world, "c", 1)
        assert (await anext(stream))["n"] == 1
        world.cut("reader", "a")
        await asyncio.sleep(5)
        await publish(world, "c", 2)
        assert (await anext(stream))["n"] == 2
        await stream.acknowledge()
        await asyncio.sleep(2)
        assert kept(world) == ["b"]
        await client.close()
        world.heal("reader", "a")
        await publish(world, "c", 3)
        assert await read(world, "a", 1) == [3]

    in_world(main)


def test_a_broker_that_has_the_record_and_is_dead_is_named_and_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)

    async def main(world: World) -> None:
        await read(world, "a", 0)
        await asyncio.sleep(1)
        await publish(world, "c", 1)
        world.crash("a")
        coming = asyncio.create_task(read(world, "c", 1))
        await asyncio.sleep(2.5)
        assert "may be kept at broker 'a', which cannot be reached or has lost it" in caplog.text
        assert not coming.done()
        world.restart("a")
        assert await coming == [1]
        assert kept(world) == ["c"]

    in_world(main)


def test_after_a_minute_it_begins_with_a_gap_without_an_end() -> None:
    async def main(world: World) -> None:
        await read(world, "a", 0)
        await asyncio.sleep(1)
        world.crash("a")
        gaps: list[tidings.Gap] = []
        coming = asyncio.create_task(read(world, "c", 1, on_gap=gaps.append))
        await asyncio.sleep(55)
        assert not gaps
        await asyncio.sleep(15)
        assert {gap.origin for gap in gaps} >= {"b", "c"}
        assert all(gap.last is None for gap in gaps)
        await publish(world, "b", 7)
        assert await coming == [7]
        world.restart("a")
        await asyncio.sleep(5)
        await publish(world, "b", 8)
        assert await read(world, "a", 1) == [8]  # and not again what was acknowledged meanwhile

    in_world(main)


@pytest.mark.parametrize("broker", ["a", "c"])
def test_a_record_that_its_broker_has_lost_is_a_gap_and_no_new_beginning(broker: str) -> None:
    async def main(world: World) -> None:
        await read(world, "a", 0)
        await asyncio.sleep(1)
        durables = _following(world, "a")._durables
        assert durables is not None
        durables.drop("reader", "all")
        gaps: list[tidings.Gap] = []
        coming = asyncio.create_task(read(world, broker, 1, on_gap=gaps.append))
        await asyncio.sleep(70)
        assert {gap.origin for gap in gaps} == set(BROKERS)
        await publish(world, "b", 7)
        assert await coming == [7]

    in_world(main)


def test_a_new_one_waits_for_nobody() -> None:
    async def main(world: World) -> None:
        world.crash("a")
        await asyncio.sleep(5)
        before = world.now
        await read(world, "c", 0)
        assert world.now - before < 2
        world.restart("a")

    in_world(main)


@pytest.mark.parametrize("dead", [False, True])
def test_what_is_forgotten_anywhere_is_forgotten_everywhere_and_does_not_come_back(dead: bool) -> None:
    async def main(world: World) -> None:
        await read(world, "a", 0)
        await publish(world, "b", 1)
        if dead:
            world.crash("a")
        async with tidings.connect(world.url("c"), name="reader") as client:
            await client.forget("all")
        await asyncio.sleep(1)
        if dead:
            world.restart("a")
            await asyncio.sleep(5)
        await publish(world, "b", 2)
        async with tidings.connect(world.url("a"), name="reader") as client:
            stream = await client.subscribe("n >= 0", durable="all")
            await publish(world, "b", 3)
            assert (await anext(stream))["n"] == 3

    in_world(main)


def test_the_record_is_on_disk_at_the_new_broker_before_the_old_one_lets_it_go() -> None:
    async def main(world: World) -> None:
        await read(world, "a", 0)
        await asyncio.sleep(1)
        world.slow_disk("c", 3)
        client = await tidings.connect(world.url("c"), name="reader")
        stream = client.subscribe("n >= 0", durable="all")
        await asyncio.sleep(1)
        assert kept(world) == ["a", "c"]
        world.crash("c")  # before its disk has it
        world.slow_disk("c", None)
        assert kept(world) == ["a"]
        world.restart("c")
        await stream
        await client.close()
        await asyncio.sleep(1)
        assert kept(world) == ["c"]

    in_world(main)


def test_another_identity_gets_nothing_and_the_log_says_so() -> None:
    async def main(world: World) -> None:
        said: list[str] = []
        await read(world, "a", 0)
        following = _following(world, "a")
        following._warn = said.append
        durables = following._durables
        assert durables is not None
        record = durables._records["reader"]["all"]
        durables._records["reader"]["all"] = msgspec.structs.replace(record, owner="reader")
        assert following.copy_of(Key("mallory", "reader", "all")) is None
        assert "belongs to 'reader', and 'mallory' asks for it" in said[0]
        following.heard(Moves(((Key("mallory", "reader", "all"), Pointer((1 << 60, 0), "b")),)))
        assert kept(world) == ["a"]

    in_world(main)


def test_of_two_the_newer_counts_in_any_order() -> None:
    copies = [Copy((2, 5), "a", "x", {}), None, Copy((3, 1), "b", "y", {})]
    pointers = [Pointer(NEVER, "a"), Pointer((1, 0), ""), None]
    answers = [Found((name,), (copy,), (pointer,)) for name, copy, pointer in zip("abc", copies, pointers, strict=True)]
    assert combined(answers) == combined(answers[::-1]) == Found(("a", "b", "c"), (copies[2],), (pointers[1],))


def test_marks_are_bounded_and_never_go_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidings.mobility._whereabouts.MAX_POINTERS", 3)
    pointers = Whereabouts(None)
    for number in range(5):
        pointers.note(Key("o", "c", str(number)), Pointer((number, 0), "a"))
    assert [pointers.get(Key("o", "c", str(number))) is not None for number in range(5)] == [
        False,
        False,
        True,
        True,
        True,
    ]
    pointers.note(Key("o", "c", "4"), Pointer((3, 9), "b"))
    assert pointers.get(Key("o", "c", "4")) == Pointer((4, 0), "a")


@pytest.mark.parametrize("body", [b"", b"\xc1", pack((((1, 2),),))])
def test_what_makes_no_sense_is_not_answered(body: bytes) -> None:
    async def main(world: World) -> None:
        answers: list[bytes | None] = []
        for kind in _following(world, "a").wave_kinds().values():
            kind.visit(body, answers.append)
        assert answers == [None, None]

    in_world(main)


@pytest.mark.parametrize("limit", ["MAX_WAITING", "MAX_OPEN"])
def test_too_many_questions_are_refused(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"tidings.mobility._following.{limit}", 0)

    async def main(world: World) -> None:
        with pytest.raises(tidings.TidingsError, match="looks for too many durable subscriptions"):
            _following(world, "a").gather(Link("reader", LinkKind.CLIENT), "all", lambda missing: None)

    in_world(main)
