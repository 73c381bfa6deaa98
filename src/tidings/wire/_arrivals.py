"""What a client and its new broker say to each other after a move, in extensions of the feature `arrivals`."""

from __future__ import annotations

import msgspec

from ._errors import UNREADABLE, WireError, brief

ARRIVALS = "arrivals"
"""The feature, and how a welcome says that a broker has it."""


class CatchingUp(msgspec.Struct, frozen=True, array_like=True, tag="ask"):
    """Of a client: say when everything has been sent that its subscriptions had missed."""

    number: int
    """The answer repeats it."""


class CaughtUp(msgspec.Struct, frozen=True, array_like=True, tag="told"):
    """Of a broker: everything has been sent, or was waited for long enough."""

    number: int
    complete: bool = True
    """False: some origin still owes something."""
    scheme: str = "origins"
    """How what was missed has come."""


_read = msgspec.msgpack.Decoder(CatchingUp | CaughtUp).decode


def read_arrival(body: bytes) -> CatchingUp | CaughtUp:
    """What was said, or `WireError`."""
    try:
        said: CatchingUp | CaughtUp = _read(body)
    except UNREADABLE as error:
        raise WireError(f"not about an arrival: {brief(error)}") from None
    return said
