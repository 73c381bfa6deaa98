"""Faults by name and by plan: what happens to a real client, and what it never notices."""

from __future__ import annotations

import asyncio
import itertools
import random
import warnings
from collections.abc import Awaitable, Callable

import pytest
from soaking import SOAK_SECONDS, soak_seeds

import tidings
from tidings.model import ArgumentRefused
from tidings.sim import Fault, Op, Search, StandingFaults, Trouble, Weather, World, broadcast, kafka
from tidings.sim._fault_plan import draw, shrunk


def within(application: Callable[[World], Awaitable[object]], **settings: object) -> World:
    async def main() -> World:
        async with World(**{"brokers": ["berlin", "paris"], **settings}) as world:  # type: ignore[arg-type]
            await application(world)
            return world

    return asyncio.run(main())


def told(world: World, op: Op) -> list[str]:
    return [record.component for record in world.trace.records if record.op is op]


async def traffic(world: World, trouble: Callable[[], Awaitable[None]], quality: str = "stored") -> list[int]:
    """Alice in Berlin publishes to Bob in Paris, before, during and after some trouble."""
    got: list[int] = []
    async with (
        tidings.connect(world.url("berlin"), name="alice", wait=60) as alice,
        tidings.connect(world.url("paris"), name="bob", wait=60) as bob,
    ):
        await bob.subscribe("n >= 0", callback=lambda notification: got.append(notification["n"]))
        publishing = asyncio.create_task(publish(alice, quality))
        await asyncio.sleep(0.5)
        await trouble()
        await publishing
        await world.check()
        assert broadcast(world.trace) == []
        assert kafka(world.trace) == []
    return got


async def publish(client: tidings.Client, quality: str) -> None:
    for n in range(20):
        await client.publish(n=n, quality=quality)
        await asyncio.sleep(0.1)
    await client.flush()


def test_a_link_that_is_cut_and_healed_costs_nothing() -> None:
    async def application(world: World) -> None:
        async def trouble() -> None:
            world.cut("paris", "berlin")
            await asyncio.sleep(5)
            world.heal("berlin", "paris")

        assert await traffic(world, trouble) == list(range(20))

    within(application)


def test_a_client_whose_connection_is_cut_for_a_moment_goes_on_with_its_session() -> None:
    async def application(world: World) -> None:
        async def trouble() -> None:
            world.cut("bob", "paris")
            await asyncio.sleep(3)
            world.heal("bob", "paris")

        assert await traffic(world, trouble) == list(range(20))

    world = within(application)
    assert told(world, Op.LOST) == []
    assert told(world, Op.ATTACH) == ["alice", "bob"]


def test_a_client_that_is_cut_off_for_long_loses_its_session_and_nothing_else() -> None:
    async def application(world: World) -> None:
        async def trouble() -> None:
            world.cut("bob", "paris")
            await asyncio.sleep(40)
            world.heal("bob", "paris")

        assert await traffic(world, trouble) == list(range(20))

    world = within(application)
    assert told(world, Op.LOST) == ["bob"]
    assert told(world, Op.ATTACH) == ["alice", "bob", "bob"]


@pytest.mark.parametrize("broker", ["berlin", "paris"])
def test_a_broker_that_crashes_comes_back_with_what_was_stored(broker: str) -> None:
    async def application(world: World) -> None:
        async def trouble() -> None:
            world.crash(broker)
            await asyncio.sleep(3)
            world.restart(broker)

        assert await traffic(world, trouble) == list(range(20))

    world = within(application)
    assert told(world, Op.LOST) == ["alice" if broker == "berlin" else "bob"]


@pytest.mark.parametrize("seconds", [5, 60])
@pytest.mark.parametrize("who", ["paris", "bob"])
def test_whoever_vanishes_for_a_while_misses_nothing(who: str, seconds: int) -> None:
    async def application(world: World) -> None:
        async def trouble() -> None:
            world.vanish(who)
            await asyncio.sleep(seconds)
            world.heal(who)

        assert await traffic(world, trouble) == list(range(20))

    within(application, limit=1_000)


