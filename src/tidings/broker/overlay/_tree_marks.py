"""The marks of a tree: how far every origin had come when everybody's filters were in place, gathered once for all.

Theory of operation
-------------------
Two messages go over each link of a tree in each direction, once, behind the filters that a new neighbour is told:

    TreeReady      everything behind the sender is ready: sent once every other tree neighbour of the sender has said so
    TreeMarks      the marks of everything behind the sender: sent once the receiver has said that it is ready, and
                   every other tree neighbour of the sender has sent its own

Links are FIFO. When X has said that it is ready, the filters of everything behind X are here, or something that covers
them; when Y hears it from here in turn, they are at Y. So the mark of an origin, as a broker gets it, was taken when
the filters of that broker had reached the origin: what the origin publishes later will come. And everything up to the
mark that ever comes has come before it. A wave by every broker would find out the same; this takes four frames on each
link.

The marks are known when every tree neighbour has sent them. On a new tree everything begins again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from tidings.broker._bounds import check_positions
from tidings.broker._links import Link
from tidings.model import Position
from tidings.wire import TreeMarks, TreeReady

from ._adjacency import Adjacency
from ._host import Host


class Gathering:
    """How far the gathering of the marks of the current tree has come."""

    def __init__(
        self,
        host: Host,
        adjacency: Adjacency,
        last: Callable[[], int],
        complete: Callable[[dict[str, Position]], None],
    ) -> None:
        """`last`: the number of the latest publication of this broker; `complete` is called with the marks of all."""
        self._host = host
        self._adjacency = adjacency
        self._last = last
        self._complete = complete
        self._links: list[Link] = []
        self._ready: set[Link] = set()
        """Neighbours behind which everything is ready."""
        self._marks: dict[Link, dict[str, Position]] = {}
        self._told_ready: set[Link] = set()
        self._told_marks: set[Link] = set()

    def new_tree(self) -> None:
        """Begin again."""
        self._links = self._adjacency.tree_links
        self._ready.clear()
        self._marks.clear()
        self._told_ready.clear()
        self._told_marks.clear()

    def started_anew(self, link: Link) -> None:
        """A neighbour has forgotten what it said and heard."""
        self._ready.discard(link)
        self._marks.pop(link, None)
        self._told_ready.discard(link)
        self._told_marks.discard(link)

    @property
    def is_ready(self) -> bool:
        """Whether everything behind every neighbour is ready: this broker knows what anybody wants."""
        return len(self._ready) >= len(self._links)

    def neighbour_ready(self) -> None:
        """A neighbour has finished its handshake, and has been told all filters."""
        self._go_on()

    def ready(self, link: Link, message: TreeReady) -> None:
        """Everything behind a neighbour is ready."""
        self._ready.add(link)
        self._go_on()

    def marks(self, link: Link, message: TreeMarks) -> None:
        """The marks of everything behind a neighbour."""
        check_positions(message.marks.values())
        self._marks[link] = message.marks
        self._go_on()
        if len(self._marks) == len(self._links):
            self._complete(self._gathered(None))

    def _go_on(self) -> None:
        """Tell each neighbour what can be told now, which is a matter of all the others."""
        for link in self._due(self._ready, self._told_ready):
            self._told_ready.add(link)
            self._host.send(link, TreeReady())
        for link in self._due(self._marks.keys(), self._told_marks):
            if link in self._ready:
                self._told_marks.add(link)
                self._host.send(link, TreeMarks(self._gathered(link)))

    def _due(self, said: Collection[Link], told: set[Link]) -> list[Link]:
        """The neighbours that have not been told yet, where all others have said so."""
        missing = len(self._links) - len(said)
        if missing > 1:
            return []
        links = [link for link in self._links if link not in said] if missing else self._links
        return [link for link in links if link not in told and self._adjacency.is_open(link)]

    def _gathered(self, apart_from: Link | None) -> dict[str, Position]:
        """The marks of this broker and of everything behind all its neighbours but one."""
        gathered: dict[str, Position] = {self._host.name: Position(self._host.epoch, self._last())}
        for link, marks in self._marks.items():
            if link is not apart_from:
                gathered.update(marks)
        return gathered
