"""The neighbour graph of running brokers: who learns what, what is kept, and what administrators do to it."""

from __future__ import annotations

import asyncio
import functools
import itertools
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

import pytest

import tidings
from tidings.broker import Feature
from tidings.mobility import (
    Change,
    Edge,
    Following,
    GraphMode,
    GraphOptions,
    HandOff,
    Hosts,
    Neighbourhood,
    Outcome,
    Whole,
    pseudonym,
)
from tidings.mobility._claims import Claim, Claims, read_ruling
from tidings.mobility._neighbourhood import _Order
from tidings.model import TidingsError
from tidings.scopes import Scopes
from tidings.sim import Network, World
from tidings.wire import pack

BROKERS = ("a", "b", "c")
SECOND = 1_000_000


def in_world(
    main: Callable[[World], Coroutine[Any, Any, None]],
    options: GraphOptions | None = None,
    configured: Iterable[Edge] = (),
) -> World:
    def features(name: str) -> Iterable[Feature]:
        hosts = Hosts()
        return Scopes("a"), hosts, Following(hosts.epoch_of), Neighbourhood(hosts, options, configured)

    world = World(limit=36_000, brokers=BROKERS, features=features)

    async def run() -> None:
        async with world:
            await main(world)

    asyncio.run(run())
    return world


def graph_at(world: World, broker: str) -> Neighbourhood:
    found = world.network.brokers[broker].features["neighbours"]
    assert isinstance(found, Neighbourhood)
    return found


def seen_at(world: World) -> dict[str, tuple[str, ...]]:
    return {broker: graph_at(world, broker).neighbours() for broker in BROKERS}


async def asked(world: World, broker: str, ask: Callable[[Neighbourhood, Callable[[Whole], None]], None]) -> Whole:
    heard: asyncio.Future[Whole] = asyncio.get_running_loop().create_future()
    feature = graph_at(world, broker)
    feature.context.call_later(0, lambda: ask(feature, heard.set_result))
    return await heard


async def moving(world: World, *ways: str, name: str = "phone", stay: float = 61) -> None:
    """A client that is at one broker after the other."""
    state: Any = None
    for way in ways:
        async with tidings.connect(world.url(way[0]), name=name, state=state) as client:
            for broker in way[1:]:
                await asyncio.sleep(stay)
                await client.move(world.url(broker))
                await asyncio.sleep(1)
            state = client.snapshot()


@pytest.mark.req("MOB-075")
def test_both_brokers_of_a_move_learn_the_edge_when_the_old_one_confirms_it() -> None:
    async def main(world: World) -> None:
        await moving(world, "ab")
        assert seen_at(world) == {"a": ("b",), "b": ("a",), "c": ()}
        found = graph_at(world, "b").moves
        assert [(one.client, one.old, one.new, one.outcome) for one in found] == [("phone", "a", "b", None)]
        assert not graph_at(world, "a").moves, "the new broker remembers"

    in_world(main)


def test_a_directed_graph_is_learned_by_both_and_leads_one_way() -> None:
    async def main(world: World) -> None:
        await moving(world, "ab")
        assert seen_at(world) == {"a": ("b",), "b": (), "c": ()}

    in_world(main, GraphOptions(directed=True))


@pytest.mark.req("MOB-083")
def test_a_new_process_that_only_says_where_it_was_makes_no_edge() -> None:
    async def main(world: World) -> None:
        async with tidings.connect(world.url("a"), name="phone") as client:
            state = client.snapshot()
        await asyncio.sleep(120)  # nobody hosts it any more, so nobody can confirm
        async with tidings.connect(world.url("c"), name="phone", state=state):
            await asyncio.sleep(5)
        assert seen_at(world) == {"a": (), "b": (), "c": ()}

    in_world(main)


@pytest.mark.parametrize("shown", [0, -1, 1])
def test_a_broker_that_claims_a_client_without_the_epoch_of_its_host_makes_no_edge(shown: int) -> None:
    async def main(world: World) -> None:
        async with tidings.connect(world.url("b"), name="phone"):
            hosts = world.network.brokers["b"].features["hosts"]
            assert isinstance(hosts, Hosts)
            epoch = hosts.epoch_of("phone")
            now = hosts.context.now()
            claim = Claim("phone", "phone", "c", now, now, before=shown and epoch + shown, forced=True)
            answers: list[bytes | None] = []
            hosts.visit(pack(Claims((claim,))), answers.append)
            assert answers[0] is not None
            assert read_ruling(answers[0]).ceded == {"phone": epoch}
            assert seen_at(world) == {"a": (), "b": (), "c": ()}, "it is let go, but nobody has confirmed a move"

    in_world(main)


