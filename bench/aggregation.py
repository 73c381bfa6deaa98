"""What aggregation costs: nothing while nobody asks, little per change, and few frames between brokers.

Ratios are of one run. `--full` draws the curves over bounds and routing algorithms.
"""

from __future__ import annotations

import asyncio
import gc
import math
import random
import time
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import tidings
from bench import Report
from tidings.aggregation import Aggregation, AggregationOptions, Policy, Riding
from tidings.aggregation._key import key_of, subject_of
from tidings.aggregation.messages import Ask, decode, encode
from tidings.broker import Feature, RoutingOptions
from tidings.experiments import Client, System, World
from tidings.model import Filter
from tidings.net import Options, serve
from tidings.sim import Network, topologies
from tidings.wire import Quality

BROKERS, TOPICS, CLIENTS, CHANGES = 16, 60, 80, 400
CHANGES_PER_SECOND = 100
REMEMBERED_TEXTS = 5_000
"""At least as many filters as are remembered after they were parsed."""
HEARD = 12
"""The topics where publications and changes compete."""
RIDINGS = (Riding.EVERYTHING, Riding.REGISTRATIONS, Riding.NOTHING)
LINKS_PER_EVENT = 13
"""About how many of the links of the tree an event crosses."""


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
    levels = {riding: _traffic("identity", 0, rate=300, riding=riding) for riding in Riding}
    plain = _traffic("identity", None, rate=300, system=System.PLAIN)
    report.figure("control frames per change, identity, plain", plain.frames, "")
    for riding, one in levels.items():
        report.figure(f"the same, bound 0, riding on {riding.value}, 300 events a second and link", one.frames, "")
    best, alone = levels[Riding.EVERYTHING], levels[Riding.NOTHING]
    report.limit("riding on everything / on nothing", best.frames / alone.frames, "x", at_most=0.35)
    rough = _traffic("identity", 20, rate=300)
    report.limit("the same, bound 20", rough.frames / alone.frames, "x", at_most=0.2)
    for rate in (67, 300, 700):
        one = best if rate == 300 else _traffic("identity", 0, rate=rate)
        name = f"share that rides at {rate} events a second and link / what events alone would carry"
        report.ratio(f"{name} ({one.ridden:.2f} / {one.expected:.2f})", one.ridden / one.expected, at_least=0.95)
    for bound in (0, 5, 20, 50):
        inside, beside = (_traffic("identity", bound, rate=300, system=one) for one in (System.INSIDE, System.BESIDE))
        name = f"control frames per change inside the brokers / beside them, bound {bound}"
        report.limit(
            f"{name} ({inside.frames:.2f} / {beside.frames:.2f})", inside.frames / beside.frames, "x", at_most=1
        )
    for changes, least in ((1.0, 0.9), (0.1, 0.95)):
        counted = {riding: _ratio(_changing(changes, riding), _changing(changes, None)) for riding in RIDINGS}
        name = f"publishing with {changes:g} changes of a subscription each, counted / not counted"
        report.ratio(name, counted[Riding.EVERYTHING], at_least=least)
        for riding in RIDINGS[1:]:
            report.figure(f"the same, riding on {riding.value}", counted[riding], "x")
    _memory(report)
    _quenching(report)
    if report.full:
        for algorithm in ("simple", "identity", "covering"):
            plain = _traffic(algorithm, None, rate=67, system=System.PLAIN)
            report.figure(f"{algorithm}, plain", plain.frames, "frames/change")
            for bound in (0, 5, 10, 20, 50):
                for policy in (Policy.UNIFORM, Policy.SIZE):
                    one = _traffic(algorithm, bound, rate=67, policy=policy)
                    report.figure(f"{algorithm}, bound {bound}, {policy.value}", one.frames, "frames/change")
                    one = _traffic(algorithm, bound, rate=67, policy=policy, system=System.BESIDE)
                    report.figure(f"{algorithm}, bound {bound}, {policy.value}, beside", one.frames, "frames/change")


