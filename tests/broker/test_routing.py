"""Routing, seen from outside: who gets what, over which links, and what brokers tell each other."""

from __future__ import annotations

import itertools
import random
from collections import Counter

import pytest

from tidings.broker import Link, RoutingOptions
from tidings.model import Filter, TopologyError, UnsupportedFilter
from tidings.sim import (
    Network,
    Shape,
    Weather,
    broken_invariants,
    check,
    delivered,
    flat,
    necessary_links,
    topologies,
    waste,
)
from tidings.sim._workload import random_filter, random_notification
from tidings.wire import Frame, Quality

ALGORITHMS = ("flooding", "simple", "identity", "covering", "merging", "imperfect-merging")
FILTERED = ALGORITHMS[1:]
EXACT = ("simple", "identity", "covering", "merging")

plain_and_advertised = pytest.mark.parametrize("advertisements", [False, True], ids=["plain", "advertised"])


def build(shape: Shape, algorithm: str = "covering", advertisements: bool = False, seed: int = 1) -> Network:
    network = Network(seed, routing=RoutingOptions(algorithm, advertisements))
    for broker in shape.brokers:
        network.add_broker(broker, shape.role(broker))
    for one, two in shape.links:
        network.connect(one, two)
    for client, broker in shape.clients.items():
        network.add_client(client, broker)
    network.run()
    return network


def listen(network: Network) -> Counter[str]:
    """Count the messages between brokers from now on, by type."""
    counts: Counter[str] = Counter()

    def tap(broker: str, link: Link, frame: Frame) -> None:
        if link.is_broker:
            counts[type(frame.message).__name__] += 1

    network.tap = tap
    return counts


# --- every algorithm delivers what flooding with an oracle delivers -------------------------------------


def _populated(seed: int, algorithm: str, advertisements: bool) -> Network:
    """A random network in which everybody wants something."""
    rng = random.Random(seed)
    shape = topologies.random_tree(rng.randint(2, 8), rng)
    network = build(shape, algorithm, advertisements, seed)
    for number in range(rng.randint(2, 6)):
        client = network.add_client(f"c{number}", rng.choice(shape.brokers))
        if advertisements:
            client.advertise("TRUE")
        for _ in range(rng.randint(0, 4)):
            client.subscribe(random_filter(rng))
    network.run()
    return network


def _traffic(network: Network, rng: random.Random, rounds: int = 4) -> None:
    """Publish, let everything arrive, change some subscriptions, let them settle, and so on."""
    clients = list(network.clients.values())
    for _ in range(rounds):
        for _ in range(10):
            rng.choice(clients).publish(random_notification(rng), quality=rng.choice(tuple(Quality)))
        network.run()
        for client in clients:
            if client.subscriptions and rng.random() < 0.5:
                client.unsubscribe(rng.choice(sorted(client.subscriptions)))
            if rng.random() < 0.5:
                client.subscribe(random_filter(rng))
        network.run()


@pytest.mark.req("VIS-129", "VIS-204", "VIS-205", "VIS-206", "VIS-207", "VIS-208", "VIS-209", "ARC-018")
@pytest.mark.req("HIS-008")
@plain_and_advertised
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_deliveries_are_those_of_the_oracle(algorithm: str, advertisements: bool) -> None:
    for seed in range(10):
        network = _populated(seed, algorithm, advertisements)
        _traffic(network, random.Random(seed))
        assert delivered(network.trace.records) == flat(network.trace.records)
        assert check(network.trace, advertisements=advertisements) == []


@pytest.mark.req("VIS-212")
def test_one_broker_that_matches_everything_delivers_the_same() -> None:
    for seed in range(5):
        network = Network(seed, routing=RoutingOptions("flooding"))
        network.add_broker("centre")
        rng = random.Random(seed)
        for number in range(5):
            network.add_client(f"c{number}", "centre").subscribe(random_filter(rng))
        network.run()
        _traffic(network, rng)
        assert delivered(network.trace.records) == flat(network.trace.records)


# --- tables ---------------------------------------------------------------------------------------------


