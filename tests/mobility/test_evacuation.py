"""Evacuation: the clients of a broker go to another of their own addresses before it stops, and nothing is lost."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

import tidings
from tidings.mobility import Evacuation
from tidings.model import TidingsError
from tidings.sim import Weather, World
from tidings.wire import EVACUATION, EvacuationStatus, Extension, Frame, GoElsewhere, Stays, pack

BROKERS = ("a", "b", "c")
LINKS = (("a", "b"), ("b", "c"), ("a", "c"))
RADIO = Weather(latency=(5_000, 5_000))
"""A round trip of a client takes 10 ms."""
BACKBONE = Weather(latency=(1_000, 1_000))
Test = Callable[[World], Awaitable[None]]


@contextlib.asynccontextmanager
async def triangle(seed: int = 3, weather: Weather = BACKBONE) -> AsyncIterator[World]:
    async with World(seed, brokers=BROKERS, links=LINKS, weather=weather, client_weather=RADIO) as world:
        await world.rest()
        yield world


def in_a_world(test: Test) -> Callable[[], None]:
    """Run a test in a triangle of brokers, and hold it to what is promised."""

    async def run() -> None:
        async with triangle() as world:
            await test(world)

    def runs() -> None:
        asyncio.run(run())

    runs.__name__, runs.__doc__ = test.__name__, test.__doc__
    return runs


async def asked(world: World, broker: str, via: str, *, begin: bool = True, asker: str = "") -> EvacuationStatus:
    """What an administrator of one broker hears about the evacuation of another."""
    feature = world.network.brokers[via].features[EVACUATION]
    assert isinstance(feature, Evacuation)
    heard: asyncio.Future[EvacuationStatus | TidingsError] = asyncio.get_running_loop().create_future()
    feature.context.call_later(0, lambda: feature.order(broker, asker, heard.set_result, begin=begin))
    told = await heard
    if isinstance(told, TidingsError):
        raise told
    return told


async def evacuated(world: World, broker: str, via: str = "", asker: str = "") -> EvacuationStatus:
    """Evacuate a broker, and wait until that is done."""
    status = await asked(world, broker, via or broker, asker=asker)
    async with asyncio.timeout(60):
        while not status.done:
            await asyncio.sleep(0.05)
            status = await asked(world, broker, via or broker, begin=False, asker=asker)
    return status


def reasons(status: EvacuationStatus) -> dict[str, str]:
    return {one.client: one.reason for one in status.staying}


async def numbers(subscription: tidings.Subscription[tidings.Notification], count: int) -> list[object]:
    async with asyncio.timeout(60):
        return [(await anext(subscription))["n"] for _ in range(count)]


@in_a_world
async def test_clients_go_to_another_of_their_own_addresses(world: World) -> None:
    async with (
        tidings.connect([world.url("a"), world.url("b")], name="phone") as phone,
        tidings.connect(world.url("c"), name="feed") as feed,
    ):
        news = await phone.subscribe("n >= 0")
        moves = aiter(phone.moved)
        await feed.publish(n=0)
        status = await evacuated(world, "a", via="c")
        await feed.publish(n=1)
        assert (status.broker, status.gone, status.staying, status.ended) == ("a", {"b": 1}, (), 0)
        assert await numbers(news, 2) == [0, 1]
        assert phone.statistics().broker == "b"
        move = await anext(moves)
        assert (move.old, move.new, move.complete) == ("a", "b", True)
        await world.check()


@in_a_world
async def test_a_subscriber_hears_nothing_for_less_than_two_round_trips(world: World) -> None:
    """One of its own, and two between its new broker and the origin."""
    async with (
        tidings.connect([world.url("a"), world.url("b")], name="phone") as phone,
        tidings.connect(world.url("c"), name="feed") as feed,
    ):
        loop, came = asyncio.get_running_loop(), []
        await phone.subscribe("n >= 0", callback=lambda notification: came.append((loop.time(), notification["n"])))

        async def publish() -> None:
            for n in range(1_000):
                await feed.publish(n=n)
                await asyncio.sleep(0.001)

        publishing = asyncio.create_task(publish())
        await asyncio.sleep(0.3)
        assert (await evacuated(world, "a")).gone == {"b": 1}
        await publishing
        await world.check()
        assert [n for _, n in came] == list(range(1_000))
        assert max(later - before for (before, _), (later, _) in itertools.pairwise(came)) < 0.020


@in_a_world
async def test_clients_without_another_address_stay_and_are_served(world: World) -> None:
    lost: list[object] = []
    async with (
        tidings.connect(world.url("a"), name="alone", on_disconnect=lost.append) as alone,
        tidings.connect([world.url("a"), world.url("b")], name="cut off", on_disconnect=lost.append) as cut_off,
        tidings.connect([world.url("a"), world.url("b")], name="phone"),
        tidings.connect(world.url("c"), name="feed") as feed,
    ):
        world.cut("cut off", "b")
        news, more = await alone.subscribe("n >= 0"), await cut_off.subscribe("n >= 0")
        status = await evacuated(world, "a")
        assert status.gone == {"b": 1}
        assert reasons(status) == {
            "alone": "it has no other address",
            "cut off": "no broker at its other address lets it in",
        }
        await feed.publish(n=1)
        assert [await numbers(one, 1) for one in (news, more)] == [[1], [1]]
        assert not lost, "they have kept their connection"
        world.heal("cut off", "b")
        again = await evacuated(world, "a")
        assert again.gone == {"b": 2}, "who stays is asked once more if the administrator asks once more"
        assert list(reasons(again)) == ["alone"]
        await world.check()


@in_a_world
async def test_what_a_client_publishes_meanwhile_comes_once_and_in_order(world: World) -> None:
    async with (
        tidings.connect([world.url("a"), world.url("b")], name="feed") as feed,
        tidings.connect(world.url("c"), name="reader") as reader,
    ):
        news = await reader.subscribe("n >= 0")

        async def publish() -> None:
            for n in range(700):
                await feed.publish(n=n, quality="fire")
                await asyncio.sleep(0.002)

        publishing = asyncio.create_task(publish())
        await asyncio.sleep(0.1)
        assert (await evacuated(world, "a")).gone == {"b": 1}
        await publishing
        assert await numbers(news, 700) == list(range(700))
        await world.check()


@in_a_world
async def test_an_address_that_leads_to_the_same_broker_does_not_count(world: World) -> None:
    world._connections._hosts["also-a.sim"] = "a"
    async with (
        tidings.connect([world.url("a"), "tidings://also-a.sim"], name="phone") as phone,
        tidings.connect(world.url("c"), name="feed") as feed,
    ):
        news = await phone.subscribe("n >= 0")

        async def publish() -> None:
            for n in range(100):
                await feed.publish(n=n)
                await asyncio.sleep(0.001)

        publishing = asyncio.create_task(publish())
        await asyncio.sleep(0.02)
        await evacuated(world, "a")
        await publishing
        await asyncio.sleep(1)
        status = await asked(world, "a", "a", begin=False)
        assert (reasons(status), status.gone) == ({"phone": "no broker at its other address lets it in"}, {})
        assert phone.statistics().reconnects == 0
        assert await numbers(news, 100) == list(range(100))
        await world.check()


@in_a_world
async def test_a_client_that_comes_meanwhile_is_sent_on(world: World) -> None:
    async with tidings.connect(world.url("c"), name="other"):
        assert (await evacuated(world, "a")).done
        async with tidings.connect([world.url("a"), world.url("b")], name="phone") as phone:
            await asyncio.sleep(1)
            assert phone.statistics().broker == "b"
            assert (await asked(world, "a", "a", begin=False)).gone == {"b": 1}


@in_a_world
async def test_an_evacuation_that_nobody_looks_at_is_over_after_a_minute(world: World) -> None:
    await evacuated(world, "a")
    await asyncio.sleep(61)
    assert not (await asked(world, "a", "b", begin=False)).began
    async with tidings.connect([world.url("a"), world.url("b")], name="phone") as phone:
        await asyncio.sleep(1)
        assert phone.statistics().broker == "a"


@in_a_world
async def test_whoever_asks_is_not_sent_away(world: World) -> None:
    async with tidings.connect([world.url("a"), world.url("b")], name="admin") as admin:
        status = await evacuated(world, "a", asker="admin")
        assert (status.gone, status.staying) == ({}, ())
        assert admin.statistics().broker == "a"


@in_a_world
async def test_a_broker_out_of_reach_is_named_with_those_that_are_not(world: World) -> None:
    feature = world.network.brokers["a"].features[EVACUATION]
    assert isinstance(feature, Evacuation)
    with pytest.raises(TidingsError, match="broker 'nowhere' cannot be reached; those that can are a, b, c"):
        feature.order("nowhere", "", lambda status: None, begin=True)


@in_a_world
async def test_clients_can_neither_order_an_evacuation_nor_speak_for_others(world: World) -> None:
    async with (
        tidings.connect([world.url("a"), world.url("b")], name="phone") as phone,
        tidings.connect(world.url("a"), name="mallory") as mallory,
    ):
        refused = world.network.brokers["a"].statistics.refused
        for body in (pack(GoElsewhere(7)), b"\xc1", pack(("order", 1, True))):
            mallory._link.traffic.send(Frame(Extension(EVACUATION, body)))
        mallory._link.traffic.send(Frame(Extension(EVACUATION, pack(Stays(7)))))  # nobody has asked it
        await asyncio.sleep(1)
        assert world.network.brokers["a"].statistics.refused == refused + 3
        assert not (await asked(world, "a", "a", begin=False)).began
        assert phone.statistics().broker == "a"


@in_a_world
async def test_a_move_of_the_application_has_precedence(world: World) -> None:
    async with tidings.connect([world.url("a"), world.url("b")], name="phone") as phone:
        for delay in (0, 0.006, 0.012, 0.017, 0.022, 0.03):
            await phone.move(world.url("a"))
            await asyncio.sleep(1)
            await asked(world, "a", "a")
            await asyncio.sleep(delay)
            await phone.move(world.url("c"))
            await asyncio.sleep(1)
            assert phone.statistics().broker == "c"
        await world.check()


@in_a_world
async def test_a_broker_that_dies_while_its_clients_leave_is_left_all_the_same(world: World) -> None:
    async with tidings.connect([world.url("a"), world.url("b")], name="phone") as phone:
        news = await phone.subscribe("n >= 0")
        for n, delay in enumerate((0.006, 0.012, 0.017, 0.022, 0.027)):
            await phone.move(world.url("a"))
            await asked(world, "a", "a")
            await asyncio.sleep(delay)
            world.crash("a")
            await phone.publish(n=n)
            assert await numbers(news, 1) == [n]
            assert phone.statistics().broker == "b"
            world.restart("a")
            await world.rest()
        await world.check()


@in_a_world
async def test_a_client_whose_next_broker_is_lost_before_its_welcome_connects_again(world: World) -> None:
    """Its old broker has given it away by then, and says so: that is no other process."""
    async with tidings.connect([world.url("a"), world.url("b")], name="phone") as phone:
        news = await phone.subscribe("n >= 0")
        for n in range(12):
            await phone.move(world.url("a"))
            await asked(world, "a", "a")
            await asyncio.sleep(0.014 + n / 1_000)
            world.cut("phone", "b")
            await asyncio.sleep(3)
            await phone.publish(n=n)
            assert await numbers(news, 1) == [n]
            world.heal("phone", "b")
        await world.check()


@in_a_world
async def test_another_process_of_the_name_ends_a_client_that_was_sent_on(world: World) -> None:
    async with tidings.connect([world.url("a"), world.url("b")], name="phone") as phone:
        assert (await evacuated(world, "a")).gone == {"b": 1}
        async with tidings.connect(world.url("c"), name="phone", take_over=True) as other:
            await asyncio.sleep(20)
            assert other.connected
            with pytest.raises(tidings.TakenOver, match="it has been connected to broker 'c' since"):
                await phone.publish(n=1)


@pytest.mark.parametrize("seed", range(2))
def test_random_faults_during_evacuations_lose_nothing(seed: int) -> None:
    asyncio.run(_faulty(seed))


async def _faulty(seed: int) -> None:
    rng = random.Random(seed)
    async with triangle(seed, Weather()) as world, contextlib.AsyncExitStack() as stack:
        clients: list[tidings.Client] = []
        tasks: list[asyncio.Task[EvacuationStatus]] = []
        for number in range(6):
            own = rng.sample(BROKERS, rng.choice((1, 2, 3, 3)))
            name = f"client-{number}"
            client = tidings.connect([world.url(one) for one in own], name=name, wait=60)
            clients.append(await stack.enter_async_context(client))
            await client.subscribe(f"n >= {number}", callback=lambda notification: None)
        world.random_faults(seconds=20)
        for n in range(60):
            if rng.random() < 0.2:
                broker = rng.choice(BROKERS)
                if broker in world.network.brokers:
                    tasks.append(asyncio.create_task(asked(world, broker, broker)))
            await rng.choice(clients).publish(n=n)
            await asyncio.sleep(rng.random())
        await world.check()


@in_a_world
async def test_two_brokers_that_are_evacuated_do_not_send_clients_to_and_fro(world: World) -> None:
    async with (
        tidings.connect([world.url("a"), world.url("b")], name="phone") as phone,
        tidings.connect([world.url("b"), world.url("a"), world.url("c")], name="tablet") as tablet,
    ):
        one, two = await asyncio.gather(evacuated(world, "a"), evacuated(world, "b"))
        assert reasons(one) == {"phone": "no broker at its other address lets it in"}
        assert (two.gone, reasons(two)) == ({"c": 1}, {})
        await asyncio.sleep(5)
        assert [client.statistics().broker for client in (phone, tablet)] == ["a", "c"]
        await world.check()