def _quenching(report: Report) -> None:
    """What a publisher and its broker use for what nobody wants, if it is left out, over TCP and in one process."""
    used = {(quality, quench): math.inf for quality in (Quality.FIRE, Quality.ACCEPTED) for quench in (False, True)}

    async def measure() -> None:
        async with serve(Options(port=0)) as server:
            url = f"tidings://127.0.0.1:{server.port}"
            async with tidings.connect(url) as publisher, tidings.connect(url) as subscriber:
                await subscriber.subscribe("type = 'load' AND load >= 90", callback=lambda each: None)
                for topic in range(50):
                    await subscriber.subscribe(f"type = 'alarm' AND rack = {topic}", callback=lambda each: None)
                while not (await publisher.publish(n=1, quality="fire", quench=True)).quenched:
                    await asyncio.sleep(0.01)
                for _ in range(5):
                    for quality, quench in list(used):
                        gc.collect()
                        begin = time.process_time()
                        for number in range(10_000):
                            await publisher.publish(
                                type="load", load=number % 100, rack=number, quality=quality, quench=quench
                            )
                        await publisher.flush()
                        await publisher.aggregates.list()  # everything before it has been handled
                        used[quality, quench] = min(used[quality, quench], time.process_time() - begin)

    asyncio.run(measure())
    for quality in (Quality.FIRE, Quality.ACCEPTED):
        ratio = used[quality, True] / used[quality, False]
        report.figure(f"publishing with quench, 90 % unheard, {quality.name.lower()} / without", ratio, "x")


def _memory(report: Report) -> None:
    """What a watched key takes at a broker, for one link direction, beside its filter."""
    keys = 10_000
    network = Network(features=lambda name: [Aggregation()])
    network.add_brokers("ab", links=["ab"])
    network.run()
    watcher = network.add_client("watcher", "a")
    watcher.watch("subscriber_count", "type = 'first'", id="first")
    network.run()
    texts = [str(Filter.parse(f"type = 'quote' AND symbol = 'S{number}'").canonical()) for number in range(keys)]
    aggregation = network.brokers["b"].features["aggregation"]
    assert isinstance(aggregation, Aggregation)
    (link,) = network.brokers["b"].adjacency.open_links
    asks = [encode(Ask(10_000 + at, "subscriber_count", "1", text, b"", "", 0)) for at, text in enumerate(texts)]

    def take() -> None:
        for ask in asks:
            aggregation.on_message(link, ask)
        network.run(1)

    subjects: list[object] = []

    def subject() -> None:
        for ask in map(decode, asks):
            assert isinstance(ask, Ask)
            kept = subject_of(ask.aggregate, ask.version, ask.key, ask.probe, ask.scope, away=ask.away)
            subjects.append((kept, key_of(kept)))

    of_subjects = _allocated(subject) - 64 * keys  # the pair and its place in the list
    taken = _allocated(take)
    report.figure("what a watched key is about: its subject and its filter", of_subjects / keys, "bytes")
    report.limit("a watched key, beside what it is about", (taken - of_subjects) / keys, "bytes", at_most=400)


def _allocated(work: Callable[[], None]) -> int:
    """How many bytes are held after some work that were not before."""
    for number in range(REMEMBERED_TEXTS):  # what is remembered of others is not held for this work
        Filter.parse(f"other = {number}")
    gc.collect()
    tracemalloc.start()
    work()
    gc.collect()
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return held


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


def _changing(changes: float, riding: Riding | None) -> Callable[[], None]:
    """Publish 300 notifications in a network of four brokers, with so many changes of a subscription each. About 16
    clients hear each of them, as in the document's workload. Every topic is counted; without `riding` nothing is."""
    features = [] if riding is None else [AggregationOptions(ride_on=riding)]
    network = Network(3, features=lambda name: [Aggregation(one) for one in features])
    network.add_brokers("abcd", links=["ab", "bc", "bd"])
    network.run()
    rng = random.Random(5)
    clients = [network.add_client(f"c{number}", "abcd"[number % 4]) for number in range(40)]
    for client in clients:
        for topic in rng.sample(range(HEARD), 5):
            client.subscribe(f"topic = {topic}", id=f"t{topic}")
    if riding is not None:
        for topic in range(HEARD):
            clients[topic % 40].watch("subscriber_count", f"topic = {topic}", id=f"w{topic}")
    network.run()
    count = 0

    def work() -> None:
        nonlocal count
        due = 0.0
        for number in range(300):
            clients[number % 40].publish(topic=number % HEARD, n=number)
            due += changes
            if due >= 1:
                due -= 1
                client = clients[count % 40]
                if count // 40 % 2:
                    client.unsubscribe("changing")
                else:
                    client.subscribe(f"topic = {count % HEARD}", id="changing")
                count += 1
            network.run(0.001)
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


