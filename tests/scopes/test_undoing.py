"""Undoing one transaction gives the graph before, or says what stands in the way."""

from __future__ import annotations

import random

import pytest
from scopes.network_world import Watched
from scopes.test_changes import random_change

from tidings.model import Notification, ScopeError
from tidings.scopes import (
    OPEN,
    Anchor,
    AnyChange,
    CreateScope,
    DestroyScope,
    Forget,
    Graph,
    Impose,
    Interface,
    Join,
    Leave,
    Mode,
    SetAttributes,
    SetInterface,
    SetRoles,
    Transaction,
    apply,
    digest,
    inverse,
)

SMALL = apply(
    Graph(),
    (
        *(CreateScope("S", OPEN, roles=("house",)), CreateScope("T", OPEN, attributes={"city": "Rome"})),
        *(Join("S", "T"), Join("@a", "S"), Join("@b", "T")),
    ),
)


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


def says_again(graph: Graph, changes: tuple[AnyChange, ...]) -> bool:
    """Whether one of these changes changes nothing."""
    for change in changes:
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
        if not any(isinstance(change, Forget) for change in changes):
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
    ("changes", "since", "problem"),
    [
        (
            (SetInterface("S", OPEN),),
            (SetInterface("S", Interface.parse(input="n = 1")),),
            "the interface of 'S' changed again since then; undo that first, or change it by hand",
        ),
        (
            (SetAttributes("T", {"city": "Oslo"}),),
            (SetAttributes("T", {"city": "Bonn"}),),
            "the attribute 'city' of 'T' changed again since then; undo that first, or change it by hand",
        ),
        (
            (SetRoles("@a", ("boss",)),),
            (SetRoles("@a", ()),),
            "the roles of '@a' changed again since then; undo that first, or change it by hand",
        ),
        (
            (CreateScope("U"),),
            (Join("@c", "U"),),
            "version 2 cannot be undone: scope 'U' has 1 members and 0 superscopes; let them leave first, or destroy "
            "it with cascade",
        ),
        ((CreateScope("U"),), (DestroyScope("U"),), "the scope 'U' is gone since then, so nothing of it can be undone"),
        (
            (Join("@c", "S"),),
            (Leave("@c", "S"),),
            "'@c' has left 'S' since then; let it join again first",
        ),
        (
            (Join("@c", "S"),),
            (Impose("S", Interface.parse(input="n = 1"), "@c"),),
            "the membership of '@c' in 'S' changed again since then; undo that first, or change it by hand",
        ),
        (
            (DestroyScope("S", cascade=True),),
            (CreateScope("S"),),
            "version 2 cannot be undone: a scope 'S' exists already; choose another name, or change that one",
        ),
        (
            (Leave("@b", "T"),),
            (Join("@b", "T"),),
            "version 2 cannot be undone: '@b' is a member of 'T' already; change the edge instead",
        ),
        (
            (Leave("@b", "T"), Forget("@b")),
            (),
            "'@b' was a member of nothing before, and is in the root scope since then; make it a member of a scope "
            "instead",
        ),
    ],
)
def test_what_stands_in_the_way_is_named(
    changes: tuple[AnyChange, ...], since: tuple[AnyChange, ...], problem: str
) -> None:
    with pytest.raises(ScopeError) as error:
        undone(SMALL, *changes, since=since)
    assert str(error.value) == problem


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
