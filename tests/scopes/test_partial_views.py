"""What those are told who may not see everything: nothing that is hidden or false, and that there may be more."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from scopes.network_world import Watched

from tidings.model import Notification
from tidings.scopes import (
    OPEN,
    Answer,
    AnyChange,
    CreateScope,
    Define,
    DestroyScope,
    Graph,
    Impose,
    Interface,
    Join,
    Leave,
    SetInterface,
    SetOrigin,
    SetRoles,
    Undefine,
    apply,
    digest,
    explain,
    plan_change,
    shown_to,
)
from tidings.scopes.language import export, mentions, parse, print_statement

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


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("ALL FROM lair", False),
        ('SUPERSCOPE ALL FROM "lair"', False),
        ("ALL FROM MEMBERS(MEMBERS(lair))", False),
        ("ALL FROM den", False),
        ("ALL FROM @x WHERE lair = TRUE", True),
        ('SET den = "lair"', True),
        ("INTERFACES INPUT(lair)", True),
    ],
)
def test_a_definition_that_mentions_a_hidden_scope_is_for_those_who_know_of_it(text: str, shown: bool) -> None:
    written = print_statement(parse(f"DEFINE SCOPE speaks AS {text}").statements[0])
    hidden = apply(GRAPH, (CreateScope("lair/den/x", hidden=True), CreateScope("den", hidden=True)))
    graph = apply(hidden, (Define("speaks", written),))
    assert ("speaks" in shown_to(graph, "boss", administrator=False).definitions) is shown
    assert "speaks" in shown_to(graph, "boss", administrator=True).definitions
    assert mentions(written, frozenset({"lair", "den"})) is not shown


def test_a_definition_does_not_vanish_from_those_who_write_it_because_a_name_in_it_is_that_of_a_hidden_scope() -> None:
    texts = {name: f"DEFINE SCOPE open/{name} AS\n    ALL FROM {name};" for name in ("lair", "nowhere")}
    graph = apply(GRAPH, tuple(Define(f"open/{name}", text) for name, text in texts.items()))
    seen = shown_to(graph, "boss", administrator=False).definitions
    assert (seen.get("open/lair"), seen.get("open/nowhere")) == (texts["lair"], texts["nowhere"])
    assert (
        "open/lair"
        not in shown_to(apply(graph, (CreateScope("x", administrators=("ann",)),)), "ann", False).definitions
    )


@pytest.fixture(scope="module")
def house() -> Watched:
    """`boss` administers `mine` and `other`. Hidden from it, `lair` is in `mine`, `mine` is in `top`, `other` in `den`
    and `den` in `mine`."""
    world = Watched("a", [], {"x": "a"})
    administered = CreateScope("mine", OPEN, administrators=("boss",)), CreateScope("other", administrators=("boss",))
    hidden = [CreateScope(name, OPEN, hidden=True) for name in ("lair", "top", "den")]
    joined = Join("lair", "mine"), Join("mine", "top"), Join("other", "den"), Join("den", "mine"), Join("@spy", "lair")
    defined = [Define(name, f"DEFINE SCOPE {name} AS;") for name in ("secret", "spare", "lair/inner")]
    speaks = Define("speaks", "DEFINE SCOPE speaks AS\n    ALL FROM lair;")
    assert not world.change(*administered, *hidden, *joined, *defined, speaks, SetOrigin("lair", "secret")).error
    return world


def asked(world: Watched, *changes: AnyChange) -> Answer:
    answers: list[Answer] = []
    world.scopes("a").ask(changes, answers.append, who="boss")
    world.network.run(5)
    (answer,) = answers
    return answer


@pytest.mark.parametrize(
    "change",
    [
        lambda name: Leave(name, "mine"),
        lambda name: Leave("mine", name),
        lambda name: Leave("@x", name),
        lambda name: Join("mine", name),
        lambda name: Join("@boss", name),
        lambda name: Impose("mine", OPEN, name),
        lambda name: SetInterface(name, OPEN),
        lambda name: SetRoles(name, ()),
        lambda name: DestroyScope(name, cascade=True),
    ],
)
def test_a_hidden_scope_is_as_one_that_is_not_there(house: Watched, change: Callable[[str], AnyChange]) -> None:
    absent = asked(house, change("nowhere"))
    assert absent.error
    for hidden in ("lair", "top"):
        answer = asked(house, change(hidden))
        assert (answer.error, answer.reason.replace(hidden, "nowhere")) == (absent.error, absent.reason)


@pytest.mark.parametrize("hidden", ["secret", "lair/inner", "speaks"])
def test_a_definition_is_not_read_by_saying_that_a_scope_was_deployed_from_it(house: Watched, hidden: str) -> None:
    absent = asked(house, SetOrigin("mine", "nowhere"))
    answer = asked(house, SetOrigin("mine", hidden))
    assert absent.reason == "there is no definition 'nowhere'; define it first"
    assert (answer.error, answer.reason.replace(hidden, "nowhere")) == ("UnknownName", absent.reason)
    assert not house.scopes("a").graph.scopes["mine"].definition


def test_a_scope_is_deployed_from_a_definition_that_its_administrator_sees_or_makes(house: Watched) -> None:
    made = Define("mine/own", "DEFINE SCOPE mine/own AS;")
    assert not asked(house, made, CreateScope("mine/a"), SetOrigin("mine/a", "mine/own")).error
    assert not asked(house, CreateScope("mine/b"), SetOrigin("mine/b", "spare")).error
    assert not house.change(Undefine("spare")).error
    assert not asked(house, SetOrigin("mine/b", "spare", {})).error, "it was deployed from that one, and stays so"
    assert not asked(house, SetOrigin("mine/b", "")).error


def test_what_is_hidden_and_stands_in_the_way_is_not_named(house: Watched) -> None:
    answer = asked(house, Join("mine", "other"))
    assert (answer.error, answer.reason) == (
        "ScopeError",
        "something that you may not see stands in the way of this change; ask a client that may change everything to "
        "make it",
    )


def test_a_warning_names_nothing_that_is_hidden(house: Watched) -> None:
    narrow = Interface.parse(input="n = 1", output="n = 1")
    assert not house.change(SetInterface("lair", narrow)).error
    made = asked(house, Impose("mine", Interface.parse(input="n = 2", output="n = 2")))
    assert (made.error, made.warnings) == ("", ())
