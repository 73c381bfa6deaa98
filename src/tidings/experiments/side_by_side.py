"""Aggregation beside the brokers, as a system of its own: what aggregation inside them is compared with.

Each broker has a second node beside it. The nodes have links, a tree and messages of their own; clients tell both what
they subscribe to. The brokers route and count nothing. The nodes count and route nothing: what clients subscribe to
stays at their node, and every update is a message of its own, because nothing else leaves on these links (P0).

`World` runs one workload under one of three systems, chosen by a switch, in the simulator:

    PLAIN    brokers that count nothing
    INSIDE   brokers that count
    BESIDE   brokers that count nothing, and nodes beside them
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Callable, Sequence

from tidings.aggregation import Aggregation, AggregationOptions, Riding
from tidings.broker import Link, RoutingOptions
from tidings.sim import Network, SimClient, Weather
from tidings.sim._watch import SimWatch
from tidings.wire import Extension, Frame, Notify, Subscribe, Unsubscribe


class System(enum.Enum):
    """What counts."""

    PLAIN = "plain"
    INSIDE = "inside"
    BESIDE = "beside"


class Client:
    """A client of the workload: at a broker, and at the node beside it where there is one."""

    def __init__(self, at_broker: SimClient, counting: SimClient | None) -> None:
        self.name = at_broker.name
        self._at_broker = at_broker
        self._counting = counting
        """Who asks, and is counted: the same client, or its twin at the node."""

    def subscribe(self, filter: str, id: str) -> None:
        """Subscribe."""
        self._at_broker.subscribe(filter, id=id)
        if self._counting is not None and self._counting is not self._at_broker:
            self._counting.subscribe(filter, id=id)

    def unsubscribe(self, id: str) -> None:
        """Subscribe no longer."""
        self._at_broker.unsubscribe(id)
        if self._counting is not None and self._counting is not self._at_broker:
            self._counting.unsubscribe(id)

    def publish(self, **attributes: object) -> None:
        """Publish: this concerns brokers only."""
        self._at_broker.publish(attributes)

    def watch(self, filter: str, id: str, max_error: float = 0) -> SimWatch | None:
        """Watch how many subscribe to something; None: nothing counts."""
        if self._counting is None:
            return None
        return self._counting.watch("subscriber_count", filter, id=id, max_error=max_error)


class World:
    """Brokers, perhaps with nodes beside them, and the clients of one workload."""

    def __init__(
        self,
        system: System,
        brokers: Sequence[str],
        links: Sequence[str | tuple[str, str]],
        *,
        seed: int = 1,
        routing: RoutingOptions | None = None,
        options: AggregationOptions | None = None,
        latency: int = 200,
    ) -> None:
        """`options` say how brokers count; nodes divide bounds alike, and let nothing ride. `latency` of each link, in
        microseconds."""
        counting = options if options is not None else AggregationOptions()
        weather = Weather(latency=(latency, latency))
        inside = system is System.INSIDE
        self.system = system
        self.brokers = Network(
            seed,
            routing=routing if routing is not None else RoutingOptions(),
            weather=weather,
            features=lambda name: [Aggregation(counting)] if inside else [],
        )
        self._networks = [self.brokers]
        self.nodes: Network | None = None
        if system is System.BESIDE:
            alone = AggregationOptions(share=counting.share, ride_on=Riding.NOTHING)
            self.nodes = Network(
                seed,
                routing=RoutingOptions("flooding"),  # what clients subscribe to stays at their node
                weather=weather,
                features=lambda name: [Aggregation(alone)],
            )
            self._networks.append(self.nodes)
        self.sent: Counter[str] = Counter()
        """What went over links since it was cleared: `control` frames, `events`."""
        self.events: Counter[tuple[str, str]] = Counter()
        """Publications by the link that they went over, as sender and receiver."""
        for network in self._networks:
            network.add_brokers(brokers, links=links)
            network.tap = self._note
            network.run()

    def _note(self, broker: str, link: Link, frame: Frame) -> None:
        if link.is_broker:
            self.sent["control"] += isinstance(frame.message, Extension | Subscribe | Unsubscribe)
            if isinstance(frame.message, Notify):
                self.sent["events"] += 1
                self.events[link.name, broker] += 1

    def add_client(self, name: str, broker: str) -> Client:
        """A client at a broker, and at its node."""
        at_broker = self.brokers.add_client(name, broker)
        if self.nodes is not None:
            return Client(at_broker, self.nodes.add_client(name, broker))
        return Client(at_broker, at_broker if self.system is System.INSIDE else None)

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        """Let something happen in some time, by the clock of the brokers. Nodes hear of it at once: the two clocks go
        on together."""
        self.brokers.scheduler.after(int(seconds * 1_000_000), action)

    def run(self, seconds: float | None = None, step: float = 0.001) -> None:
        """Go on for some time; or until nothing is under way."""
        if self.nodes is None or seconds is None:
            for network in self._networks:
                network.run(seconds)
            return
        for _ in range(round(seconds / step)):
            for network in self._networks:
                network.run(step)