@pytest.mark.req("ARC-008", "ARC-010", "ARC-011", "ARC-012", "ARC-013", "ARC-014", "ARC-015", "AGG-027")
@pytest.mark.req("AGG-007", "VIS-203")
@plain_and_advertised
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_what_neighbours_were_told_is_exactly_what_the_algorithm_says(algorithm: str, advertisements: bool) -> None:
    for seed in range(8):
        rng = random.Random(seed)
        network = _populated(seed, algorithm, advertisements)
        samples = [random_notification(rng) for _ in range(50)]
        assert broken_invariants(network, samples) == []
        for client in network.clients.values():
            for id in list(client.subscriptions)[::2]:
                client.unsubscribe(id)
            for id in list(client.advertisements)[::2]:
                client.unadvertise(id)
        network.run()
        assert broken_invariants(network, samples) == []
        for client in network.clients.values():
            client.detach()
        network.run()
        assert waste(network) == []


def _table_size(network: Network) -> int:
    return sum(1 for broker in network.brokers.values() for entry in broker.root.subscriptions if entry.link.is_broker)


@pytest.mark.req("VIS-211")
def test_tables_shrink_from_simple_to_identity_to_covering_to_merging() -> None:
    totals = Counter[str]()
    for seed in range(12):
        sizes = [_table_size(_populated(seed, algorithm, False)) for algorithm in EXACT]
        assert sizes == sorted(sizes, reverse=True), f"seed {seed}: {dict(zip(EXACT, sizes, strict=True))}"
        totals.update(dict(zip(EXACT, sizes, strict=True)))
    assert totals["simple"] > totals["identity"] > totals["covering"] > totals["merging"]


@pytest.mark.req("ARC-014", "VIS-207", "VIS-203")
@pytest.mark.parametrize("algorithm", EXACT)
def test_a_notification_uses_only_the_links_that_lead_to_somebody_who_wants_it(algorithm: str) -> None:
    for seed in range(10):
        network = _populated(seed, algorithm, False)
        rng = random.Random(seed)
        counts = listen(network)
        needed = 0
        for _ in range(30):
            client = rng.choice(list(network.clients.values()))
            notification = random_notification(rng)
            assert client.broker is not None
            needed += necessary_links(network, client.broker, notification)
            client.publish(notification)
        network.run()
        assert counts["Notify"] == needed


@pytest.mark.req("VIS-129", "ARC-006", "MOB-002")
def test_flooding_sends_each_notification_once_over_each_link_and_tells_nothing() -> None:
    network = build(topologies.balanced(3, 2), "flooding")
    client = network.add_client("alice", "b01")
    network.add_client("bob", "b07").subscribe("n > 5")
    network.run()
    counts = listen(network)
    for number in range(10):
        client.publish(n=number)
    network.run()
    assert counts["Notify"] == 10 * 6
    assert counts["Subscribe"] == counts["Unsubscribe"] == 0
    assert len(network.clients["bob"].received) == 4


@pytest.mark.req("VIS-208", "ARC-014")
def test_imperfect_merging_hides_changes_and_pays_with_traffic() -> None:
    def churn(algorithm: str) -> tuple[int, int]:
        network = build(topologies.line(4), algorithm)
        alice, bob = network.add_client("alice", "b01"), network.add_client("bob", "b04")
        ids = [bob.subscribe(f"n BETWEEN {10 * at} AND {10 * at + 7}") for at in range(8)]
        network.run()
        counts = listen(network)
        bob.unsubscribe(ids[3])
        network.run()
        told = counts["Subscribe"] + counts["Unsubscribe"]
        for number in range(80):
            alice.publish(n=number)
        network.run()
        assert len(bob.received) == 7 * 8, "no more is delivered, however much travels"
        return told, counts["Notify"]

    lazy, loose = churn("imperfect-merging")
    eager, tight = churn("merging")
    assert lazy < eager
    assert loose > tight


# --- order, gaps, crossing ------------------------------------------------------------------------------


@pytest.mark.req("VIS-210", "ARC-009", "AGG-006", "ARC-001")
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_publishers_notifications_arrive_in_order(algorithm: str) -> None:
    network = Network(5, routing=RoutingOptions(algorithm), weather=Weather(latency=(1, 50_000), through_wire=True))
    shape = topologies.line(6)
    network.add_brokers(shape.brokers, shape.links)
    publishers = [network.add_client(f"p{at}", broker) for at, broker in enumerate(("b01", "b03", "b06"))]
    readers = [network.add_client(f"r{at}", broker) for at, broker in enumerate(("b01", "b06"))]
    for reader in readers:
        reader.subscribe("TRUE")
    network.run()
    for number in range(100):
        for publisher in publishers:
            publisher.publish(who=publisher.name, n=number)
        network.run(0.001)
    network.run()
    for reader in readers:
        for publisher in publishers:
            numbers = [n["n"] for n in reader.received if n["who"] == publisher.name]
            assert numbers == list(range(100))


