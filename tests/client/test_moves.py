"""`Client.moved`: from which broker to which, what was missed, and how long it took."""

from __future__ import annotations

import asyncio

from client.transports import brokers, on_both, on_sockets, take, url, way_to

import tidings
import tidings.sync


@on_both
async def test_a_move_is_told_when_everything_has_come() -> None:
    async with (
        brokers("abc", ["ab", "bc"]) as servers,
        way_to(servers["a"]) as way,
        tidings.connect([way.url, url(servers["c"])], name="phone") as phone,
        tidings.connect(url(servers["b"])) as pc,
    ):
        news = await phone.subscribe("EXISTS(n)")
        moves = aiter(phone.moved)
        await pc.publish(n=0)
        await take(news, 1)
        way.closed = True
        way.cut()
        for n in (1, 2, 3):
            await pc.publish(n=n)
        move = await anext(moves)
        assert (move.old, move.new, move.scheme, move.complete) == ("a", "c", "origins", True)
        assert 0 < move.pause < 20
        got = [one["n"] for one in await take(news, 3)]
        assert got == [1, 2, 3]
        assert move.missed <= 3
        assert news.waiting == 0


@on_both
async def test_what_was_missed_is_counted() -> None:
    async with brokers("ab", ["ab"]) as servers, tidings.connect(url(servers["b"])) as pc:
        async with way_to(servers["a"]) as way, tidings.connect([way.url], name="phone") as phone:
            news = await phone.subscribe("EXISTS(n)")
            moves = aiter(phone.moved)
            way.closed = True
            way.cut()
            await pc.publish_many([{"n": n} for n in range(5)])
            await asyncio.sleep(0.3)
            begun = asyncio.create_task(phone.move(url(servers["b"])))
            move = await anext(moves)
            assert (move.old, move.new, move.missed) == ("a", "b", 5)
            assert move.pause >= 0.3
            assert news.waiting == 5  # none of them comes later
            await begun
            await pc.publish(n=5)
            assert [one["n"] for one in await take(news, 6)] == [0, 1, 2, 3, 4, 5]


@on_both
async def test_coming_back_to_the_same_broker_is_no_move() -> None:
    async with brokers("ab", ["ab"]) as servers, way_to(servers["a"]) as way:
        async with tidings.connect([way.url, url(servers["b"])], name="phone") as phone:
            moves = aiter(phone.moved)
            way.cut()
            await asyncio.sleep(0.5)
            assert phone.statistics().reconnects == 1
            await phone.move(url(servers["b"]))
            assert (await anext(moves)).new == "b"


@on_both
async def test_the_iteration_ends_with_the_client() -> None:
    async with brokers("ab", ["ab"]) as servers:
        async with tidings.connect(url(servers["a"]), name="phone") as phone:
            told = aiter(phone.moved)
            waiting = asyncio.create_task(anext(told, None))
            await phone.move(url(servers["b"]))
            move = await waiting
            assert move is not None
            assert (move.old, move.missed) == ("a", 0)
        assert await anext(told, None) is None
        assert [move async for move in phone.moved] == []


@on_both
async def test_a_move_that_is_overtaken_by_the_next_is_told_as_incomplete() -> None:
    async with brokers("abc", ["ab", "bc"]) as servers, tidings.connect(url(servers["a"]), name="phone") as phone:
        await phone.subscribe("EXISTS(n)")
        moves = aiter(phone.moved)
        await phone.move(url(servers["b"]))
        await phone.move(url(servers["c"]))
        first, second = await anext(moves), await anext(moves)
        assert (first.old, first.new) == ("a", "b")
        assert (second.old, second.new, second.complete) == ("b", "c", True)


@on_sockets
async def test_the_blocking_client_tells_its_moves_too() -> None:
    async with brokers("ab", ["ab"]) as servers:

        def work() -> tuple[str, str]:
            with tidings.sync.connect(url(servers["a"]), name="phone") as phone:
                moves = iter(phone.moved)
                phone.move(url(servers["b"]))
                move = next(moves)
                return move.old, move.new

        assert await asyncio.to_thread(work) == ("a", "b")
