"""The compiled engine as a `Matcher`: filters are taken apart here and matched there.

Theory of operation
-------------------
Every constraint becomes one test, a tuple of plain things (`tidings._native._engine.Test`). The engine asks what it
does not know: a constraint by its `passes` (an operator of a user, a marker that is not resolved yet), a filter by its
`matches` (one of another class, or with an operand that has no place among 64-bit integers, finite floats and UTF-8).
From a body, such a question cannot be answered, so the engine says None and gets the notification.

A notification that holds something which the engine cannot compare, such as a lone surrogate that came from somewhere
else than the wire, is matched one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, Generic, TypeAlias

from tidings import _native
from tidings.model import Conjunction, Constraint, Filter, Kind, Location, Matches, Negated, Notification
from tidings.model.operators import Equal, Like, Range
from tidings.model.operators.like import ANY, ONE

from ._atom import KINDS, Atom, atom_of
from ._matcher import K, Plane, conjunctions_of

STRIDE = 16
"""Every so many-th match feeds the estimates and reviews homes."""

Test: TypeAlias = tuple[str, int, bool, int, int, tuple[object, ...]]

_KINDS = {None: 0, Kind.BOOLEAN: 1, Kind.NUMBER: 2, Kind.TEXT: 3, Kind.BYTES: 4, Kind.TIME: 5, Kind.PLACE: 6}
_EQUAL, _IN, _RANGE, _WITHIN, _PREFIX, _SUFFIX, _CONTAINS, _LIKE, _EXISTS, _NULL, _ASK = range(11)
_OPERATORS = {
    "eq": _EQUAL,
    "in": _IN,
    "within": _WITHIN,
    "prefix": _PREFIX,
    "suffix": _SUFFIX,
    "contains": _CONTAINS,
    "like": _LIKE,
    "exists": _EXISTS,
    "null": _NULL,
    "ask": _ASK,
}
_AS_THEY_ARE: dict[type, int] = {type_: _KINDS[KINDS[type_]] for type_ in (bool, int, float, str, bytes)}
"""The types of operands that the engine takes as they are, and their kinds."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class CompiledIndex(Generic[K]):
    """Filters in the compiled engine. Build one only where `tidings._native.engine` is there."""

    def __init__(self) -> None:
        assert _native.engine is not None, "there is no compiled engine in this process"
        self._engine = _native.engine.Engine(Location, STRIDE)
        self._numbers: dict[K, int] = {}
        self.match_body: Callable[[bytes], list[K] | None] | None = self._engine.match_body
        self.plane: Plane | None = self._engine.plane()

    def add(self, filter: Filter | Matches, key: K, /) -> None:
        """Hold a filter under a new key."""
        if key in self._numbers:
            raise KeyError(key)
        conjunctions = conjunctions_of(filter)
        tests = None if conjunctions is None else [_tests(conjunction) for conjunction in conjunctions]
        try:
            number = self._engine.add(key, filter, tests)
        except ValueError:  # something in it has no place in the engine
            number = self._engine.add(key, filter, None)
        self._numbers[key] = number

    def remove(self, key: K, /) -> None:
        self._engine.remove(self._numbers.pop(key))

    def match(self, notification: Notification, /) -> list[K]:
        """The keys whose filters match."""
        found: list[K] | None = self._engine.match(notification.attributes, notification)
        if found is None:
            return [key for key, filter in self._engine.items() if filter.matches(notification)]
        return found

    def match_many(self, batch: Iterable[Notification], /) -> list[list[K]]:
        return [self.match(notification) for notification in batch]

    def review(self, most: int) -> int:
        """Look for better homes for some conjunctions that wait for it; the number that still wait."""
        return int(self._engine.review(most))

    def __len__(self) -> int:
        return len(self._numbers)

    def __contains__(self, key: object, /) -> bool:
        return key in self._numbers

    def statistics(self) -> dict[str, int]:
        """The size of the table and of its parts."""
        return dict(self._engine.statistics())


def _tests(conjunction: Conjunction) -> list[Test]:
    return [_test(constraint) for constraint in conjunction.constraints]


def _test(constraint: Constraint) -> Test:
    if type(constraint) is Range:  # most are ranges and comparisons, and a table has many
        sides = constraint.low_open | constraint.high_open << 1
        bounds = (_bound(constraint, constraint.low), _bound(constraint, constraint.high))
        return constraint.name, _RANGE, False, _KINDS[constraint.kind], sides, bounds
    if type(constraint) is Equal and (plain := _AS_THEY_ARE.get(type(constraint.value))) is not None:
        return constraint.name, _EQUAL, False, plain, 0, (constraint.value,)
    atom = atom_of(constraint)
    inner: Any = constraint.inner if type(constraint) is Negated else constraint
    kind = _KINDS[atom.kind]
    if atom.is_range:
        sides = inner.low_open | inner.high_open << 1
        return atom.name, _RANGE, atom.negated, kind, sides, (_bound(inner, inner.low), _bound(inner, inner.high))
    return atom.name, _OPERATORS[atom.op], atom.negated, kind, 0, _operands(inner, atom)


def _bound(range: Range, bound: Any) -> object:
    return bound if bound is None or range.kind is not Kind.TIME else _microseconds(bound)


def _operands(inner: Constraint, atom: Atom) -> tuple[object, ...]:
    if atom.op == "like":
        assert isinstance(inner, Like)
        wild = {ANY: None, ONE: True}
        return tuple([token if isinstance(token, str) else wild[token] for token in inner.tokens])
    if atom.op == "within":
        parts: Any = atom.operands[0]
        return ("/".join(parts),)
    if atom.kind is Kind.PLACE:
        return tuple(["/".join(place.parts) for place in inner.values or ()])  # type: ignore[union-attr]
    if atom.kind is Kind.TIME:
        return tuple(map(_microseconds, inner.values or ()))
    return inner.values or () if atom.op == "in" else atom.operands


def _microseconds(moment: Any) -> int:
    return int((moment - _EPOCH) // _MICROSECOND)
