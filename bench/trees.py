"""What trees cost: until many brokers have come to rest, and when a link is cut.

In virtual time, so the machine matters for processor time only.
"""

from __future__ import annotations

import itertools
import math
import random
import statistics
import time
from collections.abc import Mapping

from bench import Report
from tidings.sim import Network, Weather, topologies

SIZES, FULL_SIZES = (50, 100), (50, 100, 200, 400, 1_000)
FRAMES_BEFORE = 14_026
"""Of a link that is cut and healed, in revision 9bdfedd~1."""
LINKS = {"0.5 to 5": (500, 5_000), "25": (25_000, 25_000), "20 to 30": (20_000, 30_000)}
"""Latencies, in microseconds."""
DELAYS = {"0.5 to 5": 0.6 * 402, "20 to 30": 1.05 * 992}
"""The longest that a notification may take over a cut; the numbers are those of revision 9bdfedd~1."""
SECONDS = {400: 10.0, 1_000: 90.0}
"""The most processor time in which so many brokers come to rest."""


def run(report: Report) -> None:
    """Measure trees."""
    times = {}
    for brokers in FULL_SIZES if report.full else SIZES:
        frames, times[brokers] = _rest(brokers)
        what = f"{brokers:,} brokers come to rest"
        report.limit(f"{what}, frames / (brokers x links)", frames / (brokers * (brokers - 1)), "x", at_most=1.5)
        if brokers in SECONDS:
            report.limit(f"{what}, processor time", times[brokers], "s", at_most=SECONDS[brokers])
        else:
            report.figure(f"{what}, processor time", times[brokers], "s")
    if report.full:
        exponent = math.log(times[400] / times[50] * 50 / 400) / math.log(400 / 50)
        report.limit("processor time of each broker grows with brokers to the power of", exponent, "", at_most=1.3)
    report.limit("a link is cut and healed among 40 brokers", _cut(), "frames", at_most=0.25 * FRAMES_BEFORE)
    for name, latency in LINKS.items():
        worst = statistics.median(_delay(latency, seed) for seed in range(1, 12))
        what = f"worst delay over a cut in a ring of ten, links of {name} ms"
        if name in DELAYS:
            report.limit(what, worst, "ms", at_most=DELAYS[name])
        else:
            report.figure(what, worst, "ms")


def _rest(brokers: int) -> tuple[int, float]:
    """The frames and the processor time until a random tree is at rest."""
    shape = topologies.random_tree(brokers, random.Random(brokers))
    network = Network(seed=1)
    start = time.process_time()
    network.add_brokers(shape.brokers, links=shape.links)
    network.run()
    return network.frames, time.process_time() - start


def _cut() -> int:
    """The frames when a link is cut and healed among 40 brokers with a client each."""
    shape = topologies.meshed(40, 10, random.Random(40))
    network = Network(seed=2)
    network.add_brokers(shape.brokers, links=shape.links)
    for n, broker in enumerate(shape.brokers):
        network.add_client(f"c{n}", broker).subscribe(f"n > {n}")
    network.run()
    before = network.frames
    network.cut(*shape.links[0])
    network.run()
    network.heal(*shape.links[0])
    network.run()
    return network.frames - before


def _delay(latency: tuple[int, int], seed: int) -> float:
    """The longest way of a notification, in milliseconds, of those that are published around a cut, every 2 ms."""
    shape = topologies.ring(10)
    network = Network(seed=seed, weather=Weather(latency=latency))
    network.add_brokers(shape.brokers, links=shape.links)
    network.run()
    publisher = network.add_client("publisher", shape.brokers[0])
    reader = network.add_client("reader", shape.brokers[5])
    reader.subscribe("n EXISTS")
    network.run()
    sent: list[int] = []
    worst = seen = 0
    way = _way(network.brokers[shape.brokers[0]].adjacency.tree.parents, shape.brokers[0], shape.brokers[5])
    for n in range(5_000):
        if n == 100:
            network.cut(*way[len(way) // 2])
        if n < 500:
            publisher.publish(n=n)
            sent.append(network.scheduler.now)
        network.run(0.002)
        for at in range(seen, len(reader.received)):
            worst = max(worst, network.scheduler.now - sent[at])
        seen = len(reader.received)
        if seen == 500:
            break
    return worst / 1_000


def _way(parents: Mapping[str, str | None], one: str, other: str) -> list[tuple[str, str]]:
    """The links between two brokers of a tree."""
    up = [_upward(parents, broker) for broker in (one, other)]
    while len(up[0]) > 1 and len(up[1]) > 1 and up[0][-2] == up[1][-2]:
        up = [names[:-1] for names in up]
    names = [*up[0], *reversed(up[1][:-1])]
    return list(itertools.pairwise(names))


def _upward(parents: Mapping[str, str | None], broker: str) -> list[str]:
    names = [broker]
    while (parent := parents[names[-1]]) is not None:
        names.append(parent)
    return names


if __name__ == "__main__":
    run(Report())
