"""What scopes are for, as the documents tell it: systems that were made apart become one, and none has to change."""

from __future__ import annotations

import pytest
from scopes.network_world import Watched, at_rest

from tidings.model import Filter, Notification
from tidings.scopes import CreateScope, EdgeMapping, Interface, Join, Leave, SetInterface, SetMapping, mapping
from tidings.scopes.steps import Add, Convert, Drop, Named, Only, Rename, register_mapping


def sensor(building: str) -> Join:
    """A building in the campus: what leaves it says where it comes from, what enters is for it alone and does not."""
    out = mapping(Add("building", building))
    back = mapping(Only(Filter.parse(f"building = '{building}'")), Drop(("building",)))
    return Join(building, "CAMPUS", mapping=EdgeMapping(out, back))


@pytest.mark.req("VIS-953")
def test_presence_sensors_of_several_buildings_are_told_apart_and_stay_as_they_are() -> None:
    """Both buildings have a room 1; their sensors and displays know nothing of other buildings."""
    world = Watched("abc", ["ab", "bc"], {"s1": "a", "d1": "b", "s2": "c", "d2": "c", "guard": "b"})
    world.make("s1 < EAST", "d1 < EAST", "s2 < WEST", "d2 < WEST")
    for display in ("d1", "d2"):
        world.subscribe(display, filter="room = 1")
    published = Notification(room=1, present=True)
    world.publish("s1", published)
    assert (world.got("d1"), world.got("d2")) == ([published], [])
    answer = world.change(CreateScope("CAMPUS"), sensor("EAST"), sensor("WEST"), Join("@guard", "CAMPUS"))
    assert not answer.error, answer.reason
    world.subscribe("guard")
    world.publish("s1", published)
    assert world.got("guard") == [Notification(room=1, present=True, building="EAST")]
    assert (world.got("d1"), world.got("d2")) == ([published], []), "as before"
    world.publish("s2", published)
    assert world.got("guard") == [Notification(room=1, present=True, building="WEST")]
    assert (world.got("d1"), world.got("d2")) == ([], [published])
    world.publish("guard", room=1, alarm=True, building="WEST")
    assert (world.got("d1"), world.got("d2")) == ([], [Notification(room=1, alarm=True)])
    at_rest(world)


CENTIGRADE = EdgeMapping(
    mapping(Convert("temp", 1.8, 32.0, divide=True), Rename("temp", "temperature")),
    mapping(Rename("temperature", "temp"), Convert("temp", 1.8, 32.0)),
)


@pytest.mark.req("VIS-954", "ARC-236")
def test_a_temperature_is_in_everybodys_own_units_and_under_everybodys_own_name() -> None:
    """US says temp, in Fahrenheit, and calls the temperature of its furnace temperature; EU says temperature."""
    world = Watched("ab", ["ab"], {"us": "a", "near": "a", "eu": "b", "far": "b"})
    world.make("us < US", "near < US", "US < EU", "eu < EU", "far < EU", US_EU=Join("US", "EU", mapping=CENTIGRADE))
    world.subscribe("near", filter="temp > 100")
    world.subscribe("far", filter="temperature > 30")
    for temp in (50.0, 212.0):
        world.publish("us", temp=temp)
    assert world.got("near") == [Notification(temp=212.0)]
    assert world.got("far") == [Notification(temperature=100.0)]
    for temperature in (20.0, 100.0):
        world.publish("eu", temperature=temperature)
    assert world.got("near") == [Notification(temp=212.0)]
    assert world.got("far") == [Notification(temperature=100.0)]
    at_rest(world)


