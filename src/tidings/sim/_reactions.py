"""Where a reaction may appear, from the definition of session scopes: the checker's own, as `_definition` is.

What a client publishes while it handles a notification is a reaction to it. By definition:

    told     a notification belongs to the sessions of the session scopes that it climbed through on its way to the
             client, and to those that it is a reaction to itself
    kept     the reaction climbs into every scope that is no session scope, and into those of these sessions. If one
             of these sessions is `origin_only`, it climbs into the scopes by which the notification came down to the
             client, and into no others. Once it is in a session scope, it climbs on like everything else there

A notification may come to a client in one form along several ways, and the client gets it once. Which of the ways count
is left open, so some things are *sure* and some only *possible*: what must be delivered is what is sure, and what must
not be delivered is what is not even possible.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tidings.model import Notification
from tidings.scopes import SESSION_ID, SESSION_MODE, Graph, SessionMode, client_node

from ._definition import Chain, Definition
from ._details import Notified, Published
from ._trace import Record

UNKNOWN = -1
"""The cause of a publication of which it is only known that it has one."""


class _Told(NamedTuple):
    """What one way tells of sessions, and where it came down."""

    sure: frozenset[str]
    possible: frozenset[str]
    places: frozenset[str]
    """The scopes by which it came down, the highest included."""
    confined: bool
    """Whether one of the sure sessions keeps reactions to itself."""
    confined_perhaps: bool


def session(graph: Graph, scope: str) -> str | None:
    """The id of a scope's session; None: it is no session scope."""
    attributes = graph.scopes[scope].attributes
    id = attributes.get(SESSION_ID)
    return None if id is None else f"automatic {scope}" if id == "auto" else f"named {id}"


class Reactions:
    """What was published in reaction to what."""

    def __init__(self, graphs: dict[int, Graph], definitions: dict[int, Definition]) -> None:
        self._graphs = graphs
        self._definitions = definitions
        self._notified: dict[int, Record] = {}
        self._published: dict[tuple[str, int], Record] = {}

    def note(self, record: Record) -> None:
        """A notification was handed over, or something published."""
        if isinstance(record.detail, Notified):
            self._notified[record.seq] = record
        elif isinstance(record.detail, Published):
            self._published[record.publisher, record.publication] = record

    def climbing(self, version: int, published: Record, *, possible: bool) -> Callable[[Chain], bool]:
        """Up which chains of edges this may climb; unless `possible`, up which it must."""
        cause = published.detail.cause if isinstance(published.detail, Published) else None
        if cause is None or version not in self._graphs:
            return lambda chain: True
        if cause == UNKNOWN:
            return lambda chain: possible
        graph, told = self._graphs[version], self._told(self._notified[cause])

        def climbs(chain: Chain) -> bool:
            for edge in chain:
                id = session(graph, edge.scope)
                if _is_out(id, edge.scope, told, surely=possible):
                    return False
                if id is not None:
                    return True
            return True

        return climbs

    def _told(self, notified: Record) -> list[_Told]:
        """For each way by which a notification may have come, in this form."""
        assert isinstance(notified.detail, Notified)
        version = notified.detail.graph_epoch
        published = self._published[notified.publisher, notified.publication]
        sure, possible = self._inherited(published)
        graph = self._graphs.get(version)
        if graph is None:
            return [_Told(sure, possible, frozenset(), False, False)]
        own = notified.component == notified.publisher
        found = []
        for climbed, places in self._ways(version, published, notified.notification, notified.component, own=own):
            ids = frozenset(id for scope in climbed if (id := session(graph, scope)) is not None)
            kept = _confined(graph)
            found.append(
                _Told(sure | ids, possible | ids, places, bool(kept & (sure | ids)), bool(kept & (possible | ids)))
            )
        return found

    def _ways(
        self, version: int, published: Record, form: Notification | None, reader: str, *, own: bool
    ) -> list[tuple[list[str], frozenset[str]]]:
        """The scopes that it climbed through, and those by which it came down, for each way."""
        definition, climbs = self._definition(version), self.climbing(version, published, possible=True)
        assert published.notification is not None
        publisher = client_node(published.publisher)
        if own:
            back = definition.returning(publisher, published.notification)
            return [([edge.scope], frozenset((edge.scope,))) for edge in back if climbs((edge,))]
        ways = [way for way in definition.ways(publisher, client_node(reader)) if climbs(way.up)]
        return [
            ([edge.scope for edge in way.up], frozenset(edge.scope for edge in way.down))
            for way in ways
            if definition.along(way, published.notification) == form
        ]

    def _inherited(self, published: Record) -> tuple[frozenset[str], frozenset[str]]:
        """The sessions that a publication belongs to because of what it reacts to: the sure and the possible ones."""
        cause = published.detail.cause if isinstance(published.detail, Published) else None
        if cause is None or cause == UNKNOWN:
            return frozenset(), frozenset()
        told = self._told(self._notified[cause])
        if not told:
            return frozenset(), frozenset()
        sure = frozenset.intersection(*(one.sure for one in told))
        return sure, frozenset().union(*(one.possible for one in told))

    def _definition(self, version: int) -> Definition:
        if version not in self._definitions:
            self._definitions[version] = Definition(self._graphs[version])
        return self._definitions[version]


def _is_out(id: str | None, scope: str, told: list[_Told], surely: bool) -> bool:
    """Whether a scope is ruled out by what each way tells; unless `surely`, whether it may be by one."""
    if surely:
        other = bool(told) and id is not None and all(one.sure and id not in one.possible for one in told)
        return other or (bool(told) and all(one.confined and scope not in one.places for one in told))
    other = id is not None and any(one.possible and id not in one.sure for one in told)
    return other or any(one.confined_perhaps and scope not in one.places for one in told)


def _confined(graph: Graph) -> frozenset[str]:
    kept = SessionMode.ORIGIN_ONLY.value
    confined = (id for id, one in graph.scopes.items() if one.attributes.get(SESSION_MODE) == kept)
    return frozenset(found for id in confined if (found := session(graph, id)) is not None)
