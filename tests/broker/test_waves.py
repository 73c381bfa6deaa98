"""Waves, marks and settling: what the features of later parts stand on."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidings.broker import Broker, Feature, RoutingOptions, Tree, WaveKind
from tidings.sim import Network, Op, Weather


class Census(Feature):
    """Counts the clients of the whole network with a wave."""

    name = "census"

    def __init__(self) -> None:
        self.visits = 0
        self.results: list[tuple[int, bool]] = []

    def wave_kinds(self) -> Mapping[str, WaveKind]:
        return {"clients": self}

    def visit(self, body: bytes, answer: Callable[[bytes | None], None]) -> None:
        self.visits += 1
        answer(str(len(self.context.clients)).encode())

    def combine(self, answers: list[bytes]) -> bytes:
        return str(sum(int(answer) for answer in answers)).encode()

    def count(self, deadline: int = 10_000_000) -> None:
        self.context.wave(
            "clients", b"", lambda answer, complete: self.results.append((int(answer), complete)), deadline
        )


def census_network(
    seed: int, brokers: int, extra_links: int = 0, weather: Weather | None = None
) -> tuple[Network, dict[str, Census]]:
    rng = random.Random(seed)
    network = Network(seed, weather=weather, features=lambda name: [Census()])
    names = [f"b{n:02}" for n in range(brokers)]
    network.add_brokers(names)
    pairs = [(names[n], names[rng.randrange(n)]) for n in range(1, brokers)]
    for _ in range(extra_links):
        one, two = sorted(rng.sample(names, 2))
        if (one, two) not in pairs and (two, one) not in pairs:
            pairs.append((one, two))
    for one, two in pairs:
        network.connect(one, two)
    for n in range(brokers):
        network.add_client(f"c{n}", rng.choice(names))
    network.run()
    return network, {name: broker.features["census"] for name, broker in network.brokers.items()}  # type: ignore[misc]


@given(seed=st.integers(0, 2**32), brokers=st.integers(1, 10), extra=st.integers(0, 4))
@settings(max_examples=30, deadline=None)
def test_a_wave_visits_every_broker_once_and_its_answer_is_complete(seed: int, brokers: int, extra: int) -> None:
    network, census = census_network(seed, brokers, extra if brokers > 1 else 0)
    start = random.Random(seed).choice(sorted(census))
    census[start].count()
    network.run()
    assert census[start].results == [(brokers, True)]
    assert {feature.visits for feature in census.values()} == {1}


@given(seed=st.integers(0, 2**32), brokers=st.integers(2, 8), when=st.integers(0, 20))
@settings(max_examples=60, deadline=None)
def test_a_wave_that_loses_a_link_ends_once_and_says_if_it_is_incomplete(seed: int, brokers: int, when: int) -> None:
    network, census = census_network(seed, brokers)
    start = random.Random(seed).choice(sorted(census))
    one, two = sorted(random.Random(seed).choice(sorted(map(sorted, network._links))))
    census[start].count()
    network.run(when / 1000)
    network.cut(one, two)
    network.run()
    assert len(census[start].results) == 1
    count, complete = census[start].results[0]
    assert count <= brokers
    assert count == brokers or not complete


def test_a_wave_that_is_not_answered_in_time_ends_at_its_deadline() -> None:
    network, census = census_network(1, 6, weather=Weather(latency=(400_000, 500_000)))
    began = network.scheduler.now
    ended: list[int] = []
    census["b00"].context.wave("clients", b"", lambda answer, complete: ended.append(network.scheduler.now), 900_000)
    census["b00"].count(deadline=900_000)
    network.run()
    assert census["b00"].results[0][1] is False
    assert ended[0] - began == 900_000


def test_waves_of_a_kind_that_nobody_knows_are_answered_as_incomplete() -> None:
    network = Network(1, features=lambda name: [Census()] if name == "a" else [])
    network.add_brokers("ab", links=["ab"])
    network.run()
    census = network.brokers["a"].features["census"]
    assert isinstance(census, Census)
    census.count()
    network.run()
    assert census.results == [(0, False)]


class Positions:
    """Asks every broker how far it has published."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def visit(self, body: bytes, answer: Callable[[bytes | None], None]) -> None:
        broker = self._broker
        answer(msgspec.msgpack.encode({broker.name: (broker.epoch, broker.publications.last)}))

    def combine(self, answers: list[bytes]) -> bytes:
        together: dict[str, tuple[int, int]] = {}
        for answer in answers:
            together |= msgspec.msgpack.decode(answer, type=dict[str, tuple[int, int]])
        return msgspec.msgpack.encode(together)


