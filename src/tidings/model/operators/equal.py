"""`=`: the attribute is this value, or a list that contains it. Negated: `<>`."""

from __future__ import annotations

from dataclasses import dataclass

from .._constraint import Constraint
from .._names import quoted
from .._values import Kind, Scalar, kind_of, literal


@dataclass(frozen=True, slots=True)
class Equal(Constraint):
    """`name = value`."""

    name: str
    value: Scalar

    @property
    def kind(self) -> Kind:
        """The kind of the operand."""
        return kind_of(self.value)

    def holds(self, scalar: Scalar) -> bool:
        """Equality by value within one kind."""
        return scalar == self.value and kind_of(scalar) is kind_of(self.value)

    @property
    def values(self) -> tuple[Scalar, ...]:
        """The operand."""
        return (self.value,)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Equal) and self.name == other.name and self.holds(other.value)

    def __hash__(self) -> int:
        return hash((Equal, self.name, self.value))

    def __str__(self) -> str:
        return f"{quoted(self.name)} = {literal(self.value)}"

    def negated_text(self) -> str:
        """`name <> value`."""
        return f"{quoted(self.name)} <> {literal(self.value)}"