@pytest.mark.req("ARC-233")
def test_a_scope_and_a_client_have_several_superscopes_on_several_levels() -> None:
    """x is in A and in B; A is in P and in Q, both are in R, which is in TOP, and A is in L."""
    places = {"x": "a", "y": "b", "z": "c", "p": "b", "q": "c", "r": "a", "t": "c", "l": "b", "other": "a"}
    world = Watched("abc", ["ab", "bc"], places)
    world.make(
        *("x < A", "x < B", "y < A", "z < B", "A < P", "A < Q", "P < R", "Q < R", "R < TOP", "A < L"),
        *("p < P", "q < Q", "r < R", "t < TOP", "l < L", "other < ELSEWHERE"),
    )
    world.subscribe()
    for publisher, readers in (("x", "xyzpqrtl"), ("z", "zx"), ("p", "pxyqrt"), ("t", "trpqxy"), ("l", "lxy")):
        world.publish(publisher, n=1)
        got = {name: len(world.got(name)) for name in places}
        assert got == {name: int(name in readers) for name in places}, "once, however many ways there are"


@pytest.mark.req("ARC-234")
def test_each_edge_has_interfaces_of_its_own_in_both_directions() -> None:
    """S shows T what is above 10 and U everything; T may tell S what is below 5, U nothing."""
    world = Watched("ab", ["ab"], {"s": "a", "t": "b", "u": "b"})
    world.make(
        *("s < S", "t < T", "u < U", "S < T", "S < U"),
        S_T=Join("S", "T", selective=Interface.parse(input="n < 5", output="n > 10")),
        S_U=Join("S", "U", imposed=Interface.parse(input="FALSE", output="TRUE")),
    )
    world.subscribe()

    def got(publisher: str) -> dict[str, list[int]]:
        for n in (1, 7, 11):
            world.client(publisher).publish(n=n)
        world.network.run()
        return {name: [int(str(one["n"])) for one in world.got(name)] for name in "stu"}

    assert got("s") == {"s": [1, 7, 11], "t": [11], "u": [1, 7, 11]}
    assert got("t") == {"s": [1], "t": [1, 7, 11], "u": []}
    assert got("u") == {"s": [], "t": [], "u": [1, 7, 11]}


def doubled(notification: Notification) -> Notification:
    return Notification({**notification, "n": 2 * int(str(notification["n"]))})


@pytest.mark.req("VIS-815")
def test_one_scope_changes_and_the_others_go_on_as_if_nothing_had_happened() -> None:
    """Members, interfaces and the function at a border of S change; V is asked for nothing, and misses nothing."""
    register_mapping("doubled", doubled)
    world = Watched("abc", ["ab", "bc"], {"x": "a", "y": "c", "z": "b", "v": "a", "w": "c"})
    world.make("x < S", "S < T", "z < T", "v < V", "w < V")
    world.subscribe()
    untouched = [world.network.brokers[name].scoping.tables["V"] for name in "abc"]
    entries = [list(table.subscriptions) for table in untouched]
    doubling = EdgeMapping(mapping(Named("doubled")), mapping())
    seen = []
    for change in (
        SetInterface("S", Interface.parse(input="TRUE", output="n > 5")),
        SetMapping("S", "T", doubling),
        Join("@y", "S"),
        SetInterface("S", Interface.parse(input="TRUE", output="TRUE")),
        Leave("@x", "S"),
    ):
        answers = world.network.change("b", (change,))
        published = 0
        while not answers:
            published += 1
            world.client("v").publish(n=published)
            world.network.run(seconds=0.025)  # four links of at most 5 ms
            assert [one["n"] for one in world.got("w")] == [published], "it waits for nothing"
        assert published >= 1
        world.network.run()
        assert not answers[0].error, answers[0].reason
        world.getters()
        for n in (1, 6):
            world.client("x").publish(n=n)
        world.network.run()
        seen.append(([one["n"] for one in world.got("z")], [one["n"] for one in world.got("y")]))
    assert seen == [([6], []), ([12], []), ([12], [1, 6]), ([2, 12], [1, 6]), ([], [])]
    assert [world.network.brokers[name].scoping.tables["V"] for name in "abc"] == untouched
    assert [list(table.subscriptions) for table in untouched] == entries
