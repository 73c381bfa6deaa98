"""The envelope: headers and the encoded notification, which brokers forward byte for byte."""

from __future__ import annotations

import enum
from collections.abc import Callable

import msgspec

from tidings.model import Identity, Notification, Route

from ._body import decode_body


class Quality(enum.IntEnum):
    """What the acknowledgement of a publication means."""

    FIRE = 0
    """No acknowledgement."""
    ACCEPTED = 1
    """The border broker has it in memory."""
    STORED = 2
    """The border broker has it on disk, synced."""
    DEFAULT = 3
    """The border broker decides: `STORED` where it has a store that takes it, else `ACCEPTED`.

    Only a client asks for this, and the acknowledgement says which it was; no envelope carries it.
    """

    def __str__(self) -> str:
        """The word by which it is chosen, as in `publish(..., quality="stored")`."""
        return self.name.lower()

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)


class _Kept:
    """`functools.cached_property` without its lock, which costs more than decoding: an envelope stays in its thread."""

    def __init__(self, compute: Callable[[Envelope], Notification]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __get__(self, envelope: Envelope, owner: type) -> Notification:
        kept: Notification = envelope.__dict__.setdefault("notification", self._compute(envelope))
        return kept


class Envelope(msgspec.Struct, frozen=True, array_like=True, dict=True):
    """Headers and the encoded notification: what a broker forwards, byte for byte."""

    identity: Identity
    routes: tuple[Route, ...]
    body: bytes
    quality: Quality = Quality.ACCEPTED

    @classmethod
    def of(
        cls,
        identity: Identity,
        routes: tuple[Route, ...],
        body: bytes,
        quality: Quality,
        notification: Notification,
    ) -> Envelope:
        """An envelope whose body has been decoded already."""
        envelope = cls(identity, routes, body, quality)
        envelope.__dict__["notification"] = notification
        return envelope

    @_Kept
    def notification(self) -> Notification:
        """The decoded body; decoded on the first use, then kept."""
        return decode_body(self.body)