def test_a_client_that_runs_through_all_brokers_makes_one_edge_a_minute() -> None:
    async def main(world: World) -> None:
        async with tidings.connect(world.url("a"), name="runner") as client:
            for broker in "bcab":
                await client.move(world.url(broker))
                await asyncio.sleep(2)
            assert seen_at(world) == {"a": ("b",), "b": ("a",), "c": ()}, "its ration goes along with it"
            await asyncio.sleep(60)
            await client.move(world.url("c"))
            await asyncio.sleep(2)
            assert seen_at(world) == {"a": ("b",), "b": ("a", "c"), "c": ("b",)}

    in_world(main)


def test_an_edge_that_is_not_used_vanishes_by_itself_and_one_that_is_used_stays() -> None:
    async def main(world: World) -> None:
        changes: dict[str, list[str]] = {"b": [], "c": []}

        def changed(at: str, change: Change) -> None:
            changes[at].extend(f"+{edge.old}{edge.new}" for edge in change.added)
            changes[at].extend(f"-{edge.old}{edge.new}" for edge in change.removed)

        for broker in changes:
            graph_at(world, broker).on_change.append(functools.partial(changed, broker))
        await moving(world, "abc", name="stray")
        async with tidings.connect(world.url("a"), name="commuter") as client:
            for broker in itertools.islice(itertools.cycle("ba"), 24):
                await asyncio.sleep(60)
                await client.move(world.url(broker))
        assert changes == {"b": ["+ab", "+bc", "-bc"], "c": ["+bc", "-bc"]}, "c has heard, and has done nothing"
        assert seen_at(world) == {"a": ("b",), "b": ("a",), "c": ()}

    in_world(main)


def plain_network() -> Network:
    """Four brokers in a line, without a world around them."""

    def features(name: str) -> Iterable[Feature]:
        hosts = Hosts()
        return hosts, Neighbourhood(hosts)

    made = Network(1, features=features)
    made.add_brokers("abcd", links=["ab", "bc", "cd"])
    made.run()
    return made


def neighbours_in(network: Network) -> dict[str, str]:
    found = {}
    for name, broker in network.brokers.items():
        feature = broker.features["neighbours"]
        assert isinstance(feature, Neighbourhood)
        found[name] = "".join(sorted(feature.neighbours()))
    return found


@pytest.mark.req("MOB-133")
def test_an_outlier_appears_after_a_long_absence_and_vanishes_while_others_stay() -> None:
    network = plain_network()
    phone, commuter = network.add_client("phone", "a"), network.add_client("commuter", "a")
    network.run()

    def commute(minutes: int) -> None:
        for minute in range(minutes):
            commuter.vanish(noticed=1, kept=30)
            commuter.attach("ba"[minute % 2])
            network.run(60)

    phone.vanish(noticed=1, kept=3_600)
    commute(30)
    phone.attach("d")
    commute(2)
    assert neighbours_in(network) == {"a": "bd", "b": "a", "c": "", "d": "a"}, "half an hour later, three links away"
    commute(20)
    assert neighbours_in(network) == {"a": "bd", "b": "a", "c": "", "d": ""}, "d adds edges as often as it ever did"
    commute(12)
    assert neighbours_in(network) == {"a": "b", "b": "a", "c": "", "d": ""}, "a adds one in half an hour"


@pytest.mark.req("MOB-082")
def test_the_graph_follows_brokers_that_go_and_come_and_habits_that_change() -> None:
    network = plain_network()
    walker = network.add_client("walker", "a")
    network.run()

    def visit(*brokers: str, rounds: int = 5) -> None:
        for broker in brokers * rounds:
            walker.vanish(noticed=1, kept=30)
            walker.attach(broker)
            network.run(61)

    visit("b", "a")
    assert neighbours_in(network) == {"a": "b", "b": "a", "c": "", "d": ""}
    network.add_broker("e")
    network.connect("a", "e")
    network.run()
    visit("e", "a", rounds=12)
    assert neighbours_in(network) == {"a": "e", "b": "", "c": "", "d": "", "e": "a"}, "another habit, with a new broker"
    network.crash("e")
    network.run(5)
    visit("c", "a", rounds=20)
    assert neighbours_in(network) == {"a": "c", "b": "", "c": "a", "d": ""}, "a broker that is gone is forgotten"


def test_edges_survive_a_crash_and_configured_ones_come_from_the_configuration() -> None:
    async def main(world: World) -> None:
        await moving(world, "ab")
        await asyncio.sleep(1)
        world.crash("b")
        await asyncio.sleep(1)
        world.restart("b")
        await asyncio.sleep(5)
        assert set(graph_at(world, "b").neighbours()) == {"a", "c"}
        edge = graph_at(world, "b").graph.edge("a", "b")
        assert edge is not None
        assert not edge.pinned
        assert edge.weight == 1
        await asyncio.sleep(3_600)
        assert graph_at(world, "b").neighbours() == ("c",), "what is learned ages, also on disk"
        await asyncio.sleep(1)
        world.crash("b")
        await asyncio.sleep(1)
        world.restart("b")
        await asyncio.sleep(5)
        assert graph_at(world, "b").graph.edge("a", "b") is None

    in_world(main, GraphOptions(GraphMode.SEEDED), [Edge("b", "c", 1, 0, 0, pinned=True)])


