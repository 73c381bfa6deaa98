"""A notification: the immutable attributes that a publisher hands over."""

from __future__ import annotations

from collections.abc import Awaitable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from math import isfinite
from typing import Any, Self

from ._encodings import (
    MAX_NESTING,
    document_attributes,
    json_attributes,
    object_attributes,
    opaque_attributes,
    tuple_attributes,
)
from ._errors import NotARequest, ValueRefused
from ._location import Location
from ._names import MAX_NAME, checked_name, known_names, learn
from ._text import encodable
from ._values import MAX_TEXT, Value, checked_value

MAX_ATTRIBUTES = 256
"""The most attributes of one notification, after nested input has been flattened."""

_new = object.__new__


class Notification(Mapping[str, Value]):
    """Attributes, checked and flattened once, then never changed.

    Nested input becomes dotted names; lists of scalars are values.

    >>> n = Notification(type="quote", symbol="SAP", price=182.4, venue={"city": "Frankfurt"})
    >>> n["venue.city"]
    'Frankfurt'
    """

    __slots__ = ("_attributes", "_hash")

    def __init__(self, attributes: Mapping[str, object] | None = None, /, **more: object) -> None:
        if attributes is None and is_plain(more):
            self._attributes: dict[str, Value] = more  # type: ignore[assignment]
        elif type(attributes) is dict and not more and is_plain(attributes):
            self._attributes = attributes.copy()
        else:
            self._attributes = {}
            for source in (attributes or {}, more):
                _flatten(source, "", self._attributes, 0)

    @classmethod
    def trusted(cls, attributes: dict[str, Value]) -> Notification:
        """Wrap attributes that are known to be flat and checked, without a copy."""
        self = _new(cls)
        self._attributes = attributes
        return self

    @classmethod
    def decoded(cls, attributes: dict[str, Any]) -> Notification:
        """Make a notification of attributes fresh from a decoder, whose texts are valid Unicode.

        They are checked, and kept without a copy if they are plain.
        """
        for name, value in attributes.items():
            kind = type(value)
            if kind is str or kind is bytes:
                plain = len(value) <= MAX_TEXT
            elif kind is float:
                plain = isfinite(value)
            elif kind is int:
                plain = -(2**63) <= value < 2**63
            else:
                plain = kind is bool or kind is Location or (kind is datetime and value.tzinfo is UTC)
            if not plain or not name or len(name) > MAX_NAME:
                return cls(attributes)
        if len(attributes) > MAX_ATTRIBUTES:
            return cls(attributes)
        return cls.trusted(attributes)

    @classmethod
    def from_object(cls, instance: object) -> Self:
        """Make a notification of a dataclass or a msgspec Struct.

        Its `type` holds the names of the class and all its superclasses.
        """
        return cls(object_attributes(instance))

    @classmethod
    def from_json(cls, document: str | bytes) -> Self:
        """Make a notification of a JSON object; an array of objects becomes a list under each of their names.

        >>> Notification.from_json('{"order": {"items": [{"sku": "A7"}, {"sku": "B2"}]}}')
        Notification(order.items.sku=('A7', 'B2'))
        """
        return cls(json_attributes(document))

    @classmethod
    def from_document(cls, content: Mapping[str, object]) -> Self:
        """As `from_json`, of a document that has been decoded; bytes, times and locations may stand in it, too.

        >>> Notification.from_document({"order": {"number": 7, "note": None}, "body": b"..."})
        Notification(order.number=7, body=b'...')
        """
        return cls(document_attributes(content))

    @classmethod
    def from_tuple(cls, fields: Sequence[object]) -> Self:
        """Make a notification of a tuple; the attributes are "1", "2", ..."""
        return cls(tuple_attributes(fields))

    @classmethod
    def opaque(cls, body: bytes, *, channel: str | None = None, subject: str | None = None) -> Self:
        """Make a notification of bytes that no broker looks into; a channel or a subject selects it."""
        return cls(opaque_attributes(body, channel, subject))

    @property
    def attributes(self) -> dict[str, Value]:
        """The attributes as a plain dict, for reading only: the fastest access for code that matches."""
        return self._attributes

    @property
    def from_past(self) -> bool | None:
        """Whether it came from the past; None unless the subscription has `with_origin=True`."""
        return None

    def reply(self, notification: Mapping[str, object] | None = None, /, **attributes: object) -> Awaitable[None]:
        """Reply, if this is a request: see `Client.request`. `NotARequest` if it was only published."""
        raise NotARequest(f"{self!r:.100} was published, and asks for no reply; publish the answer instead")

    def __getitem__(self, name: str) -> Value:
        return self._attributes[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._attributes)

    def __len__(self) -> int:
        return len(self._attributes)

    def __contains__(self, name: object) -> bool:
        return name in self._attributes

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Notification):
            return NotImplemented
        mine, theirs = self._attributes, other._attributes
        return mine == theirs and all(map(_same_kinds, mine.values(), map(theirs.__getitem__, mine)))

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:  # few are ever hashed; those who are not do not pay for the slot
            self._hash: int = hash(frozenset(self._attributes.items()))
            return self._hash

    def __repr__(self) -> str:
        inside = ", ".join(f"{name}={value!r}" for name, value in self._attributes.items())
        return f"{type(self).__name__}({inside})"


def is_plain(attributes: dict[Any, Any]) -> bool:
    """Whether these are attributes as they are: flat, of permitted names, each value an ordinary scalar in its limits.

    A quick look that costs a fraction of the full check. False only means that the full check has to decide.
    """
    if not has_plain_kinds(attributes):
        return False
    for value in attributes.values():
        if type(value) is str and (len(value) > MAX_TEXT or not encodable(value)):
            return False
    return True


def has_plain_kinds(attributes: dict[Any, Any]) -> bool:
    """As `is_plain`, but nobody has looked into the texts: whether they are too long, or no Unicode."""
    known = known_names
    for name, value in attributes.items():
        if name not in known and not learn(name):
            return False
        kind = type(value)
        if kind is str:
            continue
        if kind is float:
            if not isfinite(value):
                return False
        elif kind is int:
            if not -(2**63) <= value < 2**63:
                return False
        elif kind is not bool:
            return False
    return len(attributes) <= MAX_ATTRIBUTES


def _same_kinds(one: Value, other: Value) -> bool:
    """Whether two values that Python calls equal are, too: to Python, True is 1."""
    if type(one) is tuple:
        return all(map(_same_kinds, one, other))  # type: ignore[arg-type]
    return (type(one) is bool) is (type(other) is bool)


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
            raise ValueRefused(f"attribute '{name}': more than {MAX_ATTRIBUTES} attributes in one notification")
