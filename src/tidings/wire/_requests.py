"""What clients and brokers say about requests and replies, in extensions of the feature `requests`."""

from __future__ import annotations

import msgspec

from tidings.model import Number

from ._errors import UNREADABLE, WireError, brief
from ._messages import Causes, Tag

REQUESTS = "requests"
"""The feature, and how a welcome says that a broker has it."""
MAX_TO = 512
"""The most characters of where a reply goes: the name of a broker, and the id of a session."""


class Said(msgspec.Struct, frozen=True, array_like=True, tag=str.lower):
    """The root of these messages."""


class Reply(Said, frozen=True):
    """Of a client: a reply to a request."""

    number: Number
    """The outcome repeats it."""
    to: str
    """What the request's tag `re:` says."""
    body: bytes
    cause: Causes = ()
    """What the request came with, as in `Publish`."""


class Close(Said, frozen=True):
    """Of a client: it wants no more replies in this session."""

    id: Tag


class Outcome(Said, frozen=True):
    """To a client: the reply of this number has arrived, or what is wrong with it."""

    number: Number
    error: str = ""
    reason: str = ""


class Replied(Said, frozen=True):
    """To a client: a reply to its request."""

    id: Tag
    body: bytes


class Ended(Said, frozen=True):
    """To a client: no reply will come to its request."""

    id: Tag
    error: str
    reason: str


class Carry(Said, frozen=True):
    """Between brokers: a reply, on its way to the broker where the session is."""

    number: Number
    id: Tag
    """The key of the session."""
    replier: str
    body: bytes
    cause: Causes = ()


class Carried(Said, frozen=True):
    """Between brokers: what has become of it."""

    number: Number
    error: str = ""
    reason: str = ""


AnySaid = Reply | Close | Outcome | Replied | Ended | Carry | Carried
_read = msgspec.msgpack.Decoder(AnySaid).decode


def read_request(body: bytes) -> AnySaid:
    """What was said, or `WireError`."""
    try:
        said: AnySaid = _read(body)
    except UNREADABLE as error:
        raise WireError(f"not about a request: {brief(error)}") from None
    return said
