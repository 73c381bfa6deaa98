"""Progress: how far this broker has seen each origin's notifications.

A mark `(origin, epoch, seq)` follows the origin's notifications through the tree, whether or not any filter let them
pass. Links are FIFO, so a broker that has seen the mark has seen everything up to it that it ever will. A border
broker that has published since its last mark sends the next one after `MARK_INTERVAL`; on a new tree all of them are
gathered (see `_tree_marks`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from tidings.broker._links import Link
from tidings.model import NOWHERE, Position
from tidings.wire import Mark, Marks

from ._adjacency import Adjacency
from ._host import Host

DETOUR_TIME = 5_000_000
"""Microseconds after which nothing is on a detour by a gateway any more."""
MARK_INTERVAL = 1_000_000
"""Microseconds between a publication and the mark that follows it."""


class Sources(Protocol):
    """What the marks of a broker rest on, and who hears of those of others."""

    @property
    def last(self) -> int:
        """The number of the latest publication of this broker."""
        ...

    @property
    def gateways(self) -> frozenset[str]:
        """The brokers by which something may take a detour."""
        ...

    def marked(self, mark: Mark) -> None:
        """A mark of another origin has come."""
        ...

    def marks_of_clients(self) -> Iterable[tuple[Link, dict[str, Position]]]:
        """What each client is to be told, if there is anything new."""
        ...


class Progress:
    """The marks that this broker has seen, and those it sends."""

    def __init__(self, host: Host, adjacency: Adjacency, sources: Sources) -> None:
        self._host = host
        self._adjacency = adjacency
        self._sources = sources
        self._seen: dict[str, Position] = {}
        self._passing: dict[str, Position] = {}
        """How far marks have come lately, where there are gateways."""
        self._earlier: dict[str, Position] = {}
        """How far they had come before."""
        self._waiting = False
        self.due = False
        """Whether the next mark is scheduled."""
        self._emitted = 0

    @property
    def seen(self) -> dict[str, Position]:
        """For each origin, the newest (epoch, seq) up to which everything has passed here."""
        return dict(self._seen)

    def of(self, origin: str) -> Position | None:
        """How far this broker has seen one origin."""
        return self._seen.get(origin)

    def advance(self, origin: str, epoch: int, seq: int) -> None:
        """Everything of this origin up to here has passed. (Of itself a broker misses nothing.)

        Where there are gateways, what takes a detour may come behind the mark, even to the broker that it comes from.
        So marks are believed later, and only while every gateway can be reached.
        """
        if self._sources.gateways:
            self._passing[origin] = max(Position(epoch, seq), self._passing.get(origin, NOWHERE))
            if not self._waiting:
                self._waiting = True
                self._host.call_later(DETOUR_TIME, self._believe)
        elif origin != self._host.name:
            self._note(origin, epoch, seq)

    def _believe(self) -> None:
        self._waiting = False
        reached = {self._host.name, *self._adjacency.tree.hops}
        if not self._sources.gateways <= reached:
            return  # the next tree, if there is one, asks the origins for all that was missed
        for origin, (epoch, seq) in self._earlier.items():
            self._note(origin, epoch, seq)
        self._earlier, self._passing = self._passing, {}
        if self._earlier:
            self._waiting = True
            self._host.call_later(DETOUR_TIME, self._believe)

    def new_tree(self) -> None:
        """What was on a detour is lost with the old tree."""
        self._earlier.clear()
        self._passing.clear()

    def _note(self, origin: str, epoch: int, seq: int) -> None:
        known = self._seen.get(origin)
        if known is None or known < (epoch, seq):
            self._seen[origin] = Position(epoch, seq)

    def published(self) -> None:
        """This broker has published: a mark is due."""
        self._schedule()

    def receive(self, link: Link, mark: Mark) -> None:
        """A mark has come: note it and pass it on, if its origin lies in that direction."""
        if self._adjacency.tree.hops.get(mark.origin) != link.name:
            return  # nobody can say how far another's publications have come on this link
        self._sources.marked(mark)
        for other in self._adjacency.open_links:
            if other is not link:
                self._host.send(other, mark)
        self._schedule()

    def _schedule(self) -> None:
        if not self.due:
            self.due = True
            self._host.call_later(MARK_INTERVAL, self._tick)

    def _tick(self) -> None:
        self.due = False
        self.tell()

    def tell(self) -> None:
        """Tell neighbours and clients how far everything has come."""
        host, last = self._host, self._sources.last
        if self._sources.gateways:
            self.advance(host.name, host.epoch, last)
        if last > self._emitted:
            self._emitted = last
            mark = Mark(host.name, host.epoch, last)
            for link in self._adjacency.open_links:
                host.send(link, mark)
        for link, marks in self._sources.marks_of_clients():
            host.send(link, Marks(marks))
