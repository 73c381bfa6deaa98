"""What a store keeps beside publications, and what it tells about itself."""

from __future__ import annotations

import enum
from typing import NamedTuple, TypeAlias

import msgspec

Plain: TypeAlias = str | int | float | bool | None


class JournalKind(enum.IntEnum):
    """What happened. Numbers are on disk: new kinds get new numbers, old ones are never reused."""

    SUBSCRIBE = 1
    UNSUBSCRIBE = 2
    ADVERTISE = 3
    UNADVERTISE = 4
    ATTACH = 5
    DETACH = 6
    ACKNOWLEDGE = 7
    SCOPE = 8
    SETTLED = 9
    GAP = 10
    DELIVER = 11
    START = 12
    HOLE = 13
    DEPLOY = 14
    HANDOFF = 15


class JournalRecord(msgspec.Struct, frozen=True, array_like=True):
    """One line of the journal: who did what when. docs/store.md lists the keys of `what` by kind."""

    kind: JournalKind
    at: int
    """Microseconds since 1970 UTC, by the clock of the broker."""
    who: str
    """The client, broker or administrator that caused it."""
    what: dict[str, Plain] = {}
    """Plain values by name, so that an audit can read them without the classes of this version."""
    data: bytes = b""
    """Of deliveries, which are too many for names: see `Deliveries`."""


def damaged(at: int) -> JournalRecord:
    """What stands for a row of the journal that cannot be read."""
    return JournalRecord(JournalKind.HOLE, at, "", {"damaged": 1})


class Bounds(NamedTuple):
    """The smallest and the largest number that is held of one epoch. There may be holes between them."""

    first: int
    last: int


class Damage(NamedTuple):
    """A batch that could not be read and is left out: the numbers `first` to `last` of an epoch."""

    epoch: int
    first: int
    last: int
    problem: str


class Extent(msgspec.Struct, frozen=True):
    """How much a store or an archive holds. Times are `published_at`, None if it holds nothing."""

    count: int
    batches: int
    bytes: int
    """Of its files, which do not shrink when something is forgotten."""
    earliest: int | None
    latest: int | None


class StoreStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """What a store has done since it was opened. Times are in microseconds."""

    appended: int
    """Operations taken into the queue: publications, journal records, puts and deletes."""
    synced: int
    """Operations that would survive a crash."""
    failed: int
    """Operations that the disk refused."""
    batches: int
    """Commits, which is syncs of the disk."""
    bytes: int
    """Bytes of packed publications and journal records handed to the engine."""
    queued: int
    """Operations that wait for the disk."""
    queued_bytes: int
    last_sync: int
    slowest_sync: int
    last_checkpoint: int
    slowest_checkpoint: int
    unheard: int
    """Answers that could not be posted because the receiving loop had ended."""
    damaged: int
    """Batches found unreadable."""
    forget_failures: int
    """Times that something old could not be forgotten because it could not be read, or not be deleted."""
