"""`IN`: the attribute is one of these values, or a list that contains one of them."""

from __future__ import annotations

from tidings.model._automaton import Automaton, Words
from tidings.model._constraint import Constraint
from tidings.model._errors import FilterError
from tidings.model._names import quoted
from tidings.model._plain import plain
from tidings.model._values import Kind, Scalar, kind_of, literal


class Member(Constraint):
    """`name IN (a, b, c)`; the operands are of one kind."""

    __slots__ = ("_kind", "_set", "_values", "name")

    def __init__(self, name: str, values: tuple[Scalar, ...] | frozenset[Scalar]) -> None:
        if not values:
            raise FilterError(f"'{name} IN ()' can never match; name at least one value")
        kinds = {kind_of(value) for value in values}
        if len(kinds) > 1:
            listed = " and ".join(sorted(kind.value for kind in kinds))
            raise FilterError(f"'{name} IN (...)' mixes {listed}; write one IN per kind and join them with OR")
        self.name = name
        self._kind = kinds.pop()
        self._set = frozenset(values)
        self._values = tuple(sorted(self._set, key=str))

    @property
    def kind(self) -> Kind:
        return self._kind

    def holds(self, scalar: Scalar) -> bool:
        return scalar in self._set and kind_of(scalar) is self._kind

    @property
    def cost(self) -> int:
        """A few values are one comparison; many take long to read and to find a place for."""
        return 1 + len(self._values) // 4

    @property
    def values(self) -> tuple[Scalar, ...]:
        """The operands, each once, in a fixed order."""
        return self._values

    def automaton(self) -> Automaton | None:
        return Words(map(str, self._values)) if self._kind is Kind.TEXT else None

    def simplest(self) -> Member:
        """`x IN (2.0, 1)` is `x IN (1, 2)`."""
        return Member(self.name, tuple(map(plain, self._values)))

    def union(self, other: Constraint) -> Constraint | None:
        """All operands of both, if the other has finitely many of the same kind."""
        if other.values and other.kind is self._kind:
            return Member(self.name, (*self._values, *other.values))
        return super().union(other)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Member)
            and self.name == other.name
            and self._kind is other._kind
            and self._set == other._set
        )

    def __hash__(self) -> int:
        return hash((Member, self.name, self._set))

    def __repr__(self) -> str:
        return f"Member({self.name!r}, {self._values!r})"

    def __str__(self) -> str:
        return f"{quoted(self.name)} IN ({self._operands()})"

    def negated_text(self) -> str:
        return f"{quoted(self.name)} NOT IN ({self._operands()})"

    def _operands(self) -> str:
        return ", ".join(literal(value) for value in self._values)
