"""Integrated routing on a live network: where scopes are, where notifications cross, and how the graph changes."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterator

import pytest
from scopes.graph_world import FX_6, note, random_world
from scopes.network_world import FX_3_BROKERS, FX_3_LINKS, FX_3_PLACES, Watched, at_rest, fx_3, random_links

from tidings.broker import Gate, Link, Table
from tidings.model import ROOT_SCOPE, Notification, RouteState
from tidings.scopes import (
    Anchor,
    CreateScope,
    DestroyScope,
    EdgeMapping,
    Graph,
    Interface,
    Join,
    Leave,
    SetInterface,
    SetMapping,
    Unanchor,
    mapping,
    sightings,
)
from tidings.scopes.steps import Convert, Rename
from tidings.wire import Frame
from tidings.wire import encode as encode_frame

FAR = Join("S", "T", mapping=EdgeMapping(mapping(Rename("x", "y")), mapping(Rename("y", "x"))))


def table(world: Watched, broker: str, scope: str) -> Table:
    return world.network.brokers[broker].scoping.tables[scope]


def destinations(world: Watched, broker: str, scope: str) -> set[tuple[str, str, str]]:
    """The subscriptions of a table: kind of the destination, its name, the filter."""
    return {
        (entry.link.kind.value, entry.link.name, str(entry.filter))
        for entry in table(world, broker, scope).subscriptions
    }


def direction(world: Watched, broker: str, scope: str) -> str:
    """Where a scope is, as a broker knows it: itself, or the one neighbour behind which all its brokers are."""
    view = world.view(broker)
    if broker in view.overlay(scope):
        return broker
    hops = {world.network.brokers[broker].adjacency.tree.hops[other] for other in view.overlay(scope)}
    assert len(hops) == 1, "an overlay is connected, so one that one is not part of lies in one direction"
    return hops.pop()


# --- where scopes are -----------------------------------------------------------------------------------


@pytest.mark.req("ARC-133")
def test_fx_3_a_table_holds_members_neighbours_and_subscopes_by_what_passes_their_edges() -> None:
    world = fx_3(S_T=FAR)
    for number, client in enumerate(FX_3_PLACES, start=1):
        world.client(client).subscribe(f"x = {number}")
    world.network.run()
    assert destinations(world, "B1", "S") == {("client", "c1", "x = 1"), ("broker", "B2", "x = 4")}
    assert destinations(world, "B1", "T") == {
        ("client", "c2", "x = 2"),
        ("broker", "B2", "x = 3"),
        ("broker", "B2", "x = 5"),
        ("scope", "S in T", "y = 1"),
        ("scope", "S in T", "y = 4"),
    }, "what is wanted inside is asked for outside, in the words of the outside"
    assert destinations(world, "B1", "U") == {
        ("broker", "B5", "x = 6"),
        ("scope", "S in U", "x = 1"),
        ("scope", "S in U", "x = 4"),
    }
    assert set(table(world, "B1", "S").gates) == {"T", "U"}
    assert table(world, "B1", "T").gates == {}
    at_rest(world)


LOOKUP = {
    "S": {"B1": "B1", "B2": "B2", "B3": "B2", "B4": "B4", "B5": "B1"},
    "T": {"B1": "B1", "B2": "B2", "B3": "B3", "B4": "B4", "B5": "B1"},
    "U": {"B1": "B1", "B2": "B2", "B3": "B2", "B4": "B4", "B5": "B5"},
}
"""As the documents' lookup tables, but for U: its overlay contains that of S (docs/decisions/0060)."""


@pytest.mark.req("ARC-135", "ARC-141")
def test_fx_3_every_broker_knows_in_which_direction_each_scope_is() -> None:
    world = fx_3()
    assert {scope: {broker: direction(world, broker, scope) for broker in FX_3_BROKERS} for scope in LOOKUP} == LOOKUP
    world.change(CreateScope("V"), Join("@c3", "V"), at="B5")
    assert {broker: direction(world, broker, "V") for broker in FX_3_BROKERS} == {
        "B1": "B2",
        "B2": "B3",
        "B3": "B3",
        "B4": "B2",
        "B5": "B1",
    }
    world.change(DestroyScope("V", cascade=True), at="B4")
    assert all("V" not in world.scopes(broker).graph.scopes for broker in FX_3_BROKERS)
    at_rest(world)


