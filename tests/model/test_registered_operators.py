"""Operators of one's own are part of the filter language."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tidings.model import (
    EVERYTHING,
    Constraint,
    FilterError,
    FilterSyntaxError,
    Kind,
    Scalar,
    _operator_words,
    register_operator,
)
from tidings.model._language import _remembered, parse
from tidings.model._names import quoted


class Divisible(Constraint):
    __slots__ = ("by", "name")
    kind = Kind.NUMBER

    def __init__(self, name: str, by: int) -> None:
        if not isinstance(by, int) or by < 1:
            raise FilterError(f"'{name}': {by!r} divides nothing; use a positive integer")
        self.name = name
        self.by = by

    def holds(self, scalar: Scalar) -> bool:
        return type(scalar) is int and scalar % self.by == 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Divisible) and (self.name, self.by) == (other.name, other.by)

    def __hash__(self) -> int:
        return hash((self.name, self.by))

    def __str__(self) -> str:
        return f"{quoted(self.name)} DIVISIBLE_BY {self.by}"


@pytest.fixture
def divisible(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(_operator_words, "_FACTORIES", {})
    _remembered.cache_clear()
    register_operator("divisible_by", Divisible)
    register_operator("WEIRD", lambda name, *operands: operands)  # type: ignore[arg-type, return-value]
    yield
    _remembered.cache_clear()


@pytest.mark.req("VIS-107", "VIS-114")
@pytest.mark.usefixtures("divisible")
def test_a_registered_operator_is_part_of_the_language() -> None:
    f = parse("size DIVISIBLE_BY 4 AND NOT size divisible_by (100)")
    assert [size for size in (4, 6, 100, 104) if f.matches({"size": size})] == [4, 104]
    assert parse(str(f)) == f
    assert parse("divisible_by = 1").matches({"divisible_by": 1})


@pytest.mark.req("VIS-114")
@pytest.mark.usefixtures("divisible")
def test_an_operator_that_only_holds_gets_safe_relations() -> None:
    fours, sixes = parse("size DIVISIBLE_BY 4"), parse("size DIVISIBLE_BY 6")
    assert EVERYTHING.covers(fours)
    assert fours.covers(parse("size DIVISIBLE_BY 4 AND a = 1"))
    assert fours.covers(parse("size IN (8, 12)"))
    assert not fours.covers(parse("size IN (8, 13)"))
    assert not fours.covers(parse("size DIVISIBLE_BY 8"))  # it would, if somebody had told
    assert fours.overlaps(sixes)
    assert not fours.overlaps(parse("size = 6"))
    assert not fours.overlaps(parse("size = '4'"))
    assert fours.merge(sixes) is None
    assert parse(str(fours.canonical())).id == fours.id


@pytest.mark.usefixtures("divisible")
@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("size DIVISIBLE_BY 0", 6),
        ("size DIVISIBLE_BY (1, 2, 3)", 6),
        ("size DIVISIBLE_BY ()", 6),
        ("size DIVISIBLE_BY", 18),
        ("size WEIRD 3", 6),
    ],
)
def test_what_a_registered_operator_refuses_points_at_the_column(text: str, column: int) -> None:
    with pytest.raises(FilterSyntaxError) as raised:
        parse(text)
    assert raised.value.column == column


@pytest.mark.parametrize("word", ["AND", "like", "two words", "", "1ST", "a.b", "größer"])
def test_a_word_that_cannot_be_an_operator_is_refused(word: str) -> None:
    with pytest.raises(FilterError):
        register_operator(word, Divisible)


@pytest.mark.usefixtures("divisible")
def test_a_word_has_one_meaning() -> None:
    register_operator("DIVISIBLE_BY", Divisible)
    with pytest.raises(FilterError, match="exists"):
        register_operator("DIVISIBLE_BY", lambda name: Divisible(name, 2))
