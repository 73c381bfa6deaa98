"""Stretches: what follows in the log, cut where the epoch or the hour changes.

A batch that is of one hour, and new as a whole, stays as it was written until something decodes it: the compiled engine
makes columns of the bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property, partial
from itertools import groupby
from typing import NamedTuple

from tidings.model import Position
from tidings.store._layout import hour_of
from tidings.store._store_reader import StoreReader
from tidings.wire import Envelope


class Kind(NamedTuple):
    """What all rows of a file have in common."""

    epoch: int
    hour: int
    """Since 1970."""


class Stretch:
    """Publications of one epoch and hour that follow one another in the log."""

    def __init__(
        self, kind: Kind, first: int, last: int, decoded: Callable[[], list[Envelope]], data: bytes | None = None
    ) -> None:
        self.kind = kind
        self.first = first
        """The number of the first."""
        self.last = last
        self.data = data
        """All of them as an array of envelopes in msgpack, if they were written so."""
        self._decoded = decoded

    @classmethod
    def of(cls, envelopes: list[Envelope]) -> Stretch:
        """These, of one epoch and hour."""
        first = envelopes[0].identity
        kind = Kind(first.epoch, hour_of(first.published_at))
        return cls(kind, first.seq, envelopes[-1].identity.seq, lambda: envelopes)

    @cached_property
    def envelopes(self) -> list[Envelope]:
        """Decoded; none if that fails, which the log notes as damage."""
        return self._decoded()


def stretches(log: StoreReader, after: Position) -> Iterator[Stretch]:
    """What follows a position, in order."""
    for packed in log.packed_beyond(*after):
        batch, hour = packed.batch, hour_of(packed.batch.earliest)
        if (batch.epoch, batch.first) > after and hour == hour_of(batch.latest):
            decoded = partial(log.envelopes, packed)
            yield Stretch(Kind(batch.epoch, hour), batch.first, batch.last, decoded, packed.data)
            continue
        left = [one for one in log.envelopes(packed) if one.identity.position > after]
        for _, some in groupby(left, lambda one: hour_of(one.identity.published_at)):
            yield Stretch.of(list(some))
