"""A notification: the immutable attributes that a publisher hands over."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ._errors import ValueRefused
from ._text import encodable
from ._values import Value, checked_value

MAX_ATTRIBUTES = 256
"""The most attributes of one notification, after nested input has been flattened."""
MAX_NESTING = 16
"""How deep nested input may go."""
MAX_NAME = 256
"""The most characters of an attribute's name."""


class Notification(Mapping[str, Value]):
    """Attributes, checked and flattened once, then never changed.

    Nested input becomes dotted names; lists of scalars are values.

    >>> n = Notification(type="quote", symbol="SAP", price=182.4, venue={"city": "Frankfurt"})
    >>> n["venue.city"]
    'Frankfurt'
    """

    __slots__ = ("_attributes", "_hash")

    def __init__(self, attributes: Mapping[str, object] | None = None, /, **more: object) -> None:
        flat: dict[str, Value] = {}
        for source in (attributes or {}, more):
            _flatten(source, "", flat, 0)
        self._attributes = flat
        self._hash: int | None = None

    @classmethod
    def trusted(cls, attributes: dict[str, Value]) -> Notification:
        """Wrap attributes that are known to be flat and checked, without a copy."""
        self = cls.__new__(cls)
        self._attributes = attributes
        self._hash = None
        return self

    @property
    def attributes(self) -> dict[str, Value]:
        """The attributes as a plain dict, for reading only: the fast way for code that matches."""
        return self._attributes

    def __getitem__(self, name: str) -> Value:
        return self._attributes[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._attributes)

    def __len__(self) -> int:
        return len(self._attributes)

    def __contains__(self, name: object) -> bool:
        return name in self._attributes

    def __eq__(self, other: object) -> bool:
        return self._attributes == other._attributes if isinstance(other, Notification) else NotImplemented

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(frozenset(self._attributes.items()))
        return self._hash

    def __repr__(self) -> str:
        inside = ", ".join(f"{name}={value!r}" for name, value in self._attributes.items())
        return f"{type(self).__name__}({inside})"


def checked_name(name: object, place: str = "an attribute") -> str:
    """The name of an attribute, or `ValueRefused`."""
    if not isinstance(name, str) or not name:
        raise ValueRefused(f"{place}: {name!r} is not a name; use a string that is not empty")
    if len(name) > MAX_NAME:
        raise ValueRefused(f"{place}: a name of {len(name):,} characters, at most {MAX_NAME} are allowed")
    if not encodable(name):
        raise ValueRefused(f"{place}: the name {name!r} is not Unicode text (a lone surrogate); rename it")
    return name


def _flatten(source: Mapping[Any, Any], prefix: str, flat: dict[str, Value], depth: int) -> None:
    if depth > MAX_NESTING:
        raise ValueRefused(f"attribute '{prefix[:60]}...': nested deeper than {MAX_NESTING} levels")
    for key, value in source.items():
        name = checked_name(prefix + key if isinstance(key, str) and key else key)
        if isinstance(value, Mapping):
            _flatten(value, name + ".", flat, depth + 1)
            continue
        if name in flat:
            raise ValueRefused(f"attribute '{name}' is given twice; rename one of them")
        flat[name] = checked_value(value, f"attribute '{name}'")
        if len(flat) > MAX_ATTRIBUTES:
            raise ValueRefused(
                f"attribute '{name}': more than {MAX_ATTRIBUTES} attributes in one notification"
            )
