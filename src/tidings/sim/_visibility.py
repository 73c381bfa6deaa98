"""What the versions of a scope graph let whom see, as far as a trace tells: the checker's side of scopes.

A trace without scopes has no versions; then everybody sees everything as it was published.
"""

from __future__ import annotations

from tidings.model import ROOT_SCOPE, Notification
from tidings.scopes import Graph, Placement, PolicyUse, client_node
from tidings.wire import Quality

from ._choosing import compares, longest_delay
from ._definition import Choice, Definition
from ._details import Activated, Published
from ._reactions import Reactions
from ._trace import Record


class Visibility:
    """The versions that brokers have judged by, and which each of them judges by now."""

    def __init__(self) -> None:
        self.graphs: dict[int, Graph] = {}
        self.active: dict[str, int] = {}
        """By which version each broker judges what is published there now."""
        self._since: dict[int, int] = {}
        """When each version was first active anywhere."""
        self._definitions: dict[int, Definition] = {}
        self._forms: dict[tuple[int, str, int, str, bool], frozenset[Notification]] = {}
        self._choices: dict[tuple[int, str, int, str], frozenset[Choice]] = {}
        self.reactions = Reactions(self.graphs, self._definitions)

    def activated(self, record: Record) -> int:
        """A broker judges by a version from now on."""
        assert isinstance(record.detail, Activated)
        version, graph = record.detail
        assert isinstance(version, int)
        assert isinstance(graph, Graph)
        self.graphs[version] = graph
        self.active[record.component] = version
        self._since.setdefault(version, record.time)
        return version

    def scopes(self, version: int, client: str) -> frozenset[str]:
        """The scopes that a client is a member of under one version."""
        graph = self.graphs.get(version)
        return frozenset((ROOT_SCOPE,)) if graph is None else frozenset(graph.upward(client_node(client)))

    def between(self, oldest: int, until: int) -> set[int]:
        """The versions from one to the newest that was active anywhere at some time."""
        return {version for version, since in self._since.items() if version >= oldest and since <= until}

    @property
    def ordered(self) -> bool:
        """Whether what one publisher publishes arrives in order: nothing takes a detour, or all scopes wait for it."""
        return all(map(_keeps_order, self.graphs.values()))

    def delay(self, version: int, published: Record, client: str, form: Notification) -> int:
        """How many microseconds after its publication a client sees a form of it under one version at the earliest."""
        assert published.notification is not None
        if not version or version not in self.graphs or not self.graphs[version].policed:
            return 0
        delays = self._definition(version).delays(
            client_node(published.publisher), published.notification, client_node(client)
        )
        return delays.get(form, 0)

    def mapped_and_delayed(self, versions: set[int], published: Record, client: str) -> bool:
        """Whether a client sees a publication later and changed, under one of these versions, and others followed."""
        for version in versions:
            forms = (
                self.forms(version, published, client) if version in self.graphs and version < max(self.graphs) else ()
            )
            if any(form != published.notification and self.delay(version, published, client, form) for form in forms):
                return True
        return False

    def mapped_and_held_back(self, versions: set[int], published: Record, client: str) -> bool:
        """Whether a changed form waited for a client on some way, under one of these versions, and others followed."""
        assert published.notification is not None
        publisher, reader = client_node(published.publisher), client_node(client)
        for version in versions:
            if version and version in self.graphs and version < max(self.graphs) and self.graphs[version].policed:
                held = self._definition(version).held_back(publisher, published.notification, reader)
                if held - {published.notification}:
                    return True
        return False

    @property
    def longest_delay(self) -> int:
        """For how many microseconds some policy of some version keeps something back."""
        return max(map(longest_delay, self.graphs.values()), default=0)

    def forms(self, version: int, published: Record, client: str, *, possible: bool = True) -> frozenset[Notification]:
        """Every form in which a client may see a publication under one version; unless `possible`, must see it."""
        assert published.notification is not None
        graph = self.graphs.get(version)
        if graph is None or not version:  # before the first change there are no scopes
            return frozenset((published.notification,))
        key = (version, published.publisher, published.publication, client, possible)
        if key not in self._forms:
            self._forms[key] = frozenset(self._seen(version, published, client, possible=possible).values())
        return self._forms[key]

    def unconfined(self, version: int, published: Record, client: str) -> frozenset[Notification]:
        """Every form in which a client might see a publication under one version, if it reacted to nothing."""
        if self.graphs.get(version) is None or not version:
            return self.forms(version, published, client)
        alone = published._replace(detail=Published(Quality.DEFAULT))
        return frozenset(self._seen(version, alone, client, possible=True).values())

    def _seen(
        self, version: int, published: Record, client: str, *, possible: bool
    ) -> dict[tuple[str, ...], Notification]:
        """In which form a client may see a publication under one version, by the nodes on its way."""
        assert published.notification is not None
        definition = self._definition(version)
        climbs = self.reactions.climbing(version, published, possible=possible)
        publisher, reader = client_node(published.publisher), client_node(client)
        return definition.forms(publisher, published.notification, reader, climbs, sure=not possible)

    def choices(self, version: int, published: Record, client: str) -> frozenset[Choice]:
        """What may be given to a client under one version, as one of several that might get it."""
        assert published.notification is not None
        if not version or version not in self.graphs or not self.graphs[version].policed:
            return frozenset()
        key = (version, published.publisher, published.publication, client)
        if key not in self._choices:
            publisher, reader = client_node(published.publisher), client_node(client)
            self._choices[key] = self._definition(version).choices(publisher, published.notification, reader)
        return self._choices[key]

    def deciding(self, version: int, path: tuple[str, ...]) -> tuple[str, PolicyUse | None]:
        """Of which kind the policy is that decides about what came by a path, and which it is, under one version."""
        return self._definition(version).deciding(path) if version in self.graphs else ("", None)

    @property
    def chooses(self) -> bool:
        """Whether some policy of some version gives something to one of several."""
        return any(map(_chooses, self.graphs.values()))

    def is_candidate(self, client: str, scope: str | None = None) -> bool:
        """Whether a client was ever a member of a scope that chooses one of several; of this one, or of any."""
        node = client_node(client)
        return any(
            edge.member == node and scope in (None, edge.scope) and _chooses(graph, edge.scope)
            for graph in self.graphs.values()
            if graph.policed
            for edge in graph.memberships()
        )

    def _definition(self, version: int) -> Definition:
        definition = self._definitions.get(version)
        if definition is None:
            definition = self._definitions[version] = Definition(self.graphs[version])
        return definition

    def unchanged(
        self, since: int, published: Record, client: str, *, possible: bool = True
    ) -> frozenset[Notification]:
        """The forms in which a client may see what was published under a version, on ways that all later ones leave."""
        assert published.notification is not None
        if since not in self.graphs:
            return frozenset((published.notification,))
        ways: dict[tuple[str, ...], Notification] = {}
        for version in sorted(version for version in self.graphs if version >= since):
            seen = self._seen(version, published, client, possible=possible)
            if version == since:
                ways = seen
            ways = {way: ways[way] for way in seen.keys() & ways.keys()}
        return frozenset(ways.values())

    def ever(self, versions: set[int], published: Record, client: str) -> frozenset[Notification]:
        """The forms that some of these versions let a client see, whatever is left open."""
        return frozenset().union(
            *(self.forms(version, published, client, possible=False) for version in versions or {0})
        )

    def always(self, versions: set[int], published: Record, client: str) -> frozenset[Notification]:
        """The forms that every one of these versions lets a client see."""
        assert published.notification is not None
        if not versions:
            return frozenset((published.notification,))
        return frozenset.intersection(*(self.forms(version, published, client, possible=False) for version in versions))


def _chooses(graph: Graph, of: str | None = None) -> bool:
    """Whether a scope, or any, gives something to one of several."""
    scopes = graph.scopes.items() if graph.policed else ()
    return any(of in (None, id) and any(map(compares, scope.policies.values())) for id, scope in scopes)


def _keeps_order(graph: Graph) -> bool:
    if longest_delay(graph) or _chooses(graph):
        return False
    if all(scope.ordered for scope in graph.scopes.values()):
        return True
    return all(edge.placement is not Placement.GATEWAY for edge in graph.memberships())