@given(seed=st.integers(0, 2**32))
@settings(max_examples=40, deadline=None)
def test_everything_sent_before_a_waves_answer_arrives_before_it(seed: int) -> None:
    """The answer of a wave drains: what was published behind a broker before it was visited has been delivered."""
    network, _census = census_network(seed, 6)
    rng = random.Random(seed)
    subscriber = network.clients["c0"]
    subscriber.subscribe("n EXISTS")
    network.run()
    for n in range(20):
        network.scheduler.after(
            rng.randrange(20_000),
            lambda n=n: network.clients[f"c{rng.randrange(6)}"].publish(n=n),  # type: ignore[misc]
        )
    marks: list[dict[str, tuple[int, int]]] = []
    for each in network.brokers.values():
        each.waves.register("marks", Positions(each))
    broker = network.brokers[subscriber.broker or ""]
    network.scheduler.after(
        rng.randrange(20_000),
        lambda: broker.waves.start("marks", b"", record),
    )
    passed: list[dict[str, tuple[int, int]]] = []

    def record(answer: bytes, complete: bool) -> None:
        assert complete
        marks.append(msgspec.msgpack.decode(answer, type=dict[str, tuple[int, int]]))
        passed.append(broker.progress.seen)

    network.run()
    assert len(subscriber.received) == 20
    for origin, mark in marks[0].items():
        if origin != broker.name and mark[1]:
            assert passed[0][origin] >= mark


@given(seed=st.integers(0, 2**32), brokers=st.integers(2, 8))
@settings(max_examples=30, deadline=None)
def test_marks_pass_where_no_filter_lets_notifications_pass(seed: int, brokers: int) -> None:
    network, _ = census_network(seed, brokers)
    publisher = network.clients["c0"]
    for n in range(5):
        publisher.publish(n=n)
    network.run()
    for name, broker in network.brokers.items():
        if name != publisher.broker:
            assert broker.progress.seen[publisher.broker or ""] == (1, 5)
            assert broker.statistics.messages_in["Notify"] == 0


@pytest.mark.parametrize("advertisements", [False, True])
@pytest.mark.parametrize("algorithm", ["simple", "identity", "covering", "merging", "imperfect-merging"])
def test_a_subscription_is_settled_when_and_only_when_everyone_who_must_know_knows(
    algorithm: str, advertisements: bool
) -> None:
    for seed in range(15):
        rng = random.Random(seed)
        network = Network(seed, routing=RoutingOptions(algorithm, advertisements=advertisements))
        names = [f"b{n}" for n in range(6)]
        network.add_brokers(names)
        for n in range(1, 6):
            network.connect(names[n], names[rng.randrange(n)])
        network.run()
        publishers = [network.add_client(f"p{n}", names[n]) for n in range(6)]
        for publisher in publishers:
            publisher.advertise("x EXISTS")
        network.run()
        subscriber = network.add_client("s", rng.choice(names))
        for n in range(5):
            low = rng.randrange(10)
            id = subscriber.subscribe(f"x BETWEEN {low} AND {low + rng.randrange(5)}")
            if rng.random() < 0.5:
                subscriber.subscribe(f"x BETWEEN 0 AND {rng.randrange(3)}", id="other")
            while id not in subscriber.settled_ids:
                network.run(0.001)
            # From now on a publication anywhere must arrive, although nothing is quiescent.
            before = len(subscriber.received)
            rng.choice(publishers).publish(x=low, n=n)
            network.run(0.5)
            got = [n_["n"] for n_ in subscriber.received[before:]]
            assert n in got, f"seed {seed}: settled, but not delivered"
        assert [r for r in network.trace.records if r.op is Op.SETTLED]


def test_a_wave_waits_where_a_neighbour_has_not_finished_its_handshake() -> None:
    network, _census = census_network(3, 2)
    network.run()
    one, two = network.brokers.values()
    started: list[tuple[bytes, bool]] = []
    adopt = one.at_tree

    def adopt_and_ask(old: Tree, new: Tree) -> None:
        adopt(old, new)
        if new.neighbours:  # its neighbour has not heard of this tree yet
            one.waves.start("census.clients", b"", lambda answer, complete: started.append((answer, complete)))

    one.at_tree = adopt_and_ask
    network.cut(one.name, two.name)
    network.run()
    network.heal(one.name, two.name)
    network.run()
    assert started == [(b"2", True)]
