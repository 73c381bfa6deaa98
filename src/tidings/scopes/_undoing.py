"""Undoing: the changes that take back one transaction on the graph as it is now, or what stands in the way.

Theory of operation
-------------------
Three graphs are put side by side: the one *before* the transaction, the one *after* it, and the one of *now*. Whatever
the transaction made different, before and after, goes back to what it was, if it is still what the transaction made of
it; what somebody has changed since then is not overwritten, but named, all of it at once. So what comes out undoes this
transaction and nothing else; if nothing was changed since, it leads to the graph before.

Of sets, like the brokers that carry a scope and what labels stand for, each element goes back for itself. A client that
the transaction took out of the root scope is there again, unless it has become a member of something else.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from tidings.model import ScopeError

from ._applying import apply, kept_labels
from ._attributes import Attributes, attributes_of
from ._audit import value_text
from ._changes import Anchor, AnyChange, Unanchor
from ._difference import difference
from ._draft import Draft
from ._graph import Client, Graph, Membership, Scope, is_client
from ._messages import Transaction

MAX_OBSTACLES = 20
"""The most things that stand in the way which are named; more are counted."""

_SCOPE_FIELDS = (
    *("interface", "imposed", "abstract", "hidden", "roles", "administrators", "admission", "trusted"),
    *("duplicates", "ordered", "definition", "policies", "rules"),
)
_SECRET = frozenset({"admission"})
"""Fields that are not shown."""
_EDGE_FIELDS = "selective", "imposed", "mapping", "placement", "gateway"


def inverse(before: Graph, transaction: Transaction, now: Graph) -> tuple[AnyChange, ...]:
    """The changes that undo a transaction, made on the graph `before`, on the graph as it is `now`.

    `ScopeError` says what stands in the way: what it set has been changed since, or what it took away cannot come back.
    """
    version = transaction.version
    if all(isinstance(change, Anchor | Unanchor) and not change.stay for change in transaction.changes):
        raise ScopeError(
            f"version {version} cannot be undone: nobody asked for it; brokers made it, because clients in a scope "
            "connected or disconnected there; see `tidings scope log` for the versions that somebody asked for"
        )
    undoing = _Undoing(before, apply(before, transaction.changes), now)
    undoing.work()
    if undoing.obstacles:
        count = len(undoing.obstacles) - MAX_OBSTACLES
        named = [f"\n  {one}" for one in undoing.obstacles[:MAX_OBSTACLES]]
        more = f"\n  and {count:,} more" if count > 0 else ""
        raise ScopeError(
            f"version {version} cannot be undone, because of what was changed since then:{''.join(named)}{more}\n"
            "undo that first, or change it by hand"
        )
    try:
        changes = difference(now, undoing.graph.numbered(now.version))
        apply(now, changes)
    except ScopeError as error:
        raise ScopeError(f"version {version} cannot be undone: {error}") from None
    return changes


class _Undoing:
    """One transaction, on its way back."""

    def __init__(self, before: Graph, after: Graph, now: Graph) -> None:
        self._before = before
        self._after = after
        self._now = now
        self.graph: Graph = Draft(now)
        self.obstacles: list[str] = []

    def work(self) -> None:
        """Bring the graph to what it would be without the transaction, and list what stands in the way."""
        before, after = self._before, self._after
        for name in dict.fromkeys((*before.definitions, *after.definitions)):
            self._definition(name)
        for id in dict.fromkeys((*after.scopes, *before.scopes)):
            if id in before.scopes and id in after.scopes:
                self._changed(before.scopes[id], after.scopes[id])
            elif id in before.scopes:
                self._come_back(before.scopes[id])
        for node in dict.fromkeys((*before.clients, *after.clients)):
            self._client(node)
        for edge in before.memberships():
            if edge.scope not in after.superscopes(edge.member):
                self._join(edge)
        for edge in after.memberships():
            self._edge(edge)
        for id in after.scopes:
            if id not in before.scopes:
                self._end(after.scopes[id])
        for client in dict.fromkeys((*before.clients_known(), *after.clients_known())):
            self._standing(client)
        for id in before.scopes:
            if id in self.graph.scopes:
                self._labels(id)
        self.obstacles = list(dict.fromkeys(self.obstacles))

    def _unless_changed(self, what: str, then: object, stands: object, *, secret: bool = False) -> bool:
        """Whether something is still what the transaction made of it; otherwise it stands in the way."""
        if then == stands:
            return True
        values = "" if secret else f": it is {value_text(stands)}, and was made {value_text(then)}"
        self.obstacles.append(f"{what} was changed again{values}")
        return False

    # --- definitions and clients ----------------------------------------------------------------------

    def _definition(self, name: str) -> None:
        was, became, stands = (graph.definitions.get(name) for graph in (self._before, self._after, self._now))
        if was == became:
            return
        if became != stands:
            self.obstacles.append(f"the definition '{name}' was {'removed' if stands is None else 'changed again'}")
            return
        others = {known: text for known, text in self.graph.definitions.items() if known != name}
        self.graph = self.graph.with_definitions(others if was is None else {**others, name: was})

    def _client(self, node: str) -> None:
        was, became, stands = (graph.clients.get(node, Client()) for graph in (self._before, self._after, self._now))
        if was != became:
            attributes = self._attributes(node, was, became, stands)
            roles = stands.roles
            if was.roles != became.roles and self._unless_changed(f"roles of '{node}'", became.roles, stands.roles):
                roles = was.roles
            publishing = stands.publishing
            if was.publishing != became.publishing and self._unless_changed(
                f"the publishing policy of '{node}'", became.publishing, stands.publishing
            ):
                publishing = was.publishing
            self.graph = self.graph.with_client(node, Client(attributes, roles, publishing))

    def _attributes(self, node: str, was: Scope | Client, became: Scope | Client, stands: Scope | Client) -> Attributes:
        old, new, here = (attributes_of(one.attributes) for one in (was, became, stands))
        back: dict[str, object] = {}
        for name in dict.fromkeys((*old, *new)):
            if not _equal(old, new, name):
                if _equal(new, here, name):
                    back[name] = old.get(name)
                else:
                    self._unless_changed(f"the attribute '{name}' of '{node or 'root'}'", new.get(name), here.get(name))
        return here.merged(back)

    def _standing(self, client: str) -> None:
        """Whether a client without a scope is in the root scope, or nowhere."""
        was, became = self._before.is_stranger(client), self._after.is_stranger(client)
        if was is became or self.graph.superscopes(client):
            return
        if was and not self.graph.is_stranger(client):
            self.graph = self.graph.without_client(client)
        elif became and self.graph.is_stranger(client):
            edge = Membership(client, "")
            self.graph = self.graph.with_edge(edge).without_edge(client, edge.scope)

    # --- scopes ---------------------------------------------------------------------------------------

    def _changed(self, was: Scope, became: Scope) -> None:
        """A scope that was there before and after goes back, field by field."""
        if msgspec.structs.replace(was, revised=0, labels={}) == msgspec.structs.replace(became, revised=0, labels={}):
            return
        stands = self._now.scopes.get(was.id)
        if stands is None:
            self.obstacles.append(f"the scope '{was.id}' was destroyed")
            return
        back: dict[str, object] = {}
        for field in _SCOPE_FIELDS:
            old, new = getattr(was, field), getattr(became, field)
            what = f"{field} of '{was.id or 'root'}'"
            if old != new and self._unless_changed(what, new, getattr(stands, field), secret=field in _SECRET):
                back[field] = old
        gone, come = was.brokers - became.brokers, became.brokers - was.brokers
        attributes = self._attributes(was.id, was, became, stands)
        scope = msgspec.structs.replace(stands, attributes=attributes, brokers=stands.brokers - come | gone, **back)
        self.graph = self.graph.with_scope(scope)

    def _come_back(self, was: Scope) -> None:
        if was.id in self._now.scopes:
            self.obstacles.append(f"a scope '{was.id}' was created again")
        else:
            self.graph = self.graph.with_scope(msgspec.structs.replace(was, labels={}))

    def _end(self, became: Scope) -> None:
        """A scope that the transaction made goes, with nothing that came into it later."""
        stands = self._now.scopes.get(became.id)
        if stands is None:
            self.obstacles.append(f"the scope '{became.id}' was destroyed")
            return
        for field in (*_SCOPE_FIELDS, "attributes", "brokers"):
            then, here = getattr(became, field), getattr(stands, field)
            self._unless_changed(f"{field} of '{became.id}'", then, here, secret=field in _SECRET)
        edges = (*self.graph.members(became.id).values(), *self.graph.superscopes(became.id).values())
        left = [edge for edge in edges if edge.scope not in self._after.superscopes(edge.member)]
        for edge in left:
            self.obstacles.append(f"{_name(edge)} joined {_place(edge.scope)} in version {edge.since}")
        if not self.obstacles:
            self.graph = self.graph.without_scope(became.id)

    # --- memberships ----------------------------------------------------------------------------------

    def _join(self, was: Membership) -> None:
        """A membership that the transaction ended comes back."""
        stands = self._now.superscopes(was.member).get(was.scope)
        if stands is not None:
            self.obstacles.append(f"{_name(was)} joined {_place(was.scope)} again in version {stands.since}")
            return
        for id in (was.member, was.scope):
            if not is_client(id) and id not in self.graph.scopes:
                self.obstacles.append(f"the scope '{id}' was destroyed")
                return
        self.graph = self.graph.with_edge(was)

    def _edge(self, became: Membership) -> None:
        """A membership goes, if the transaction made it, or goes back to what it was."""
        was = self._before.superscopes(became.member).get(became.scope)
        if was is not None and all(getattr(was, field) == getattr(became, field) for field in _EDGE_FIELDS):
            return
        stands = self._now.superscopes(became.member).get(became.scope)
        if stands is None:
            ends = [id for id in (became.member, became.scope) if not is_client(id) and id not in self._now.scopes]
            self.obstacles += [f"the scope '{id}' was destroyed" for id in ends] or [
                f"{_name(became)} left {_place(became.scope)}"
            ]
            return
        back: dict[str, object] = {}
        for field in _EDGE_FIELDS:
            new = getattr(became, field)
            if was is None or getattr(was, field) != new:
                what = f"{field} of {_name(became)} in {_place(became.scope)}"
                if self._unless_changed(what, new, getattr(stands, field)) and was is not None:
                    back[field] = getattr(was, field)
        if was is None:
            self.graph = self.graph.without_edge(became.member, became.scope)
        else:
            self.graph = self.graph.with_edge(msgspec.structs.replace(stands, **back))

    def _labels(self, id: str) -> None:
        """What labels stand for: those whose membership comes back, and those that the transaction relabelled."""
        was, scope = self._before.scopes[id], self.graph.scopes[id]
        became = self._after.scopes.get(id, msgspec.structs.replace(was, labels={}))
        if was.labels == became.labels:
            return
        stayed = {*_others(self._before, id)} & {*_others(self._after, id)}
        labels = {**scope.labels}
        for label in dict.fromkeys((*was.labels, *became.labels)):
            old, new, here = ({*one.labels.get(label, ())} for one in (was, became, scope))
            if old & stayed != new & stayed:
                self._unless_changed(f"label {label} of '{id}'", sorted(new & stayed), sorted(here & stayed))
            labels[label] = tuple(sorted(here - (new - old) | (old - new)))
        kept = kept_labels(self.graph, msgspec.structs.replace(scope, labels=labels))
        if kept != scope.labels:
            self.graph = self.graph.with_scope(msgspec.structs.replace(scope, labels=kept))


def _others(graph: Graph, id: str) -> Iterator[str]:
    """The nodes that a scope has an edge with."""
    yield from graph.members(id)
    yield from graph.superscopes(id)


def _equal(some: Attributes, others: Attributes, name: str) -> bool:
    """Whether two say the same of an attribute; TRUE is not 1 here."""
    mine, theirs = some.get(name), others.get(name)
    return (mine is None) is (theirs is None) and attributes_of({"x": mine}) == attributes_of({"x": theirs})


def _name(edge: Membership) -> str:
    return f"'{edge.member}'"


def _place(scope: str) -> str:
    return f"'{scope}'" if scope else "the root scope"