class Traffic(NamedTuple):
    """What brokers tell each other."""

    frames: float
    """Control frames per change of a subscription."""
    ridden: float
    """The share of updates that came with another message."""
    expected: float
    """The share that would find an event within the time that they wait, if events came at random."""


def _traffic(
    algorithm: str,
    bound: float | None,
    *,
    rate: float,
    riding: Riding = Riding.EVERYTHING,
    policy: Policy = Policy.UNIFORM,
    system: System = System.INSIDE,
) -> Traffic:
    """Subscriptions change and events are published independently, so many events a second on each link; without a
    bound, nobody asks."""
    rng = random.Random(7)
    options = AggregationOptions(share=policy, ride_on=riding)
    shape = topologies.random_tree(BROKERS, rng)
    world = World(system, shape.brokers, shape.links, routing=RoutingOptions(algorithm), options=options)
    clients = [world.add_client(f"c{n}", rng.choice(shape.brokers)) for n in range(CLIENTS)]
    held: dict[tuple[str, int], None] = {}
    for client in clients:
        for _ in range(5):
            topic = _topic(rng)
            client.subscribe(f"topic = {topic}", f"t{topic}")
            held[client.name, topic] = None
        for number in range(3 if bound is not None else 0):
            client.watch(f"topic = {_topic(rng)}", f"w{number}", bound or 0)
    world.run()
    before = {pair: (one.ridden, one.alone) for pair, one in _rows(world)}
    world.sent.clear()
    world.events.clear()
    changes, seconds = CHANGES // 2, CHANGES / 2 / CHANGES_PER_SECOND
    for _ in range(changes):
        client, topic = rng.choice(clients), _topic(rng)

        def change(client: Client = client, topic: int = topic) -> None:
            if (client.name, topic) in held:
                del held[client.name, topic]
                client.unsubscribe(f"t{topic}")
            else:
                held[client.name, topic] = None
                client.subscribe(f"topic = {topic}", f"t{topic}")

        world.after(rng.uniform(0, seconds), change)
    publications = round(rate * seconds * 2 * len(shape.links) / LINKS_PER_EVENT)
    for _ in range(publications):
        client, topic = rng.choice(clients), _topic(rng)

        def publish(client: Client = client, topic: int = topic) -> None:
            client.publish(topic=topic, n=1)

        world.after(rng.uniform(0, seconds), publish)
    world.run(seconds + 1)
    ridden = alone = 0
    expected = 0.0
    for pair, one in _rows(world):
        rode, went = one.ridden - before.get(pair, (0, 0))[0], one.alone - before.get(pair, (0, 0))[1]
        ridden, alone = ridden + rode, alone + went
        expected += (rode + went) * (1 - math.exp(-world.events[pair] / seconds * options.ride_within))
    told = max(ridden + alone, 1)
    return Traffic(world.sent["control"] / changes, ridden / told, expected / told)


def _rows(world: World) -> Iterator[tuple[tuple[str, str], Any]]:
    """What came to brokers, by receiver and sender."""
    for name, broker in world.brokers.brokers.items():
        aggregation = broker.features.get("aggregation")
        if not isinstance(aggregation, Aggregation):
            continue
        for _, neighbour, one in aggregation.counted.rows():
            yield (name, neighbour), one


def _topic(rng: random.Random) -> int:
    return min(max(round(rng.gauss(TOPICS / 2, TOPICS / 6)), 0), TOPICS - 1)
