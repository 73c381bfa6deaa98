"""Attributes: what is said about a component, a client or a scope, by name. Their values are those of notifications.

They travel as JSON would write them (see `_plain`), so a text is a text, as it was when there was nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from tidings.model import ScopeError, Value, ValueRefused, checked_value

from ._plain import plain, rich

MAX_ATTRIBUTES = 16_384
"""The most characters of a component's attributes, names and values together."""


class Attributes(Mapping[str, Any]):
    """Typed values by name, checked once, then never changed. None stands for a value that is to be removed.

    >>> Attributes({"city": "Berlin", "floors": 3})
    {'city': 'Berlin', 'floors': 3}
    >>> Attributes({"x": 1}) == Attributes({"x": True})
    False
    """

    __slots__ = ("_hash", "_values")

    def __init__(self, values: Mapping[str, object] | None = None) -> None:
        self._hash: int | None = None
        self._values: dict[str, Value | None] = {}
        for name, value in (values or {}).items():
            if not isinstance(name, str):
                raise ValueRefused(f"an attribute of a component: {name!r:.60} is not a name; use a string")
            self._values[name] = None if value is None else checked_value(value, f"attribute '{name:.60}'")

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Mapping):
            return NotImplemented
        theirs = other if isinstance(other, Attributes) else Attributes(other)
        return self._values == theirs._values and self._kinds() == theirs._kinds()

    def _kinds(self) -> dict[str, list[type]]:
        """To Python, True is 1 and 1 is 1.0; to whoever reads them again, they are not the same."""
        values = {name: value if type(value) is tuple else (value,) for name, value in self._values.items()}
        return {name: list(map(type, items)) for name, items in values.items()}

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(frozenset(self._values.items()))
        return self._hash

    def __repr__(self) -> str:
        return repr(self._values)

    def merged(self, other: Mapping[str, object]) -> Attributes:
        """These, and others that win; a None among the others removes."""
        both = {**self._values, **other}
        return Attributes({name: value for name, value in both.items() if value is not None})

    def dump(self) -> dict[str, Any]:
        """As they travel."""
        return {name: None if value is None else plain(value) for name, value in self._values.items()}

    @classmethod
    def load(cls, data: object) -> Attributes:
        """What `dump` wrote, or an error that says what cannot be read."""
        if not isinstance(data, dict):
            raise ScopeError(f"{data!r:.60} is no attributes; send values by name")
        return cls({name: rich(value) for name, value in data.items()})


NO_ATTRIBUTES = Attributes()

if TYPE_CHECKING:
    AnyAttributes: TypeAlias = Mapping[str, Any]
    """Given as any mapping of values, kept as `Attributes`, which a static type cannot say."""
else:
    AnyAttributes = Attributes


def attributes_of(values: Mapping[str, object]) -> Attributes:
    """The values as a component keeps them."""
    return values if isinstance(values, Attributes) else Attributes(values)


def check_attributes(attributes: Mapping[str, object]) -> None:
    """Raise `ScopeError` for attributes that are too large to be carried everywhere."""
    if sum(len(name) + _length(value) for name, value in attributes.items()) > MAX_ATTRIBUTES:
        raise ScopeError(f"the attributes of a component have at most {MAX_ATTRIBUTES:,} characters together")


def _length(value: object) -> int:
    if isinstance(value, tuple):
        return sum(map(_length, value))
    return len(value) if isinstance(value, str | bytes) else len(str(value))
