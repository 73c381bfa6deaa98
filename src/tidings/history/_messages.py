"""What brokers ask and answer one another about the past. It travels in waves."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from tidings.broker import Decision
from tidings.model import Matches, Position
from tidings.wire import Envelope, unpacker

from ._newest import newest

PAGE_BYTES = 786_432
"""The bytes after which an answer is closed; the rest is asked for. With one notification more it fits into a part."""
PAGE = 5_000
"""The most notifications in one answer."""
MEMORY, STORE, ARCHIVE = "memory", "store", "archive"
TIERS = (MEMORY, STORE, ARCHIVE)
"""Where a broker looks, one after the other."""


class Ask(msgspec.Struct, frozen=True, array_like=True):
    """What is asked of every broker: the newest of its own publications."""

    requester: str
    """The broker that asks."""
    filter: Matches
    count: int | None
    """The most that are needed."""
    since: int | None
    """Published then or later, in microseconds since 1970 UTC."""
    but: str = ""
    """A publisher whose notifications are not wanted."""
    before: dict[str, Position] = {}
    """For each origin that was asked before: only what lies before this position."""
    respect_ttl: bool = False
    client: str = ""
    """For whom it is asked, if deciding points may have given it something; "": that does not matter."""

    @property
    def page(self) -> int:
        """The most notifications that the next answer may hold."""
        return PAGE if self.count is None else min(self.count, PAGE)


class Found(msgspec.Struct, frozen=True, array_like=True):
    """What some brokers have found."""

    reached: dict[str, Position]
    """For each of them, how far its publications went when it was asked."""
    envelopes: list[Envelope] = []
    tiers: dict[str, int] = {}
    """How many were found where."""
    more: bool = False
    """Whether there may be older ones."""
    page: int = PAGE
    """The most notifications that this answer may hold."""
    places: bytes = b""
    """For each of the envelopes, the place in `TIERS` of where it was found."""
    unstored: int = 0
    """How many of the brokers that have found nothing keep nothing on disk."""
    forgotten: int = 0
    """The instant before which one of those has forgotten something, in microseconds; 0: none, or it is not told."""
    given: list[Decision] = []
    """What deciding points have given to the client for whom it is asked, at one of these brokers."""


read_ask = unpacker(Ask)
read_found = unpacker(Found)


def together(answers: Iterable[Found]) -> Found:
    """One answer for several: no more than fits, the newest of all."""
    reached: dict[str, Position] = {}
    tiers: dict[str, int] = {}
    envelopes: list[Envelope] = []
    places: dict[int, int] = {}
    more, page, unstored, forgotten = False, 0, 0, 0
    given: list[Decision] = []
    for answer in answers:
        places.update(zip(map(id, answer.envelopes), answer.places, strict=False))
        reached.update(answer.reached)
        envelopes += answer.envelopes
        more |= answer.more
        page = max(page, answer.page)
        unstored += answer.unstored
        forgotten = max(forgotten, answer.forgotten)
        given += answer.given
        for tier, count in answer.tiers.items():
            tiers[tier] = tiers.get(tier, 0) + count
    chosen = newest(envelopes, page, PAGE_BYTES)
    more |= len(chosen) < len(envelopes)
    order = bytes(places.get(id(one), len(TIERS)) for one in chosen)
    return Found(reached, chosen, tiers, more, page, order, unstored, forgotten, given)
