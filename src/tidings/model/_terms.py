"""Terms: what a conjunction asks of one attribute, sorted by how it is asked.

Theory of operation
-------------------
An attribute is missing, a scalar or a list. Whatever the operators are, only three sorts of questions
are ever asked about it: is it missing (`null`); is some element in this set (`wants`); is no element in
that set (`bans`). A scalar answers as a list of one would, except that a ban also refuses scalars of
another kind. `EXISTS` asks nothing but to be there.

Because the elements of a list can answer different wants, wants never contradict each other; a want
and the bans can. So the terms can be fulfilled if and only if each want has a scalar outside all bans: the
list of these scalars passes.
"""

from __future__ import annotations

from collections.abc import Sequence

from ._constraint import Constraint, Negated
from ._effort import Effort
from ._values import Kind
from .operators import IsNull


class Terms:
    """The constraints on one attribute, sorted by how they are asked."""

    __slots__ = ("_possible", "bans", "kinds", "null", "others", "wants")

    def __init__(
        self,
        wants: tuple[Constraint, ...],
        bans: tuple[Constraint, ...],
        *,
        null: bool = False,
        others: bool = True,
    ) -> None:
        self.wants = wants
        """Sets of which some element is wanted."""
        self.bans = bans
        """Sets of which no element is allowed."""
        self.null = null
        """Whether the attribute is asked to be missing."""
        self.others = others
        """Whether the attribute is asked to be there."""
        self.kinds = tuple(term.kind for term in (*wants, *bans))
        """The kinds that a scalar would have to be of; None: of any."""
        self._possible: bool | None = None

    @property
    def possible(self) -> bool:
        """Whether some value may pass; False only if it is certain that none does."""
        if self._possible is None:
            if self.null:
                self._possible = not self.others
            elif self.bans:
                with Effort(apart=True):  # the answer is kept, so nobody's haste may show in it
                    self._possible = not any(want.inside(self.bans) for want in self.wants)
            else:
                self._possible = not any(want.inside(()) for want in self.wants)
        return self._possible

    def fixes_kind(self, kind: Kind | None) -> bool:
        """Whether no scalar of another kind can pass; None stands for any kind, which is always so."""
        return kind is None or kind in self.kinds


def terms_of(constraints: Sequence[Constraint]) -> Terms:
    """The constraints on one attribute, sorted."""
    wants: tuple[Constraint, ...] = ()
    bans: tuple[Constraint, ...] = ()
    nulls = 0
    for constraint in constraints:
        if isinstance(constraint, Negated):
            bans += (constraint.inner,)
        elif isinstance(constraint, IsNull):
            nulls += 1
        else:
            wants += constraint.wants
    return Terms(wants, bans, null=nulls > 0, others=nulls < len(constraints))
