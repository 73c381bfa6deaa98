"""What being ready before a client arrives is worth, and what it costs: copies against asking the origins.

Ten clients walk through the building of the documents, whose edges are links of brokers and ways of clients alike. One
client at each broker publishes. A *pause* is the virtual time from the arrival of a client until it has everything that
was published more than `UNDER_WAY` before. Everybody wants everything, so copies attract no traffic that is not there
anyway. Simulated times and frames repeat exactly.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Iterator
from typing import Any, NamedTuple, SupportsIndex

from bench import Report
from tidings.broker import Feature
from tidings.mobility import Edge, Hosts, MobilityOptions, Neighbourhood, Outcome, Roaming, Scheme
from tidings.model import Notification
from tidings.sim import Network, SimClient, Weather

BUILDING = ("12", "23", "34", "35", "61", "62", "63", "64")
WALKERS, MOVES = 10, 20
STAYS, AWAY = 4.0, 3.0
"""Seconds, means of exponential times."""
DETECTION = 1.5
"""Seconds until a broker notices that a client is gone."""
UNDER_WAY = 300_000
"""Microseconds: longer than the longest way."""
RADIO = Weather(latency=(5_000, 5_000), bandwidth=1_375_000)
ROUND_TRIP = 10.0
"""Milliseconds between a client and its broker."""


class Walk(NamedTuple):
    """What came of one run."""

    pauses: list[float]
    """Milliseconds, of all moves in which something was missed."""
    hits: list[float]
    """Until the first of what was missed came, where a copy had it all within 45 ms."""
    outcomes: dict[Outcome, int]
    frames: int
    bytes: int


def run(report: Report) -> None:
    """Measure moves."""
    near, far = 0.2, 25.0
    ready, ready_near = _walk(Scheme.PROACTIVE, far), _walk(Scheme.PROACTIVE, near)
    asked = _walk(Scheme.ORIGINS, far)
    found = ready.outcomes
    hit, hit_near = statistics.median(ready.hits), statistics.median(ready_near.hits)
    for outcome, count in found.items():
        report.figure(f"moves of {WALKERS} clients that were a {outcome.value}", count, "")
    report.limit("pause of a hit, 25 ms links / client round trip", hit / ROUND_TRIP, "x", at_most=1.2)
    report.limit("pause of a hit, 25 ms links / 0.2 ms links", hit / hit_near, "x", at_most=1.15)
    median = statistics.median(ready.pauses) / statistics.median(asked.pauses)
    report.limit("median pause of all moves, 25 ms links / origins", median, "x", at_most=0.25)
    mean = statistics.mean(ready.pauses) / statistics.mean(asked.pauses)
    report.limit("mean pause of all moves, 25 ms links / origins", mean, "x", at_most=0.6)
    report.figure("mean pause of all moves, 25 ms links", statistics.mean(ready.pauses), "ms")
    report.figure("the same with origins", statistics.mean(asked.pauses), "ms")
    report.figure("frames / origins", ready.frames / asked.frames, "x")
    report.figure("bytes / origins", ready.bytes / asked.bytes, "x")


class _Received(list[Notification]):
    """What has reached a client, and what it waits for."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self._network = network
        self.numbers: set[int] = set()
        self.missing: set[int] = set()
        self.arrived = 0
        self.pauses: list[float] = []
        self.first = 0.0
        """Milliseconds until the first of what was missed came."""

    def append(self, one: Notification, /) -> None:
        super().append(one)
        number = one["n"]
        assert isinstance(number, int)
        self.numbers.add(number)
        if number in self.missing:
            self.first = self.first or (self._network.scheduler.now - self.arrived) / 1_000
            self.missing.discard(number)
            if not self.missing:
                self.pauses.append((self._network.scheduler.now - self.arrived) / 1_000)

    def insert(self, at: SupportsIndex, one: Notification, /) -> None:
        raise NotImplementedError


