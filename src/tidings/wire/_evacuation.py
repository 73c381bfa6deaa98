"""What is said when the clients of a broker go to other brokers, because it is about to stop.

A broker and its client say it in extensions of the feature `evacuation`. None of it names a broker: a client goes only
where its application has told it to.
"""

from __future__ import annotations

import msgspec

from ._errors import UNREADABLE, WireError, brief

EVACUATION = "evacuation"
"""The feature."""
EVACUATED = "evacuated"
"""The code of a rejection: this broker is about to stop, too."""
MAX_STAYING = 1_000
"""The most clients that are listed."""


class GoElsewhere(msgspec.Struct, frozen=True, array_like=True, tag="go"):
    """Of a broker: go to another of your own addresses."""

    number: int
    """The answer repeats it."""


class Stays(msgspec.Struct, frozen=True, array_like=True, tag="stays"):
    """Of a client: it stays."""

    number: int
    tried: int = 0
    """How many other addresses it has tried in vain; 0: it has none."""


class StayingStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A client that has not gone."""

    client: str
    reason: str


class EvacuationStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How far the evacuation of a broker has come: plain data, sent as JSON.

    A field that a later version adds is ignored by an earlier one.
    """

    broker: str
    began: int = 0
    """Microseconds since 1970 UTC; 0: the broker is not being evacuated."""
    gone: dict[str, int] = {}
    """How many clients have gone to each broker."""
    ended: int = 0
    """How many have ended, or gone without a word where."""
    waiting: int = 0
    """How many are still to be asked, or on their way."""
    staying: tuple[StayingStatus, ...] = ()
    """The clients that stay, and why."""
    left_out: int = 0
    """Clients that stay and are not listed because there are too many."""

    @property
    def done(self) -> bool:
        """Whether every client has gone, or stays."""
        return bool(self.began) and not self.waiting


_read = msgspec.msgpack.Decoder(GoElsewhere | Stays).decode


def read_evacuation(body: bytes) -> GoElsewhere | Stays:
    """What a broker and its client said, or `WireError`."""
    try:
        said: GoElsewhere | Stays = _read(body)
    except UNREADABLE as error:
        raise WireError(f"not about an evacuation: {brief(error)}") from None
    return said


def encode_evacuation(status: EvacuationStatus) -> bytes:
    """As JSON."""
    return msgspec.json.encode(status)


def decode_evacuation(body: bytes) -> EvacuationStatus:
    """From JSON, or `WireError`."""
    try:
        return msgspec.json.decode(body, type=EvacuationStatus)
    except msgspec.MsgspecError as error:
        raise WireError(f"not what a broker says about an evacuation: {error}") from None
