"""Hypothesis drives a small network: any order of calls and faults, then everything is judged."""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from soaking import SOAK_SECONDS

from tidings.broker import RoutingOptions
from tidings.model import Filter, Notification
from tidings.sim import Checker, Network, Promises, broken_invariants, topologies, waste
from tidings.wire import Quality

ALGORITHMS = ("flooding", "simple", "identity", "covering", "merging", "imperfect-merging")
FILTERS = tuple(
    Filter.parse(text)
    for text in (
        "TRUE",
        "n > 2",
        "n > 5",
        "n BETWEEN 3 AND 6",
        "n = 4",
        "n < 4 OR n > 7",
        "k = 'a'",
        "k = 'a' AND n < 5",
    )
)
PROMISES = Promises.load()

brokers = st.integers(0, 4)
clients = st.integers(0, 2)
ids = st.sampled_from(("s1", "s2"))
filters = st.sampled_from(FILTERS)


class Machine(RuleBasedStateMachine):
    """Five brokers, three clients."""

    def __init__(self) -> None:
        super().__init__()
        self.network = Network()
        self.checker = Checker(PROMISES)
        self.seen = 0
        self.cut: list[tuple[str, str]] = []
        self.dead: list[str] = []

    @initialize(
        algorithm=st.sampled_from(ALGORITHMS),
        advertisements=st.booleans(),
        seed=st.integers(0, 99),
        shape=st.integers(0, 3),
    )
    def build(self, algorithm: str, advertisements: bool, seed: int, shape: int) -> None:
        self.network = Network(seed, routing=RoutingOptions(algorithm, advertisements))
        self.checker = Checker(PROMISES, advertisements=advertisements)
        self.shape = (
            topologies.line(5),
            topologies.star(5),
            topologies.ring(5),
            topologies.meshed(5, 2, random.Random(seed)),
        )[shape]
        self.network.add_brokers(self.shape.brokers, self.shape.links)
        for number, broker in enumerate((0, 2, 4)):
            self.network.add_client(f"c{number}", self.shape.brokers[broker])

    @rule(client=clients, id=ids, filter=filters, own=st.booleans())
    def subscribe(self, client: int, id: str, filter: Filter, own: bool) -> None:
        self.network.clients[f"c{client}"].subscribe(filter, id=id, receive_own=own)

    @rule(client=clients, id=ids)
    def unsubscribe(self, client: int, id: str) -> None:
        self.network.clients[f"c{client}"].unsubscribe(id)

    @rule(client=clients, id=st.sampled_from(("a1", "a2")), filter=filters)
    def advertise(self, client: int, id: str, filter: Filter) -> None:
        self.network.clients[f"c{client}"].advertise(filter, id=id)

    @rule(client=clients, id=st.sampled_from(("a1", "a2")))
    def unadvertise(self, client: int, id: str) -> None:
        self.network.clients[f"c{client}"].unadvertise(id)

    @rule(client=clients, n=st.integers(0, 9), k=st.sampled_from("ab"), quality=st.sampled_from(Quality))
    def publish(self, client: int, n: int, k: str, quality: Quality) -> None:
        self.network.clients[f"c{client}"].publish(n=n, k=k, quality=quality)

    @rule(client=clients, broker=brokers)
    def move(self, client: int, broker: int) -> None:
        name = self.shape.brokers[broker]
        if name in self.network.brokers:
            self.network.clients[f"c{client}"].detach()
            self.network.clients[f"c{client}"].attach(name)

    @precondition(lambda self: len(self.cut) < 2)
    @rule(at=st.integers(0, 9))
    def cut_link(self, at: int) -> None:
        link = self.shape.links[at % len(self.shape.links)]
        if link not in self.cut:
            self.cut.append(link)
            self.network.cut(*link)

    @precondition(lambda self: self.cut)
    @rule()
    def heal_link(self) -> None:
        self.network.heal(*self.cut.pop(0))

    @precondition(lambda self: len(self.dead) < 2)
    @rule(broker=brokers)
    def crash(self, broker: int) -> None:
        name = self.shape.brokers[broker]
        if name in self.network.brokers:
            self.dead.append(name)
            self.network.crash(name)

    @precondition(lambda self: self.dead)
    @rule()
    def restart(self) -> None:
        self.network.restart(self.dead.pop(0))

    @rule(milliseconds=st.sampled_from((1, 5, 30, 1000)))
    def run_a_little(self, milliseconds: int) -> None:
        self.network.run(milliseconds / 1000)

    @rule()
    def come_to_rest(self) -> None:
        self.network.run()
        samples = [Notification(n=n, k=k) for n in range(10) for k in "ab"]
        assert broken_invariants(self.network, samples) == []

    @invariant()
    def every_promise_is_kept(self) -> None:
        records = self.network.trace.records
        for record in records[self.seen :]:
            self.checker.step(record)
        self.seen = len(records)
        assert [str(violation) for violation in self.checker.violations] == []

    def teardown(self) -> None:
        for link in self.cut:
            self.network.heal(*link)
        for broker in self.dead:
            self.network.restart(broker)
        self.come_to_rest()
        self.every_promise_is_kept()
        for client in self.network.clients.values():
            client.detach()
        self.network.run()
        assert waste(self.network) == []


TestMachine = pytest.mark.req("VIS-124", "VIS-125", "VIS-127", "ARC-005", "ARC-020")(Machine.TestCase)
TestMachine.settings = settings(
    max_examples=60, stateful_step_count=40, suppress_health_check=list(HealthCheck), deadline=None
)


@pytest.mark.soak
class TestMachineForLong(Machine.TestCase):  # type: ignore[misc, valid-type]
    """About a tenth of a second for each example."""

    settings = settings(
        max_examples=max(100, int(SOAK_SECONDS)),
        stateful_step_count=60,
        suppress_health_check=list(HealthCheck),
        deadline=None,
    )
