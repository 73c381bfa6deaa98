"""DEFINE, DEPLOY and ALTER: what they make of a graph."""

from __future__ import annotations

import pytest
from scopes.language.script_world import carried_out, compiled, connected, members, passes, refusal, supers

from tidings.model import EVERYTHING, NOTHING, AlreadyDefined, AmbiguousName, IncompleteMapping
from tidings.scopes import Graph, Interface, Placement, apply, digest, visible
from tidings.scopes.language import Extensions, ScriptError, combined, composed, definition_of
from tidings.scopes.steps import Add, Convert, Copy, register_mapping

R = "INTEGRATED_ROUTING"


# --- DEFINE ---------------------------------------------------------------------------------------------


@pytest.mark.req("VIS-904")
def test_a_definition_changes_nothing_that_runs() -> None:
    before = carried_out(f"DEPLOY AS a FROM @x INTERFACES OUTPUT(1) {R}")
    after = carried_out(
        "DEFINE SCOPE d AS SUPERSCOPE FROM a FROM nobody, @x WHERE IS ROLE(r) INTERFACES INPUT(1)", before
    )
    assert after.scopes == before.scopes
    assert list(after.memberships()) == list(before.memberships())
    assert definition_of(after.definitions["d"]).name == "d"


def test_a_definition_that_is_there_is_refused_to_a_command_and_replaced_by_a_file() -> None:
    graph = carried_out("DEFINE SCOPE d AS FROM @x")
    with pytest.raises(ScriptError) as caught:
        compiled("DEFINE SCOPE d AS FROM @y", graph, command=True)
    assert caught.value.mistakes[0].kind is AlreadyDefined
    assert "@y" in carried_out("DEFINE SCOPE d AS FROM @y", graph).definitions["d"]
    assert compiled("DEFINE SCOPE d AS -- why\n FROM @x", graph).changes == ()


# --- DEPLOY ---------------------------------------------------------------------------------------------


@pytest.mark.req("VIS-920")
def test_a_deployment_adds_selections_and_overrides_features_by_direction_and_name() -> None:
    graph = carried_out(
        "DEFINE SCOPE d AS m: FROM @a FROM @b INTERFACES INPUT(x), OUTPUT(y) ROLES r SET city = 'Bonn', floor = 1;"
        f"DEPLOY AS S {R};"
        f"DEPLOY d AS one m: FROM @c FROM @d SUPERSCOPE FROM S INTERFACES OUTPUT(z) SET city = 'Ulm' {R};"
        f"DEPLOY d AS two {R}"
    )
    one, two = graph.scopes["one"], graph.scopes["two"]
    assert members(graph, "one") == {"@b", "@c", "@d"}
    assert members(graph, "two") == {"@a", "@b"}
    assert (str(one.interface.input), str(one.interface.output)) == ("type = 'x'", "type = 'z'")
    assert str(two.interface.output) == "type = 'y'"
    assert (one.attributes, one.roles, one.definition) == ({"city": "Ulm", "floor": 1}, ("r",), "d")
    assert supers(graph, "one") == {"S"}


def test_without_a_name_a_scope_has_that_of_its_definition_and_a_number() -> None:
    text = f"DEFINE SCOPE d AS; DEPLOY d {R}; DEPLOY d {R};"
    graph = carried_out(text)
    assert set(graph.scopes) == {"", "d", "d-2"}
    assert compiled(text, graph).changes == (), "a file says how many there are"
    assert set(carried_out(f"DEPLOY d {R}", graph, command=True).scopes) == {"", "d", "d-2", "d-3"}
    assert "a scope 'd' exists already" in refusal(f"DEPLOY d AS d {R}", graph, command=True)


@pytest.mark.req("VIS-909")
def test_interfaces_are_base_selective_or_imposed_by_where_they_stand() -> None:
    graph = carried_out(
        f"DEPLOY AS S {R}; DEPLOY AS T {R};"
        "DEPLOY AS x SUPERSCOPE FROM S : { INTERFACES OUTPUT(a) } SUPERSCOPE FROM T FROM @m : { INTERFACES INPUT(b) } "
        f"FROM @n INTERFACES OUTPUT(c) MEMBERS: {{ INTERFACES OUTPUT(d) }} {R}"
    )
    scope = graph.scopes["x"]
    assert (scope.interface.input, str(scope.interface.output)) == (NOTHING, "type = 'c'")
    assert (scope.imposed.input, str(scope.imposed.output)) == (EVERYTHING, "type = 'd'")
    selective = graph.membership("x", "S").selective
    assert (selective.input, str(selective.output)) == (EVERYTHING, "type = 'a'")
    assert graph.membership("x", "T").selective.is_open
    assert str(graph.membership("@m", "x").imposed.input) == "type = 'b'"
    assert graph.membership("@n", "x").imposed.is_open


