"""Applications as processes of a world: what it means to be killed."""

from __future__ import annotations

import asyncio
import gc

import pytest

import tidings
from tidings.model import ArgumentRefused
from tidings.sim import Fault, Op, Search, Trouble, World


async def writer(url: str, begun: list[float], *, last_words: bool = False) -> None:
    """Publish ten times a second, for ever."""
    begun.append(asyncio.get_running_loop().time())
    client = await tidings.connect(url, name="writer", wait=10)
    n = 0
    try:
        while True:
            await (await client.publish(n=n, life=len(begun), quality="accepted"))
            n += 1
            await asyncio.sleep(0.1)
    finally:
        if last_words:
            await client.publish(n=-1, life=len(begun), quality="fire")


def test_nothing_that_a_killed_process_sends_arrives_not_even_its_last_words() -> None:
    async def main() -> None:
        got: list[tuple[int, int]] = []
        begun: list[float] = []
        async with World(3) as world:
            url = world.url("berlin")
            async with tidings.connect(url, name="reader") as reader:
                await reader.subscribe("EXISTS(n)", callback=lambda n: got.append((n["life"], n["n"])))
                world.start("writer", lambda: writer(url, begun, last_words=True))
                await asyncio.sleep(1)
                world.crash("writer")
                await asyncio.sleep(0.05)
                before = list(got)
                await asyncio.sleep(60)
                assert got == before
                assert before
                assert all(n >= 0 for _, n in got)
                world.restart("writer")
                await asyncio.sleep(1)
                assert (2, 0) in got
                world.crash("writer")
                await world.check()
        assert begun == [begun[0], pytest.approx(begun[0] + 61.05)]

    asyncio.run(main())


def test_all_tasks_of_a_killed_process_end_and_those_of_others_go_on() -> None:
    async def main() -> None:
        ended: list[str] = []

        async def sleeper(name: str) -> None:
            try:
                await asyncio.sleep(1_000)
            finally:
                ended.append(name)

        async def application() -> None:
            async with asyncio.TaskGroup() as group:
                group.create_task(sleeper("child"))
                group.create_task(sleeper("other child"))

        async with World() as running:
            mine = asyncio.create_task(sleeper("mine"))
            running.start("app", application)
            await asyncio.sleep(1)
            running.crash("app")
            await asyncio.sleep(1)
            assert sorted(ended) == ["child", "other child"]
            assert not mine.done()

    asyncio.run(main())


def test_the_broker_notices_that_a_process_is_gone_and_the_next_one_has_its_name() -> None:
    async def main() -> World:
        begun: list[float] = []
        async with World(1) as world:
            url = world.url("berlin")
            world.start("writer", lambda: writer(url, begun))
            await asyncio.sleep(1)
            world.crash("writer")
            await asyncio.sleep(1)
            assert [guest.door for guest in world.guests("berlin")] == [None]
            world.restart("writer")
            await asyncio.sleep(1)
            assert [guest.door is not None for guest in world.guests("berlin")] == [True]
            return world

    world = asyncio.run(main())
    ops = [record.op for record in world.trace.records if record.op in (Op.ATTACH, Op.DETACH, Op.ENDED)]
    assert ops[:4] == [Op.ATTACH, Op.DETACH, Op.ENDED, Op.ATTACH]


def test_an_error_of_an_application_ends_the_world() -> None:
    async def broken() -> None:
        await asyncio.sleep(1)
        raise ZeroDivisionError("there was nothing to divide by")

    async def main() -> None:
        async with World(5) as world:
            world.start("broken", broken)
            await asyncio.sleep(100)

    with pytest.raises(ZeroDivisionError) as caught:
        asyncio.run(main())
    assert any("repeat with: TIDINGS_SEED=5" in note for note in caught.value.__notes__)


def test_a_name_is_given_once() -> None:
    async def main() -> None:
        async with World() as world:
            world.start("app", lambda: asyncio.sleep(1))
            for name in ("app", "berlin"):
                with pytest.raises(ArgumentRefused, match="already"):
                    world.start(name, lambda: asyncio.sleep(1))
            with pytest.raises(ArgumentRefused, match="app is alive"):
                world.restart("app")
            with pytest.raises(ArgumentRefused, match="it has berlin, app"):
                world.crash("nobody")

    asyncio.run(main())


def test_plans_kill_applications_as_well() -> None:
    async def application(world: World) -> None:
        world.start("app", lambda: asyncio.sleep(1_000))
        world.random_faults(seconds=20, kinds=[Trouble.CRASH])

    search = Search(application, faults=0)
    killed: set[str] = set()
    for seed in range(10):
        assert search.run(seed) is None
        assert search.world is not None
        killed |= {name for fault in search.world.faults for name in fault.who}
    assert killed == {"berlin", "app"}


@pytest.mark.parametrize("started", [True, False])
def test_the_garbage_collector_takes_no_task_of_a_world(started: bool) -> None:
    async def serve(url: str, got: list[int]) -> None:
        async with tidings.connect(url, name="server") as client:
            await client.subscribe("n >= 0", callback=lambda notification: got.append(notification["n"]))
            await asyncio.Event().wait()  # for ever: nothing but the task itself holds this

    async def main() -> list[int]:
        got: list[int] = []
        async with World() as world:
            url = world.url("berlin")
            if started:
                world.start("server", lambda: serve(url, got))
            else:
                asyncio.create_task(serve(url, got))  # noqa: RUF006 - that is the point
            async with tidings.connect(url, name="writer") as writer:
                await asyncio.sleep(1)
                for n in range(4):
                    gc.collect()
                    await (await writer.publish(n=n))
                    await asyncio.sleep(1)
        return got

    assert asyncio.run(main()) == [0, 1, 2, 3]


def test_an_application_that_has_ended_by_itself_is_not_run_again_by_a_fault() -> None:
    async def main() -> None:
        runs: list[float] = []

        async def once() -> None:
            await asyncio.sleep(2)
            runs.append(asyncio.get_running_loop().time())

        async with World() as world:
            ending = world.start("once", once)
            world.happen([Fault(Trouble.CRASH, ("once",), 5.0, 6.0)])
            await ending
            await asyncio.sleep(10)
            assert len(runs) == 1
            assert all(fault.who != ("once",) for seed in range(20) for fault in world.random_faults(seed))

    asyncio.run(main())


def test_an_application_that_has_ended_by_itself_can_be_restarted_but_not_crashed() -> None:
    async def main() -> None:
        runs: list[str] = []

        async def left_behind() -> None:
            try:
                await asyncio.sleep(1_000)
            finally:
                runs.append("left behind")

        async def once() -> None:
            runs.append("run")
            asyncio.get_running_loop().create_task(left_behind())
            await asyncio.sleep(1)

        async with World() as world:
            await world.start("once", once)
            with pytest.raises(ArgumentRefused, match="once has ended; restart it first"):
                world.crash("once")
            world.restart("once")
            await asyncio.sleep(0.5)
            assert sorted(runs) == ["left behind", "run", "run"]
            world.crash("once")
            with pytest.raises(ArgumentRefused, match="once is dead already"):
                world.crash("once")

    asyncio.run(main())
