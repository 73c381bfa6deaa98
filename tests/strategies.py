"""Random values, notifications, constraints and filters, over so few names and values that they meet.

    from strategies import filters, notifications

`constraints`, `conjunctions` and `filters` cover every operator and its opposite. All strategies are
functions, so that a test may narrow them: `filters(names=("a",), kinds=(Kind.NUMBER,))`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from soaking import SOAK_SECONDS

from tidings.model import (
    Conjunction,
    Constraint,
    Filter,
    Kind,
    Location,
    Negated,
    Notification,
    Scalar,
    Value,
)
from tidings.model.operators import Equal, Exists, IsNull, Member, MyLoc, Range, Within, like

NAMES = ("a", "b", "c.d", "in", 'x "y"')
"""Plain, dotted, a keyword, and one that needs quoting."""
KINDS = tuple(Kind)
ORDERED = (Kind.NUMBER, Kind.TEXT, Kind.BYTES, Kind.TIME)

SOAK = settings(
    max_examples=100 * max(1, int(SOAK_SECONDS)),
    deadline=None,
)
"""For tests marked `soak`: roughly SOAK_SECONDS divided among them."""
SOAK_SLOWLY = settings(SOAK, max_examples=max(100, SOAK.max_examples // 20))
"""The same, for examples that take milliseconds each."""

_INTS = st.integers(-3, 3)
_POOLS: dict[Kind, SearchStrategy[Scalar]] = {
    Kind.BOOLEAN: st.booleans(),
    Kind.NUMBER: _INTS | st.integers(-6, 6).map(lambda half: half / 2),
    Kind.TEXT: st.text("ab", max_size=3),
    Kind.BYTES: st.binary(max_size=1) | st.sampled_from([b"\x00\x00", b"\xff"]),
    Kind.TIME: st.sampled_from([datetime(2026, 1, day, tzinfo=UTC) for day in (1, 2, 3)]),
    Kind.PLACE: st.lists(st.sampled_from("pq"), max_size=3).map(lambda parts: Location(tuple(parts))),
}
_WILD: dict[Kind, SearchStrategy[Scalar]] = {
    Kind.BOOLEAN: st.booleans(),
    Kind.NUMBER: st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False),
    Kind.TEXT: st.text(max_size=20) | st.text("ab%_'\\\"\n", max_size=6),
    Kind.BYTES: st.binary(max_size=8),
    Kind.TIME: st.datetimes(timezones=st.just(UTC)),
    Kind.PLACE: st.lists(st.text(min_size=1, max_size=5).filter(lambda p: "/" not in p), max_size=4).map(
        lambda parts: Location(tuple(parts))
    ),
}


def scalars(kinds: Sequence[Kind] = KINDS, *, wild: bool = False) -> SearchStrategy[Scalar]:
    """Scalars of these kinds: a handful each, or with `wild` all there are."""
    pools = _WILD if wild else _POOLS
    return st.one_of([pools[kind] for kind in kinds])


def values(kinds: Sequence[Kind] = KINDS, *, wild: bool = False) -> SearchStrategy[Value]:
    """Scalars and lists of up to three, also of mixed kinds."""
    one = scalars(kinds, wild=wild)
    return one | st.lists(one, max_size=3).map(tuple)


def notifications(
    names: Sequence[str] = NAMES, kinds: Sequence[Kind] = KINDS, *, wild: bool = False
) -> SearchStrategy[Notification]:
    """Notifications in which each name may be missing."""
    return st.dictionaries(st.sampled_from(names), values(kinds, wild=wild), max_size=len(names)).map(Notification)


def patterns() -> SearchStrategy[str]:
    """LIKE patterns with both wildcards."""
    return st.text("ab%_", max_size=5)


@st.composite
def _ranges(draw: st.DrawFn, name: str, kind: Kind, wild: bool) -> Constraint:
    low, high = draw(scalars((kind,), wild=wild)), draw(scalars((kind,), wild=wild))
    low_open, high_open = draw(st.booleans()), draw(st.booleans())
    match draw(st.sampled_from(["above", "below", "between"])):
        case "above":
            return Range(name, low, low_open=low_open)
        case "below":
            return Range(name, high=high, high_open=high_open)
    return Range(name, low, high, low_open=low_open, high_open=high_open)


@st.composite
def constraints(
    draw: st.DrawFn, names: Sequence[str] = NAMES, kinds: Sequence[Kind] = KINDS, *, wild: bool = False
) -> Constraint:
    """Any operator on any of these names, about one in four of those that can be negated."""
    name, kind = draw(st.sampled_from(names)), draw(st.sampled_from(kinds))
    one = scalars((kind,), wild=wild)
    choices: list[SearchStrategy[Constraint]] = [
        one.map(lambda value: Equal(name, value)),
        st.lists(one, min_size=1, max_size=3).map(lambda operands: Member(name, tuple(operands))),
    ]
    if kind is Kind.TEXT:
        choices.append(patterns().map(lambda pattern: like(name, pattern)))
    if kind is Kind.PLACE:
        choices.append(one.map(lambda place: Within(name, place)))  # type: ignore[arg-type]
    plain: list[SearchStrategy[Constraint]] = [st.just(Exists(name)), st.just(IsNull(name))]
    if kind in ORDERED:
        plain += [_ranges(name, kind, wild)] * 3
    negatable = st.one_of(choices)
    return draw(st.one_of([negatable, *choices, *plain, negatable.map(Negated)]))


def conjunctions(
    names: Sequence[str] = NAMES, kinds: Sequence[Kind] = KINDS, *, max_size: int = 4, wild: bool = False
) -> SearchStrategy[Conjunction]:
    """Up to `max_size` constraints, several on one name too; none at all is TRUE."""
    return st.lists(constraints(names, kinds, wild=wild), max_size=max_size).map(Conjunction)


def filters(
    names: Sequence[str] = NAMES,
    kinds: Sequence[Kind] = KINDS,
    *,
    max_conjunctions: int = 3,
    max_size: int = 4,
    wild: bool = False,
) -> SearchStrategy[Filter]:
    """Disjunctions of conjunctions; none at all is FALSE."""
    part = conjunctions(names, kinds, max_size=max_size, wild=wild)
    return st.lists(part, max_size=max_conjunctions).map(Filter)


def markers(names: Sequence[str] = NAMES) -> SearchStrategy[Constraint]:
    """`WITHIN myloc`, still to be resolved."""
    return st.builds(Within, st.sampled_from(names), st.builds(MyLoc, st.integers(0, 3)))
