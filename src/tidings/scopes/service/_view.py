"""A view: what one version of the graph means for one broker on one tree. This is what the broker asks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from tidings.broker import OPEN_PASSAGE, SEAT, Border, Choice, Climbing, Sighting, Tree, point_of, session_tag
from tidings.broker import Passage as AnyPassage
from tidings.model import ROOT_SCOPE, Identity, Notification
from tidings.scopes import _oracle
from tidings.scopes._borders import borders_of
from tidings.scopes._graph import Graph, Membership, Placement, client_node, is_client
from tidings.scopes._interface import OPEN
from tidings.scopes._overlay import Spans
from tidings.scopes._passage import Passage
from tidings.scopes._seat import Seat
from tidings.scopes._sessions import SessionMode, sessions_of
from tidings.scopes.policies._policy import Load, PolicyKind, PolicyUse
from tidings.scopes.policies._registry import compares, gives_to_one, keeps_state, may_delay
from tidings.scopes.policies._running import Running, running

from ._rights import administers

_SPANS = Spans()
_ROOT_ONLY: Mapping[str, AnyPassage] = {ROOT_SCOPE: OPEN_PASSAGE}


class Plan:
    """One version of a graph, with the passages that were asked for."""

    def __init__(self, graph: Graph, before: Plan | None = None, moved: frozenset[str] | None = None) -> None:
        """`moved`: the clients whose memberships alone differ from the plan before."""
        if graph.policed:
            moved = None  # policies read the graph, so no edge is as it was
        self.graph = graph
        self.version = graph.version
        self.delays = graph.policed and any(may_delay(use) for use in graph.policies)
        """Whether a policy may keep something back for a while."""
        self.at_points = _decided_at_points(graph)
        """The scopes whose deciding points say who gets what came from above (True), or what was published inside."""
        self.careful = any(scope.trusted for scope in graph.scopes.values())
        """Whether a scope trusts some brokers only."""
        self.moved = moved if before is not None else None
        self._before = before if self.moved is not None else None
        self._views: dict[tuple[str, int], View] = {}
        self._passages: dict[tuple[str, str], Passage] = {}
        sessions = {scope: (session_tag(text), mode) for scope, text, mode in sessions_of(graph)}
        self.sessions = {scope: tag for scope, (tag, _) in sessions.items()}
        self.confined = frozenset(tag for tag, mode in sessions.values() if mode is SessionMode.ORIGIN_ONLY)
        self.borders = {scope: Border(*names) for scope, names in borders_of(graph).items()}
        if before is None or moved is None:
            self.gateways = frozenset(edge.gateway for edge in graph.memberships() if edge.gateway)
            self.several = _mapped(graph.memberships())
            """Whether one publication may come to somebody in several forms."""
            return
        self.gateways = before.gateways  # clients use none
        nodes = [client_node(client) for client in moved]
        edges = (edge for node in nodes for edge in graph.superscopes(node).values())
        self.several = _mapped(graph.memberships() if before.several else edges)
        self._passages.update(before._passages)
        for node in nodes:
            for scope in before.graph.upward(node):
                self._passages.pop((node, scope), None)

    def passage(self, member: str, scope: str) -> Passage:
        """One edge, ready to be crossed."""
        passage = self._passages.get((member, scope))
        if passage is None:
            edge = self.graph.upward(member).get(scope) or self.graph.membership(member, scope)
            passage = self._passages[member, scope] = Passage(self.graph, edge)
        return passage

    def supers(self, scope: str) -> Mapping[str, object]:
        """The scopes that a scope is a member of."""
        return self.graph.upward(scope)

    def on(self, broker: str, tree: Tree) -> View:
        """What it means for one broker on one tree."""
        before = self._before._views.get((broker, tree.epoch)) if self._before is not None else None
        self._before = None
        view = View(self, broker, tree, before)
        self._views = {(broker, tree.epoch): view}
        return view

    def __repr__(self) -> str:
        return f"Plan({self.graph!r})"


def _decided_at_points(graph: Graph) -> frozenset[tuple[str, bool]]:
    scopes = graph.scopes.items() if graph.policed else ()
    return frozenset(
        (id, kind == PolicyKind.DELIVERY.value)
        for id, scope in scopes
        for kind, use in scope.policies.items()
        if compares(use)
    )


def _mapped(edges: Iterable[Membership]) -> bool:
    return any(edge.mapping is not None for edge in edges)


class View:
    """A plan on a tree, as one broker sees it."""

    def __init__(self, plan: Plan, broker: str, tree: Tree, before: View | None = None) -> None:
        """`before`: of a plan from which this one differs by memberships of clients only."""
        self.plan = plan
        self.version = plan.version
        self.several = plan.several
        self.delays = plan.delays
        self.at_points = plan.at_points
        self.gateways = plan.gateways
        self.sessions, self.confined, self.borders = plan.sessions, plan.confined, plan.borders
        root = plan.graph.scopes[ROOT_SCOPE]
        self._root_is_open = (
            root.imposed == OPEN and not root.duplicates and not root.ordered and not plan.graph.policed
        )
        self._graph = plan.graph
        self._broker = broker
        self._tree = tree
        self._supers: dict[str, Mapping[str, AnyPassage]] = {}
        self._subs: dict[str, Mapping[str, AnyPassage]] = {}
        self._gates: dict[str, Mapping[str, AnyPassage]] = {}
        self._seated: dict[str, Mapping[str, AnyPassage]] = {}
        self._visible_in: dict[tuple[str, ...], tuple[str, ...]] = {}
        if before is None:
            self._overlays: dict[str, frozenset[str]] = {}
            self.scopes = frozenset(id for id in self._graph.scopes if self.carries(broker, id))
        else:
            self._overlays, self.scopes = before._overlays, before.scopes
            self._subs, self._gates = before._subs, before._gates
            self._supers.update(before._supers)
            for client in plan.moved or ():
                self._supers.pop(client_node(client), None)

    def overlay(self, scope: str) -> frozenset[str]:
        """The brokers that carry a scope."""
        if scope == ROOT_SCOPE:
            return frozenset(self._tree.parents)
        if self._graph.scopes[scope].abstract:
            return frozenset()
        known = self._overlays.get(scope)
        if known is None:
            known = self._overlays[scope] = frozenset() if self.stands_still(scope) else self.needed(scope)
        return known

    def stands_still(self, scope: str) -> bool:
        """Whether a scope cannot be carried, because the way between its members leads over a broker that it does not
        trust."""
        trusted = self._graph.scopes[scope].trusted
        return bool(trusted) and not self.needed(scope).issubset(trusted)

    def needed(self, scope: str) -> frozenset[str]:
        """The brokers that would have to carry a scope to join those who have members of it."""
        return _SPANS.of(self._tree.epoch, self._tree.parents, self._graph.anchored(scope))

    def carries(self, broker: str, scope: str) -> bool:
        return scope == ROOT_SCOPE or (scope in self._graph.scopes and broker in self.overlay(scope))

    def knows(self, scope: str) -> bool:
        """Whether there is such a scope."""
        return scope in self._graph.scopes

    def administers(self, client: str, scope: str) -> bool:
        """Whether a client is an administrator of a scope, or of one that it was made in."""
        return administers(self._graph, client, scope)

    def memberships(self, client: str) -> Mapping[str, AnyPassage]:
        """The scopes that a client is a member of."""
        if client.startswith(SEAT):
            return self._seats(client.removeprefix(SEAT))
        node = client_node(client)
        if self._root_is_open and self._graph.is_stranger(node):
            return _ROOT_ONLY
        return self._above(node)

    def trusts(self, client: str, broker: str) -> bool:
        """Whether a broker may know what a client wants: every scope above the client trusts it."""
        if not self.plan.careful:
            return True
        above = {scope for one in self.memberships(client) for scope in _oracle.ancestors(self._graph, one)}
        named = (self._graph.scopes[scope].trusted for scope in above)
        return all(broker in trusted for trusted in named if trusted)

    @property
    def comparing(self) -> tuple[str, ...]:
        """The scopes with a policy that compares their members."""
        scopes = self._graph.scopes.items() if self._graph.policed else ()
        return tuple(id for id, scope in scopes if any(map(compares, scope.policies.values())))

    def point(self, scope: str) -> str:
        """The broker that decides for a scope: the one that a policy names, else the smallest name; "": none can."""
        if scope not in self._graph.scopes:
            return ""
        uses = self._graph.scopes[scope].policies.values()
        named = next((str(use.parameters["point"]) for use in uses if compares(use) and "point" in use.parameters), "")
        return point_of(self._graph.anchored(scope) & self._tree.parents.keys() & self.overlay(scope), named)

    def chosen(
        self,
        notification: Notification,
        clients: Iterable[str],
        identity: Identity,
        path: tuple[str, ...],
        load: Callable[[str], Load],
        *,
        waited: bool = False,
    ) -> Choice:
        """Whom the policy of a scope, the last one of the path, gives a notification."""
        scope, (kind, use) = path[-1], self._decider(path)
        if use is None:
            return Choice(())
        nodes = {client_node(client): client for client in clients}
        policy = running(use, kind, scope, self._broker)
        choice = policy.chosen(
            notification, nodes.keys(), self._graph, identity, path, load=lambda one: load(nodes[one]), waited=waited
        )
        return choice._replace(clients=tuple(nodes[node] for node in choice.clients))

    def decides_by(self, path: tuple[str, ...]) -> str | None:
        """Which policy with a state decides about what came by a path, by kind and name; None: it needs no state."""
        kind, use = self._decider(path)
        return f"{kind.value} {use}" if use is not None and keeps_state(use) else None

    def _decider(self, path: tuple[str, ...]) -> tuple[PolicyKind, PolicyUse | None]:
        """The policy of the last scope of a path that compares, and decides about what came by it."""
        scope = path[-1]
        incoming = len(path) > 1 and path[-2] in self.supers(scope)
        kind = PolicyKind.DELIVERY if incoming else PolicyKind.INTERNAL
        use = self._graph.scopes[scope].policies.get(kind.value) if scope in self._graph.scopes else None
        return kind, use if use is not None and compares(use) else None

    def gives_to_several(self, scope: str) -> bool:
        """Whether a policy of a scope that is asked at its deciding point may choose several."""
        uses = self._graph.scopes[scope].policies.values() if scope in self._graph.scopes else ()
        return any(compares(use) and not gives_to_one(use) for use in uses)

    def remembered(self, scope: str) -> dict[str, bytes]:
        """What the policies of a scope must know at its next deciding point, by kind and policy."""
        return {name: one.remember() for name, one in self._deciders(scope)}

    def recall(self, scope: str, states: Sequence[Mapping[str, bytes]]) -> None:
        """Let the policies of a scope begin here with what other deciding points have remembered, the latest first."""
        for name, one in self._deciders(scope):
            one.restart(state[name] for state in states if state.get(name))

    def _deciders(self, scope: str) -> list[tuple[str, Running]]:
        policies = self._graph.scopes[scope].policies if scope in self._graph.scopes else {}
        return [
            (f"{kind} {use}", running(use, PolicyKind(kind), scope, self._broker))
            for kind, use in policies.items()
            if compares(use)
        ]

    def _seats(self, scope: str) -> Mapping[str, AnyPassage]:
        """The seat of who decides for a scope, if there is something to decide."""
        found = self._seated.get(scope)
        if found is None:
            incoming, internal = ((scope, one) in self.at_points for one in (True, False))
            seat = {scope: Seat(scope, incoming=incoming, internal=internal)} if incoming or internal else {}
            found = self._seated[scope] = seat
        return found

    def supers(self, scope: str) -> Mapping[str, AnyPassage]:
        """The scopes that a scope is a member of."""
        return self._above(scope)

    def _above(self, node: str) -> Mapping[str, AnyPassage]:
        found = self._supers.get(node)
        if found is None:
            found = self._supers[node] = {scope: self.plan.passage(node, scope) for scope in self._graph.upward(node)}
        return found

    def subs(self, scope: str) -> Mapping[str, AnyPassage]:
        """The scopes that are members of a scope."""
        found = self._subs.get(scope)
        if found is None:
            found = self._subs[scope] = {
                member: self.plan.passage(member, scope)
                for member in self._graph.subscopes(scope)
                if scope in self._graph.upward(member)
            }
        return found

    def gates(self, scope: str) -> Mapping[str, AnyPassage]:
        """The superscopes from which something may cross into the scope here."""
        found = self._gates.get(scope)
        if found is None:
            found = {}
            if scope in self.scopes:
                for above, passage in self.supers(scope).items():
                    gateway = self.gateway(scope, above)
                    if (gateway is None and above in self.scopes) or gateway == self._broker:
                        found[above] = passage
            self._gates[scope] = found
        return found

    def gateway(self, scope: str, above: str) -> str | None:
        """The broker where everything crosses between a scope and its superscope, if one is designated."""
        edge = self._graph.superscopes(scope).get(above)
        return edge.gateway if edge is not None and edge.placement is Placement.GATEWAY else None

    def neighbours(self, scope: str) -> frozenset[str]:
        """The tree neighbours of this broker that carry a scope, too."""
        if scope == ROOT_SCOPE:
            return self._tree.neighbours
        if scope not in self.scopes:
            return frozenset()
        return self._tree.neighbours & self.overlay(scope)

    def admits(self, sub: str, scope: str, neighbour: str) -> bool:
        """Whether what is in `scope` at a neighbour crosses into `sub` there, rather than here."""
        edge = self._graph.superscopes(sub).get(scope)
        return edge is not None and edge.placement is Placement.ONCE and self.carries(neighbour, sub)

    def visible_in(self, publisher: str) -> Iterable[str]:
        """The scopes in which what a publisher publishes may be seen: those above it, and all that are in these.

        The topmost ones alone would not do for a later version, in which what is in them now may be elsewhere.
        """
        above = tuple(self.memberships(publisher))
        found = self._visible_in.get(above)
        if found is None:
            stack = [scope for one in above for scope in _oracle.ancestors(self._graph, one)]
            seen: dict[str, None] = {}
            while stack:
                scope = stack.pop()
                if scope not in seen:
                    seen[scope] = None
                    stack.extend(self.subs(scope))
            found = self._visible_in[above] = tuple(seen)
        return found

    def sightings(
        self,
        publisher: str,
        notification: Notification,
        client: str,
        climbing: Climbing | None = None,
        *,
        identity: Identity | None = None,
        possible: bool = False,
    ) -> list[Sighting]:
        """Every form in which a client may see what a publisher published, one for each path; with the identity of the
        publication, those that policies choose, and if `possible`, those that a deciding point may give to it."""
        if client.startswith(SEAT):
            return self._seen_by_seat(client.removeprefix(SEAT), publisher, notification, climbing, identity)
        nodes = client_node(publisher), client_node(client)
        found = _oracle.sightings(
            self._graph, nodes[0], notification, nodes[1], climbing, identity=identity, possible=possible
        )
        return [
            Sighting(seen.notification, tuple(node for node in seen.path if not is_client(node)), seen.due)
            for seen in found
        ]

    def _seen_by_seat(
        self,
        scope: str,
        publisher: str,
        notification: Notification,
        climbing: Climbing | None,
        identity: Identity | None,
    ) -> list[Sighting]:
        """What the deciding point of a scope sees of a publication."""
        seat = self._seats(scope).get(scope)
        if seat is None:
            return []
        node = client_node(publisher)
        found = _oracle.reach(self._graph, node, notification, clients=False, climbing=climbing, identity=identity)
        seen = []
        for at in found:
            path = tuple(one for one in at.path if not is_client(one))
            incoming = len(path) > 1 and path[-2] in self.supers(scope) if at.node == scope else False
            decided = identity is None or seat.takes(at.notification, identity, path, incoming=incoming) is not None
            if at.node == scope and decided:
                seen.append(Sighting(at.notification, path, at.due))
        return seen
