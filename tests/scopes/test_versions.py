"""Versions: every version of the graph that is remembered can be worked out again."""

from __future__ import annotations

import pytest

from tidings.model import ScopeError
from tidings.scopes import CreateScope, Graph, SetAttributes, Transaction, Versions, apply
from tidings.scopes._versions import MAX_VERSIONS


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