@pytest.mark.req("ARC-130", "ARC-131")
def test_each_scope_has_tables_of_its_own_at_the_brokers_of_its_overlay_and_nowhere_else() -> None:
    world = fx_3()
    carried = {broker: set(world.network.brokers[broker].scoping.tables) - {ROOT_SCOPE} for broker in FX_3_BROKERS}
    assert carried == {"B1": set("STU"), "B2": set("STU"), "B3": {"T"}, "B4": set("STU"), "B5": {"U"}}


@pytest.mark.req("ARC-138")
def test_every_broker_of_a_scope_knows_its_interfaces_and_mappings() -> None:
    world = fx_3()
    narrow = Interface.parse(input="x > 2", output="x > 3")
    world.change(SetInterface("S", narrow), SetMapping("S", "T", EdgeMapping(mapping(Convert("x", 10)), mapping())))
    for broker in ("B1", "B2", "B4"):
        edge = world.view(broker).supers("S")["T"]
        assert [edge.outward(Notification(x=x)) for x in (3, 4)] == [None, Notification(x=40)]
        assert [edge.inward(Notification(x=x)) for x in (2, 3)] == [None, Notification(x=3)]
    world.subscribe()
    world.publish("c4", x=4)
    assert world.got("c2") == world.got("c6") == [Notification(x=40)]
    assert world.got("c1") == [Notification(x=4)]


# --- where notifications cross --------------------------------------------------------------------------


@pytest.mark.req("ARC-152")
@pytest.mark.parametrize(("publisher", "broker"), [("c1", "B1"), ("c4", "B4")])
def test_fx_3_what_a_member_publishes_enters_both_superscopes_where_it_is_and_nowhere_else(
    publisher: str, broker: str
) -> None:
    world = fx_3()
    world.subscribe()
    world.publish(publisher, x=1)
    assert [(one.broker, one.edge) for one in world.crossed] == [(broker, ("S", "T")), (broker, ("S", "U"))]
    assert world.getters() == set(FX_3_PLACES)


@pytest.mark.req("ARC-152")
def test_fx_3_two_members_at_one_broker_need_no_other_broker() -> None:
    world = fx_3()
    world.subscribe("c6")
    world.publish("c4", x=1)
    assert world.traffic() == []
    assert world.getters() == {"c6"}


@pytest.mark.req("ARC-152")
def test_fx_3_what_comes_down_crosses_at_the_first_broker_that_carries_the_subscope() -> None:
    world = fx_3()
    world.subscribe("c1", "c4")
    world.publish("c3", x=1)
    assert [(one.broker, one.edge, one.route.state) for one in world.crossed] == [
        ("B2", ("T", "S"), RouteState.DOWNWARD)
    ], "B3 does not carry S, B2 does, and B1 and B4 get what has crossed"
    assert world.getters() == {"c1", "c4"}


@pytest.mark.req("ARC-153")
def test_fx_3_one_frame_serves_several_scopes() -> None:
    world = fx_3()
    world.subscribe("c4", "c6")
    world.publish("c1", x=1)
    assert world.traffic() == ["B1-B2", "B2-B4"]
    assert {route.scope for _, _, message in world.notified for route in message.envelope.routes} == {"S", "T"}
    assert world.getters() == {"c4", "c6"}


@pytest.mark.req("ARC-153")
def test_fx_3_a_mapping_splits_the_frame() -> None:
    world = fx_3(S_T=FAR)
    world.subscribe("c4", "c6")
    world.publish("c1", x=1)
    assert world.traffic() == ["B1-B2", "B1-B2", "B2-B4", "B2-B4"]
    assert (world.got("c4"), world.got("c6")) == ([Notification(x=1)], [Notification(y=1)])