@pytest.mark.req("VIS-909")
@pytest.mark.parametrize(
    ("said", "base", "edge"),
    [
        ("", ("FALSE", "FALSE"), ("TRUE", "TRUE")),
        ("INTERFACES INPUT(a)", ("type = 'a'", "FALSE"), ("type = 'a'", "TRUE")),
        ("INTERFACES OUTPUT(a)", ("FALSE", "type = 'a'"), ("TRUE", "type = 'a'")),
        ("INTERFACES INPUT(0)", ("FALSE", "FALSE"), ("FALSE", "TRUE")),
        ("INTERFACES INPUT(1), OUTPUT(0)", ("TRUE", "FALSE"), ("TRUE", "FALSE")),
        ("INTERFACES INPUT(a), OUTPUT(1)", ("type = 'a'", "TRUE"), ("type = 'a'", "TRUE")),
    ],
)
def test_a_side_of_which_nothing_is_said_is_closed_at_a_scope_and_open_on_an_edge(
    said: str, base: tuple[str, str], edge: tuple[str, str]
) -> None:
    """In every position, and in a definition as in a deployment."""

    def sides(interface: Interface) -> tuple[str, str]:
        return str(interface.input), str(interface.output)

    graph = carried_out(
        f"DEPLOY AS S {R}; DEFINE SCOPE d AS {said}; DEPLOY d AS y {R};"
        f"DEPLOY AS x SUPERSCOPE FROM S : {{ {said} }} FROM @m : {{ {said} }} {said} MEMBERS: {{ {said} }} {R}"
    )
    assert sides(graph.scopes["x"].interface) == sides(graph.scopes["y"].interface) == base
    assert sides(graph.scopes["x"].imposed) == edge
    assert sides(graph.membership("x", "S").selective) == edge
    assert sides(graph.membership("@m", "x").imposed) == edge
    assert graph.membership("x", "S").imposed.is_open
    assert graph.membership("@m", "x").selective.is_open


@pytest.mark.req("VIS-909")
@pytest.mark.parametrize(
    ("body", "passing", "blocked"),
    [
        ("1", {}, None),
        ("0", None, {}),
        ("", None, {}),
        ("Quote, Order", {"type": "Order"}, {"type": "Other"}),
        ("/exchange/*/tech", {"subject": {"1": "exchange", "2": "x", "3": "tech"}}, {"subject": {"1": "exchange"}}),
        ("/exchange/**", {"subject": {"1": "exchange", "2": "x"}}, {"subject": {"1": "other"}}),
        ('price > 5 AND symbol = "SAP", size = 1', {"size": 1}, {"price": 6}),
        ('NOT (price > 5 OR symbol LIKE "S%")', {"price": 4, "symbol": "X"}, {"price": 4, "symbol": "SAP"}),
        ("'price BETWEEN 1 AND 3 OR symbol IN (''A'', ''B'')'", {"symbol": "B"}, {"price": 4}),
    ],
)
def test_every_filter_model_is_an_interface(body: str, passing: object, blocked: object) -> None:
    output = carried_out(f"DEPLOY AS x INTERFACES OUTPUT({body}) {R}").scopes["x"].interface.output
    assert passing is None or passes(output, **passing)  # type: ignore[arg-type]
    assert blocked is None or not passes(output, **blocked)  # type: ignore[arg-type]


@pytest.mark.req("VIS-909")
def test_names_are_types_or_channels_as_the_scope_says() -> None:
    graph = carried_out(f"DEPLOY AS x INTERFACES OUTPUT(a, b) SET filter-model = 'channel' {R}")
    assert str(graph.scopes["x"].interface.output) == "channel = 'a' OR channel = 'b'"


