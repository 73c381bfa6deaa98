"""Scoping: which versions of the scope graph this broker knows, and the routing tables that follow from them.

Theory of operation
-------------------
Every version of the graph goes through the same life at every broker, in step with the authority that orders them:

    prepared   its tables exist, linked to the neighbours that carry the same scopes; filters are announced in them
    active     the newest version by which this broker's own publications are judged
    retired    nothing that it judges is under way any more; tables that only it needed are gone

A table serves every version that is not retired: it is linked to whoever carries its scope in one of them. More is
announced than one version needs, never less; what a notification may do is decided by its own version alone.

The table of a subscope tells the tables of its superscopes what is wanted in it, through a `Gate`, as if they were
neighbours: reduced by the routing algorithm and translated by the passage between them. So what is wanted inside is
asked for outside, and a subscription has settled when it has settled in every scope that can feed it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tidings.broker._links import Link
from tidings.model import ROOT_SCOPE

from ._book import Book, Entry
from ._host import Host
from ._table import Gate, Table, Tap
from ._visibility import FLAT, OPEN_PASSAGE, Passage, Plan, View, joint, same_passage

_FLAT_PASSAGES = (OPEN_PASSAGE,)
MAX_RECALLED = 16
"""How many versions that were retired are kept ready for what comes late."""


class Scoping:
    """The versions of the scope graph, and the tables of one broker."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self.touched: dict[Book, None] = {}
        """The books in which this turn may have settled something."""
        self.unconfirmed: dict[Book, None] = {}
        """The books in which something may have been announced and not confirmed."""
        self.root = self._table(ROOT_SCOPE)
        self.tables: dict[str, Table] = {ROOT_SCOPE: self.root}
        self._plans: dict[int, Plan] = {0: FLAT}
        self._moved: dict[int, frozenset[str] | None] = {}
        """For each version since the oldest, the clients that alone differ from the one before; None: more does."""
        self._views: dict[int, View] = {0: FLAT.on(host.name, host.adjacency.tree)}
        self.active = self._views[0]
        """By which this broker's own publications are judged."""
        self.steady = True
        """Whether there is one version only, so that being a member now means having been one then."""
        self.flat = True
        """Whether nobody has ever defined a scope. These two are asked for every notification, so they are at hand."""
        self.recall: Callable[[int], Plan | None] = lambda version: None
        """The plan of a version that has been retired, if somebody remembers it."""
        self.ready = True
        """Whether the graph is known. Until then clients are members of nothing, and what they publish waits."""
        self._holds: dict[str, Callable[[str], bool]] = {}
        self.activated: Callable[[int], None] = lambda version: None
        """Called with every version by which this broker begins to judge."""
        self._floors: dict[Link, int] = {}
        self._crossed: dict[str, dict[str, list[Passage]]] = {}
        """For each scope, the superscopes from which something may cross into it here."""
        self._recalled: dict[int, View] = {}
        """Versions that were retired, and were asked for again."""
        self._passages: dict[Link, tuple[Passage, ...] | None] = {}
        self.changed: Callable[[], None] = lambda: None
        """Called when something has changed that notifications are judged by."""

    @property
    def newest(self) -> View:
        """The newest version that is prepared."""
        return self._views[max(self._views)]

    @property
    def versions(self) -> list[int]:
        """The versions that are not retired."""
        return sorted(self._views)

    def view(self, version: int) -> View | None:
        """One version of the graph; None if nobody remembers it."""
        view = self._views.get(version) or self._recalled.get(version)
        if view is None and (plan := self.recall(version)) is not None:
            while len(self._recalled) >= MAX_RECALLED:
                del self._recalled[next(iter(self._recalled))]
            view = self._recalled[version] = plan.on(self._host.name, self._host.adjacency.tree)
        return view

    def concerns(self, broker: str, version: int, publisher: str) -> bool:
        """Whether a broker now carries any scope in which something published under a version may be seen."""
        then = self.view(version)
        if then is None:
            return True  # whoever asks will find that it cannot be judged, and say so
        return any(now.carries(broker, scope) for scope in then.visible_in(publisher) for now in self._views.values())

    def passages(self, client: Link) -> tuple[Passage, ...] | None:
        """How an attached client is a member of its scopes now; None: what it publishes has to wait."""
        if not self.ready or (self._holds and any(hold(client.principal) for hold in self._holds.values())):
            return None
        if self.active.version == 0:
            return _FLAT_PASSAGES
        try:
            return self._passages[client]
        except KeyError:
            found = self.active.memberships(client.principal)
            self._passages[client] = tuple(found.values()) if found.keys() <= self.active.scopes else None
            return self._passages[client]

    @property
    def gateways(self) -> frozenset[str]:
        """The brokers that are designated as gateways in some version."""
        if self.steady:
            return self.active.gateways
        return frozenset().union(*(view.gateways for view in self._views.values()))

    def memberships(self, client: str) -> Mapping[str, Passage]:
        """The scopes that a client is a member of in any version, each with what all of them need of it."""
        if self.steady:
            return self.active.memberships(client)
        passages: dict[str, list[Passage]] = {}
        for version in sorted(self._views, reverse=True):
            for scope, passage in self._views[version].memberships(client).items():
                passages.setdefault(scope, []).append(passage)
        return {scope: joint(parts) for scope, parts in passages.items()}

    def places(self, client: str) -> bool:
        """Whether every scope of a client is carried here, in every version by which somebody may judge now."""
        if not self.ready or not self.memberships(client).keys() <= self.tables.keys():
            return False
        views = (view for version, view in self._views.items() if version <= self.active.version)
        return all(view.memberships(client).keys() <= view.scopes for view in views)

    def hold_for(self, reason: str, whose: Callable[[str], bool]) -> None:
        """Let publications of some clients wait until `release` is called for the same reason.

        Whose they are stays the same until then.
        """
        self._holds[reason] = whose
        self.changed()

    def release(self, reason: str) -> None:
        """One reason to wait is gone."""
        if self._holds.pop(reason, None) is not None:
            self.changed()
            self._host.delivery.release()

    def wait(self) -> None:
        """Nothing is known of the graph yet, but there is one."""
        self.ready = False
        self.changed()

    def begin(self) -> None:
        """From now on the graph is known."""
        if not self.ready:
            self.ready = True
            self.refresh()
            self._host.delivery.release()
            self._host.at_graph(self.active.version, self.newest.version)

    def detached(self, client: Link) -> None:
        self._passages.pop(client, None)

    def flooded(self, scope: str) -> list[Link]:
        """Where a notification goes that floods its scope: to neighbours that are ready, and to every subscope."""
        gates = (gate for table in self.tables.values() for gate in table.gates.values())
        links: list[Link] = [gate for gate in gates if gate.passage.scope == scope]
        return links + [link for link in self.links(scope) if self._host.adjacency.is_open(link)]

    # --- the life of a version ------------------------------------------------------------------------

    def prepare(self, plan: Plan) -> None:
        """Make the tables of a new version."""
        if plan.version in self._plans or plan.version < self.active.version:
            return
        newest = max(self._plans)
        self._moved[plan.version] = plan.moved if plan.version == newest + 1 else None
        self._plans[plan.version] = plan
        self._views[plan.version] = plan.on(self._host.name, self._host.adjacency.tree)
        self._versions_changed()
        self._host.at_graph(self.active.version, plan.version)
        ahead = any(floor > newest for floor in self._floors.values())  # this version links us to these neighbours
        self.refresh(None if ahead else self._moved_since(newest))

    def activate(self, version: int) -> None:
        """From now on, judge what is published here by this version."""
        if version > self.active.version:
            # Nobody judges by what was prepared in between: it lacked something, and was followed at once.
            for skipped in [known for known in self._plans if self.active.version < known < version]:
                del self._plans[skipped]
                del self._views[skipped]
            before, self.active = self.active.version, self._views[version]
            self._versions_changed()
            self.refresh(self._moved_since(before))
            self.activated(version)
            self._host.delivery.release()

    def retire(self, version: int) -> None:
        """Nothing of versions before this one is under way any more."""
        retired = [known for known in self._plans if known < min(version, self.active.version)]
        for old in retired:
            del self._plans[old]
            del self._views[old]
        if retired:
            self._versions_changed()
            self.refresh(self._moved_since(min(retired)))
            oldest = min(self._plans)
            self._moved = {known: moved for known, moved in self._moved.items() if known > oldest}

    def _versions_changed(self) -> None:
        self.steady = len(self._views) == 1
        self.flat = self.steady and self.active.version == 0
        self.changed()

    def _moved_since(self, version: int) -> frozenset[str] | None:
        """The clients whose memberships alone tell the versions from this one on from one another; None: more does."""
        moved: frozenset[str] = frozenset()
        for one in range(version + 1, max(self._plans) + 1):
            more = self._moved.get(one)
            if more is None:
                return None
            moved |= more
        return moved

    # --- the tree -------------------------------------------------------------------------------------

    def new_tree(self) -> None:
        """Nothing that neighbours said counts any more; what versions mean is worked out anew."""
        host = self._host
        self._views = {version: plan.on(host.name, host.adjacency.tree) for version, plan in self._plans.items()}
        self.active = self._views[self.active.version]
        self._passages.clear()
        self.changed()
        self._floors.clear()
        self._recalled.clear()
        for table in self.tables.values():
            table.gates.clear()
            table.supers.clear()
            table.expect(self.links(table.scope))
        self.refresh()
        host.delivery.release()

    def set_floor(self, link: Link, version: int) -> None:
        """A neighbour has no tables for versions before this one, so none of theirs can be linked to it."""
        if self._floors.get(link, 0) < version:
            self._floors[link] = version
            if version > max(self._views) or self._moved_since(min(self._views)) is None:
                self.refresh()

    def links(self, scope: str) -> list[Link]:
        """The tree neighbours that carry a scope in some version, ready or not."""
        return [link for link in self._host.adjacency.tree_links if self._shared(link, scope)]

    def _shared(self, link: Link, scope: str) -> bool:
        floor = self._floors.get(link, 0) if scope else 0
        return any(link.name in view.neighbours(scope) for version, view in self._views.items() if version >= floor)

    def _expect(self, table: Table) -> None:
        """Let what is in a table settle only when all of these know it."""
        links = [*self.links(table.scope), *table.gates.values()]
        table.advertisements.expect_also(links)
        table.subscriptions.expect_also([*links, *table.taps])

    def add_tap(self, tap: Tap) -> None:
        """Let somebody know every subscription in the root scope before it settles; it is told nothing yet."""
        self.root.taps[tap] = None
        self._expect(self.root)

    def remove_tap(self, tap: Tap) -> None:
        """Nothing waits for it any more."""
        if self.root.taps.pop(tap, self) is not self:
            self.root.subscriptions.close(tap)
            self._expect(self.root)

    def _admits(self, neighbour: str, passage: Passage) -> bool:
        """Whether a neighbour lets into a subscope itself what passes there, in every version in which this one can."""
        sub, scope = passage.member, passage.scope
        crossing = [view for view in self._views.values() if scope in view.gates(sub)]
        return bool(crossing) and all(view.admits(sub, scope, neighbour) for view in crossing)

    def _leads(self, neighbour: str, scope: str) -> bool:
        """Whether a neighbour lies on the way to a gateway of a scope, in some version."""
        hops = self._host.adjacency.tree.hops
        for view in self._views.values():
            if scope in view.scopes:
                gateways = (view.gateway(scope, above) for above in view.supers(scope))
                if any(gateway is not None and hops.get(gateway) == neighbour for gateway in gateways):
                    return True
        return False

    def _mingles(self, scope: str, above: str) -> bool:
        """Whether what is in a superscope crosses into a scope elsewhere than at a gateway, in some version."""
        views = (view for view in self._views.values() if scope in view.scopes)  # others may not know it
        return any(above in view.supers(scope) and view.gateway(scope, above) is None for view in views)

    # --- tables ---------------------------------------------------------------------------------------

    def refresh(self, moved: frozenset[str] | None = None) -> None:
        """Let the tables be what the versions ask for: more at once, less when nobody needs it.

        `moved`: nothing has changed since the last time but of what these clients are members.
        """
        if moved is not None:
            links = [link for name in sorted(moved) for link in self._host.standing_for(name)]
            for link in links:
                self._passages.pop(link, None)
            self.changed()
            self._host.registrations.place_clients(links)
            return
        self._passages.clear()
        self.changed()
        self._work_out_gates()
        carried = frozenset().union(*(view.scopes for view in self._views.values()))
        for scope in sorted(carried - self.tables.keys()):
            self.tables[scope] = self._table(scope)
        for scope in sorted(carried):
            self._link(self.tables[scope])
        for scope in sorted(carried):
            self._close_gates(self.tables[scope])
        for scope in sorted(carried):
            self._open_gates(self.tables[scope])
        self._host.registrations.place_clients(self._host.clients)
        for scope in sorted(self.tables.keys() - carried):
            self._dissolve(self.tables[scope])
        self._reconsider()

    def _link(self, table: Table) -> None:
        """Tell the neighbours that have come to carry the scope everything, and forget those that no longer do."""
        links = self.links(table.scope)
        self._expect(table)
        for link in [link for link in table.subscriptions.opened if link.is_broker and link not in links]:
            self._host.entries.forget_in(table, link)
        for link in links:
            if self._host.adjacency.is_open(link) and link not in table.subscriptions.opened:
                self._host.entries.tell(table, link)

    def _table(self, scope: str) -> Table:
        return Table(
            scope,
            self._host.routing,
            self.touched,
            self._admits,
            self._leads,
            mingles=self._mingles,
            unconfirmed=self.unconfirmed,
        )

    def _gates(self, scope: str) -> Mapping[str, Passage]:
        """The passages from superscopes that are crossed here in any version, each with what all of them need of it."""
        return {above: joint(parts) for above, parts in self._crossed.get(scope, {}).items()}

    def _work_out_gates(self) -> None:
        """Join the gates of all versions; an older version's edge that would close a cycle with newer ones is left out.

        The authority lets no change turn an edge round at once; only a broker that was left behind sees such a thing.
        """
        self._crossed = {}
        for version in sorted(self._views, reverse=True):
            view = self._views[version]
            for scope in view.scopes:
                for above, passage in view.gates(scope).items():
                    crossed = self._crossed.setdefault(scope, {})
                    if above in crossed or not self._leads_up(above, scope):
                        crossed.setdefault(above, []).append(passage)

    def _leads_up(self, start: str, end: str) -> bool:
        return start == end or any(self._leads_up(above, end) for above in self._crossed.get(start, {}))

    def _open_gates(self, table: Table) -> None:
        for scope, passage in self._gates(table.scope).items():
            gate = table.gates.get(scope)
            if gate is None:
                gate = table.gates[scope] = Gate(passage, designated=self._designated(table.scope, scope))
                table.supers[scope] = self.tables[scope]
                self._expect(table)
                self._host.entries.tell(table, gate)
                continue
            if not same_passage(gate.passage, passage):
                gate.passage = passage
                self._host.entries.retranslate(table, gate)
            if gate.designated != (designated := self._designated(table.scope, scope)):
                gate.designated = designated
                self._host.entries.reconsider_gate(table, gate)

    def _designated(self, scope: str, above: str) -> bool:
        """Whether everything that crosses between two scopes crosses here, in some version."""
        views = (view for view in self._views.values() if above in view.gates(scope))
        return any(view.gateway(scope, above) is not None for view in views)

    def _close_gates(self, table: Table) -> None:
        for scope in table.gates.keys() - self._gates(table.scope).keys():
            gate = table.gates.pop(scope)
            del table.supers[scope]
            for book in table.books:
                book.close(gate)
            self._expect(table)
            self._host.entries.end_in(self.tables[scope], gate)

    def _dissolve(self, table: Table) -> None:
        """A scope that this broker no longer carries: nobody hears of it here any more."""
        for scope in list(table.gates):
            self._host.entries.end_in(self.tables[scope], table.gates.pop(scope))
        del self.tables[table.scope]
        for other in self.tables.values():
            if (gate := other.gates.pop(table.scope, None)) is not None:
                del other.supers[table.scope]
                for book in other.books:
                    book.close(gate)
        self._host.registrations.dissolved(table)

    def _reconsider(self) -> None:
        """Which neighbour lets something into a subscope itself may have changed, and, with advertisements, what may
        come in from superscopes: tell each neighbour what it must hear."""
        advertised = self._host.routing.advertisements
        for table in self.tables.values():
            affected = [entry for entry in table.subscriptions if advertised or isinstance(entry.link, Gate)]
            if affected:
                self._host.entries.reconsider(table, affected)

    def entries(self) -> list[Entry]:
        """Every subscription and advertisement in every table."""
        return [entry for table in self.tables.values() for entry in table.entries()]
