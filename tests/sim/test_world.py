"""An application in a simulated world: the real client, virtual time, one seed."""

from __future__ import annotations

import asyncio
import hashlib
import os
import random
import shutil
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

import tidings
from tidings.history import CacheLimits
from tidings.sim import BrokenPromises, Network, NeverEnds, Op, Promises, Trouble, Weather, World, check
from tidings.sim._scheduler import START


async def traffic(world: World, count: int = 20) -> list[int]:
    """Alice publishes in Berlin, Bob reads in the last broker."""
    got: list[int] = []
    last = world.network.names[-1]
    async with (
        tidings.connect(world.url("berlin"), name="alice", wait=60) as alice,
        tidings.connect(world.url(last), name="bob", wait=60) as bob,
    ):
        await bob.subscribe("n >= 0", callback=lambda notification: got.append(notification["n"]))
        for n in range(count):
            await alice.publish(n=n, quality="accepted")
            await asyncio.sleep(random.random())
        await alice.flush()
        await world.check()
    return got


def run(seed: int = 7, **settings: object) -> tuple[World, list[int]]:
    async def main() -> tuple[World, list[int]]:
        async with World(seed, **settings) as world:  # type: ignore[arg-type]
            return world, await traffic(world)

    return asyncio.run(main())


def test_what_is_published_arrives_through_the_real_client() -> None:
    world, got = run(brokers=["berlin", "paris", "rome"])
    assert got == list(range(20))
    assert [record.op for record in world.trace.records].count(Op.NOTIFY) == 20


def test_minutes_of_sleep_take_no_time() -> None:
    async def main() -> float:
        async with World() as world:
            await asyncio.sleep(3_000)
            return world.now

    begun = time.perf_counter()
    assert asyncio.run(main()) == 3_000
    assert time.perf_counter() - begun < 30


def test_the_clocks_of_the_process_are_those_of_the_world() -> None:
    async def main() -> None:
        async with World():
            await asyncio.sleep(10)
            assert time.time() == START / 1_000_000 + 10
            assert time.time_ns() == START * 1_000 + 10_000_000_000
            assert asyncio.get_running_loop().time() == 10

    before = time.time()
    asyncio.run(main())
    assert before <= time.time() < before + 60


def test_a_timeout_around_the_world_rests_while_it_runs() -> None:
    async def main() -> None:
        async with asyncio.timeout(60):
            async with World():
                await asyncio.sleep(3_000)
        await asyncio.sleep(0)

    asyncio.run(main())


def test_the_loop_is_as_it_was_when_the_world_has_ended() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        for _ in range(2):
            async with World():
                await asyncio.sleep(100)
        assert type(loop) is asyncio.SelectorEventLoop
        begun = time.perf_counter()
        await asyncio.sleep(0.01)
        assert time.perf_counter() - begun >= 0.009
        assert await asyncio.to_thread(lambda: 1) == 1

    asyncio.run(main())


def test_the_same_seed_is_the_same_run_and_another_seed_another_one() -> None:
    runs = [run(seed, brokers=["berlin", "paris"])[0].transcript() for seed in (1, 1, 2)]
    assert runs[0] == runs[1] != runs[2]


PROGRAM = """
import asyncio, hashlib, sys
sys.path.insert(0, {tests!r})
from sim.test_world import faulty_run
print(hashlib.sha256("".join(map(faulty_run, range(4))).encode()).hexdigest())
"""


def faulty_run(seed: int) -> str:
    """The trace of a world in which everything goes wrong that can."""

    async def main() -> str:
        async with World(seed, brokers=["berlin", "paris"]) as world:
            world.random_faults(kinds=tuple(Trouble))
            await traffic(world)
            return world.transcript()

    return asyncio.run(main())


@pytest.mark.parametrize("hash_seed", ["0", "1", "4711"])
def test_a_run_does_not_depend_on_the_hash_seed(hash_seed: str) -> None:
    here = hashlib.sha256("".join(map(faulty_run, range(4))).encode()).hexdigest()
    program = PROGRAM.format(tests=str(Path(__file__).parents[1]))
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(sys.path)}
    told = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    ).stdout
    assert told.strip() == here


