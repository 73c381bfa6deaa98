"""Who sees what, worked out twice: by what brokers and audit call, and by what the checker has from the definition."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scopes.graph_world import CLIMBING_DIAMOND, GRAPH_A, GRAPH_B, _some, a_filter, graph, note, random_world
from scopes.planning_world import NEWCOMERS, SAMPLES, _change
from strategies import SOAK_SLOWLY

from tidings.broker import Link, LinkKind, Registration, Tree, View, owed, owed_when
from tidings.model import EVERYTHING, ROOT_ROUTE, ROOT_SCOPE, Filter, Identity, Notification, ScopeError
from tidings.scopes import (
    Graph,
    Join,
    Leave,
    Plan,
    PolicyKind,
    SetAttributes,
    SetMapping,
    SetPolicy,
    SetSelective,
    _oracle,
    apply,
    edge_mapping,
    mapping,
    sightings,
)
from tidings.scopes._oracle import Sighting
from tidings.scopes.steps import Add
from tidings.sim import Promises, Scenario
from tidings.sim._definition import Definition
from tidings.sim._policy_plan import _use
from tidings.wire import Envelope, Quality, encode_body

TREE = Tree(0, frozenset(), {}, {"b": None})


def outlet(node: str, filter: Filter = EVERYTHING, *, receive_own: bool = True) -> Registration:
    return Registration(Link(node.removeprefix("@"), LinkKind.CLIENT), "s", filter, receive_own=receive_own)


def published(node: str, notification: Notification) -> Envelope:
    identity = Identity("b", 1, 1, node.removeprefix("@"), 1, 0, 1)
    return Envelope(identity, (ROOT_ROUTE,), encode_body(notification), Quality.FIRE)


def seen(graph: Graph, publisher: str, notification: Notification, reader: str) -> set[Notification]:
    return set(Definition(graph).forms(publisher, notification, reader).values())


# --- both agree -----------------------------------------------------------------------------------------


def versions(dice: random.Random, seed: int) -> tuple[list[Graph], list[str]]:
    """A random graph with interfaces and mappings, as members come and go and other things change; and its clients."""
    world = random_world(seed, abstract=dice.random() < 0.3, scopes=5)
    graphs = [world.graph()]
    clients = [*world.clients, *NEWCOMERS]
    for _ in range(dice.randint(1, 6)):
        client, edges = dice.choice(clients), list(graphs[-1].memberships())
        edge = dice.choice(edges) if edges else None
        change = dice.choice(
            [
                Join(client, dice.choice([*graphs[-1].scopes])),
                *([Leave(edge.member, edge.scope)] if edge is not None else []),
                _change(dice, world, graphs[-1]),
            ]
        )
        try:
            graphs.append(apply(graphs[-1], (change,)))
        except ScopeError:
            continue
    return graphs, clients


@given(st.integers(min_value=0))
@SOAK_SLOWLY
def test_what_brokers_owe_is_what_the_definition_says(seed: int) -> None:
    dice = random.Random(seed)
    graphs, clients = versions(dice, seed)
    definitions = [Definition(one) for one in graphs]
    views: list[View] = [Plan(one).on("b", TREE) for one in graphs]
    for _ in range(12):
        publisher, reader = dice.choice(clients), dice.choice(clients)
        notification, filter, own = dice.choice(SAMPLES), a_filter(_some(dice)), dice.random() < 0.5
        then, now = sorted(dice.choices(range(len(graphs)), k=2))
        before = definitions[then].forms(publisher, notification, reader)
        open_now = definitions[now].forms(publisher, notification, reader)
        assert sorted(before) == sorted(at.path for at in sightings(graphs[then], publisher, notification, reader))
        envelope, one = published(publisher, notification), outlet(reader, filter, receive_own=own)
        wanted = {form for form in before.values() if filter.matches(form)} if own or publisher != reader else set()
        still = {form for way, form in before.items() if way in open_now} & wanted
        assert {form.notification for form in owed(one, envelope, views[then])} == wanted
        assert {form.notification for form in owed(one, envelope, views[then], views[now])} == still


def policed(dice: random.Random, graph: Graph, clients: list[str]) -> Graph:
    """The same graph with policies, and with what they read of its nodes."""
    for node in (*graph.scopes, *clients):
        said = SetAttributes(node, {"level": dice.randint(0, 3), "kinds": (dice.choice("abc"), "d")})
        graph = apply(graph, (said,)) if dice.random() < 0.7 else graph
    for _ in range(dice.randint(1, 5)):
        kind = dice.choice((PolicyKind.PUBLISHING, PolicyKind.DELIVERY, PolicyKind.INTERNAL))
        node = dice.choice(clients if kind is PolicyKind.PUBLISHING and dice.random() < 0.3 else [*graph.scopes])
        graph = apply(graph, (SetPolicy(node, kind, _use(dice, [*clients, *filter(None, graph.scopes)], kind)),))
    return graph


@pytest.mark.req("VIS-617", "ARC-155")
@given(st.integers(min_value=0))
@SOAK_SLOWLY
def test_policies_choose_for_brokers_what_they_choose_by_their_documentation(seed: int) -> None:
    dice = random.Random(seed)
    graphs, clients = versions(dice, seed)
    chosen = policed(dice, graphs[-1], clients)
    definition, view = Definition(chosen), Plan(chosen).on("b", TREE)
    for _ in range(12):
        publisher, reader, notification = dice.choice(clients), dice.choice(clients), dice.choice(SAMPLES)
        envelope = published(publisher, notification)
        found = sightings(chosen, publisher, notification, reader, identity=envelope.identity)
        assert definition.forms(publisher, notification, reader) == {at.path: at.notification for at in found}
        everybody = {at.path for at in sightings(chosen, publisher, notification, reader)}
        assert {at.path for at in found} <= everybody, "a policy never widens what may be seen"
        if publisher != reader:
            due = {one.envelope.notification: one.due for one in owed_when(outlet(reader), envelope, view)}
            assert due == definition.delays(publisher, notification, reader)


# --- a mistake of one is noticed by the other -----------------------------------------------------------

Seeing = Callable[..., list[Sighting]]


def too_much(
    graph: Graph, publisher: str, notification: Notification, reader: str, *more: Any, **how: Any
) -> list[Sighting]:
    """As if those who see nothing of a publication saw it in the root scope."""
    outside = Sighting(reader, notification, (publisher, ROOT_SCOPE, reader))
    return sightings(graph, publisher, notification, reader) or [outside]


def too_little(
    graph: Graph, publisher: str, notification: Notification, reader: str, *more: Any, **how: Any
) -> list[Sighting]:
    """As if nothing came by more than one scope."""
    return [at for at in sightings(graph, publisher, notification, reader) if len(at.path) <= 3]


@pytest.mark.parametrize(("mistaken", "guarantee"), [(too_much, "matching-only"), (too_little, "delivery of accepted")])
def test_the_checker_notices_that_brokers_are_mistaken_about_what_they_owe(
    mistaken: Seeing, guarantee: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_oracle, "sightings", mistaken)
    found = Scenario.named("hs3").run(Promises.load()).violations
    assert any(guarantee in violation for violation in found)


# --- the definition, by examples of the documents -------------------------------------------------------


def test_a_scope_passes_on_what_its_members_say_and_not_what_it_was_told() -> None:
    some = graph(*GRAPH_B, "r < T'")
    assert seen(some, "@y", note(1), "@r") == {note(1)}
    assert seen(some, "@x", note(1), "@y") == {note(1)}
    assert not seen(some, "@x", note(1), "@r")


def test_those_without_a_scope_in_common_do_not_see_each_other() -> None:
    some = graph(*GRAPH_A)
    assert seen(some, "@x", note(1), "@y")
    assert seen(some, "@y", note(1), "@u")
    assert not seen(some, "@x", note(1), "@z")


def test_each_way_has_its_form_and_equal_forms_are_one() -> None:
    some = graph(*CLIMBING_DIAMOND)
    assert [way.nodes for way in Definition(some).ways("@c1", "@c2")] == [
        ("@c1", "T", "S", "@c2"),
        ("@c1", "U", "S", "@c2"),
    ]
    assert seen(some, "@c1", note(1), "@c2") == {note(1)}
    mapped = apply(some, (SetMapping("T", "S", edge_mapping(mapping(Add("a", 4)), mapping())),))
    assert seen(mapped, "@c1", note(1), "@c2") == {note(1), note(4)}


def test_nothing_comes_down_into_a_scope_that_it_has_climbed_through() -> None:
    some = apply(
        graph("c0 < S", "c1 < S", "S < T"), (SetMapping("S", "T", edge_mapping(mapping(), mapping(Add("a", 4)))),)
    )  # or c1 would get it a second time, as 4
    assert seen(some, "@c0", note(1), "@c1") == {note(1)}


def test_filters_of_an_edge_see_their_own_side_of_its_mapping() -> None:
    joined = graph("x < S", "y < S")
    mapped = apply(joined, (SetMapping("@x", "S", edge_mapping(mapping(Add("a", 4)), mapping())),))
    for filter, shown in (("a = 1", {note(4)}), ("a = 4", set())):
        selective = SetSelective("@x", "S", joined.membership("@x", "S").selective.parse(output=filter))
        assert seen(apply(mapped, (selective,)), "@x", note(1), "@y") == shown


def test_who_was_never_joined_is_in_the_root_scope_and_who_has_left_is_nowhere() -> None:
    some = graph("x < S")
    assert seen(some, "@new", note(1), "@other") == {note(1)}
    left = apply(some, (Leave("@x", "S"),))
    assert not seen(left, "@new", note(1), "@x")
    assert seen(apply(left, (Join("@x", ROOT_SCOPE),)), "@new", note(1), "@x") == {note(1)}


def test_own_publications_return_as_published_if_an_edge_lets_them_out_and_in() -> None:
    some = graph("x < S")
    mapped = apply(some, (SetMapping("@x", "S", edge_mapping(mapping(Add("a", 4)), mapping())),))
    assert seen(mapped, "@x", note(1), "@x") == {note(1)}
    shut = apply(some, (SetSelective("@x", "S", some.membership("@x", "S").selective.parse(input="a = 2")),))
    assert not seen(shut, "@x", note(1), "@x")