@pytest.mark.req("VIS-910")
def test_roles_and_attributes_are_constants_and_bound_ones_wait_for_a_rule() -> None:
    graph = carried_out(f'DEPLOY AS x ROLES a, "b c" SET n = 1, f = -2.5, t = "it\'s", yes = TRUE, l = [1, \'x\'] {R}')
    assert graph.scopes["x"].roles == ("a", "b c")
    assert graph.scopes["x"].attributes == {"n": 1, "f": -2.5, "t": "it's", "yes": True, "l": (1, "x")}
    rule = "UPDATE ON pub(n: OUTPUT(Moved)) DO ALTER SCOPE self SET place = n.place, owner = trigger.name"
    kept = carried_out(f"DEFINE SCOPE d AS {rule}").definitions["d"]
    assert "SET place = n.place, owner = trigger.name" in kept
    assert "is an attribute of something that a rule binds, and this is no rule" in refusal(
        f"DEPLOY AS x SET place = n.place {R}"
    )


def test_settings_of_the_system_are_fields_of_the_scope_and_quoted_ones_are_not() -> None:
    graph = carried_out(
        "DEPLOY AS x SET abstract = TRUE, hidden = 1, ordered = TRUE, duplicates = 'event', administrators = 'ann', "
        f"trusted = ['b1', 'b2'], brokers = ['b1'], \"hidden\" = 'a lake' {R}"
    )
    scope = graph.scopes["x"]
    assert (scope.abstract, scope.hidden, scope.ordered, scope.duplicates.name) == (True, True, True, "EVENT")
    assert (scope.administrators, scope.trusted, scope.brokers) == (("ann",), ("b1", "b2"), {"b1"})
    assert scope.attributes == {"hidden": "a lake"}


@pytest.mark.req("VIS-911")
def test_mappings_are_steps_or_assignments_in_either_direction() -> None:
    graph = carried_out(
        f"DEPLOY AS S {R}; DEPLOY AS x SUPERSCOPE FROM S "
        f"MAP OUTWARD {{ Convert('usd', 0.5, to = 'eur'), n.market = 'F' }} {R};"
        f"DEPLOY AS y SUPERSCOPE FROM S : {{ MAP INWARD {{ n.b = n.a }} }} {R}"
    )
    mapping = graph.membership("x", "S").mapping
    assert mapping is not None
    assert mapping.outward.steps == (Convert("usd", 0.5, to="eur"), Add("market", "F"))
    assert mapping.inward == mapping.outward.inverse()
    other = graph.membership("y", "S").mapping
    assert other is not None
    assert other.inward.steps == (Copy("a", "b"),)


register_mapping("to metric", lambda notification: notification, inverse="from metric")
register_mapping("from metric", lambda notification: notification, inverse="to metric")


@pytest.mark.req("VIS-911")
def test_a_mapping_may_be_code_and_one_direction_alone_needs_an_inverse_or_a_closed_border() -> None:
    text = f"DEPLOY AS S {R}; DEPLOY AS x SUPERSCOPE FROM S MAP OUTWARD {{}} INTERFACES OUTPUT(1) {{}} {R}"
    code = carried_out(text.format('"to metric"', "")).membership("x", "S").mapping
    assert code is not None
    assert [step.function for way in (code.outward, code.inward) for step in way.steps] == ["to metric", "from metric"]  # type: ignore[union-attr]
    drop = "{ Drop(['secret']) }"
    with pytest.raises(ScriptError) as caught:
        compiled(text.format(drop, ", INPUT(1)"))
    assert caught.value.mistakes[0].kind is IncompleteMapping
    problem, *_, remedy = str(caught.value).split("\n")
    assert problem == (
        't.scopes:1:63: Drop(names = ["secret"]) cannot be inverted, so the INWARD mapping cannot be derived'
    )
    assert remedy == "  Write a MAP INWARD, or block that direction with INPUT(0)."
    closed = carried_out(text.format(drop, ", INPUT(0)")).membership("x", "S").mapping
    assert closed is not None
    assert closed.inward.is_blocked
    assert "no function 'nobody.knows' is registered here" in refusal(text.format("nobody.knows", ""))
    assert "there is no step 'Melt'" in refusal(text.format("{ Melt(1) }", ""))


