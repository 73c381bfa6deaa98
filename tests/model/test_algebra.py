"""The algebra of whole filters, by example; the laws are in `test_algebra_laws.py`."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import time
from dataclasses import dataclass

import pytest

from tidings.model import (
    EVERYTHING,
    NOTHING,
    Conjunction,
    Constraint,
    Filter,
    FilterTooLarge,
    Kind,
    Negated,
    Notification,
    Scalar,
)
from tidings.model._algebra import precision, witness
from tidings.model._limits import MAX_CONJUNCTIONS, MAX_FILTER_TEXT
from tidings.model.operators import Equal, Member

parse = Filter.parse


@pytest.mark.parametrize(
    ("cover", "covered", "covers"),
    [
        ("TRUE", "x = 1", True),
        ("x = 1", "FALSE", True),
        ("FALSE", "FALSE", True),
        ("FALSE", "x = 1", False),
        ("x = 1", "TRUE", False),
        ("FALSE", "x = 1 AND x <> 1", True),
        ("x = 1 OR y = 1", "y = 1 AND z = 1 OR x = 1 AND z = 2", True),
        ("x = 1 OR y = 1", "x = 1 OR z = 1", False),
        ("type = 'quote'", "type = 'quote' AND price BETWEEN 150 AND 200", True),
        ("type = 'quote' AND price > 100", "type = 'quote'", False),
        ("x > 1 AND y < 9", "x = 5 AND y = 5 AND z = 5", True),
        ("x > 1 AND y < 9", "x = 5 AND y = 10", False),
        ("x = 1 AND y = 1 OR x = 2 AND y = 1", "x IN (1, 2) AND y = 1", True),
        ("x = 1 AND y = 1 OR x = 2 AND y = 2", "x IN (1, 2) AND y IN (1, 2)", False),
    ],
)
@pytest.mark.req("VIS-114", "ARC-197", "HIS-007")
def test_covering(cover: str, covered: str, covers: bool) -> None:
    assert parse(cover).covers(parse(covered)) is covers


@pytest.mark.parametrize(
    ("subscription", "advertisement", "overlap"),
    [
        ("type = 'quote'", "type = 'quote' AND price > 0", True),
        ("type = 'quote'", "type = 'trade'", False),
        ("type = 'quote' AND price > 10", "type = 'quote' AND price < 10", False),
        ("x = 1 OR y = 1", "x = 2 AND y = 2", False),
        ("x = 1 OR y = 1", "x = 2 AND y = 1", True),
        ("FALSE", "TRUE", False),
        ("x = 1 AND x <> 1", "TRUE", False),
        # A disjunction promises lists whose elements pass different parts of it.
        ("tags = 'a' AND tags = 'b'", "tags = 'a' OR tags = 'b'", True),
        ("tags = 'a' AND tags = 'b'", "tags = 'a' OR tags = 'c'", False),
        ("tags = 'a' AND tags = 'b' AND n = 1", "tags = 'a' AND n = 1 OR tags = 'b' AND n = 2", False),
        ("tags = 'a' AND tags = 'b' AND n = 1", "tags = 'a' AND n = 1 OR tags = 'b' AND n < 2", True),
    ],
)
@pytest.mark.req("VIS-114", "ARC-197", "HIS-007")
def test_overlap(subscription: str, advertisement: str, overlap: bool) -> None:
    assert parse(subscription).overlaps(parse(advertisement)) is overlap
    assert parse(advertisement).overlaps(parse(subscription)) is overlap


@pytest.mark.parametrize(
    ("one", "two", "merger"),
    [
        ("x = 1", "x = 2", "x IN (1, 2)"),
        ("t = 'q' AND x = 1", "t = 'q' AND x IN (2, 3)", "t = 'q' AND x IN (1, 2, 3)"),
        ("x BETWEEN 1 AND 3", "x BETWEEN 3 AND 5", "x BETWEEN 1 AND 5"),
        ("x > 1 AND y = 1", "x > 3 AND y = 1", "x > 1 AND y = 1"),
        ("x = 1", "x = 1 AND y = 1", "x = 1"),
        ("x = 1", "x = 1", "x = 1"),
        ("x = 1 OR y = 1", "x = 2 OR z = 1", "x IN (1, 2) OR y = 1 OR z = 1"),
        ("x = 1 AND y = 1 OR x = 2 AND y = 1", "x = 1 AND y = 2 OR x = 2 AND y = 2", "x IN (1, 2) AND y IN (1, 2)"),
        ("x IS NULL", "x EXISTS", "TRUE"),
        ("FALSE", "x = 1", "x = 1"),
        ("x = 1", "x = 'a'", None),
        ("x = 1", "y = 1", None),
        ("x = 1 AND y = 1", "x = 2 AND y = 2", None),
        ("x > 1", "x < 0", None),
        ("x <> 1", "x <> 2", None),  # the list [1, 2] passes neither
        ("x <> 1", "x = 1", None),  # the scalar 'a' passes neither
    ],
)
@pytest.mark.req("VIS-114", "ARC-197", "HIS-007")
def test_perfect_merging(one: str, two: str, merger: str | None) -> None:
    expected = None if merger is None else parse(merger).canonical()
    for a, b in itertools.permutations((parse(one), parse(two))):
        found = a.merge(b)
        assert (None if found is None else found.canonical()) == expected


@pytest.mark.parametrize(
    ("one", "two", "merger", "share"),
    [
        ("x BETWEEN 0 AND 4", "x BETWEEN 6 AND 10", "x BETWEEN 0 AND 10", 0.8),
        ("x BETWEEN 0 AND 4 AND t = 'q'", "x BETWEEN 6 AND 10 AND t = 'q'", "x BETWEEN 0 AND 10 AND t = 'q'", 0.8),
        ("p WITHIN LOCATION '/a/b'", "p WITHIN LOCATION '/a/c'", "p WITHIN LOCATION '/a'", 0.2),
        ("s LIKE 'abc%'", "s LIKE 'abd%'", "s LIKE 'ab%'", 0.2),
        ("t = 'q' AND s = 'a'", "t = 'q' AND x > 3", "t = 'q'", 1 / 10 + 1 / 3 - 1 / 30),
        ("x = 1 AND y = 1", "x = 2 AND y = 2", "x IN (1, 2) AND y IN (1, 2)", 0.5),
        ("x = 1", "x = 'a'", "x EXISTS", 0.2),
        ("x <> 1", "x NOT IN (2, 3)", "x EXISTS", 0.9 + 0.8 - 0.9 * 0.8),
        ("x NOT IN (1, 2)", "x NOT IN (2, 3)", "x <> 2", None),
        ("x > 5 AND y > 3", "x > 3 AND y > 5", "x > 3 AND y > 3", 1.0),
        ("x IS NULL AND y = 1", "x = 1 AND y = 1", "y = 1", 0.2),
    ],
)
@pytest.mark.req("VIS-114", "ARC-197", "HIS-007")
def test_imperfect_merging_down_to_a_precision(one: str, two: str, merger: str, share: float | None) -> None:
    parts = parse(one).conjunctions + parse(two).conjunctions
    estimate = precision(parse(merger).conjunctions, parts)
    assert share is None or estimate == pytest.approx(share)
    assert parse(one).merge(parse(two), precision=estimate - 0.01) == parse(merger).canonical()
    if estimate < 0.99:
        assert parse(one).merge(parse(two), precision=estimate + 0.01) is None


def test_an_imperfect_merger_is_no_less_precise_than_asked_for_all_its_parts() -> None:
    ranges = [parse(f"x BETWEEN {low} AND {low + 1}") for low in range(0, 12, 2)]
    merged = Filter(part for one in ranges for part in one.conjunctions)
    rest = parse("x BETWEEN 100 AND 101")
    rough = merged.merge(rest, precision=0.4)
    assert rough is not None
    assert precision(rough.conjunctions, merged.conjunctions + rest.conjunctions) >= 0.4
    assert not rough.matches({"x": 50})
    assert merged.merge(rest) is None


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("y = 1 AND x = 1", "x = 1 AND y = 1"),
        ("x = 1 OR x = 1.0", "x = 1"),
        ("x = 1 OR x = 1 AND y = 1", "x = 1"),
        ("x = 1 OR TRUE", "TRUE"),
        ("x = 1 OR x <> 1 AND x = 1", "x = 1"),
        ("x = 1 AND x = 'a'", "x = 'a' AND x = 1"),  # the list [1, 'a'] passes
        ("x > 5 AND x < 3", "x > 5 AND x < 3"),  # the list [1, 9] passes
        ("x IN (1, 2) AND x <> 2 AND x > 0", "x <> 2 AND x = 1"),
        ("x LIKE 'a%' AND x LIKE 'ab%' AND x >= 'a'", "x LIKE 'ab%'"),
        ("x NOT LIKE 'a%' AND x <> 'ab' AND x <> 'b'", "x <> 'b' AND x NOT LIKE 'a%'"),
        ("x WITHIN LOCATION '/a' AND x WITHIN LOCATION '/a/b'", "x WITHIN LOCATION '/a/b'"),
    ],
)
def test_the_canonical_form(written: str, canonical: str) -> None:
    assert str(parse(written).canonical()) == str(parse(canonical))
    assert parse(written).id == parse(canonical).id


def test_the_canonical_form_is_never_too_long_to_be_sent() -> None:
    name = "n" * 250
    part = "({name} BETWEEN 1 AND 2 AND {name} <> 1 AND a = {at})"
    large = parse(" OR ".join(part.format(name=name, at=at) for at in range(28)))
    assert len(str(large)) < MAX_FILTER_TEXT < len(str(large)) + 28 * len(name)
    form = large.canonical()
    assert len(str(form)) < MAX_FILTER_TEXT
    assert form.canonical() == form == Filter(reversed(large.conjunctions)).canonical()
    assert form.covers(large)
    assert large.covers(form)


@pytest.mark.parametrize(
    ("some", "opposite"),
    [
        ("x = 1", "x <> 1"),
        ("x <> 1", "x = 1"),
        ("x IN (1, 2)", "x NOT IN (1, 2)"),
        ("x LIKE 'a%'", "x NOT LIKE 'a%'"),
        ("x > 5", "x <= 5"),
        ("x = 1 AND y = 2", "x <> 1 OR y <> 2"),
        ("x = 1 OR y = 2", "x <> 1 AND y <> 2"),
        ("(x = 1 OR y = 1) AND z EXISTS", "x <> 1 AND y <> 1 OR z IS NULL"),
        ("TRUE", "FALSE"),
        ("FALSE", "TRUE"),
    ],
)
def test_the_opposite(some: str, opposite: str) -> None:
    assert (~parse(some)).canonical() == parse(opposite).canonical()


def test_filters_that_grow_too_large_are_refused_at_once() -> None:
    pairs = Filter(Conjunction((Equal(f"a{at}", 1), Equal(f"b{at}", 1))) for at in range(40))
    many = Filter(Conjunction((Equal("x", at),)) for at in range(MAX_CONJUNCTIONS))
    started = time.perf_counter()
    with pytest.raises(FilterTooLarge):
        Filter.__invert__(pairs)
    with pytest.raises(FilterTooLarge):
        many & Filter(Conjunction((Equal("y", at),)) for at in range(MAX_CONJUNCTIONS))
    with pytest.raises(FilterTooLarge):
        many | parse("y = 1")
    assert len((~many).conjunctions) == 1
    assert time.perf_counter() - started < 2


def _patterns(count: int) -> list[str]:
    """Patterns that take their time to be compared."""
    return [f"%{''.join(letters)}%" for letters in itertools.islice(itertools.product("a_b%", repeat=6), 1, None, 7)][
        :count
    ]


_HARD = {
    "many alternatives": " OR ".join(f"t = 'Q' AND x = {at} AND y = {at}" for at in range(250)),
    "many patterns at once": " AND ".join(f"x LIKE '{one}'" for one in _patterns(300)),
    "many patterns to choose from": " OR ".join(f"x LIKE '{one}'" for one in _patterns(250)),
    "patterns and their opposites": " AND ".join(f"x LIKE '{one}' AND x NOT LIKE 'Q{one}'" for one in _patterns(250)),
    "values and excluded patterns": " AND ".join(
        f"x = '{at}' AND x NOT LIKE '{one}'" for at, one in enumerate(_patterns(250))
    ),
    "pairs to choose from": " OR ".join(f"x LIKE '{one}' AND x NOT LIKE 'Q{one}'" for one in _patterns(250)),
}


@pytest.mark.parametrize("text", _HARD.values(), ids=_HARD.keys())
def test_no_filter_keeps_the_algebra_busy_for_long(text: str) -> None:
    mine, theirs = parse(text), parse(text.replace("Q", "b"))
    started = time.process_time()
    assert mine.canonical().canonical() == mine.canonical()
    assert mine.covers(mine)
    assert mine.witness() is None or mine.matches(mine.witness())  # type: ignore[arg-type]
    mine.covers(theirs)
    mine.overlaps(theirs)
    mine.merge(theirs, precision=0.5)
    assert time.process_time() - started < 20  # about 1 s on an idle machine


def test_what_is_remembered_does_not_change_an_answer() -> None:
    texts = [" AND ".join(f"x LIKE '{one}'" for one in _patterns(60)[at:]) for at in (0, 3)]
    one, two = map(parse, texts)
    fresh = (one.overlaps(two), two.covers(one), str(one.canonical()))
    again = (parse(texts[0]).overlaps(two), two.covers(parse(texts[0])), str(parse(texts[0]).canonical()))
    assert fresh == again


def test_results_do_not_depend_on_the_order_of_sets() -> None:
    program = (
        "from tidings.model import Filter\n"
        "one = Filter.parse(\"x IN ('d','c','b','a') AND y NOT IN (3, 1, 2) OR z LIKE 'a%' AND z LIKE '%b'\")\n"
        "two = Filter.parse(\"x IN ('e','f','g') AND y NOT IN (3, 1, 2) OR z LIKE 'ab%' AND q > 3\")\n"
        "print(one.canonical(), one.id, one.merge(two), one.merge(two, precision=0.1), ~one, one.witness())\n"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1


def test_a_witness_passes_whatever_covers_its_filter() -> None:
    narrow = parse("type = 'quote' AND price > 100 AND price < 100.5 AND symbol LIKE '%A_P%' AND tags <> 'old'")
    attributes = witness(narrow.conjunctions[0])
    assert attributes is not None
    assert narrow.matches(attributes)
    for wide in ("type = 'quote'", "price > 50 AND symbol LIKE '%A%'", "tags <> 'old'", "price EXISTS"):
        assert parse(wide).covers(narrow)
        assert parse(wide).matches(attributes)
    assert witness(parse("x = 1 AND x IS NULL").conjunctions[0]) is None
    assert EVERYTHING.witness() == Notification()
    assert NOTHING.witness() is None


# A newcomer's operator: what `tidings.model.Constraint` says one has to write, and nothing else.


@dataclass(frozen=True)
class InRectangle(Constraint):
    """A point, written as 'x y', lies in a rectangle."""

    name: str
    left: float
    bottom: float
    right: float
    top: float

    @property
    def kind(self) -> Kind:
        return Kind.TEXT

    def holds(self, scalar: Scalar) -> bool:
        if not isinstance(scalar, str):
            return False
        x, y = map(float, scalar.split())
        return self.left <= x <= self.right and self.bottom <= y <= self.top

    def __str__(self) -> str:
        return f"{self.name} IN RECTANGLE ({self.left}, {self.bottom}, {self.right}, {self.top})"


@pytest.mark.req("VIS-107", "VIS-114")
def test_a_newcomer_can_write_an_operator_from_the_docs_alone() -> None:
    def where(*constraints: Constraint) -> Filter:
        return Filter([Conjunction(constraints)])

    garden, shed = InRectangle("at", 0, 0, 10, 10), InRectangle("at", 1, 1, 2, 2)
    cat = Equal("who", "cat")

    assert where(garden).matches({"at": "5 5"})
    assert where(garden).matches({"at": ["20 20", "5 5"]})
    assert not where(garden).matches({"at": "20 5"})
    assert not where(garden).matches({"who": "cat"})
    assert (~where(garden)).matches({"at": "20 5"})
    assert not (~where(garden)).matches({"at": 7})

    assert where(garden).covers(where(garden, cat))
    assert where(garden).covers(where(Equal("at", "5 5")))
    assert where(garden).covers(where(Member("at", ("1 1", "2 2")), cat))
    assert where(Negated(shed)).covers(where(Negated(shed), cat))
    assert parse("at EXISTS").covers(where(garden))
    assert not where(garden).covers(where(shed))  # true, but nobody told
    assert not where(garden).covers(where(Equal("at", "5 50")))

    assert where(garden).overlaps(where(shed))
    assert not where(garden).overlaps(where(Equal("at", "5 50")))
    assert not where(garden).overlaps(parse("at > 3"))
    assert not where(garden).overlaps(parse("at IS NULL"))
    assert not where(garden).overlaps(where(Negated(garden)))

    assert where(garden).merge(where(garden, cat)) == where(garden)
    assert where(garden, cat).merge(where(garden, Equal("who", "dog"))) == where(garden, Member("who", ("cat", "dog")))
    assert where(garden).merge(where(shed)) is None
    assert where(garden, cat).merge(where(shed, cat), precision=0.1) == parse("at EXISTS AND who = 'cat'")

    assert where(garden, Equal("at", "5 5")).canonical() == parse("at = '5 5'")
    assert where(garden, shed).canonical() == where(shed, garden).canonical()
    assert where(garden).witness() is None
    assert where(garden, Equal("at", "5 5")).witness() == Notification(at="5 5")
