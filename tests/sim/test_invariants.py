"""The judges of brokers at rest notice what is left behind, and what is told where nothing should be."""

from __future__ import annotations

import pytest

from tidings.broker import RoutingOptions
from tidings.broker.overlay._adjacency import Adjacency
from tidings.model import Notification
from tidings.sim import Excuse, Excuses, Network, Weather, broken_invariants, waste
from tidings.wire import Quality


def _network(**more: object) -> Network:
    network = Network(3, **more)  # type: ignore[arg-type]
    network.add_brokers("ab", links=["ab"])
    network.add_client("alice", "a")
    network.add_client("bob", "b")
    network.run()
    return network


def test_a_publication_that_waits_for_its_advertisement_is_left_behind() -> None:
    slow = Weather(latency=(20_000, 20_000))
    network = _network(routing=RoutingOptions(advertisements=True), weather=slow)
    network.clients["alice"].advertise("TRUE")
    network.clients["alice"].publish(n=1)
    network.run(0.03)
    assert "a holds 1 publications that wait" in waste(network)


def test_a_publication_on_its_way_to_the_disk_is_left_behind() -> None:
    network = _network(weather=Weather(latency=(0, 0), sync_time=1_000_000))
    network.clients["alice"].publish(n=1, quality=Quality.STORED)
    network.run(0.5)
    assert "a holds 1 publications on their way to the disk" in waste(network)


def test_an_origin_that_is_waited_for_is_left_behind() -> None:
    network = _network()
    network.clients["bob"].subscribe("TRUE")
    network.run()
    network.clients["alice"].publish(n=1)
    network.run()
    network.cut("a", "b")
    network.run(1)
    assert "b holds 1 origins that are waited for" in waste(network)


def test_what_is_told_off_the_tree_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    network = _network()
    network.clients["bob"].subscribe("n > 1")
    network.run()
    assert broken_invariants(network) == []
    monkeypatch.setattr(Adjacency, "tree_links", property(lambda self: []))
    assert any("was told off the tree" in text for text in broken_invariants(network))


@pytest.mark.parametrize("algorithm", ["merging", "imperfect-merging"])
def test_only_imperfect_merging_may_send_more(algorithm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    network = _network(routing=RoutingOptions(algorithm, precision=0.1))
    for n in (1, 3):
        network.clients["bob"].subscribe(f"n BETWEEN {10 * n} AND {10 * n + 9}")
    network.run()
    excuses = Excuses()
    assert broken_invariants(network, [Notification(n=25)], excuses) == []
    assert excuses[Excuse.MERGED_IMPERFECTLY] == (1 if algorithm == "imperfect-merging" else 0)
