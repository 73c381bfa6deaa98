"""What a plan says is what happens: by the oracle, publication by publication, and in a network of brokers."""

from __future__ import annotations

import contextlib

import pytest
from scopes.network_world import Watched
from scopes.planning_world import SAMPLES, Oracle, Planned, outcome, planned, said

from tidings.model import Duplicates, Filter, Notification, ScopeError
from tidings.scopes import (
    OPEN,
    THOROUGH_EFFORT,
    Anchor,
    AnyChange,
    Carried,
    CreateScope,
    Doubt,
    EdgeMapping,
    Graph,
    Impose,
    Interface,
    Join,
    Leave,
    Mapping,
    Outcome,
    Planning,
    Redelivered,
    SetAttributes,
    SetDelivery,
    SetInterface,
    SetMapping,
    SightChange,
    apply,
    decode_outlook,
    digest,
    encode_outlook,
    mapping,
    plan_change,
)
from tidings.scopes._exposure import Crossing, Strand
from tidings.scopes._forms import reduced
from tidings.scopes._together import cover_together
from tidings.scopes.steps import Add, Convert, Drop, Keep, Named, Rename

SEEDS, AT_ONCE = 24, 12
MANY = 250


def vanishing(notification: Notification) -> bool:
    """Whether it has a number that a conversion rounds to 0: such numbers are left out of plans."""
    values = (value for held in notification.values() for value in (held if isinstance(held, tuple) else (held,)))
    return any(isinstance(value, float) and 0 < abs(value) < 1e-300 for value in values)


def judged(one: Planned) -> tuple[int, int]:
    """How many entries a plan has, and how many that are not certain; all of them are tried."""
    outlook = plan_change(one.before, one.changes, by_client=True)
    assert not outlook.unexamined
    assert outlook.digest == digest(one.before)
    told = said(outlook, one.strangers)
    publications = [*SAMPLES, *(one for one in told.notifications if not vanishing(one))]
    before, after = Oracle(one.before), Oracle(one.after)
    for source in one.clients:
        for target in one.clients:
            if source == target:
                continue
            pair = source, target
            known = told.certain[pair] | told.perhaps[pair]
            for publication in publications:
                happens = outcome(before.forms(pair, publication), after.forms(pair, publication))
                assert happens is None or happens in known, f"{pair} {publication}: {happens} was not said"
            for claimed, witness in told.witnesses[pair]:
                happens = outcome(before.forms(pair, witness), after.forms(pair, witness))
                assert happens is claimed, f"{pair} {witness}: {claimed} was said, and it is {happens}"
    return len(outlook.clients), len(outlook.clients_perhaps)


@pytest.mark.parametrize("first", range(0, SEEDS, AT_ONCE))
def test_everything_is_said_and_nothing_is_invented(first: int) -> None:
    for seed in range(first, first + AT_ONCE):
        with contextlib.suppress(ScopeError):  # it may turn an edge round
            judged(planned(seed))


@pytest.mark.soak
@pytest.mark.parametrize("part", range(8))
def test_everything_is_said_of_thousands_of_graphs_and_hardly_anything_is_uncertain(part: int) -> None:
    certain = doubtful = 0
    for seed in range(1_000 + part * MANY, 1_000 + (part + 1) * MANY):
        try:
            entries, doubts = judged(planned(seed))
        except ScopeError:
            continue  # it turns an edge round
        certain, doubtful = certain + entries, doubtful + doubts
    assert certain > MANY
    assert doubtful <= 0.01 * (certain + doubtful), f"{doubtful} of {certain + doubtful} entries are uncertain"


def test_hardly_anything_is_uncertain() -> None:
    certain = doubtful = 0
    for seed in range(200, 225):
        one = planned(seed)
        try:
            outlook = plan_change(one.before, one.changes, by_client=True)
        except ScopeError:
            continue
        certain += len(outlook.sights) + len(outlook.clients)
        doubtful += len(outlook.perhaps) + len(outlook.clients_perhaps)
    assert certain > 200
    assert doubtful <= 0.01 * (certain + doubtful)


