"""A small world to try the filter algebra in: few values, but all there is to tell operators apart.

    from small_world import POOL, accepted

An attribute has any value of `DOMAIN`: missing, scalars of every kind, lists of up to three. What a constraint
accepts there is a set of values, kept as the bits of an int, so that "every value that passes this passes
that" is one `&`. `POOL` holds constraints on `x` by operator, over operands that meet, touch, include and miss
each other; `Even` and `Blank` are what a user may write, with no relations at all; the odd ones nobody writes,
but nobody is kept from it.

The *plane* is the world of two attributes `x` and `y`, with the fewer values of `AXIS` each: for disjunctions,
where the attributes cannot be looked at one by one.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from tidings.model import Conjunction, Constraint, Kind, Location, Negated, Scalar, Value, kind_of
from tidings.model.operators import Equal, Exists, IsNull, Member, Range, Within, like

DAYS = [datetime(2026, 1, day, tzinfo=UTC) for day in (1, 2, 3)]

_TEXTS = """a b c aa ab ac ba bb cc aab aba abb abc bab caa cab cba 0 00 0a 0b 0ab a0 ab0 a0a a0b""".replace("0", "\0")

SCALARS: tuple[Scalar, ...] = (
    *(True, False),
    *(0, 1, 1.5, 2, 2.5, 3, 4),
    *("", *_TEXTS.split(" ")),
    *(b"", b"a", b"b", b"ab", b"a\0", b"\0"),
    *(DAYS[0] - timedelta(1), DAYS[0], DAYS[0] + timedelta(hours=1), DAYS[1], DAYS[2], DAYS[2] + timedelta(1)),
    *map(Location, ("/", "/p", "/q", "/p/p", "/p/q", "/p/r", "/q/p", "/r", "/p/q/r", "/p/q/q")),
)
_FEW: tuple[Scalar, ...] = (True, 1, 2, 3, "a", "ab", "b", b"a", DAYS[0], Location("/p"))
_FAR_APART: tuple[tuple[Scalar, Scalar], ...] = ((0, 4), ("", "cc"), (b"", b"b"))

DOMAIN: tuple[Value | None, ...] = (
    None,
    *SCALARS,
    (),
    *((one,) for one in SCALARS),
    *itertools.combinations(SCALARS, 2),
    *itertools.combinations(_FEW, 3),
    *((*ends, one) for ends in _FAR_APART for one in SCALARS),
)
"""Every value. The order of a list's elements and their number mean nothing to any operator."""

AXIS: tuple[Value | None, ...] = (
    *(None, *_FEW, 0, 4, "", "cc", ()),
    *itertools.combinations((1, 2, 3, "a", "ab", True), 2),
    *((0, 4), ("", "cc"), (0, 2, 4), (1, 2, 3), ("a", "ab", "b"), (Location("/p"),), (b"a", DAYS[0])),
)
"""The values of each attribute in the plane."""


@dataclass(frozen=True)
class Even(Constraint):
    """What a newcomer writes: a name, a kind, `holds`, a text."""

    name: str

    @property
    def kind(self) -> Kind:
        return Kind.NUMBER

    def holds(self, scalar: Scalar) -> bool:
        return kind_of(scalar) is Kind.NUMBER and scalar % 2 == 0  # type: ignore[operator]

    def __str__(self) -> str:
        return f"{self.name} IS EVEN"


@dataclass(frozen=True)
class Blank(Constraint):
    """An operator on every kind: nothing, in whatever way it is written."""

    name: str

    @property
    def kind(self) -> None:
        return None

    def holds(self, scalar: Scalar) -> bool:
        return not scalar

    def __str__(self) -> str:
        return f"{self.name} IS BLANK"


def _ranges(name: str, *bounds: Scalar, two_sided: bool = True) -> list[Constraint]:
    one_sided: list[Constraint] = []
    for bound, is_open in itertools.product(bounds, (False, True)):
        one_sided.append(Range(name, bound, low_open=is_open))
        one_sided.append(Range(name, None, bound, high_open=is_open))
    if not two_sided:
        return one_sided
    closed = [Range(name, low, high) for low, high in itertools.product(bounds, bounds)]
    ends = itertools.product((bounds[:2], bounds[:1] * 2), ((True, False), (False, True), (True, True)))
    return one_sided + closed + [Range(name, *two, low_open=low, high_open=high) for two, (low, high) in ends]


