"""What brokers, and brokers and clients, say to each other about what is deployed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import msgspec

from tidings.model import TidingsError
from tidings.wire import UNREADABLE, brief, pack, unpacker

from ._signing import Signed

FEATURE = "deployments"
"""The name of the feature in messages."""


class _Message(msgspec.Struct, frozen=True, array_like=True, tag=True):
    pass


# --- between brokers ----------------------------------------------------------------------------------


class Have(_Message, frozen=True):
    """What I know, by marks; tell me what I lack."""

    marks: list[tuple[str, str, bytes]]


class Spread(_Message, frozen=True):
    """A statement that you may not know."""

    statement: Signed


# --- between a client and its broker ------------------------------------------------------------------


class Deploy(_Message, frozen=True):
    """Take a statement, and tell it to all brokers."""

    id: str
    statement: Signed
    force: bool = False
    """Of a removal: also while somebody watches it."""


class Survey(_Message, frozen=True):
    """What is deployed, at all brokers?"""

    id: str


class Fetch(_Message, frozen=True):
    """What was deployed under this name? `Fetched` or `Declined` follows."""

    id: str
    name: str
    version: str = ""
    """"": the one that answers to the name."""


class Fetched(_Message, frozen=True):
    """What installs a version, its source included."""

    id: str
    statement: Signed


class Known(msgspec.Struct, frozen=True):
    """A name and version, as one broker sees it."""

    broker: str
    name: str
    version: str
    digest: str
    tier: int
    phase: str
    reason: str = ""
    watches: int = 0
    """How many clients of the broker watch it by name."""
    strikes: int = 0
    issued_at: int = 0
    """When it was issued, in milliseconds since 1970."""
    value: str = ""
    """What code has computed that runs once, as JSON; "": nothing yet."""


class Surveyed(_Message, frozen=True):
    """What is deployed, and what was done."""

    id: str
    network: str
    known: list[Known]
    complete: bool
    """Whether every broker has answered."""
    brokers: int
    layers: tuple[str, ...] = ()
    """What isolates code at the broker that answers."""
    no_code: str = ""
    """Why that broker runs no code; "": it does."""


class Declined(_Message, frozen=True):
    """A request was refused, and nothing has changed."""

    id: str
    error: str
    reason: str


AnyMessage: TypeAlias = Have | Spread | Deploy | Survey | Surveyed | Declined | Fetch | Fetched
_read: Callable[[bytes], AnyMessage] = unpacker(AnyMessage)  # type: ignore[arg-type]
read_known: Callable[[bytes], list[Known]] = unpacker(list[Known])


def encode(message: AnyMessage) -> bytes:
    """A message as bytes."""
    return pack(message)


def decode(body: bytes) -> AnyMessage:
    """The message in these bytes, or `TidingsError`."""
    try:
        return _read(body)
    except UNREADABLE as error:
        raise TidingsError(f"not a message about what is deployed: {brief(error)}") from None
