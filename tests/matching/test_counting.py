"""The counting algorithm: each distinct constraint is evaluated once per notification."""

from __future__ import annotations

import pytest
from bench._counting_index import CountingIndex
from bench._naive_index import NaiveIndex

from tidings.matching import Matcher, make_index
from tidings.model import EVERYTHING, Conjunction, Constraint, Filter, Kind, Notification, Scalar
from tidings.model.operators import Equal


class Interface(Constraint):
    """A costly constraint that counts how often it is evaluated."""

    def __init__(self, name: str, calls: list[str]) -> None:
        self.name = name
        self.calls = calls

    @property
    def kind(self) -> Kind:
        return Kind.NUMBER

    def holds(self, scalar: Scalar) -> bool:
        self.calls.append(self.name)
        return scalar == 1

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Interface) and other.name == self.name

    def __hash__(self) -> int:
        return hash((Interface, self.name))

    def __str__(self) -> str:
        return f"INTERFACE {self.name}"


def members_of_a_scope(index: Matcher[int], calls: list[str], many: int) -> None:
    """The same two interface constraints in front of every member's own filter."""
    for key in range(many):
        constraints = [Interface("in", calls), Interface("out", calls), Equal("member", key % 10)]
        index.add(Filter([Conjunction(constraints)]), key)


@pytest.mark.req("ARC-067")
def test_a_constraint_that_many_filters_share_is_evaluated_once() -> None:
    calls: list[str] = []
    counting: CountingIndex[int] = CountingIndex()
    members_of_a_scope(counting, calls, 100)
    event = Notification({"in": 1, "out": 1, "member": 3})
    assert sorted(counting.match(event)) == list(range(3, 100, 10))
    assert sorted(calls) == ["in", "out"]
    assert counting.statistics()["constraints"] == 12

    calls.clear()
    naive: NaiveIndex[int] = NaiveIndex()
    members_of_a_scope(naive, calls, 100)
    assert naive.match(event) == list(range(3, 100, 10))
    assert len(calls) == 200


def test_equal_constraints_in_one_conjunction_count_once() -> None:
    """`x = 1` and `x = 1.0` are written differently, but are one constraint."""
    index: CountingIndex[str] = CountingIndex()
    index.add(Filter([Conjunction([Equal("x", 1), Equal("x", 1.0)])]), "both")
    assert index.match(Notification(x=1)) == ["both"]
    index.remove("both")
    assert set(index.statistics().values()) == {0}


def test_the_usual_engine_can_be_exchanged() -> None:
    engines: list[Matcher[str]] = [make_index(), CountingIndex(), NaiveIndex()]
    for engine in engines:
        engine.add(EVERYTHING, "alice")
        engine.add(Filter([Conjunction([Equal("x", 1)])]), "bob")
        assert "bob" in engine
        assert len(engine) == 2
        assert engine.match_many([Notification(x=1), Notification(x=2)]) == [["alice", "bob"], ["alice"]]
        assert engine.statistics()["filters"] == engine.statistics()["conjunctions"] == 2
        engine.remove("alice")
        assert engine.match(Notification(x=2)) == []
