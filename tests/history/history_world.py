"""Envelopes and links for tests of what brokers remember."""

from __future__ import annotations

from collections.abc import Mapping

from tidings.broker import Link, LinkKind
from tidings.model import ROOT_ROUTE, Filter, Identity, Notification
from tidings.wire import Envelope, encode_body

EAST, WEST = Link("east", LinkKind.BROKER), Link("west", LinkKind.BROKER)
FEED = Link("feed", LinkKind.CLIENT)


def envelope(seq: int, origin: str = "o", *, at: int | None = None, **attributes: object) -> Envelope:
    """The publication number `seq` of an origin, published at that time."""
    identity = Identity(origin, 1, seq, "feed", seq, seq if at is None else at)
    body: Mapping[str, object] = {"n": seq, **attributes}
    return Envelope(identity, (ROOT_ROUTE,), encode_body(Notification(body)))


def f(text: str) -> Filter:
    return Filter.parse(text)


def numbers(envelopes: list[Envelope]) -> list[int]:
    return [one.identity.seq for one in envelopes]
