"""`myloc` is where the client is: what its broker's configuration says, and something else after each move."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

import pytest
from net.world import Raw, brokers, connected, options, running, take, until, url

import tidings
from tidings.mobility import MobilityOptions
from tidings.model import Filter, FilterError, Location, ScopeError
from tidings.net import Access, AccessEntry, Server, serve
from tidings.sim import Network
from tidings.wire import Refused, Settled, Subscribe, Welcome

NEAR = "place WITHIN myloc(1)"
HERE = "place WITHIN myloc"


@contextlib.asynccontextmanager
async def placed(**places: str | None) -> AsyncIterator[dict[str, Server]]:
    """Brokers at places, all linked to the first one."""
    servers: dict[str, Server] = {}
    async with contextlib.AsyncExitStack() as stack:
        for name, place in places.items():
            neighbours = tuple(url(one) for one in list(servers.values())[:1])
            options_ = options(name, neighbours=neighbours, mobility=MobilityOptions(place=place))
            servers[name] = await stack.enter_async_context(serve(options_))
        await until(lambda: connected(servers.values()))
        yield servers


@running
async def test_a_subscription_gets_what_is_where_its_client_is_and_not_what_was_where_it_came_from() -> None:
    async with placed(a="/berlin/mitte", b="/berlin/west", c="/paris") as servers:
        async with (
            tidings.connect(url(servers["a"]), name="car") as car,
            tidings.connect(url(servers["c"]), name="sign") as sign,
        ):
            assert car.place == Location("/berlin/mitte")
            here = await car.subscribe(HERE)
            city = await car.subscribe(NEAR, receive_own=False)
            await sign.publish(n=1, place=Location("/berlin/mitte"))
            await sign.publish(n=2, place=Location("/berlin/west"))
            await sign.publish(n=3, place=Location("/paris"))
            assert [one["n"] for one in await take(city, 2)] == [1, 2]
            assert [one["n"] for one in await take(here, 1)] == [1]
            await car.move(url(servers["c"]))
            assert car.place == Location("/paris")
            moves = aiter(car.moved)
            await car.move(url(servers["b"]))
            while (await anext(moves)).new != "b":  # then everything has settled there
                pass
            for n, place in enumerate(("/berlin/mitte", "/paris", "/berlin/west"), 4):
                await sign.publish(n=n, place=Location(place))
            assert [one["n"] for one in await take(here, 1)] == [6]
            assert [one["n"] for one in await take(city, 2)] == [4, 6]
            assert here.waiting == city.waiting == 0
            assert not here.gaps
            assert str(here.filter) == HERE


@running
@pytest.mark.req("HIS-116")
async def test_the_light_was_red_before_the_car_arrived_and_the_past_says_so() -> None:
    """What was published at the new place has a smaller number than what the car has seen of the same origin."""
    async with placed(x="/road/x", y="/road/y") as servers:
        async with (
            tidings.connect(url(servers["x"]), name="car") as car,
            tidings.connect(url(servers["y"]), name="lights") as lights,
        ):
            light = await car.subscribe(HERE, past=tidings.last(1))
            await lights.publish(light="red", place=Location("/road/y"))
            await lights.publish(light="green", place=Location("/road/x"))
            assert (await take(light, 1))[0]["light"] == "green"
            await car.move(url(servers["y"]))
            assert (await take(light, 1))[0]["light"] == "red"
            moves = aiter(car.moved)
            await car.move(url(servers["x"]))
            while (await anext(moves)).new != "x":
                pass
            await lights.publish(light="amber", place=Location("/road/x"))
            assert (await take(light, 1))[0]["light"] == "amber"  # not green again


@running
async def test_two_brokers_at_one_place_are_one_place() -> None:
    async with placed(a="/hall", b="/hall") as servers:
        async with tidings.connect(url(servers["a"]), name="cart") as cart, tidings.connect(url(servers["b"])) as door:
            opened = await cart.subscribe(HERE)
            await servers["a"].stop()
            await door.publish(n=1, place=Location("/hall/north"))
            await cart.move(url(servers["b"]))
            assert [one["n"] for one in await take(opened, 1)] == [1]


@running
async def test_a_broker_without_a_place_refuses_with_the_reason() -> None:
    async with placed(a=None, b="/berlin") as servers, tidings.connect(url(servers["a"]), name="alice") as alice:
        assert alice.place is None
        with pytest.raises(
            FilterError,
            match=r"'place WITHIN myloc\(1\)' uses myloc, but broker 'a' has no place; set `place` under \[mobility\]",
        ):
            alice.subscribe(NEAR)
        async with alice.subscribe("x = 1") as subscription:
            with pytest.raises(FilterError, match="broker 'a' has no place"):
                subscription.update(f"x = 2 OR {NEAR}")
            assert str(subscription.filter) == "x = 1"
            await alice.publish(x=1)
            assert (await anext(subscription))["x"] == 1
            await alice.move(url(servers["b"]))
            subscription.update(f"x = 2 OR {HERE}")
            await subscription
            await alice.publish(place=Location("/berlin/mitte"))
            assert (await anext(subscription))["place"] == Location("/berlin/mitte")


@running
async def test_a_subscription_that_comes_to_a_broker_without_a_place_ends_with_the_reason() -> None:
    async with placed(a="/berlin", b=None) as servers, tidings.connect(url(servers["a"]), name="alice") as alice:
        near, others = await alice.subscribe(NEAR), await alice.subscribe("EXISTS(n)")
        await alice.move(url(servers["b"]))
        with pytest.raises(FilterError, match="broker 'b' has no place"):
            await anext(near)
        await alice.publish(n=1)
        assert [one["n"] for one in await take(others, 1)] == [1]


@running
async def test_a_broker_fills_it_in_for_clients_of_any_library() -> None:
    async with placed(a="/berlin", b=None) as servers, await Raw.open(servers["a"]) as here:
        welcome = await here.hello("here")
        assert isinstance(welcome, Welcome)
        assert welcome.place == "/berlin"
        here.send(Subscribe("s1", Filter.parse(HERE), number=1))
        await here.expect(Settled)
        (registration,) = (
            servers["a"].host.broker.registrations.subscriptions(servers["a"].host.broker.client("here")).values()
        )
        assert str(registration.filter) == "place WITHIN LOCATION '/berlin'"
        assert registration.located
        async with await Raw.open(servers["b"]) as nowhere:
            welcome = await nowhere.hello("nowhere")
            assert isinstance(welcome, Welcome)
            assert welcome.place == ""
            nowhere.send(Subscribe("s1", Filter.parse(HERE), number=1))
            refused = await nowhere.expect(Refused)
            assert "has no place" in refused.reason


@running
async def test_rights_are_held_against_the_place_that_it_means() -> None:
    berlin = AccessEntry("alice", subscribe=Filter.parse("place WITHIN LOCATION '/berlin'"))
    access = Access({"a" * 16: berlin, "b" * 16: AccessEntry("broker", broker=True)})
    places = {"/berlin/mitte": True, "/paris": False}
    for place, allowed in places.items():
        async with serve(options("b", access=access, mobility=MobilityOptions(place=place))) as server:
            async with tidings.connect(url(server), name="alice", token="a" * 16) as alice:
                if allowed:
                    await alice.subscribe(HERE)
                else:
                    with pytest.raises(tidings.AccessDenied):
                        await alice.subscribe(HERE)


@running
async def test_what_keeps_positions_or_stands_nowhere_cannot_use_it() -> None:
    async with placed(a="/berlin") as servers, tidings.connect(url(servers["a"]), name="alice") as alice:
        with pytest.raises(FilterError, match="keeps positions, which say nothing about places; name the place"):
            alice.subscribe(NEAR, durable="near")
        with pytest.raises(FilterError, match="which only the filter of a subscription may"):
            await alice.advertise(f"NOT {NEAR}")
        limits = tidings.history.CacheLimits()
        async with tidings.connect(url(servers["a"]), remember=limits) as remembering:
            with pytest.raises(FilterError, match="connect without `remember`"):
                remembering.subscribe(NEAR)


@running
async def test_a_place_that_was_filled_in_is_a_place() -> None:
    async with brokers("b") as servers, tidings.connect(url(servers["b"]), name="alice") as alice:
        here = Filter.parse(NEAR).resolve(Location("/berlin/mitte"))
        async with alice.subscribe(here) as subscription:
            await alice.publish(place=Location("/paris"))
            await alice.publish(place=Location("/berlin/west"))
            assert (await anext(subscription))["place"] == Location("/berlin/west")


def test_simulated_clients_are_told_alike() -> None:
    network = Network(1)
    network.add_broker("a")
    with pytest.raises(FilterError, match="myloc"):
        network.add_client("alice", "a").subscribe(NEAR)


@running
async def test_a_border_has_no_place() -> None:
    async with serve(options("b")) as server, tidings.connect(url(server), name="root") as root:
        with pytest.raises(ScopeError, match=r"myloc.*a border has no place; name the place"):
            await root.admin.create_scope("market", output=NEAR)
        await root.admin.create_scope("market", output="place WITHIN LOCATION '/berlin'")
