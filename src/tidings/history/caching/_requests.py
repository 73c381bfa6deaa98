"""What brokers say to one another about what they remember.

Request    up, as a message of its own where routing sends nothing (a fetch), or attached to the subscription that
           routing announces anyway (a bounded subscription): find this
Replay     down: what was found, oldest first
Expect     down: so many more replays will come
Release    up: whoever asked does not subscribe any more; forget what is kept because of it
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import msgspec

from tidings.model import Filter, Matches, Position, TidingsError
from tidings.wire import Envelope, pack, unpacker

RequestId: TypeAlias = tuple[str, int, int]
"""The broker of the client that asks, its incarnation, a number there."""
MAX_REPLAY_BYTES = 1_048_576
"""The bytes of bodies in one replay; the oldest are left out first."""


class _RequestMessage(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """The root of these messages."""


class Request(_RequestMessage, frozen=True):
    """Find the newest notifications that pass a filter."""

    id: RequestId
    filter: Matches
    limit: int
    since: int | None
    have: dict[str, Position]
    """For each origin, the oldest position that is known already."""
    level: int
    """Of the broker that gets this; the border broker of the client is at level 2."""
    deadline: int
    """Microseconds that the answer may take."""


class Replay(_RequestMessage, frozen=True):
    """What was found."""

    id: RequestId
    envelopes: list[Envelope]


class Expect(_RequestMessage, frozen=True):
    """So many more replays will come for this request."""

    id: RequestId
    count: int
    junction: bool


class Release(_RequestMessage, frozen=True):
    """Nobody needs any more what was kept for this request."""

    id: RequestId


AnyRequestMessage: TypeAlias = Request | Replay | Expect | Release
_read: Callable[[bytes], AnyRequestMessage] = unpacker(AnyRequestMessage)  # type: ignore[arg-type]


def encode(message: AnyRequestMessage) -> bytes:
    return pack(message)


def decode(body: bytes) -> AnyRequestMessage:
    """The message in these bytes, or `TidingsError`."""
    try:
        message = _read(body)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise TidingsError(f"not a message about the past: {error}") from None
    if isinstance(message, Replay):
        for envelope in message.envelopes:
            envelope.notification  # noqa: B018 - `WireError` if there is none
    if isinstance(message, Request) and not isinstance(message.filter, Filter):
        raise TidingsError("the filter of a request for the past cannot be read")
    return message


def fitting(envelopes: list[Envelope]) -> list[Envelope]:
    """The newest of these that fit into one replay."""
    size = 0
    for at in range(len(envelopes) - 1, -1, -1):
        size += len(envelopes[at].body)
        if size > MAX_REPLAY_BYTES:
            return envelopes[at + 1 :]
    return envelopes
