"""`=`: the attribute is this value, or a list that contains it. Negated: `<>`."""

from __future__ import annotations

from dataclasses import dataclass

from tidings.model._automaton import Automaton, Words
from tidings.model._constraint import Constraint
from tidings.model._names import quoted
from tidings.model._plain import plain
from tidings.model._values import Kind, Scalar, kind_of, literal

from .member import Member


@dataclass(frozen=True, slots=True)
class Equal(Constraint):
    """`name = value`."""

    name: str
    value: Scalar

    @property
    def kind(self) -> Kind:
        return kind_of(self.value)

    def holds(self, scalar: Scalar) -> bool:
        """Equality by value within one kind."""
        return scalar == self.value and kind_of(scalar) is kind_of(self.value)

    @property
    def values(self) -> tuple[Scalar, ...]:
        return (self.value,)

    def examples(self) -> tuple[Scalar]:
        return (self.value,)

    def automaton(self) -> Automaton | None:
        return Words((self.value,)) if type(self.value) is str else None

    def simplest(self) -> Equal:
        """`x = 3.0` is `x = 3`."""
        return Equal(self.name, plain(self.value))

    def includes(self, other: Constraint) -> bool:
        """Whether the other accepts nothing but the operand."""
        if type(other) is Equal:  # the most frequent question of all
            return self.value == other.value and kind_of(self.value) is kind_of(other.value)
        return Constraint.includes(self, other)

    def union(self, other: Constraint) -> Constraint | None:
        """`x = 1 OR x = 2` is `x IN (1, 2)`."""
        if type(other) is Equal and not self.includes(other) and self.kind is other.kind:
            return Member(self.name, (self.value, other.value))
        return Constraint.union(self, other) or (other.union(self) if type(other) is Member else None)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Equal) and self.name == other.name and self.holds(other.value)

    def __hash__(self) -> int:
        return hash((Equal, self.name, self.value))

    def __str__(self) -> str:
        return f"{quoted(self.name)} = {literal(self.value)}"

    def negated_text(self) -> str:
        return f"{quoted(self.name)} <> {literal(self.value)}"


def among(name: str, values: tuple[Scalar, ...]) -> Constraint:
    """`name = value` for one value, `name IN (...)` for several of one kind."""
    return Equal(name, values[0]) if len(values) == 1 else Member(name, values)
