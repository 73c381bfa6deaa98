"""`WITHIN`: the attribute is a location at or below this one."""

from __future__ import annotations

from dataclasses import dataclass

from .._constraint import Constraint
from .._location import Location
from .._names import quoted
from .._values import Kind, Scalar, literal


@dataclass(frozen=True, slots=True)
class MyLoc:
    """The marker `myloc`: a location that the broker fills in, `levels_up` levels above the client."""

    levels_up: int = 0

    def __str__(self) -> str:
        return f"myloc({self.levels_up})" if self.levels_up else "myloc"


@dataclass(frozen=True, slots=True)
class Within(Constraint):
    """`name WITHIN LOCATION '/berlin'` or `name WITHIN myloc`; the marker matches nothing until resolved."""

    name: str
    place: Location | MyLoc

    @property
    def kind(self) -> Kind:
        """Only locations pass."""
        return Kind.PLACE

    def holds(self, scalar: Scalar) -> bool:
        """Whether the location lies at or below the operand."""
        return type(scalar) is Location and type(self.place) is Location and scalar.within(self.place)

    def resolve(self, here: Location) -> Within:
        """This constraint for a client that is at `here`."""
        if isinstance(self.place, Location):
            return self
        kept = len(here.parts) - self.place.levels_up
        return Within(self.name, Location(here.parts[: max(kept, 0)]))

    def __str__(self) -> str:
        return f"{quoted(self.name)} WITHIN {self._operand()}"

    def negated_text(self) -> str:
        """`name NOT WITHIN place`."""
        return f"{quoted(self.name)} NOT WITHIN {self._operand()}"

    def _operand(self) -> str:
        return literal(self.place) if isinstance(self.place, Location) else str(self.place)
