"""What scopes cost: where nothing crosses, by the edges crossed, by the number of scopes, and when somebody joins."""

from __future__ import annotations

import gc
import statistics
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from bench import Report
from tidings.broker import Broker, Feature, Link, LinkKind
from tidings.model import Filter, Notification
from tidings.scopes import (
    CLOSED,
    OPEN,
    Answer,
    AnyChange,
    CreateScope,
    Join,
    PolicyKind,
    PolicyUse,
    Scopes,
    SetPolicy,
    client_node,
)
from tidings.sim import Network
from tidings.wire import Deliver, Frame, Publish, Quality, Subscribe, Written, encode_body

SCOPES, DEPTH, CLIENTS = 200, 6, 2_000
ROUNDS, BURST = 15, 1_000


def run(report: Report) -> None:
    """Measure scopes."""
    _inside(report)
    _edges(report)
    _numbers(report)
    _policies(report)
    _join(report)


class _World:
    """A runtime that does what is due at once, and counts what goes to clients."""

    epoch, log = 1, None

    def __init__(self) -> None:
        self.delivered = 0
        self._due: deque[Callable[[], None]] = deque()

    def now(self) -> int:
        return 0

    def send(self, link: Link, frame: Frame) -> None:
        self.delivered += type(frame.message) is Deliver

    def send_all(self, links: Iterable[Link], frame: Frame) -> None:
        for link in links:
            self.send(link, frame)

    def send_written(self, links: Iterable[Link], written: Written) -> None:
        for frame in written.frames():
            self.send_all(links, frame)

    def open_local(self, link: Link, receive: Callable[[Frame], None]) -> None: ...

    def close_local(self, link: Link) -> None: ...

    def call_later(self, delay: int, action: Callable[[], None]) -> Any:
        if delay == 0:
            self._due.append(action)

    def settle(self) -> None:
        while self._due:
            self._due.popleft()()


class _Place:
    """One broker with clients; each wants the expensive quotes of its own group."""

    def __init__(self, groups: int, clients: int, changes: tuple[AnyChange, ...] | None) -> None:
        self.world = _World()
        service = Scopes("b")
        features: list[Feature] = [service] if changes is not None else []
        self.broker = Broker("b", self.world, features=features)
        self.links = [Link(f"c{number}", LinkKind.CLIENT) for number in range(clients)]
        for number, link in enumerate(self.links):
            self.broker.attach(link)
            wanted = Filter.parse(f"group = {number % groups} AND price > 100")
            self.broker.receive(link, Frame(Subscribe("s", wanted)))
        if changes is not None:
            answers: list[Answer] = []
            service.ask(changes, answers.append, administrator=True)
            self.world.settle()
            assert [answer.error for answer in answers] == [""], answers
        self._number = 0

    def burst(self, client: int, group: int) -> float:
        """Microseconds for one publication of a client."""
        link, body = self.links[client], encode_body(Notification(group=group, symbol="SAP", price=182.4, volume=100))
        frames = [Frame(Publish(self._number + n, body, Quality.FIRE)) for n in range(1, BURST + 1)]
        self._number += BURST
        start = time.perf_counter()
        for frame in frames:
            self.broker.receive(link, frame)
        return (time.perf_counter() - start) / BURST * 1e6


def _forest(scopes: int, clients: int, *, border: bool = True) -> Iterator[AnyChange]:
    """Towers of six scopes, closed towards each other or open, and the same number of clients in each scope."""
    for number in range(scopes):
        yield CreateScope(f"s{number}", CLOSED if border else OPEN)
        if number % DEPTH:
            yield Join(f"s{number}", f"s{number - 1}")
    for number in range(clients):
        yield Join(client_node(f"c{number}"), f"s{number % scopes}")


def _medians(places: dict[str, Callable[[], float]]) -> dict[str, float]:
    """The median of each, measured in turn, so that a busy moment hits all of them."""
    times: dict[str, list[float]] = {name: [] for name in places}
    gc.collect()
    gc.freeze()
    for _ in range(ROUNDS):
        for name, once in places.items():
            times[name].append(once())
    gc.unfreeze()
    return {name: statistics.median(values) for name, values in times.items()}