def pool(name: str) -> dict[str, list[Constraint]]:
    """Constraints on an attribute, by operator."""

    def likes(*patterns: str) -> list[Constraint]:
        return [like(name, pattern) for pattern in patterns]

    def negated(inner: Iterable[Constraint]) -> list[Constraint]:
        return [Negated(one) for one in inner]

    places = [Location(path) for path in ("/", "/p", "/q", "/p/q")]
    values: Sequence[Scalar] = (1, 2.0, 3, True, "", "a", "ab", "b", b"a", DAYS[0], *places[1::2])
    choices: Sequence[tuple[Scalar, ...]] = (
        *((1, 2), (2.0, 3), (1, 2, 3), (2,)),
        *(("a", "b"), ("a", "ab"), ("ab", "abc")),
        *((True, False), (b"a", b"ab"), tuple(DAYS[:2]), (places[1], places[3])),
    )
    equal: list[Constraint] = [Equal(name, value) for value in values]
    member: list[Constraint] = [Member(name, chosen) for chosen in choices]
    within: list[Constraint] = [Within(name, place) for place in places]
    some_ranges = (Range(name, 2), Range(name, 1, 3), Range(name, 1, 2, high_open=True), Range(name, "a", "b"))
    newcomers: list[Constraint] = [Even(name), Blank(name)]
    return {
        "equal": equal,
        "member": member,
        "numbers": _ranges(name, 1, 2, 3),
        "texts": _ranges(name, "a", "ab") + _ranges(name, "", "b", two_sided=False),
        "bytes": _ranges(name, b"", b"a", two_sided=False),
        "times": [*_ranges(name, DAYS[0], DAYS[1], two_sided=False), Range(name, DAYS[0], DAYS[2])],
        "prefix": likes("%", "a%", "ab%", "b%"),
        "suffix": likes("%a", "%b", "%ab"),
        "contains": likes("%a%", "%ab%", "%b%"),
        "like": likes("_", "_%", "a_", "_a", "a_%", "a%b", "a%a", "%a_", "__", "%a%b%", "a%b%", "_b%", "%_b"),
        "within": within,
        "presence": [Exists(name), IsNull(name)],
        "not equal": negated(equal),
        "not in": negated(member),
        "not like": negated(likes("%", "a%", "%b", "%ab%", "a_", "a%b", "_%")),
        "not within": negated(within),
        "not range": negated(some_ranges),
        "newcomer": newcomers + negated(newcomers),
        "odd": negated([Exists(name), IsNull(name), Negated(equal[0]), Negated(newcomers[0])]),
    }


POOL = pool("x")
EVERY: list[Constraint] = [constraint for constraints in POOL.values() for constraint in constraints]

_PLACES = {(kind_of(one), one): at for at, one in enumerate(SCALARS, start=1)}
_ALL = (1 << len(DOMAIN)) - 1


@functools.cache
def passing(constraint: Constraint) -> int:
    """The values that pass, as bits."""
    return sum(1 << at for at, value in enumerate(DOMAIN) if constraint.passes(value))


def accepted(conjunctions: Iterable[Conjunction]) -> int:
    """The values that pass one of the conjunctions, all on the same attribute, as bits."""
    bits = 0
    for conjunction in conjunctions:
        passed = _ALL
        for constraint in conjunction:
            passed &= passing(constraint)
        bits |= passed
    return bits


@functools.lru_cache(maxsize=4096)
def promised(bits: int) -> int:
    """The values of which each element is accepted, as an advertisement promises."""
    as_promised = 0
    for at, value in enumerate(DOMAIN):
        places = [_PLACES[kind_of(one), one] for one in value] if isinstance(value, tuple) and value else [at]
        as_promised |= all(bits >> place & 1 for place in places) << at
    return as_promised


def shown(bits: int, most: int = 3) -> list[Value | None]:
    """Some of the values that the bits stand for, for messages."""
    return [value for at, value in enumerate(DOMAIN) if bits >> at & 1][:most]


Point = dict[str, Value]
PLANE: tuple[Point, ...] = tuple(
    {name: value for name, value in (("x", x), ("y", y)) if value is not None} for x in AXIS for y in AXIS
)
"""Every notification of the plane."""


def accepted_in_plane(conjunctions: Iterable[Conjunction]) -> int:
    """The notifications of the plane that pass one of the conjunctions, as bits."""
    bits = 0
    for conjunction in conjunctions:
        rows = functools.reduce(int.__and__, map(_axis, conjunction.by_name.get("x", ())), _AXIS_ALL)
        columns = functools.reduce(int.__and__, map(_axis, conjunction.by_name.get("y", ())), _AXIS_ALL)
        bits |= _spread(rows) * columns
    return bits


def promised_in_plane(conjunctions: Sequence[Conjunction]) -> int:
    """The notifications of which each scalarisation passes."""
    verdicts: dict[tuple[object, ...], bool] = {}

    def passes(x: Value | None, y: Value | None) -> bool:
        key = (type(x), x, type(y), y)
        if key not in verdicts:
            point: Point = {name: value for name, value in (("x", x), ("y", y)) if value is not None}
            verdicts[key] = any(conjunction.passes(point) for conjunction in conjunctions)
        return verdicts[key]

    return sum(
        all(itertools.starmap(passes, itertools.product(_elements(x), _elements(y)))) << at
        for at, (x, y) in enumerate(itertools.product(AXIS, AXIS))
    )


_AXIS_ALL = (1 << len(AXIS)) - 1


@functools.cache
def _axis(constraint: Constraint) -> int:
    return sum(1 << at for at, value in enumerate(AXIS) if constraint.passes(value))


@functools.lru_cache(maxsize=4096)
def _spread(rows: int) -> int:
    return sum(1 << at * len(AXIS) for at in range(len(AXIS)) if rows >> at & 1)


def _elements(value: Value | None) -> Sequence[Value | None]:
    return value if isinstance(value, tuple) and value else (value,)
