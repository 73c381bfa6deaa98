"""Metrics for Prometheus, read from the live objects whenever somebody asks; nothing is counted twice.

Neighbours are labelled by name; clients are not, they are too many and come and go: only their sums are shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tidings.aggregation import Exports
from tidings.scopes import OUTCOMES, counted_policies
from tidings.wire import PeerStatus, Status, TableStatus

from ._group_metrics import group_metrics
from ._listener import Listener
from ._peer import Peer
from ._status import Memory, Reporter

_MICROSECOND_GAUGES = ("last_sync", "slowest_sync", "last_checkpoint", "slowest_checkpoint")
MAX_SCOPE_LABELS = 100
"""The most scopes that are labelled by name, those carried longest; the others, and all hidden ones, are summed up."""
_OTHERS = "(others)"
_ROOT = "(root)"
_STORE_GAUGES = ("queued", "queued_bytes")


class BrokerCollector(Collector):
    """Makes metrics of what a server says about itself."""

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter

    def collect(self) -> Iterator[Metric]:
        """All metrics of this moment."""
        status = self._reporter.status(max_clients=0)
        yield from _broker(status)
        yield from _messages(status)
        if self._reporter.listener is not None:
            yield from _connections(self._reporter.listener)
        if status.scopes is not None:
            yield from _scopes(status.scopes.tables)
        yield from _peers(self._reporter.peers, {peer.name: peer.told_subscriptions for peer in status.peers})
        yield from _memory(self._reporter.memory())
        yield from _movement(self._reporter.movement())
        yield from _rules(self._reporter.rules())
        yield from group_metrics(*self._reporter.groups())
        yield from _hand_offs(status.mobility, *self._reporter.graph_quality())
        yield from _clocks(status.peers)
        yield from _history(status.history)
        yield from _aggregation(status.aggregation)
        yield from _exported(self._reporter.exports())
        if status.store is not None:
            yield from _store(status.store)


def render(reporter: Reporter, accept: str) -> tuple[str, bytes]:
    """The content type and the text of all metrics."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(BrokerCollector(reporter))
    encode, content_type = choose_encoder(accept)
    return content_type, encode(registry)


def _gauge(name: str, text: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"tidings_{name}", text, value=value)


def _counter(name: str, text: str, value: float) -> CounterMetricFamily:
    return CounterMetricFamily(f"tidings_{name}", text, value=value)


def _broker(status: Status) -> Iterator[Metric]:
    info = GaugeMetricFamily("tidings_broker_info", "The broker; always 1.", labels=["name", "role", "version"])
    info.add_metric([status.name, status.role, status.version], 1)
    yield info
    compiled = "1: the compiled engine matches notifications; 0: Python does."
    yield _gauge("compiled_engine", compiled, status.engine.startswith("compiled"))
    yield _gauge("uptime_seconds", "Seconds since the broker started.", status.uptime)
    yield _gauge("clients", "Clients, connected or waited for.", status.clients)
    yield _gauge("neighbours", "Linked neighbour brokers.", status.brokers)
    yield _gauge("brokers_known", "Brokers that the tree connects, this one included.", len(status.tree.hops) + 1)
    yield _gauge("subscriptions", "Subscriptions in the table.", status.subscriptions)
    yield _gauge("advertisements", "Advertisements in the table.", status.advertisements)
    yield _gauge("durable_subscriptions", "Durable subscriptions that are kept.", status.durable)
    waiting = "Publications that wait for their scopes or advertisements to be ready."
    yield _gauge("waiting_publications", waiting, status.waiting)
    yield _gauge("suspended_origins", "Origins whose missed notifications are being fetched.", len(status.suspended))
    if status.scopes is not None:
        yield _gauge("scopes", "Scopes, without the root scope.", status.scopes.count)
        yield _gauge("scope_graph_version", "The version of the scope graph that holds.", status.scopes.active)
        yield _gauge("scope_graph_known", "1: the scope graph is known; 0: publications wait.", status.scopes.ready)
        failed, slow = counted_policies()
        yield _counter("policy_failures", "Denials because a policy failed or is not registered.", failed)
        border = "What the borders of scopes did not let pass, by the reason."
        refusals = CounterMetricFamily("tidings_border_refusals", border, labels=["reason"])
        for reason, count in sorted(status.counters.border_refusals.items()):
            refusals.add_metric([reason], count)
        yield refusals
        yield _counter("policy_slow", "Answers for which a policy took too long.", slow)
    counters = status.counters
    yield _counter("stale_frames", "Frames of an old tree, dropped.", counters.stale_frames)
    yield _counter("refused_messages", "Messages that were refused.", counters.refused)
    yield _counter("repeated_publications", "Publications that came again.", counters.repeated_publications)
    unstored = "Publications that went on as accepted because the store did not take them."
    yield _counter("unstored_publications", unstored, counters.unstored)
    yield _counter("gaps", "Gaps that were reported to clients.", counters.gaps)


