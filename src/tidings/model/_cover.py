"""Covering: whether every notification that passes one filter passes another.

Theory of operation
-------------------
A conjunction F covers a conjunction G if, attribute by attribute, what G asks implies what F asks. For
one attribute, with the wants P and bans D of G (see `_terms`):

- F asks for absence: so must G. F asks for presence: G must ask for anything but absence.
- F wants Q: there must be *one* want P with `P - D` inside Q. One is needed, because if every P had an
  element outside D and Q, the list of these elements would pass G and not F. One is enough, because
  the element that answers P answers Q. The two bounds of `BETWEEN` are two wants.
- F bans B: B must be inside the union of G's bans. Wants do not help: a list may contain more than what
  is wanted, so `a <> 5` does not cover `a > 5`; the list [5, 7] passes the latter only. And G must leave
  no scalar of another kind, because those fail a ban, too.

So, for conjunctions, covering is as exact as the relations of the operators are. A conjunction that
nothing can pass is covered by everything.

A disjunction covers another if each conjunction of the other is covered by one of its own. `a = 1 OR
a = 2` covers `a IN (1, 2)`, though neither part does: so a conjunction with `IN` is tried value by value.
"""

from __future__ import annotations

import itertools
import math

from ._conjunction import Conjunction
from ._effort import MAX_TOGETHER, PAIR_STEPS, Effort, afford
from ._terms import Terms
from .operators import Equal, Member

MAX_PIECES = 64
"""Into how many conjunctions one with `IN` is taken apart at most."""
SMALL = 32
"""The most pairs of constraints that are compared without a look at the effort."""


def covers(mine: tuple[Conjunction, ...], theirs: tuple[Conjunction, ...]) -> bool:
    """Whether each of their conjunctions is covered by mine. False if undecided."""
    if is_small(mine, theirs):
        return _covers(mine, theirs)
    with Effort():
        return _covers(mine, theirs)


def is_small(mine: tuple[Conjunction, ...], theirs: tuple[Conjunction, ...]) -> bool:
    """Whether there are so few constraints to compare that nobody needs to watch the effort."""
    return len(mine) == len(theirs) == 1 and len(mine[0].constraints) * len(theirs[0].constraints) <= SMALL


def _covers(mine: tuple[Conjunction, ...], theirs: tuple[Conjunction, ...]) -> bool:
    known = frozenset(mine) if len(mine) > 1 else ()
    for other in theirs:
        if other in known:
            continue
        if len(mine) > 1 and not afford(PAIR_STEPS * len(mine)):
            return False
        for one in mine:
            if conjunction_covers(one, other):
                break
        else:
            if possible(other) and (len(mine) < 2 or not _covers_pieces(mine, other)):
                return False
    return True


def conjunction_covers(one: Conjunction, other: Conjunction) -> bool:
    """Whether what the other asks implies what this one asks. False if undecided."""
    given = other.terms
    for name, asked in one.terms.items():
        answer = given.get(name)
        if answer is None or not follows(asked, answer):
            return False
    return True


def possible(conjunction: Conjunction) -> bool:
    """Whether some notification may pass; False only if it is certain that none does."""
    return all(terms.possible for terms in conjunction.terms.values())


def follows(asked: Terms, given: Terms) -> bool:
    """Whether every value that passes what is given passes what is asked. False if undecided."""
    if asked.null or given.null:
        return asked.null and given.null and not asked.others
    wants = given.wants
    for ask in asked.wants:
        for want in wants:
            if ask.includes(want):
                break
        else:
            bans = given.bans[:MAX_TOGETHER]
            if not bans or not any(want.inside((ask, *bans)) for want in wants):
                return False
    return not asked.bans or all(given.fixes_kind(ban.kind) and ban.inside(given.bans) for ban in asked.bans)


def _covers_pieces(mine: tuple[Conjunction, ...], other: Conjunction) -> bool:
    """Whether the other is covered once each of its `IN` is taken apart, value by value."""
    choices = [[Equal(part.name, value) for value in part.values] if type(part) is Member else [part] for part in other]
    if not 1 < math.prod(map(len, choices)) <= MAX_PIECES:
        return False
    pieces = map(Conjunction, itertools.product(*choices))
    return all(any(conjunction_covers(one, piece) for one in mine) for piece in pieces)
