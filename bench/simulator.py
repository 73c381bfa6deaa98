"""How fast the simulator is: notifications handed to applications per second of processor time.

A tree of 13 brokers (the experiment of the history thesis), 26 clients, each with one subscription that a third of the
publications pass. No peer: the target is what makes thousands of random runs affordable.
"""

from __future__ import annotations

import statistics
import time

from tidings.broker import RoutingOptions
from tidings.sim import Network, Scenario, Weather, check, topologies

from . import Report

ROUNDS = 20
TARGET = 20_000


def run(report: Report) -> None:
    """Measure the routing algorithms, the wire, and random runs with everything that judges them."""
    for algorithm in ("flooding", "simple", "covering", "merging"):
        rate = _median_rate(RoutingOptions(algorithm), Weather())
        report.figure(f"{algorithm}, delivered", rate, "/s")
        if algorithm == "covering":
            what = "covering, time for a delivered notification"
            report.limit(what, 1_000_000 / rate, "µs", at_most=1_000_000 / TARGET)
    report.figure("covering, every frame encoded", _median_rate(RoutingOptions(), Weather(through_wire=True)), "/s")
    report.figure("random runs, judged", _runs(), "/s")


def _median_rate(routing: RoutingOptions, weather: Weather) -> float:
    return statistics.median(_rate(routing, weather) for _ in range(5))


def _network(routing: RoutingOptions, weather: Weather) -> Network:
    shape = topologies.HISTORY_EXPERIMENT
    network = Network(1, routing=routing, weather=weather)
    network.add_brokers(shape.brokers, shape.links)
    for number, broker in enumerate((*shape.brokers, *shape.brokers)):
        network.add_client(f"c{number}", broker).subscribe(f"n BETWEEN {number} AND {number + 33}")
    network.run()
    return network


def _rate(routing: RoutingOptions, weather: Weather) -> float:
    network = _network(routing, weather)
    before = time.process_time()
    for round_number in range(ROUNDS):
        for number, client in enumerate(network.clients.values()):
            client.publish(n=(7 * round_number + 13 * number) % 60, kind="quote", price=182.4)
        network.run(0.01)
    network.run()
    elapsed = time.process_time() - before
    assert check(network.trace) == []
    return sum(len(client.received) for client in network.clients.values()) / elapsed


def _runs() -> float:
    before = time.process_time()
    for seed in range(20):
        result = Scenario.random(seed).run()
        assert not result.violations, result.report()
    return 20 / (time.process_time() - before)
