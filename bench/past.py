"""Subscriptions into the past: how soon they begin in a network of 13 brokers, and that history costs nothing else."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

from bench import Report
from bench._runtime import Idle
from tidings.broker import Broker, Feature, Joinpoint, Link, LinkKind, RoutingOptions
from tidings.history import HistoryOptions, Strict
from tidings.history.caching import FullReplay, MergingCaching
from tidings.model import Filter, last
from tidings.sim import Network, Weather, topologies
from tidings.wire import Consistency, Frame, Past, Publish, Quality, Subscribe, encode_body

MILLISECOND = 1_000
PUBLICATIONS = 50_000
ROUNDS = 9
BEST_EFFORT = Past(last(10), Consistency.BEST_EFFORT)


def run(report: Report) -> None:
    """Measure in virtual time how long a subscriber waits, and in real time what the others pay."""
    farthest = _Built().depth
    plain = _until_settled(None)
    report.figure("plain subscription, until it has settled", plain / MILLISECOND, "ms")
    for consistency in Consistency:
        first = _until_first(Past(last(10), consistency))
        what = f"last 10 among 13 brokers at 1 ms links, {consistency.name.lower()}: the first one"
        # The client's own link is crossed twice as well.
        report.limit(what, first / MILLISECOND, "ms", at_most=2 * farthest + 2 + 0.001)
    for strategy in (MergingCaching, FullReplay):
        first = _until_first(BEST_EFFORT, strategy, holder=1)
        what = f"the same by {strategy.__name__}, and a broker with ten of them is one link away: the first one"
        report.limit(
            what, first / MILLISECOND, "ms", at_most=2 * 2 + 2 + 0.001
        )  # two round trips, and the client's link
    advised = Strict().advice().keys() & {Joinpoint.PUB_MATCH, Joinpoint.PUB_SEND, Joinpoint.DELIVER, Joinpoint.CROSS}
    report.limit("steps of a publication that history advises", len(advised), "steps", at_most=0)
    rounds = [(_publish([]), _publish([Strict(HistoryOptions())]), _publish([])) for _ in range(ROUNDS)]
    without, with_history, again = (min(times) for times in zip(*rounds, strict=True))
    report.figure("publishing with history against without", with_history / without, "x")
    report.figure("publishing without history against itself: the noise", again / without, "x")


class _Built:
    """The network of the measurement: a tree of 13 brokers, a subscriber at one leaf, publishers at the others."""

    def __init__(self, history: Callable[[], Feature] = Strict, holder: int = 0) -> None:
        """`holder`: at the leaf of this number somebody is subscribed before."""
        shape = topologies.balanced(3, 3)
        self.network = Network(
            1, features=lambda name: [history()], weather=Weather(latency=(MILLISECOND, MILLISECOND))
        )
        self.network.add_brokers(shape.brokers, shape.links)
        leaves = [name for name in shape.brokers if sum(name in link for link in shape.links) == 1]
        self.depth = max(self._distance(shape.links, leaves[0], leaf) for leaf in leaves)
        publishers = [self.network.add_client(f"p{at}", leaf) for at, leaf in enumerate(leaves[1:])]
        self.subscriber = self.network.add_client("s", leaves[0])
        if holder:
            self.network.add_client("h", leaves[holder]).subscribe("price >= 0")
        self.network.run()
        for price in range(100):
            publishers[price % len(publishers)].publish(price=price)
            self.network.run(0.01)
        self.network.run()

    @staticmethod
    def _distance(links: tuple[tuple[str, str], ...], one: str, other: str) -> int:
        reached, steps = {one}, 0
        while other not in reached:
            reached |= {end for link in links if reached & set(link) for end in link}
            steps += 1
        return steps


def _until_first(past: Past, history: Callable[[], Feature] = Strict, holder: int = 0) -> int:
    built = _Built(history, holder)
    begun = built.network.scheduler.now
    built.subscriber.subscribe("price >= 0", past=past)
    while not built.subscriber.received:
        built.network.run(0.000_1)
    if history is Strict:
        assert built.subscriber.received[0]["price"] == 90
    assert len(built.subscriber.received) == 10
    return built.network.scheduler.now - begun


def _until_settled(past: Past | None) -> int:
    built = _Built()
    begun = built.network.scheduler.now
    id = built.subscriber.subscribe("price >= 0", past=past)
    while id not in built.subscriber.settled_ids:
        built.network.run(0.000_1)
    return built.network.scheduler.now - begun


def _publish(features: list[Feature]) -> float:
    """Seconds for which a broker with one subscriber is busy with so many publications."""
    broker = Broker("b", Idle(), routing=RoutingOptions(), features=features)
    publisher, subscriber = Link("p", LinkKind.CLIENT), Link("s", LinkKind.CLIENT)
    broker.attach(publisher)
    broker.attach(subscriber)
    broker.receive(subscriber, Frame(Subscribe("s1", Filter.parse("price > 100"))))
    body = encode_body({"type": "quote", "symbol": "SAP", "price": 182.4})
    frames = [Frame(Publish(seq, body, Quality.ACCEPTED)) for seq in range(1, PUBLICATIONS + 1)]
    gc.collect()
    begun = time.perf_counter()
    for frame in frames:
        broker.receive(publisher, frame)
    return time.perf_counter() - begun
