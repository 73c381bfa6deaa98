"""Walks through the documents' building in virtual time, and what those who walk wait for.

A *pause* is the time from the arrival of a client until it has everything that it wants and that was published more
than `UNDER_WAY` before, less what the radio needs to carry that, whoever sends it. Simulated times, frames and bytes
repeat exactly.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, SupportsIndex

from tidings.broker import Feature, Link
from tidings.mobility import Edge, Hosts, MobilityOptions, Neighbourhood, Outcome, Roaming, Scheme
from tidings.mobility.models import control_messages
from tidings.mobility.models.control_messages import HandOff
from tidings.mobility.workload import BUILDING, BUILDING_EDGES, SELECTORS, WIDTH, Pattern, State, walk
from tidings.model import Notification
from tidings.sim import Network, SimClient, Weather
from tidings.wire import Deliver, Frame, Routed, encode

DETECTION = 1.5
"""Seconds until a broker notices that a client is gone."""
UNDER_WAY = 300_000
"""Microseconds: longer than the longest way."""
INTERVAL = 0.05
"""Seconds between two publications; the publishers, one at each broker, take turns."""
BANDWIDTH = 1_375_000
"""Bytes a second: 11 Mbit/s."""
RADIO = Weather(latency=(5_000, 5_000), bandwidth=BANDWIDTH)
ROUND_TRIP = 10.0
"""Milliseconds between a client and its broker."""


class Published(NamedTuple):
    """A publication."""

    at: int
    selector: int


class Step(NamedTuple):
    """Something that a client does."""

    at: float
    """Seconds from the beginning."""
    client: int
    to: str | None
    """The broker where it arrives; None: it is gone."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Who walks where, when, and wants what."""

    starts: tuple[str, ...]
    """Where each client begins."""
    wants: tuple[range, ...]
    """The selectors that each wants."""
    steps: tuple[Step, ...]
    body: bytes = b""


@dataclass(slots=True)
class Walk:
    """What came of one run."""

    pauses: list[float]
    """Milliseconds, of all hand-offs in which something was missed."""
    hits: list[float]
    """Of those, where a copy listened."""
    outcomes: dict[Outcome, int]
    handoffs: int
    frames: int
    """Between brokers, as many as went over each of their links."""
    bytes: int
    messages: int
    """From broker to broker about clients that roam, however many links are between them."""
    expected: float
    """As many as the model of the documents says (3.1.5)."""


def documents_plan(clients: int, seconds: float, body: int = 1_024) -> Plan:
    """The walk of the documents: along edges, connected for 60 s in the mean, disconnected for 12, under way for 3."""
    rng = random.Random(f"workload {clients}")
    brokers = sorted(BUILDING)
    starts = tuple(brokers[n % len(brokers)] for n in range(clients))
    lows = [rng.randrange(SELECTORS - WIDTH + 1) for _ in range(clients)]
    steps = sorted(step for n, start in enumerate(starts) for step in _walk_of(n, start, seconds))
    return Plan(starts, tuple(range(low, low + WIDTH) for low in lows), tuple(steps), bytes(body))


def _walk_of(client: int, start: str, seconds: float) -> Iterator[Step]:
    here = True
    for stay in walk(random.Random(f"walk {client}"), start, BUILDING, Pattern.NEIGHBOURING):
        if stay.begin >= seconds:
            return
        if stay.state is State.CONNECTED:
            if not here:
                yield Step(stay.begin, client, stay.broker)
            here = True
        elif here:
            yield Step(stay.begin, client, None)
            here = False


