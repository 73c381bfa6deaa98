"""What those are told who may not see everything: nothing that is hidden or false, and that there may be more."""

from __future__ import annotations

import pytest

from tidings.model import Notification
from tidings.scopes import (
    OPEN,
    CreateScope,
    Define,
    Graph,
    Join,
    Leave,
    SetOrigin,
    SetRoles,
    apply,
    digest,
    explain,
    plan_change,
    shown_to,
)
from tidings.scopes.language import export, parse

GRAPH = apply(
    Graph(),
    (
        *(CreateScope("open", OPEN, administrators=("boss",)), CreateScope("lair", OPEN, hidden=True)),
        *(CreateScope("lair/den", OPEN, administrators=("fox",)), Join("lair", "open"), Join("lair/den", "lair")),
        *(Join("@spy", "lair"), Join("@both", "lair"), Join("@both", "open"), Join("@ann", "open")),
        *(Join("@gone", "open"), Leave("@gone", "open"), SetRoles("@spy", ("agent",))),
        SetOrigin("open", "kind", {"m": ("@ann", "lair"), "l": ("lair",)}),
        SetOrigin("lair", "secret", {}),
        *(Define(name, f"DEFINE SCOPE {name} AS;") for name in ("kind", "secret", "spare", "lair/inner", "open/own")),
    ),
)


def seen_by(client: str) -> Graph:
    return shown_to(GRAPH, client, administrator=False)


def test_whoever_may_not_see_everything_is_told_so_whether_there_is_more_or_not() -> None:
    assert seen_by("ann").partial
    assert shown_to(Graph(), "ann", administrator=False).partial
    assert not shown_to(GRAPH, "ann", administrator=True).partial
    assert apply(seen_by("ann"), (Join("@x", "open"),)).partial, "what is worked out on a part is one"


def test_a_client_is_left_out_if_all_its_memberships_are_hidden() -> None:
    seen = seen_by("ann")
    assert seen.isolated == ["@gone"], "one that truly is a member of nothing is shown"
    assert set(seen.superscopes("@both")) == {"open"}
    assert "spy" not in repr(seen) + export(seen)
    assert set(seen_by("spy").superscopes("@spy")) == {"lair"}, "each client sees its own"


def test_labels_name_nothing_that_is_hidden() -> None:
    assert seen_by("ann").scopes["open"].labels == {"m": ("@ann",)}
    assert shown_to(GRAPH, "ann", administrator=True).scopes["open"].labels == GRAPH.scopes["open"].labels


@pytest.mark.parametrize(
    ("client", "definitions"),
    [
        ("ann", {"kind"}),
        ("stranger", {"kind"}),
        ("spy", {"kind", "secret"}),
        ("boss", {"kind", "spare", "open/own"}),
        ("fox", {"kind", "spare", "open/own"}),
    ],
)
def test_definitions_are_for_those_who_may_deploy_them_or_see_a_scope_of_them(
    client: str, definitions: set[str]
) -> None:
    assert set(seen_by(client).definitions) == definitions


def test_whoever_may_see_everything_sees_every_definition() -> None:
    assert shown_to(GRAPH, "root", administrator=True).definitions == GRAPH.definitions


def test_a_definition_in_a_hidden_scope_is_for_its_administrators() -> None:
    graph = apply(GRAPH, (CreateScope("cave", hidden=True, administrators=("bear",)), Define("cave/x", "")))
    assert "cave/x" in shown_to(graph, "bear", administrator=False).definitions
    assert "cave/x" not in shown_to(graph, "boss", administrator=False).definitions


def test_an_export_of_a_part_says_so_and_takes_nobody_out_of_hidden_scopes() -> None:
    text = export(seen_by("ann"))
    assert text.startswith("-- This is the part of the graph that its exporter may see, and not all of it")
    assert "@gone" in text
    assert parse(text, "part").statements
    assert not export(GRAPH).startswith("--")


def test_an_explanation_of_a_part_says_so() -> None:
    note = Notification(n=1)
    told, whole = explain(seen_by("ann"), "@ann", note, "@spy"), explain(GRAPH, "@ann", note, "@spy")
    assert told.partial
    assert str(told).startswith("as far as you may see the graph, @spy does not see")
    assert not whole.partial
    assert str(whole).startswith("@spy sees")


def test_a_plan_on_a_part_says_so_and_is_never_sure_that_nobody_sees_anything_else() -> None:
    changes = (SetRoles("open", ("r",)),)
    part, whole = plan_change(seen_by("boss"), changes), plan_change(GRAPH, changes)
    assert (part.partial, part.is_complete, part.is_quiet) == (True, False, False)
    assert (whole.partial, whole.is_complete, whole.is_quiet) == (False, True, True)


def test_a_part_is_no_other_graph_because_it_is_one() -> None:
    assert digest(Graph()) == digest(shown_to(Graph(), "ann", administrator=False))