@pytest.mark.req("VIS-206", "ARC-012", "AGG-023")
@plain_and_advertised
@pytest.mark.parametrize("algorithm", FILTERED)
def test_ending_a_cover_loses_nothing_for_what_it_covered(algorithm: str, advertisements: bool) -> None:
    for seed in range(10):
        shape = topologies.line(5)
        network = Network(seed, routing=RoutingOptions(algorithm, advertisements))
        network.add_brokers(shape.brokers, shape.links)
        alice, bob, carol = (network.add_client(n, b) for n, b in (("alice", "b01"), ("bob", "b05"), ("carol", "b04")))
        if advertisements:
            alice.advertise("n >= 0")
        for reader in (bob, carol):
            reader.subscribe("n BETWEEN 10 AND 20", id="narrow")
        network.run()
        rng = random.Random(seed)
        expected = 0
        for number in range(60):
            if number % 6 == 0:
                bob.subscribe("n > 5", id="cover")
            if number % 6 == 3:
                bob.unsubscribe("cover")
            alice.publish(n=15, at=number)
            expected += 1
            network.run(rng.random() * 0.02)
        network.run()
        assert check(network.trace, advertisements=advertisements) == []
        assert [n["at"] for n in carol.received] == list(range(expected))


@pytest.mark.req("AGG-023", "VIS-206", "ARC-012")
@pytest.mark.parametrize("algorithm", FILTERED)
def test_on_every_link_what_replaces_a_filter_comes_before_the_old_one_goes(algorithm: str) -> None:
    """R5: at no moment does a neighbour lack a filter that stays wanted."""
    network = build(topologies.line(3), algorithm)
    bob = network.add_client("bob", "b03")
    bob.subscribe("n BETWEEN 10 AND 20", id="stays")
    bob.subscribe("n > 5", id="goes")
    network.run()
    wanted = Filter.parse("n = 15")
    held: dict[tuple[str, str], dict[str, Filter]] = {}
    for broker in network.brokers.values():
        for link in broker.adjacency.tree_links:
            held[broker.name, link.name] = dict(broker.root.subscriptions.told(link))  # type: ignore[arg-type]
    broken: list[str] = []

    def tap(broker: str, link: Link, frame: Frame) -> None:
        message = frame.message
        name = type(message).__name__
        if not link.is_broker or name not in ("Subscribe", "Unsubscribe"):
            return
        filters = held[broker, link.name]
        if name == "Subscribe":
            filters[message.id] = message.filter  # type: ignore[union-attr,assignment]
        else:
            del filters[message.id]  # type: ignore[union-attr]
        if not any(filter.overlaps(wanted) for filter in filters.values()):
            broken.append(f"{broker} -> {link.name}: {message}")

    network.tap = tap
    bob.unsubscribe("goes")
    network.run()
    assert broken == []


@pytest.mark.req("ARC-015", "ARC-016", "VIS-209", "AGG-021", "AGG-003", "AGG-012")
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_advertisement_and_subscription_converge_in_every_order(algorithm: str) -> None:
    for order in itertools.permutations(("advertise", "subscribe", "other advertises", "other subscribes")):
        for pause in (0, 0.002, 0.5):
            network = build(topologies.line(4), algorithm, True)
            left, right = network.add_client("left", "b01"), network.add_client("right", "b04")
            for step in order:
                match step:
                    case "advertise":
                        left.advertise("n > 0")
                    case "subscribe":
                        right.subscribe("n > 5")
                    case "other advertises":
                        right.advertise("n < 9")
                    case "other subscribes":
                        left.subscribe("n < 7")
                network.run(pause)
            network.run()
            left.publish(n=6)
            right.publish(n=6)
            network.run()
            assert len(right.received) == 2, order
            assert len(left.received) == 2, order
            assert broken_invariants(network) == []


