"""What a client that moves waits for, in virtual time; and what it costs when many come back at once.

The figures of before are those of revision 97313ab, which asked one origin after the other when everything had settled;
`git worktree add DIR REV` and this file beside it measure any other.
"""

from __future__ import annotations

import itertools
import random
import time
from typing import NamedTuple

from bench import Report
from tidings.sim import Network, SimClient, Weather, topologies
from tidings.wire import Quality

BACKBONE, RADIO = Weather(latency=(25_000, 25_000)), Weather(latency=(5_000, 5_000))
FIRST_BEFORE, ALL_BEFORE = 260.0, 510.0
"""Milliseconds."""


def run(report: Report) -> None:
    """Measure moves."""
    first, last = _pause()
    report.limit("the first of what was missed, 6 brokers, links of 25 ms", first, "ms", at_most=0.4 * FIRST_BEFORE)
    report.limit("the last of it", last, "ms", at_most=0.6 * ALL_BEFORE)
    one = _return(1)
    links = 49
    report.limit("frames for one resume in 50 brokers / links", one.frames / links, "x", at_most=4.2)
    many = _return(200)
    report.limit("questions and answers of 200 that return at once / of one", many.asked / one.asked, "x", at_most=10)
    report.limit("processor time of 200 / 200 times that of one", many.time / one.time / 200, "x", at_most=1.5)


def _pause() -> tuple[float, float]:
    """After how many milliseconds the first and the last of what was missed has come."""
    network = Network(weather=BACKBONE, client_weather=RADIO)
    names = [f"b{n}" for n in range(1, 7)]
    network.add_brokers(names, links=list(itertools.pairwise(names)))
    network.run()
    publishers = [network.add_client(f"p{n}", broker) for n, broker in enumerate(names)]
    reader = network.add_client("reader", names[0])
    reader.subscribe("n EXISTS")
    network.run()
    _publish(network, publishers, 20)
    reader.vanish(noticed=30, kept=30)
    _publish(network, publishers, 20)
    network.run(1)
    known, begin = len(reader.received), network.scheduler.now
    reader.attach(names[-1])
    first = 0.0
    while len(reader.received) < known + 20 * len(names):
        network.run(0.001)
        if not first and len(reader.received) > known:
            first = (network.scheduler.now - begin) / 1_000
    return first, (network.scheduler.now - begin) / 1_000


def _publish(network: Network, publishers: list[SimClient], count: int) -> None:
    for n in range(count):
        for publisher in publishers:
            publisher.publish(n=n, quality=Quality.FIRE)
        network.run(0.01)
    network.run(2)


class _Cost(NamedTuple):
    frames: int
    """Between brokers."""
    asked: int
    """Of these, questions and answers."""
    time: float


def _return(clients: int) -> _Cost:
    """Clients come back to another broker, and have missed one notification of each origin."""
    network = Network(weather=Weather(latency=(1_000, 1_000)))
    shape = topologies.random_tree(50, random.Random(3))
    network.add_brokers(shape.brokers, links=shape.links)
    network.run()
    publishers = [network.add_client(f"p{n}", broker) for n, broker in enumerate(shape.brokers)]
    readers = [network.add_client(f"r{n}", shape.brokers[0]) for n in range(clients)]
    for n, reader in enumerate(readers):
        reader.subscribe(f"n >= {n % 7}")
    network.run()
    _publish(network, publishers, 10)
    for reader in readers:
        reader.vanish(noticed=1_000, kept=1_000)
    _publish(network, publishers, 10)
    network.run(3)
    kinds = dict.fromkeys(("other", "asked"), 0)

    def note(broker: str, link: object, frame: object) -> None:
        if getattr(link, "is_broker", False):
            name = type(getattr(frame, "message", None)).__name__
            kinds["asked" if name in ("Wave", "WaveAnswer", "Fetch", "Fetched") else "other"] += 1

    network.tap = note
    begin = time.process_time()
    for reader in readers:
        reader.attach(shape.brokers[-1])
    network.run(5)
    spent = time.process_time() - begin
    wanted = [2 * (10 - n % 7) * len(shape.brokers) for n in range(clients)]
    assert [len(reader.received) for reader in readers] == wanted, "not everything has come, or something twice"
    return _Cost(sum(kinds.values()), kinds["asked"], spent)
