"""Admission: which asks a broker takes. They must be about something that it can answer for, and within its limits; a
client must be allowed to ask, and the scope must be there."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from tidings.broker import Link, RoutingOptions, View
from tidings.model import EVERYTHING, AggregateError, BudgetExceeded, Filter, ScopeError

from ._catalogue import count_named
from ._deployed import Deployed
from ._measurements import QUESTION_VERSION
from ._named import is_name
from ._places import Places
from ._rights import Rights, named
from ._subject import Subject
from ._windows import is_measured, is_question, tells_of_people, where_of


class Graph(Protocol):
    """The scope graph, as far as admission needs it: `Context.scoping`."""

    ready: bool
    """Whether the broker knows the graph."""

    @property
    def newest(self) -> View:
        """By which rights are judged."""
        ...


class Admission:
    """The asks that one broker takes."""

    def __init__(
        self,
        broker: str,
        routing: RoutingOptions,
        graph: Graph,
        *,
        places: Places,
        rights: Rights,
        deployed: Deployed,
        states: Collection[Subject],
        max_keys: int,
    ) -> None:
        """`states`: what is asked for already, of which there are `max_keys` at most."""
        self._broker = broker
        self._advertisements = routing.advertisements
        self._graph = graph
        self._places = places
        self._rights = rights
        self._deployed = deployed
        self._states = states
        self._max_keys = max_keys

    def check(self, subject: Subject) -> None:
        """Raise `TidingsError` for a subject that this broker cannot answer for."""
        if is_question(subject.aggregate):
            if subject.version != QUESTION_VERSION:
                raise AggregateError(f"questions have version {QUESTION_VERSION} here, not {subject.version:.40}")
        elif is_name(subject.aggregate):
            self._deployed.manifest(subject)
        elif (count := count_named(subject.aggregate, subject.version)).brokers:
            if subject.probe or subject.key != str(EVERYTHING) or subject.away:
                raise AggregateError(f"{count.name} counts brokers, not clients; leave filter, probe and away out")
        elif count.advertisements and not self._advertisements:
            raise AggregateError(
                f"{count.name} counts what clients advertise, and this network uses no advertisements; switch them on "
                "in [routing]"
            )
        if subject not in self._states and len(self._states) >= self._max_keys:
            raise BudgetExceeded(
                f"{self._max_keys:,} keys are watched at broker '{self._broker}' already; "
                "try again later, or raise max_keys in [aggregation]"
            )

    def check_scope(self, subject: Subject) -> None:
        """Raise `TidingsError` for a scope of which clients of this broker cannot be told anything."""
        scope = subject.scope
        if not self._graph.ready and not self._graph.newest.version:
            return  # the graph is still to come
        place = self._places.of(scope)
        if not place.known:
            raise ScopeError(f"there is no scope '{scope:.80}' to count in; `tidings scope tree` shows which there are")
        if place.detour and is_measured(subject.aggregate):
            raise ScopeError(
                f"what is published in scope '{place.detour}' comes to {named(scope)} over a gateway, where nothing is "
                f"measured; ask about '{place.detour}' itself"
            )

    def may_ask(self, link: Link, subject: Subject) -> int:
        """Below which numbers are withheld from a client; `AccessDenied` if it may not ask at all."""
        view = self._graph.newest
        if is_name(subject.aggregate):
            where = Filter.parse(self._deployed.manifest(subject).where or "TRUE")
            self._rights.may_measure(link, subject.scope, where, view)
            return 0
        if not is_question(subject.aggregate):
            threshold = self._rights.threshold(link, subject.scope, view)
            count = count_named(subject.aggregate)
            if count.each:
                self._rights.may_administer(link, subject.scope, view)
            return 0 if count.brokers else threshold
        if tells_of_people(subject.aggregate):
            self._rights.may_administer(link, subject.scope, view)
        else:
            self._rights.may_measure(link, subject.scope, where_of(subject.aggregate), view)
        return 0

    def admit(self, link: Link, subject: Subject) -> None:
        """Count a request of a client that may ask, or raise `TidingsError`."""
        self.check_scope(subject)
        self.check(subject)
        self._rights.take(link)
