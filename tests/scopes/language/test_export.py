"""A graph as a file, a file as a graph: export, applying twice, pruning, and nothing by halves."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scopes.language.script_world import carried_out, compiled, connected, members, refusal, supers
from scopes.mapping_world import mappings
from scopes.test_changes import random_change

from tidings.model import ScopeError
from tidings.scopes import (
    Component,
    CreateScope,
    Define,
    EdgeMapping,
    Graph,
    Interface,
    Join,
    Placement,
    SetAttributes,
    SetMapping,
    SetOrigin,
    SetPlacement,
    Transaction,
    apply,
    credential,
    digest,
    inverse,
)
from tidings.scopes.language import (
    ScriptError,
    Source,
    World,
    compile_script,
    difference,
    export,
    export_files,
    parse,
    print_script,
)

R = "INTEGRATED_ROUTING"


def random_graph(seed: int, steps: int = 60) -> Graph:
    """A graph that random changes have made, labels and definitions among them."""
    dice = random.Random(seed)
    graph = Graph()
    for _ in range(steps):
        try:
            graph = apply(graph, (random_change(dice, graph),))
        except ScopeError:
            continue
    scopes = sorted(graph.scopes)
    for scope in scopes:
        others = sorted({*graph.members(scope), *graph.superscopes(scope)})
        if scope and others and dice.random() < 0.5:
            labels = {"m": tuple(dice.sample(others, dice.randrange(1, len(others) + 1)))}
            graph = apply(graph, (SetOrigin(scope, dice.choice(["", "d"]), labels),))
    return graph


@pytest.mark.parametrize("seed", range(150))
def test_what_is_exported_gives_the_same_graph(seed: int) -> None:
    graph = random_graph(seed)
    text = export(graph)
    again = apply(Graph(), compiled(text).changes)
    assert digest(again) == digest(graph), text
    assert export(again) == text
    assert compiled(text, graph).changes == (), "and changes nothing where it is"
    assert print_script(parse(text)) == text
    other = random_graph(seed + 1_000)
    if any(one.abstract != other.scopes[id].abstract for id, one in graph.scopes.items() if id in other.scopes):
        with pytest.raises(ScriptError, match="cannot become"):
            compiled(text, other, prune=True)
        return
    pruned = apply(other, compiled(text, other, prune=True).changes)
    assert set(pruned.scopes) == set(graph.scopes)
    assert {(e.member, e.scope) for e in pruned.memberships()} == {(e.member, e.scope) for e in graph.memberships()}
    assert pruned.definitions == graph.definitions


@settings(max_examples=60)
@given(mappings(), mappings())
def test_every_mapping_is_exported(outward: object, inward: object) -> None:
    graph = apply(Graph(), (CreateScope("a"), CreateScope("b"), Join("a", "b")))
    graph = apply(graph, (SetMapping("a", "b", EdgeMapping(outward, inward)),))  # type: ignore[arg-type]
    again = carried_out(export(graph))
    assert again.membership("a", "b").mapping == graph.membership("a", "b").mapping


@given(
    st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=8).filter(
        lambda name: not name.startswith("@") and "" not in name.split("/")
    )
)
def test_any_name_of_a_scope_a_client_an_attribute_and_a_role_is_exported(name: str) -> None:
    graph = apply(
        Graph(),
        (
            CreateScope(name, Interface.parse(output="type = 'x'"), attributes={name: 1, "y": name}, roles=(name,)),
            Join(f"@{name}", name),
            SetAttributes(f"@{name}", {name: True}),
        ),
    )
    assert digest(carried_out(export(graph))) == digest(graph), export(graph)


def test_gateways_and_definitions_are_exported() -> None:
    changes = (
        Define("d", "DEFINE SCOPE d AS\n    ALL FROM @x;"),
        CreateScope("a"),
        CreateScope("b"),
        Join("a", "b"),
        SetPlacement("a", "b", Placement.GATEWAY, "b1"),
    )
    graph = apply(Graph(), changes)
    assert digest(carried_out(export(graph))) == digest(graph)


@pytest.mark.parametrize("seed", range(30))
def test_the_difference_of_two_graphs_makes_one_of_the_other(seed: int) -> None:
    before, after = random_graph(seed), random_graph(seed + 500)
    if any(one.abstract != before.scopes[id].abstract for id, one in after.scopes.items() if id in before.scopes):
        with pytest.raises(ScopeError, match="cannot become"):
            difference(before, after)
        return
    found = apply(before, difference(before, after))
    known = before.nodes() | after.nodes()
    assert {node: set(found.superscopes(node)) for node in known} == {
        node: set(after.superscopes(node)) for node in known
    }
    assert found.scopes.keys() == after.scopes.keys()
    assert difference(found, after) == ()


FILE = f"""
DEFINE SCOPE temp AS a: ALL FROM * WHERE sensor = 1 INTERFACES OUTPUT(Alarm);
DEPLOY AS S FROM @s1, @s2 INTERFACES INPUT(1) {R};
DEPLOY temp AS S/temp SUPERSCOPE FROM S {R};
ALTER SCOPE "S/temp" ADD INTERFACES INPUT(Reset) SET city = "Berlin";
ALTER SCOPE S ADD INTERFACES OUTPUT(alarm);
"""


def test_a_file_that_is_applied_twice_changes_nothing_the_second_time() -> None:
    here = connected(s1={"sensor": 1}, s2={})
    graph = carried_out(FILE, clients=here)
    assert compiled(FILE, graph, here).changes == ()
    more = connected(s1={"sensor": 1}, s2={"sensor": 1})
    assert [type(change).__name__ for change in compiled(FILE, graph, more).changes] == ["Join", "SetOrigin"]


def test_what_is_in_no_file_is_left_alone_unless_it_is_pruned() -> None:
    here = connected(s1={"sensor": 1}, s2={})
    graph = carried_out(FILE, clients=here)
    more = f"DEPLOY AS other FROM @z {R}; DEFINE SCOPE old AS; ALTER SCOPE S ADD FROM @z SET floor = 3 ROLES hall;"
    grown = carried_out(f"{more} ALTER SCOPE @z SET k = 1", graph)
    assert compiled(FILE, grown, here).changes == ()
    pruned = apply(grown, compiled(FILE, grown, here, prune=True).changes)
    assert set(pruned.scopes) == {"", "S", "S/temp"}
    assert set(pruned.definitions) == {"temp"}
    assert (members(pruned, "S"), pruned.attributes("S"), pruned.roles("S")) == ({"@s1", "@s2", "S/temp"}, {}, ())
    assert supers(pruned, "@z") == set()
    assert not pruned.clients


def test_a_file_that_knows_nothing_of_who_may_join_a_scope_does_not_open_it() -> None:
    text = f"DEPLOY AS a FROM @x {R}"
    guarded = carried_out(
        f"{text[: -len(R)]} SET admission = ['{credential('x')}'], administrators = 'ann', trusted = 'b1' {R}"
    )
    assert compiled(text, guarded).changes == ()
    opened = apply(guarded, compiled(text, guarded, prune=True).changes).scopes["a"]
    assert (opened.admission, opened.administrators, opened.trusted) == ((), (), ()), "unless it is to be all there is"


def test_types_are_exported_as_types_unless_names_mean_something_else_somewhere() -> None:
    text = f"DEPLOY AS a INTERFACES INPUT(Order), OUTPUT(Quote, Accept) MEMBERS: {{ INTERFACES OUTPUT(Quote) }} {R}"
    assert "INTERFACES INPUT(Order), OUTPUT(Quote, Accept)" in export(carried_out(text))
    channels = export(carried_out(f"{text}; DEPLOY AS b SET filter-model = 'channel' {R}"))
    assert "INPUT('type = ''Order''')" in channels


def test_what_a_script_did_can_be_undone() -> None:
    here = connected(s1={"sensor": 1}, s2={})
    before = carried_out(f"DEPLOY AS S FROM @s1 {R}; DEFINE SCOPE temp AS")
    changes = compiled(FILE, before, here).changes
    after = apply(before, changes)
    back = apply(after, inverse(before, Transaction(1, changes, "", 0, ""), after))
    assert digest(back) == digest(before)


def test_a_statement_that_cannot_be_carried_out_leaves_everything_as_it_was() -> None:
    """A mistake at every place of a file: nothing of the file happens."""
    here = connected(s1={"sensor": 1}, s2={})
    graph = carried_out(FILE, clients=here)
    statements = [one for one in f"{FILE} DEPLOY AS new FROM @q {R}".split(";") if one.strip()]
    for at in range(len(statements) + 1):
        broken = ";".join([*statements[:at], f" DEPLOY AS bad SUPERSCOPE FROM nowhere {R} ", *statements[at:]])
        with pytest.raises(ScriptError):
            compiled(broken, graph, here)


def test_an_export_names_a_scope_so_that_nothing_nearer_is_meant() -> None:
    graph = carried_out(
        f"DEPLOY AS lab {R}; DEPLOY AS building {R}; DEPLOY AS building/lab SUPERSCOPE FROM building {R};"
        'ALTER SCOPE building ADD z: FROM "lab" : { INTERFACES INPUT(0) };'
    )
    assert digest(carried_out(export(graph))) == digest(graph)


LABELLED = carried_out(f"DEPLOY AS x m: FROM @q {R}")


@pytest.mark.parametrize(
    ("text", "prune"),
    [
        ("ALTER SCOPE x FROM @y;", False),
        ("ALTER SCOPE x ADD FROM @y;", True),
        (f"DEPLOY AS x m: FROM MEMBERS(world) WHERE k = 1 {R}", False),
        (f"DEPLOY AS new m: FROM MEMBERS(world) WHERE k = 1 {R}", False),
    ],
)
def test_the_graph_that_is_foretold_is_the_one_that_comes_to_be(text: str, prune: bool) -> None:
    found = compiled(text, LABELLED, prune=prune)
    after = apply(LABELLED, found.changes)
    assert digest(found.graph) == digest(after)
    assert compiled(text, after, prune=prune).changes == ()


def test_every_label_of_a_component_is_exported() -> None:
    graph = carried_out(
        f"DEPLOY AS S {R}; DEPLOY AS T {R}; DEPLOY AS in SUPERSCOPE FROM S {R};"
        f"DEPLOY AS x SUPERSCOPE FROM S m: SUPERSCOPE FROM T n: FROM @a, @b FROM in {R};"
        "ALTER SCOPE x ADD o: FROM @b, in; ALTER SCOPE x ADD m: FROM @c; ALTER SCOPE x ADD o: SUPERSCOPE FROM T;"
        "ALTER SCOPE x ADD n: FROM in;"
    )
    labels = {"m": ("@c", "T"), "n": ("@a", "@b", "in"), "o": ("@b", "T", "in")}
    assert graph.scopes["x"].labels == labels
    assert digest(carried_out(export(graph))) == digest(graph)


def test_a_definition_is_not_altered_to_what_could_not_be_written_down() -> None:
    graph = carried_out("DEFINE SCOPE d AS m: FROM @q;")
    text = refusal("ALTER SCOPE DEFINITION d mm: { INTERFACES OUTPUT(y) };", graph)
    assert "t.scopes:1:1: there is no label 'mm'" in text
    assert "Labels of this scope: m." in text
    assert digest(carried_out(export(graph))) == digest(graph)


def test_a_large_graph_is_exported_as_several_files_that_give_it_together() -> None:
    members = ", ".join(f"@client-{number}" for number in range(2_500))
    graph = carried_out(f"DEPLOY AS a m: FROM {members} : {{ INTERFACES INPUT(0) }} {R}; DEPLOY AS b FROM a {R};")
    texts = export_files(graph, 20_000)
    assert len(texts) > 1
    assert all(len(text) <= 20_000 for text in texts)
    found = compile_script([Source(text) for text in texts], World(Graph()))
    assert digest(found.graph) == digest(graph)
    assert export_files(graph) == [export(graph)]


def test_a_file_without_statements_that_prunes_everything_is_warned_of() -> None:
    assert "there is no statement in the files" in compiled("-- later", LABELLED, prune=True).warnings[0]
    assert compiled("-- later", LABELLED).warnings == ()
    assert compiled(f"DEPLOY AS x {R}", LABELLED, prune=True).warnings == ()


UNSETTLED = f"DEPLOY AS rack FROM MEMBERS(world) WHERE probe = TRUE {R}; ALTER SCOPE @p1 SET probe = TRUE;"
SETTLED = f"ALTER SCOPE @p1 SET probe = TRUE; DEPLOY AS rack FROM MEMBERS(world) WHERE probe = TRUE {R};"


@pytest.mark.parametrize("clients", [[], connected(p1={})], ids=["away", "connected"])
def test_a_file_that_would_change_more_if_it_were_applied_again_is_warned_of(clients: list[Component]) -> None:
    def warnings(text: str, graph: Graph) -> tuple[str, ...]:
        return compile_script([Source(text)], World.of(graph, clients), twice=True).warnings

    nothing, warning = warnings(UNSETTLED, Graph())
    assert "nothing is picked for 'rack'" in nothing
    assert warning.startswith(
        "applied again, the files would make 1 more change, the first of them Join member=@p1 scope=rack: "
    )
    assert warnings(SETTLED, Graph()) == ()
    assert warnings(SETTLED, carried_out(SETTLED)) == ()
