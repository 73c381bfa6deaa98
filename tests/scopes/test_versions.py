"""Versions: every version of the graph that is remembered can be worked out again."""

from __future__ import annotations

import pytest

from tidings.broker import MAX_COST
from tidings.broker.interest._visibility import joint, same_passage
from tidings.model import EVERYTHING, Filter, Notification, ScopeError
from tidings.scopes import (
    OPEN,
    CreateScope,
    Graph,
    Interface,
    Join,
    Passage,
    Plan,
    SetAttributes,
    SetInterface,
    Transaction,
    Versions,
    apply,
)
from tidings.scopes.service._versions import MAX_VERSIONS


def transaction(version: int) -> Transaction:
    change = CreateScope("S") if version == 1 else SetAttributes("S", {"version": str(version)})
    return Transaction(version, (change,), "ann", version, f"r{version}")


def history(length: int) -> Versions:
    return Versions(Graph(), map(transaction, range(1, length + 1)))


def test_versions_follow_one_another() -> None:
    some = history(3)
    assert some.newest == some.graph.version == 3
    with pytest.raises(ScopeError, match="version 5 of the scope graph cannot follow 3"):
        some.add(transaction(5))
    assert some.transaction(2) == transaction(2)
    assert some.transaction(4) is None
    assert some.since(1) == [transaction(2), transaction(3)]


def test_a_version_that_was_forgotten_is_worked_out_again() -> None:
    some = history(MAX_VERSIONS)
    expected = some.plan(MAX_VERSIONS - 1).graph
    some.forget_plans(some.newest)
    assert some.plan(MAX_VERSIONS - 1).graph == expected
    some.forget_plans(some.newest)
    assert some.plan(2).graph == apply(apply(Graph(), transaction(1).changes), transaction(2).changes)


def test_only_so_many_versions_are_remembered() -> None:
    some = history(MAX_VERSIONS)
    some.forget_plans(some.newest)
    some.add(transaction(MAX_VERSIONS + 1))
    assert some.recall(1) is None
    assert some.recall(MAX_VERSIONS + 2) is None
    oldest = some.recall(MAX_VERSIONS // 2)
    assert oldest is not None
    assert oldest.graph.scope("S").attributes == {"version": str(MAX_VERSIONS // 2)}
    assert some.newest == MAX_VERSIONS + 1


def passages(*interfaces: Interface) -> list[Passage]:
    """One edge as each of several versions has it, the newest first."""
    made, graph = [], apply(Graph(), (CreateScope("S"), CreateScope("T"), Join("S", "T")))
    for interface in interfaces:
        graph = apply(graph, (SetInterface("S", interface),))
        made.append(Plan(graph).passage("S", "T"))
    return made[::-1]


def test_while_several_versions_count_an_edge_asks_for_what_any_of_them_lets_pass() -> None:
    new, old = passages(Interface.parse(input="n < 5", output="n > 20"), Interface.parse(input="n = 3 OR n = 7"))
    edge = joint((new, old))
    assert edge.wanted(EVERYTHING) == Filter.parse("n < 5 OR n = 7")
    assert edge.wanted(Filter.parse("k = 1")) == Filter.parse("(k = 1 AND n < 5) OR (k = 1 AND n = 7)").canonical()
    assert edge.offered(Filter.parse("k = 1")) == Filter.parse("k = 1")  # in the older version
    assert edge.inward(Notification(n=4)) is None  # by itself it decides as the newest does
    assert edge.inward(Notification(n=7)) is not None


def test_an_edge_that_stayed_as_it_was_is_one() -> None:
    (only,) = passages(OPEN)
    assert joint((only, only)) is only
    new, old = passages(Interface.parse(input="n < 5"), OPEN)
    assert same_passage(joint((new, old)), joint((new, new, old)))
    assert not same_passage(joint((new, old)), new)
    assert not same_passage(new, old)


def test_what_would_cost_too_much_is_asked_for_without_a_filter() -> None:
    texts = (" OR ".join(f"{name}{number} = 1" for number in range(MAX_COST * 2 // 3)) for name in "ab")
    edge = joint(passages(*(Interface.parse(input=text) for text in texts)))
    assert edge.wanted(EVERYTHING) == EVERYTHING