def test_an_administrator_sees_the_graph_of_the_network_and_who_is_missing() -> None:
    async def main(world: World) -> None:
        await moving(world, "abc")
        whole = await asked(world, "c", lambda feature, done: feature.look(done))
        assert [(edge.old, edge.new) for edge in whole.edges] == [("a", "b"), ("b", "c")]
        assert whole.missing == ()
        world.crash("a")
        whole = await asked(world, "c", lambda feature, done: feature.look(done))
        assert whole.missing == ("a",)
        assert {(edge.old, edge.new) for edge in whole.edges} >= {("b", "c")}

    in_world(main)


def test_an_import_reaches_every_broker_and_takes_the_place_of_what_was_learned() -> None:
    async def main(world: World) -> None:
        await moving(world, "ab")
        text = b'{"edges": [{"old": "b", "new": "c", "weight": 5, "pinned": true}, {"old": "a", "new": "c"}]}'
        whole = await asked(world, "b", lambda feature, done: feature.take(text, "graph.json", done))
        assert [(edge.old, edge.new, edge.pinned) for edge in whole.edges] == [("a", "c", False), ("b", "c", False)]
        assert seen_at(world) == {"a": ("c",), "b": ("c",), "c": ("b", "a")}
        await asked(world, "b", lambda feature, done: feature.forget("c", "a", done))
        assert seen_at(world) == {"a": (), "b": ("c",), "c": ("b",)}
        await asked(world, "b", lambda feature, done: feature.forget("c", "", done))
        assert seen_at(world) == {"a": (), "b": (), "c": ()}

    in_world(main)


def test_an_import_with_a_mistake_changes_nothing() -> None:
    async def main(world: World) -> None:
        await moving(world, "ab")
        feature = graph_at(world, "a")
        for text, error in (
            (b'{"edges": [{"old": "a", "new": "nowhere"}]}', "there is no broker 'nowhere'"),
            (b'{"edges": [{"old": "a", "new": "a"}]}', "to itself"),
            (b'{"edges": [{"old": "a", "new": "c", "weight": -1}]}', "weight -1"),
        ):
            with pytest.raises(TidingsError, match=error):
                feature.take(text, "graph.json", lambda whole: None)
        assert seen_at(world) == {"a": ("b",), "b": ("a",), "c": ()}

    in_world(main)


def test_a_static_graph_takes_no_import() -> None:
    async def main(world: World) -> None:
        with pytest.raises(TidingsError, match="of broker 'a' is static; change its `graph_file`"):
            graph_at(world, "a").take(b'{"edges": []}', "graph.json", lambda whole: None)

    in_world(main, GraphOptions(GraphMode.STATIC))


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        (GraphOptions(max_degree=1), ("c",)),
        (GraphOptions(max_degree=0), ("c", "b")),
        (GraphOptions(GraphMode.STATIC), ()),
    ],
)
def test_a_broker_takes_no_more_of_an_import_than_it_is_configured_for(
    options: GraphOptions, kept: tuple[str, ...]
) -> None:
    async def main(world: World) -> None:
        order = _Order(edges=(Edge("a", "b", 1, 0, 0), Edge("a", "c", 2, 0, 0), Edge("b", "c", 9, 0, 0)))
        feature = graph_at(world, "a")
        feature.visit(pack(order), lambda answer: None)
        assert feature.graph.neighbours("a") == kept
        assert len(feature.graph) == len(kept)

    in_world(main, options)


def test_what_makes_no_sense_is_refused_and_changes_nothing() -> None:
    async def main(world: World) -> None:
        answers: list[bytes | None] = []
        graph_at(world, "a").visit(b"\xc1", answers.append)
        assert answers == [None]
        assert world.network.brokers["a"].statistics.refused == 1

    in_world(main)


def test_who_knows_what_a_client_found_says_so_and_is_believed() -> None:
    async def main(world: World) -> None:
        feature = graph_at(world, "b")
        feature.reported = True
        heard: list[HandOff] = []
        feature.on_hand_off.append(heard.append)
        await moving(world, "ab")
        assert not heard
        feature.handed_off(HandOff("phone", "", "a", "b", 0, 5, Outcome.HIT, 3, 11))
        assert heard == list(feature.moves)
        assert feature.graph.quality.hits == 1

    in_world(main)


def test_a_pseudonym_is_the_same_everywhere_and_not_the_name() -> None:
    assert pseudonym("me", "phone") == pseudonym("me", "phone")
    assert len({pseudonym("me", "phone"), pseudonym("you", "phone"), pseudonym("me", "tablet")}) == 3
    assert "phone" not in pseudonym("me", "phone")
