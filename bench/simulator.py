"""How fast the simulator is: notifications handed to applications per second of processor time.

A tree of 13 brokers (the experiment of the history thesis), 26 clients, each with one subscription that a third of the
publications pass. No peer: the target is what makes thousands of random runs affordable.
"""

from __future__ import annotations

import asyncio
import contextlib
import statistics
import time

import tidings
from tidings.broker import Broker, Link, RoutingOptions
from tidings.sim import ClosedLoop, Network, Scenario, Service, Weather, World, check, topologies
from tidings.wire import Frame, Quality

from . import Report

ROUNDS = 20
TARGET = 20_000
REAL_TARGET = 5_000
RECORDS_TARGET = 18_000


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
    report.limit("time to judge a record of a trace", 1_000_000 / _records(), "µs", at_most=1_000_000 / RECORDS_TARGET)
    delivered, service = asyncio.run(_real_clients()), calibrated()
    what = "real clients, time for a delivered notification"
    report.limit(what, 1_000_000 / delivered, "µs", at_most=1_000_000 / REAL_TARGET)
    for kind, time_taken in service.times.items():
        report.figure(f"service of {kind}", time_taken, "µs")
    report.figure(f"carried with {service}", _carried(service), "/s")


def _records() -> float:
    """Records of a trace that the checker judges in a second: many publications that nobody answers."""
    network = Network(1)
    network.add_brokers("a")
    network.add_client("reader", "a").subscribe("n >= 0")
    writer = network.add_client("writer", "a")
    network.run()
    for n in range(6_000):
        writer.publish(n=n, quality=Quality.FIRE)
    network.run()
    before = time.process_time()
    assert check(network.trace) == []
    return len(network.trace.records) / (time.process_time() - before)


async def _real_clients() -> float:
    """Notifications that real clients get in a world, for each second of processor time."""
    got: list[object] = []
    async with World(1, brokers=["a", "b", "c"]) as world, contextlib.AsyncExitStack() as stack:
        for number in range(10):
            client = await stack.enter_async_context(tidings.connect(world.url("abc"[number % 3])))
            await client.subscribe("n >= 0", callback=got.append)
        before = time.process_time()
        for n in range(1_000):
            await client.publish(n=n, kind="quote", price=182.4)
        await client.flush()
        await asyncio.sleep(10)
        elapsed = time.process_time() - before
        assert len(got) == 10_000
        await world.check()
    return len(got) / elapsed


def calibrated() -> Service:
    """What this machine takes for each kind of message, in the network of this benchmark: for `Weather.service`."""
    network = _network(RoutingOptions(), Weather())
    spent: dict[str, list[int]] = {}
    for broker in network.brokers.values():
        _timed(broker, spent)
    for number, client in enumerate(network.clients.values()):
        client.subscribe(f"n BETWEEN {number} AND {number + 40}", id="again")
    network.run()
    for n in range(50):
        for client in network.clients.values():
            client.publish(n=n % 60, kind="quote", price=182.4)
        network.run(0.01)
    network.run()
    return Service({kind: max(1, round(statistics.median(taken) / 1_000)) for kind, taken in sorted(spent.items())})


def _timed(broker: Broker, spent: dict[str, list[int]]) -> None:
    receive = broker.receive

    def timed(link: Link, frame: Frame) -> None:
        before = time.perf_counter_ns()
        receive(link, frame)
        spent.setdefault(type(frame.message).__name__, []).append(time.perf_counter_ns() - before)

    broker.receive = timed  # type: ignore[method-assign]


def _carried(service: Service) -> float:
    """Publications that one broker carries in a second of virtual time, from four publishers in a closed loop."""
    network = Network(1, weather=Weather(service=service))
    network.add_brokers("a")
    network.add_client("reader", "a").subscribe("n >= 0")
    network.run()
    loops = [
        ClosedLoop(network.scheduler, network.add_client(f"w{n}", "a"), lambda n: {"n": n}, count=2_000, window=64)
        for n in range(4)
    ]
    network.run()
    assert all(loop.done for loop in loops)
    return 8_000 * 1_000_000 / (max(loop.ended for loop in loops) - loops[0].begun)


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
