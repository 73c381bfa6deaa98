"""Counts in scopes: whose numbers cross which border, who may ask, and what is withheld."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from tidings.aggregation import Aggregation, AggregationOptions
from tidings.aggregation.messages import FEATURE, Ask, Declined, Result, Told, Watch, decode, encode
from tidings.broker import Link, LinkKind
from tidings.model import Filter
from tidings.scopes import (
    OPEN,
    AnyChange,
    CreateScope,
    DestroyScope,
    Interface,
    Join,
    Leave,
    Placement,
    Scopes,
    SetAdministration,
    SetInterface,
    edge_mapping,
    mapping,
)
from tidings.scopes.steps import Convert
from tidings.sim import Network
from tidings.sim._aggregates import broken_aggregates, kept_aggregates
from tidings.wire import Extension, Frame

SILENT = Interface.parse(input="TRUE", output="type = 'alarm'")
"""Lets everything in, and alarms out; no counts."""
TELLING = Interface.parse(input="TRUE", output="type IN ('alarm', 'tidings.count')")


def house(*changes: AnyChange, options: AggregationOptions | None = None, clients: Iterable[str] = "abcde") -> Network:
    """Brokers 1 - 2 - 3 - 4, the authority at 1; client a at 1, b and d at 2, c and e at 3."""
    network = Network(3, features=lambda name: [Scopes("1"), *([Aggregation(options)] if options else [Aggregation()])])
    network.add_brokers("1234", links=["12", "23", "34"])
    places = {"a": "1", "b": "2", "c": "3", "d": "2", "e": "3"}
    for client in clients:
        network.add_client(client, places[client])
    network.add_client("boss", "4")
    network.run()
    network.change("1", changes)
    network.run()
    return network


def told(network: Network, client: str = "boss", id: str = "w1") -> object:
    assert broken_aggregates(network) == []
    last = network.clients[client].watches[id].last
    assert last is not None
    assert last.complete
    return last.value


def subscribe(network: Network, clients: str, filter: str = "price > 5") -> None:
    for client in clients:
        network.clients[client].subscribe(filter, id="s")
    network.run()


def test_members_of_a_scope_count_in_it_and_nobody_else() -> None:
    network = house(CreateScope("market", OPEN), *(Join(f"@{client}", "market") for client in "abc"))
    subscribe(network, "abcde")
    boss = network.clients["boss"]  # at a broker that does not carry the scope
    boss.watch("subscriber_count", "price > 3", scope="market")
    boss.watch("subscriber_count", "price > 3")
    network.run()
    assert (told(network), told(network, id="w2")) == (3, 2)
    network.change("1", (Leave("@a", "market"), Join("@d", "market"), Join("@e", "market")))
    network.run()
    assert (told(network), told(network, id="w2")) == (4, 0)
    boss.unwatch("w1")
    boss.unwatch("w2")
    network.run()
    assert kept_aggregates(network) == []


@pytest.mark.req("AGG-054", "AGG-055")
def test_only_brokers_that_carry_a_scope_or_lie_on_the_way_hear_of_it() -> None:
    network = house(CreateScope("market", OPEN), Join("@b", "market"), Join("@c", "market"))
    network.clients["b"].watch("subscriber_count", scope="market")
    network.run()
    states = {name: len(broker.features["aggregation"].engine.states) for name, broker in network.brokers.items()}  # type: ignore[attr-defined]
    assert states == {"1": 0, "2": 1, "3": 1, "4": 0}


@pytest.mark.parametrize(("border", "count"), [(TELLING, 3), (SILENT, 1)])
def test_a_subscope_counts_if_its_border_lets_counts_pass(border: Interface, count: int) -> None:
    network = house(
        CreateScope("market", OPEN),
        CreateScope("floor", border),
        Join("floor", "market"),
        Join("@a", "market"),
        Join("@b", "floor"),
        Join("@c", "floor"),
    )
    subscribe(network, "abc")
    network.clients["boss"].watch("subscriber_count", "price > 3", scope="market")
    network.clients["boss"].watch("subscriber_count", "price > 3", scope="floor")
    network.run()
    assert (told(network), told(network, id="w2")) == (count, 2)
    network.change("1", (SetInterface("floor", TELLING if border is SILENT else SILENT),))
    network.run()
    assert told(network) == 4 - count


def test_a_key_crosses_a_mapped_edge_as_subscriptions_do() -> None:
    euros = edge_mapping(outward=mapping(Convert("price", 100)), inward=mapping(Convert("price", 0.01)))
    network = house(
        CreateScope("floor", OPEN),
        CreateScope("customers", OPEN),
        Join("customers", "floor", mapping=euros),
        *(Join(f"@{client}", "customers") for client in "abc"),
    )
    for client, least in (("a", 5), ("b", 50), ("c", 500)):
        network.clients[client].subscribe(f"price > {least}")
    network.clients["boss"].watch("subscriber_count", "price < 6000", scope="floor")  # cents
    network.clients["boss"].watch("subscriber_count", "price < 60", scope="customers")
    network.clients["boss"].watch("subscriber_count", probe={"price": 10_000}, scope="floor")
    network.run()
    assert [told(network, id=id) for id in ("w1", "w2", "w3")] == [2, 2, 2]


def test_a_client_that_is_seen_by_two_ways_counts_once_and_so_does_its_subscription() -> None:
    network = house(
        *(CreateScope(name, OPEN) for name in ("top", "left", "right")),
        Join("left", "top"),
        Join("right", "top"),
        Join("@a", "left"),
        Join("@a", "right"),
    )
    subscribe(network, "a")
    network.clients["boss"].watch("subscriber_count", scope="top")
    network.clients["boss"].watch("subscription_count", scope="top")
    network.run()
    assert (told(network), told(network, id="w2")) == (1, 1)


def test_nothing_is_counted_across_a_gateway_and_a_question_says_so() -> None:
    network = house(
        CreateScope("market", OPEN),
        CreateScope("floor", OPEN),
        Join("floor", "market", placement=Placement.GATEWAY, gateway="2"),
        Join("@a", "market"),
        Join("@c", "floor"),
    )
    subscribe(network, "ac")
    boss = network.clients["boss"]
    boss.watch("subscriber_count", scope="market")
    asked = boss.watch("count() WINDOW 1s", scope="market", id="q")
    network.run()
    assert asked.declined is not None
    assert "over a gateway" in asked.declined.reason
    boss.unwatch("q")
    assert told(network) == 1


def test_a_scope_that_is_not_there_is_refused_and_one_that_ends_is_told_so() -> None:
    network = house(CreateScope("market", OPEN), Join("@a", "market"))
    boss = network.clients["boss"]
    nowhere = boss.watch("subscriber_count", scope="moon")
    there = boss.watch("subscriber_count", scope="market")
    network.run()
    assert nowhere.declined is not None
    assert "there is no scope 'moon'" in nowhere.declined.reason
    assert there.declined is None
    network.change("1", (DestroyScope("market", cascade=True),))
    network.run()
    assert there.declined is not None
    assert there.declined.error == "ScopeError"
    assert kept_aggregates(network) == []


def test_what_is_measured_in_a_scope_is_what_is_visible_there_in_its_form() -> None:
    euros = edge_mapping(outward=mapping(Convert("price", 100)))
    network = house(
        CreateScope("floor", OPEN),
        CreateScope("customers", Interface.parse(output="price > 1")),
        Join("customers", "floor", mapping=euros),
        Join("@a", "customers"),
        Join("@b", "floor"),
    )
    watches = [
        network.clients["boss"].watch("sum(price) WINDOW 1s", scope=scope, id=scope) for scope in ("floor", "customers")
    ]
    for _ in range(40):
        for client, price in (("a", 2), ("a", 1), ("b", 7), ("c", 1000)):
            network.clients[client].publish(price=price)
        network.run(0.1)
    network.run(3)
    assert not any(broker.failures.by_feature for broker in network.brokers.values())
    best = [max(float(one.value) for one in watch.results if one.complete) for watch in watches]
    assert best == [10 * (200 + 7), 10 * 3]


# --- who may ask --------------------------------------------------------------------------------------


class Guest:
    """A guard of somebody who may count in the root scope and in markets."""

    name = "guest"
    administer = False

    def may_count(self, scope: str) -> bool:
        return scope in ("", "market")

    def check_publish(self, notification: object) -> None: ...

    def check_subscribe(self, filter: object) -> None: ...

    def check_advertise(self, filter: object) -> None: ...


class Door:
    """A client of broker 1 with a guard."""

    def __init__(self, network: Network, name: str = "guest") -> None:
        self.network, self.heard = network, list[Result | Declined]()
        self.link = Link(name, LinkKind.CLIENT, Guest())
        door = self

        class Way:
            def send(self, frame: Frame) -> None:
                assert isinstance(frame.message, Extension)
                door.heard.append(decode(frame.message.body))  # type: ignore[arg-type]

            def cut(self) -> None: ...

        network.runtime("1").pipes[self.link] = Way()  # type: ignore[assignment]
        network.brokers["1"].attach(self.link)

    def ask(self, watch: Watch) -> None:
        self.network.brokers["1"].receive(self.link, Frame(Extension(FEATURE, encode(watch))))
        self.network.run()

    @property
    def results(self) -> list[tuple[object, bool]]:
        """What was told that was complete: the value, and whether it was withheld."""
        return [(one.value, one.withheld) for one in self.heard if isinstance(one, Result) and one.complete]

    @property
    def reason(self) -> str:
        (declined,) = [one for one in self.heard if isinstance(one, Declined)]
        return declined.reason


@pytest.mark.req("AGG-146")
def test_small_numbers_are_withheld_and_so_is_how_they_change() -> None:
    network = house(options=AggregationOptions(threshold=3))
    guest = Door(network)
    guest.ask(Watch("x", "subscriber_count", "price > 3"))
    assert guest.results == [(0, False)]
    for client in "abcde":
        subscribe(network, client)
    assert guest.results == [(0, False), (None, True), (3, False), (4, False), (5, False)]
    for client in "abcde":
        network.clients[client].unsubscribe("s")
        network.run()
    assert guest.results[-3:] == [(3, False), (None, True), (0, False)]


def test_one_client_with_many_subscriptions_is_not_told_as_a_large_number() -> None:
    network = house(options=AggregationOptions(threshold=3))
    for number in range(5):
        network.clients["a"].subscribe("price > 5", id=f"s{number}")
    network.run()
    guest, boss = Door(network), network.clients["boss"].watch("subscription_count", "price > 3")
    guest.ask(Watch("x", "subscription_count", "price > 3"))
    assert "'guest' may not measure what clients do in the root scope, only count them" in guest.reason
    assert boss.last is not None
    assert boss.last.value == 5


def test_the_number_of_brokers_is_about_no_client_and_never_withheld() -> None:
    network = house(options=AggregationOptions(threshold=100))
    guest = Door(network)
    guest.ask(Watch("x", "broker_count"))
    assert guest.results == [(4, False)]


def test_a_bound_does_not_show_what_is_withheld() -> None:
    network = house(options=AggregationOptions(threshold=3))
    subscribe(network, "ab")
    guest = Door(network)
    guest.ask(Watch("x", "subscriber_count", "price > 3", max_error=10))
    assert guest.results == [(None, True)]


def test_whoever_has_no_right_in_a_scope_does_not_even_learn_whether_there_is_one() -> None:
    network = house(CreateScope("market", OPEN), CreateScope("secret", OPEN), Join("@a", "market"))
    allowed, denied, unknown = Door(network), Door(network, "guest/2"), Door(network, "guest/3")
    allowed.ask(Watch("x", "subscriber_count", scope="market"))
    denied.ask(Watch("x", "subscriber_count", scope="secret"))
    unknown.ask(Watch("x", "subscriber_count", scope="moon"))
    assert allowed.results == [(0, False)]
    assert denied.reason.replace("secret", "moon") == unknown.reason
    assert "'guest' may not count in scope 'secret'" in denied.reason


def test_administrators_of_a_scope_count_in_it_and_below_without_a_threshold() -> None:
    network = house(CreateScope("secret", OPEN), Join("@a", "secret"), SetAdministration("secret", ("guest",)))
    subscribe(network, "a")
    guest = Door(network)
    guest.ask(Watch("x", "subscriber_count", scope="secret"))
    assert guest.results == [(1, False)]


def test_a_member_may_measure_what_it_could_hear_and_others_may_not() -> None:
    network = house(CreateScope("market", OPEN), Join("@guest", "market"))
    member, stranger = Door(network), Door(network, "guest/2")
    question = Watch("x", "count() WINDOW 1s WHERE type = 'load'", scope="market")
    network.brokers["1"].receive(member.link, Frame(Extension(FEATURE, encode(question))))
    network.run(5)
    assert member.results
    stranger.heard.clear()
    network.brokers["1"].receive(stranger.link, Frame(Extension(FEATURE, encode(question))))
    network.run(1)
    assert "'guest' may not measure what is published in scope 'market'" in stranger.reason


def test_an_identity_may_ask_only_so_often_in_a_minute() -> None:
    network = house(options=AggregationOptions(requests_per_minute=3))
    guest, twin = Door(network), Door(network, "guest/2")
    for number in range(3):
        (guest if number else twin).ask(Watch(f"w{number}", "subscriber_count"))
    guest.heard.clear()
    guest.ask(Watch("more", "subscriber_count"))
    assert "'guest' has asked 3 times within a minute" in guest.reason
    guest.heard.clear()
    network.run(60)
    guest.ask(Watch("later", "subscriber_count"))
    assert guest.results == [(0, False)]


def test_all_clients_of_an_identity_share_the_bound_on_watches() -> None:
    network = house(options=AggregationOptions(max_watches=2))
    guest, twin = Door(network), Door(network, "guest/2")
    guest.ask(Watch("one", "subscriber_count"))
    twin.ask(Watch("two", "subscriber_count"))
    guest.heard.clear()
    guest.ask(Watch("three", "subscriber_count"))
    assert "the clients of 'guest' may watch at most 2 values" in guest.reason


@pytest.mark.req("AGG-146")
def test_no_name_of_a_client_is_in_anything_that_brokers_tell_each_other() -> None:
    """A taint test: names that occur nowhere else are looked for in every message about aggregates."""
    network = house(CreateScope("market", OPEN), *(Join(f"@{client}", "market") for client in "abcde"))
    said: list[bytes] = []

    def note(broker: str, link: Link, frame: Frame) -> None:
        if link.is_broker:
            message, attached = frame.message, (frame.hop.attachments or {}).get(FEATURE, b"")
            said.extend([message.body] if isinstance(message, Extension) and message.feature == FEATURE else [])
            said.extend([attached] if attached else [])

    network.tap = note
    for number, broker in enumerate("1234"):
        marked = network.add_client(f"taint{number}-somebody", broker)
        marked.subscribe("price > 5", id=f"taint{number}-s")
        marked.watch("subscriber_count", "price > 3", id=f"taint{number}-w")
        marked.watch("count(), distinct(user) WINDOW 1s", id=f"taint{number}-q")
        marked.publish(user=f"taint{number}-user", price=7)
    network.clients["boss"].watch("subscriber_count", scope="market")
    network.run(5)
    assert len(said) > 20
    assert {type(decode(one)) for one in said} >= {Ask, Told}
    assert not [one for one in said if b"taint" in one]


def test_the_oracle_finds_out_a_count_that_crosses_a_closed_border(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidings.aggregation._places.lets_counts_pass", lambda passage: True)
    network = house(
        CreateScope("market", OPEN), CreateScope("floor", SILENT), Join("floor", "market"), Join("@a", "floor")
    )
    subscribe(network, "a")
    network.clients["boss"].watch("subscriber_count", Filter.parse("price > 3").__str__(), scope="market")
    network.run()
    assert broken_aggregates(network)
