"""The mapping and the crossing that a scope has for all its superscopes: none that it joins goes without."""

from __future__ import annotations

import pytest
from scopes.language.script_world import carried_out, compiled, refusal

from tidings.scopes import Graph, Placement
from tidings.scopes.steps import Drop

R = "INTEGRATED_ROUTING"
TOPS = f"DEPLOY AS ministry INTERFACES OUTPUT(1) {R}; DEPLOY AS public INTERFACES OUTPUT(1) {R};"
MAP = 'MAP OUTWARD { Drop(["patient"]) }'
WARD = f"DEPLOY AS ward SUPERSCOPE FROM ministry FROM @nurse INTERFACES OUTPUT(1) {MAP} {R};"
JOINS = {
    "by its own statement": "ALTER SCOPE ward ADD SUPERSCOPE FROM public;",
    "by the superscope's": "ALTER SCOPE public ADD FROM ward;",
    "with another block": "ALTER SCOPE public ADD FROM ward : { INTERFACES INPUT(0) };",
    "when the superscope is deployed": f"DEPLOY AS late FROM ward {R};",
}


def hides(graph: Graph, scope: str) -> bool:
    mapping = graph.membership("ward", scope).mapping
    return mapping is not None and mapping.outward.steps == (Drop(("patient",)),)


@pytest.mark.parametrize("join", JOINS.values(), ids=JOINS)
def test_a_mapping_holds_for_superscopes_that_the_script_joins_later(join: str) -> None:
    graph = carried_out(TOPS + WARD + join)
    assert hides(graph, "late" if "late" in join else "public")
    assert compiled(TOPS + WARD + join, graph).changes == ()


LEAVING = (
    "ALTER SCOPE ward SUPERSCOPE FROM public;",
    "ALTER SCOPE ward DEL SUPERSCOPE FROM ministry;" + next(iter(JOINS.values())),
)


@pytest.mark.parametrize("join", [*JOINS.values(), *LEAVING])
def test_a_script_that_knows_nothing_of_the_mapping_has_to_say_one(join: str) -> None:
    text = refusal(join, carried_out(TOPS + WARD))
    assert "'ward' has a mapping towards 'ministry', and none is given here for" in text
    assert "with empty braces for none" in text


def test_what_a_block_says_holds_for_the_new_superscope() -> None:
    graph = carried_out(TOPS + WARD)
    other = carried_out("ALTER SCOPE ward ADD SUPERSCOPE FROM public : { MAP OUTWARD { } }", graph)
    assert not hides(other, "public")
    assert hides(other, "ministry")
    joined = f"ALTER SCOPE ward ADD SUPERSCOPE FROM public INTERFACES OUTPUT(1) {MAP}"
    assert hides(carried_out(joined, graph), "public")


def test_a_mapping_of_a_definition_holds_for_superscopes_that_are_joined_later() -> None:
    made = f"DEFINE SCOPE w AS INTERFACES OUTPUT(1) {MAP}; DEPLOY w AS ward SUPERSCOPE FROM ministry {R};"
    assert hides(carried_out(TOPS + made + JOINS["by its own statement"]), "public")
    alone = carried_out(TOPS + f"DEFINE SCOPE w AS INTERFACES OUTPUT(1) {MAP}; DEPLOY w AS ward {R};")
    assert "'ward' has a mapping in its definition" in refusal(JOINS["by the superscope's"], alone)


def test_a_mapping_that_a_file_changes_changes_on_every_edge_that_the_file_names() -> None:
    graph = carried_out(TOPS + WARD.replace("patient", "doctor") + JOINS["by the superscope's"])
    assert not hides(graph, "public")
    after = carried_out(TOPS + WARD + JOINS["by the superscope's"], graph)
    assert hides(after, "public")


def test_the_block_of_one_superscope_is_not_overridden_by_a_later_mention() -> None:
    text = (
        f"{TOPS} DEPLOY AS ward SUPERSCOPE FROM ministry SUPERSCOPE FROM public : {{ MAP OUTWARD {{ }} }} "
        f"INTERFACES OUTPUT(1) {MAP} {R}; ALTER SCOPE public ADD FROM ward;"
    )
    graph = carried_out(text)
    assert (hides(graph, "ministry"), hides(graph, "public")) == (True, False)


def test_a_mapping_without_a_superscope_is_refused() -> None:
    text = refusal(f"DEPLOY AS ward INTERFACES OUTPUT(1) {MAP} {R};")
    assert "the MAP of 'ward' belongs to its superscopes, and it is given none" in text
    assert "the MAP of 'public'" in refusal(f"ALTER SCOPE public {MAP}", carried_out(TOPS))


def test_a_gateway_holds_for_superscopes_that_are_joined_later() -> None:
    ward = f'DEPLOY AS ward SUPERSCOPE FROM ministry {R}(gateway = "b1");'
    join = "ALTER SCOPE public ADD FROM ward;"
    edge = carried_out(TOPS + ward + join).membership("ward", "public")
    assert (edge.placement, edge.gateway) == (Placement.GATEWAY, "b1")
    text = refusal(join, carried_out(TOPS + ward))
    assert "'ward' crosses to 'ministry' at 'b1', and nothing is said here for 'public'" in text
    assert "the gateway of 'ward' belongs to its superscopes" in refusal(f'DEPLOY AS ward {R}(gateway = "b1")')


def test_a_gateway_among_the_attributes_of_a_scope_holds_for_every_superscope() -> None:
    graph = carried_out(f'{TOPS} DEPLOY AS ward SET gateway = "b1" {R};')
    assert carried_out("ALTER SCOPE public ADD FROM ward;", graph).membership("ward", "public").gateway == "b1"


def test_a_superscope_that_no_statement_names_is_warned_of() -> None:
    graph = carried_out(TOPS + f"DEPLOY AS ward SUPERSCOPE FROM ministry, public INTERFACES OUTPUT(1) {R};")
    (warning,) = compiled(WARD, graph).warnings
    assert warning.startswith(
        "'ward' is a member of 'public', too, which no statement says: its MAP does not hold there"
    )
    assert compiled(WARD, graph, prune=True).warnings == ()
    assert compiled(TOPS + WARD + JOINS["by its own statement"], graph).warnings == ()