class _Received(list[Notification]):
    """What has reached a client, and what it waits for."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self._network = network
        self.numbers: set[int] = set()
        self.missing: set[int] = set()
        self.arrived = 0
        self.counts = False
        """Whether what it waits for is a pause of a hand-off."""
        self.left_at, self.left = 0, ""
        self.pauses: list[float] = []
        self.hits: list[float] = []
        self.ready = False
        """Whether a copy listened at the broker where it arrived."""
        self.left_for = 0.0
        """Seconds for which it was away."""
        self.came = 0
        """How many came since then."""
        self.carrying = 0.0
        """Milliseconds for which the radio carries each."""

    def append(self, one: Notification, /) -> None:
        super().append(one)
        number = one["n"]
        assert isinstance(number, int)
        self.numbers.add(number)
        self.came += 1
        if number in self.missing:
            self.missing.discard(number)
            if not self.missing and self.counts:
                waited = (self._network.scheduler.now - self.arrived) / 1_000
                waited -= self.came * self.carrying
                self.pauses.append(waited)
                self.hits += [waited] if self.ready else []

    def insert(self, at: SupportsIndex, one: Notification, /) -> None:
        raise NotImplementedError


class Walking:
    """One run."""

    def __init__(self, plan: Plan, options: MobilityOptions, backbone: float) -> None:
        """`backbone` is the latency of a link between brokers, in milliseconds."""
        self._plan = plan
        self._network = network = _building(options, int(backbone * 1_000))
        self._published: list[Published] = []
        self._carrying = 0.0
        self._walkers = [network.add_client(f"w{n}", start) for n, start in enumerate(plan.starts)]
        for walker, wanted in zip(self._walkers, plan.wants, strict=True):
            walker.received = _Received(network)
            walker.subscribe(f"s BETWEEN {wanted.start} AND {wanted.stop - 1}")
        self._publishers = [network.add_client(f"p{n}", broker) for n, broker in enumerate(sorted(BUILDING))]
        self._handoffs = self._frames = self._bytes = self._messages = 0
        self._expected = 0.0
        network.tap = self._note

    def _note(self, broker: str, link: Link, frame: Frame) -> None:
        """A broker sends something."""
        if link.is_broker:
            self._frames += 1
            self._bytes += len(encode(frame))
            message = frame.message
            about_clients = isinstance(message, Routed) and message.feature in ("hosts", "roaming")
            self._messages += about_clients and broker == message.source  # type: ignore[union-attr]
        elif not self._carrying and isinstance(frame.message, Deliver):
            self._carrying = len(encode(frame)) * 1_000 / BANDWIDTH
            for walker in self._walkers:
                _of(walker).carrying = self._carrying

    def run(self) -> Walk:
        """Let everybody walk."""
        network, plan = self._network, self._plan
        network.run(3)
        self._frames = self._bytes = self._messages = 0
        begin, selectors = network.scheduler.now, random.Random("selectors")
        length = plan.steps[-1].at + 3
        events: list[tuple[float, Any]] = [(step.at, step) for step in plan.steps]
        events += [(n * INTERVAL, None) for n in range(int(length / INTERVAL))]
        for at, step in sorted(events, key=lambda one: one[0]):
            network.run(max(begin + at * 1_000_000 - network.scheduler.now, 0) / 1_000_000)
            if step is None:
                self._publish(selectors.randrange(SELECTORS))
            else:
                self._take(step)
        network.run(10)
        self._check()
        return Walk(
            [pause for walker in self._walkers for pause in _of(walker).pauses],
            [pause for walker in self._walkers for pause in _of(walker).hits],
            self._outcomes(),
            self._handoffs,
            self._frames,
            self._bytes,
            self._messages,
            self._expected,
        )

    def _publish(self, selector: int) -> None:
        number = len(self._published)
        self._published.append(Published(self._network.scheduler.now, selector))
        publisher = self._publishers[number % len(self._publishers)]
        publisher.publish(n=number, s=selector, body=self._plan.body)

    def _take(self, step: Step) -> None:
        walker, now = self._walkers[step.client], self._network.scheduler.now
        received, wanted = _of(walker), self._plan.wants[step.client]
        if step.to is None:
            assert walker.broker is not None
            received.left_at, received.left, received.left_for = len(self._published), walker.broker, step.at
            walker.vanish(noticed=DETECTION, kept=60)
            return
        since = max(received.left_at - int(1 / INTERVAL), 0)
        late = enumerate(self._published[since:], since)
        old = {n for n, one in late if one.at < now - UNDER_WAY and one.selector in wanted}
        received.missing, received.arrived, received.came = old - received.numbers, now, 0
        received.counts = step.to != received.left
        received.ready = self._is_ready(walker, step.to)
        self._handoffs += received.counts
        self._expect(received.left, step.to, step.at - received.left_for)
        walker.attach(step.to)

    def _is_ready(self, walker: SimClient, broker: str) -> bool:
        """Whether a copy listens there."""
        feature = self._network.brokers[broker].features.get("roaming")
        copy = feature.keeping.copies.get(walker.name) if isinstance(feature, Roaming) else None
        return copy is not None and copy.inner is not None

    def _expect(self, old: str, new: str, away: float) -> None:
        """Add what the model says of a departure and an arrival."""
        neighbours = len(BUILDING[old])
        if away > DETECTION:
            self._expected += control_messages.disconnect(neighbours) - neighbours  # activated copies do not answer
        if old != new:
            self._expected += control_messages.hand_off_hit(HandOff(old, new, BUILDING[old], BUILDING[new]))
        elif away > DETECTION:
            self._expected += control_messages.reconnect(neighbours)

    def _check(self) -> None:
        """Raise `AssertionError` unless everybody got everything once."""
        for number, (walker, wanted) in enumerate(zip(self._walkers, self._plan.wants, strict=True)):
            if not walker.connected:
                continue  # it is still under way
            due = sum(one.selector in wanted for one in self._published)
            received = _of(walker)
            assert len(received) == len(received.numbers) == due, f"client {number} lost something, or got it twice"

    def _outcomes(self) -> dict[Outcome, int]:
        found = dict.fromkeys(Outcome, 0)
        for broker in self._network.brokers.values():
            if isinstance(feature := broker.features.get("roaming"), Roaming):
                for outcome, count in feature.handing.outcomes.items():
                    found[outcome] += count
        return found


def _of(walker: SimClient) -> _Received:
    assert isinstance(walker.received, _Received)
    return walker.received


def _building(options: MobilityOptions, latency: int) -> Network:
    edges = [Edge(min(edge), max(edge), 1.0, 0, 0, pinned=True) for edge in BUILDING_EDGES]

    def features(name: str) -> list[Feature]:
        hosts = Hosts()
        if options.scheme is Scheme.ORIGINS:
            return [hosts]
        neighbourhood = Neighbourhood(hosts, options.graph, edges)
        return [hosts, neighbourhood, Roaming(options, hosts, neighbourhood)]

    network = Network(1, features=features, weather=Weather(latency=(latency, latency)), client_weather=RADIO)
    network.add_brokers(sorted(BUILDING), links=BUILDING_EDGES)
    network.run()
    return network
