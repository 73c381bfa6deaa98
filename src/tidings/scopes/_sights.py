"""Sights: what a reader gains, loses, and sees in another form when one exposure takes the place of another.

Theory of operation
-------------------
For each publication a reader sees a set of forms, perhaps none. Three questions are asked of two exposures:

    gained    is there a publication that is seen after and was not seen before?
    lost      the same, the other way round
    changed   is there one that is seen in both, and not in the same forms?

Each has one of three answers: a *witness*, tried in both exposures, so certain; None, if it is proven that there is
none; or UNDECIDED. A proof that nothing is gained: each strand of the one is covered by strands of the other together,
and these need nothing of a publication that it does not need itself (see `_forms`). A proof that nothing changes: where
two strands of different forms overlap, strands of the same form cover what they share. For a witness, notifications are
made from the conditions of a strand. While one of them is no witness, it is made to fail a condition by which the other
exposure shows it; then attributes are varied, texts and lists among them, for which a mapping may be undefined.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypeAlias

from tidings.model import Conjunction, Constraint, Filter, FilterTooLarge, Negated, Notification, Value

from ._excess import MAX_WITNESSES, OTHER, UNDECIDED, Excess, failing, names_of
from ._exposure import NO_EXPOSURE, Exposure
from ._forms import Reduced, reductions
from ._together import cover_together

MAX_VARIANTS = 1_000
"""The most notifications that are made from these by other attributes."""
MAX_BASES = 8
"""The most notifications of which variants are made."""
MAX_NAMED = 16
"""The most values of one condition that are tried."""
MAX_PAIRED = 12
"""The most values of one attribute of which lists are made."""

ROUNDING = 1e-9
"""How much numbers may differ, relatively and absolutely, that are the same but for rounding."""
NO_NUMBER = "x"
"""What a conversion is undefined for, also in a list."""
_PLAIN: tuple[Value, ...] = (NO_NUMBER, 1, True, -2.5, 3, ())
"""What attributes may have of which no filter says more."""

_Values: TypeAlias = dict[str, list[Value]]
_Test: TypeAlias = Callable[[Notification], bool]


class Sights(NamedTuple):
    """What became of one reader of one source."""

    gained: Excess
    lost: Excess
    changed: Excess

    @property
    def is_same(self) -> bool:
        """Whether it is proven that nothing is different."""
        return self.gained is None and self.lost is None and self.changed is None


def sights(before: Exposure, after: Exposure) -> Sights:
    """What becomes of a reader if the second exposure takes the place of the first."""
    if before == after and before.whole:
        return Sights(None, None, None)
    if not before.whole or not after.whole or not _is_known(before) or not _is_known(after):
        return Sights(UNDECIDED, UNDECIDED, UNDECIDED)
    old, new = reductions(before), reductions(after)
    return Sights(_gained(new, old, after, before), _gained(old, new, before, after), _changed(old, new, before, after))


def _is_known(exposure: Exposure) -> bool:
    return all(strand.is_known for strand in exposure.strands)


# --- gained ---------------------------------------------------------------------------------------------


def _gained(new: list[Reduced], old: list[Reduced], after: Exposure, before: Exposure) -> Excess:
    def is_gained(notification: Notification) -> bool:
        return not before.shown(notification) and bool(after.shown(notification))

    for one in new:
        if (witness := one.filter.witness()) is not None and is_gained(witness):
            return witness  # most often, and far sooner than there is a proof
    rest = [one for one in new if not before.covers(one.strand) and not _is_covered(one, old)]
    if not rest:
        return None
    shows = [other.filter for other in old]
    values = functools.partial(_values, rest, old)
    found = (_search(one.filter, shows, values, is_gained) for one in rest)
    return next((witness for witness in found if witness is not None), UNDECIDED)


def _is_covered(one: Reduced, others: Iterable[Reduced]) -> bool:
    """Whether whatever a strand shows is shown by others, in whatever form."""
    sure = (other.filter for other in others if other.exact and other.needs <= one.needs)
    return cover_together(sure, one.filter)


# --- changed --------------------------------------------------------------------------------------------


def _changed(old: list[Reduced], new: list[Reduced], before: Exposure, after: Exposure) -> Excess:
    clashes = [*_clashes(old, new), *_clashes(new, old)]
    if not clashes:
        return None

    def is_changed(notification: Notification) -> bool:
        was, becomes = before.shown(notification), after.shown(notification)
        return bool(was and becomes) and not _same(was, becomes)

    values = functools.partial(_values, old, new)
    found = (_search(clash.common, clash.alike, values, is_changed) for clash in clashes if clash.common is not None)
    return next((witness for witness in found if witness is not None), UNDECIDED)


class _Clash(NamedTuple):
    """Strands of two exposures overlap with different forms."""

    common: Filter | None
    """What passes both; None if it is too large."""
    alike: list[Filter]
    """What passes other strands of the second exposure, with the form of the first one."""


def _clashes(some: list[Reduced], others: list[Reduced]) -> Iterator[_Clash]:
    """Where a strand of the one shows publications that the other exposure shows, perhaps in its other forms only."""
    for one, other in itertools.product(some, others):
        if one.form == other.form:
            continue
        try:
            common = (one.filter & other.filter).canonical()
        except FilterTooLarge:
            yield _Clash(None, [])
            continue
        needs = one.needs | other.needs
        alike = [each for each in others if each.form == one.form and each.exact and each.needs <= needs]
        if common.conjunctions and not cover_together((each.filter for each in alike), common):
            yield _Clash(common, [each.filter for each in others if each.form == one.form])


def _same(some: list[Notification], others: list[Notification]) -> bool:
    """Whether two sets of forms are equal, rounding apart."""
    if set(some) == set(others):
        return True
    return all(any(_is_close(one, other) for other in others) for one in some) and all(
        any(_is_close(one, other) for other in some) for one in others
    )


def _is_close(one: Notification, other: Notification) -> bool:
    mine, theirs = one.attributes, other.attributes
    return mine.keys() == theirs.keys() and all(_near(mine[name], theirs[name]) for name in mine)


def _near(one: Value, other: Value) -> bool:
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(_near, one, other))
    if type(one) in (int, float) and type(other) in (int, float):
        return math.isclose(one, other, rel_tol=ROUNDING, abs_tol=ROUNDING)  # type: ignore[arg-type]
    return type(one) is type(other) and one == other


def sample(filters: Iterable[Filter], strands: Iterable[Reduced], test: _Test) -> Notification | None:
    """A notification that passes a test, made from filters and from what decides about strands, if one is found."""
    some = list(filters)
    for one in some:
        if (witness := one.witness()) is not None and test(witness):
            return witness  # nearly always
    values = functools.partial(_values, list(strands))
    found = (_search(one, (), values, test) for one in some)
    return next((witness for witness in found if witness is not None), None)


# --- the search -----------------------------------------------------------------------------------------


def _search(start: Filter, shows: Iterable[Filter], values: Callable[[], _Values], test: _Test) -> Notification | None:
    """A notification that passes the test, made from a filter; `shows` are those that had better not show it.

    `values` are asked for only if the filter alone does not do, as it nearly always does.
    """
    tried: dict[Notification, None] = {}
    shown = list(shows)
    open = [*reversed(start.canonical().conjunctions)]
    while open and len(tried) < MAX_WITNESSES:
        conjunction = open.pop()
        made = Filter((conjunction,)).witness()
        if made is None or made in tried:
            continue
        if test(made):
            return made
        tried[made] = None
        passed = next((part for one in shown for part in one.conjunctions if part.passes(made.attributes)), ())
        open += [conjunction & Conjunction((one,)) for condition in passed for one in failing(condition)]
    variants = itertools.islice(_variants(tried, values()), MAX_VARIANTS)
    return next(filter(test, variants), None)


def _variants(found: Iterable[Notification], values: _Values) -> Iterator[Notification]:
    """Notifications with another value of one attribute, then with several more, then with lists."""
    bases = list(itertools.islice(found, MAX_BASES)) or [Notification()]
    for base, (name, some) in itertools.product(bases, values.items()):
        yield from (Notification.trusted({**base.attributes, name: value}) for value in some)
        yield Notification.trusted({other: value for other, value in base.attributes.items() if other != name})
        if name in base:
            value = base[name]
            items = (*value, NO_NUMBER) if type(value) is tuple else (value, NO_NUMBER)
            yield Notification.trusted({**base.attributes, name: items})  # type: ignore[dict-item]
    for base, value in itertools.product(bases, _PLAIN):
        yield Notification.trusted({**dict.fromkeys(values, value), **base.attributes})
    for base, (name, some) in itertools.product(bases, values.items()):
        scalars = [value for value in some if type(value) is not tuple]
        for pair in itertools.combinations(scalars[:MAX_PAIRED], 2):
            yield Notification.trusted({**base.attributes, name: pair})  # type: ignore[dict-item]
            yield Notification.trusted({**base.attributes, name: (*pair, NO_NUMBER)})  # type: ignore[dict-item]


def _values(*sides: Iterable[Reduced]) -> _Values:
    """Values that decide something about strands, by attribute: what their conditions name, and what is beside it."""
    found: dict[str, dict[Value, None]] = {OTHER: {}}
    for one in itertools.chain(*sides):
        for constraint in itertools.chain.from_iterable(one.filter.conjunctions):
            some = found.setdefault(constraint.name, {})
            some.update(dict.fromkeys(itertools.islice(_named(constraint), MAX_NAMED)))
        for name in (*one.needs, *names_of(one.strand, NO_EXPOSURE)):
            found.setdefault(name, {})
    return {name: [*dict.fromkeys((*some, *_PLAIN))] for name, some in found.items()}


def _named(constraint: Constraint) -> Iterator[Value]:
    inner = constraint.inner if isinstance(constraint, Negated) else constraint
    yield from inner.values or ()
    yield from inner.examples()
