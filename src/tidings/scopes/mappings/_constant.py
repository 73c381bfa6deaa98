"""How what stands in a mapping travels: filters and values as text in the filter language.

JSON knows neither bytes nor times, and msgspec cannot tell several kinds of texts apart in one field. The
filter language writes every value in one way and reads it back exactly, so a constant is a text like
`'EUR'`, `12.5` or `TIMESTAMP '2026-01-01T00:00:00Z'`, and a list is a list of these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from tidings.model import (
    EVERYTHING,
    NOTHING,
    Constraint,
    Filter,
    FilterError,
    MappingError,
    Notification,
    ScopeError,
    Value,
    attr,
)
from tidings.model.operators import Equal
from tidings.scopes._attributes import Attributes

MAX_READ = 131_072
"""The most characters of different filters and constants in one message of a client: each takes about 5 us to read."""


class HeldValue:
    """A value inside a step, checked once."""

    __slots__ = ("value",)

    value: Value

    def __init__(self, value: object) -> None:
        checked = Notification(value=value)  # refuses what no notification may hold
        if "value" not in checked:
            raise MappingError(f"{value!r:.60} is not one value; add its parts one by one")
        object.__setattr__(self, "value", checked["value"])

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("a constant cannot be changed")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HeldValue) and self.dump() == other.dump()

    def __hash__(self) -> int:
        return hash(self.value)

    def __repr__(self) -> str:
        return repr(self.value)

    def dump(self) -> str | list[str]:
        """The value as the filter language writes it; a list as the list of its elements."""
        value = self.value
        return [_written(item) for item in value] if type(value) is tuple else _written(value)

    @classmethod
    def load(cls, data: object) -> HeldValue:
        """The value that `dump` wrote."""
        match data:
            case str():
                return cls(_read(data))
            case list() | tuple():
                return cls([_read(item) for item in data])
        raise MappingError(f"{data!r:.60} is not a constant; write it as in a filter: 'EUR', 12.5, TRUE")


if TYPE_CHECKING:
    Constant: TypeAlias = Any
    """A value in a step: given plainly, kept as a `HeldValue`, which a static type cannot say."""
else:
    Constant = HeldValue


def held(value: object) -> HeldValue:
    """The value as a step keeps it."""
    return value if isinstance(value, HeldValue) else HeldValue(value)


_COMMON = {"TRUE": EVERYTHING, "FALSE": NOTHING}
"""What most interfaces say."""


def enc_hook(value: object) -> object:
    """For msgspec: filters and constants as text, attributes as JSON would have them."""
    if isinstance(value, Filter):
        return "TRUE" if value is EVERYTHING else str(value)
    if isinstance(value, HeldValue | Attributes):
        return value.dump()
    raise NotImplementedError(f"{type(value).__name__} cannot be sent")


def dec_hook(kind: type, data: object) -> Any:
    """For msgspec: filters, constants and attributes; what cannot be read is refused."""
    if kind is HeldValue or kind is Attributes:
        return kind.load(data)
    if kind is Filter and isinstance(data, str):
        return _COMMON[data] if data in _COMMON else Filter.parse(data)
    raise MappingError(f"{data!r:.60} is not a filter; send it as text in the filter language")


class BoundedReading:
    """`dec_hook` for one message of somebody else: reading what is in it takes time, so there is an end to it."""

    def __init__(self) -> None:
        self._seen: set[str] = set()
        self._size = 0

    def __call__(self, kind: type, data: object) -> object:
        for text in data if isinstance(data, list | tuple) else (data,):
            if isinstance(text, str) and text not in self._seen:
                self._seen.add(text)
                self._size += len(text)
        if self._size > MAX_READ:
            raise ScopeError(
                f"the filters and constants in this change have more than {MAX_READ:,} characters; make it in parts"
            )
        return dec_hook(kind, data)


def _written(scalar: object) -> str:
    return str(_equal(attr.x == scalar)).removeprefix("x = ")


def _read(text: object) -> Value:
    try:
        constraint = _equal(Filter.parse(f"x = {text}"))
    except FilterError:
        constraint = None
    if not isinstance(constraint, Equal) or str(constraint) != f"x = {text}":  # each value is written in one way
        raise MappingError(f"{text!r:.60} is not a constant; write it as in a filter: 'EUR', 12.5, TRUE")
    return constraint.value


def _equal(filter: Filter) -> Constraint | None:
    """The one constraint of a filter; None if there are more."""
    constraints = [one for conjunction in filter.conjunctions for one in conjunction]
    return constraints[0] if len(constraints) == 1 and len(filter.conjunctions) == 1 else None