@pytest.mark.parametrize("seed", [1, 3, 4, 7, 9, 12])
def test_a_network_delivers_what_was_planned(seed: int) -> None:
    one = planned(seed)
    outlook = plan_change(one.before, one.changes, by_client=True)
    told = said(outlook, one.strangers)
    publications = [*SAMPLES[:6], *told.notifications]
    names = [client.removeprefix("@") for client in one.clients]
    world = Watched("abc", ["ab", "bc"], {name: "abc"[number % 3] for number, name in enumerate(names)})
    assert not world.change(*made(one.before)).error
    for name in names:
        world.client(name).subscribe("TRUE", receive_own=False)
    world.network.run()
    before = delivered(world, names, publications)
    answer = world.change(*one.changes)
    assert not answer.error, answer.reason
    after = delivered(world, names, publications)
    happened: dict[tuple[str, str], set[Outcome]] = {}
    for source, target, publication in before:
        found = outcome(before[source, target, publication], after[source, target, publication])
        if found is not None:
            happened.setdefault((source, target), set()).add(found)
    assert not told.perhaps
    for pair, outcomes in happened.items():
        assert outcomes <= told.certain[pair]
    for pair, outcomes in told.certain.items():
        assert outcomes == happened[pair]


def made(graph: Graph) -> list[AnyChange]:
    """The changes that make a graph, from nothing."""
    changes: list[AnyChange] = []
    for scope in graph.scopes.values():
        if scope.id:
            changes.append(CreateScope(scope.id, scope.interface, scope.imposed, scope.abstract))
        else:
            changes.append(Impose("", scope.imposed))
    edges = graph.memberships()
    return [*changes, *(Join(edge.member, edge.scope, edge.selective, edge.imposed, edge.mapping) for edge in edges)]


def delivered(
    world: Watched, names: list[str], publications: list[Notification]
) -> dict[tuple[str, str, Notification], set[Notification]]:
    """For each publisher, reader and publication, what the reader got."""
    found = {}
    for source in names:
        for publication in publications:
            for name in names:
                world.client(name).received.clear()
            world.client(source).publish(publication)
            world.network.run()
            for target in names:
                if target != source:
                    found[f"@{source}", f"@{target}", publication] = set(world.client(target).received)
    return found


# --- what a plan tells ----------------------------------------------------------------------------------

MARKET = apply(
    Graph(),
    (
        *(CreateScope("market", OPEN), CreateScope("floor", Interface.parse(input="FALSE", output="type = 'quote'"))),
        *(Join("floor", "market"), Join("@trader", "floor"), Join("@public", "market")),
    ),
)


def told(*changes: AnyChange, graph: Graph = MARKET, by_client: bool = False) -> set[tuple[str, str, str, str, str]]:
    outlook = plan_change(graph, changes, by_client=by_client)
    assert outlook.is_complete
    entries = outlook.clients if by_client else outlook.sights
    return {(one.source, one.target, one.outcome.value, one.before, one.after) for one in entries}


def test_a_wider_interface_lets_others_gain_and_says_what_they_had() -> None:
    wider = SetInterface("floor", Interface.parse(input="FALSE", output="type IN ('quote', 'trade')"))
    assert told(wider) == {("floor", "market", "gained", "type = 'quote'", "type IN ('quote', 'trade')")}
    assert told(wider, by_client=True) == {
        ("@trader", "@public", "gained", "type = 'quote'", "type IN ('quote', 'trade')")
    }
    (entry,) = plan_change(MARKET, (wider,)).sights
    assert entry.witness == {"type": "trade"}
    assert entry.becomes == ({"type": "trade"},)
    assert str(entry) == (
        "'floor' is seen in 'market': type IN ('quote', 'trade') (was type = 'quote'), for example type='trade'"
    )


