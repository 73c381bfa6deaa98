"""Forms: what becomes of a publication on a strand, told apart from whether it gets through.

Theory of operation
-------------------
A strand is a chain of filters and mappings (see `_exposure`). Run with symbols in place of values, it says where each
attribute of what is seen comes from: published under some name, as it is or computed linearly, a constant, or missing.
That is its *form*. Two strands with equal forms show a publication alike, however differently their mappings are
written.

Whether a publication gets through has two parts. The *filter* is all conditions, taken back to what is published. The
*needs* are the attributes that have to be numbers, because a conversion is undefined for anything else: no filter can
say that of the elements of a list. A strand is *exact* if these two decide it: whatever passes the filter and meets the
needs is seen. Where a step is not understood, or a condition cannot be taken back, it is not exact: then less may be
seen than passes the filter, never more.

All this is exact arithmetic. What notifications go through is rounded, and blocked where 64 bits do not suffice: forms
that differ by rounding alone count as equal, and numbers that are too large for it are left out of account.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from fractions import Fraction
from typing import Any, NamedTuple, TypeAlias

from tidings.model import EVERYTHING, NOTHING, Conjunction, Constraint, Filter, Kind, Negated
from tidings.model.operators import Exists, IsNull, Range
from tidings.model.operators.equal import among

from ._exposure import Exposure, Strand
from ._interface import both
from .mappings._convert import Convert
from .mappings._mapping import AnyStep
from .mappings._step import MappingFailed
from .mappings._steps import Add, Drop, Keep, Only, Rename
from .mappings._translate import absent, renamed


class Linear(NamedTuple):
    """A published attribute, times a factor, plus an offset."""

    name: str
    factor: Fraction = Fraction(1)
    offset: Fraction = Fraction(0)


class Fixed(NamedTuple):
    """A constant."""

    kind: type
    value: object


MISSING = None
Symbol: TypeAlias = Linear | Fixed | None
Form: TypeAlias = Hashable
"""Compared for equality, and nothing else."""


class Reduced(NamedTuple):
    """A strand as a form and what decides whether it is seen."""

    strand: Strand
    form: Form
    filter: Filter
    needs: frozenset[str]
    exact: bool
    nothing: bool = False
    """Whether nothing can get through at all."""


class _Opaque(Exception):
    """A step that cannot be followed."""


class _Symbols:
    """What the attributes are, in terms of those that were published."""

    def __init__(self) -> None:
        self._known: dict[str, Symbol] = {}
        self._others = True
        """Whether attributes that are not known are as they were published, or missing."""
        self.needs: set[str] = set()

    def conditions(self, filter: Filter) -> tuple[Filter, bool]:
        """A filter on what has become of a publication, as one on the publication; and whether that is exact."""
        parts, exact = [], True
        for conjunction in filter.conjunctions:
            answers = [taken_back(one, self.of(one.name)) for one in conjunction]
            exact = exact and None not in answers
            if not any(one is False for one in answers):
                parts.append(Conjunction(one for one in answers if isinstance(one, Constraint)))
        return Filter(parts), exact

    def of(self, name: str) -> Symbol:
        return self._known.get(name, Linear(name) if self._others else MISSING)

    def follow(self, step: AnyStep) -> None:
        match step:
            case Rename():
                self._known[step.new], self._known[step.old] = self.of(step.old), MISSING
            case Drop():
                self._known.update(dict.fromkeys(step.names))
            case Keep():
                self._known, self._others = {name: self.of(name) for name in step.names}, False
            case Add():
                self._known[step.name] = Fixed(type(step.value), step.value)
            case Convert() if step.source == step.target:
                self._known[step.name] = self._converted(step, self.of(step.name))
            case _:
                raise _Opaque

    def _converted(self, step: Convert, symbol: Symbol) -> Symbol:
        if symbol is MISSING:
            return MISSING
        if isinstance(symbol, Fixed):
            value = step.run({step.name: symbol.value})[step.name]  # type: ignore[dict-item]
            return Fixed(type(value), value)
        self.needs.add(symbol.name)
        factor, offset = Fraction(step.factor), Fraction(step.offset)
        if step.divide:
            factor, offset = 1 / factor, -offset / factor
        return Linear(symbol.name, symbol.factor * factor, symbol.offset * factor + offset)

    def form(self) -> Form:
        as_it_was = {name: Linear(name) if self._others else MISSING for name in self._known}
        return self._others, frozenset(item for item in self._known.items() if item[1] != as_it_was[item[0]])


_AS_IT_IS = _Symbols().form()


def reduced(strand: Strand) -> Reduced:
    """A strand as a form and its conditions."""
    if not strand.crossings:
        filter = strand.last.canonical()
        return Reduced(strand, _AS_IT_IS, filter, frozenset(), True, not filter.conjunctions)
    symbols = _Symbols()
    filter, exact = EVERYTHING, True
    try:
        for condition in _chain(strand):
            if not isinstance(condition, Filter):
                symbols.follow(condition)
                continue
            more, whole = symbols.conditions(condition)
            filter, fits = both(filter, more)
            exact = exact and whole and fits
            filter = filter.canonical()
    except _Opaque:
        asked = strand.asked() if strand.is_known else EVERYTHING
        return Reduced(strand, ("steps", strand.mappings), asked, frozenset(), False, not asked.conjunctions)
    except MappingFailed:  # a constant that its conversion is undefined for
        return Reduced(strand, (), NOTHING, frozenset(), True, nothing=True)
    return Reduced(strand, symbols.form(), filter, frozenset(symbols.needs), exact, not filter.conjunctions)


def reductions(exposure: Exposure) -> list[Reduced]:
    """The strands of an exposure that let something through."""
    return [one for one in map(reduced, exposure.strands) if not one.nothing]


def _chain(strand: Strand) -> Iterator[Filter | AnyStep]:
    """Filters and steps, in their order."""
    for crossing in strand.crossings:
        yield crossing.filter
        for step in crossing.mapping.steps:
            yield step.filter if isinstance(step, Only) else step
    yield strand.last


def taken_back(constraint: Constraint, symbol: Symbol) -> Constraint | bool | None:
    """The constraint on what was published that says the same as one on what became of it; None if there is none."""
    if symbol is MISSING:
        return absent(constraint)
    if isinstance(symbol, Fixed):
        return constraint.passes(symbol.value)  # type: ignore[arg-type]
    if absent(constraint):
        return IsNull(symbol.name)
    if symbol == Linear(symbol.name):
        other = renamed(constraint, symbol.name)
        return other if type(other) is type(constraint) else None
    if isinstance(constraint, Negated):
        inner = taken_back(constraint.inner, symbol)
        return Negated(inner) if isinstance(inner, Constraint) else None
    if type(constraint) is Exists:
        return Exists(symbol.name)
    if constraint.kind is not Kind.NUMBER:
        return False if constraint.kind is not None else None
    if constraint.values is not None:
        return among(symbol.name, [_before(symbol, value) for value in constraint.values])  # type: ignore[arg-type]
    return _pulled(constraint, symbol) if isinstance(constraint, Range) else None


def _pulled(range: Range, symbol: Linear) -> Range:
    low, high = ((None if bound is None else _before(symbol, bound)) for bound in (range.low, range.high))
    if symbol.factor > 0:
        return Range(symbol.name, low, high, low_open=range.low_open, high_open=range.high_open)
    return Range(symbol.name, high, low, low_open=range.high_open, high_open=range.low_open)


def _before(symbol: Linear, number: Any) -> int | float:
    """The number that becomes this one."""
    source: Fraction = (Fraction(number) - symbol.offset) / symbol.factor
    return source.numerator if source.denominator == 1 else float(source)