_MOVEMENT = {
    "clients_taken_over": "Clients that were let go because another broker or process has them.",
    "names_in_use": "Clients that were refused because their name is in use.",
    "durables_moved": "Durable subscriptions that came here from other brokers.",
}


def _movement(counted: Mapping[str, int]) -> Iterator[Metric]:
    yield from (_counter(name, _MOVEMENT[name], count) for name, count in counted.items())


def _rules(counted: Mapping[str, int]) -> Iterator[Metric]:
    yield _counter("rule_events", "Events at this broker that rules waited for.", counted["noticed"])
    outcomes = CounterMetricFamily("tidings_rule_outcomes", "What became of them.", labels=["outcome"])
    for outcome in OUTCOMES:
        outcomes.add_metric([outcome], counted[outcome])
    yield outcomes
    yield _gauge("rule_events_waiting", "Events of rules that wait for the authority.", counted["waiting"])


_HAND_OFFS = {
    "hand_offs": "Clients that came from another broker.",
    "hits": "Clients that found a copy which was ready.",
    "early": "Clients that came before their copy was ready.",
    "misses": "Clients that found no copy.",
    "copies_refused": "Copies of clients that were not taken, for want of room or of rights.",
    "warm_refused": "Copies that were to listen before their clients go, and rest because there were too many.",
    "fetched": "Notifications that clients got from brokers which had listened for them elsewhere.",
    "overwritten": "References to notifications that copies had to give up; their origins are asked instead.",
    "edges_added": "Edges that were added to the neighbour graph.",
    "edges_removed": "Edges that were removed from the neighbour graph.",
    "virtual_hits": "Subscriptions that clients took over from virtual clients.",
    "virtual_lead_ms": "For how many milliseconds these had listened before their clients came, together.",
}


def _hand_offs(counted: Mapping[str, int], f_neg: float, f_pos: float) -> Iterator[Metric]:
    yield from (_counter(f"mobility_{name}", text, counted[name]) for name, text in _HAND_OFFS.items())
    yield _gauge("mobility_edges", "Edges of the neighbour graph at this broker.", counted["edges"])
    yield _gauge("mobility_copies", "Copies of clients of other brokers.", counted["copies"])
    yield _gauge(
        "mobility_copies_listening", "Copies that listen, of clients that are away.", counted["copies_listening"]
    )
    yield _gauge("mobility_buffered_bytes", "What these hold, with their references.", counted["buffered_bytes"])
    yield _gauge(
        "mobility_copies_warm", "Copies that listen although their clients are connected.", counted["copies_warm"]
    )
    yield _gauge("mobility_warm_bytes", "What these hold, with their references.", counted["warm_bytes"])
    yield _gauge("mobility_virtual_clients", "Clients that are listened for at this place.", counted["virtual_clients"])
    yield _gauge("mobility_f_neg", "Share of the latest hand-offs over an edge that was new.", f_neg)
    yield _gauge("mobility_f_pos", "Edges removed lately, by the time that edges were there.", f_pos)


