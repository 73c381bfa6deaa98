"""`WITHIN`: the attribute is a location at or below this one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tidings.model._constraint import Constraint
from tidings.model._location import MAX_DEPTH, Location
from tidings.model._names import quoted
from tidings.model._values import Kind, Scalar, literal


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
        return Kind.PLACE

    def holds(self, scalar: Scalar) -> bool:
        """Whether the location lies at or below the operand."""
        return type(scalar) is Location and type(self.place) is Location and scalar.within(self.place)

    @property
    def settled(self) -> bool:
        """Whether the place is known."""
        return isinstance(self.place, Location)

    def examples(self) -> Iterator[Scalar]:
        """The place itself, and one inside it; nothing is known of a marker's."""
        if isinstance(self.place, Location):
            yield self.place
            if len(self.place.parts) < MAX_DEPTH:
                yield Location((*self.place.parts, "x"))

    def includes(self, other: Constraint) -> bool:
        """Whether the other place is this one or inside it.

        A marker is unknown, but the same for both sides, so it can be compared with a marker.
        """
        if not isinstance(other, Within):
            return Constraint.includes(self, other)
        mine, theirs = self.place, other.place
        if isinstance(mine, MyLoc):
            return isinstance(theirs, MyLoc) and theirs.levels_up <= mine.levels_up
        return not mine.parts or (isinstance(theirs, Location) and theirs.within(mine))

    def inside(self, others: Sequence[Constraint]) -> bool:
        """Whether one of the others includes this one: a place has more rooms than anybody can list."""
        return any(other.includes(self) for other in others)

    def meets(self, other: Constraint) -> bool:
        """Whether one of the two places is inside the other. A marker may turn out to be anywhere."""
        if not (self.settled and isinstance(other, Within) and other.settled):
            return Constraint.meets(self, other)
        return self.includes(other) or other.includes(self)

    def hull(self, other: Constraint) -> Constraint | None:
        """The smallest place around both, if it is smaller than the world."""
        if (union := self.union(other)) is not None:
            return union
        shared = self.place
        for place in (other.place,) if isinstance(other, Within) else other.values or (None,):
            if not isinstance(shared, Location) or not isinstance(place, Location):
                return None
            shared = _around(shared, place)
        return Within(self.name, shared) if isinstance(shared, Location) and shared.parts else None

    def resolve(self, here: Location) -> Within:
        """This constraint for a client that is at `here`."""
        if isinstance(self.place, Location):
            return self
        kept = len(here.parts) - self.place.levels_up
        return Within(self.name, Location(here.parts[: max(kept, 0)]))

    def __str__(self) -> str:
        return f"{quoted(self.name)} WITHIN {self._operand()}"

    def negated_text(self) -> str:
        return f"{quoted(self.name)} NOT WITHIN {self._operand()}"

    def _operand(self) -> str:
        return literal(self.place) if isinstance(self.place, Location) else str(self.place)


def _around(one: Location, two: Location) -> Location:
    """The smallest place that both are within."""
    shared = 0
    for mine, theirs in zip(one.parts, two.parts, strict=False):
        if mine != theirs:
            break
        shared += 1
    return Location(one.parts[:shared])