@pytest.mark.parametrize("who", ["berlin", "alice"])
def test_what_was_under_way_when_somebody_vanished_comes_in_order(who: str) -> None:
    async def application(world: World) -> None:
        async def trouble() -> None:
            for _ in range(10):
                world.vanish(who)
                await asyncio.sleep(0.1)
                world.heal(who)
                await asyncio.sleep(0.05)

        assert await traffic(world, trouble) == list(range(20))

    for seed in range(10):
        within(application, seed=seed, weather=Weather(latency=(1_000, 200_000)))


def test_nobody_is_told_that_somebody_vanishes_and_heartbeats_notice() -> None:
    async def application(world: World) -> None:
        async with tidings.connect(world.url("berlin"), name="alice") as alice:
            world.vanish("alice")
            await asyncio.sleep(20)
            assert alice.connected
            await asyncio.sleep(30)
            assert not alice.connected
            world.heal("alice")
            await asyncio.sleep(20)
            assert alice.connected

    within(application)


def test_a_broker_that_dies_while_it_has_vanished_is_still_gone_when_it_is_back() -> None:
    async def application(world: World) -> None:
        async with (
            tidings.connect(world.url("berlin"), name="alice") as alice,
            tidings.connect(world.url("paris"), name="bob") as bob,
        ):
            got: list[int] = []
            await bob.subscribe("n >= 0", callback=lambda notification: got.append(notification["n"]))
            world.vanish("paris")
            world.crash("paris")
            await asyncio.sleep(1)
            world.restart("paris")
            await alice.publish(n=1)
            await asyncio.sleep(10)
            assert not got
            assert not bob.connected
            world.heal("paris")
            await world.check()
            assert got == [1]

    within(application)


def test_a_link_that_is_healed_while_one_end_has_vanished_comes_back_with_it() -> None:
    async def application(world: World) -> None:
        async with (
            tidings.connect(world.url("berlin"), name="alice") as alice,
            tidings.connect(world.url("paris"), name="bob") as bob,
        ):
            got: list[int] = []
            await bob.subscribe("n >= 0", callback=lambda notification: got.append(notification["n"]))
            world.cut("berlin", "paris")
            world.vanish("berlin")
            world.heal("berlin", "paris")
            await asyncio.sleep(5)
            world.heal("berlin")
            await alice.publish(n=1)
            await world.check()
            assert got == [1]

    within(application)


def test_two_that_vanish_one_after_the_other_are_both_back_in_the_end() -> None:
    async def application(world: World) -> None:
        async def trouble() -> None:
            for change in (world.vanish, world.heal):
                for name in ("paris", "berlin"):
                    change(name)
                    await asyncio.sleep(1)
            await asyncio.sleep(60)

        assert await traffic(world, trouble) == list(range(20))

    assert told(within(application), Op.GAP) == []


def test_a_client_fails_over_to_another_broker() -> None:
    async def application(world: World) -> None:
        async with (
            tidings.connect([world.url("berlin"), world.url("paris")], name="alice") as alice,
            tidings.connect(world.url("paris"), name="bob") as bob,
        ):
            got: list[int] = []
            await bob.subscribe("n >= 0", callback=lambda notification: got.append(notification["n"]))
            await (await alice.publish(n=1))
            world.crash("berlin")
            receipt = await (await alice.publish(n=2))
            assert receipt is not None
            assert receipt.origin == "paris"
            world.restart("berlin")
            await world.check()
            assert got == [1, 2]

    within(application)