@pytest.mark.req("ARC-016", "AGG-003", "AGG-008", "AGG-012", "VIS-209")
def test_subscriptions_go_only_where_an_advertisement_overlaps_and_leave_with_it() -> None:
    network = build(topologies.star(4), "covering", True)
    producer, reader = network.add_client("p", "b02"), network.add_client("r", "b03")
    network.add_client("q", "b04").advertise("n < 0")
    id = producer.advertise("n > 0")
    reader.subscribe("n > 10")
    network.run()

    def subscriptions_at(broker: str) -> int:
        return sum(1 for entry in network.brokers[broker].root.subscriptions if entry.link.is_broker)

    assert subscriptions_at("b02") == 1
    assert subscriptions_at("b04") == 0, "nobody there publishes what is wanted"
    producer.unadvertise(id)
    network.run()
    assert subscriptions_at("b02") == 0
    assert subscriptions_at("b01") == 0, "no producer is left anywhere"
    producer.advertise("n = 11")
    network.run()
    producer.publish(n=11)
    network.run()
    assert len(reader.received) == 1


# --- the golden test of the aggregation document --------------------------------------------------------


@pytest.mark.req("AGG-028", "AGG-008", "AGG-010", "AGG-011", "AGG-001")
def test_the_example_network_sends_exactly_the_messages_of_the_document() -> None:
    network = build(topologies.AGGREGATION, "covering", True)
    c1, c3, c4 = (network.clients[name] for name in ("c1", "c3", "c4"))
    counts = listen(network)

    def sent(name: str) -> int:
        network.run()
        return counts.pop(name, 0)

    c1.advertise("type = 't'")
    assert sent("Advertise") == 4
    c3.subscribe("type = 't'")
    assert sent("Subscribe") == 2
    c4.subscribe("type = 't'")
    assert sent("Subscribe") == 2, "the cover towards b1 has not changed"
    c1.publish(type="t")
    assert sent("Notify") == 4
    assert [len(client.received) for client in (c3, c4)] == [1, 1]
    assert counts["Unsubscribe"] == counts["Unadvertise"] == 0


def test_the_documents_topologies_route() -> None:
    shapes = (
        topologies.AGGREGATION,
        topologies.SCOPES,
        topologies.HISTORY,
        topologies.HISTORY_PAPER,
        topologies.HISTORY_EXPERIMENT,
        topologies.MOBILITY,
    )
    for shape in shapes:
        network = build(shape)
        clients = [network.add_client(f"z{broker}", broker) for broker in shape.borders]
        for client in clients:
            client.subscribe("TRUE")
        network.run()
        for client in clients:
            client.publish(n=1)
        network.run()
        assert all(len(client.received) == len(clients) for client in clients)
        assert check(network.trace) == []


# --- what an application may rely on --------------------------------------------------------------------


@pytest.mark.req("VIS-131")
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_client_gets_its_own_publications_unless_it_says_no(algorithm: str) -> None:
    network = build(topologies.line(2), algorithm)
    alice, bob = network.add_client("alice", "b01"), network.add_client("bob", "b02")
    alice.subscribe("n > 0", id="own")
    alice.subscribe("n > 0", id="others", receive_own=False)
    network.run()
    alice.publish(n=1)
    bob.publish(n=2)
    network.run()
    assert delivered(network.trace.records) == flat(network.trace.records)
    assert [n["n"] for n in alice.received] == [1, 2, 2]


@pytest.mark.req("VIS-127")
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_subscribing_again_changes_nothing_and_one_unsubscribe_ends_it(algorithm: str) -> None:
    network = build(topologies.line(2), algorithm)
    alice, bob = network.add_client("alice", "b01"), network.add_client("bob", "b02")
    for _ in range(3):
        bob.subscribe("n > 0", id="s")
    network.run()
    alice.publish(n=1)
    network.run()
    assert len(bob.received) == 1
    bob.unsubscribe("s")
    bob.unsubscribe("s")
    alice.publish(n=2)
    network.run()
    assert len(bob.received) == 1
    assert check(network.trace) == []
    for client in (alice, bob):
        client.detach()
    network.run()
    assert waste(network) == []


