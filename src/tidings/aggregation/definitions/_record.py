"""What a definition looks at: one record for each thing that happened at a joinpoint.

A broker hands live records to its aggregates, and Spark reads the same ones back from the journal and the archive. They
are of one type, so a definition cannot tell the present from the past.
"""

from __future__ import annotations

import enum
import hmac
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from tidings.model import Value

SECRET_BYTES = 32
"""The length of the secret under which clients have pseudonyms."""
_NOTHING: Mapping[str, Value] = MappingProxyType({})


class JP(enum.StrEnum):
    """The joinpoints that definitions may name, by the names that the broker has for them."""

    PUBLISHED = "published"
    """A notification enters the network, at the border broker of its publisher."""
    SUB_ADD = "sub_add"
    SUB_DEL = "sub_del"
    AD_ADD = "ad_add"
    AD_DEL = "ad_del"


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that happened.

    `edge` is 1 if the peer has its first subscription (or advertisement) of this key with it, -1 if it has lost its
    last one, else 0; the engine works it out, so that gauges are plain sums. `peer` is a pseudonym unless the
    definition has the capability `identity`. `topic` is the attribute `type` of a notification, or what a filter
    says about it.
    """

    ts_ms: int
    """When it happened, in milliseconds since 1970, by the clock of the broker where it entered."""
    broker: str
    jp: JP
    topic: str = ""
    peer: str = ""
    ingress: bool = True
    """Whether it came from a client of this broker; what came from a neighbour has been counted there."""
    edge: int = 0
    filter: str = ""
    attrs: Mapping[str, Value] = msgspec.field(default_factory=lambda: _NOTHING)


class Included(NamedTuple):
    """What a window includes of one origin: those of its publications with these numbers that fall into it."""

    origin: str
    epoch: int
    first: int
    last: int


def pseudonym(secret: bytes, aggregate: str, client: str) -> str:
    """What a definition sees of a client: the same in all windows, at all brokers and in history; another for each
    aggregate.

    `secret` is the network's. Without it a client cannot be guessed by trying names.

    >>> pseudonym(b"secret", "active_publishers", "alice") == pseudonym(b"secret", "active_publishers", "bob")
    False
    """
    return hmac.digest(secret, f"{aggregate}\0{client}".encode(), "sha256")[:12].hex()
