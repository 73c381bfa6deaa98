"""What aggregation costs: nothing while nobody asks, little per change, and few frames between brokers.

Ratios are of one run. `--full` draws the curves over bounds and routing algorithms.
"""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Callable

from bench import Report
from tidings.aggregation import Aggregation, AggregationOptions, Policy
from tidings.broker import Feature, Link, RoutingOptions
from tidings.model import Filter
from tidings.sim import Network, Weather, topologies
from tidings.wire import Extension, Frame, Subscribe, Unsubscribe

BROKERS, TOPICS, CLIENTS, CHANGES = 16, 60, 80, 400


def run(report: Report) -> None:
    """Measure."""
    few, many = _touch(10), _touch(10_000)
    report.limit("a change that touches one of 10,000 keys / one of 10", many / few, "x", at_most=2)
    for fanout in (1, 10):
        idle = _ratio(_publishing([Aggregation()], fanout), _publishing([], fanout))
        report.ratio(f"publishing, nothing asked / without the feature, fan-out {fanout}", idle, at_least=0.98)
    for fanout, least in ((1, 0.7), (10, 0.9)):
        asked = _ratio(_publishing([Aggregation()], fanout, questions=100), _publishing([], fanout))
        report.ratio(f"publishing, 100 questions, one concerned / none, fan-out {fanout}", asked, at_least=least)
    base = _frames("identity", 0, ride=0.0)
    riding = _frames("identity", 0, ride=0.005)
    rough = _frames("identity", 20, ride=0.005)
    report.figure("control frames per change, identity, bound 0, riding at once only", base, "")
    report.figure("the same, riding within 5 ms at about 60 events a second and link", riding, "")
    report.figure("the same, bound 20", rough, "")
    if report.full:
        for algorithm in ("simple", "identity", "covering"):
            for bound in (0, 5, 10, 20, 50):
                for policy in (Policy.UNIFORM, Policy.SIZE):
                    frames = _frames(algorithm, bound, ride=0.005, policy=policy)
                    report.figure(f"{algorithm}, bound {bound}, {policy.value}", frames, "frames/change")


def _best(work: Callable[[], None], rounds: int = 5) -> float:
    found = []
    for _ in range(rounds):
        begin = time.process_time()
        work()
        found.append(time.process_time() - begin)
    return min(found)


def _touch(keys: int) -> float:
    """Seconds for a subscription of a client that touches one of so many watched keys."""
    network = Network(features=lambda name: [Aggregation()])
    network.add_brokers("a")
    network.run()
    watcher, client = network.add_client("watcher", "a"), network.add_client("client", "a")
    for number in range(keys):
        watcher.watch("subscriber_count", f"type = 'quote' AND symbol = 'S{number}'", id=f"w{number}")
    network.run()
    wanted = [Filter.parse(f"type = 'quote' AND symbol = 'S{number % keys}' AND price > 3") for number in range(200)]

    def change() -> None:
        for number, filter in enumerate(wanted):
            client.subscribe(filter, id=f"s{number}")
        network.run()
        for number in range(len(wanted)):
            client.unsubscribe(f"s{number}")
        network.run()

    return _best(change)


def _publishing(features: list[Feature], fanout: int, questions: int = 0) -> Callable[[], None]:
    """Publish 1,000 notifications, which so many clients hear, and which concern one of so many questions."""
    network = Network(features=lambda name: features)
    network.add_brokers("a")
    network.run()
    publisher = network.add_client("publisher", "a")
    for number in range(fanout):
        network.add_client(f"c{number}", "a").subscribe("type = 'load'")
    watcher = network.add_client("watcher", "a")
    for number in range(questions):
        kind = "load" if not number else f"other{number}"
        watcher.watch(f"count(), sum(load) WINDOW 10s WHERE type = '{kind}'", id=f"w{number}")
    network.run(1)

    def work() -> None:
        for number in range(1_000):
            publisher.publish(type="load", load=number)
        network.run(0.5)

    return work


def _ratio(one: Callable[[], None], other: Callable[[], None]) -> float:
    """How fast the one is in terms of the other: taken in turns, the best of each."""
    best = [float("inf"), float("inf")]
    for _ in range(12):
        for at, work in enumerate((one, other)):
            gc.collect()
            begin = time.process_time()
            work()
            best[at] = min(best[at], time.process_time() - begin)
    return best[1] / best[0]


def _frames(algorithm: str, bound: float, *, ride: float, policy: Policy = Policy.UNIFORM) -> float:
    """Control frames between brokers per change of a subscription; changes and events are drawn independently."""
    rng = random.Random(7)
    options = AggregationOptions(ride_within=ride, share=policy)
    network = Network(
        1,
        routing=RoutingOptions(algorithm),
        weather=Weather(latency=(200, 200)),
        features=lambda name: [Aggregation(options)],
    )
    shape = topologies.random_tree(BROKERS, rng)
    network.add_brokers(shape.brokers, links=shape.links)
    network.run()
    clients = [network.add_client(f"c{n}", rng.choice(shape.brokers)) for n in range(CLIENTS)]
    held: dict[tuple[str, int], None] = {}
    for client in clients:
        for _ in range(5):
            topic = _topic(rng)
            client.subscribe(f"topic = {topic}", id=f"t{topic}")
            held[client.name, topic] = None
        for number in range(3):
            client.watch("subscriber_count", f"topic = {_topic(rng)}", id=f"w{number}", max_error=bound)
    network.run()
    control = 0

    def note(broker: str, link: Link, frame: Frame) -> None:
        nonlocal control
        control += link.is_broker and isinstance(frame.message, Extension | Subscribe | Unsubscribe)

    network.tap = note
    for _ in range(CHANGES):
        for _ in range(2):  # events at other times than changes
            rng.choice(clients).publish(topic=_topic(rng), n=1)
            network.run(rng.expovariate(200))
        client, topic = rng.choice(clients), _topic(rng)
        if (client.name, topic) in held:
            del held[client.name, topic]
            client.unsubscribe(f"t{topic}")
        else:
            held[client.name, topic] = None
            client.subscribe(f"topic = {topic}", id=f"t{topic}")
        network.run(rng.expovariate(200))
    network.run(1)
    return control / CHANGES


def _topic(rng: random.Random) -> int:
    return min(max(round(rng.gauss(TOPICS / 2, TOPICS / 6)), 0), TOPICS - 1)
