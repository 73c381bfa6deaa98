"""What copies take: in memory, of the throughput while nobody is away, and of a large network."""

from __future__ import annotations

import gc
import random
import resource
import statistics
import time
import tracemalloc
from collections.abc import Callable

from bench import Report
from bench._runtime import Idle
from tidings.broker import Broker, Feature, Link, LinkKind
from tidings.mobility import Edge, Hosts, MobilityOptions, Neighbourhood, Roaming, Scheme
from tidings.mobility._buffer import Holder, SharedBuffer
from tidings.mobility._copies import Propagate, Wanted, Whose
from tidings.mobility.workload import Pattern, State, walk
from tidings.model import Filter, Identity, Route
from tidings.sim import Network, SimClient, Weather, topologies
from tidings.wire import Envelope, Frame, Publish, Quality, Subscribe, encode_body

BODY = 1_024
REFERENCES = 100
FAN_OUTS = (1, 10, 100)
REPEATS = 15
CLIENTS, BROKERS, SECONDS = 10_000, 50, 60.0
OPTIONS = MobilityOptions(Scheme.PROACTIVE, roamers=("all",))


def run(report: Report) -> None:
    """Measure what copies take."""
    report.limit("a passive copy, for each of its ten subscriptions", _passive(10), "bytes", at_most=600)
    report.figure("a passive copy of one subscription", _passive(1), "bytes")
    held = _held()
    report.limit(f"a notification held for {REFERENCES} copies, less its body", held, "bytes", at_most=REFERENCES * 64)
    for fan_out in FAN_OUTS:
        report.ratio(f"publications while nobody is away, fan-out {fan_out}", _throughput(fan_out), at_least=0.98)
    if report.full:
        handoffs, memory = _large()
        report.figure(f"hand-offs of {CLIENTS:,} clients at {BROKERS} brokers in a minute", handoffs, "")
        report.limit("memory of the process that simulates them", memory / 1e9, "GB", at_most=2.0)


def _features(name: str, near: str) -> list[Feature]:
    hosts = Hosts()
    edge = Edge(min(name, near), max(name, near), 1.0, 0, 0, pinned=True)
    neighbourhood = Neighbourhood(hosts, OPTIONS.graph, [edge])
    return [hosts, neighbourhood, Roaming(OPTIONS, hosts, neighbourhood)]


def _passive(subscriptions: int) -> float:
    """Bytes that a broker needs for each subscription of copies that rest."""
    broker = Broker("a", Idle(), features=_features("a", "b"))
    feature = broker.features["roaming"]
    assert isinstance(feature, Roaming)
    filters = [Filter.parse(f"type = 'quote' AND symbol = 'SAP' AND price > {n}") for n in range(subscriptions)]
    wanted = tuple(Wanted(f"s{n}", one) for n, one in enumerate(filters))
    gc.collect()
    tracemalloc.start()
    for n in range(1_000):
        feature.keeping.hear("b", Propagate(Whose(f"client-{n}", "alice", 1), 1, wanted))
    gc.collect()
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(feature.keeping.copies) == 1_000
    return used / 1_000 / subscriptions


def _held() -> float:
    """Bytes that a buffer needs beside the notification itself, which many copies want."""
    buffer = SharedBuffer(1 << 30)
    holders = [Holder("alice") for _ in range(REFERENCES)]
    envelopes = _envelopes(1_000)
    gc.collect()
    tracemalloc.start()
    for envelope in envelopes:
        for holder in holders:
            buffer.add(envelope, holder, tuple(iter(["s1"])))  # each message brings its own
    gc.collect()
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return used / len(envelopes)


def _envelopes(count: int) -> list[Envelope]:
    body = encode_body({"filler": "x" * BODY})
    return [Envelope(Identity("o", 1, n, "feed", n, 0, 0), (Route(""),), body) for n in range(1, count + 1)]