@pytest.mark.req("VIS-912")
def test_a_policy_names_external_code_or_a_url_and_its_parameters() -> None:
    graph = carried_out(
        'DEFINE SCOPE d AS POLICY DELIVERY "https://example.org/policies/one_of_n" (n = 2, by = "load") '
        "POLICY INTERNAL DELIVERY lib.round_robin POLICY PUBLISH p POLICY TRAVERSE t"
    )
    kept = definition_of(graph.definitions["d"]).features
    assert [(one.kind.value, one.code, len(one.parameters)) for one in kept] == [  # type: ignore[union-attr]
        ("DELIVERY", "https://example.org/policies/one_of_n", 2),
        ("INTERNAL DELIVERY", "lib.round_robin", 0),
        ("PUBLISH", "p", 0),
        ("TRAVERSE", "t", 0),
    ]
    assert "no policy 'https://example.org/policies/one_of_n' is registered here" in refusal(f"DEPLOY d {R}", graph)


@pytest.mark.req("VIS-913")
def test_code_is_accepted_and_refused_at_deployment_unless_an_extension_runs_it() -> None:
    graph = carried_out("DEFINE SCOPE d AS DO distribute.code")
    assert "DO distribute.code" in graph.definitions["d"]
    assert "DO is reserved, and nothing carries it out" in refusal(f"DEPLOY d {R}", graph)
    extended = Extensions(code={"distribute.code": lambda clause: {"runs": clause.code}})
    assert carried_out(f"DEPLOY d {R}", graph, extensions=extended).attributes("d") == {"runs": "distribute.code"}


@pytest.mark.req("ARC-173")
def test_the_architecture_says_where_notifications_cross_and_an_edge_may_say_otherwise() -> None:
    graph = carried_out(
        f"DEPLOY AS S {R}; DEPLOY AS T {R};"
        "DEPLOY AS x SUPERSCOPE FROM S SUPERSCOPE FROM T : { SET placement = 'everywhere' } "
        "INTEGRATED_ROUTING(gateway = 'b1');"
        f"DEFINE SCOPE d AS SET gateway = 'b2'; DEPLOY d AS y SUPERSCOPE FROM S {R}; DEPLOY AS z SUPERSCOPE FROM S {R}"
    )
    places = {(edge.member, edge.scope): (edge.placement, edge.gateway) for edge in graph.memberships()}
    assert places["x", "S"] == (Placement.GATEWAY, "b1")
    assert places["x", "T"] == (Placement.EVERYWHERE, "")
    assert places["z", "S"] == (Placement.ONCE, "")
    assert places["y", "S"] == (Placement.GATEWAY, "b2"), "an annotation of the definition guides its deployment"


# --- ALTER ----------------------------------------------------------------------------------------------

BASE = carried_out(
    f"DEPLOY AS S {R}; DEPLOY AS T {R}; DEPLOY AS x SUPERSCOPE FROM S m: FROM @a, @b FROM @c INTERFACES OUTPUT(p, q) "
    f"ROLES r, s SET city = 'Ulm', floor = 1 MAP OUTWARD {{ Rename('u', 'v') }} {R};"
    "DEFINE SCOPE d AS SUPERSCOPE FROM S m: FROM @a, @b FROM @c INTERFACES OUTPUT(p), OUTPUT(q) ROLES r, s "
    "SET city = 'Ulm', floor = 1"
)


@pytest.mark.req("VIS-921")
def test_adding_joins_and_widens() -> None:
    graph = carried_out(
        "ALTER SCOPE x ADD m: FROM @d FROM @e : { INTERFACES INPUT(0) } SUPERSCOPE FROM T : { MAP OUTWARD {} } "
        "INTERFACES OUTPUT(z), INPUT(i) ROLES t SET floor = 2",
        BASE,
    )
    scope = graph.scopes["x"]
    assert members(graph, "x") == {"@a", "@b", "@c", "@d", "@e"}
    assert scope.labels["m"] == ("@a", "@b", "@d")
    assert supers(graph, "x") == {"S", "T"}
    assert all(passes(scope.interface.output, type=one) for one in "pqz")
    assert str(scope.interface.input) == "type = 'i'"
    assert (scope.roles, scope.attributes) == (("r", "s", "t"), {"city": "Ulm", "floor": 2})
    assert graph.membership("@e", "x").imposed.input == NOTHING


