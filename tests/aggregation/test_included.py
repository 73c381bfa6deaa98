"""A value of a window names the publications that it is about: from exactly these, anybody computes the same bytes."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import pytest

from tidings.aggregation import Aggregation, question_of
from tidings.aggregation._windows import MAX_BYTES, Measured, Shown, Windows
from tidings.aggregation.definitions import JP, Included, Record
from tidings.broker import Advice, Feature, Joinpoint, Link
from tidings.model import PartialRefused
from tidings.sim import Network, topologies
from tidings.wire import Envelope

QUESTION = "count(), p95(load), distinct(load), sum(load / 3) BY rack WINDOW 2s SLIDE 1s WHERE type = 'load'"
DEFINITION: Any = question_of(QUESTION)


class Ledger(Feature):
    """Keeps what is published, as an archive does."""

    name = "ledger"

    def __init__(self, kept: list[Envelope]) -> None:
        self._kept = kept

    def advice(self) -> Mapping[Joinpoint, Advice]:
        return {Joinpoint.PUBLISHED: self._note}

    def _note(self, envelope: Envelope, link: Link) -> None:
        self._kept.append(envelope)


def recomputed(kept: list[Envelope], included: tuple[Included, ...], window: tuple[int, int]) -> dict[str, bytes]:
    """The partials of a window, from the publications that a value names."""
    partials: dict[str, Any] = {}
    for envelope in kept:
        identity = envelope.identity
        at = identity.published_at // 1_000
        named = any(
            (one.origin, one.epoch) == (identity.origin, identity.epoch) and one.first <= identity.seq <= one.last
            for one in included
        )
        if not named or not window[0] <= at < window[1]:
            continue
        attrs = envelope.notification
        record = Record(ts_ms=at, broker=identity.origin, jp=JP.PUBLISHED, topic="load", attrs=attrs)
        if (lifted := DEFINITION.lift(record)) is not None:
            key = DEFINITION.key(record)
            partials[key] = DEFINITION.combine(partials[key], lifted) if key in partials else lifted
    return {key: DEFINITION.encode(partial) for key, partial in partials.items()}


def sampled(seed: int, steps: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """Compare every value of a random run, and return how many there were."""
    rng = random.Random(seed)
    kept: list[Envelope] = []
    network = Network(seed=seed, features=lambda name: [Aggregation(), Ledger(kept)])
    shape = topologies.random_tree(rng.randint(1, 5), rng)
    network.add_brokers(shape.brokers, links=shape.links)
    network.run()
    clients = [network.add_client(f"c{number}", broker) for number, broker in enumerate(shape.brokers)]
    told: list[tuple[tuple[int, int], tuple[Included, ...], dict[str, bytes]]] = []
    read = Windows.read

    def noted(self: Windows, shown: Shown, bound: float) -> Any:
        found = read(self, shown, bound)
        if found.included is not None:
            assert found.window is not None
            told.append((found.window, found.included, {key: DEFINITION.encode(p) for key, p in shown.groups.items()}))
        return found

    monkeypatch.setattr(Windows, "read", noted)
    watches = [client.watch(QUESTION) for client in rng.sample(clients, min(2, len(clients)))]
    for step in range(steps):
        kind = rng.choice(("load", "load", "other"))
        rng.choice(clients).publish(type=kind, rack=rng.choice("ab"), load=rng.randrange(9))
        network.run(rng.choice((0.001, 0.05, 0.4)))
        if step % 40 == 39 and len(shape.brokers) > 1:
            gone = rng.choice(shape.brokers)
            network.crash(gone)
            network.run(0.3)
            network.restart(gone)
    network.run(5)
    for window, included, partials in told:
        assert recomputed(kept, included, window) == partials, (seed, window, included)
    complete = [result for watch in watches for result in watch.results if result.complete]
    assert all(result.included is not None for result in complete)
    assert all(result.included is None for watch in watches for result in watch.results if not result.complete)
    return len(complete)


@pytest.mark.parametrize("seed", range(4))
def test_the_publications_that_a_value_names_give_the_same_bytes(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert sampled(seed, 100, monkeypatch) > 8


@pytest.mark.soak
def test_ten_thousand_values_are_computed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    values = 0
    for seed in range(1_000, 2_000):
        with monkeypatch.context() as patch:
            values += sampled(seed, 400, patch)
        if values >= 10_000:
            return
    pytest.fail(f"only {values:,} values")


def test_what_is_too_much_to_travel_is_left_out_and_the_value_is_not() -> None:
    form = Windows(DEFINITION, lambda: 2, lambda: 7)
    many = tuple(Included(f"broker-{number:05}", 1, 1, number + 1) for number in range(2_000))
    some = (Included("a", 1, 3, 9),)
    one = Measured(1, {'["a"]': DEFINITION.zero()}, some)
    assert form.decode(form.encode({7: one}))[7] == one
    data = form.encode({7: one._replace(included=many)})
    assert len(data) <= MAX_BYTES
    assert form.decode(data)[7] == one._replace(included=None)
    together = form.total([{7: one}, {7: one._replace(included=None)}])
    assert together[7].included is None
    assert form.read(form.shown(None, together, 0), 0).included is None


@pytest.mark.parametrize("numbers", [(5, 4), (-1, 4)])
def test_numbers_that_are_none_are_refused(numbers: tuple[int, int]) -> None:
    form = Windows(DEFINITION, lambda: 1, lambda: 7)
    with pytest.raises(PartialRefused, match="includes no numbers of publications"):
        form.decode(form.encode({7: Measured(1, {}, (Included("a", 1, *numbers),))}))
