"""Stretches: what follows in the log, cut where the epoch or the hour changes.

A batch that is of one hour, and new as a whole, stays as it was written until something decodes it: the compiled engine
makes columns of the bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from itertools import groupby

from tidings.model import Position
from tidings.store._layout import hour_of
from tidings.store._reader import Packed
from tidings.store._store_reader import StoreReader
from tidings.wire import Envelope


class Stretch:
    """Publications of one epoch and hour that follow one another in the log."""

    def __init__(self, log: StoreReader, packed: Packed, envelopes: list[Envelope] | None = None) -> None:
        self._log = log
        self._packed = packed
        self._cut = envelopes
        self.data = packed.data if envelopes is None else None
        """An array of envelopes in msgpack, if these are all of it."""
        self.kind = packed.batch.epoch, hour_of(envelopes[0].identity.published_at if envelopes else packed.earliest)
        """The epoch and the hour."""
        self.first = envelopes[0].identity.seq if envelopes else packed.batch.first
        self.last = envelopes[-1].identity.seq if envelopes else packed.batch.last

    @cached_property
    def envelopes(self) -> list[Envelope]:
        """Decoded; nothing if that fails, which the log notes as damage."""
        return self._log.envelopes(self._packed) if self._cut is None else self._cut


def stretches(log: StoreReader, after: Position) -> Iterator[Stretch]:
    """What follows a position, in order."""
    for packed in log.packed_beyond(*after):
        batch = packed.batch
        if (batch.epoch, batch.first) > after and hour_of(packed.earliest) == hour_of(packed.latest):
            yield Stretch(log, packed)
            continue
        left = [one for one in log.envelopes(packed) if one.identity.position > after]
        for _, some in groupby(left, lambda one: hour_of(one.identity.published_at)):
            yield Stretch(log, packed, list(some))
