"""Undoing one transaction gives the graph before, or says what stands in the way."""

from __future__ import annotations

import random
import time

import pytest
from scopes.network_world import Watched
from scopes.test_changes import random_change

from tidings.model import Notification, ScopeError
from tidings.scopes import (
    OPEN,
    Anchor,
    AnyChange,
    CreateScope,
    Define,
    DestroyScope,
    Forget,
    Graph,
    Impose,
    Interface,
    Join,
    Leave,
    Mode,
    Redefine,
    SetAdministration,
    SetAttributes,
    SetInterface,
    SetOrigin,
    SetRoles,
    Transaction,
    Unanchor,
    Undefine,
    apply,
    digest,
    inverse,
)
from tidings.scopes._applying import MAX_CHANGES, check_size

SMALL = apply(
    Graph(),
    (
        *(CreateScope("S", OPEN, roles=("house",)), CreateScope("T", OPEN, attributes={"city": "Rome"})),
        *(Join("S", "T"), Join("@a", "S"), Join("@b", "T")),
    ),
)
JOINED_LATER = ["'@c' joined 'U' in version 3", "'U' joined 'T' in version 4"]


def undone(before: Graph, *changes: AnyChange, since: tuple[AnyChange, ...] = ()) -> Graph:
    """The graph after these changes, and what happened since, and the first ones undone."""
    now = apply(before, changes)
    for change in since:
        now = apply(now, (change,))
    return apply(now, inverse(before, Transaction(before.version + 1, changes, "", 0, ""), now))


def drawn(dice: random.Random, graph: Graph) -> tuple[tuple[AnyChange, ...], Graph]:
    """A transaction that can be made, and what it makes."""
    while True:
        changes = tuple(random_change(dice, graph) for _ in range(dice.choice([1, 1, 2, 3])))
        try:
            return changes, apply(graph, changes)
        except ScopeError:
            continue


def is_of_brokers(change: AnyChange) -> bool:
    """Whether brokers make such a change by themselves."""
    return isinstance(change, Anchor | Unanchor) and not change.stay


def becomes_another(before: Graph, after: Graph) -> bool:
    """Whether a scope was destroyed and made anew as one that it cannot become by any change."""
    both = before.scopes.keys() & after.scopes.keys()
    return any(before.scopes[id].abstract != after.scopes[id].abstract for id in both)


def says_again(graph: Graph, changes: tuple[AnyChange, ...]) -> bool:
    """Whether one of these changes, or a part of one, changes nothing."""
    for change in changes:
        if isinstance(change, SetOrigin) and change.definition == graph.scope(change.scope).definition:
            return True
        graph, before = apply(graph, (change,)), graph
        if digest(graph) == digest(before):
            return True
    return False


@pytest.mark.parametrize("seed", range(60))
def test_what_nobody_has_touched_since_is_as_it_was_before(seed: int) -> None:
    dice = random.Random(seed)
    graph = apply(Graph(), tuple(CreateScope(f"s{number}", OPEN) for number in range(5)))
    for _ in range(25):
        changes, after = drawn(dice, graph)
        if not all(map(is_of_brokers, changes)) and not becomes_another(graph, after):
            assert digest(undone(graph, *changes)) == digest(graph), changes
        graph = after


@pytest.mark.parametrize("seed", range(60))
def test_what_was_changed_since_stays_or_stands_in_the_way(seed: int) -> None:
    dice = random.Random(seed)
    graph = apply(Graph(), tuple(CreateScope(f"s{number}", OPEN) for number in range(5)))
    kept = 0
    for _ in range(40):
        first, between = drawn(dice, graph)
        second, after = drawn(dice, between)
        try:
            back = apply(after, inverse(graph, Transaction(1, first, "", 0, ""), after))
            alone = apply(graph, second)  # as if the first one had never been
        except ScopeError:
            pass
        else:
            if not says_again(between, second):  # what says again what stands leaves no trace
                assert digest(back) == digest(alone), (first, second)
                kept += 1
        graph = after
    assert kept > 3


def test_a_client_that_was_in_the_root_scope_is_there_again() -> None:
    before = apply(SMALL, (CreateScope("U"),))
    assert undone(before, Join("@new", "S")).is_stranger("@new")
    assert undone(before, Join("@new", "S"), Join("@new", "U")).is_stranger("@new")
    elsewhere = undone(before, Join("@new", "S"), since=(Join("@new", "U"),))
    assert list(elsewhere.superscopes("@new")) == ["U"]
    isolated = apply(before, (Leave("@a", "S"),))
    assert not undone(isolated, Join("@a", "S")).is_stranger("@a")


