"""Who may see a notification, and in which forms: the broker's own matching and visibility, over all subscriptions.

An index finds candidates: without scopes, one over every filter of every life; with scopes, the notification is
followed through the graph version that judged it, and each scope that it reaches has one over its members. What each of
them gets is said by the function with which brokers hand over what was missed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from tidings.broker import FLAT, SEAT, Link, LinkKind, Registration, Tree, View, owed
from tidings.matching import Matcher, make_index
from tidings.model import ROOT_SCOPE, Duplicates, Filter, FilterError
from tidings.scopes import OPEN, Graph, PolicyKind, SetPolicy, apply, client_node, reach
from tidings.scopes import Plan as GraphPlan
from tidings.store import Life, form_of
from tidings.wire import Envelope

Key: TypeAlias = tuple[int, int]
"""A life, and one of its filters."""
Forms: TypeAlias = dict[int, set[int]]
"""The forms in which a life gets an event, each with the filters that it passes."""

SHARING = frozenset(("one-of-n", "single"))
"""The policies that give something to one member."""

_TREE = Tree(0, frozenset(), {}, {"audit": None})
_FLAT = FLAT.on("audit", _TREE)


class Viewers:
    """What every life may see of what is published."""

    def __init__(self, lives: list[Life], graphs: Mapping[int, Graph]) -> None:
        self._lives = lives
        self._filters: dict[Key, Filter] = {}
        self.opaque: set[int] = set()
        """Lives whose filter cannot be read: nothing is known of what they wanted."""
        self.seats = {place for place, life in enumerate(lives) if life.client.startswith(SEAT)}
        """Those of deciding points, which get what is in a scope to decide about it, and are no readers."""
        for place, life in enumerate(lives):
            if place in self.seats:
                continue
            try:
                for number, text in enumerate(life.filters):
                    self._filters[place, number] = Filter.parse(text)
            except FilterError:
                self.opaque.add(place)
        self._versions = sorted(graphs)
        self._plans = {version: _Plan(graph, self) for version, graph in graphs.items() if not _is_flat(graph)}
        self._flat: Matcher[Key] = make_index()
        for key, filter in self._filters.items() if len(self._plans) < len(graphs) else ():
            self._flat.add(filter, key)
        self._registrations: dict[Key, Registration] = {}

    def knows(self, version: int) -> bool:
        """Whether this version of the scope graph is known."""
        return version in self._versions

    def seen(self, envelope: Envelope, version: int | None = None) -> dict[int, Forms]:
        """Every life that gets an event under a version of the graph (its own if none is named), and how."""
        plan = self._plans.get(envelope.identity.graph_epoch if version is None else version)
        if plan is not None:
            return plan.seen(envelope)
        return self.given(self._flat.match(envelope.notification), envelope, _FLAT)

    def eligible(self, envelope: Envelope) -> dict[int, Forms]:
        """Every life that might get an event from a scope whose deciding point chooses among its members, and how."""
        plan = self._plans.get(envelope.identity.graph_epoch)
        return {} if plan is None else plan.eligible(envelope)

    def sharing(self, envelope: Envelope, place: int) -> str | None:
        """The one scope of a life's client that gives what it gets to one member; None: it is in none, or in more."""
        plan = self._plans.get(envelope.identity.graph_epoch)
        return None if plan is None else plan.sharing(self._lives[place].client)

    def given(self, candidates: Iterable[Key], envelope: Envelope, view: View) -> dict[int, Forms]:
        """What these get of an event under a version of the graph."""
        found: dict[int, Forms] = {}
        for key in candidates:
            for form in owed(self.registration(key), envelope, view):
                found.setdefault(key[0], {}).setdefault(form_of(form.routes[0]), set()).add(key[1])
        return found

    def visible(self, envelope: Envelope, place: int) -> bool:
        """Whether a life's client may see an event in any form, whatever its filters say."""
        plan = self._plans.get(envelope.identity.graph_epoch)
        return plan is None or plan.visible(envelope, self._lives[place].client)

    def versions_since(self, version: int) -> list[int]:
        """The versions of the graph after this one."""
        return [later for later in self._versions if later > version]

    def filters_of(self, client: str) -> list[tuple[Key, Filter]]:
        """Every filter of every life of a client."""
        return [(key, filter) for key, filter in self._filters.items() if self._lives[key[0]].client == client]

    def clients(self) -> set[str]:
        """Whoever has had a subscription."""
        return {life.client for place, life in enumerate(self._lives) if place not in self.seats}

    def registration(self, key: Key) -> Registration:
        """A filter of a life, as its broker knew it."""
        known = self._registrations.get(key)
        if known is None:
            life = self._lives[key[0]]
            known = self._registrations[key] = Registration(
                Link(life.client, LinkKind.CLIENT),
                life.id,
                self._filters[key],
                receive_own=life.receive_own,
                duplicates=Duplicates(life.duplicates),
            )
        return known