@pytest.mark.req("VIS-921")
def test_deleting_leaves_and_narrows() -> None:
    graph = carried_out("ALTER SCOPE x DEL FROM @a SUPERSCOPE FROM S INTERFACES OUTPUT(p) ROLES r SET city = ''", BASE)
    scope = graph.scopes["x"]
    assert (members(graph, "x"), supers(graph, "x")) == ({"@b", "@c"}, set())
    assert str(scope.interface.output) == "type = 'q'"
    assert (scope.roles, scope.attributes) == (("s",), {"floor": 1})
    unmapped = carried_out("ALTER SCOPE x DEL MAP OUTWARD { Rename('u', 'v') }", BASE)
    assert unmapped.membership("x", "S").mapping is None
    assert "cannot be taken away" in refusal("ALTER SCOPE x DEL INTERFACES OUTPUT(nothing)", BASE)


@pytest.mark.req("VIS-921")
def test_replacing_is_by_label_kind_direction_and_name() -> None:
    labelled = carried_out("ALTER SCOPE x m: FROM @z", BASE)
    assert members(labelled, "x") == {"@z", "@c"}
    whole = carried_out("ALTER SCOPE x FROM @z, @c", BASE)
    assert members(whole, "x") == {"@z", "@c"}
    assert supers(whole, "x") == {"S"}, "superscopes are of another kind"
    features = carried_out(
        "ALTER SCOPE x SUPERSCOPE FROM T : { MAP OUTWARD {} } INTERFACES INPUT(i) ROLES t SET city = 'Bonn'", BASE
    )
    scope = features.scopes["x"]
    assert supers(features, "x") == {"T"}
    assert (str(scope.interface.input), passes(scope.interface.output, type="p")) == ("type = 'i'", True)
    assert (scope.roles, scope.attributes) == (("t",), {"city": "Bonn", "floor": 1})


@pytest.mark.req("VIS-921")
def test_altering_a_definition_affects_later_deployments_only() -> None:
    graph = carried_out(f"DEPLOY d AS early {R}", BASE)
    graph = carried_out("ALTER SCOPE d ADD FROM @z INTERFACES OUTPUT(r)", graph)
    graph = carried_out("ALTER SCOPE d DEL FROM @c INTERFACES OUTPUT(p) ROLES s", graph)
    graph = carried_out("ALTER SCOPE d m: FROM @b SET city = 'Bonn'", graph)
    graph = carried_out(f"DEPLOY d AS late {R}", graph)
    early, late = graph.scopes["early"], graph.scopes["late"]
    assert (members(graph, "early"), members(graph, "late")) == ({"@a", "@b", "@c"}, {"@b", "@z"})
    assert not passes(early.interface.output, type="r")
    assert [passes(late.interface.output, type=one) for one in "pqr"] == [False, True, True]
    assert (late.roles, late.attributes) == (("r",), {"city": "Bonn", "floor": 1})


@pytest.mark.req("VIS-921")
def test_a_name_of_both_must_be_told_apart() -> None:
    graph = carried_out(f"DEFINE SCOPE e AS; DEPLOY e {R}")
    with pytest.raises(ScriptError) as caught:
        compiled("ALTER SCOPE e SET a = 1", graph)
    assert caught.value.mistakes[0].kind is AmbiguousName
    assert str(caught.value) == (
        "t.scopes:1:13: 'e' is a definition and a scope\n"
        "    ALTER SCOPE e SET a = 1\n"
        "                ^\n"
        "  Write ALTER SCOPE DEFINITION e, or ALTER SCOPE INSTANCE e."
    )
    instance = carried_out("ALTER SCOPE INSTANCE e SET a = 1", graph)
    assert instance.scopes["e"].attributes == {"a": 1}
    assert instance.definitions == graph.definitions
    definition = carried_out("ALTER SCOPE DEFINITION e SET a = 1", graph)
    assert definition.scopes == graph.scopes
    assert "SET a = 1" in definition.definitions["e"]