def test_a_mapping_is_another_form_and_says_which() -> None:
    renaming = EdgeMapping(mapping(Rename("price", "preis")), mapping(Rename("preis", "price")))
    (entry,) = plan_change(MARKET, (SetMapping("floor", "market", renaming),)).sights
    assert entry.outcome is Outcome.CHANGED
    assert "price" in entry.witness
    assert "preis" in entry.becomes[0]
    assert entry.was == (entry.witness,)


def test_clients_that_leave_the_root_scope_or_are_left_with_nothing_are_named() -> None:
    outlook = plan_change(MARKET, (Join("@new", "floor"), Leave("@public", "market"), Join("@trader", "market")))
    assert outlook.leave_root == ("@new",)
    assert outlook.isolated == ("@public",)
    lost = {(one.source, one.target) for one in outlook.of(Outcome.LOST)}
    assert {("@new", ""), ("", "@new"), ("floor", "@public")} <= lost


def test_clients_with_the_same_memberships_are_told_together() -> None:
    graph = apply(MARKET, tuple(Join(f"@p{number}", "market") for number in range(20)))
    (entry,) = plan_change(graph, (SetInterface("floor", OPEN),), by_client=True).clients[:1]
    outlook = plan_change(graph, (SetInterface("floor", OPEN),), by_client=True)
    assert len(outlook.clients) == 2
    both = {one.source: one for one in outlook.clients}
    assert len(both["@trader"].targets) == 21
    assert len(both["@public"].sources) == 21
    assert str(entry).count("'@") == 6


def test_brokers_that_come_to_carry_a_scope_are_named() -> None:
    parents = {"a": None, "b": "a", "c": "b", "d": "b"}
    graph = apply(MARKET, (Anchor("market", "a"), Anchor("floor", "a")))
    outlook = plan_change(graph, (Join("@new", "floor"),), parents=parents, places={"@new": "c", "@trader": "a"})
    assert set(outlook.carried) == {Carried(scope, broker) for scope in ("floor", "market") for broker in ("b", "c")}
    careful = apply(graph, (CreateScope("vault", trusted=("a",)), Anchor("vault", "a")))
    (carried,) = plan_change(careful, (Join("@x", "vault"),), parents=parents, places={"@x": "b"}).carried
    assert carried == Carried("vault", "b", trusted=False)
    assert plan_change(graph, (Join("@new", "floor"),)).carried == ()


def test_what_says_nothing_about_sight_is_quiet() -> None:
    outlook = plan_change(MARKET, (SetAttributes("floor", {"x": 1}), CreateScope("empty")), by_client=True)
    assert outlook.is_quiet
    assert not outlook.leave_root


def test_another_rule_for_copies_or_order_is_told_and_not_quiet() -> None:
    outlook = plan_change(MARKET, (SetDelivery("market", duplicates=Duplicates.EVENT),))
    assert outlook.redelivered == (Redelivered("market", ("suppress",), ("event",)),)
    assert outlook.is_complete
    assert not outlook.is_quiet
    assert not outlook.sights
    assert str(outlook.redelivered[0]) == "the members of 'market': duplicates suppress becomes event"
    assert decode_outlook(encode_outlook(outlook)) == outlook
    (ordered,) = plan_change(MARKET, (SetDelivery("floor", ordered=True),)).redelivered
    assert (ordered.node, ordered.before, ordered.after) == ("floor", ("suppress",), ("suppress, ordered",))
    (root,) = plan_change(MARKET, (SetDelivery("", duplicates=Duplicates.PER_PATH),)).redelivered
    assert str(root) == "the members of the root scope: duplicates suppress becomes per_path"
    same = plan_change(MARKET, (SetDelivery("market", duplicates=Duplicates.SUPPRESS, ordered=False),))
    assert same.is_quiet, "that is how it was, said in another way"


def test_a_client_that_comes_under_another_rule_for_copies_is_told() -> None:
    outlook = plan_change(MARKET, (CreateScope("calm", OPEN, duplicates=Duplicates.EVENT), Join("@public", "calm")))
    (entry,) = outlook.redelivered
    assert str(entry) == "'@public': duplicates suppress becomes event or suppress"
    assert plan_change(MARKET, (CreateScope("plain", OPEN), Join("@public", "plain"))).redelivered == ()


