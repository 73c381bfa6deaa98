"""What brokers, and a client and its broker, say to each other about the receivers of publications."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import msgspec

from tidings.model import ROOT_SCOPE, TidingsError
from tidings.wire import UNREADABLE, brief, pack, unpacker

FEATURE = "receivers"
"""The name of the feature in messages."""


class _Message(msgspec.Struct, frozen=True, array_like=True, tag=True):
    pass


# --- between a client and its broker ------------------------------------------------------------------


class Reserve(_Message, frozen=True):
    """I want to publish something, and to be told how many get it. `Reserved` or `Declined` follows."""

    id: str
    scope: str = ROOT_SCOPE
    """In which receivers count."""
    within: int = 2_000_000
    """How long acknowledgements of receivers are waited for, in microseconds."""


class Reserved(_Message, frozen=True):
    """Publish it, behind `Follow`."""

    id: str


class Follow(_Message, frozen=True):
    """My publication of this number, which comes next, is the one."""

    id: str
    seq: int


class Abandon(_Message, frozen=True):
    """My publication will not come."""

    id: str


class Received(_Message, frozen=True):
    """How many have got it."""

    id: str
    handled: int | None
    """Clients that have acknowledged it; None: withheld, or not known."""
    unknown: int | None
    """Clients that were sent it, or are owed it, and have not acknowledged it in time; None: withheld, or not known."""
    complete: bool
    """Whether every broker has answered."""
    withheld: bool = False
    """Whether there are some, and too few to be told."""


class Who(_Message, frozen=True):
    """Which clients could hear something? `Names` or `Declined` follows."""

    id: str
    key: str = ""
    """A filter; "": everything, unless there is a probe."""
    probe: bytes = b""
    """The encoded body of a notification."""
    scope: str = ROOT_SCOPE


class Names(_Message, frozen=True):
    """These could."""

    id: str
    names: list[str]
    left_out: int
    """How many more there are at least."""
    complete: bool
    """Whether every broker has told its names."""


class Declined(_Message, frozen=True):
    """A request was refused, and nothing has changed."""

    id: str
    error: str
    reason: str


AnyMessage: TypeAlias = Reserve | Reserved | Follow | Abandon | Received | Who | Names | Declined
_read: Callable[[bytes], AnyMessage] = unpacker(AnyMessage)  # type: ignore[arg-type]


def encode(message: AnyMessage) -> bytes:
    """A message as bytes."""
    return pack(message)


def decode(body: bytes) -> AnyMessage:
    """The message in these bytes, or `TidingsError`."""
    try:
        return _read(body)
    except UNREADABLE as error:
        raise TidingsError(f"not a message about receivers: {brief(error)}") from None


# --- between brokers ----------------------------------------------------------------------------------


class Event(msgspec.Struct, frozen=True, array_like=True):
    """The publication whose receivers are counted; it carries this with it."""

    origin: str
    epoch: int
    seq: int


class Question(msgspec.Struct, frozen=True, array_like=True):
    """The wave behind it: how many clients of yours have got it?"""

    event: Event
    tree: int
    """The epoch of the tree on which it went out: on another one, it has other ways."""
    scope: str
    within: int


class Tally(msgspec.Struct, frozen=True, array_like=True):
    """The answer to it."""

    handled: int = 0
    unknown: int = 0


class Wanted(msgspec.Struct, frozen=True, array_like=True):
    """The wave that asks for names."""

    key: str
    probe: bytes
    scope: str


class Found(msgspec.Struct, frozen=True, array_like=True):
    """The answer to it."""

    names: list[str]
    left_out: int = 0


read_event: Callable[[bytes], Event] = unpacker(Event)
read_question: Callable[[bytes], Question] = unpacker(Question)
read_tally: Callable[[bytes], Tally] = unpacker(Tally)
read_wanted: Callable[[bytes], Wanted] = unpacker(Wanted)
read_found: Callable[[bytes], Found] = unpacker(Found)
