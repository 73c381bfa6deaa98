"""Overlap: whether a notification that an advertisement promises may pass a subscription.

Theory of operation
-------------------
An advertisement speaks of lists element by element: a *scalarisation* of a notification has one element
in place of each list (an empty list stays empty), and a notification is promised by A if each of its
scalarisations passes A. Publishing checks exactly that. Without this rule `tags = 'a'` and `tags = 'b'`
would overlap, because of the list ['a', 'b'], and advertisements would narrow nothing.

Claim: if A promises n and n passes F, then `overlaps(F, A)`.

Proof for conjunctions. Take an attribute that both speak of. If either asks for absence, the other is
passed by a missing attribute, too, so it asks for absence as well. Otherwise n has the attribute. Let P be
a want of F. Some element e (or the scalar itself) is in P, and outside the bans of F, since no element
is in one. The scalarisation with e passes A, so e is in every want Q of A and outside its bans. If F
wants nothing, but A wants Q, the list is not empty, and each e is in Q and outside all bans. So neither of
these, on which alone `overlaps` says no, can be the case:

    for some P and Q, no scalar is in both and outside all bans;
    for some P, or some Q, no scalar is in it and outside all bans.

Proof for disjunctions. n passes a conjunction F1 of F; but its scalarisations may pass different
conjunctions of A: `a = 1 OR a = 2` promises [1, 2], which passes `a = 1 AND a = 2`. So choose, for each
attribute, one want of F1. n has a scalarisation that answers these wants; it passes some conjunction A1 of A,
and the argument above holds for A1 and the chosen wants. `_spread` therefore says yes if every choice
finds its A1; it tries each want once, not all combinations, which can only make it say yes more often.

Nothing above depends on who subscribes and who advertises, if `_spread` is asked both ways round. So
`overlaps` is symmetric, and callers need not remember the order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ._conjunction import Conjunction
from ._constraint import Constraint, no_text
from ._cover import is_small, possible
from ._effort import MAX_TOGETHER, PAIR_STEPS, Effort, afford
from ._terms import Terms
from ._values import Kind
from .operators import Range


def overlaps(mine: tuple[Conjunction, ...], theirs: tuple[Conjunction, ...]) -> bool:
    """Whether some notification may pass both, lists understood element by element. True if undecided."""
    if is_small(mine, theirs):
        return _overlaps(mine, theirs)
    with Effort():
        return _overlaps(mine, theirs)


def _overlaps(mine: tuple[Conjunction, ...], theirs: tuple[Conjunction, ...]) -> bool:
    ours = [one.terms for one in mine if possible(one)]
    others = [one.terms for one in theirs if possible(one)]
    pairs = len(ours) * len(others)
    if pairs > 1 and not afford(PAIR_STEPS * pairs):
        return True
    if any(_compatible(one, other) for one in ours for other in others):
        return True
    return _spread(ours, others) or _spread(others, ours)


def _spread(some: Sequence[Mapping[str, Terms]], several: Sequence[Mapping[str, Terms]]) -> bool:
    """Whether one of some finds, for each choice of its wants, one of several that is compatible."""
    if len(several) < 2:
        return False
    return any(
        all(
            not afford(PAIR_STEPS * len(several)) or any(_compatible(choice, other) for other in several)
            for choice in _choices(one)
        )
        for one in some
        if any(len(terms.wants) > 1 for terms in one.values())
    )


def _choices(asked: Mapping[str, Terms]) -> Iterator[Mapping[str, Terms]]:
    """One want for each attribute: the first of each, and then every other one among the first."""
    first = {name: Terms(terms.wants[:1], terms.bans, null=terms.null) for name, terms in asked.items()}
    yield first
    for name, terms in asked.items():
        for want in terms.wants[1:]:
            yield {**first, name: Terms((want,), terms.bans)}


def _compatible(one: Mapping[str, Terms], other: Mapping[str, Terms]) -> bool:
    for name, terms in one.items():
        theirs = other.get(name)
        if theirs is not None and not _share(terms, theirs):
            return False
    return True


def _share(one: Terms, other: Terms) -> bool:
    """Whether some value may pass both terms."""
    if one.null or other.null:
        return one.null and other.null
    bans = (one.bans + other.bans)[:MAX_TOGETHER]
    for want in one.wants:
        for ask in other.wants:
            if not want.meets(ask) or (bans and _exhausted(want, ask, bans)):
                return False
    if not bans:
        return True
    return not any(want.inside(bans) for want in one.wants + other.wants)


def _exhausted(want: Constraint, ask: Constraint, bans: Sequence[Constraint]) -> bool:
    """Whether it is certain that no scalar passes both and no ban."""
    for one, two in ((want, ask), (ask, want)):
        if (values := one.values) is not None and two.settled:
            return all(not two.holds(value) or any(ban.holds(value) for ban in bans) for value in values)
    if isinstance(want, Range) and isinstance(ask, Range):
        return want.intersection(ask).inside(bans)
    return want.kind is Kind.TEXT is ask.kind and no_text((want, ask), bans)
