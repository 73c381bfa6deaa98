"""Forwarding: who gets a notification, in groups with one frame, and who is left out of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tidings.broker import Entry, Feature, For, Joinpoint, Link, LinkKind
from tidings.broker.forwarding._targets import MAX_KNOWN, Forwarding
from tidings.history import Strict
from tidings.model import EVERYTHING, Route, last
from tidings.scopes import CreateScope, Join, Scopes
from tidings.sim import Network, SimClient, SimRuntime, Weather
from tidings.wire import Deliver, Envelope, Frame

SOURCE = Link("source", LinkKind.CLIENT)


def entries(*names: str, kind: LinkKind = LinkKind.CLIENT) -> list[Entry]:
    return [Entry(Link(name, kind), "s", EVERYTHING, public_id=name) for name in names]


def test_links_that_get_the_same_are_one_group() -> None:
    forwarding = Forwarding()
    clients, neighbours = entries("a", "b"), entries("x", "y", kind=LinkKind.BROKER)
    other = Entry(clients[0].link, "t", EVERYTHING, public_id="t")
    targets = forwarding.targets([*clients, *neighbours, other], SOURCE)
    assert {ids: [link.name for link in links] for ids, links in targets.groups.items()} == {
        ("s", "t"): ["a"],
        ("s",): ["b"],
        None: ["x", "y"],
    }


def test_a_notification_does_not_go_back_and_its_publisher_gets_it_if_it_wants_it() -> None:
    forwarding = Forwarding()
    (neighbour,) = entries("x", kind=LinkKind.BROKER)
    assert not forwarding.targets([neighbour], neighbour.link)
    (mine,) = entries("a")
    assert list(forwarding.targets([mine], mine.link)) == [mine.link]
    others = Entry(mine.link, "s", EVERYTHING, public_id="o", receive_own=False)
    assert not forwarding.targets([others], mine.link)


def test_what_was_found_once_is_found_again_for_the_same_source_only() -> None:
    forwarding = Forwarding()
    one, two = entries("a", "b"), entries("c")
    first = forwarding.targets(one, SOURCE)
    second = forwarding.targets(two, SOURCE)
    assert forwarding.targets(list(one), SOURCE) is first
    assert forwarding.targets(two, SOURCE) is second
    assert forwarding.targets(one, one[0].link) is not first


def test_what_is_remembered_is_bounded() -> None:
    forwarding = Forwarding()
    for _ in range(MAX_KNOWN + 10):
        forwarding.targets(entries("a"), SOURCE)
    assert len(forwarding._known) <= MAX_KNOWN


def test_targets_are_shared_so_nobody_may_change_them() -> None:
    targets = Forwarding().targets(entries("a", "b"), SOURCE)
    for change in (targets.clear, targets.popitem, lambda: targets.update({})):
        with pytest.raises(TypeError, match="targets are shared among notifications; make others"):
            change()
    with pytest.raises(TypeError):
        targets[SOURCE] = []


def test_a_link_that_is_left_out_leaves_its_group_and_the_others_stay() -> None:
    targets = Forwarding().targets(entries("a", "b", "c"), SOURCE)
    gone = next(iter(targets))
    rest = targets.without(frozenset({gone}))
    assert gone not in rest
    assert [link.name for links in rest.groups.values() for link in links] == ["b", "c"]
    assert targets.without(frozenset({gone})) is rest
    assert len(targets) == 3


# --- in a broker --------------------------------------------------------------------------------------


@contextmanager
def grouped(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[list[str]]]:
    """The names of the links that get the same frame, for each frame that brokers send to several at once."""
    seen: list[list[str]] = []
    send_all = SimRuntime.send_all

    def noted(self: SimRuntime, links: Iterable[Link], frame: Frame) -> None:
        if isinstance(frame.message, Deliver):
            seen.append(sorted(link.name for link in links))
        send_all(self, links, frame)

    with monkeypatch.context() as patch:
        patch.setattr(SimRuntime, "send_all", noted)
        yield seen


def listening(network: Network, *names: str) -> list[SimClient]:
    clients = [network.add_client(name, "a") for name in names]
    for client in clients:
        client.subscribe("n EXISTS")
    network.run()
    return clients


class At(Feature):
    name = "at"

    def __init__(self, joinpoint: Joinpoint) -> None:
        self._joinpoint = joinpoint
        self.calls = 0

    def advice(self) -> dict[Joinpoint, Callable[..., Any]]:
        def advice(proceed: Callable[..., Any], *arguments: Any) -> Any:
            self.calls += 1
            return proceed()

        return {self._joinpoint: advice}


@pytest.mark.parametrize("joinpoint", [Joinpoint.PUB_MATCH, Joinpoint.PUB_SEND])
def test_advice_at_matching_and_sending_leaves_groups_as_they_are(
    joinpoint: Joinpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    feature = At(joinpoint)
    network = Network(features=lambda name: [feature])
    network.add_broker("a")
    alice, *_ = listening(network, "alice", "bob", "carol")
    with grouped(monkeypatch) as groups:
        alice.publish(n=1)
        network.run()
    assert groups == [["alice", "bob", "carol"]]
    assert feature.calls == 1


def test_advice_at_delivery_is_called_for_each_client(monkeypatch: pytest.MonkeyPatch) -> None:
    feature = At(Joinpoint.DELIVER)
    network = Network(features=lambda name: [feature])
    network.add_broker("a")
    alice, *_ = listening(network, "alice", "bob", "carol")
    with grouped(monkeypatch) as groups:
        alice.publish(n=1)
        network.run()
    assert groups == []
    assert feature.calls == 3


class ForSome(Feature):
    """Advises what is handed to some clients, which may change at any time."""

    name = "for some"

    def __init__(self) -> None:
        self.links: set[Link] = set()
        self.got: list[tuple[str, int]] = []

    def advice(self) -> dict[Joinpoint, Callable[..., Any]]:
        return {Joinpoint.DELIVER: For(self.links, self._deliver)}

    def _deliver(self, proceed: Callable[..., Any], route: Route, envelope: Envelope, link: Link, _: Any) -> None:
        self.got.append((link.name, envelope.notification["n"]))
        proceed()


@pytest.mark.parametrize("scoped", [False, True])
def test_advice_at_delivery_for_one_client_leaves_the_others_in_their_group(
    scoped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    feature = ForSome()
    network = Network(features=lambda name: [feature, Scopes("a")])
    network.add_broker("a")
    clients = alice, *_ = listening(network, "alice", "bob", "carol")
    if scoped:
        network.change("a", (CreateScope("S"), *(Join(f"@{client.name}", "S") for client in clients)))
        network.run()
    with grouped(monkeypatch) as groups:
        alice.publish(n=1)
        network.run()
        (link,) = [link for link in network.brokers["a"].clients if link.name == "bob"]
        feature.links.add(link)
        alice.publish(n=2)
        network.run()
        feature.links.clear()
        alice.publish(n=3)
        network.run()
    everybody, others = ["alice", "bob", "carol"], ["alice", "carol"]
    assert groups == [everybody, *([] if scoped else [others]), everybody]
    assert feature.got == [("bob", 2)]
    assert all(numbers(client) == [1, 2, 3] for client in clients)


def numbers(client: SimClient) -> list[object]:
    return [notification["n"] for notification in client.received]


def test_privileged_advice_may_send_elsewhere() -> None:
    class Elsewhere(Feature):
        name = "elsewhere"
        privileged = True

        def advice(self) -> dict[Joinpoint, Callable[..., Any]]:
            def to_bob(proceed: Callable[..., Any], *arguments: Any) -> dict[Link, list[Entry]]:
                return {link: entries for link, entries in proceed().items() if link.name == "bob"}

            return {Joinpoint.PUB_MATCH: to_bob}

    network = Network(features=lambda name: [Elsewhere()])
    network.add_broker("a")
    alice, bob = listening(network, "alice", "bob")
    alice.publish(n=1)
    network.run()
    assert [len(client.received) for client in (alice, bob)] == [0, 1]


def test_what_waits_for_its_past_leaves_its_group_and_gets_it_later(monkeypatch: pytest.MonkeyPatch) -> None:
    network = Network(weather=Weather(latency=(1_000, 1_000)), features=lambda name: [Strict()])
    network.add_brokers("ab", links=["ab"])
    alice, bob = listening(network, "alice", "bob")
    late = network.add_client("late", "a")
    late.subscribe("n EXISTS", past=last(5))
    network.run(seconds=0.0005)  # the other broker has not answered yet
    with grouped(monkeypatch) as groups:
        alice.publish(n=1)
        network.run(seconds=0.0015)
        assert groups == [["alice", "bob"]]
        network.run()
    assert [[one["n"] for one in client.received] for client in (bob, late)] == [[1], [1]]


def test_what_one_origin_owes_one_subscription_diverts_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    network = Network(weather=Weather(latency=(1_000, 1_000)))
    network.add_brokers("abc", links=["ab", "bc"])
    publisher, other = network.add_client("publisher", "b"), network.add_client("other", "c")
    bob, carol = listening(network, "bob", "carol")
    for n in range(3):
        publisher.publish(n=n)
    network.run()
    broker = network.brokers["a"]
    (registration,) = broker.registrations.subscriptions(broker.client("bob") or SOURCE).values()
    broker.recovery._suspend("b", broker.progress.seen["b"], registration)
    with grouped(monkeypatch) as groups:
        publisher.publish(n=3)
        other.publish(n=4)
        network.run(seconds=0.01)
    assert groups == [["carol"], ["bob", "carol"]]
    broker.recovery.settled(registration)
    network.run()
    assert sorted(one["n"] for one in bob.received) == [0, 1, 2, 3, 4]
    assert [one["n"] for one in carol.received] == [0, 1, 2, 3, 4]
