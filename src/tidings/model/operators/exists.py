"""`EXISTS` (also `IS NOT NULL`): the attribute is there. `IS NULL`: it is not."""

from __future__ import annotations

from dataclasses import dataclass

from tidings.model._constraint import Constraint
from tidings.model._names import quoted
from tidings.model._values import Scalar, Value


@dataclass(frozen=True, slots=True)
class Exists(Constraint):
    """`name EXISTS`: any value passes, an empty list too."""

    name: str

    @property
    def kind(self) -> None:
        return

    def holds(self, scalar: Scalar) -> bool:
        return True

    def passes(self, value: Value | None) -> bool:
        """Whether the attribute is there."""
        return value is not None

    @property
    def wants(self) -> tuple[Constraint, ...]:
        """Nothing: an empty list is there, too."""
        return ()

    def examples(self) -> tuple[Scalar, ...]:
        """Any value will do."""
        return (True,)

    def includes(self, other: Constraint) -> bool:
        """Every scalar passes, so all of the other's do."""
        return True

    def meets(self, other: Constraint) -> bool:
        """Every scalar passes, so it takes but one of the other's."""
        return not other.inside(())

    def follows_from(self, other: Constraint) -> bool:
        """What passes another constraint is there, unless that one asks for absence."""
        return not isinstance(other, IsNull)

    def __str__(self) -> str:
        return f"{quoted(self.name)} EXISTS"


@dataclass(frozen=True, slots=True)
class IsNull(Constraint):
    """`name IS NULL`: the attribute is missing; no value passes."""

    name: str

    @property
    def kind(self) -> None:
        return

    def holds(self, scalar: Scalar) -> bool:
        return False

    def passes(self, value: Value | None) -> bool:
        """Whether the attribute is missing."""
        return value is None

    @property
    def values(self) -> tuple[Scalar, ...]:
        return ()

    @property
    def wants(self) -> tuple[Constraint, ...]:
        """Nothing, and no list could give it."""
        return ()

    def follows_from(self, other: Constraint) -> bool:
        """What passes any other constraint is there."""
        return isinstance(other, IsNull)

    def __str__(self) -> str:
        return f"{quoted(self.name)} IS NULL"
