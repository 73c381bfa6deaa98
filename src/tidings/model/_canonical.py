"""The canonical form: one way to write a filter, whatever way it was written in.

Theory of operation
-------------------
Every step below keeps the set of notifications, lists included, and the result does not depend on the
order of what came in, because whatever is dropped is looked at in the order of its text.

For each attribute of a conjunction, with its wants and bans (see `_terms`):

1. Operands are written plainly, and each constraint in its simplest class.
2. All excluded values of one kind go into one `NOT IN`. Bans that others imply are dropped.
3. Wanted values that are excluded are dropped from `IN`; an excluded end of a range becomes open, or moves to
   the other end of the banned range that it lies in.
4. A want that another one implies is dropped. So of several lower bounds one is left, and one upper bound:
   together they are one range. Two `IN` both stay, as they may be answered by different elements.

Conjunctions that nothing can pass are dropped, then those that another one covers; the rest is sorted. A
filter that would take too long (see `_effort`), or would not fit into a message any more, is only sorted.

Conjunctions of `=`, `IN`, order, prefix, `WITHIN`, `EXISTS`, `IS NULL` and their opposites that cover
each other have the same canonical form. Beyond that (two patterns of one set of texts, a disjunction that can be
cut into conjunctions in several ways) equal forms mean equal filters, but not the reverse.
"""

from __future__ import annotations

import itertools
import operator
from collections import Counter
from collections.abc import Iterable, Sequence

from ._conjunction import Conjunction
from ._constraint import Constraint, Negated
from ._cover import conjunction_covers, possible
from ._effort import MAX_TOGETHER, PAIR_STEPS, Effort, afford, is_spent
from ._limits import printable
from ._terms import Terms
from ._values import Kind, Scalar
from .operators import Equal, Exists, IsNull, Member, Range
from .operators.equal import among


def canonical(conjunctions: tuple[Conjunction, ...]) -> tuple[Conjunction, ...]:
    """The same notifications, written in one way."""
    unique = dict.fromkeys(conjunctions)
    with Effort():
        simple = [_simplified(one) for one in unique if possible(one)]
        form = maximal(_by_text(simple)) if len(simple) > 1 else tuple(simple)
        if not is_spent() and printable(form):
            return form
    # What could not be looked at in full has no one form. And an open end of a range takes more words than
    # BETWEEN: a filter of almost the largest size must not grow beyond it on its way.
    return tuple(sorted(unique, key=str))


def met(one: Conjunction, other: Conjunction) -> Conjunction | None:
    """The canonical form of two conjunctions joined by AND that are in that form, where it is plain: an attribute
    is in one of them, or in each with one range of numbers or times. None: it takes a closer look."""
    if len(one) + len(other) > MAX_PLAIN:
        return None
    constraints = {name: some for name, some in one.by_name.items() if name not in other.by_name}
    for name, theirs in other.by_name.items():
        mine = one.by_name.get(name)
        if mine is None or mine == theirs:
            constraints[name] = theirs
            continue
        (first, *more), (second, *others) = mine, theirs
        if more or others or type(first) is not Range or type(second) is not Range:
            return None
        if first.kind is not second.kind or first.kind not in _SCALES:
            return None
        constraints[name] = (first.intersection(second),)
    return Conjunction(itertools.chain.from_iterable(constraints.values()))


MAX_PLAIN = 32
"""The most constraints of which it is plain to see: those of larger filters may not be in canonical form."""
_SCALES = frozenset({Kind.NUMBER, Kind.TIME})


def _by_text(conjunctions: Iterable[Conjunction]) -> list[Conjunction]:
    """The conjunctions, each once, in the order of their texts."""
    parts = {str(one): one for one in conjunctions}
    return [parts[text] for text in sorted(parts)]


def maximal(conjunctions: Iterable[Conjunction]) -> tuple[Conjunction, ...]:
    """Those of the conjunctions that no other one covers; of two that cover each other, the first one."""
    kept = dict.fromkeys(conjunctions)
    if len(kept) < 2:
        return tuple(kept)
    by_pivot: dict[str | None, list[Conjunction]] = {}
    common = Counter(itertools.chain.from_iterable(one.terms for one in kept))
    for one in kept:
        # What it asks of its rarest attribute, others must ask, too, for it to cover them.
        by_pivot.setdefault(min(one.terms, key=common.__getitem__, default=None), []).append(one)
    for one in list(kept)[::-1]:
        for pivot in (None, *one.terms):
            others = by_pivot.get(pivot, ())
            if others and not afford(PAIR_STEPS * len(others)):
                return tuple(kept)
            if any(other is not one and other in kept and conjunction_covers(other, one) for other in others):
                del kept[one]
                break
    return tuple(kept)


