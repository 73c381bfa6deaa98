"""`WITHIN`, and the marker `myloc`."""

from __future__ import annotations

import itertools

import pytest

from tidings.model import Conjunction, Constraint, Filter, Kind, Location, Negated
from tidings.model._algebra import covers, merge, overlaps, witness
from tidings.model._location import MAX_DEPTH
from tidings.model.operators import Equal, Exists, Member, MyLoc, Within

HERE, UP = Within("x", MyLoc()), Within("x", MyLoc(1))


def at(path: str) -> Within:
    return Within("x", Location(path))


@pytest.mark.parametrize(
    ("cover", "covered", "covers"),
    [
        ("x WITHIN LOCATION '/p'", "x WITHIN LOCATION '/p/q'", True),
        ("x WITHIN LOCATION '/p'", "x = LOCATION '/p/q'", True),
        ("x WITHIN LOCATION '/p'", "x IN (LOCATION '/p', LOCATION '/p/q')", True),
        ("x WITHIN LOCATION '/'", "x WITHIN LOCATION '/p'", True),
        ("x WITHIN LOCATION '/'", "x WITHIN myloc", True),
        ("x WITHIN myloc(1)", "x WITHIN myloc", True),
        ("x EXISTS", "x WITHIN myloc", True),
        ("x NOT WITHIN LOCATION '/p/q'", "x NOT WITHIN LOCATION '/p'", True),
        ("x NOT WITHIN myloc", "x NOT WITHIN myloc(1)", True),
        ("x WITHIN LOCATION '/p/q'", "x WITHIN LOCATION '/p'", False),
        ("x WITHIN LOCATION '/p'", "x WITHIN LOCATION '/pq'", False),
        ("x WITHIN LOCATION '/p'", "x WITHIN LOCATION '/p' OR x = '/p'", False),
        ("x WITHIN myloc", "x WITHIN myloc(1)", False),
        ("x WITHIN LOCATION '/p'", "x WITHIN myloc", False),
        ("x WITHIN myloc", "x WITHIN LOCATION '/p'", False),
        ("y = 1", "x WITHIN myloc", False),
    ],
)
def test_covering(cover: str, covered: str, covers: bool) -> None:
    assert Filter.parse(cover).covers(Filter.parse(covered)) is covers


@pytest.mark.parametrize(
    ("one", "two", "overlap"),
    [
        ("x WITHIN LOCATION '/p'", "x WITHIN LOCATION '/p/q'", True),
        ("x WITHIN LOCATION '/p'", "x WITHIN LOCATION '/q'", False),
        ("x WITHIN LOCATION '/p'", "x = LOCATION '/q'", False),
        ("x WITHIN LOCATION '/p'", "x NOT WITHIN LOCATION '/'", False),
        ("x WITHIN LOCATION '/p'", "x <> LOCATION '/p'", True),
        ("x WITHIN LOCATION '/p'", "x = '/p'", False),
        ("x WITHIN LOCATION '/p'", "x WITHIN myloc", True),
        ("x WITHIN myloc", "x = LOCATION '/p'", True),
        ("x WITHIN myloc", "x = '/p'", False),
    ],
)
def test_overlaps(one: str, two: str, overlap: bool) -> None:
    assert Filter.parse(one).overlaps(Filter.parse(two)) is overlap
    assert Filter.parse(two).overlaps(Filter.parse(one)) is overlap


def test_the_hull_is_the_smallest_place_around_both() -> None:
    assert at("/p/q/r").hull(at("/p/q/s")) == at("/p/q")
    assert at("/p/q/r").hull(Equal("x", Location("/p/s"))) == at("/p")
    assert at("/p/q/r").hull(Member("x", (Location("/p/q/t"), Location("/p")))) == at("/p")
    assert at("/p").hull(at("/p/q")) == at("/p")
    assert at("/p").hull(at("/q")) is None
    assert at("/p").hull(Equal("x", "/p")) is None
    assert HERE.hull(at("/p")) is None
    assert at("/p").hull(HERE) is None
    assert HERE.hull(UP) == UP


def resolved(constraint: Constraint, here: Location) -> Constraint:
    if isinstance(constraint, Negated):
        return Negated(resolved(constraint.inner, here))
    assert isinstance(constraint, Within)
    return constraint.resolve(here)


@pytest.mark.parametrize("here", ["/p/q/r", "/p", "/"])
def test_what_is_said_of_a_marker_stays_true_once_it_is_resolved(here: str) -> None:
    some = [HERE, UP, Negated(HERE), Negated(UP), at("/"), at("/p"), at("/p/q/r"), Negated(at("/p"))]
    for one, two in itertools.product(some, repeat=2):
        before = (Conjunction((one,)),), (Conjunction((two,)),)
        after = tuple((Conjunction((resolved(each, Location(here)),)),) for each in (one, two))
        assert not covers(*before) or covers(*after), (one, two)
        assert overlaps(*before) or not overlaps(*after), (one, two)
        if (merger := merge(*before)) is not None:
            (constraint,) = merger[0]
            assert covers((Conjunction((resolved(constraint, Location(here)),)),), after[0] + after[1])


def test_a_marker_has_no_witness_and_is_never_dropped() -> None:
    assert witness(Conjunction((HERE,))) is None
    assert HERE in Filter([Conjunction((HERE, Exists("x")))]).canonical().conjunctions[0]


def test_the_deepest_place_has_an_example() -> None:
    deepest = Location(("p",) * MAX_DEPTH)
    assert list(Within("x", deepest).examples()) == [deepest]
    assert Within("x", deepest).kind is Kind.PLACE
