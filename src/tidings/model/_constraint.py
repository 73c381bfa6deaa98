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

The filter algebra needs four relations between the scalar sets of two operators on one attribute.
Each has an answer that is always right, so an operator may start with `holds` alone and still be
routed correctly; it is merely suppressed and merged less often:

    includes(other)   every scalar of `other` is one of mine          safe answer: False
    meets(other)      some scalar belongs to both                     safe answer: True
    union(other)      the operator that accepts exactly both sets     safe answer: None
    hull(other)       an operator that accepts at least both sets     safe answer: None

An operator with finitely many scalars lists them in `values`; all its relations follow from that.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

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
    def values(self) -> tuple[Scalar, ...] | None:
        """All scalars that pass, if they are finitely many and known."""
        return None

    def includes(self, other: Constraint) -> bool:
        """Whether every scalar that passes `other` passes this one. False if undecided."""
        values = other.values
        if values is not None:
            return all(self.holds(value) for value in values)
        return self == other

    def meets(self, other: Constraint) -> bool:
        """Whether some scalar passes both. True if undecided."""
        for one, two in ((self, other), (other, self)):
            if (values := one.values) is not None:
                return any(two.holds(value) for value in values)
        return self.kind is None or other.kind is None or self.kind is other.kind

    def union(self, other: Constraint) -> Constraint | None:
        """The constraint that accepts exactly what either accepts, if there is one."""
        if self.includes(other):
            return self
        return other if other.includes(self) else None

    def hull(self, other: Constraint) -> Constraint | None:
        """A constraint that accepts at least what either accepts, if there is a useful one."""
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

    def holds(self, scalar: Scalar) -> bool:
        """Whether the scalar compares with the operand and does not pass the inner constraint."""
        return kind_of(scalar) is self.inner.kind and not self.inner.holds(scalar)

    def passes(self, value: Value | None) -> bool:
        """As `holds`; a list passes if none of its elements passes the inner constraint."""
        if value is None:
            return False
        if type(value) is tuple:
            return not any(self.inner.holds(item) for item in value)
        return self.holds(value)  # type: ignore[arg-type]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Negated) and self.inner == other.inner

    def __hash__(self) -> int:
        return hash((Negated, self.inner))

    def __repr__(self) -> str:
        return f"Negated({self.inner!r})"

    def __str__(self) -> str:
        return self.inner.negated_text()
