"""What a running server says about itself: to administrators over the wire, to metrics and health over HTTP."""

from __future__ import annotations

import dataclasses
import functools
import importlib.metadata
import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from tidings._native import describe
from tidings.aggregation import Aggregation, Exports
from tidings.aggregation.messages import Seen
from tidings.broker import Link, Table
from tidings.history import Strict
from tidings.model import AccessDenied
from tidings.scopes import OUTCOMES
from tidings.wire import (
    MAX_CLIENTS,
    MAX_FILTERS,
    MAX_TABLES,
    Counters,
    DialStatus,
    GroupStatus,
    PeerStatus,
    ScopeStatus,
    Status,
    StatusReply,
    StatusRequest,
    TableStatus,
    TreeStatus,
    encode_status,
)

from ._access import AccessEntry
from ._dialler import Dialler
from ._listener import Listener
from ._peer import Peer

if TYPE_CHECKING:
    from ._server import Server


@functools.cache
def version() -> str:
    """The version of the installed package."""
    return importlib.metadata.version("tidings")


class Memory(NamedTuple):
    """The budgets of clients."""

    kept: int
    """The bytes that are kept for clients in memory."""
    durable: int
    """The bytes of durable subscriptions."""
    limited: dict[str, int]
    """How often a budget was exceeded, by what was done about it."""