def _connections(listener: Listener) -> Iterator[Metric]:
    yield _gauge("connections", "Connections that were accepted, from the first byte of TLS on.", listener.count)
    yield _counter("connections_dismissed", "Closed before their hello because others came.", listener.dismissed)
    yield _counter("accept_failures", "Episodes in which no connection could be accepted.", listener.failures)


def _messages(status: Status) -> Iterator[Metric]:
    messages = CounterMetricFamily("tidings_messages", "Messages by type and direction.", labels=["direction", "type"])
    for direction, counts in (("in", status.counters.messages_in), ("out", status.counters.messages_out)):
        for kind, count in sorted(counts.items()):
            messages.add_metric([direction, kind], count)
    yield messages


def _scopes(tables: tuple[TableStatus, ...]) -> Iterator[Metric]:
    measures = {
        "lookups": "Notifications looked up in the table of a scope.",
        "evaluated": "Filters in the table of a scope at each lookup, together.",
        "copies": "Copies of notifications that a scope sent on, to neighbours and clients.",
        "taken": "Notifications looked up in the table of a scope that took the plain path.",
        "fed": "Publications among these that the compiled engine took as bytes.",
    }
    labelled: dict[str, list[TableStatus]] = {}
    for table in tables:
        apart = not table.hidden and len(labelled) < MAX_SCOPE_LABELS
        labelled.setdefault((table.scope or _ROOT) if apart else _OTHERS, []).append(table)
    for name, text in measures.items():
        family = CounterMetricFamily(f"tidings_scope_{name}", text, labels=["scope"])
        for label, group in labelled.items():
            family.add_metric([label], sum(getattr(table, name) for table in group))
        yield family


_HISTORY = {
    "asked": "Subscriptions into the past.",
    "answered": "Subscriptions into the past that went on because every broker had answered.",
    "satisfied": "Subscriptions into the past that went on because there was enough.",
    "timed_out": "Subscriptions into the past that went on because time was up.",
    "cancelled": "Subscriptions into the past that ended before.",
    "delivered": "Notifications from the past that clients got.",
    "capped": "Subscriptions into the past that got less because of a limit.",
    "waves": "Questions about the past to all brokers.",
    "searches": "Questions about the past that were looked up here.",
    "late": "Messages about requests for the past that were over.",
    "cache_rejected": "Filters that are not remembered because the cache had no room for them.",
}
_CACHE = {
    "cache_filters": "Filters that notifications are remembered for.",
    "cache_notifications": "Notifications in the cache.",
    "cache_bytes": "The bytes of their bodies.",
}


def _history(counted: dict[str, int]) -> Iterator[Metric]:
    if counted:
        yield _gauge("history_waiting", "Subscriptions whose past has not come yet.", counted["waiting"])
        if "held" in counted:
            yield _counter("history_held_seconds", "Seconds for which these waited, together.", counted["held"] / 1e6)
        for name, text in _HISTORY.items():
            if name in counted:
                yield _counter(f"history_{name}", text, counted[name])
        for name, text in _CACHE.items():
            if name in counted:
                yield _gauge(f"history_{name}", text, counted[name])


_WATCHED = {
    "keys": "Keys and questions that are watched at this broker, or through it.",
    "watches": "Watches of clients of this broker.",
    "woven": "Steps of the broker that aggregation advises.",
}
_AGGREGATION = {
    "updates_sent": "Values told to neighbours.",
    "updates_riding": "Values that came along with other messages.",
    "updates_alone": "Values that came by themselves.",
    "suppressed": "Changes that were within the bounds of those who ask.",
    "late": "Values for what was no longer asked.",
    "results": "Values told to clients.",
    "partials_refused": "Values of neighbours that were none.",
    "late_notifications": "Notifications whose window had closed.",
}


def _aggregation(counted: dict[str, int]) -> Iterator[Metric]:
    if counted:
        for name, text in _WATCHED.items():
            yield _gauge(f"aggregation_{name}", text, counted[name])
        for name, text in _AGGREGATION.items():
            yield _counter(f"aggregation_{name}", text, counted[name])