def test_warnings_of_what_the_change_makes_are_told() -> None:
    (warning,) = plan_change(MARKET, (Impose("floor", Interface.parse(output="n > 3 AND n < 1")),)).warnings
    assert warning.startswith("nothing can pass from '@trader' to 'floor'")


def test_what_would_be_refused_is_refused_with_the_same_words() -> None:
    with pytest.raises(ScopeError, match="'market' cannot join 'floor', which is inside it already"):
        plan_change(MARKET, (Join("market", "floor"),))
    with pytest.raises(ScopeError, match="in the same change in which 'floor' leaves it"):
        plan_change(MARKET, (Leave("floor", "market"), Join("market", "floor")))
    with pytest.raises(ScopeError, match="uses myloc"):
        plan_change(MARKET, (SetInterface("floor", Interface.parse(input="at WITHIN myloc")),))


def test_a_function_that_is_not_registered_here_is_a_reason_for_perhaps() -> None:
    unknown = EdgeMapping(Mapping((Named("nobody registered this"),)), Mapping.BLOCK)
    outlook = plan_change(MARKET, (SetMapping("floor", "market", unknown),))
    assert not outlook.sights
    assert [str(one) for one in outlook.perhaps] == [
        "perhaps gained or lost or changed: 'floor' in 'market', because a mapping uses the function "
        "'nobody registered this', which is not registered here"
    ]
    assert not outlook.is_complete


def test_filters_that_are_too_large_are_a_reason_for_perhaps() -> None:
    wide, other = (" OR ".join(f"{letter}{number} = 1" for number in range(40)) for letter in "ab")
    graph = apply(
        Graph(),
        (CreateScope("R", OPEN), CreateScope("S", Interface.parse(output=wide)), Join("S", "R")),
    )
    outlook = plan_change(graph, (Impose("R", Interface.parse(output=other)),))
    assert {one.reason for one in outlook.perhaps} == {"the filters on the way, taken together, are too large"}


def test_where_the_effort_ends_the_sources_that_are_left_are_named() -> None:
    names = [f"n{number}" for number in range(100)]
    graph = apply(Graph(), (CreateScope("top", OPEN), *(CreateScope(name, OPEN) for name in names)))
    graph = apply(graph, tuple(Join(name, "top") for name in names))
    outlook = plan_change(graph, (Join("@a", "top"),), effort=100)
    assert outlook.unexamined
    assert not outlook.is_complete


def test_a_plan_that_is_too_large_says_first_what_crosses_the_edges_that_change() -> None:
    names = [f"n{number}" for number in range(40)]
    made = [CreateScope("top", OPEN)]
    made += [CreateScope(name, Interface.parse(output=f"a = {at}")) for at, name in enumerate(names)]
    changes = (*made, *(Join(name, "top") for name in names))
    outlook = plan_change(Graph(), changes, effort=8_000)
    assert {(one.source, one.target) for one in outlook.sights} >= {(name, "top") for name in names}
    assert {*names} & {*outlook.unexamined}
    assert not outlook.is_complete
    thorough = plan_change(Graph(), changes, effort=THOROUGH_EFFORT)
    assert not thorough.unexamined
    assert {*outlook.sights} < {*thorough.sights}


def test_a_file_of_a_dozen_scopes_that_all_differ_is_followed_everywhere() -> None:
    filters = [(f"a > {at}", f"b IN ({at}, 99) OR c < {at}") for at in range(20)]
    made = [CreateScope("top", OPEN)]
    made += [CreateScope(f"n{at}", Interface.parse(input=a, output=b)) for at, (a, b) in enumerate(filters)]
    joins = [Join(f"n{at}", f"n{(at - 1) // 4}" if at else "top") for at in range(20)]
    clients = [Join(f"@c{at}", f"n{at}") for at in range(20)]
    assert not plan_change(Graph(), (*made, *joins, *clients)).unexamined