@pytest.mark.req("ARC-149")
def test_fx_6_a_diamond_is_crossed_once_on_each_way_and_delivers_once() -> None:
    world = Watched("abc", ["ab", "bc"], {"c0": "a", "c1": "c"})
    world.make(*FX_6)
    world.subscribe()
    world.publish("c0", x=1)
    assert (len(world.got("c0")), len(world.got("c1"))) == (1, 1)
    paths = [one.route.path for one in world.crossed]
    assert len(paths) == len(set(paths))
    assert all(len(path) == len(set(path)) for path in paths), "no scope is entered twice on one way"
    assert set(paths) >= {("S", "T1"), ("S", "T2"), ("S", "T1", "R"), ("S", "T2", "R")}
    at_rest(world)


def random_network(seed: int) -> Watched:
    """A random graph on a random tree; everybody is a member somewhere and wants everything."""
    dice = random.Random(seed)
    graph = random_world(seed)
    brokers = [f"b{number}" for number in range(dice.randint(2, 6))]
    places = {client[1:]: dice.choice(brokers) for client in graph.clients}
    world = Watched(brokers, random_links(dice, brokers), places, seed=seed)
    answer = world.change(*graph.changes(), at=dice.choice(brokers))
    assert not answer.error, answer.reason
    world.subscribe()
    return world


@pytest.mark.req("ARC-147", "ARC-149", "ARC-152")
@pytest.mark.parametrize("seed", range(12))
def test_every_event_crosses_each_edge_once_on_each_way_first_up_then_down(seed: int) -> None:
    world = random_network(seed)
    graph = world.scopes(world.authority).graph
    for number, publisher in enumerate(world.network.clients):
        world.publish(publisher, note(number % 6))
        crossings = Counter((one.event, one.route.path, one.route.version) for one in world.crossed)
        assert all(count == 1 for count in crossings.values()), crossings
        for one in world.crossed:
            path = one.route.path if one.route.source in one.route.path else (one.route.source, *one.route.path)
            assert list(states(graph, path))[-1] is one.route.state
        for client in world.network.clients:
            forms = {seen.notification for seen in sightings(graph, f"@{publisher}", note(number % 6), f"@{client}")}
            assert set(world.got(client)) == forms
    at_rest(world)


def states(graph: Graph, path: tuple[str, ...]) -> Iterator[RouteState]:
    """The states on a way through a graph; it must go up, then down."""
    state = RouteState.INTERNAL
    for one, two in itertools.pairwise(path):
        if two in graph.upward(one):
            assert state is not RouteState.DOWNWARD, path
            state = RouteState.UPWARD
        else:
            assert one in graph.upward(two)
            state = RouteState.DOWNWARD
        yield state


def test_what_an_application_gets_tells_it_nothing_of_scopes() -> None:
    world = Watched("ab", ["ab"], {"x": "a", "y": "b", "z": "b"})
    world.make(
        "x < SECRET",
        "SECRET < HIDDEN",
        "y < HIDDEN",
        "z < SECRET",
        SECRET_HIDDEN=Join("SECRET", "HIDDEN", mapping=FAR.mapping),
    )
    world.subscribe("y", "z")
    world.publish("x", x=1)
    assert (world.got("y"), world.got("z")) == ([Notification(y=1)], [Notification(x=1)])
    frames = [encode_frame(Frame(message)) for _, _, message in world.handed]
    assert len(frames) == 2
    assert not any(name in frame for frame in frames for name in (b"SECRET", b"HIDDEN"))


# --- how the graph changes ------------------------------------------------------------------------------


def references(world: Watched, scope: str) -> list[str]:
    """Every trace of a scope in the tables of all brokers."""
    found = []
    for name, broker in world.network.brokers.items():
        for table in broker.scoping.tables.values():
            found += [f"{name}: table"] * (table.scope == scope)
            found += [f"{name}: gate or superscope of {table.scope}"] * (scope in table.gates or scope in table.supers)
            entries = (entry for entry in table.entries() if isinstance(entry.link, Gate))
            found += [f"{name}: entry in {table.scope}" for entry in entries if scope in vars_of(entry.link)]
        subscriptions = (one for link in broker.clients for one in broker.registrations.subscriptions(link).values())
        found += [f"{name}: subscription {one.id}" for one in subscriptions if scope in one.entries]
    return found


def vars_of(gate: Link) -> tuple[str, str]:
    assert isinstance(gate, Gate)
    return gate.passage.member, gate.passage.scope