def _peers(peers: list[Peer], told: dict[str, int]) -> Iterator[Metric]:
    groups: dict[tuple[str, str], list[Peer]] = {("client", ""): []}
    for peer in peers:
        groups.setdefault((peer.link.kind.value, peer.link.name if peer.link.is_broker else ""), []).append(peer)
    measures: dict[str, tuple[str, Callable[[Peer], float]]] = {
        "queued_parts": ("Parts that wait for peers.", lambda peer: peer.queued),
        "unacknowledged_parts": ("Parts sent and not acknowledged.", lambda peer: peer.session.waiting),
        "dropped_notifications": ("Dropped for peers that are here and too slow.", lambda peer: peer.dropped),
        "congested_peers": ("Peers whose queue is full.", lambda peer: peer.congested_since is not None),
        "waiting_peers": ("Peers that are not read from, for a full queue.", lambda peer: peer.waits),
        "connected_peers": ("Peers with a connection.", lambda peer: peer.stream is not None),
    }
    for name, (text, measure) in measures.items():
        family = GaugeMetricFamily(f"tidings_{name}", text, labels=["kind", "peer"])
        for labels, group in groups.items():
            family.add_metric(labels, sum(map(measure, group)))
        yield family
    family = GaugeMetricFamily("tidings_told_subscriptions", "Subscriptions a neighbour was told.", labels=["peer"])
    for neighbour, count in told.items():
        family.add_metric([neighbour], count)
    yield family


def _memory(memory: Memory) -> Iterator[Metric]:
    yield _gauge("client_bytes", "Memory kept for clients: queues, windows, registrations.", memory.kept)
    yield _gauge("durable_bytes", "What durable subscriptions take.", memory.durable)
    limited = CounterMetricFamily("tidings_memory_limited", "What was done for want of memory.", labels=["what"])
    for what, count in memory.limited.items():
        limited.add_metric([what], count)
    yield limited


def _clocks(neighbours: tuple[PeerStatus, ...]) -> Iterator[Metric]:
    ahead = GaugeMetricFamily("tidings_clock_offset_seconds", "How far a neighbour's clock is ahead.", labels=["peer"])
    error = GaugeMetricFamily("tidings_clock_error_seconds", "How far that may be wrong.", labels=["peer"])
    for neighbour in neighbours:
        if neighbour.clock_offset is not None and neighbour.clock_error is not None:
            ahead.add_metric([neighbour.name], neighbour.clock_offset)
            error.add_metric([neighbour.name], neighbour.clock_error)
    yield ahead
    yield error


def _store(store: dict[str, int]) -> Iterator[Metric]:
    for name, value in store.items():
        if name in _MICROSECOND_GAUGES:
            yield _gauge(f"store_{name}_seconds", f"The store's {name.replace('_', ' ')}.", value / 1_000_000)
        elif name in _STORE_GAUGES:
            yield _gauge(f"store_{name}", f"The store's {name.replace('_', ' ')}.", value)
        else:
            yield _counter(f"store_{name}", f"The store's {name.replace('_', ' ')} since it was opened.", value)


def _exported(exports: Exports | None) -> Iterator[Metric]:
    """The values of aggregates that the configuration names; one that is not complete has no value."""
    if not exports:
        return
    samples, left_out = exports.samples
    labels = ["aggregate", "key"]
    value = GaugeMetricFamily("tidings_aggregate", "The value of an aggregate.", labels=labels)
    error = GaugeMetricFamily("tidings_aggregate_error", "How far it may be from the truth.", labels=labels)
    complete = GaugeMetricFamily("tidings_aggregate_complete", "1: every broker has contributed.", labels=labels)
    for sample in samples:
        said = [sample.aggregate, sample.key]
        if sample.value is not None:
            value.add_metric(said, sample.value)
            error.add_metric(said, sample.error)
        complete.add_metric(said, sample.complete)
    yield from (value, error, complete)
    yield _gauge("aggregate_left_out", "Numbers that are not exported, because there are too many.", left_out)
