"""Progress: how far this broker has seen each origin's notifications.

A mark `(origin, epoch, seq)` follows the origin's notifications through the tree, whether or not any filter let them
pass. Links are FIFO, so a broker that has seen the mark has seen everything up to it that it ever will. A border
broker that has published since its last mark sends the next one after `MARK_INTERVAL`; a wave of kind "marks" asks
for all of them at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from tidings.wire import Mark, Marks

from ._links import Link

if TYPE_CHECKING:
    from ._broker import Broker

MARK_INTERVAL = 1_000_000
"""Microseconds between a publication and the mark that follows it."""

_marks = msgspec.msgpack.Decoder(dict[str, tuple[int, int]])


class Progress:
    """The marks that this broker has seen, and those it sends."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._seen: dict[str, tuple[int, int]] = {}
        self.due = False
        """Whether the next mark is scheduled."""
        self._emitted = 0
        broker.waves.register("marks", self)

    @property
    def seen(self) -> dict[str, tuple[int, int]]:
        """For each origin, the newest (epoch, seq) up to which everything has passed here."""
        return dict(self._seen)

    def of(self, origin: str) -> tuple[int, int] | None:
        """How far this broker has seen one origin."""
        return self._seen.get(origin)

    def advance(self, origin: str, epoch: int, seq: int) -> None:
        """Everything of this origin up to here has passed. (Of itself a broker misses nothing.)"""
        if origin == self._broker.name:
            return
        known = self._seen.get(origin)
        if known is None or known < (epoch, seq):
            self._seen[origin] = (epoch, seq)

    def published(self) -> None:
        """This broker has published: a mark is due."""
        self._schedule()

    def receive(self, link: Link, mark: Mark) -> None:
        """A mark has come: note it and pass it on."""
        self._broker.recovery.marked(mark)
        for other in self._broker.adjacency.open_links:
            if other is not link:
                self._broker.send(other, mark)
        self._schedule()

    def _schedule(self) -> None:
        if not self.due:
            self.due = True
            self._broker.call_later(MARK_INTERVAL, self._tick)

    def _tick(self) -> None:
        self.due = False
        broker = self._broker
        if broker.publications.last > self._emitted:
            self._emitted = broker.publications.last
            mark = Mark(broker.name, broker.epoch, self._emitted)
            for link in broker.adjacency.open_links:
                broker.send(link, mark)
        for link, marks in broker.recovery.marks_of_clients():
            broker.send(link, Marks(marks))

    # --- the wave of kind "marks" ---------------------------------------------------------------------

    def visit(self, body: bytes, answer: Callable[[bytes | None], None]) -> None:
        """This broker's own mark."""
        answer(msgspec.msgpack.encode({self._broker.name: (self._broker.epoch, self._broker.publications.last)}))

    def combine(self, answers: list[bytes]) -> bytes:
        """All marks together."""
        marks: dict[str, tuple[int, int]] = {}
        for answer in answers:
            marks.update(_marks.decode(answer))
        return msgspec.msgpack.encode(marks)


def decode_marks(answer: bytes) -> dict[str, tuple[int, int]]:
    """The marks in the answer of a wave."""
    return _marks.decode(answer)
