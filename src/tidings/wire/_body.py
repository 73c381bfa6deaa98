"""The body: a notification as bytes. Encoded once by the publisher, decoded once by each broker at most."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any

import msgspec

from tidings._native import engine
from tidings.model import (
    MAX_ATTRIBUTES,
    MAX_TEXT,
    Location,
    Notification,
    Value,
    ValueRefused,
    has_plain_kinds,
    known_names,
    learn,
)

from ._errors import UNREADABLE, WireError, brief

MAX_BODY = 1_048_576
"""The most bytes of an encoded notification."""

_SCALARS = frozenset({bool, int, float, str, bytes, datetime, Location})
_INTEGERS = 2**63  # an integer lies below, so no larger float is equal to one
_LOCATION = 1  # the code of a Location among msgpack's extension types


def _enc_hook(value: object) -> msgspec.msgpack.Ext:
    if isinstance(value, Location):
        return msgspec.msgpack.Ext(_LOCATION, str(value).encode())
    raise NotImplementedError(f"{type(value).__name__} is not a value")


def ext_hook(code: int, data: memoryview) -> Location:
    """A value that msgpack has no type of its own for."""
    if code == _LOCATION:
        return Location(bytes(data).decode())
    raise ValueError(f"extension type {code} is unknown")


_encode = msgspec.msgpack.Encoder(enc_hook=_enc_hook).encode
_decode = msgspec.msgpack.Decoder(dict[str, Any], ext_hook=ext_hook).decode
_trusted = Notification.trusted
_plain_kinds = engine.plain_kinds if engine is not None else None
"""A quick look at most of what is published; what does not pass it is looked at once more."""

_Finite = Annotated[float, msgspec.Meta(ge=-sys.float_info.max, le=sys.float_info.max)]
_Integer = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_Text = Annotated[str, msgspec.Meta(max_length=MAX_TEXT)]
_plain_decoder = msgspec.msgpack.Decoder(dict[str, bool | _Integer | _Finite | _Text])
"""Most notifications hold nothing else: then the values are checked while they are decoded."""


def encode_body(notification: Notification | Mapping[str, object]) -> bytes:
    """The notification as bytes; a plain mapping is checked and flattened first.

    >>> decode_body(encode_body(Notification(symbol="SAP", price=182.4)))
    Notification(symbol='SAP', price=182.4)
    """
    if type(notification) is dict and (
        (_plain_kinds is not None and _plain_kinds(notification, known_names)) or has_plain_kinds(notification)
    ):
        try:
            body = _encode(notification)
        except UnicodeEncodeError:
            pass  # the full check says where
        else:
            if len(body) <= MAX_TEXT:  # so no text in it is longer
                return body
    checked = notification if isinstance(notification, Notification) else Notification(notification)
    body = _encode(checked.attributes)
    if len(body) > MAX_BODY:
        raise ValueRefused(f"a notification of {len(body):,} bytes is too large: at most {MAX_BODY:,}")
    return body


def canonical_body(notification: Notification) -> bytes:
    """The same bytes for notifications that are equal, in whatever order and as whatever kind of number they hold it.

    >>> canonical_body(Notification(a=1, b=2)) == canonical_body(Notification(b=2.0, a=1.0))
    True
    """
    content = {name: _canonical(value) for name, value in sorted(notification.attributes.items())}
    return encode_body(_trusted(content))


def _canonical(value: Value) -> Value:
    if type(value) is float and value.is_integer() and abs(value) < _INTEGERS:
        return int(value)
    return tuple(map(_canonical, value)) if type(value) is tuple else value  # type: ignore[arg-type]


def decode_body(body: bytes) -> Notification:
    """The notification in these bytes, which a border broker has checked before; `WireError` if there is none."""
    try:
        attributes = _decode(body)
    except UNREADABLE as error:
        raise _not_a_notification(error) from None
    if _SCALARS.issuperset(map(type, attributes.values())):
        return _trusted(attributes)
    for name, value in attributes.items():
        if type(value) is list and _SCALARS.issuperset(map(type, value)):
            attributes[name] = tuple(value)
        elif type(value) not in _SCALARS:
            raise _not_a_notification(f"'{name}' is of a kind that no attribute has")
    return _trusted(attributes)


def _not_a_notification(problem: object) -> WireError:
    return WireError(f"the body of a notification cannot be decoded: {brief(problem)}")


def checked_body(body: bytes) -> Notification:
    """The notification in bytes that came from a client: every name and value is checked."""
    if len(body) > MAX_BODY:
        raise ValueRefused(f"a notification of {len(body):,} bytes is too large: at most {MAX_BODY:,}")
    try:
        attributes: dict[str, Any] = _plain_decoder.decode(body)
    except (msgspec.DecodeError, ValueError):
        return _checked_one_by_one(body)
    if len(attributes) > MAX_ATTRIBUTES or not (known_names.issuperset(attributes) or all(map(learn, attributes))):
        return Notification(attributes)  # says what is wrong
    return Notification.trusted(attributes)


def _checked_one_by_one(body: bytes) -> Notification:
    """The notification in bytes that hold more than numbers and texts, or something that they must not."""
    try:
        attributes = _decode(body)
    except (msgspec.DecodeError, ValueError) as error:
        raise ValueRefused(f"the body of a publication cannot be decoded: {brief(error)}") from None
    return Notification.decoded(attributes)