def _walk(scheme: Scheme, backbone: float) -> Walk:
    network = _building(scheme, int(backbone * 1_000))
    published: list[int] = []
    """When each notification was published."""
    walkers = [network.add_client(f"w{n}", str(n % 6 + 1)) for n in range(WALKERS)]
    for walker in walkers:
        walker.received = _Received(network)
        walker.subscribe("n EXISTS")
    publishers = [network.add_client(f"p{n}", str(n)) for n in range(1, 7)]
    network.run(3)
    start = (network.frames, network.bytes)
    steps = sorted((step for n, walker in enumerate(walkers) for step in _steps(n, walker)), key=lambda one: one[0])
    end = int(steps[-1][0] + 3_000_000)
    events: list[tuple[float, Any]] = [*steps, *((at, publishers) for at in range(0, end, 50_000))]
    begin = network.scheduler.now
    hits: list[float] = []
    for at, what in sorted(events, key=lambda one: one[0]):
        network.run(max(begin + at - network.scheduler.now, 0) / 1_000_000)
        if what is publishers:
            publishers[len(published) % 6].publish(n=len(published))
            published.append(network.scheduler.now)
        else:
            walker, to = what
            _move(network, walker, to, published, hits)
    network.run(10)
    received = [walker.received for walker in walkers if isinstance(walker.received, _Received)]
    assert all(len(one) == len(one.numbers) == len(published) for one in received), "something was lost, or came twice"
    outcomes = dict.fromkeys(Outcome, 0)
    for broker in network.brokers.values():
        if isinstance(feature := broker.features.get("roaming"), Roaming):
            for outcome, count in feature.handing.outcomes.items():
                outcomes[outcome] += count
    pauses = [pause for one in received for pause in one.pauses]
    return Walk(pauses, hits, outcomes, network.frames - start[0], network.bytes - start[1])


def _building(scheme: Scheme, latency: int) -> Network:
    options = MobilityOptions(scheme, roamers=("all",))
    edges = [Edge(min(edge), max(edge), 1.0, 0, 0, pinned=True) for edge in BUILDING]

    def features(name: str) -> list[Feature]:
        hosts = Hosts()
        if scheme is Scheme.ORIGINS:
            return [hosts]
        neighbourhood = Neighbourhood(hosts, options.graph, edges)
        return [hosts, neighbourhood, Roaming(options, hosts, neighbourhood)]

    network = Network(1, features=features, weather=Weather(latency=(latency, latency)), client_weather=RADIO)
    network.add_brokers("123456", links=BUILDING)
    network.run()
    return network


def _steps(n: int, walker: SimClient) -> Iterator[tuple[float, tuple[SimClient, str | None]]]:
    """A walk to neighbours: when the client goes, and where it arrives when."""
    rng, at, here = random.Random(f"walk {n}"), 0.0, str(n % 6 + 1)
    for _ in range(MOVES):
        at += rng.expovariate(1 / STAYS) * 1_000_000
        yield at, (walker, None)
        at += rng.expovariate(1 / AWAY) * 1_000_000
        here = rng.choice(sorted({*"".join(edge for edge in BUILDING if here in edge)} - {here}))
        yield at, (walker, here)


def _move(network: Network, walker: SimClient, to: str | None, published: list[int], hits: list[float]) -> None:
    received = walker.received
    assert isinstance(received, _Received)
    if to is None:
        walker.vanish(noticed=DETECTION, kept=60)
        return
    feature = network.brokers[to].features.get("roaming")
    copy = feature.keeping.copies.get(walker.name) if isinstance(feature, Roaming) else None
    ready = copy is not None and copy.inner is not None
    now = network.scheduler.now
    received.missing = {n for n, at in enumerate(published) if at < now - UNDER_WAY} - received.numbers
    received.arrived, received.first, before = now, 0.0, len(received.pauses)
    walker.attach(to)
    if ready and received.missing:
        network.run(0.045)
        hits += [received.first] if len(received.pauses) > before else []
