"""What lanes are fed with although something is special about it: each frame is that of the Python lane."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pytest
from scopes.graph_world import node

from tidings import _native
from tidings.broker import Advice, Feature, For, Joinpoint, Link, RoutingOptions, Watch
from tidings.matching import Matcher, make_index
from tidings.model import Filter
from tidings.scopes import OPEN, CreateScope, Interface, Join, Mode, Scopes, SetInterface
from tidings.sim import Network, Weather
from tidings.wire import Envelope, Frame, Quality

pytestmark = pytest.mark.skipif(_native.engine is None, reason=f"there is no compiled engine: {_native.WHY_PURE}")

BROKERS = ("a", "b", "c")
PLACES = {"ann": "a", "amy": "a", "bob": "b", "ben": "b", "cid": "c"}
Story = Callable[[Network], object]
Features = Callable[[str], Iterable[Feature]]
Sent = tuple[int, str, str, Frame]


def played(
    story: Story, *, planes: bool, features: Features = lambda name: (), routing: RoutingOptions | None = None
) -> tuple[list[Sent], Network]:
    """Everything that three brokers in a row send while a story is played."""
    network = Network(3, routing=routing, weather=Weather(bursts=True), features=lambda name: [*features(name)])
    network.planes = planes
    sent: list[Sent] = []
    network.tap = lambda broker, link, frame: sent.append((network.scheduler.now, broker, link.name, frame))
    network.add_brokers(BROKERS, [("a", "b"), ("b", "c")])
    for client, broker in PLACES.items():
        network.add_client(client, broker)
    network.run()
    story(network)
    network.run()
    return sent, network


def share_of(story: Story, **options: Any) -> float:
    """How much of what passed the lanes the planes have taken; all frames are as without planes."""
    sent, network = played(story, planes=True, **options)
    reference, plain = played(story, planes=False, **options)
    for at, (one, other) in enumerate(zip(sent, reference, strict=False)):
        assert one == other, f"frame {at} differs"
    assert len(sent) == len(reference)
    assert counted(network) == counted(plain)
    lanes = [lane for broker in network.brokers.values() for lane in broker.delivery.lanes.all().values()]
    assert sum(lane.fed for broker in plain.brokers.values() for lane in broker.delivery.lanes.all().values()) == 0
    return sum(lane.fed for lane in lanes) / sum(lane.table.lookups for lane in lanes)


def counted(network: Network) -> list[object]:
    """What brokers have counted."""
    return [
        (name, scope, table.lookups, table.copies, dict(broker.statistics.sent), broker.publications.last)
        for name, broker in network.brokers.items()
        for scope, table in broker.scoping.tables.items()
    ]


def publish(network: Network, client: str, numbers: Iterable[int], **more: Any) -> None:
    """Publish many at once."""
    for n in numbers:
        network.clients[client].publish(n=n, quality=Quality.FIRE if n // 10 % 2 else Quality.ACCEPTED, **more)


def subscribed(network: Network) -> None:
    for client in ("amy", "bob", "ben", "cid"):
        network.clients[client].subscribe("n EXISTS" if client != "ben" else "n > 50", receive_own=False)
    network.run()


# --- advertisements ---------------------------------------------------------------------------------------


ADVERTISING = RoutingOptions(advertisements=True)


def test_what_was_advertised_is_fed() -> None:
    def story(network: Network) -> None:
        network.clients["ann"].advertise("n < 60 AND kind = 'a'")
        second = network.clients["ann"].advertise("n >= 60")
        subscribed(network)
        for begin in range(0, 100, 20):
            publish(network, "ann", range(begin, begin + 20), kind="a")
            network.run()
        network.clients["ann"].unadvertise(second)
        publish(network, "ann", range(55, 65), kind="a")
        network.run()
        network.clients["ann"].advertise("n > 90")  # and it has not settled yet
        publish(network, "ann", range(85, 95), kind="a")

    assert share_of(story, routing=ADVERTISING) > 0.8


def test_an_advertisement_speaks_for_every_element_of_a_list() -> None:
    def story(network: Network) -> None:
        network.clients["ann"].advertise("n EXISTS AND tags < 10")
        subscribed(network)
        publish(network, "ann", [1, 2], tags=[1, 2])
        publish(network, "ann", [3, 4], tags=[1, 20])
        publish(network, "ann", [5, 6], tags=[])
        publish(network, "ann", [7, 8], tags=3)
        network.run()
        passed = [one["n"] for one in network.clients["cid"].received]
        assert passed == [1, 2, 7, 8]

    share_of(story, routing=ADVERTISING)


# --- scopes -----------------------------------------------------------------------------------------------


def scoped(name: str) -> Iterable[Feature]:
    return [Scopes("a")]


def in_a_shop(network: Network, *, output: str, selective: Interface = OPEN) -> None:
    """Everybody but `cid` is a member of a scope that lets out what passes a filter."""
    changes = [
        CreateScope("shop", OPEN),
        *[Join(node(one), "shop", selective if one == "ann" else OPEN) for one in PLACES if one != "cid"],
        Join("shop", ""),
        SetInterface("shop", Interface.parse(input="n > 1000", output=output)),
    ]
    network.change("a", tuple(changes), Mode.RELAXED)
    network.run()
    subscribed(network)


def test_what_stays_in_its_scope_is_fed_and_what_leaves_it_is_not() -> None:
    def story(network: Network) -> None:
        in_a_shop(network, output="n >= 95")
        for begin in range(0, 100, 20):
            publish(network, "ann", range(begin, begin + 20))
            publish(network, "ben", range(begin, begin + 20))
            network.run()
        publish(network, "cid", range(990, 1_010))
        network.run()
        assert [one["n"] for one in network.clients["cid"].received if one["n"] < 900] == [*range(95, 100)] * 2
        assert {one["n"] for one in network.clients["ben"].received} >= {*range(51, 100), *range(1_001, 1_010)}

    assert share_of(story, features=scoped) > 0.7


def test_an_edge_of_a_client_that_is_a_filter_is_fed_what_passes_it() -> None:
    def story(network: Network) -> None:
        in_a_shop(network, output="FALSE", selective=Interface.parse(input="TRUE", output="n < 80"))
        for begin in range(0, 100, 10):
            publish(network, "ann", range(begin, begin + 10))
            network.run()
        assert [one["n"] for one in network.clients["bob"].received] == [*range(80)]

    assert share_of(story, features=scoped) > 0.7


def test_a_scope_that_lets_everything_out_says_why_it_is_not_fed() -> None:
    def story(network: Network) -> None:
        in_a_shop(network, output="TRUE")
        publish(network, "ann", range(20))
        network.run()
        lanes = network.brokers["a"].delivery.lanes.all()
        assert lanes["shop"].unfed in ("everything leaves its scope", "the engine is pure Python")

    assert share_of(story, features=scoped) == 0


def test_a_change_of_the_scope_in_the_middle_of_the_traffic_counts_for_what_follows() -> None:
    def story(network: Network) -> None:
        in_a_shop(network, output="n >= 95")
        for begin in range(0, 200, 10):
            publish(network, "ann", [n % 100 for n in range(begin, begin + 10)])
            if begin == 100:
                change = SetInterface("shop", Interface.parse(input="FALSE", output="n < 5"))
                network.change("a", (change,), Mode.RELAXED)
            network.run(0.002)

    share_of(story, features=scoped)


# --- riders -----------------------------------------------------------------------------------------------


class Rider(Feature):
    """Lets something ride to every neighbour, again whenever it has left."""

    name = "rider"

    def __init__(self, broker: str, times: int) -> None:
        self._broker = broker
        self._times = times
        self.heard: list[bytes] = []

    def neighbour_ready(self, link: Link) -> None:
        self.ride(link)

    def ride(self, link: Link) -> None:
        def produce() -> bytes | None:
            self._times -= 1
            if self._times > 0:
                self.ride(link)
            return None if self._times % 7 == 0 else f"{self._broker}{self._times}".encode()

        self.context.ride(link, produce, 500_000, lambda message: True)

    def on_attached(self, link: Link, data: bytes) -> None:
        self.heard.append(data)

    on_message = on_attached


@pytest.mark.parametrize("times", [1, 5, 1_000])
def test_who_has_something_to_ride_gets_the_same_with_another_tail(times: int) -> None:
    heard: list[list[bytes]] = []

    def story(network: Network) -> None:
        subscribed(network)
        for begin in range(0, 200, 40):
            publish(network, "ann", range(begin, begin + 40))
            publish(network, "cid", range(begin, begin + 40))
            network.run()
        riders = [broker.features["rider"] for broker in network.brokers.values()]
        heard.append([data for one in riders if isinstance(one, Rider) for data in one.heard])

    assert share_of(story, features=lambda name: [Rider(name, times)]) > 0.9
    assert heard[0] == heard[1]
    assert len(heard[0]) > times / 2


# --- observers --------------------------------------------------------------------------------------------


class Observer(Feature):
    """Observes what passes a filter, or everything."""

    name = "observer"

    def __init__(self, filter: str) -> None:
        self.index: Matcher[str] | None = None
        if filter:
            self.index = make_index()
            self.index.add(Filter.parse(filter), "it")
        self.calls = 0
        self.seen: list[tuple[int, Any, str]] = []

    def advice(self) -> Mapping[Joinpoint, Advice]:
        return {Joinpoint.PUBLISHED: Watch(self.observe, lambda: self.index)}

    def observe(self, envelopes: Sequence[Envelope], link: Link) -> None:
        self.calls += 1
        for one in envelopes:
            if self.index is None or self.index.match(one.notification):
                self.seen.append((one.identity.seq, one.notification["n"], link.name))


@pytest.mark.parametrize("filter", ["n BETWEEN 30 AND 33", "n IN (3, 7, 8, 60) OR n > 90", ""])
def test_what_observers_wait_for_is_handed_over_once_for_many(filter: str) -> None:
    observers: list[Observer] = []

    def story(network: Network) -> None:
        subscribed(network)
        for begin in range(0, 100, 20):
            publish(network, "ann", range(begin, begin + 20))
            network.run()
        observer = network.brokers["a"].features["observer"]
        assert isinstance(observer, Observer)
        observers.append(observer)

    assert share_of(story, features=lambda name: [Observer(filter)]) > 0.8
    by_bytes, one_by_one = observers
    assert by_bytes.seen == one_by_one.seen
    assert one_by_one.calls == 100
    assert by_bytes.calls < 40


class EachByItself(Feature):
    """Observes publications as they come."""

    name = "observer"

    def advice(self) -> Mapping[Joinpoint, Advice]:
        return {Joinpoint.PUBLISHED: lambda envelope, link: None}


def test_who_observes_each_by_itself_is_named_as_the_reason() -> None:
    def story(network: Network) -> None:
        subscribed(network)
        publish(network, "ann", range(10))
        network.run()
        lane = network.brokers["a"].delivery.lanes.all()[""]
        assert lane.unfed in ("publications are observed one by one", "the engine is pure Python")

    assert share_of(story, features=lambda name: [EachByItself()]) < 0.1


# --- who stands apart -------------------------------------------------------------------------------------


class Apart(Feature):
    """Advises DELIVER for some clients, which do not get everything."""

    name = "apart"
    privileged = True

    def __init__(self) -> None:
        self._links: set[Link] = set()
        self.got: list[int] = []

    def advice(self) -> Mapping[Joinpoint, Advice]:
        def attached(proceed: Callable[..., None], link: Link) -> None:
            proceed(link)
            if link.name in ("amy", "ben"):
                self._links.add(link)

        return {Joinpoint.ATTACH: attached, Joinpoint.DELIVER: For(self._links, self._deliver)}

    def _deliver(self, proceed: Callable[..., None], route: Any, envelope: Envelope, link: Link, some: Any) -> None:
        self.got.append(envelope.identity.seq)
        if envelope.identity.seq % 3:
            proceed(route, envelope, link, some)


@pytest.mark.parametrize("filter", ["n EXISTS", "n = 7 OR n = 19", "n > 30"])
def test_who_stands_apart_is_diverted_alone(filter: str) -> None:
    got: list[list[list[int]]] = []

    def story(network: Network) -> None:
        for client in ("amy", "bob", "ben", "cid"):
            network.clients[client].subscribe(filter if client in ("amy", "ben") else "n EXISTS")
        network.run()
        for begin in range(0, 60, 20):
            publish(network, "ann", range(begin, begin + 20))
            network.run()
        apart = [broker.features["apart"] for broker in network.brokers.values()]
        got.append([one.got for one in apart if isinstance(one, Apart)])

    assert share_of(story, features=lambda name: [Apart()]) > 0.8
    assert got[0] == got[1]
    assert got[0][0]
