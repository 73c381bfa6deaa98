"""Segments: many batches in a row under one summary, so that a query passes over a long log in few steps.

A segment is closed when it spans enough publications or batches; its row is written with the next commit. What follows
the last segment has only the summaries of its batches, which are few. A segment of which retention has taken a part
says more than it holds, which costs a look and nothing else.
"""

from __future__ import annotations

import sqlite3

from ._summary import SEGMENT_TERMS, Sets, decoded, encoded, sets_in

SEGMENT_COUNT = 32_768
"""Publications after which a segment is closed."""
SEGMENT_BATCHES = 1_024
"""Batches after which a segment is closed, however few publications they hold."""

INSERT = "INSERT INTO segments (id, first, earliest, latest, summary) VALUES (?, ?, ?, ?, ?)"
_OPEN = """
SELECT id, count, earliest, latest, summary FROM publications
WHERE id > (SELECT coalesce(max(id), 0) FROM segments) ORDER BY id
"""


class OpenSegment:
    """The batches since the last segment, summarised while they come."""

    def __init__(self) -> None:
        self._first = self._last = 0
        self._count = self._batches = 0
        self._earliest = self._latest = 0
        self._sets: Sets | None = None

    @property
    def is_complete(self) -> bool:
        """Whether it should be closed."""
        return self._count >= SEGMENT_COUNT or self._batches >= SEGMENT_BATCHES

    def add(self, number: int, count: int, earliest: int, latest: int, sets: Sets) -> None:
        """A further batch, which is on disk."""
        if self._sets is None:
            self._first, self._earliest, self._latest = number, earliest, latest
            self._sets = {name: set(terms) for name, terms in sets.items()}
        else:
            self._earliest, self._latest = min(self._earliest, earliest), max(self._latest, latest)
            for name in list(self._sets):
                if name not in sets or len(self._sets[name]) > SEGMENT_TERMS:
                    del self._sets[name]  # for a part of the segment nobody knows, or too much is known
                else:
                    self._sets[name] |= sets[name]
        self._last = number
        self._count += count
        self._batches += 1

    def row(self) -> tuple[int | bytes, ...]:
        """The segment as it is written when it is closed."""
        assert self._sets is not None, "an empty segment is never complete"
        summary = encoded(self._earliest, self._latest, self._sets)
        return self._last, self._first, self._earliest, self._latest, summary


def resumed(connection: sqlite3.Connection) -> tuple[OpenSegment, list[tuple[int | bytes, ...]]]:
    """The segment that an earlier opening has left open, and the rows of those that it has not come to write."""
    segment = OpenSegment()
    rows = []
    for number, count, earliest, latest, summary in connection.execute(_OPEN):
        if segment.is_complete:
            rows.append(segment.row())
            segment = OpenSegment()
        segment.add(number, count, earliest, latest, sets_in(decoded(summary)))
    return segment, rows
