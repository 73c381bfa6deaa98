"""The statements of the documents mean what they say: E1 to E9, X1, N1 to N3, and precedence."""

from __future__ import annotations

import pytest
from scopes.language.script_world import carried_out, compiled, connected, members, passes, refusal, supers

from tidings.model import EVERYTHING, NOTHING
from tidings.scopes import Graph
from tidings.scopes.language import Carrying, Extensions, definition_of, parse
from tidings.scopes.language.syntax import AlterScope, Create, DefineScope, Event, Update

ROUTED = "INTEGRATED_ROUTING"
S1_S2 = f"DEPLOY AS S1 INTERFACES INPUT(1), OUTPUT(1) {ROUTED}; DEPLOY AS S2 INTERFACES INPUT(1), OUTPUT(1) {ROUTED};"
TEMP = (
    "DEFINE SCOPE temp AS m: ALL FROM MEMBERS(world), A, B WHERE has-temp-sensor = 1 s: SUPERSCOPE ALL FROM S1, S2 "
    "INTERFACES OUTPUT(AlarmNotification)"
)
HERE = connected(A={"has-temp-sensor": 1}, B={}, C={"has-temp-sensor": 1}, D={"has-temp-sensor": 0})


@pytest.mark.req("VIS-924")
def test_e1_exactly_these_three_are_members_and_nothing_crosses() -> None:
    text = f"DEPLOY AS scope1 {ROUTED}; DEFINE SCOPE example AS ALL FROM prod1, prod2, scope1; DEPLOY example {ROUTED}"
    graph = carried_out(text, clients=connected(prod1={}, prod2={}, other={}))
    assert members(graph, "example") == {"@prod1", "@prod2", "scope1"}
    assert graph.scopes["example"].interface.is_closed


@pytest.mark.req("VIS-924")
def test_e2_those_of_the_world_with_the_attribute_are_members() -> None:
    text = "DEFINE SCOPE temp AS ALL FROM MEMBERS(world), A, B WHERE has-temp-sensor = 1;"
    graph = carried_out(f"{text} DEPLOY temp {ROUTED}", clients=HERE)
    assert members(graph, "temp") == {"@A", "@C"}


@pytest.mark.req("VIS-924")
def test_e3_and_e4_labels_name_what_is_picked_and_only_alarms_leave() -> None:
    graph = carried_out(f"{S1_S2} {TEMP}; DEPLOY temp {ROUTED}", clients=HERE)
    temp = graph.scopes["temp"]
    assert temp.labels == {"m": ("@A", "@C"), "s": ("S1", "S2")}
    assert supers(graph, "temp") == {"S1", "S2"}
    assert passes(temp.interface.output, type="AlarmNotification")
    assert not passes(temp.interface.output, type="TempNotification")
    assert temp.interface.input == NOTHING


@pytest.mark.req("VIS-924")
@pytest.mark.parametrize(
    "text",
    [
        f"{TEMP} m:{{ INTERFACES OUTPUT(TempNotification), INPUT(0) }}",
        TEMP.replace(
            "WHERE has-temp-sensor = 1",
            "WHERE has-temp-sensor = 1 : { INTERFACES OUTPUT(TempNotification), INPUT(0) }",
        ),
    ],
    ids=["E5", "E6"],
)
def test_e5_and_e6_members_publish_temperatures_and_receive_nothing(text: str) -> None:
    graph = carried_out(f"{S1_S2} {text}; DEPLOY temp {ROUTED}", clients=HERE)
    for member in ("@A", "@C"):
        imposed = graph.membership(member, "temp").imposed
        assert passes(imposed.output, type="TempNotification")
        assert not passes(imposed.output, type="AlarmNotification")
        assert imposed.input == NOTHING
    assert graph.membership("temp", "S1").selective.is_open


COMPANY = (
    "DEFINE SCOPE company AS b:[1..1] FROM MEMBERS(world) WHERE IS ROLE(boss) {} "
    "worker:TOP(experience,10) FROM MEMBERS(world) WHERE OUTPUT(necessaryInformation) OR INPUT(furtherProcessing) "
    'SET name = "Acme, Inc."'
)
BRACES = ": { INTERFACES OUTPUT(holidayAnnouncement) }"


@pytest.mark.req("VIS-924")
@pytest.mark.parametrize("block", [BRACES, BRACES.strip(":{} ")], ids=["braces", "as it is printed"])
def test_e7_one_boss_and_the_most_experienced_workers(block: str) -> None:
    workers = " ".join(
        f"DEPLOY AS w{number} INTERFACES OUTPUT(necessaryInformation) SET experience = {number} {ROUTED};"
        for number in range(12)
    )
    admin = (
        "DEFINE SCOPE admin AS ALL FROM @c1, @c2, @c3 INTERFACES INPUT(something), OUTPUT(else) ROLES boss; "
        f"DEPLOY admin {ROUTED};"
    )
    idle = f"DEPLOY AS idle SET experience = 99 {ROUTED};"
    found = compiled(f"{workers} {idle} {admin} {COMPANY.format(block)}; DEPLOY company {ROUTED}")
    graph = found.graph
    company = graph.scopes["company"]
    assert company.labels["b"] == ("admin",)
    assert set(company.labels["worker"]) == {f"w{number}" for number in range(2, 12)}
    imposed = graph.membership("admin", "company").imposed
    assert passes(imposed.output, type="holidayAnnouncement")
    assert not passes(imposed.output, type="else")
    assert imposed.input == EVERYTHING
    assert graph.membership("w5", "company").imposed.is_open
    assert company.attributes == {"name": "Acme, Inc."}
    assert bool(found.warnings) == (block != BRACES), "what is printed without braces is read, with a warning"