@pytest.mark.req("VIS-124")
def test_after_unsubscribe_has_returned_nothing_is_delivered() -> None:
    for seed in range(20):
        network = Network(seed)
        network.add_brokers("ab", links=["ab"])
        alice, bob = network.add_client("alice", "a"), network.add_client("bob", "b")
        id = bob.subscribe("TRUE")
        network.run()
        for number in range(20):
            alice.publish(n=number)
        network.run(0.001 * seed)
        bob.unsubscribe(id)
        before = len(bob.received)
        network.run()
        assert len(bob.received) == before


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_filter_that_changes_under_its_id_leaves_no_hole(algorithm: str) -> None:
    for seed in range(10):
        network = build(topologies.line(4), algorithm, seed=seed)
        alice, bob = network.add_client("alice", "b01"), network.add_client("bob", "b04")
        bob.subscribe("n BETWEEN 0 AND 10", id="s")
        network.run()
        rng = random.Random(seed)
        for number in range(40):
            if number % 4 == 0:
                bob.subscribe(f"n BETWEEN {rng.randint(0, 5)} AND {rng.randint(5, 9)}", id="s")
            alice.publish(n=5, at=number)
            network.run(rng.random() * 0.01)
        network.run()
        assert [n["at"] for n in bob.received] == list(range(40))
        assert broken_invariants(network) == []


class Odd:
    """A user's own filter class: it has only `matches`."""

    def matches(self, notification: object) -> bool:
        return notification["n"] % 2 == 1  # type: ignore[index,no-any-return]


@pytest.mark.req("ARC-019", "ARC-199")
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_filter_class_of_ones_own_is_routed_by_flooding_and_simple(algorithm: str) -> None:
    network = build(topologies.line(3), algorithm)
    alice, bob = network.add_client("alice", "b01"), network.add_client("bob", "b03")
    bob.subscribe(Odd())
    network.run()
    for number in range(4):
        alice.publish(n=number)
    network.run()
    if algorithm in ("flooding", "simple"):
        assert [n["n"] for n in bob.received] == [1, 3]
    else:
        assert [refusal.error for refusal in bob.refusals] == [UnsupportedFilter.__name__]
        assert "use routing = 'simple' or 'flooding'" in bob.refusals[0].reason


@pytest.mark.req("ARC-017", "VIS-116", "HIS-009")
def test_what_was_not_advertised_is_refused_and_goes_nowhere() -> None:
    network = build(topologies.line(2), "covering", True)
    alice, bob = network.add_client("alice", "b01"), network.add_client("bob", "b02")
    bob.subscribe("TRUE")
    alice.advertise("n > 0")
    network.run()
    alice.publish(n=1)
    alice.publish(n=0)
    network.run()
    assert [n["n"] for n in bob.received] == [1]
    assert [refusal.error for refusal in alice.refusals] == ["NotAdvertised"]
    assert check(network.trace, advertisements=True) == []


# --- shapes and roles -----------------------------------------------------------------------------------


@pytest.mark.req("ARC-002", "VIS-132", "AGG-004", "HIS-001")
def test_a_strict_network_refuses_a_link_that_closes_a_cycle() -> None:
    network = Network(strict_topology=True)
    network.add_brokers("abc", links=["ab", "bc"])
    network.run()
    with pytest.raises(TopologyError, match='would close a cycle, and topology is "strict"'):
        network.connect("c", "a")
    network.run()
    alice, bob = network.add_client("alice", "a"), network.add_client("bob", "c")
    bob.subscribe("TRUE")
    network.run()
    alice.publish(n=1)
    network.run()
    assert len(bob.received) == 1


@pytest.mark.req("VIS-132", "AGG-004")
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_network_with_cycles_forwards_over_a_tree(algorithm: str) -> None:
    for seed in range(5):
        network = build(topologies.meshed(7, 5, random.Random(seed)), algorithm)
        edges = set()
        for broker in network.brokers.values():
            assert set(broker.adjacency.tree.hops) == set(network.brokers) - {broker.name}
            edges |= {frozenset((broker.name, neighbour)) for neighbour in broker.adjacency.tree.neighbours}
        assert len(edges) == 6
        clients = [network.add_client(f"c{broker}", broker) for broker in network.brokers]
        for client in clients:
            client.subscribe("TRUE")
        network.run()
        clients[0].publish(n=1)
        network.run()
        assert all(len(client.received) == 1 for client in clients)


@pytest.mark.req("ARC-003", "VIS-201")
def test_inner_brokers_take_no_clients_and_a_client_has_one_broker() -> None:
    network = build(topologies.AGGREGATION)
    with pytest.raises(TopologyError, match="inner broker and takes no clients"):
        network.add_client("c9", "b4")
    with pytest.raises(TopologyError, match="attached to 'b1' already"):
        network.brokers["b1"].attach(Link("c1", next(iter(network.brokers["b1"].clients)).kind))
