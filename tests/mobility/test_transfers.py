"""The reactive scheme: the broker that a client left buffers for it, and the new one fetches that when it arrives."""

from __future__ import annotations

from typing import Any

import pytest
from mobility import roamers
from mobility.roamers import handing, homes, keeping, network, numbers, roaming, walker

from tidings.broker import RoutingOptions
from tidings.mobility import MobilityOptions, Outcome, Roaming, Scheme
from tidings.mobility._transfers import Carried, Part, Request, Transfers, read_transfer
from tidings.sim import Network, check
from tidings.sim._invariants import waste
from tidings.wire import Routed, pack

OPTIONS = MobilityOptions(Scheme.REACTIVE)


def world(**more: Any) -> Network:
    return network(OPTIONS, **more)


def transfers(network: Network, broker: str) -> Transfers:
    found = roaming(network, broker).transfers
    assert found is not None
    return found


def until_held(network: Network, broker: str) -> None:
    """Until a subscription waits there."""
    for _ in range(100):
        if network.brokers[broker].holds.all:
            return
        network.run(0.001)
    raise AssertionError("nothing is held")


def said(network: Network) -> list[tuple[str, Request | Part]]:
    """What brokers say to one another about transfers from now on, each where it was said."""
    heard: list[tuple[str, Request | Part]] = []

    def tap(name: str, link: Any, frame: Any) -> None:
        message = frame.message
        if isinstance(message, Routed) and message.feature == "roaming" and name == message.source:
            heard.append((name, read_transfer(message.body).said))

    network.tap = tap
    return heard


@pytest.mark.req("MOB-057")
@pytest.mark.req("MOB-058")
@pytest.mark.req("MOB-059")
@pytest.mark.req("MOB-060")
def test_what_a_client_missed_is_fetched_from_the_broker_that_it_left() -> None:
    network = world()
    phone, feed = walker(network)
    feed.publish(n=1)
    network.run(2)
    phone.vanish(noticed=0.3, kept=60)
    network.run(2)
    for n in (2, 3):
        feed.publish(n=n)
    network.run(2)
    assert len(keeping(network, "a").buffer) == 2
    heard, asked = said(network), []
    tapped = network.tap

    def tap(name: str, link: Any, frame: Any) -> None:
        assert tapped is not None
        tapped(name, link, frame)
        asked.append(type(frame.message).__name__)

    network.tap = tap
    phone.attach("c")
    until_held(network, "c")
    feed.publish(n=4)  # while it is fetched: it is kept at the new broker, and buffered at the old one
    network.run(0.012)
    [hold] = network.brokers["c"].holds.all.values()
    assert hold.count == 1
    assert numbers(phone) == [1]  # nothing before what was missed
    network.run(2)
    assert numbers(phone) == [1, 2, 3, 4]
    [(new, request), (old, part)] = heard
    assert (new, old) == ("c", "a")
    assert isinstance(request, Request)
    assert isinstance(part, Part)
    assert [envelope.notification["n"] for envelope, _ in part.held] == [2, 3, 4]
    assert not {"Fetch", "Wave"} & set(asked)  # no origin was asked
    assert handing(network, "c").outcomes[Outcome.HIT] == 1
    assert transfers(network, "c").fetched == 3
    assert not homes(network, "a")
    assert not keeping(network, "a").buffer.bytes
    assert not [one for one in network.brokers["a"].clients if one.principal == "phone"]
    assert not check(network.trace)


@pytest.mark.req("MOB-062")
@pytest.mark.parametrize("back", [0.0, 0.01, 0.03, 0.06, 0.2, 2.0])
def test_a_client_may_go_back_before_during_and_after_the_transfer(back: float) -> None:
    network = world()
    phone, feed = walker(network)
    phone.vanish(noticed=0.3, kept=60)
    network.run(1)
    feed.publish(n=1)
    network.run(1)
    phone.attach("c")
    network.run(back)
    phone.vanish(noticed=0.3, kept=60)
    feed.publish(n=2)
    phone.attach("a")
    feed.publish(n=3)
    network.run()
    assert numbers(phone) == [1, 2, 3]
    assert not check(network.trace)


@pytest.mark.parametrize("change", [0.0, 0.011, 0.03, 0.06])
def test_a_filter_that_is_changed_while_its_subscription_waits_misses_nothing(change: float) -> None:
    network = world()
    phone, feed = walker(network)
    phone.vanish(noticed=0.3, kept=60)
    network.run(1)
    for n in range(4):
        feed.publish(n=n)
    network.run(1)
    phone.attach("c")
    until_held(network, "c")
    feed.publish(n=4)  # it is kept at the new broker, too
    network.run(change)
    [subscription] = phone.subscriptions
    phone.subscribe("n >= 2", id=subscription)
    network.run()
    assert numbers(phone)[-3:] == [2, 3, 4]
    assert not check(network.trace)