@pytest.mark.req("VIS-924")
def test_e8_all_members_of_the_superscope_with_a_sensor() -> None:
    text = (
        f"DEPLOY AS S FROM @x, @y, @z {ROUTED}; DEFINE SCOPE temp AS a: ALL FROM * WHERE has-temp-sensor = 1;"
        "DEPLOY temp SUPERSCOPE ALL FROM S a:{ INTERFACES OUTPUT(TempNotification) } BROKERSCOPE(localhost)"
    )
    clients = connected(x={"has-temp-sensor": 1}, y={}, z={"has-temp-sensor": 1}, far={"has-temp-sensor": 1})
    hosts: list[object] = []

    def broker_scope(arguments: object) -> Carrying:
        hosts.append(str(arguments[0].value))  # type: ignore[index]
        return Carrying()

    graph = carried_out(text, clients=clients, extensions=Extensions(architectures={"BROKERSCOPE": broker_scope}))
    assert members(graph, "temp") == {"@x", "@z"}
    assert supers(graph, "temp") == {"S"}
    assert passes(graph.membership("@x", "temp").imposed.output, type="TempNotification")
    assert not passes(graph.membership("@x", "temp").imposed.output, type="Other")
    assert hosts == ["localhost"]
    assert "no architecture BROKERSCOPE carries scopes in this network" in refusal(text, clients=clients)


@pytest.mark.req("VIS-924")
def test_e9_a_member_joins_and_the_scope_joins_another() -> None:
    graph = carried_out(f"DEPLOY AS temp {ROUTED}; DEPLOY AS S {ROUTED}; DEPLOY AS c {ROUTED}")
    graph = carried_out("ALTER SCOPE temp ADD ALL FROM c SUPERSCOPES ALL FROM S", graph)
    assert supers(graph, "c") == {"temp"}
    assert supers(graph, "temp") == {"S"}


X1 = (
    'DEFINE SCOPE auction AS SUPERSCOPE ALL FROM market SET session-id = "auto" INTERFACES OUTPUT(Sold) '
    "UPDATE ON pub(n: OUTPUT(AuctionOpened)) DO CREATE NOW INCLUDE COMPONENT "
    "UPDATE ON con(n: INPUT(AuctionOpened)) DO ALTER SCOPE self ADD ALL FROM trigger"
)


@pytest.mark.req("VIS-924")
def test_x1_a_definition_holds_its_rules_and_makes_no_scope_before_its_event() -> None:
    graph = carried_out(X1)
    kept = definition_of(graph.definitions["auction"])
    first, second = (one for one in kept.features if isinstance(one, Update))
    assert (first.event.name, first.actions) == ("pub", (Create("trigger"),))
    assert isinstance(second.event, Event)
    (action,) = second.actions
    assert isinstance(action, AlterScope)
    assert second.event.name == "con"
    assert graph.scopes.keys() == Graph().scopes.keys(), "nothing is deployed"
    deployed = carried_out(f"DEPLOY AS market {ROUTED}; DEPLOY auction {ROUTED}", graph)
    assert deployed.scopes.keys() == {"", "market"}


@pytest.mark.req("VIS-924", "VIS-920")
@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "DEPLOY SCOPE a",
            "t.scopes:1:15: no architecture is named\n"
            "    DEPLOY SCOPE a\n"
            "                  ^\n"
            "  Write INTEGRATED_ROUTING at the end of the DEPLOY.",
        ),
        (
            "DEFINE SCOPE a AS ALL FROM x WHERE",
            "t.scopes:1:35: a condition is missing after WHERE\n"
            "    DEFINE SCOPE a AS ALL FROM x WHERE\n"
            "                                      ^\n"
            '  Write one like city = "Berlin" or IS ROLE(boss).',
        ),
        (
            "ALTER SCOPE a ADD INTERFACES SIDE(x)",
            "t.scopes:1:30: SIDE is no direction\n"
            "    ALTER SCOPE a ADD INTERFACES SIDE(x)\n"
            "                                 ^\n"
            "  Write INPUT(...) for what members may receive, or OUTPUT(...) for what they may publish.",
        ),
    ],
    ids=["N1", "N2", "N3"],
)
def test_n1_to_n3_are_refused(text: str, problem: str) -> None:
    assert refusal(text) == problem


@pytest.mark.req("VIS-924")
def test_and_binds_tighter_than_or() -> None:
    clients = connected(c={"c": 1}, a={"a": 1}, b={"b": 1}, ab={"a": 1, "b": 1}, ac={"a": 1, "c": 1})
    text = f"DEPLOY AS s ALL FROM MEMBERS(world) WHERE {{}} {ROUTED}"
    plain = carried_out(text.format("a = 1 AND b = 1 OR c = 1"), clients=clients)
    assert members(plain, "s") == {"@c", "@ab", "@ac"}
    grouped = carried_out(text.format("a = 1 AND (b = 1 OR c = 1)"), clients=clients)
    assert members(grouped, "s") == {"@ab", "@ac"}


def test_semicolons_and_line_breaks_are_free_and_comments_are_kept() -> None:
    one = parse("DEFINE SCOPE a AS ALL FROM x DEFINE SCOPE b AS")
    other = parse("DEFINE SCOPE a\n AS ALL\nFROM x ;\n;DEFINE SCOPE b AS;")
    assert one == other
    noted = parse("-- first\nDEFINE SCOPE a AS -- head\n -- why\n ALL FROM x -- these\n-- the end")
    (definition,) = noted.statements
    assert isinstance(definition, DefineScope)
    assert (definition.comments, definition.note) == (("first",), "head")
    assert (definition.selections[0].comments, definition.selections[0].note) == (("why",), "these")
    assert noted.comments == ("the end",)