def _simplified(conjunction: Conjunction) -> Conjunction:
    simple = [constraint for name, terms in conjunction.terms.items() for constraint in _rewritten(name, terms)]
    if len(simple) == len(conjunction) and all(map(operator.is_, simple, conjunction)):
        return conjunction  # as most that are short
    return Conjunction(simple)


def _rewritten(name: str, terms: Terms) -> Iterable[Constraint]:
    """The constraints for terms that can be fulfilled."""
    if terms.null:
        return (IsNull(name),)
    if not terms.bans and len(terms.wants) == 1:
        return (_without(name, terms.wants[0].simplest(), ()),)
    bans = _bans(name, terms)
    wants = _wants(name, terms, bans)
    return (*_joined(wants), *map(Negated, bans)) or (Exists(name),)


def _bans(name: str, terms: Terms) -> list[Constraint]:
    values: dict[Kind, dict[Scalar, None]] = {}
    sets: dict[str, Constraint] = {}
    for ban in terms.bans:
        simple = ban.simplest()
        if isinstance(simple, (Equal, Member)):
            values.setdefault(simple.kind, {}).update(dict.fromkeys(simple.values))
        else:
            sets[str(simple)] = simple
    finite = [among(name, tuple(excluded)) for excluded in values.values()]
    bans = [sets[text] for text in sorted(sets)]
    for ban in tuple(bans):
        if not afford(PAIR_STEPS * len(bans)):
            break
        others = [*(other for other in bans if other is not ban), *finite]
        if ban.inside(others) and Terms(terms.wants, tuple(others)).fixes_kind(ban.kind):
            bans.remove(ban)
    for kind, excluded in values.items():
        alike = [ban for ban in bans if ban.kind is kind]
        left = tuple(value for value in excluded if not any(ban.holds(value) for ban in alike))
        if left:
            bans.append(among(name, left))
    return bans


def _wants(name: str, terms: Terms, bans: Sequence[Constraint]) -> list[Constraint]:
    simple = [_without(name, want.simplest(), bans) for want in terms.wants]
    unique = {str(want): want for want in simple}
    wants = [unique[text] for text in sorted(unique)]
    for want in tuple(wants):
        if not afford(PAIR_STEPS * len(wants)):
            break
        if any(other is not want and other.inside((want, *bans[:MAX_TOGETHER])) for other in wants):
            wants.remove(want)
    return wants


def _without(name: str, want: Constraint, bans: Sequence[Constraint]) -> Constraint:
    """The want without what is banned, where the result is a constraint of the same sort."""
    if isinstance(want, (Equal, Member)):
        return among(name, tuple(value for value in want.values if not any(b.holds(value) for b in bans)))
    if type(want) is Range and bans:
        return _shortened(want, bans)
    return want


def _shortened(want: Range, bans: Sequence[Constraint]) -> Range:
    """The range without what is banned at its ends: whoever is beyond an end in a banned range is beyond that, too."""
    before = None
    while want != before:
        before = want
        for ban in bans:
            low, low_open, high, high_open = want.low, want.low_open, want.high, want.high_open
            if type(ban) is not Range:
                low_open = low_open or (low is not None and ban.holds(low))
                high_open = high_open or (high is not None and ban.holds(high))
            elif ban.kind is want.kind:
                if low is not None and ban.high is not None and ban.bottom <= want.bottom < ban.top:
                    low, low_open = ban.high, not ban.high_open
                if high is not None and ban.low is not None and ban.bottom < want.top <= ban.top:
                    high, high_open = ban.low, not ban.low_open
            want = Range(want.name, low, high, low_open=low_open, high_open=high_open)
    return want


def _joined(wants: Sequence[Constraint]) -> Iterable[Constraint]:
    """The wants, with a lower and an upper bound of one kind joined into one range."""
    ranges: dict[Kind, Range] = {}
    for want in wants:
        if type(want) is not Range:
            yield want
        elif want.kind in ranges:
            ranges[want.kind] = ranges[want.kind].intersection(want)
        else:
            ranges[want.kind] = want
    yield from ranges.values()