@pytest.mark.req("MOB-061")
@pytest.mark.parametrize("on", [0.0, 0.01, 0.03, 0.06, 0.2, 2.0])
def test_a_client_may_move_on_before_the_transfer_is_over(on: float) -> None:
    network = world()
    phone, feed = walker(network)
    for n, broker in enumerate("bcab"):
        phone.vanish(noticed=0.1, kept=60)
        network.run(on)
        feed.publish(n=2 * n)
        phone.attach(broker)
        network.run(on)
        feed.publish(n=2 * n + 1)
    network.run()
    assert numbers(phone) == list(range(8))
    assert not check(network.trace)
    phone.detach()
    feed.detach()
    network.run()
    assert not waste(network)


def test_several_subscriptions_are_fetched_together_or_one_after_another() -> None:
    network = world()
    phone, feed = walker(network)
    phone.subscribe("m >= 0")
    other = network.add_client("other", "b")
    other.subscribe("n >= 0")  # at the new broker the first one settles at once
    network.run(2)
    phone.vanish(noticed=0.3, kept=60)
    network.run(1)
    feed.publish(n=1)
    feed.publish(m=2)
    feed.publish(n=3, m=3)
    network.run(1)
    phone.attach("b")
    network.run(2)
    received = [(one.get("n"), one.get("m")) for one in phone.received]
    assert sorted(received, key=str) == sorted([(1, None), (None, 2), (3, 3), (3, 3)], key=str)
    assert handing(network, "b").outcomes == {Outcome.HIT: 1, Outcome.EARLY: 0, Outcome.MISS: 0}
    assert not homes(network, "a")
    assert not check(network.trace)


def test_a_subscription_that_was_changed_on_the_way_gets_nothing_that_it_does_not_want() -> None:
    network = world()
    phone, feed = walker(network)
    [id] = phone._local.subscriptions
    phone.vanish(noticed=0.3, kept=60)
    network.run(1)
    for n in range(4):
        feed.publish(n=n)
    network.run(1)
    phone.subscribe("n >= 2", id=id)
    phone.attach("c")
    network.run()
    assert set(numbers(phone)) <= {2, 3}
    assert not check(network.trace)


def test_what_the_old_broker_lacks_is_asked_of_the_origins() -> None:
    network = network_with(buffer_bytes=300)
    phone, feed = walker(network)
    phone.vanish(noticed=0.3, kept=60)
    network.run(1)
    for n in range(20):
        feed.publish(n=n)
    network.run(1)
    assert keeping(network, "a").buffer.overwritten > 10
    phone.attach("c")
    network.run()
    assert numbers(phone) == list(range(20))
    assert handing(network, "c").outcomes[Outcome.EARLY] == 1
    assert not check(network.trace)


def network_with(**more: Any) -> Network:
    return network(MobilityOptions(Scheme.REACTIVE, **more))


@pytest.mark.parametrize("what", ["crashed", "not noticed", "too late"])
def test_a_broker_that_has_nothing_or_does_not_answer_is_not_waited_for(what: str) -> None:
    network = network_with(t_timeout=10 if what == "too late" else 120)
    phone, feed = walker(network)
    phone.vanish(noticed=600 if what == "not noticed" else 0.3, kept=600)
    network.run(1)
    feed.publish(n=1)
    network.run(20)
    if what == "crashed":
        network.crash("a")
        network.run(1)
    phone.attach("c")
    network.run(3)
    assert numbers(phone) == [1]
    network.run(8)
    assert handing(network, "c").outcomes[Outcome.MISS] == 1
    assert not network.brokers["c"].holds.all


def test_a_new_tree_during_the_transfer_costs_time_and_nothing_else() -> None:
    for delay in (0.005, 0.02, 0.03, 0.04, 0.05):
        network = world()
        phone, feed = walker(network)
        phone.vanish(noticed=0.3, kept=60)
        network.run(1)
        feed.publish(n=1)
        network.run(1)
        phone.attach("c")
        network.run(delay)
        network.cut("a", "b")
        feed.publish(n=2)
        network.run(3)
        network.heal("a", "b")
        network.run()
        assert numbers(phone) == [1, 2]
        assert not check(network.trace)