def test_a_slow_disk_holds_up_what_is_stored_and_nothing_else() -> None:
    async def application(world: World) -> None:
        async with tidings.connect(world.url("berlin")) as client:
            world.slow_disk("berlin", 3.0)
            begun = world.now
            await (await client.publish(n=1, quality="accepted"))
            assert world.now - begun < 3.5  # the first one waits for a note on the disk, once
            begun = world.now
            await (await client.publish(n=1, quality="accepted"))
            assert world.now - begun < 0.1
            await (await client.publish(n=2, quality="stored"))
            assert world.now - begun > 2.5
            world.slow_disk("berlin", None)
            begun = world.now
            await (await client.publish(n=3, quality="stored"))
            assert world.now - begun < 0.1

    within(application)


def test_a_full_disk_refuses_what_must_be_stored() -> None:
    async def application(world: World) -> None:
        async with tidings.connect(world.url("berlin")) as client:
            world.full_disk("berlin")
            with pytest.raises(tidings.TidingsError, match="store"):
                await (await client.publish(n=1, quality="stored"))
            world.full_disk("berlin", full=False)
            assert await (await client.publish(n=1, quality="stored"))

    within(application)


def test_a_clock_that_jumps_shows_in_what_its_broker_publishes() -> None:
    async def application(world: World) -> None:
        async with tidings.connect(world.url("berlin")) as client:
            subscription = await client.subscribe("n >= 0", with_origin=True)
            await (await client.publish(n=1))
            world.clock_jump("berlin", 3_600)
            await client.publish(n=2)
            one, two = [await anext(subscription) for _ in range(2)]
            assert 3_600 <= (two.published_at - one.published_at).total_seconds() < 3_601
            await world.check()

    within(application)


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda world: world.crash("rome"), "'rome' is no broker or application of this world; it has berlin, paris"),
        (lambda world: world.restart("paris"), "paris is alive"),
        (lambda world: (world.crash("paris"), world.crash("paris")), "paris is dead already"),
        (lambda world: world.cut("berlin", "rome"), "there is nothing between 'berlin' and 'rome'"),
        (lambda world: world.heal("berlin", "paris"), "not cut off"),
        (lambda world: world.heal("berlin"), "has not vanished"),
        (lambda world: world.vanish("nobody"), "'nobody' is no broker or client of this world"),
        (lambda world: (world.crash("paris"), world.clock_jump("paris", 1)), "has no clock"),
        (lambda world: world.url("rome"), "it has berlin, paris"),
        (lambda world: world.add_broker("paris"), "already"),
    ],
)
def test_what_cannot_be_is_refused(call: Callable[[World], object], reason: str) -> None:
    async def application(world: World) -> None:
        with pytest.raises(ArgumentRefused, match=reason):
            call(world)

    within(application)


# --- plans ----------------------------------------------------------------------------------------------


def test_a_plan_follows_from_its_seed_and_mends_everything() -> None:
    links = [("berlin", "paris")]
    plans = [
        draw(random.Random(seed), ["berlin", "paris"], links, seconds=30, kinds=tuple(Trouble)) for seed in range(50)
    ]
    assert plans[3] == draw(random.Random(3), ["berlin", "paris"], links, seconds=30, kinds=tuple(Trouble))
    faults = [fault for plan in plans for fault in plan]
    assert {fault.trouble for fault in faults} == set(Trouble)
    assert all(0 <= fault.at <= fault.until < 30 for fault in faults)
    for plan in plans:
        for one, two in itertools.pairwise(plan):
            assert one.at <= two.at
        for who in {fault.who for fault in plan}:
            there = [fault for fault in plan if fault.who == who]
            assert all(one.until < two.at for one, two in itertools.pairwise(there))


def test_faults_of_a_plan_do_not_change_the_weather() -> None:
    async def quiet(world: World) -> None:
        world.random_faults(3, seconds=0.001)
        await asyncio.sleep(1)
        quiet.state = world.network.random.getstate()  # type: ignore[attr-defined]

    async def calm(world: World) -> None:
        await asyncio.sleep(1)
        assert world.network.random.getstate() == quiet.state  # type: ignore[attr-defined]

    within(quiet)
    within(calm)