def _throughput(fan_out: int) -> float:
    """Publications a second with copies elsewhere, against none; the median of runs in turn, in processor time."""
    without, ready = _publishing([Hosts()], fan_out), _publishing(_features("a", "b"), fan_out)
    ratios = []
    for _ in range(REPEATS):
        before, between, after = without(), ready(), without()
        ratios.append((before + after) / 2 / between)
    return statistics.median(ratios)


def _publishing(features: list[Feature], fan_out: int, count: int = 2_000) -> Callable[[], float]:
    """Measures the processor time of publications, whenever it is called."""
    broker = Broker("a", Idle(), features=features)
    for n in range(fan_out):
        link = Link(f"c{n}", LinkKind.CLIENT)
        broker.attach(link)
        broker.receive(link, Frame(Subscribe("s", Filter.parse("kind = 0"))))
    publisher = Link("publisher", LinkKind.CLIENT)
    broker.attach(publisher)
    body, sent = encode_body({"kind": 0, "price": 5, "symbol": "SAP"}), [0]

    def once() -> float:
        first = sent[0] + 1
        sent[0] += count
        frames = [Frame(Publish(n, body, Quality.ACCEPTED)) for n in range(first, first + count)]
        gc.collect()
        gc.disable()
        begin = time.process_time()
        for frame in frames:
            broker.receive(publisher, frame)
        spent = time.process_time() - begin
        gc.enable()
        return spent

    return once


def _large() -> tuple[int, float]:
    """Hand-offs in a minute of many clients in a large network, and the most bytes that the process has used."""
    shape = topologies.random_tree(BROKERS, random.Random(3))
    near: dict[str, list[str]] = {broker: [] for broker in shape.brokers}
    for one, two in shape.links:
        near[one].append(two)
        near[two].append(one)
    edges = [Edge(min(link), max(link), 1.0, 0, 0, pinned=True) for link in shape.links]

    def features(name: str) -> list[Feature]:
        hosts = Hosts()
        neighbourhood = Neighbourhood(hosts, OPTIONS.graph, edges)
        return [hosts, neighbourhood, Roaming(OPTIONS, hosts, neighbourhood)]

    network = Network(1, features=features, weather=Weather(latency=(5_000, 5_000)))
    network.trace.records = _Forgetful()
    network.add_brokers(shape.brokers, links=shape.links)
    network.run()
    steps, clients = [], list[SimClient]()
    for n in range(CLIENTS):
        start = shape.brokers[n % BROKERS]
        client = network.add_client(f"w{n}", start)
        client.subscribe(f"s BETWEEN {n % 80} AND {n % 80 + 19}")
        client.received = _Forgetful()
        clients.append(client)
        for stay in walk(random.Random(f"walk {n}"), start, near, Pattern.NEIGHBOURING):
            if stay.begin >= SECONDS:
                break
            steps.append((stay.begin, n, stay.broker if stay.state is State.CONNECTED else None))
    feed = network.add_client("feed", shape.brokers[0])
    network.run(5)
    begin, handoffs = network.scheduler.now, 0
    steps += [(float(second), -1, None) for second in range(int(SECONDS))]
    last = {n: shape.brokers[n % BROKERS] for n in range(CLIENTS)}
    for at, n, broker in sorted(steps, key=lambda one: one[:2]):
        network.run(max(begin + at * 1e6 - network.scheduler.now, 0) / 1e6)
        if n < 0:
            feed.publish(s=int(at) % 100, body=bytes(BODY))
        elif broker is None:
            clients[n].vanish(noticed=1.5, kept=60)
        elif not clients[n].connected:
            clients[n].attach(broker)
            handoffs += broker != last[n]
            last[n] = broker
    return handoffs, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


class _Forgetful(list):  # type: ignore[type-arg]
    """Keeps nothing: what the simulator notes for its checker is no part of what brokers need."""

    def append(self, one: object, /) -> None:
        """Forget it."""