def _inside(report: Report) -> None:
    """A notification that stays in its scope, at the bottom of a tower, against the same one without any scopes."""
    scoped = _Place(SCOPES, CLIENTS, tuple(_forest(SCOPES, CLIENTS)))
    flat = _Place(SCOPES, CLIENTS, None)
    alone = _Place(SCOPES, CLIENTS // SCOPES, None)
    bottom = DEPTH - 1
    medians = _medians(
        {
            "scoped": lambda: scoped.burst(bottom, bottom),
            "flat": lambda: flat.burst(bottom, bottom),
            "alone": lambda: alone.burst(bottom, bottom),
        }
    )
    assert scoped.world.delivered == flat.world.delivered == ROUNDS * BURST * CLIENTS // SCOPES
    assert scoped.broker.statistics.crossings == 0
    what = f"{SCOPES} scopes, depth {DEPTH}, {CLIENTS:,} clients, nothing crossed / no scopes"
    report.limit(what, medians["scoped"] / medians["flat"], "x", at_most=1.2)
    report.figure("publication to 10 siblings in a scope", medians["scoped"], "µs")
    report.figure("publication to 10 clients, no scopes", medians["flat"], "µs")


def _edges(report: Report) -> None:
    """A publisher on each level of an open tower: what it publishes crosses all edges above, and nobody wants it."""
    place = _Place(1, DEPTH + 1, tuple(_tower(DEPTH + 1)))
    medians = _medians({str(level): partial(place.burst, level, -1) for level in range(DEPTH + 1)})
    for level, cost in medians.items():
        report.figure(f"publication that crosses {level} edges", cost, "µs")


def _tower(height: int) -> Iterator[AnyChange]:
    for number in range(height):
        yield CreateScope(f"s{number}", OPEN)
        if number:
            yield Join(f"s{number}", f"s{number - 1}")
        yield Join(client_node(f"c{number}"), f"s{number}")


def _numbers(report: Report) -> None:
    """The same traffic among more and more scopes."""
    sizes = (6, 60, 200, 600)
    places = {size: _Place(size, 10 * size, tuple(_forest(size, 10 * size))) for size in sizes}
    medians = _medians({str(size): partial(place.burst, 5, 5) for size, place in places.items()})
    for size in sizes:
        report.figure(f"publication to 10 siblings, {size} scopes", medians[str(size)], "µs")
    report.limit("600 scopes / 6 scopes", medians["600"] / medians["6"], "x", at_most=1.2)


def _policies(report: Report) -> None:
    """A scope without a policy, beside one that has one; and the scope that has it."""
    forest = tuple(_forest(SCOPES, CLIENTS))
    bottom = DEPTH - 1
    chooses = SetPolicy("s11", PolicyKind.INTERNAL, PolicyUse("producer", {"publishers": "@c11"}))
    plain, beside = _Place(SCOPES, CLIENTS, forest), _Place(SCOPES, CLIENTS, (*forest, chooses))
    medians = _medians(
        {
            "plain": lambda: plain.burst(bottom, bottom),
            "beside": lambda: beside.burst(bottom, bottom),
            "policy": lambda: beside.burst(11, 11),
        }
    )
    assert beside.world.delivered == 2 * plain.world.delivered == 2 * ROUNDS * BURST * CLIENTS // SCOPES
    ratio = medians["plain"] / medians["beside"]
    report.ratio("speed of a scope beside one with a policy / no policies", ratio, at_least=0.98)
    report.figure("publication to 10 siblings, each chosen by a policy", medians["policy"], "µs")


def _join(report: Report) -> None:
    """One client joins a scope on a network of five brokers: the processor time of all of them together."""
    brokers = "abcde"
    network = Network(1, features=lambda name: [Scopes("a")])
    network.add_brokers(brokers, links=["ab", "ac", "bd", "be"])
    for number in range(CLIENTS):
        network.add_client(f"c{number}", brokers[number % 5]).subscribe(f"group = {number % SCOPES}")
    network.run()
    network.change("a", tuple(_forest(SCOPES, CLIENTS - 100)))
    network.run()
    costs, delays = [], []
    for number in range(CLIENTS - 100, CLIENTS - 60):
        change = Join(client_node(f"c{number}"), f"s{number % SCOPES}")
        before, began = time.process_time(), network.scheduler.now
        answers = network.change("d", (change,))
        while not answers:
            network.run(0.001)
        costs.append((time.process_time() - before) * 1_000)
        delays.append((network.scheduler.now - began) / 1_000)
        assert not answers[0].error, answers[0].reason
    report.limit(f"join, {SCOPES} scopes, {CLIENTS:,} clients, 5 brokers", statistics.median(costs), "ms", at_most=5)
    report.figure("join, link delays (0.5 to 5 ms each)", statistics.median(delays), "ms")