def test_all_promises_are_kept_whatever_goes_wrong() -> None:
    async def application(world: World) -> None:
        world.random_faults(kinds=tuple(Trouble))

        async def trouble() -> None:
            await asyncio.sleep(1)

        await traffic(world, trouble, quality="accepted")

    for seed in range(25):
        within(application, seed=seed, weather=Weather(latency=(0, 100_000)))


def test_a_plan_shrinks_to_the_faults_that_matter() -> None:
    plan = [Fault(Trouble.CRASH, (str(n),), n, n + 1) for n in range(16)]
    runs: list[tuple[int, ...]] = []

    def fails(kept: tuple[int, ...]) -> bool:
        runs.append(kept)
        return {3, 11} <= set(kept)

    assert shrunk(plan, fails) == (3, 11)
    assert len(runs) <= 60


def test_a_plan_shrinks_to_nothing_if_the_faults_have_nothing_to_do_with_it() -> None:
    plan = [Fault(Trouble.CRASH, (str(n),), n, n + 1) for n in range(9)]
    assert shrunk(plan, lambda kept: True) == ()


@pytest.mark.soak
def test_all_promises_are_kept_whatever_goes_wrong_in_many_worlds() -> None:
    async def application(world: World) -> None:
        world.random_faults(kinds=[kind for kind in Trouble if kind is not Trouble.FULL_DISK])

        async def trouble() -> None:
            await asyncio.sleep(random.uniform(0, 20))

        await traffic(world, trouble, quality=random.choice(["accepted", "stored", "fire"]))

    for seed in soak_seeds(SOAK_SECONDS * 0.05, 5_000_001):
        latency = random.Random(seed).choice(((500, 5_000), (0, 0), (1_000, 200_000)))
        within(application, seed=seed, weather=Weather(latency=latency), brokers=["berlin", "rome", "paris"])


def test_shrinking_stays_with_the_bug_that_was_found() -> None:
    async def application(world: World) -> None:
        world.random_faults(seconds=20)
        if any(fault.trouble is Trouble.CRASH for fault in world.faults):
            raise ValueError("the bug that was found")
        raise ValueError("another one, which is there without faults, too")

    search = Search(application, faults=0, brokers=["berlin", "paris"])
    seed = next(seed for seed in range(50) if "found" in str(search.run(seed)))
    finding = search.first([seed])
    assert finding is not None
    assert str(finding.error) == "the bug that was found"
    assert [fault.trouble for fault in finding.faults] == [Trouble.CRASH]


def test_shrinking_tells_one_endless_wait_from_another() -> None:
    async def application(world: World) -> None:
        world.random_faults(seconds=20)
        if any(fault.trouble is Trouble.CRASH for fault in world.faults):
            await asyncio.Event().wait()
        await asyncio.Event().wait()

    search = Search(application, faults=0, limit=50)
    for seed in range(50):
        search.run(seed)
        assert search.world is not None
        if any(fault.trouble is Trouble.CRASH for fault in search.world.drawn):
            finding = search.first([seed])
            assert finding is not None
            assert [fault.trouble for fault in finding.faults] == [Trouble.CRASH]
            return
    raise AssertionError("no seed draws a crash")


@pytest.mark.parametrize(
    ("trouble", "mend", "told"),
    [
        (lambda w: w.cut("paris", "berlin"), lambda w: w.heal("paris", "berlin"), "berlin and paris are cut off"),
        (lambda w: w.crash("paris"), lambda w: w.restart("paris"), "paris is dead"),
        (lambda w: w.vanish("paris"), lambda w: w.heal("paris"), "paris has vanished"),
        (lambda w: w.full_disk("paris"), lambda w: w.full_disk("paris", full=False), "the disk of paris is full"),
    ],
)
def test_a_world_that_is_judged_while_something_is_broken_says_so(
    trouble: Callable[[World], None], mend: Callable[[World], None], told: str
) -> None:
    async def application(world: World) -> None:
        trouble(world)
        with pytest.warns(StandingFaults, match=told):
            await world.check()
        mend(world)
        await world.check()

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        within(application)
