"""The service as an application sees it: six operations, and nothing about anybody else."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import notifications

from tidings.broker import Link, LocalBroker, RoutingOptions
from tidings.broker._repetitions import Repetitions
from tidings.model import ROOT_ROUTE, EventKey, Identity, Notification
from tidings.sim import SAFETY, Network, Op, check, satisfies
from tidings.wire import Deliver, Envelope, Frame, Message, Publish, Quality, Refused, encode_body


def pair() -> Network:
    network = Network(2)
    network.add_brokers("ab", links=["ab"])
    network.add_client("alice", "a")
    network.add_client("bob", "b")
    network.run()
    return network


@pytest.mark.req("VIS-117", "ARC-004", "AGG-011", "AGG-012", "VIS-122")
def test_the_service_is_six_operations() -> None:
    network = Network(2, routing=RoutingOptions(advertisements=True))
    network.add_brokers("ab", links=["ab"])
    alice, bob = network.add_client("alice", "a"), network.add_client("bob", "b")
    advertisement = alice.advertise("n > 0")
    subscription = bob.subscribe("n > 1")
    network.run()
    alice.publish(n=2)
    network.run()
    bob.unsubscribe(subscription)
    alice.unadvertise(advertisement)
    network.run()
    assert bob.received == [Notification(n=2)]
    done = [(record.op, record.component) for record in network.trace.records]
    steps = [
        (Op.ADV, "alice"),
        (Op.SUB, "bob"),
        (Op.PUB, "alice"),
        (Op.NOTIFY, "bob"),
        (Op.UNSUB, "bob"),
        (Op.UNADV, "alice"),
    ]
    assert [step for step in done if step in steps] == steps


@pytest.mark.req("VIS-101")
def test_an_application_gets_notifications_not_messages_and_an_event_is_a_third_thing() -> None:
    network = pair()
    alice, bob = network.clients["alice"], network.clients["bob"]
    bob.subscribe("TRUE")
    network.run()
    alice.publish(n=1)
    network.run()
    assert [type(received) for received in bob.received] == [Notification]
    assert not issubclass(Notification, Message)
    keys = [EventKey(*record.detail[:3]) for record in network.trace.records if record.op is Op.ACK]
    assert keys == [EventKey("a", 1, 1)]


@pytest.mark.req("VIS-133")
@settings(max_examples=50)
@given(notifications(wild=True))
def test_what_arrives_is_what_was_published_and_nothing_else(notification: Notification) -> None:
    network = pair()
    network.clients["bob"].subscribe("TRUE")
    network.run()
    network.clients["alice"].publish(notification)
    network.run()
    (received,) = network.clients["bob"].received
    assert dict(received) == dict(notification)


@pytest.mark.parametrize("algorithm", ["flooding", "simple", "identity", "covering", "merging"])
def test_a_publisher_cannot_tell_whether_anybody_listens(algorithm: str) -> None:
    def what_alice_sees(listeners: int) -> list[Message]:
        network = Network(2, routing=RoutingOptions(algorithm))
        network.add_brokers("ab", links=["ab"])
        alice = network.add_client("alice", "a")
        for number in range(listeners):
            network.add_client(f"bob{number}", "ab"[number % 2]).subscribe("n > 0")
        network.run()
        seen: list[Message] = []

        def tap(broker: str, link: Link, frame: Frame) -> None:
            if link.name == "alice":
                seen.append(frame.message)

        network.tap = tap
        for quality in Quality:
            assert alice.publish(n=1, quality=quality) == int(quality) + 1
        network.run()
        return seen

    assert what_alice_sees(0) == what_alice_sees(5)


@pytest.mark.req("VIS-115")
def test_a_subscription_carries_what_the_application_adds() -> None:
    network = pair()
    network.clients["bob"].subscribe("n > 0", meta={"credential": "c0ffee", "until": "2026-12-31"})
    network.run()
    (entry,) = network.brokers["b"].root.subscriptions
    assert entry.meta == {"credential": "c0ffee", "until": "2026-12-31"}


@pytest.mark.req("VIS-103")
def test_several_notifications_may_describe_one_event() -> None:
    network = pair()
    network.clients["bob"].subscribe("event = 'e7'")
    network.run()
    network.clients["alice"].publish(event="e7", unit="celsius", value=30)
    network.clients["alice"].publish(event="e7", unit="fahrenheit", value=86)
    network.run()
    assert [received["unit"] for received in network.clients["bob"].received] == ["celsius", "fahrenheit"]


@pytest.mark.req("VIS-120")
@pytest.mark.parametrize("answering", [0, 1, 3])
def test_request_and_reply_without_names_can_be_built_on_it(answering: int) -> None:
    network = pair()
    alice = network.clients["alice"]
    servers = [network.add_client(f"server{number}", "b") for number in range(answering)]
    for server in servers:
        server.subscribe("request = 'time'")
    alice.subscribe("reply_to = 'q1'")
    network.run()
    alice.publish(request="time", ask="q1")
    network.run()
    for number, server in enumerate(servers):
        for request in server.received:
            server.publish(reply_to=request["ask"], value=number)
    network.run()
    assert sorted(int(str(reply["value"])) for reply in alice.received) == list(range(answering))


@pytest.mark.req("VIS-128")
def test_the_plain_specification_asks_for_no_order_and_the_stronger_promise_does() -> None:
    network = pair()
    network.clients["bob"].subscribe("TRUE")
    network.run()
    for number in range(2):
        network.clients["alice"].publish(n=number)
    network.run()
    records = list(network.trace.records)
    first, second = (at for at, record in enumerate(records) if record.op is Op.NOTIFY)
    records[first], records[second] = records[second], records[first]
    assert satisfies(records, SAFETY)
    assert [violation.guarantee for violation in check(records)] == ["publisher-order"]


# --- duplicates at the local broker ---------------------------------------------------------------------


def _deliveries(window: int, *numbers: int) -> tuple[list[int], LocalBroker]:
    got: list[int] = []
    local = LocalBroker("bob", lambda frame: None, duplicate_window=window)
    local.subscribe("TRUE", lambda notification: got.append(int(str(notification["n"]))), id="s")
    for number in numbers:
        notification = Notification(n=number)
        identity = Identity("a", 1, number, "alice", number, 0)
        envelope = Envelope.of(identity, (ROOT_ROUTE,), encode_body(notification), Quality.ACCEPTED, notification)
        local.receive(Frame(Deliver(envelope, ("s",))))
    return got, local


@pytest.mark.req("VIS-130", "ARC-007")
def test_a_second_copy_is_dropped_unless_the_check_is_off() -> None:
    assert _deliveries(8, 1, 2, 2, 1, 3)[0] == [1, 2, 3]
    assert _deliveries(8, 1, 2, 2, 1, 3)[1].duplicates == 2
    assert _deliveries(0, 1, 2, 2, 1, 3)[0] == [1, 2, 2, 1, 3]


@pytest.mark.req("VIS-130")
def test_what_is_remembered_of_deliveries_is_bounded() -> None:
    assert _deliveries(4, *range(1, 101))[0] == list(range(1, 101))


@pytest.mark.req("VIS-130")
@given(numbers=st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 12)), max_size=60), size=st.integers(1, 8))
def test_the_latest_deliveries_are_known_in_whatever_order_they_came(numbers: list[tuple[str, int]], size: int) -> None:
    repetitions, noted = Repetitions(size), []
    for publisher, number in numbers:
        known = repetitions.known(("s", publisher, 0), number)
        assert known or (publisher, number) not in noted[-size:]
        assert not known or (publisher, number) in noted
        if not known:
            noted.append((publisher, number))


@pytest.mark.parametrize("reference", ["9" * 5_000, "", "s1", "٣", "-1", "1.0"], ids=lambda text: text[:9])
def test_a_refusal_with_a_strange_reference_concerns_no_publication(reference: str) -> None:
    sent: list[Frame] = []
    local = LocalBroker("bob", sent.append)
    number = local.publish(Notification(n=1), quality=Quality.ACCEPTED)
    local.receive(Frame(Refused("StoreFull", "no room", reference)))
    sent.clear()
    local.announce()
    assert [frame.message.seq for frame in sent if isinstance(frame.message, Publish)] == [number]
    local.receive(Frame(Refused("StoreFull", "no room", str(number))))
    sent.clear()
    local.announce()
    assert sent == []
