"""A constraint: one operator on one attribute, and what every operator must be able to say.

Theory of operation
-------------------
An operator is defined by the set of *scalars* that it accepts (`holds`). What it says about a whole
attribute follows from that set, by the same rule for every operator:

- a missing attribute fails every constraint but `IS NULL`;
- a scalar passes if the operator holds for it;
- a list passes if the operator holds for *some* element (so `=` and `IN` mean membership).

A negated constraint (`<>`, `NOT IN`, `NOT LIKE`, ...) is the wrapper `Negated`: a scalar of the
operand's kind passes if the operator does not hold for it, a list passes if it holds for *no* element.

So a list is asked two sorts of questions: some element must be in this set, no element may be in that
one. `wants` names the sets of the first sort: the constraint itself, and for `BETWEEN`, which asks for
each bound separately, its two bounds. The second sort is what `Negated` holds as `inner`.

The filter algebra needs these relations between the scalar sets of operators on one attribute. Each has
an answer that is always right, so an operator may start with `holds` alone and still be routed
correctly; it is merely suppressed and merged less often:

    includes(other)   every scalar of `other` is one of mine          safe answer: False
    inside(others)    every scalar of mine is one of some other's     safe answer: False
    meets(other)      some scalar belongs to both                     safe answer: True
    examples()        a few of my scalars                             safe answer: none
    simplest()        the same constraint, written in one way         safe answer: itself

and these between whole constraints, so they must be right for lists, too:

    follows_from(other)  what passes `other` passes this one          safe answer: False
    union(other)         passes exactly what passes either            safe answer: None
    hull(other)          passes what passes either, and little else   safe answer: None

An operator with finitely many scalars lists them in `values`, an operator on texts may give its
`automaton`; most relations follow from that.

How to write an operator
------------------------
Derive from `Constraint`; have a `name`, a `kind`, `holds` and `__str__`; be immutable and equal by
content. That is all. `holds` is asked about scalars of every kind and must answer False for a foreign
one. Leave `passes` alone: the algebra relies on the rule above. Give it relations when it shows up in
routing tables, and run it through the laws of `tests/model/test_algebra_operators.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence

from ._automaton import NONE, Automaton, find
from ._effort import MAX_TOGETHER, is_spent
from ._values import Kind, Scalar, Value, kind_of


class Constraint(ABC):
    """One operator on one attribute. Instances are immutable, hashable and equal by content."""

    __slots__ = ()

    name: str
    """The attribute."""

    @property
    @abstractmethod
    def kind(self) -> Kind | None:
        """The kind of scalars that can pass; None if every kind can."""

    @abstractmethod
    def holds(self, scalar: Scalar) -> bool:
        """Whether this scalar passes. Any checked scalar may be asked about."""

    @abstractmethod
    def __str__(self) -> str:
        """The constraint in the filter language."""

    def negated_text(self) -> str:
        """The opposite of this constraint in the filter language."""
        return f"NOT {self}"

    def passes(self, value: Value | None) -> bool:
        """Whether an attribute with this value (None: it is missing) passes."""
        if value is None:
            return False
        if type(value) is tuple:
            return any(self.holds(item) for item in value)
        return self.holds(value)  # type: ignore[arg-type]

    @property
    def cost(self) -> int:
        """As how many comparisons it counts."""
        return 1

    # What the relations are made of.

    @property
    def values(self) -> tuple[Scalar, ...] | None:
        """All scalars that pass, if they are finitely many and known."""
        return None

    @property
    def settled(self) -> bool:
        """Whether `holds` has the last word; not so for a marker that the broker has yet to resolve."""
        return True

    @property
    def wants(self) -> tuple[Constraint, ...]:
        """What a list is asked: each of these must hold for some element, whichever it is."""
        return (self,)

    def automaton(self) -> Automaton | None:
        """The texts that pass, as a machine; None if other kinds pass, too, or nobody has built one."""
        return None

    def examples(self) -> Iterable[Scalar]:
        """A few scalars that pass, the plainest first."""
        return self.values or ()

    def simplest(self) -> Constraint:
        """The same constraint as it is written in canonical filters."""
        return self

    # Relations between sets of scalars.

    def includes(self, other: Constraint) -> bool:
        """Whether every scalar that passes `other` passes this one. False if undecided."""
        values = other.values
        if values is not None:
            return all(map(self.holds, values))
        if self == other:
            return True
        return self.kind is Kind.TEXT is other.kind and no_text((other,), (self,))

    def inside(self, others: Sequence[Constraint]) -> bool:
        """Whether every scalar that passes this one passes one of the others. False if undecided."""
        values = self.values
        if values is not None:
            return all(any(other.holds(value) for other in others) for value in values)
        if any(other.includes(self) for other in others):
            return True
        return self.kind is Kind.TEXT and 1 < len(others) <= MAX_TOGETHER and no_text((self,), others)

    def meets(self, other: Constraint) -> bool:
        """Whether some scalar passes both. True if undecided."""
        for one, two in ((self, other), (other, self)):
            if (values := one.values) is not None and two.settled:
                return any(map(two.holds, values))
        if self.kind is None or other.kind is None:
            return True
        if self.kind is not other.kind:
            return False
        return self.kind is not Kind.TEXT or not no_text((self, other))

    # Relations between constraints.

    def follows_from(self, other: Constraint) -> bool:
        """Whether every value that passes `other`, a list too, passes this one. False if undecided."""
        given = other.wants
        return all(any(want.includes(one) for one in given) for want in self.wants)

    def union(self, other: Constraint) -> Constraint | None:
        """The constraint that passes exactly what passes either, if there is one."""
        if self.follows_from(other):
            return self
        return other if other.follows_from(self) else None

    def hull(self, other: Constraint) -> Constraint | None:
        """A constraint that passes at least what passes either, if there is a useful one."""
        return self.union(other)


class Negated(Constraint):
    """The opposite of a constraint: `<>`, `NOT IN`, `NOT LIKE`, `NOT WITHIN`."""

    __slots__ = ("inner", "name")

    def __init__(self, inner: Constraint) -> None:
        self.inner = inner
        self.name = inner.name

    @property
    def kind(self) -> Kind | None:
        """The kind of the operand: a number is not unequal to a text, it does not compare."""
        return self.inner.kind

    @property
    def cost(self) -> int:
        """As much as what it is the opposite of."""
        return self.inner.cost

    def holds(self, scalar: Scalar) -> bool:
        """Whether the scalar compares with the operand and does not pass the inner constraint."""
        kind = self.inner.kind
        return (kind is None or kind_of(scalar) is kind) and not self.inner.holds(scalar)

    def passes(self, value: Value | None) -> bool:
        """As `holds`; a list passes if none of its elements passes the inner constraint."""
        if value is None:
            return False
        if type(value) is tuple:
            return not any(self.inner.holds(item) for item in value)
        return self.holds(value)  # type: ignore[arg-type]

    @property
    def wants(self) -> tuple[Constraint, ...]:
        """Nothing: an empty list passes."""
        return ()

    def simplest(self) -> Constraint:
        """The opposite of the operand as it is written in canonical filters."""
        return Negated(self.inner.simplest())

    def includes(self, other: Constraint) -> bool:
        """Whether no scalar of `other` is excluded, and all of them compare."""
        if other.values is not None or self == other:
            return super().includes(other)
        if self.kind is not None and other.kind is not self.kind:
            return False
        if isinstance(other, Negated):
            return self.inner.inside((other.inner,))
        return not self.inner.meets(other)

    def meets(self, other: Constraint) -> bool:
        """Whether something of `other` is left when what this one excludes is taken away."""
        if self.kind is not None and other.kind is not None and self.kind is not other.kind:
            return False
        return isinstance(other, Negated) or not other.inside((self.inner,))

    def follows_from(self, other: Constraint) -> bool:
        """Whether `other` excludes as much. A positive constraint excludes nothing from a list."""
        if not isinstance(other, Negated) or self.kind not in (None, other.kind):
            return False
        return self.inner.inside((other.inner,))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Negated) and self.inner == other.inner

    def __hash__(self) -> int:
        return hash((Negated, self.inner))

    def __repr__(self) -> str:
        return f"Negated({self.inner!r})"

    def __str__(self) -> str:
        return self.inner.negated_text()


def no_text(inside: Sequence[Constraint], outside: Sequence[Constraint] = ()) -> bool:
    """Whether it is certain that no text passes all of `inside` and none of `outside`."""
    if is_spent():
        return False
    required = [machine for one in inside if (machine := one.automaton()) is not None]
    if len(required) < len(inside):
        return False
    refused = [machine for one in outside if (machine := one.automaton()) is not None]
    return find(required, refused) is NONE
