"""A transaction is made on a draft: it comes to the same as one change after the other, and is nobody else's."""

from __future__ import annotations

import random

import pytest
from scopes.planning_world import planned

from tidings.model import ScopeError
from tidings.scopes import (
    OPEN,
    Anchor,
    AnyChange,
    CreateScope,
    Define,
    DestroyScope,
    Forget,
    Graph,
    Join,
    Leave,
    SetAttributes,
    SetInterface,
    SetRoles,
    Unanchor,
    apply,
)

NODES = ["@a", "@b", "@c", "a", "b", "c"]
SCOPES = ["", "a", "b", "c"]
ALL: list[AnyChange] = [
    *(CreateScope(id, OPEN, abstract=abstract) for id in SCOPES[1:] for abstract in (False, True)),
    *(DestroyScope(id, cascade) for id in SCOPES for cascade in (False, True)),
    *(kind(node, id) for node in NODES for id in SCOPES for kind in (Join, Leave, Join, Leave)),
    *(Forget(node) for node in NODES),
    *(SetRoles(node, roles) for node in NODES for roles in ((), ("r",))),
    *(SetAttributes(node, said) for node in NODES for said in ({"k": 1}, {"k": None})),
    *(SetInterface(id, OPEN) for id in SCOPES),
    *(
        kind(id, broker, stay)
        for id in SCOPES
        for broker in "xy"
        for stay in (False, True)
        for kind in (Anchor, Unanchor)
    ),
    *(Define(name, "DEFINE SCOPE d AS") for name in "de"),
]


def looked_at(graph: Graph) -> tuple[object, ...]:
    """All that a graph remembers of itself, worked out now if it was not."""
    scopes = sorted(graph.scopes)
    nodes = sorted(graph.nodes())
    return (
        [sorted(graph.members(id).items()) for id in scopes],
        [graph.anchored(id) for id in scopes],
        [sorted(graph.upward(one).items()) for one in (*nodes, "@a", "@b", "@c")],
        sorted(graph.memberships(), key=lambda edge: (edge.member, edge.scope)),
        sorted(graph.isolated),
    )


START = (
    *(CreateScope(id, OPEN) for id in "abc"),
    *(Join("a", "b"), Join("@a", "a"), Join("@b", "b"), Join("@c", "c"), Leave("@c", "c")),
    *(Anchor("a", "x"), Anchor("b", "y")),
)


@pytest.mark.parametrize("refused", [False, True])
@pytest.mark.parametrize("remembered", [False, True])
def test_a_transaction_comes_to_the_same_as_its_changes_one_after_the_other(remembered: bool, refused: bool) -> None:
    dice = random.Random(17)
    for _ in range(150):
        drawn = [dice.choice(ALL) for _ in range(dice.randint(2, 40))]
        compare(drawn, remembered, refused)


def compare(drawn: list[AnyChange], remembered: bool, refused: bool) -> None:
    """Make the drawn changes that can be made at once and one by one; or all up to the first that cannot."""
    before = apply(Graph(), START)
    before = Graph(before.version, before.scopes, before._supers, before.anchors)
    was = looked_at(Graph(before.version, before.scopes, before._supers, before.anchors))
    if remembered:
        looked_at(before)
    fold, problem = before, ""
    changes: list[AnyChange] = []
    for change in drawn:
        try:
            fold = apply(fold, (change,)).numbered(before.version)  # all are of one version
            changes.append(change)
        except ScopeError as error:
            if refused:  # the first that cannot be is the last
                changes, problem = [*changes, change], str(error)
                break
    if problem:
        with pytest.raises(ScopeError) as caught:
            apply(before, tuple(changes))
        assert str(caught.value) == problem
    else:
        after = apply(before, tuple(changes))
        assert after == fold.numbered(before.version + 1)
        assert looked_at(after) == looked_at(fold)
        assert type(after) is Graph
    assert looked_at(before) == was, "the graph of before is as it was"


@pytest.mark.parametrize("seed", range(5))
def test_random_scripts_come_to_the_same_too(seed: int) -> None:
    one = planned(seed)
    fold = one.before
    for change in one.changes:
        fold = apply(fold, (change,)).numbered(one.before.version)
    after = apply(one.before, one.changes)
    assert after == fold.numbered(after.version)
    assert looked_at(after) == looked_at(fold)
