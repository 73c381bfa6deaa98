"""The body: a notification as bytes. Encoded once by the publisher, decoded once by each broker at most."""

from __future__ import annotations

from typing import Any

import msgspec

from tidings.model import Location, Notification, ValueRefused

MAX_BODY = 1_048_576
"""The most bytes of an encoded notification."""

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
        attributes = _decoder.decode(body)
    except (msgspec.DecodeError, ValueError) as error:
        raise ValueRefused(f"the body of a publication cannot be decoded: {error}") from None
    return Notification.decoded(attributes)
