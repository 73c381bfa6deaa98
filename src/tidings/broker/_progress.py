"""Progress: how far this broker has seen each origin's notifications.

A mark `(origin, epoch, seq)` follows the origin's notifications through the tree, whether or not any filter let them
pass. Links are FIFO, so a broker that has seen the mark has seen everything up to it that it ever will. A border
broker that has published since its last mark sends the next one after `MARK_INTERVAL`; on a new tree all of them are
gathered (see `_tree_marks`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from tidings.wire import Mark, Marks

from ._links import Link

if TYPE_CHECKING:
    from ._broker import Broker

DETOUR_TIME = 5_000_000
"""Microseconds after which nothing is on a detour by a gateway any more."""
MARK_INTERVAL = 1_000_000
"""Microseconds between a publication and the mark that follows it."""

Position: TypeAlias = tuple[int, int]
"""An origin's epoch and number: how far somebody has seen it."""


class Progress:
    """The marks that this broker has seen, and those it sends."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._seen: dict[str, tuple[int, int]] = {}
        self._passing: dict[str, tuple[int, int]] = {}
        """How far marks have come lately, where there are gateways."""
        self._earlier: dict[str, tuple[int, int]] = {}
        """How far they had come before."""
        self._waiting = False
        self.due = False
        """Whether the next mark is scheduled."""
        self._emitted = 0

    @property
    def seen(self) -> dict[str, tuple[int, int]]:
        """For each origin, the newest (epoch, seq) up to which everything has passed here."""
        return dict(self._seen)

    def of(self, origin: str) -> tuple[int, int] | None:
        """How far this broker has seen one origin."""
        return self._seen.get(origin)

    def advance(self, origin: str, epoch: int, seq: int) -> None:
        """Everything of this origin up to here has passed. (Of itself a broker misses nothing.)

        Where there are gateways, what takes a detour may come behind the mark, even to the broker that it comes from.
        So marks are believed later, and only while every gateway can be reached.
        """
        if self._broker.scoping.gateways:
            self._passing[origin] = max((epoch, seq), self._passing.get(origin, (0, 0)))
            if not self._waiting:
                self._waiting = True
                self._broker.call_later(DETOUR_TIME, self._believe)
        elif origin != self._broker.name:
            self._note(origin, epoch, seq)

    def _believe(self) -> None:
        self._waiting = False
        broker = self._broker
        reached = {broker.name, *broker.adjacency.tree.hops}
        if not broker.scoping.gateways <= reached:
            return  # the next tree, if there is one, asks the origins for all that was missed
        for origin, (epoch, seq) in self._earlier.items():
            self._note(origin, epoch, seq)
        self._earlier, self._passing = self._passing, {}
        if self._earlier:
            self._waiting = True
            broker.call_later(DETOUR_TIME, self._believe)

    def new_tree(self) -> None:
        """What was on a detour is lost with the old tree."""
        self._earlier.clear()
        self._passing.clear()

    def _note(self, origin: str, epoch: int, seq: int) -> None:
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