@pytest.mark.parametrize("scheme", ["covering", "flooding", "merging", "simple"])
def test_every_algorithm_fetches(scheme: str) -> None:
    network = world(routing=RoutingOptions(scheme))
    phone, feed = walker(network)
    for n, broker in enumerate("bcabcb"):
        phone.vanish(noticed=0.3, kept=60)
        network.run(2)
        feed.publish(n=n)
        network.run(2)
        phone.attach(broker)
        network.run(2)
    network.run()
    assert numbers(phone) == list(range(6))
    assert sum(handing(network, name).outcomes[Outcome.HIT] for name in "abc") == 6
    assert not check(network.trace)


@pytest.mark.req("MOB-066")
def test_the_same_walk_is_served_by_each_scheme_in_its_own_way() -> None:
    for scheme, hits, transferred in ((Scheme.ORIGINS, 0, 0), (Scheme.PROACTIVE, 6, 0), (Scheme.REACTIVE, 6, 6)):
        network = roamers.network(MobilityOptions(scheme, roamers=("all",), new_edge_interval=0))
        phone, feed = walker(network)
        for n, broker in enumerate("bcabcb"):
            phone.vanish(noticed=0.3, kept=60)
            network.run(2)
            feed.publish(n=n)
            network.run(2)
            phone.attach(broker)
            network.run(2)
        network.run()
        assert numbers(phone) == list(range(6))
        features = [broker.features["roaming"] for broker in network.brokers.values() if "roaming" in broker.features]
        assert sum(one.handing.outcomes[Outcome.HIT] for one in features if isinstance(one, Roaming)) == hits
        fetched = [one.transfers for one in features if isinstance(one, Roaming)]
        assert sum(one.fetched for one in fetched if one is not None) == transferred
        assert not check(network.trace)


@pytest.mark.req("MOB-067")
@pytest.mark.parametrize("scheme", [Scheme.REACTIVE, Scheme.PROACTIVE])
def test_the_share_that_came_from_elsewhere_is_counted(scheme: Scheme) -> None:
    """With copies, that is what clients get at brokers without one."""
    network = roamers.network(MobilityOptions(scheme, roamers=("all",), max_degree=1), edges=[("a", "b")])
    phone, feed = walker(network)
    for n, broker in enumerate("bcab"):
        feed.publish(n=2 * n)  # it is there
        network.run(2)
        phone.vanish(noticed=0.3, kept=60)
        network.run(2)
        feed.publish(n=2 * n + 1)  # it is away
        network.run(2)
        phone.attach(broker)
        network.run(8)
    assert numbers(phone) == list(range(8))
    fetched = {name: roaming(network, name).fetched for name in "abc"}
    if scheme is Scheme.REACTIVE:
        assert fetched == {"a": 1, "b": 2, "c": 1}  # a half of all
    else:
        assert fetched["b"] == 0, "there is a copy"
        assert fetched["c"] == 1, "there is none"
    assert not check(network.trace)


def test_a_stranger_gets_nothing_and_nonsense_is_counted() -> None:
    network = world()
    phone, feed = walker(network)
    phone.vanish(noticed=0.3, kept=60)
    network.run(1)
    feed.publish(n=1)
    network.run(1)
    heard = said(network)
    whose = roaming(network, "a").controlling._clients["phone"].whose
    stranger = type(whose)(whose.name, "mallory", whose.epoch + 1)
    roaming(network, "a").on_routed("c", pack(Carried(Request(stranger, 1, ()))))
    assert heard == [("a", Part(1, (), last=True))]
    assert len(keeping(network, "a").buffer) == 1
    before = network.brokers["a"].statistics.refused
    roaming(network, "a").on_routed("c", b"\xc1")
    assert network.brokers["a"].statistics.refused == before + 1


@pytest.mark.req("MOB-059")
def test_without_merging_what_came_both_ways_is_sent_twice_and_taken_once() -> None:
    for merge_dedup, times in ((True, 1), (False, 2)):
        network = network_with(merge_dedup=merge_dedup)
        phone, feed = walker(network)
        phone.vanish(noticed=0.3, kept=60)
        network.run(1)
        delivered: list[object] = []

        def tap(name: str, link: Any, frame: Any, delivered: list[object] = delivered) -> None:
            if name == "c" and link.name == "phone" and type(frame.message).__name__ == "Deliver":
                delivered.append(frame.message.envelope.notification["n"])

        network.tap = tap
        phone.attach("c")
        until_held(network, "c")
        feed.publish(n=1)  # it reaches both brokers while the subscription is held
        network.run(2)
        assert numbers(phone) == [1]
        assert delivered == [1] * times