class Reporter:
    """Looks at a running server; never changes it."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._started = server.host.loop.time()
        server.host.broker.on_client_message(StatusRequest, self._answer)

    def _answer(self, link: Link, request: StatusRequest) -> None:
        guard = link.guard
        if isinstance(guard, AccessEntry) and not guard.administer:
            raise AccessDenied(f"'{guard.name}' may not see the status; it needs the right to administer")
        self._server.host.broker.send(link, StatusReply(request.id, encode_status(self.status())))

    @property
    def uptime(self) -> float:
        """Seconds since the server started."""
        return self._server.host.loop.time() - self._started

    @property
    def listener(self) -> Listener | None:
        """What accepts connections."""
        return self._server.listener

    @property
    def peers(self) -> list[Peer]:
        """All peers of the server."""
        return self._server.host.peers

    def movement(self) -> dict[str, int]:
        """How clients and what is kept for them have moved between brokers, and between processes."""
        host = self._server.host
        return {
            "clients_taken_over": host.hosts.taken_over,
            "names_in_use": host.hosts.refused,
            "durables_moved": host.following.moved_here,
        }

    def rules(self) -> dict[str, int]:
        """What has become of events that rules waited for here; `waiting`: how many wait for the authority."""
        rules = self._server.host.rules
        return {**{word: rules.counted[word] for word in ("noticed", *OUTCOMES)}, "waiting": rules.waiting}

    def groups(self) -> tuple[list[GroupStatus], Callable[[str], bool], int]:
        """The groups that this broker decides for, whether a scope is hidden, and what time it is."""
        host, known = self._server.host, self._server.host.governance.scopes.graph.scopes
        return host.desk.deciding(), lambda scope: scope not in known or known[scope].hidden, host.now()

    def graph_quality(self) -> tuple[float, float]:
        """How often the neighbour graph lacked an edge, and how many it had in vain: F_neg and F_pos."""
        return self._server.movement.quality()

    def memory(self) -> Memory:
        """What clients take, and what was done for want of room."""
        server = self._server
        budget, durables = server.host.budget, server.durables
        return Memory(
            budget.total,
            durables.size,
            {
                "registrations_refused": budget.refused,
                "queues_shortened": budget.shortened,
                "clients_ended": budget.ended,
                "durables_refused": durables.refused,
                "publications_refused": server.host.broker.delivery.waiting.refused,
            },
        )

    def status(self, max_clients: int = MAX_CLIENTS) -> Status:
        """The whole picture at this moment; of the clients, no more than so many."""
        server = self._server
        host, options, broker = server.host, server.options, server.host.broker
        neighbours = [peer for peer in self.peers if peer.link.is_broker]
        clients = [peer for peer in self.peers if not peer.link.is_broker]
        statistics = broker.statistics
        return Status(
            name=options.name,
            epoch=host.epoch,
            role=options.role.value,
            version=version(),
            uptime=round(self.uptime, 3),
            host=options.host,
            port=server.port,
            draining=server.draining,
            clients=len(clients),
            brokers=len(neighbours),
            peers=tuple(self._peer(peer) for peer in (*neighbours, *clients[:max_clients])),
            peers_left_out=max(0, len(clients) - max_clients),
            dialled=tuple(map(dial_status, server.diallers)),
            subscriptions=sum(len(table.subscriptions) for table in broker.scoping.tables.values()),
            advertisements=sum(len(table.advertisements) for table in broker.scoping.tables.values()),
            counters=Counters(
                messages_in=dict(statistics.messages_in),
                messages_out=dict(statistics.messages_out),
                stale_frames=statistics.stale_frames,
                refused=statistics.refused,
                repeated_publications=statistics.repeated_publications,
                gaps=statistics.gaps,
                unstored=statistics.unstored,
                border_refusals=dict(statistics.border_refusals),
            ),
            tree=self._tree(),
            suspended=tuple(sorted(broker.recovery.suspended)),
            routing=dataclasses.asdict(options.routing),
            limits=dataclasses.asdict(options.limits),
            store=self.store(),
            durable=server.durables.count,
            history=self._history(),
            scopes=self._scopes(),
            waiting=len(broker.delivery.waiting),
            aggregation=self._aggregation(),
            mobility=server.movement.counted(),
            engine=describe(),
        )

    def store(self) -> dict[str, int] | None:
        """What the store has counted; None: there is none."""
        store, keeper = self._server.store, self._server.keeper
        if store is None:
            return None
        return {**msgspec.structs.asdict(store.statistics()), **(keeper.counted if keeper is not None else {})}

    def _history(self) -> dict[str, int]:
        feature = self._server.host.broker.features.get("history")
        if feature is None:
            return {}
        if isinstance(feature, Strict):
            counted = dataclasses.asdict(feature.statistics)
        else:
            counted = getattr(feature, "statistics", {})  # as the strategies that cache have them
        return {**counted, "waiting": len(self._server.host.broker.holds.all)}

    def exports(self) -> Exports | None:
        """What the configuration says metrics should show; None: there is no aggregation."""
        feature = self._server.host.broker.features.get("aggregation")
        return feature.exports if isinstance(feature, Aggregation) else None

    def watched(self) -> Seen | None:
        """What is watched here; None: there is no aggregation."""
        feature = self._server.host.broker.features.get("aggregation")
        return feature.look() if isinstance(feature, Aggregation) else None

    def _aggregation(self) -> dict[str, int]:
        feature = self._server.host.broker.features.get("aggregation")
        return feature.statistics if isinstance(feature, Aggregation) else {}

    def _peer(self, peer: Peer) -> PeerStatus:
        tables = list(self._server.host.broker.scoping.tables.values())
        link = peer.link
        offset = peer.clock.offset if peer.clock is not None else None
        told = [one for table in tables for one in table.subscriptions.told(link).values()] if link.is_broker else []
        return PeerStatus(
            name=link.name,
            kind=link.kind.value,
            connected=peer.stream is not None,
            queued=peer.queued,
            unacknowledged=peer.session.waiting,
            dropped=peer.dropped,
            congested=peer.congested_since is not None,
            subscriptions=sum(table.subscriptions.count(link) for table in tables),
            advertisements=sum(table.advertisements.count(link) for table in tables),
            told_subscriptions=len(told),
            told_advertisements=sum(len(table.advertisements.told(link)) for table in tables) if link.is_broker else 0,
            told=tuple(str(filter)[:1_000] for filter in itertools.islice(told, MAX_FILTERS)),
            clock_offset=None if offset is None else offset.ahead / 1_000_000,
            clock_error=None if offset is None else offset.error / 1_000_000,
        )

    def _scopes(self) -> ScopeStatus:
        service, scoping = self._server.host.governance.scopes, self._server.host.broker.scoping
        return ScopeStatus(
            count=len(service.graph.scopes) - 1,
            carried=len(scoping.tables) - 1,
            version=service.graph.version,
            active=scoping.active.version,
            authority=service.authority_name,
            ready=scoping.ready,
            tables=tuple(self._table(table) for table in itertools.islice(scoping.tables.values(), MAX_TABLES)),
        )

    def _table(self, table: Table) -> TableStatus:
        known = self._server.host.governance.scopes.graph.scopes.get(table.scope)
        lane = self._server.host.broker.delivery.lanes.all().get(table.scope)
        return TableStatus(
            scope=table.scope,
            subscriptions=len(table.subscriptions),
            advertisements=len(table.advertisements),
            lookups=table.lookups,
            evaluated=table.evaluated,
            copies=table.copies,
            taken=lane.taken if lane is not None else 0,
            fed=lane.fed if lane is not None else 0,
            unfed=lane.unfed if lane is not None else "",
            hidden=known is None or known.hidden,
        )

    def _tree(self) -> TreeStatus:
        adjacency = self._server.host.broker.adjacency
        topology, tree = adjacency.topology, adjacency.tree
        edges = topology.edges()
        known = {state.broker: state.neighbours for state in topology.states()}
        up = {(min(one, two), max(one, two)) for one in known for two in known[one] if one in known.get(two, {})}
        used = {(min(edge), max(edge)) for edge in edges}
        return TreeStatus(
            epoch=tree.epoch,
            neighbours=tuple(sorted(tree.neighbours)),
            hops=dict(tree.hops),
            edges=tuple(sorted(used)),
            spare=tuple(sorted(up - used)),
        )


def dial_status(dialler: Dialler) -> DialStatus:
    """How it stands with one configured neighbour."""
    return DialStatus(url=dialler.url, connected=dialler.connected, problem=dialler.problem)
