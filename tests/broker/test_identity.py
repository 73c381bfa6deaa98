"""A publication has one identity and happens once; what is remembered to recognise a second copy is bounded."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tidings.broker import Link, LocalBroker
from tidings.broker._repetitions import Repetitions
from tidings.model import ROOT_ROUTE, AlreadyPublished, EventKey, Identity, Notification
from tidings.sim import Network, Op, Weather, delivered, flat
from tidings.wire import Deliver, Envelope, Frame, Publish, Quality, encode_body


@pytest.mark.req("VIS-102")
def test_every_publication_gets_a_key_that_no_other_has() -> None:
    """Three publishers at two brokers, all with the same contents; one of the brokers dies and comes back."""
    network = Network(1)
    network.add_brokers("ab", links=["ab"])
    publishers = [network.add_client(name, broker) for name, broker in (("x", "a"), ("y", "a"), ("z", "b"))]
    reader = network.add_client("reader", "b")
    seen: list[EventKey] = []

    def take(notification: Notification) -> None:
        identity = reader._local.delivering
        assert identity is not None
        seen.append(EventKey(identity.origin, identity.epoch, identity.seq))

    reader._local.subscribe("n > 0", take)
    network.run()
    for life in range(2):
        for _ in range(5):
            for publisher in publishers:
                publisher.publish(n=1)
        network.run()
        if not life:
            network.crash("a")
            network.run(seconds=1)
            network.restart("a")
            network.run()
    keys = [record.detail[:3] for record in network.trace.records if record.op is Op.ACK]
    assert len(keys) == len(set(keys)) == 2 * 5 * len(publishers)
    assert sorted(seen) == sorted(keys), "and whoever gets it knows it by that key"


@pytest.mark.req("MOB-010")
def test_the_numbers_of_a_publisher_grow_and_come_in_the_order_in_which_it_published() -> None:
    network = Network(5, weather=Weather((1, 20_000)))
    network.add_brokers("abcd", links=["ab", "bc", "cd"])
    publishers = [network.add_client(f"p{number}", broker) for number, broker in enumerate("aad")]
    network.add_client("reader", "c").subscribe("TRUE")
    network.run()
    came: dict[str, list[tuple[int, object]]] = {}

    def tap(broker: str, link: Link, frame: Frame) -> None:
        if isinstance(frame.message, Deliver):
            identity = frame.message.envelope.identity
            came.setdefault(identity.publisher, []).append(
                (identity.publisher_seq, frame.message.envelope.notification["n"])
            )

    network.tap = tap
    for n in range(30):
        for publisher in publishers:
            publisher.publish(n=n, quality=tuple(Quality)[n % 2])
        network.run(seconds=0.001)
    network.run()
    assert set(came) == {publisher.name for publisher in publishers}
    for ways in came.values():
        numbers = [number for number, _ in ways]
        assert all(one < two for one, two in pairwise(numbers)), "strictly increasing"
        assert [n for _, n in ways] == list(range(30)), "in the order of publishing"


@pytest.mark.req("VIS-102")
def test_what_is_handed_over_again_is_not_published_again() -> None:
    """An application is refused; what a local broker sends again is answered, and is what it was."""
    network = Network(1)
    network.add_brokers("ab", links=["ab"])
    alice, bob = network.add_client("alice", "a"), network.add_client("bob", "b")
    bob.subscribe("n > 0")
    network.run()
    local = alice._local
    assert local.publish({"n": 1}, seq=7) == 7
    network.run()
    for number in (7, 3):
        with pytest.raises(AlreadyPublished, match=f"'alice' has published number {number} already; the next is 8"):
            local.publish({"n": 2}, seq=number)
    for number in (7, 3):
        alice._send(Frame(Publish(number, encode_body({"n": 3}), Quality.ACCEPTED)))
    network.run()
    assert bob.received == [Notification(n=1)]
    assert network.brokers["a"].statistics.repeated_publications == 2
    assert network.brokers["a"].publications.last == 1


def sizes(repetitions: Repetitions) -> int:
    return sum(len(numbers) for part in (repetitions._younger, repetitions._older) for numbers in part.values())


@pytest.mark.req("VIS-130")
def test_what_is_remembered_of_deliveries_does_not_grow_with_them() -> None:
    size, publishers = 16, 3
    repetitions = Repetitions(size)
    for number in range(1, 50 * size):
        for publisher in range(publishers):
            assert not repetitions.known(("s", f"p{publisher}", 0), number)
        assert sizes(repetitions) <= 2 * (size + publishers), (
            "two generations, and the largest number of each publisher"
        )


@pytest.mark.req("VIS-130")
def test_publishers_that_only_repeat_themselves_are_forgotten_too() -> None:
    size = 16
    repetitions = Repetitions(size)
    for publisher in range(20 * size):
        assert not repetitions.known(("s", f"p{publisher}", 0), 1)
        for earlier in range(publisher):
            if any(("s", f"p{earlier}", 0) in part for part in (repetitions._younger, repetitions._older)):
                assert repetitions.known(("s", f"p{earlier}", 0), 1)
        assert sizes(repetitions) <= 2 * size


@pytest.mark.req("VIS-130")
def test_on_a_tree_of_reliable_links_nothing_has_to_be_remembered() -> None:
    network = Network(1, strict_topology=True)
    network.add_brokers("abcd", links=["ab", "bc", "bd"])
    clients = [network.add_client(f"c{number}", broker) for number, broker in enumerate("aabbccdd")]
    for client in clients:
        client._local._window = 0
        client.subscribe("n > 0")
        client.subscribe("n > 1")
    network.run()
    for n in range(5):
        for client in clients:
            client.publish(n=n)
        network.run()
    assert delivered(network.trace.records) == flat(network.trace.records)
    assert all(len(client.received) == len(clients) * (4 + 3) for client in clients)
    assert all(sizes(client._local._repetitions) == 0 for client in clients)


@pytest.mark.req("VIS-130")
def test_a_local_broker_remembers_no_more_than_its_window() -> None:
    got: list[object] = []
    local = LocalBroker("bob", lambda frame: None, duplicate_window=4)
    local.subscribe("TRUE", lambda notification: got.append(notification["n"]), id="s")

    def take(number: int) -> None:
        notification = Notification(n=number)
        identity = Identity(
            f"o{number}", 1, 1, "alice", number, 0
        )  # another origin each time: its own mark says nothing
        envelope = Envelope.of(identity, (ROOT_ROUTE,), encode_body(notification), Quality.ACCEPTED, notification)
        local.receive(Frame(Deliver(envelope, ("s",))))

    for number in range(1, 100):
        take(number)
    assert got == list(range(1, 100))
    assert sizes(local._repetitions) <= 2 * 4 + 1
