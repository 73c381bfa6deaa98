"""What brokers, and brokers and clients, say to each other about aggregates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec

from tidings.model import ROOT_SCOPE, TidingsError
from tidings.wire import UNREADABLE, brief, pack, unpacker

from ._engine import Update
from .definitions import Included

FEATURE = "aggregation"
"""The name of the feature in messages."""


class _Message(msgspec.Struct, frozen=True, array_like=True, tag=True):
    pass


# --- between brokers ----------------------------------------------------------------------------------


class Ask(_Message, frozen=True):
    """Tell me what lies behind you, from now on."""

    number: int
    """No other ask of this broker has it."""
    aggregate: str
    version: str
    key: str
    probe: bytes
    scope: str
    bound: float
    away: bool = False


class Rebound(_Message, frozen=True):
    """The bound of an ask is another one."""

    number: int
    bound: float


class Cancel(_Message, frozen=True):
    """Tell me no longer."""

    number: int


class Told(_Message, frozen=True):
    """What lies behind the sender, by asks."""

    updates: list[Update]


class Compare(_Message, frozen=True):
    """The secret under which clients have pseudonyms, as the sender knows it."""

    since: int
    value: bytes


# --- between a client and its broker ------------------------------------------------------------------


class Watch(_Message, frozen=True):
    """Tell me a value now and whenever it changes by more than the bound."""

    id: str
    aggregate: str
    key: str = ""
    """A filter; "": everything, unless there is a probe."""
    probe: bytes = b""
    """The encoded body of a notification."""
    max_error: float = 0
    scope: str = ROOT_SCOPE
    away: bool = False
    """Whether clients count whose connections are lost, but who are expected back."""


class Tune(_Message, frozen=True):
    """The bound of a watch is another one."""

    id: str
    max_error: float


class Unwatch(_Message, frozen=True):
    """Tell me no longer."""

    id: str


class Look(_Message, frozen=True):
    """What is there to be watched, and what is watched at this broker?"""

    id: str


class Result(_Message, frozen=True):
    """A value."""

    id: str
    value: Any
    error: float
    complete: bool
    version: str
    as_of: int
    """When the broker said so, in microseconds since 1970 UTC."""
    window: tuple[int, int] | None = None
    """From when to when, in milliseconds since 1970; None: the value is about now."""
    withheld: bool = False
    """Whether there is a number that is too small to be told."""
    included: tuple[Included, ...] | None = None
    """Which publications a complete value of a window is about; None: that is not known."""


class Declined(_Message, frozen=True):
    """A request was refused, and nothing has changed."""

    id: str
    error: str
    reason: str


class Offered(_Message, frozen=True):
    """An aggregate that can be watched."""

    name: str
    version: str
    about: str


class Watched(_Message, frozen=True):
    """A subject, as one broker sees it."""

    aggregate: str
    version: str
    key: str
    scope: str
    requests: int
    """How many clients of the broker watch it."""
    bound: float | None
    """The tightest of their bounds; None: only other brokers ask."""
    neighbours: int
    """How many neighbours ask for it."""
    value: Any
    error: float
    complete: bool
    away: bool = False


class Travelled(_Message, frozen=True):
    """What was told of one aggregate on the link to one neighbour."""

    aggregate: str
    neighbour: str
    sent: int
    """Updates to the neighbour."""
    suppressed: int
    """Changes that it did not have to be told."""
    ridden: int
    """Updates from it that came with another message."""
    alone: int
    """Updates from it that came by themselves."""


class Seen(_Message, frozen=True):
    """What a broker says when it is looked at."""

    id: str
    broker: str
    offered: list[Offered]
    watched: list[Watched]
    left_out: int
    """How many subjects more there are."""
    counters: dict[str, int]
    traffic: list[Travelled] = []


AnyMessage: TypeAlias = (
    Ask | Rebound | Cancel | Told | Compare | Watch | Tune | Unwatch | Look | Result | Declined | Seen
)
_read: Callable[[bytes], AnyMessage] = unpacker(AnyMessage)  # type: ignore[arg-type]


def encode(message: AnyMessage) -> bytes:
    """A message as bytes."""
    return pack(message)


def decode(body: bytes) -> AnyMessage:
    """The message in these bytes, or `TidingsError`."""
    try:
        return _read(body)
    except UNREADABLE as error:
        raise TidingsError(f"not a message about aggregates: {brief(error)}") from None
