"""Selections: names, MEMBERS, *, WHERE, labels and qualifiers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scopes.language.script_world import carried_out, compiled, connected, members, refusal, supers

from tidings.model import Filter, Location, UnresolvedDependency
from tidings.scopes import Component, Graph, Placement
from tidings.scopes.language import Asked, Extensions, ScriptError, Source, asks

R = "INTEGRATED_ROUTING"


# --- names ----------------------------------------------------------------------------------------------

CITY = f"""
DEPLOY AS market {R}; DEPLOY AS market/floor SUPERSCOPE FROM market {R};
DEPLOY AS bank {R}; DEPLOY AS bank/floor SUPERSCOPE FROM bank {R};
"""


@pytest.mark.req("VIS-902")
def test_a_name_means_what_is_nearest() -> None:
    graph = carried_out(f"{CITY} DEPLOY AS desk SUPERSCOPE FROM bank {R}; ALTER SCOPE desk ADD FROM @x")
    graph = carried_out(f"DEPLOY AS market/desk SUPERSCOPE FROM market FROM floor {R}", graph)
    assert members(graph, "market/desk") == {"market/floor"}, "a sibling, by its name alone"
    graph = carried_out(f"DEPLOY AS hall SUPERSCOPE FROM bank FROM floor {R}", graph)
    assert members(graph, "hall") == {"bank/floor"}


@pytest.mark.req("VIS-902")
def test_a_name_that_two_have_equally_near_is_refused() -> None:
    text = f"DEPLOY AS both SUPERSCOPE FROM market, bank FROM floor {R}"
    assert refusal(text, carried_out(CITY)) == (
        "t.scopes:1:49: 'floor' may be 'bank/floor' or 'market/floor'\n"
        "    DEPLOY AS both SUPERSCOPE FROM market, bank FROM floor INTEGRATED_ROUTING\n"
        "                                                     ^\n"
        "  Write the one you mean as a string."
    ).replace("1:49", "1:50")
    graph = carried_out(text.replace("FROM floor", 'FROM "bank/floor"'), carried_out(CITY))
    assert members(graph, "both") == {"bank/floor"}


@pytest.mark.req("VIS-902")
def test_a_name_that_nobody_has_is_refused_with_what_may_be_meant() -> None:
    assert refusal(f"DEPLOY AS a FROM stall {R}", carried_out(CITY)) == (
        "t.scopes:1:18: no scope or client 'stall' can be seen here\n"
        "    DEPLOY AS a FROM stall INTEGRATED_ROUTING\n"
        "                     ^\n"
        "  Write @stall for a client that is not connected yet. Known scopes: bank, bank/floor, market, market/floor."
    )
    deep = carried_out(f"DEPLOY AS a {R}; DEPLOY AS a/b SUPERSCOPE FROM a {R}; DEPLOY AS a/b/c SUPERSCOPE FROM b {R}")
    assert 'There is "a/b/c" elsewhere: write its id as a string.' in refusal(f"DEPLOY AS z FROM c {R}", deep)
    assert refusal(f'DEPLOY AS a FROM "stall" {R}').startswith("t.scopes:1:18: there is no scope of the id 'stall'")


def test_a_plain_name_may_be_a_client_and_an_at_name_is_one_even_if_it_is_not_there() -> None:
    graph = carried_out(f"DEPLOY AS a FROM alice, @bob {R}", clients=connected(alice={}))
    assert members(graph, "a") == {"@alice", "@bob"}


# --- where members come from ----------------------------------------------------------------------------


@pytest.mark.req("VIS-903")
def test_members_are_the_direct_members_and_nest_and_clients_have_none() -> None:
    graph = carried_out(
        f"DEPLOY AS city {R}; DEPLOY AS house SUPERSCOPE FROM city FROM @mayor {R};"
        f"DEPLOY AS flat SUPERSCOPE FROM house FROM @ann {R}; ALTER SCOPE city ADD FROM @mayor"
    )
    text = f"DEPLOY AS s FROM {{}} {R}"
    assert members(carried_out(text.format("MEMBERS(city)"), graph), "s") == {"house", "@mayor"}
    assert members(carried_out(text.format("MEMBERS(MEMBERS(city))"), graph), "s") == {"flat", "@mayor"}
    assert members(carried_out(text.format("MEMBERS(MEMBERS(MEMBERS(city)))"), graph), "s") == {"@ann"}
    assert members(carried_out(text.format("MEMBERS(flat), @mayor, flat"), graph), "s") == {"@ann", "@mayor", "flat"}


def test_the_members_of_the_world_are_all_components_and_those_of_the_root_scope_are_not() -> None:
    graph = carried_out(f"DEPLOY AS a FROM @in {R}")
    here = connected(new={})
    assert members(carried_out(f"DEPLOY AS s FROM MEMBERS(world) {R}", graph, here), "s") == {"a", "@in", "@new"}
    assert members(carried_out(f"DEPLOY AS s FROM MEMBERS(root) {R}", graph, here), "s") == {"@new"}
    found = compiled(f"DEPLOY AS s FROM world {R}", graph, here)
    assert members(found.graph, "s") == {"a", "@in", "@new"}
    assert found.warnings == ("t.scopes:1:18: world is no scope; it is read as MEMBERS(world)",)


@pytest.mark.req("VIS-905")
def test_a_star_is_what_can_be_seen_where_the_scope_is_deployed() -> None:
    graph = carried_out(
        f"DEPLOY AS S FROM @a, @b {R}; DEPLOY AS T FROM @c {R}; DEPLOY AS other FROM @d {R};"
        "DEFINE SCOPE t AS up: SUPERSCOPE ALL FROM * in: ALL FROM *"
    )
    both = carried_out(f"DEPLOY t AS x SUPERSCOPE FROM S, T {R}", graph)
    assert members(both, "x") == {"@a", "@b", "@c"}
    assert both.scopes["x"].labels == {"up": ("S", "T"), "in": ("@a", "@b", "@c")}
    one = carried_out(f"DEPLOY t AS x SUPERSCOPE FROM S {R}; DEPLOY t AS y SUPERSCOPE FROM S {R}", graph)
    assert members(one, "y") == {"@a", "@b", "x"}, "the siblings, without itself"


@pytest.mark.req("VIS-905")
def test_superscopes_are_scopes_and_members_may_be_both() -> None:
    graph = carried_out(f"DEPLOY AS S FROM @a {R}; DEPLOY AS T SUPERSCOPE FROM S {R}")
    assert supers(carried_out(f"DEPLOY AS x SUPERSCOPE FROM MEMBERS(S) {R}", graph), "x") == {"T"}
    assert refusal(f"DEPLOY AS x SUPERSCOPE FROM @a {R}", graph).startswith(
        "t.scopes:1:29: '@a' is a client, and only scopes have members"
    )


def test_what_is_picked_twice_is_a_member_once() -> None:
    graph = carried_out(f"DEPLOY AS S FROM @a {R}; DEPLOY AS x FROM @a, MEMBERS(S), @a FROM @a {R}")
    assert members(graph, "x") == {"@a"}


# --- conditions -----------------------------------------------------------------------------------------

PEOPLE = connected(
    ann={"age": 30, "city": "Berlin", "limit": 40, "at": Location("/berlin/mitte")},
    bob={"age": 50, "city": "Bonn", "limit": 40, "at": Location("/bonn")},
    cyd={"city": ["Berlin", "Bonn"]},
    dan={},
)


def chosen(where: str, **how: object) -> set[str]:
    graph = carried_out(f"DEPLOY AS s FROM MEMBERS(world) WHERE {where} {R}", clients=PEOPLE, **how)
    return {member.removeprefix("@") for member in members(graph, "s")}


@pytest.mark.req("VIS-906", "VIS-813")
@pytest.mark.parametrize(
    ("where", "who"),
    [
        ("age = 30", {"ann"}),
        ("age <> 30", {"bob"}),
        ("age >= 30 AND age < 50", {"ann"}),
        ("age > limit", {"bob"}),
        ("city = 'Berlin'", {"ann", "cyd"}),
        ('city LIKE "B%n"', {"ann", "bob", "cyd"}),
        ('city MATCHES "B(er|on)[a-z]*"', {"ann", "bob", "cyd"}),
        ('city MATCHES "Berl"', set()),
        ("NOT age = 30", {"bob", "cyd", "dan"}),
        ("age = 30 OR city = 'Bonn'", {"ann", "bob", "cyd"}),
        ("age = '30'", set()),
        ('within(at, "/berlin")', {"ann"}),
        ('"age" = 50', {"bob"}),
    ],
)
def test_attributes_are_compared_and_a_missing_one_makes_a_test_false(where: str, who: set[str]) -> None:
    assert chosen(where) == who


@pytest.mark.req("VIS-906", "VIS-808")
def test_roles_are_tested_and_belong_to_clients_and_scopes() -> None:
    graph = carried_out(
        f"DEPLOY AS averager ROLES average, source {R}; DEPLOY AS logger {R}; ALTER SCOPE @ann ROLES average;"
    )
    text = f"DEPLOY AS s FROM MEMBERS(world) WHERE IS ROLE({{}}) {R}"
    assert members(carried_out(text.format("average"), graph), "s") == {"averager", "@ann"}
    assert members(carried_out(text.format("source"), graph), "s") == {"averager"}
    assert members(carried_out(text.format('"no such"'), graph), "s") == set()
    changed = carried_out("ALTER SCOPE @ann DEL ROLES average; ALTER SCOPE averager ADD ROLES calm", graph)
    assert (changed.roles("@ann"), changed.roles("averager")) == ((), ("average", "source", "calm"))


@pytest.mark.req("VIS-906")
def test_interfaces_are_tested_by_what_they_cover() -> None:
    text = f"DEPLOY AS s FROM MEMBERS(world) WHERE HAS INPUT(Order) OR OUTPUT('price > 5') {R}"
    graph = carried_out(
        f"DEPLOY AS orders INTERFACES INPUT(Order, Cancel) {R}; DEPLOY AS prices INTERFACES OUTPUT('price > 1') {R};"
        f"DEPLOY AS dear INTERFACES OUTPUT('price > 9') {R};"
    )
    asked = asks([Source(text)], graph)
    assert asked == Asked((Filter.parse("type = 'Order'"),), (Filter.parse("price > 5"),), ("filter-model",))
    clients = [
        Component("@gets", "b", inputs=(True,), outputs=(False,)),
        Component("@gives", "b", inputs=(False,), outputs=(True,)),
        Component("@neither", "b", inputs=(False,), outputs=(False,)),
    ]
    found = carried_out(text, graph, clients, asked=asked)
    assert members(found, "s") == {"orders", "prices", "@gets", "@gives"}


def test_nobody_is_asked_what_is_connected_if_a_script_names_everything() -> None:
    graph = carried_out(f"DEPLOY AS a {R}")
    assert asks([Source(f"DEPLOY AS b SUPERSCOPE FROM a FROM @x {R}; ALTER SCOPE b ADD FROM @y")], graph) is None
    assert asks([Source(f"DEPLOY AS b FROM x {R}")], graph) == Asked()
    looks = "TOP(age, 2) FROM MEMBERS(world) WHERE NOT (load < limit OR within(at, '/a')) AND HAS INPUT(x)"
    known = asks([Source(f"DEPLOY AS b {looks} {R}")], graph)
    assert known is not None
    assert known.attributes == ("age", "at", "filter-model", "limit", "load")
    unknown = asks([Source(f"DEPLOY AS b FROM MEMBERS(world) WHERE strange(1) {R}")], graph)
    assert unknown == Asked(attributes=None), "an extension may look at any"
    assert asks([Source(f"DEFINE SCOPE d AS FROM *; DEPLOY d AS b {R}")], graph) == Asked()


# --- labels and qualifiers ------------------------------------------------------------------------------


@pytest.mark.req("VIS-907")
def test_a_label_stands_for_what_its_selection_picked_in_later_statements() -> None:
    definition = "DEFINE SCOPE d AS m: FROM @a, @b n: FROM @c m: { INTERFACES OUTPUT(x) };"
    text = f"{definition} DEPLOY d n: {{ INTERFACES INPUT(y) }} {R}"
    graph = carried_out(text)
    imposed = {node: graph.membership(node, "d").imposed for node in ("@a", "@b", "@c")}
    assert imposed["@a"] == imposed["@b"] != imposed["@c"]
    altered = carried_out("ALTER SCOPE INSTANCE d m: { INTERFACES OUTPUT(z) }", graph)
    assert str(altered.membership("@a", "d").imposed.output) == "type = 'z'"
    assert altered.membership("@c", "d").imposed == imposed["@c"]
    assert refusal("ALTER SCOPE INSTANCE d q: { INTERFACES OUTPUT(z) }", graph) == (
        "t.scopes:1:24: 'd' has no label 'q'\n"
        "    ALTER SCOPE INSTANCE d q: { INTERFACES OUTPUT(z) }\n"
        "                           ^\n"
        "  Known labels: m, n."
    )
    assert refusal("DEFINE SCOPE d AS m: FROM @a q: { INTERFACES OUTPUT(z) }") == (
        "t.scopes:1:30: there is no label 'q'\n"
        "    DEFINE SCOPE d AS m: FROM @a q: { INTERFACES OUTPUT(z) }\n"
        "                                 ^\n"
        "  Labels of this scope: m."
    )
    gone = carried_out("ALTER SCOPE INSTANCE d DEL FROM @a", graph)
    assert gone.scopes["d"].labels == {"m": ("@b",), "n": ("@c",)}


attributes = st.dictionaries(
    st.sampled_from("abcdefgh"), st.fixed_dictionaries({}, optional={"x": st.integers(0, 3)}), max_size=8
)


@pytest.mark.req("VIS-908")
@given(attributes, st.integers(1, 9), st.booleans())
def test_top_takes_the_first_by_value_and_ties_by_name(given: dict[str, dict[str, int]], most: int, up: bool) -> None:
    text = f"DEPLOY AS s TOP(x, {most}{' ASC' if up else ''}) FROM MEMBERS(world) {R}"
    graph = carried_out(text, clients=connected(**given))
    ranked = sorted(
        (one for one in given if "x" in given[one]), key=lambda one: (given[one]["x"] * (1 if up else -1), one)
    )
    assert members(graph, "s") == {f"@{one}" for one in ranked[:most]}


@pytest.mark.req("VIS-908")
@given(st.integers(0, 6), st.none() | st.integers(0, 4), st.none() | st.integers(0, 4))
def test_a_cardinality_takes_the_first_by_name_and_fails_below_its_minimum(
    there: int, least: int | None, more: int | None
) -> None:
    most = None if more is None else (least or 0) + more
    bounds = "..".join("" if bound is None else str(bound) for bound in (least, most))
    text = f"DEPLOY AS s [{bounds}] FROM MEMBERS(world) {R}"
    clients = connected(**{f"c{number}": {} for number in range(there)})
    if there < (least or 0):
        with pytest.raises(ScriptError) as caught:
            compiled(text, clients=clients)
        assert caught.value.mistakes[0].kind is UnresolvedDependency
        return
    taken = there if most is None else min(there, most)
    assert members(carried_out(text, clients=clients), "s") == {f"@c{number}" for number in range(taken)}


# --- extensions -----------------------------------------------------------------------------------------


@pytest.mark.req("VIS-923")
def test_an_extension_adds_tests_qualifiers_interfaces_events_policies_and_architectures() -> None:
    from tidings.scopes.language import Carrying

    extensions = Extensions(
        tests={"older": lambda one, given: one.attributes.get("age", 0) > given[0].value},  # type: ignore[operator]
        qualifiers={"last": lambda some, given: some[-int(given[0].value) :]},  # type: ignore[arg-type]
        interfaces={"below": lambda given: Filter.parse(f"price < {given[0].value}")},
        events=frozenset({"timer"}),
        policies={"one.of": lambda clause: {"policy": clause.code, "kind": clause.kind.value}},
        architectures={"mine": lambda given: Carrying(Placement.GATEWAY, str(given[0].value))},
    )
    text = (
        f"DEPLOY AS top {R}; DEPLOY AS s SUPERSCOPE FROM top last(1) FROM MEMBERS(world) WHERE older(20) "
        "INTERFACES INPUT(below(5)) "
        "POLICY DELIVERY one.of mine('b7'); DEFINE SCOPE d AS UPDATE ON timer('1h') DO CREATE NOW"
    )
    graph = carried_out(text, clients=PEOPLE, extensions=extensions)
    assert members(graph, "s") == {"@bob"}
    assert str(graph.scopes["s"].interface.input) == "price < 5"
    assert graph.attributes("s") == {"policy": "one.of", "kind": "DELIVERY"}
    assert graph.membership("s", "top").gateway == "b7"
    assert "UPDATE ON timer(" in graph.definitions["d"]
    problems = [
        ("DEPLOY AS s FROM MEMBERS(world) WHERE older(20) " + R, "no test 'older' is known"),
        ("DEPLOY AS s last(1) FROM MEMBERS(world) " + R, "no qualifier 'last' is known"),
        ("DEPLOY AS s INTERFACES INPUT(below(5)) " + R, "no kind of interface 'below' is known"),
        ("DEFINE SCOPE d AS UPDATE ON timer('1h') DO CREATE NOW", "no event 'timer' is known"),
        ("DEPLOY AS s POLICY DELIVERY one.of " + R, "no policy 'one.of' is registered here"),
        ("DEPLOY AS s mine", "no architecture mine carries scopes in this network"),
    ]
    for bad, problem in problems:
        assert problem in refusal(bad, clients=PEOPLE)


# --- coupling points ------------------------------------------------------------------------------------


@pytest.mark.req("VIS-809")
def test_matching_is_mutual() -> None:
    graph = carried_out(
        f"DEFINE SCOPE shy AS SUPERSCOPE ALL FROM * WHERE IS ROLE(home); DEPLOY shy ROLES guest {R};"
        f"DEPLOY AS plain ROLES guest {R};"
    )
    inn = f"FROM MEMBERS(world) WHERE IS ROLE(guest) {{}} {R}"
    cold = compiled(f"DEPLOY AS inn {inn.format('')}", graph)
    assert members(cold.graph, "inn") == {"plain"}, "it demands a home, and this is none"
    assert [str(point) for point in cold.open] == [
        "'shy' still looks for a superscope: SUPERSCOPE ALL FROM * WHERE IS ROLE(home)"
    ]
    warm = compiled(f"DEPLOY AS inn {inn.format('ROLES home')}", graph)
    assert members(warm.graph, "inn") == {"plain", "shy"}
    assert warm.open == ()


def test_what_is_not_there_is_not_asked_twice() -> None:
    assert compiled("", Graph()).changes == ()


LABS = f"DEPLOY AS lab {R}; DEPLOY AS building {R}; DEPLOY AS building/lab SUPERSCOPE FROM building {R};"


def test_a_plain_name_means_the_nearest_of_that_name() -> None:
    graph = carried_out(LABS + "ALTER SCOPE building ADD z: FROM lab; ALTER SCOPE lab ADD FROM @x;")
    assert graph.scopes["building"].labels == {"z": ("building/lab",)}
    assert members(graph, "building") == {"building/lab"}
    assert members(graph, "lab") == {"@x"}, "from outside it is the id"
    assert members(carried_out('ALTER SCOPE building ADD FROM "lab"', graph), "building") == {"lab", "building/lab"}


def test_a_client_cannot_take_the_name_of_a_scope_by_connecting() -> None:
    graph = carried_out(f"{LABS} ALTER SCOPE lab SUPERSCOPE FROM building;")
    after = carried_out("ALTER SCOPE lab SET floor = 1", graph, connected(lab={}))
    assert after.scopes["lab"].attributes == {"floor": 1}