def test_a_scope_that_was_destroyed_comes_back_with_everything() -> None:
    before = apply(SMALL, (Anchor("S", "b1", stay=True), Impose("S", Interface.parse(output="n > 1"), "@a")))
    assert digest(undone(before, DestroyScope("S", cascade=True))) == digest(before)


@pytest.mark.parametrize(
    ("changes", "since", "obstacles"),
    [
        (
            (SetInterface("S", Interface.parse(input="n = 2")),),
            (SetInterface("S", Interface.parse(input="n = 1")),),
            [
                "interface of 'S' was changed again: it is [input: n = 1, output: TRUE], and was made [input: n = 2, "
                "output: TRUE]"
            ],
        ),
        (
            (SetAttributes("T", {"city": "Oslo", "floors": 3}), SetAttributes("@a", {"x": 1})),
            (SetAttributes("T", {"city": "Bonn", "floors": None}),),
            [
                "the attribute 'city' of 'T' was changed again: it is Bonn, and was made Oslo",
                "the attribute 'floors' of 'T' was changed again: it is none, and was made 3",
            ],
        ),
        (
            (SetRoles("@a", ("boss",)),),
            (SetRoles("@a", ()),),
            ["roles of '@a' was changed again: it is none, and was made boss"],
        ),
        (
            (SetAdministration("S", admission=("0" * 32,)),),
            (SetAdministration("S", admission=("1" * 32,)),),
            ["admission of 'S' was changed again"],
        ),
        ((CreateScope("U"),), (Join("@c", "U"), Join("U", "T")), JOINED_LATER),
        ((CreateScope("U"), Join("@c", "U")), (DestroyScope("U", cascade=True),), ["the scope 'U' was destroyed"]),
        ((SetRoles("S", ()),), (DestroyScope("S", cascade=True),), ["the scope 'S' was destroyed"]),
        ((Leave("@a", "S"),), (DestroyScope("S", cascade=True),), ["the scope 'S' was destroyed"]),
        ((Join("@c", "S"),), (Leave("@c", "S"),), ["'@c' left 'S'"]),
        (
            (Join("@c", "S"),),
            (Impose("S", Interface.parse(input="n = 1"), "@c"),),
            [
                "imposed of '@c' in 'S' was changed again: it is [input: n = 1, output: TRUE], and was made [input: "
                "TRUE, output: TRUE]"
            ],
        ),
        (
            (DestroyScope("S", cascade=True),),
            (CreateScope("S"), Join("@a", "S")),
            ["a scope 'S' was created again", "'@a' joined 'S' again in version 4"],
        ),
        ((Leave("@b", "T"),), (Join("@b", "T"),), ["'@b' joined 'T' again in version 3"]),
        (
            (Define("d", "DEFINE SCOPE d AS;"), Define("e", "DEFINE SCOPE e AS;")),
            (Undefine("d"), Redefine("e", "DEFINE SCOPE e AS ROLES x;")),
            ["the definition 'd' was removed", "the definition 'e' was changed again"],
        ),
    ],
)
def test_everything_that_stands_in_the_way_is_named(
    changes: tuple[AnyChange, ...], since: tuple[AnyChange, ...], obstacles: list[str]
) -> None:
    with pytest.raises(ScopeError) as error:
        undone(SMALL, *changes, since=since)
    first, *named, last = str(error.value).split("\n")
    assert first == "version 2 cannot be undone, because of what was changed since then:"
    assert [line.removeprefix("  ") for line in named] == obstacles
    assert last == "undo that first, or change it by hand"


def test_a_version_that_nobody_asked_for_is_not_undone() -> None:
    with pytest.raises(ScopeError) as error:
        undone(SMALL, Anchor("S", "b1"))
    assert str(error.value) == (
        "version 2 cannot be undone: nobody asked for it; brokers made it, because clients in a scope connected or "
        "disconnected there; see `tidings scope log` for the versions that somebody asked for"
    )


def test_as_many_things_in_the_way_as_anybody_reads_are_named() -> None:
    created = tuple(CreateScope(f"u{number}") for number in range(30))
    with pytest.raises(ScopeError) as error:
        undone(SMALL, *created, since=tuple(DestroyScope(one.id) for one in created))
    assert "'u19' was destroyed\n  and 10 more\nundo" in str(error.value)


def test_a_client_that_was_forgotten_is_a_member_of_nothing_again() -> None:
    isolated = apply(SMALL, (Leave("@b", "T"),))
    assert digest(undone(isolated, Forget("@b"))) == digest(isolated)
    assert digest(undone(SMALL, Leave("@b", "T"), Forget("@b"))) == digest(SMALL)