class _Plan:
    """One version of the scope graph; made ready when it is first asked."""

    def __init__(self, graph: Graph, eyes: Viewers) -> None:
        self._graph = graph
        self._eyes = eyes
        self._ready = False
        self._undecided: _Plan | None = None
        """The same, if everybody got what deciding points give to some."""
        self._exact: dict[str, Matcher[Key]] = {}
        """By scope: the filters of members who see everything in it as it is."""
        self._others: dict[str, list[Key]] = {}
        """By scope: the filters of members who see something else."""

    def seen(self, envelope: Envelope) -> dict[int, Forms]:
        self._prepare()
        identity = envelope.identity
        candidates: dict[Key, None] = dict.fromkeys(self._own.get(identity.publisher, ()))
        for at in reach(self._graph, client_node(identity.publisher), envelope.notification, clients=False):
            candidates.update(dict.fromkeys(self._others.get(at.node, ())))
            if (index := self._exact.get(at.node)) is not None:
                candidates.update(dict.fromkeys(index.match(at.notification)))
        return self._eyes.given(candidates, envelope, self._view)

    def eligible(self, envelope: Envelope) -> dict[int, Forms]:
        self._prepare()
        if not self._view.comparing:
            return {}
        if self._undecided is None:
            policies = (
                (id, PolicyKind(kind)) for id in self._view.comparing for kind in self._graph.scopes[id].policies
            )
            changes = tuple(SetPolicy(id, kind) for id, kind in policies)
            self._undecided = _Plan(apply(self._graph, changes), self._eyes)
        return self._undecided.seen(envelope)

    def sharing(self, client: str) -> str | None:
        self._prepare()
        scopes = [scope for scope in self._view.memberships(client) if scope in self._view.comparing]
        policies = [use.name for scope in scopes for use in self._graph.scopes[scope].policies.values()]
        return scopes[0] if len(scopes) == 1 and SHARING.issuperset(policies) else None

    def visible(self, envelope: Envelope, client: str) -> bool:
        self._prepare()
        return bool(self._view.sightings(envelope.identity.publisher, envelope.notification, client))

    def _prepare(self) -> None:
        if self._ready:
            return
        self._ready = True
        self._view = GraphPlan(self._graph).on("audit", _TREE)
        self._own: dict[str, list[Key]] = {}
        """The filters of each client: it may see what it publishes itself."""
        for client in self._eyes.clients():
            filters = self._eyes.filters_of(client)
            self._own[client] = [key for key, _ in filters]
            for scope, passage in self._view.memberships(client).items():
                if passage.exact:
                    index = self._exact.setdefault(scope, make_index())
                    for key, filter in filters:
                        index.add(filter, key)
                else:
                    self._others.setdefault(scope, []).extend(key for key, _ in filters)


def _is_flat(graph: Graph) -> bool:
    """Whether everybody sees everything as it is: nobody has made scopes, or put anything between root and members."""
    root = graph.scopes[ROOT_SCOPE]
    return len(graph.scopes) == 1 and not list(graph.memberships()) and root.imposed == OPEN and not root.duplicates