def test_a_plan_goes_in_steps_and_comes_to_the_same() -> None:
    changes = (SetInterface("floor", OPEN), Join("@x", "market"))
    planning, steps = Planning(MARKET, changes, by_client=True), 0
    while planning.step():
        steps += 1
    assert steps > 5
    assert planning.result() == plan_change(MARKET, changes, by_client=True)


def test_a_plan_is_kept_as_json_and_read_again() -> None:
    changes = (SetInterface("floor", OPEN), Join("@x", "market"), SetAttributes("floor", {"x": 1.5}))
    outlook = plan_change(MARKET, changes, by_client=True, parents={"a": None}, places={"@x": "a"})
    assert decode_outlook(encode_outlook(outlook)) == outlook
    with pytest.raises(ScopeError, match=r"not a plan of a change: .*; make one with `tidings scope plan --out`"):
        decode_outlook(b'{"version": "x"}')


# --- forms, and covering together -----------------------------------------------------------------------


def strand(*steps: object, last: str = "TRUE", first: str = "TRUE") -> Strand:
    return Strand((Crossing(Filter.parse(first), mapping(*steps)),), Filter.parse(last))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (strand(Convert("a", -1, 5), Convert("a", -1, 5)), Strand((), Filter.parse("TRUE"))),
        (strand(Add("a", 3), Convert("a", 2)), strand(Add("a", 6))),
        (strand(Convert("a", 2), Add("a", 1)), strand(Add("a", 1))),
        (strand(Rename("a", "b"), Rename("b", "c")), strand(Drop(("b",)), Rename("a", "c"))),
        (strand(Keep(("a", "b")), Drop(("b",))), strand(Keep(("a",)))),
        (strand(Convert("a", 2, 1)), strand(Convert("a", 2), Convert("a", 1, 1))),
    ],
)
def test_forms_are_equal_where_mappings_mean_the_same(one: Strand, other: Strand) -> None:
    assert reduced(one).form == reduced(other).form


def test_forms_differ_where_mappings_do() -> None:
    some = [Add("a", 1), Add("a", True), Add("b", 1), Drop(("a",)), Keep(("a",)), Rename("a", "b"), Convert("a", 2)]
    assert len({reduced(strand(step)).form for step in some}) == len(some)


def test_conditions_are_taken_back_to_what_is_published() -> None:
    found = reduced(strand(Rename("a", "b"), Convert("b", 2, 1), last="b > 5 AND c IS NULL OR b = 3"))
    assert found.filter == Filter.parse("(a > 2 AND c IS NULL) OR a = 1").canonical()
    assert found.needs == {"a"}
    assert found.exact
    assert reduced(strand(Add("a", 1), last="a > 5")).nothing
    assert not reduced(strand(Convert("a", 2, to="b"), last="b > 5")).exact


@pytest.mark.parametrize(
    ("filters", "filter", "covered"),
    [
        (["a IN (1, 2)", "a IN (2, 3)"], "a IN (1, 3)", True),
        (["a IN (0, 1) AND a IN (1, 2)", "a = 3"], "a IN (1, 3)", True),
        (["a >= 1 AND a <> 2", "a = 2"], "a >= 1", True),
        (["a > 3", "a <= 3"], "a IS NOT NULL", False),
        (["a > 3", "a < 3"], "a BETWEEN 0 AND 6", False),
        (["a IN (1, 2)"], "a IN (1, 3)", False),
        ([], "a = 1", False),
        ([], "FALSE", True),
    ],
)
def test_filters_cover_together(filters: list[str], filter: str, covered: bool) -> None:
    assert cover_together(map(Filter.parse, filters), Filter.parse(filter)) is covered


def test_entries_name_a_few_of_many_clients() -> None:
    many = tuple(f"@c{number}" for number in range(9))
    entry = SightChange("@c0", "S", Outcome.LOST, "TRUE", "FALSE", sources=many)
    assert str(entry).startswith("'@c0', '@c1', '@c2', '@c3', '@c4' and 4 more is no longer seen in 'S'")
    assert "the root scope" in str(Doubt("", "S", (Outcome.LOST,), "why", "", ""))
