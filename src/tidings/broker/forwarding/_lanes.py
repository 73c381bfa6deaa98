"""Which lanes of a broker may be taken, and by whom. See `_lane` for what a lane is.

Whether a lane may be taken is found out when somebody asks for it, and stays so until something changes: then `changed`
disarms all of them, and the next message finds out again. A lane is armed if

    weaving      nobody advises PUB_MATCH or PUB_SEND, nor DELIVER for everybody
    routing      is not flooding
    the graph    has one version, and this table is in it, and is not that of a session scope

and a client publishes by it if it is a member of this one scope, which shows it everything, if nothing holds its
publications up, and if none of them is to be followed. Where there are no scopes, publications enter by it even if
steps are advised or notifications flood; then they go on through these steps. Where PUB_SEND alone is advised, the lane
still says where they go.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from tidings.broker._links import Link
from tidings.broker.interest import Passage, Table, View

from ._lane import Lane, Surroundings


class Graph(Protocol):
    """The scope graph as it is at this broker."""

    @property
    def tables(self) -> Mapping[str, Table]:
        """By scope."""
        ...

    @property
    def active(self) -> View:
        """By which this broker's own publications are judged."""
        ...

    @property
    def steady(self) -> bool:
        """Whether there is one version only."""
        ...

    @property
    def flat(self) -> bool:
        """Whether nobody has ever defined a scope."""
        ...

    def passages(self, client: Link) -> tuple[Passage, ...] | None:
        """How an attached client is a member of its scopes now; None: what it publishes has to wait."""
        ...


class Lanes:
    """The lanes of one broker: which of them may be taken, by whom."""

    def __init__(
        self, around: Surroundings, graph: Graph, *, floods: bool, followed: Collection[Link] = frozenset()
    ) -> None:
        """`followed`: the clients of which a publication is to be followed; looked at when a lane is asked for."""
        self.around = around
        self._followed = followed
        self._graph = graph
        self._floods = floods
        self.plain = True
        """Whether nobody advises PUB-MATCH and PUB-SEND, nor DELIVER for everybody."""
        self.matches = not floods
        """Whether nobody advises PUB-MATCH, and it is not said by flooding where a notification goes."""
        self._lanes: dict[str, Lane] = {}
        self.publishing: dict[Link, Lane | None] = {}
        """The lane by which a client publishes, once that is known; None: none."""
        self.passing: dict[str, Lane | None] = {}
        """The lane that takes what neighbours bring in a scope, once that is known; None: none."""
        self.brought: dict[Link, str] = {}
        """The scope of what each neighbour has brought last: most often the next is in the same."""

    def changed(self) -> None:
        """Something has changed on which it depends whether lanes may be taken."""
        if self.publishing or self.passing:
            for lane in self._lanes.values():
                lane.disarm()
            self.publishing.clear()
            self.passing.clear()
            self.brought.clear()
            tables = self._graph.tables
            self._lanes = {scope: lane for scope, lane in self._lanes.items() if tables.get(scope) is lane.table}

    def forget(self, link: Link) -> None:
        """A client has gone."""
        if (lane := self.publishing.pop(link, None)) is not None:
            lane.dismiss(link)

    def for_publisher(self, link: Link) -> Lane | None:
        """The lane by which an attached client publishes; None: the full path."""
        passages = self._graph.passages(link)
        lane = None
        plain = passages is not None and len(passages) == 1 and passages[0].exact and link not in self._followed
        plain = plain and passages is not None and not passages[0].chooses
        if passages is not None and plain and passages[0].scope not in self._graph.active.sessions:
            scope = passages[0].scope
            lane = self.passing[scope] if scope in self.passing else self.for_scope(scope)
            if lane is None and self._graph.flat:
                lane = self._armed(self._graph.tables[scope], woven=True, matches=self.matches)
            if lane is not None:
                lane.admit(link, passages[0])
        self.publishing[link] = lane
        return lane

    def for_scope(self, scope: str) -> Lane | None:
        """The lane of what is in a scope; None: the full path."""
        graph = self._graph
        table = graph.tables.get(scope)
        if table is None:
            return None  # nothing is noted of scopes that only neighbours know
        plain = self.plain and not self._floods and graph.steady and scope not in graph.active.sessions
        lane = self._armed(table) if plain else None
        self.passing[scope] = lane
        return lane

    def _armed(self, table: Table, *, woven: bool = False, matches: bool = True) -> Lane:
        lane = self._lanes.get(table.scope)
        if lane is None or lane.table is not table:
            lane = self._lanes[table.scope] = Lane(table, self.around)
        lane.arm(self._graph.active, flat=self._graph.flat, woven=woven, matches=matches)
        return lane

    def all(self) -> Mapping[str, Lane]:
        """Every lane that has been used, by scope."""
        return self._lanes
