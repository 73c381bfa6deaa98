"""Observing: what questions see of what the clients of a broker publish and subscribe to.

Theory of operation
-------------------
A question is about one scope. What a client publishes is measured in every form in which it is visible there, each
once, whatever the number of ways by which it comes. A client that begins to subscribe is seen in the scopes in which
its members count, in the terms of the scope; by several ways that differ, it may want anything.

    PUBLISHED   advised as long as a question about publications is measured
    SUBSCRIBE   advised as long as a question about subscriptions is measured
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from tidings.broker import Advice, Joinpoint, Link, Registration, View, Watch
from tidings.matching import Matcher
from tidings.model import EVERYTHING, ROOT_SCOPE, Matches, Notification
from tidings.wire import Envelope, encode_body

from ._measurements import Measurements
from ._places import Places, Way
from ._subject import Subject


class Graph(Protocol):
    """The scope graph, as far as observing needs it: `Context.scoping`."""

    flat: bool
    """Whether there is the root scope only."""
    active: View
    """By which publications are judged."""

    @property
    def newest(self) -> View:
        """By which subscriptions are judged."""
        ...


class Observing:
    """What one broker observes for the questions that it measures."""

    def __init__(
        self, graph: Graph, places: Places, measurements: Measurements, counts: Callable[[Link], bool]
    ) -> None:
        """`counts`: whether a client is this broker's, and stands for itself."""
        self._graph = graph
        self._places = places
        self._measurements = measurements
        self._counts = counts
        self._judged: View | None = None
        self._changing: dict[str, bool] = {}
        """Whether something may be changed on its way to a scope, in this version of the graph."""

    def advice(self) -> dict[Joinpoint, Advice]:
        """What must be advised for what is measured now."""
        steps: dict[Joinpoint, Advice] = {}
        if self._measurements.scopes:
            steps[Joinpoint.PUBLISHED] = Watch(self._on_published, self._concerned)
        if self._measurements.subscribing:
            steps[Joinpoint.SUBSCRIBE] = self._on_subscribe
        return steps

    def _concerned(self) -> Matcher[Subject] | None:
        """What says whether a publication concerns a question; None: only `_on_published` knows.

        Where nothing is changed on its way to the scope of the questions, what was published is what is seen there.
        """
        index = self._measurements.index
        if index is None or self._graph.flat:
            return index
        if self._graph.active is not self._judged:
            self._judged, self._changing = self._graph.active, {}
        (scope,) = self._measurements.scopes
        if scope not in self._changing:
            ways = (path for paths in self._places.of(scope).paths.values() for path in paths)
            self._changing[scope] = any(passage.outward_filters is None for way in ways for passage in way)
        return None if self._changing[scope] else index

    def _on_published(self, envelopes: Sequence[Envelope], link: Link) -> None:
        for envelope in envelopes:
            identity = envelope.identity
            if self._graph.flat:
                self._measurements.published(ROOT_SCOPE, envelope.notification, identity, link.principal)
                continue
            for scope in self._measurements.scopes:
                for seen in self._seen_in(scope, envelope.notification, link):
                    self._measurements.published(scope, seen, identity, link.principal)

    def _seen_in(self, scope: str, notification: Notification, link: Link) -> Iterator[Notification]:
        """Each form in which something is visible in a scope that a client publishes."""
        paths = self._places.of(scope).paths
        forms: dict[bytes, None] = {}
        for member, own in self._graph.active.memberships(link.principal).items():
            for path in paths.get(member, ()):
                seen: Notification | None = notification
                for passage in (own, *path):
                    seen = None if seen is None else passage.outward(seen)
                if seen is not None and (form := encode_body(seen)) not in forms:
                    forms[form] = None
                    yield seen

    def _on_subscribe(self, proceed: Callable[..., None], registration: Registration) -> None:
        proceed(registration)
        link = registration.link
        if not self._counts(link):
            return
        memberships = self._graph.newest.memberships(link.principal)
        for subject in self._measurements.subscribing:
            wanted = [
                _through(registration.filter, (own, *way))
                for member, own in memberships.items()
                for way in self._places.of(subject.scope).ways.get(member, ())
            ]
            if (first := next(iter(wanted), None)) is not None:
                rest = [one for one in wanted[1:] if one != first]
                self._measurements.begun(subject, EVERYTHING if rest else first)


def _through(filter: Matches, way: Way) -> Matches:
    """What is wanted at the end of a way by a client that wants this at its start."""
    for passage in way:
        filter = passage.wanted(filter)
    return filter