def test_altering_members_alters_each_of_them_or_none() -> None:
    graph = carried_out(
        f"DEPLOY AS S FROM @c {R}; DEPLOY AS a SUPERSCOPE FROM S {R}; DEPLOY AS b SUPERSCOPE FROM S {R}"
    )
    both = carried_out("ALTER SCOPE MEMBERS(S) SET city = 'Ulm'", graph)
    assert [both.attributes(node).get("city") for node in ("a", "b", "@c")] == ["Ulm", "Ulm", None]
    with pytest.raises(ScriptError):
        compiled("ALTER SCOPE MEMBERS(S) ADD SUPERSCOPE FROM b", graph)


# --- the graphs that can be asked for -------------------------------------------------------------------


@pytest.mark.req("VIS-801")
def test_definitions_and_instances_are_apart_and_combined_without_effect_on_what_is_seen() -> None:
    graph = carried_out(
        f"DEFINE SCOPE d AS FROM @a, @b INTERFACES OUTPUT(1); DEPLOY d AS one {R}; DEPLOY d AS two {R};"
        f"DEPLOY AS top INTERFACES OUTPUT(1) {R}; ALTER SCOPE one ADD SUPERSCOPE FROM top"
    )
    assert set(graph.scopes) == {"", "one", "two", "top"}
    assert set(composed(graph).graph.scopes) == {"", "d"}
    both = combined(graph)
    assert members(both, "DEFINITION d") == {"one", "two"}
    assert both.scopes["DEFINITION d"].abstract
    nodes = sorted(graph.nodes())
    assert [visible(both, x, y) for x in nodes for y in nodes] == [visible(graph, x, y) for x in nodes for y in nodes]


@pytest.mark.req("VIS-803", "VIS-802")
def test_composition_joins_definitions_where_one_fits_and_reports_the_rest() -> None:
    graph = carried_out(
        "DEFINE SCOPE averager AS ROLES average INTERFACES OUTPUT(Mean); DEFINE SCOPE logger AS ROLES log;"
        "DEFINE SCOPE spare AS ROLES log; DEFINE SCOPE house AS a: [1..1] FROM MEMBERS(world) WHERE IS ROLE(average) "
        "l: [1..1] FROM MEMBERS(world) WHERE IS ROLE(log) o: FROM MEMBERS(world) WHERE OUTPUT(Mean) FROM spare"
    )
    found = composed(graph)
    assert members(found.graph, "house") == {"averager", "spare"}
    assert [str(point) for point in found.open] == [
        "'house' still looks for a member: l: [1..1] FROM MEMBERS(world) WHERE IS ROLE(log)"
    ]


@pytest.mark.req("VIS-804")
def test_annotations_of_a_definition_reach_its_instances_and_guide_their_deployment() -> None:
    graph = carried_out("DEFINE SCOPE d AS SET qos = 'gold', gateway = 'b7'")
    assert composed(graph).graph.attributes("d") == {"qos": "gold", "gateway": "b7"}
    graph = carried_out(f"DEPLOY AS S {R}; DEPLOY d AS x SUPERSCOPE FROM S {R}", graph)
    assert graph.attributes("x") == {"qos": "gold", "gateway": "b7"}
    assert graph.membership("x", "S").gateway == "b7"


@pytest.mark.req("VIS-805")
def test_a_deployment_that_fails_changes_neither_graph() -> None:
    graph = carried_out("DEFINE SCOPE d AS [2..] FROM MEMBERS(world) WHERE a = 1")
    text = f"DEFINE SCOPE e AS FROM @x; DEPLOY e {R}; DEPLOY d {R}"
    assert "at least 2 components are needed here, and 1 fit: @only" in refusal(text, graph, connected(only={"a": 1}))
    done = carried_out(text, graph, connected(one={"a": 1}, two={"a": 1}))
    assert members(done, "d") == {"@one", "@two"}


@pytest.mark.req("VIS-806")
def test_several_descriptive_graphs_are_deployed_into_one_system() -> None:
    first = f"DEFINE SCOPE quotes AS FROM @q INTERFACES OUTPUT(Quote); DEPLOY quotes {R}"
    second = f"DEFINE SCOPE news AS FROM @n INTERFACES OUTPUT(News); DEPLOY news SUPERSCOPE FROM quotes {R}"
    one = carried_out(second, carried_out(first))
    together = apply(Graph(), compiled(f"{first}; {second}").changes)
    assert digest(one) == digest(together)
    assert supers(one, "news") == {"quotes"}
    assert set(one.definitions) == {"quotes", "news"}