def test_the_largest_transaction_can_be_undone_at_once() -> None:
    clients = [f"@c{number}" for number in range(MAX_CHANGES)]
    before = apply(SMALL, (CreateScope("big"),))
    joined = tuple(Join(client, "big") for client in clients)
    after = apply(before, joined)
    started = time.process_time()
    changes = inverse(before, Transaction(2, joined, "", 0, ""), after)
    assert time.process_time() - started < 10, "nothing in it is quadratic: it takes a fraction of a second"
    check_size(changes)
    assert digest(apply(after, changes)) == digest(before)
    with pytest.raises(ScopeError, match="10,001 changes at once"):
        check_size((*changes, SetRoles("S", ())))


def test_labels_come_back_with_the_members_that_they_stood_for() -> None:
    labelled = apply(SMALL, (Join("@c", "S"), SetOrigin("S", "d", {"m": ("@a", "@c")})))
    assert undone(labelled, Leave("@a", "S")).scopes["S"].labels == {"m": ("@a", "@c")}
    assert undone(labelled, Leave("@a", "S"), since=(Leave("@c", "S"),)).scopes["S"].labels == {"m": ("@a",)}
    assert digest(undone(labelled, DestroyScope("S", cascade=True))) == digest(labelled)
    relabelled = SetOrigin("S", "d", {"m": ("@a",)}), SetOrigin("S", "d", {"m": ()})
    with pytest.raises(ScopeError, match="label m of 'S' was changed again: it is none, and was made @a"):
        undone(labelled, relabelled[0], since=relabelled[1:])


def test_a_digest_tells_graphs_apart_and_not_their_versions() -> None:
    assert digest(SMALL) == digest(SMALL.numbered(99))
    assert digest(apply(SMALL, (Anchor("S", "b1"),))) == digest(SMALL)
    again = apply(apply(SMALL, (Leave("@a", "S"),)), (Join("@a", "S"),))
    assert digest(again) == digest(SMALL)
    others = [
        apply(SMALL, (change,))
        for change in (
            SetRoles("S", ()),
            SetAttributes("@a", {"x": 1}),
            SetAttributes("@a", {"x": True}),
            Leave("@b", "T"),
            Anchor("S", "b1", stay=True),
            Impose("S", Interface.parse(input="n = 1"), "@a"),
            CreateScope("U"),
        )
    ]
    assert len({digest(graph) for graph in (SMALL, *others)}) == len(others) + 1


def test_a_client_that_left_its_last_scope_is_in_the_root_scope_again_once_that_is_forgotten() -> None:
    isolated = apply(SMALL, (Leave("@a", "S"),))
    assert not isolated.upward("@a")
    assert list(apply(isolated, (Forget("@a"),)).upward("@a")) == [""]
    for client, problem in (("@b", "is a member of 1 scopes"), ("@c", "nothing to forget"), ("S", "is a member of 1")):
        with pytest.raises(ScopeError, match=problem):
            apply(isolated, (Forget(client),))


@pytest.mark.parametrize("mode", list(Mode))
def test_a_client_that_is_forgotten_hears_and_is_heard_in_the_root_scope_again(mode: Mode) -> None:
    world = Watched("abc", ["ab", "bc"], {"x": "a", "y": "c", "z": "b"})
    world.subscribe()
    world.publish("x", n=1)
    assert not world.change(CreateScope("S", OPEN), Join("@y", "S"), mode=mode).error
    assert not world.change(Leave("@y", "S"), mode=mode).error
    world.publish("x", n=2)
    assert not world.change(Forget("@y"), mode=mode).error
    world.publish("x", n=3)
    assert world.got("y") == [Notification(n=1), Notification(n=3)]
    world.publish("y", n=4)
    assert world.got("z") == [Notification(n=number) for number in (1, 2, 3, 4)]


def test_undoing_in_a_network_gives_everybody_back_what_they_had() -> None:
    world = Watched("abc", ["ab", "bc"], {"x": "a", "y": "c", "z": "b"})
    world.subscribe()
    before = world.scopes("a").graph
    assert not world.change(CreateScope("S", OPEN), Join("@y", "S"), Join("@x", "S")).error
    made = world.scopes("a").versions.transaction(before.version + 1)
    assert made is not None
    world.publish("x", n=1)
    assert not world.change(*inverse(before, made, world.scopes("a").graph)).error
    assert digest(world.scopes("c").graph) == digest(before)
    world.publish("x", n=2)
    assert world.got("z") == [Notification(n=2)]
    assert world.got("y") == [Notification(n=1), Notification(n=2)]
