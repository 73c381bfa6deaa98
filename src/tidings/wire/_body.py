"""The body: a notification as bytes. Encoded once by the publisher, decoded once by each broker at most."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import msgspec

from tidings.model import MAX_ATTRIBUTES, MAX_NAME, MAX_TEXT, Location, Notification, ValueRefused

MAX_BODY = 1_048_576
"""The most bytes of an encoded notification."""

MAX_KNOWN_NAMES = 10_000
"""The most names of attributes that are checked once and for all; others are checked each time."""

_LOCATION = 1  # the code of a Location among msgpack's extension types


def _enc_hook(value: object) -> msgspec.msgpack.Ext:
    if isinstance(value, Location):
        return msgspec.msgpack.Ext(_LOCATION, str(value).encode())
    raise NotImplementedError(f"{type(value).__name__} is not a value")


def _ext_hook(code: int, data: memoryview) -> Location:
    if code == _LOCATION:
        return Location(bytes(data).decode())
    raise ValueError(f"extension type {code} is unknown")


_encoder = msgspec.msgpack.Encoder(enc_hook=_enc_hook)
_decoder = msgspec.msgpack.Decoder(dict[str, Any], ext_hook=_ext_hook)

_Finite = Annotated[float, msgspec.Meta(ge=-sys.float_info.max, le=sys.float_info.max)]
_Integer = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_Text = Annotated[str, msgspec.Meta(max_length=MAX_TEXT)]
_plain_decoder = msgspec.msgpack.Decoder(dict[str, bool | _Integer | _Finite | _Text])
"""Most notifications hold nothing else: then the values are checked while they are decoded."""
_known_names: set[str] = set()


def encode_body(notification: Notification) -> bytes:
    """The notification as bytes.

    >>> decode_body(encode_body(Notification(symbol="SAP", price=182.4)))
    Notification(symbol='SAP', price=182.4)
    """
    body = _encoder.encode(notification.attributes)
    if len(body) > MAX_BODY:
        raise ValueRefused(f"a notification of {len(body):,} bytes is too large: at most {MAX_BODY:,}")
    return body


def decode_body(body: bytes) -> Notification:
    """The notification in these bytes, which a border broker has checked before."""
    attributes = _decoder.decode(body)
    for name, value in attributes.items():
        if type(value) is list:
            attributes[name] = tuple(value)
    return Notification.trusted(attributes)


def checked_body(body: bytes) -> Notification:
    """The notification in bytes that came from a client: every name and value is checked."""
    if len(body) > MAX_BODY:
        raise ValueRefused(f"a notification of {len(body):,} bytes is too large: at most {MAX_BODY:,}")
    try:
        attributes: dict[str, Any] = _plain_decoder.decode(body)
    except (msgspec.DecodeError, ValueError):
        return _checked_one_by_one(body)
    if len(attributes) > MAX_ATTRIBUTES or not (_known_names.issuperset(attributes) or _good_names(attributes)):
        return Notification(attributes)  # says what is wrong
    return Notification.trusted(attributes)


def _checked_one_by_one(body: bytes) -> Notification:
    """The notification in bytes that hold more than numbers and texts, or something that they must not."""
    try:
        attributes = _decoder.decode(body)
    except (msgspec.DecodeError, ValueError) as error:
        raise ValueRefused(f"the body of a publication cannot be decoded: {error}") from None
    return Notification.decoded(attributes)


def _good_names(attributes: dict[str, Any]) -> bool:
    """Whether all names are such as an attribute may have; from now on these are known."""
    if not all(0 < len(name) <= MAX_NAME for name in attributes):
        return False
    if len(_known_names) + len(attributes) <= MAX_KNOWN_NAMES:
        _known_names.update(attributes)
    return True