def test_a_scope_that_ends_is_gone_everywhere() -> None:
    world = fx_3()
    world.subscribe()
    assert references(world, "S")
    assert not world.change(DestroyScope("S", cascade=True), at="B5").error
    assert references(world, "S") == []
    assert all(world.scopes(broker).graph.scopes.keys() == {"", "T", "U"} for broker in FX_3_BROKERS)
    world.publish("c2", x=1)
    assert world.getters() == {"c2", "c3", "c6"}
    world.publish("c1", x=1)
    assert world.getters() == set(), "c1 was in S only"
    at_rest(world)


@pytest.mark.req("ARC-144")
def test_a_scope_that_leaves_its_superscope_leaves_no_reference_to_it() -> None:
    world = fx_3()
    world.subscribe()
    assert not world.change(Leave("S", "T"), at="B3").error
    for broker in ("B1", "B2", "B4"):
        assert set(table(world, broker, "S").gates) == set(table(world, broker, "S").supers) == {"U"}
        assert not any(isinstance(entry.link, Gate) for entry in table(world, broker, "T").entries())
    world.publish("c1", x=1)
    assert world.getters() == {"c1", "c4", "c5"}
    at_rest(world)


@pytest.mark.req("ARC-143")
def test_an_overlay_retreats_when_the_last_member_has_gone() -> None:
    world = fx_3()
    world.client("c4").detach()
    world.network.run()
    assert world.view("B1").overlay("S") == {"B1"}
    assert world.view("B1").overlay("U") == {"B1", "B5"}
    assert references(world, "S") == ["B1: table"]
    at_rest(world)


@pytest.mark.req("ARC-143")
def test_a_member_that_leaves_has_unsubscribed_from_everything_in_the_scope() -> None:
    world = fx_3()
    world.subscribe()
    world.change(Leave("@c4", "S"))
    assert destinations(world, "B1", "S") == {("client", "c1", "TRUE")}
    assert world.view("B1").overlay("S") == {"B1"}
    world.publish("c1", x=1)
    assert world.getters() == {"c1", "c2", "c3", "c5", "c6"}
    at_rest(world)


@pytest.mark.req("ARC-160")
def test_an_overlay_is_extended_by_hand_and_stays_so_until_it_is_undone_by_hand() -> None:
    world = fx_3()
    assert not world.change(Anchor("S", "B5", stay=True), at="B3").error
    assert all(world.view(broker).overlay("S") == {"B1", "B2", "B4", "B5"} for broker in FX_3_BROKERS)
    assert "S" in world.network.brokers["B5"].scoping.tables, "though nobody there is a member"
    world.network.add_client("c7", "B5")
    world.change(Join("@c7", "S"))
    world.change(Leave("@c7", "S"))
    assert "S" in world.view("B5").scopes, "members come and go, what an administrator wants stays"
    assert not world.change(Unanchor("S", "B5", stay=True)).error
    assert world.view("B1").overlay("S") == {"B1", "B2", "B4"}
    at_rest(world)


def test_a_broker_that_was_let_in_for_members_it_does_not_have_gives_the_scope_up() -> None:
    world = fx_3()
    assert not world.change(Anchor("S", "B5")).error
    assert world.view("B1").overlay("S") == {"B1", "B2", "B4"}, "when everything has come to rest"
    at_rest(world)


@pytest.mark.req("ARC-164", "ARC-146")
@pytest.mark.parametrize("seed", range(5))
def test_of_two_who_create_the_same_scope_at_once_one_wins(seed: int) -> None:
    world = Watched(FX_3_BROKERS, FX_3_LINKS, {}, seed=seed)
    first = world.network.change("B3", (CreateScope("market", attributes={"by": "B3"}),))
    second = world.network.change("B5", (CreateScope("market", attributes={"by": "B5"}),))
    world.network.run()
    (one,), (two,) = first, second
    assert sorted([bool(one.error), bool(two.error)]) == [False, True]
    loser, winner = (one, "B5") if one.error else (two, "B3")
    assert "a scope 'market' exists already" in loser.reason
    for broker in FX_3_BROKERS:
        assert world.scopes(broker).graph.scopes["market"].attributes == {"by": winner}
    at_rest(world)