def others() -> list[str]:
    """Other versions of Python on this machine that have what Tidings needs: TIDINGS_PYTHONS may name them."""
    named = os.environ.get("TIDINGS_PYTHONS", "python3.12 python3.13").split()
    found = [path for name in named if (path := shutil.which(name)) is not None]
    return [
        path
        for path in found
        if not subprocess.run([path, "-c", "import lark, msgspec, pytest"], check=False, capture_output=True).returncode
    ]


def test_a_run_does_not_depend_on_the_version_of_python() -> None:
    pythons = others()
    if not pythons:
        pytest.skip("NO OTHER PYTHON with lark, msgspec and pytest: name some in TIDINGS_PYTHONS")
    here = hashlib.sha256("".join(map(faulty_run, range(4))).encode()).hexdigest()
    program = PROGRAM.format(tests=str(Path(__file__).parents[1]))
    source = str(Path(tidings.__file__).parents[1])
    for python in pythons:
        environment = {**os.environ, "PYTHONPATH": source}
        told = subprocess.run([python, "-c", program], env=environment, capture_output=True, text=True, check=True)
        assert told.stdout.strip() == here, python


def test_tasks_that_are_ready_together_run_in_an_order_that_the_seed_draws() -> None:
    async def main(seed: int) -> str:
        order: list[str] = []

        async def say(word: str) -> None:
            order.append(word)

        async with World(seed):
            await asyncio.gather(*map(say, "abcdef"))
        return "".join(order)

    orders = {asyncio.run(main(seed)) for seed in range(20)}
    assert len(orders) > 10
    assert asyncio.run(main(3)) == asyncio.run(main(3))


def test_the_order_does_not_depend_on_who_was_woken_first() -> None:
    """asyncio keeps tasks in sets, in which the order is that of addresses."""

    async def main(backwards: bool) -> list[int]:
        order: list[int] = []

        async def wait(number: int, gate: asyncio.Event) -> None:
            await gate.wait()
            order.append(number)

        async with World(3):
            gates = [asyncio.Event() for _ in range(6)]
            tasks = [asyncio.create_task(wait(number, gate)) for number, gate in enumerate(gates)]
            await asyncio.sleep(1)
            for gate in reversed(gates) if backwards else gates:
                gate.set()
            await asyncio.gather(*tasks)
        return order

    assert asyncio.run(main(False)) == asyncio.run(main(True)) != list(range(6))


def test_callbacks_keep_the_order_that_asyncio_promises() -> None:
    async def main(seed: int) -> None:
        order: list[int] = []
        async with World(seed):
            for n in range(10):
                asyncio.get_running_loop().call_soon(order.append, n)
            await asyncio.sleep(0)
        assert order == list(range(10))

    for seed in range(5):
        asyncio.run(main(seed))


def test_randomness_comes_from_the_seed_and_leaves_no_trace() -> None:
    async def main(seed: int) -> tuple[object, ...]:
        async with World(seed):
            return random.random(), uuid.uuid4(), os.urandom(4)

    random.seed(1)
    expected = random.random()
    random.seed(1)
    assert asyncio.run(main(1)) == asyncio.run(main(1)) != asyncio.run(main(2))
    assert random.random() == expected


def test_a_client_that_is_refused_says_why_as_on_a_socket() -> None:
    async def main() -> None:
        async with World(limit=100) as world:
            async with tidings.connect(world.url("berlin"), name="alice"):
                with pytest.raises(tidings.NotAdmitted, match="already connected"):
                    await tidings.connect(world.url("berlin"), name="alice")
            world.crash("berlin")
            with pytest.raises(tidings.ConnectionFailed, match="refused"):
                await tidings.connect(world.url("berlin"))

    asyncio.run(main())


def test_a_durable_subscription_goes_on_in_the_next_process_of_the_application() -> None:
    async def main() -> list[int]:
        got: list[int] = []
        async with World() as world:
            async with tidings.connect(world.url("berlin"), name="writer") as writer:
                for turn in range(3):
                    await writer.publish(n=turn)
                    async with tidings.connect(world.url("berlin"), name="reader") as reader:
                        subscription = await reader.subscribe("n >= 0", durable="all")
                        await writer.publish(n=turn + 10)
                        wanted = 1 if not turn else 2
                        got += [(await anext(subscription))["n"] for _ in range(wanted)]
                    await world.check()
        return got

    assert asyncio.run(main()) == [10, 1, 11, 2, 12]


