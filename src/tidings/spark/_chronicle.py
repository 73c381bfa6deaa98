"""The chronicle: what subscriptions were owed and what they were sent, read from the journals of all brokers.

What they were owed is known by their lives, which the store knows how to read. What was sent is passed on, with how it
came: in the order of its numbers, or *late*.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from typing import Protocol

from tidings.model import NOWHERE, Position
from tidings.store import Carried, JournalKind, JournalRecord, Life, Lives, Open, Sent, decode_deliveries


class Timeliness(enum.IntEnum):
    """How a notification came, compared with what had come before it from the same origin."""

    IN_ORDER = 0
    LATE = 1
    """Behind one with a larger number."""
    AGAIN = 2
    """Its client had come further before, at another broker."""
    PAST = 3
    """It is from the past, which comes in an order of its own."""


class Sink(Protocol):
    """Takes what was sent to subscriptions."""

    def add(self, source: tuple[str, int], life: int, sent: Sent, timeliness: Timeliness) -> None:
        """A notification was sent to a subscription."""

    def stray(self, broker: str, client: str, id: str, source: tuple[str, int], sent: Sent) -> None:
        """A notification was sent to a subscription that its client did not have."""


class Chronicle:
    """Reads the journals of brokers, one after the other."""

    def __init__(self, sink: Sink) -> None:
        self.lives: list[Life] = []
        self.silent: list[str] = []
        """Brokers that had subscriptions and did not note what they sent."""
        self.holes: dict[str, int] = {}
        """Records that the disk of a broker has refused."""
        self.damaged: dict[str, int] = {}
        """Rows of the journal of a broker that could not be read."""
        self._sink = sink
        self._broker = ""
        self._last: dict[tuple[int, str], Position] = {}
        """The largest position that each life has got of an origin."""

    def read(
        self, broker: str, journal: Iterable[JournalRecord], carried: Carried | None = None, *, sent_from: int = 0
    ) -> None:
        """Take in what was carried and a whole journal; deliveries from before an instant are left out."""
        count = len(self.lives)
        self._broker, lives = broker, Lives(broker, self.lives)
        if carried is not None:
            carried.resume(lives)
        for record in journal:
            lives.take(record)
            if record.kind is JournalKind.DELIVER and record.at >= sent_from:
                self._delivered(record, lives)
        lives.close()
        if lives.missed:
            self.holes[broker] = lives.missed
        if lives.damaged:
            self.damaged[broker] = lives.damaged
        if not lives.notes and len(self.lives) > count:
            self.silent.append(broker)

    def _delivered(self, record: JournalRecord, lives: Lives) -> None:
        deliveries = decode_deliveries(record.data)
        groups = [list(_meant(lives, group.clients, group.subscriptions)) for group in deliveries.groups]
        for sent in deliveries.rows():
            source = deliveries.sources[sent.source]
            for client, id, known in groups[sent.group]:
                if known is None:
                    if not lives.unsure:
                        self._sink.stray(self._broker, client, id, source, sent)
                elif deliveries.groups[sent.group].past:
                    self._sink.add(source, known.place, sent, Timeliness.PAST)
                else:
                    self._sink.add(source, known.place, sent, self._timeliness(known, *source, sent.seq))

    def _timeliness(self, known: Open, origin: str, epoch: int, seq: int) -> Timeliness:
        position = Position(epoch, seq)
        if position <= known.floor.get(origin, NOWHERE):
            return Timeliness.AGAIN
        if position < self._last.get((known.place, origin), NOWHERE):
            return Timeliness.LATE
        self._last[known.place, origin] = position
        return Timeliness.IN_ORDER


def _meant(lives: Lives, clients: Iterable[str], ids: Iterable[str]) -> Iterator[tuple[str, str, Open | None]]:
    for client in clients:
        subscriptions = lives.clients.get(client, {})
        for id in ids:
            known = subscriptions.get(id)
            yield client, id, None if known is None or known.ended_at is not None else known