def test_the_past_and_scopes_are_there_as_in_production() -> None:
    async def main() -> None:
        async with World(brokers=["berlin", "paris"]) as world:
            async with tidings.connect(world.url("berlin"), name="alice") as alice:
                await alice.publish_many([{"n": n} for n in range(5)])
                async with tidings.connect(world.url("paris"), name="bob") as bob:
                    past = await bob.subscribe("n >= 0", past=tidings.last(2))
                    assert [(await anext(past))["n"] for _ in range(2)] == [3, 4]
                    await world.check()

    asyncio.run(main())


def test_a_client_that_remembers_is_watched_like_any_other() -> None:
    async def main() -> None:
        async with World() as world:
            async with tidings.connect(world.url("berlin"), name="a", remember=CacheLimits()) as client:
                first = await client.subscribe("n >= 0")
                await client.publish_many([{"n": n} for n in range(3)])
                assert [(await anext(first))["n"] for _ in range(3)] == [0, 1, 2]
                second = await client.subscribe("n >= 1", past=tidings.last(2))
                assert [(await anext(second))["n"] for _ in range(2)] == [1, 2]
                await world.check()

    asyncio.run(main())


def test_a_simulated_client_remembers_as_well() -> None:
    network = Network(7)
    network.add_brokers("ab", links=["ab"])
    reader, writer = network.add_client("reader", "a", remember=CacheLimits()), network.add_client("writer", "b")
    reader.subscribe("n >= 0")
    network.run()
    for n in range(3):
        writer.publish(n=n)
    network.run()
    reader.subscribe("n >= 1", past=tidings.last(5))
    assert [one["n"] for one in reader.received] == [0, 1, 2, 1, 2]
    network.run()
    assert check(network.trace) == []


def test_a_broken_promise_is_told_with_the_faults_and_the_command_that_repeats_the_run() -> None:
    stricter = Promises.load().cells | {("delivery of accepted", "origin crash and restart", "core"): "delivered"}

    async def main() -> None:
        async with World(7, brokers=["berlin", "paris"], weather=Weather(latency=(50_000, 50_000))) as world:
            async with (
                tidings.connect(world.url("berlin"), name="alice") as alice,
                tidings.connect(world.url("paris"), name="bob") as bob,
            ):
                await bob.subscribe("n >= 0", callback=lambda n: None)
                receipt = await alice.publish(n=1, quality="accepted")
                world.cut("berlin", "paris")
                await receipt
                world.crash("berlin")
                world.restart("berlin")
                world.heal("berlin", "paris")
                await world.check()  # a gap was told, as promised
                await world.check(Promises(stricter))

    with pytest.raises(BrokenPromises) as caught:
        asyncio.run(main())
    assert "delivery of accepted: it never reached bob" in str(caught.value) or "was told a gap" in str(caught.value)
    assert "repeat with: TIDINGS_SEED=7 " in str(caught.value)


def test_the_seed_comes_from_the_environment_unless_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDINGS_SEED", "41")
    assert World().seed == 41
    assert World(3).seed == 3


@pytest.mark.parametrize("seconds", [20_000_000.1234567, 30_000_000.7, 31_000_000.0000003])
def test_a_sleep_of_most_of_a_year_is_a_sleep(seconds: float) -> None:
    async def main() -> float:
        async with World(limit=31_536_000) as world:
            await asyncio.sleep(seconds)
            return world.now

    assert asyncio.run(main()) == pytest.approx(seconds, abs=1e-5)


def test_debugging_a_loop_does_not_take_the_change_of_clocks_for_a_slow_step(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.slow_callback_duration = 5.0
        async with World():
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.001)
        assert loop.slow_callback_duration == 5.0

    asyncio.run(main(), debug=True)
    assert [record.getMessage() for record in caplog.records if "Executing" in record.getMessage()] == []


def test_the_time_until_the_world_is_at_rest_does_not_count_towards_its_limit() -> None:
    reached: list[str] = []

    async def main() -> None:
        async with World(limit=5.0) as world:
            await asyncio.sleep(3)
            await world.check()
            await world.check()
            reached.append("checked twice")
            await asyncio.sleep(1)
            reached.append("4 seconds")
            await asyncio.sleep(2)
            reached.append("6 seconds")

    with pytest.raises(NeverEnds, match="its time is over"):
        asyncio.run(main())
    assert reached == ["checked twice", "4 seconds"]
