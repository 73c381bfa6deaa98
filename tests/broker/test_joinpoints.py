"""Features: advice runs where it should, may do what it is allowed to, and costs nothing where there is none."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest

from tidings.broker import Advice, Broker, Feature, Joinpoint, Link, RoutingOptions
from tidings.model import FeatureError
from tidings.sim import Network
from tidings.wire import Envelope

UNUSED_WITHOUT_SCOPES = {Joinpoint.CROSS, Joinpoint.GRAPH}
WOVEN = [joinpoint for joinpoint in Joinpoint if joinpoint not in UNUSED_WITHOUT_SCOPES]
ADVISED = [joinpoint for joinpoint in WOVEN if joinpoint is not Joinpoint.PUBLISHED]
"""Those with a default to proceed to."""


class Watcher(Feature):
    """Observes every joinpoint and remembers what it saw."""

    def __init__(self, name: str = "watcher", priority: int = 0) -> None:
        self.name = name
        self.priority = priority
        self.seen: list[tuple[Joinpoint, tuple[Any, ...], Any]] = []

    def advice(self) -> Mapping[Joinpoint, Advice]:
        def watch(joinpoint: Joinpoint) -> Advice:
            def advice(proceed: Callable[..., Any], *arguments: Any) -> Any:
                result = proceed()
                self.seen.append((joinpoint, arguments, result))
                return result

            return advice

        def published(*arguments: Any) -> None:
            self.seen.append((Joinpoint.PUBLISHED, arguments, None))

        return {joinpoint: watch(joinpoint) for joinpoint in Joinpoint} | {Joinpoint.PUBLISHED: published}


class At(Feature):
    """One piece of advice at one joinpoint."""

    def __init__(
        self,
        joinpoint: Joinpoint,
        advice: Advice,
        *,
        name: str = "at",
        privileged: bool = False,
        fail_stop: bool = True,
    ) -> None:
        self.name = name
        self.privileged = privileged
        self.fail_stop = fail_stop
        self._advice = {joinpoint: advice}

    def advice(self) -> Mapping[Joinpoint, Advice]:
        return self._advice


def small_network(features: Callable[[str], Iterable[Feature]] = lambda name: (), **routing: Any) -> Network:
    options = RoutingOptions(**{"algorithm": "covering", "advertisements": True, **routing})
    network = Network(seed=1, routing=options, features=features)
    network.add_brokers("abc", links=["ab", "bc"])
    network.run()
    return network


def scripted_run(network: Network) -> None:
    """Uses everything that a client can do, and loses a link and a client."""
    alice, bob = network.add_client("alice", "a"), network.add_client("bob", "c")
    offer = alice.advertise("type = 'quote'")
    wide = bob.subscribe("type = 'quote' AND price > 100")
    network.run()
    narrow = bob.subscribe("type = 'quote' AND price > 150")
    alice.publish(type="quote", price=182.4)
    alice.publish(type="quote", price=82.4)
    network.run()
    bob.unsubscribe(wide)
    network.run()
    alice.publish(type="quote", price=160)
    network.run()
    bob.unsubscribe(narrow)
    alice.unadvertise(offer)
    network.run()
    network.cut("a", "b")
    network.run()
    network.heal("a", "b")
    network.run()
    bob.detach()
    network.run()


def frames_of(network: Network) -> list[tuple[str, str, object]]:
    frames: list[tuple[str, str, object]] = []
    network.tap = lambda name, link, frame: frames.append((name, link.name, frame))
    return frames


def come_and_go(network: Network, feature: Feature) -> None:
    """A client is away and comes back, and one inside the broker adopts what another has."""
    broker, context = network.brokers["a"], feature.context
    (link,) = (link for link in broker.clients if link.name == "alice")
    broker.away(link)
    broker.back(link)
    one, other = (context.open_client(name, lambda frame: None, "somebody") for name in ("one", "other"))
    context.adopt(one.link, other.link)
    for client in (one, other):
        client.close()
    network.run()


@pytest.mark.req("AGG-030")
def test_every_joinpoint_fires_with_its_arguments() -> None:
    watchers: dict[str, Watcher] = {}

    def watch(name: str) -> list[Feature]:
        watchers[name] = Watcher()
        return [watchers[name]]

    network = small_network(watch)
    scripted_run(network)
    come_and_go(network, watchers["a"])
    bob = network.clients["bob"]
    assert [n["price"] for n in bob.received] == [182.4, 182.4, 160]
    fired = Counter(joinpoint for watcher in watchers.values() for joinpoint, _, _ in watcher.seen)
    assert set(fired) == {*WOVEN}
    at_b = {joinpoint: arguments for joinpoint, arguments, _ in watchers["b"].seen}
    scope, entry = at_b[Joinpoint.SUB_ADD]
    assert (scope, entry.link.name) == ("", "c")
    assert str(entry.filter) == "price > 150 AND type = 'quote'"
    _route, envelope, source, targets = at_b[Joinpoint.PUB_SEND]
    assert (source.name, [link.name for link in targets]) == ("a", ["c"])
    assert envelope.notification["price"] == 160
    matched = [result for joinpoint, _, result in watchers["a"].seen if joinpoint is Joinpoint.PUB_MATCH]
    assert [[link.name for link in result] for result in matched] == [["b"], [], ["b"]], "unmatched events count, too"
    _, announcement, source, targets = at_b[Joinpoint.AD_SEND]
    assert (str(announcement.filter), source.name, [link.name for link in targets]) == ("type = 'quote'", "a", ["c"])


def test_acknowledgements_of_clients_pass_their_joinpoint() -> None:
    from tidings.wire import DeliverAck, Frame

    watcher = Watcher()
    network = Network(features=lambda name: [watcher])
    network.add_broker("a")
    alice = network.add_client("alice", "a")
    alice._send(Frame(DeliverAck("a", 1, 7)))
    network.run()
    assert [(arguments[0].name, arguments[1]) for jp, arguments, _ in watcher.seen if jp is Joinpoint.ACK] == [
        ("alice", ("a", 1, 7))
    ]


@pytest.mark.req("AGG-031")
def test_an_unadvised_joinpoint_is_the_plain_method() -> None:
    network = small_network()
    broker = network.brokers["a"]
    for joinpoint in ADVISED:
        step = getattr(broker, f"at_{joinpoint.label}")
        assert step.__self__ in (broker, broker.delivery, broker.entries, broker.registrations)
        assert step.__name__.removeprefix("_") == joinpoint.label


def frames_with(features: Callable[[str], Iterable[Feature]]) -> list[tuple[str, str, object]]:
    network = Network(seed=3, routing=RoutingOptions("covering", advertisements=True), features=features)
    frames = frames_of(network)
    network.add_brokers("abc", links=["ab", "bc"])
    network.run()
    scripted_run(network)
    return frames


@pytest.mark.req("AGG-031", "AGG-042")
def test_observers_change_no_frame_and_their_order_does_not_matter() -> None:
    plain = frames_with(lambda name: ())
    assert len(plain) > 80
    assert frames_with(lambda name: [Watcher()]) == plain
    assert frames_with(lambda name: [Watcher("x", 1), Watcher("y", 2)]) == plain
    assert frames_with(lambda name: [Watcher("x", 2), Watcher("y", 1)]) == plain


@pytest.mark.req("AGG-042")
def test_features_run_in_their_declared_order_unless_a_test_shuffles_them() -> None:
    order: list[str] = []

    def note(name: str, priority: int) -> Feature:
        def advice(proceed: Callable[..., Any], link: Link) -> None:
            order.append(name)
            return proceed()

        feature = At(Joinpoint.ATTACH, advice, name=name)
        feature.priority = priority
        return feature

    class World:
        epoch, log = 1, None

        def send(self, link: Link, frame: object) -> None: ...
        def send_all(self, links: object, frame: object) -> None: ...
        def now(self) -> int:
            return 0

        def call_later(self, delay: int, action: object) -> Any: ...

    def run(shuffle: Callable[[list[Feature]], None] | None) -> list[str]:
        order.clear()
        from tidings.broker import LinkKind

        features = [note("c", 0), note("a", 1), note("b", 0)]
        Broker("x", World(), features=features, shuffle=shuffle).attach(Link("client", LinkKind.CLIENT))
        return list(order)

    assert run(None) == ["b", "c", "a"]
    seen = {tuple(run(random.Random(seed).shuffle)) for seed in range(40)}
    assert len(seen) == 6, "every order is tried by some seed"


def test_two_features_of_one_name_are_refused() -> None:
    with pytest.raises(FeatureError, match="two features are named 'watcher'"):
        small_network(lambda name: [Watcher(), Watcher()])


def deliveries_with(feature: Feature) -> tuple[list[Any], Network]:
    network = small_network(lambda name: [feature] if name == "c" else [], advertisements=False)
    alice, bob = network.add_client("alice", "a"), network.add_client("bob", "c")
    bob.subscribe("price > 100")
    network.run()
    alice.publish(price=182)
    network.run()
    return [n["price"] for n in bob.received], network


@pytest.mark.req("AGG-032", "AGG-033", "AGG-035")
def test_privileged_advice_may_replace_the_result_of_the_default() -> None:
    def nobody(proceed: Callable[..., Any], *arguments: Any) -> dict[Link, list[Any]]:
        assert len(proceed()) == 1, "the default can be called, and answers as always"
        return {}

    assert deliveries_with(At(Joinpoint.PUB_MATCH, nobody, privileged=True))[0] == []


@pytest.mark.req("AGG-035")
def test_advice_without_the_privilege_changes_nothing() -> None:
    def nobody(proceed: Callable[..., Any], *arguments: Any) -> dict[Link, list[Any]]:
        return {}

    assert deliveries_with(At(Joinpoint.PUB_MATCH, nobody))[0] == [182]


@pytest.mark.req("AGG-033")
def test_privileged_advice_may_keep_a_subscription_from_the_neighbours() -> None:
    def keep(proceed: Callable[..., Any], scope: str, entry: Any) -> dict[Link, Any]:
        proceed()
        return {}

    assert deliveries_with(At(Joinpoint.SUB_ADD, keep, privileged=True))[0] == []


@pytest.mark.req("AGG-034")
def test_a_result_of_the_wrong_type_is_a_failure_of_the_feature() -> None:
    def wrong(proceed: Callable[..., Any], *arguments: Any) -> Any:
        proceed()
        return 7

    with pytest.raises(FeatureError, match=r"'at' returned int at PUB_MATCH, which needs dict"):
        deliveries_with(At(Joinpoint.PUB_MATCH, wrong, privileged=True))
    received, network = deliveries_with(At(Joinpoint.PUB_MATCH, wrong, privileged=True, fail_stop=False))
    assert received == [182]
    assert network.brokers["c"].failures.by_feature == {"at": 1}


@pytest.mark.req("AGG-043")
@pytest.mark.parametrize("when", ["before", "after", "instead"])
@pytest.mark.parametrize("joinpoint", [jp for jp in WOVEN if jp is not Joinpoint.ACK])
def test_a_failure_in_tolerated_advice_never_affects_routing(joinpoint: Joinpoint, when: str) -> None:
    def fails(proceed: Callable[..., Any], *arguments: Any) -> Any:
        if when == "after":
            proceed()
        if when == "instead":
            proceed()
            proceed()
        raise RuntimeError("a bug in a feature")

    assert frames_with(lambda name: [At(joinpoint, fails, fail_stop=False)]) == frames_with(lambda name: [])


def test_a_failure_in_a_fail_stop_feature_stops_the_broker() -> None:
    def fails(proceed: Callable[..., Any], *arguments: Any) -> Any:
        raise RuntimeError("a bug in a feature")

    with pytest.raises(FeatureError, match=r"feature 'at' failed at SUB_ADD: RuntimeError\('a bug in a feature'\)"):
        deliveries_with(At(Joinpoint.SUB_ADD, fails))


def test_the_default_runs_at_most_once() -> None:
    def twice(proceed: Callable[..., Any], *arguments: Any) -> Any:
        proceed()
        return proceed()

    with pytest.raises(FeatureError, match="'at' proceeded twice at SUB_ADD"):
        deliveries_with(At(Joinpoint.SUB_ADD, twice))


@pytest.mark.req("AGG-036", "AGG-037", "AGG-038", "AGG-039")
def test_a_feature_has_messages_timers_and_state_of_its_own() -> None:
    class Gossip(Feature):
        """Every second, tells its neighbours how many subscriptions it has seen come, and sums what it hears."""

        name = "gossip"

        def __init__(self) -> None:
            self.count = 0
            self.rounds = 0
            self.heard: Counter[str] = Counter()

        def advice(self) -> Mapping[Joinpoint, Advice]:
            return {Joinpoint.SUB_ADD: self.on_subscription, Joinpoint.LINK: self.on_link}

        def on_link(self, proceed: Callable[..., Any], link: Link, up: bool) -> None:
            proceed()
            self.context.call_later(1_000_000, self.tell)

        def on_subscription(self, proceed: Callable[..., Any], scope: str, entry: Any) -> Any:
            result = proceed()
            self.count += not entry.link.is_broker
            assert entry in self.context.subscriptions, "the state of the broker can be read"
            return result

        def tell(self) -> None:
            for link in self.context.neighbours:
                self.context.send(link, str(self.count).encode())

        def on_message(self, link: Link, body: bytes) -> None:
            self.heard[link.name] += int(body)

    network = Network(seed=1, features=lambda name: [Gossip()])
    network.add_brokers("abc", links=["ab", "bc"])
    for n in range(3):
        network.add_client(f"client{n}", "a").subscribe(f"n = {n}")
    network.run()
    gossip = network.brokers["b"].features["gossip"]
    assert isinstance(gossip, Gossip)
    assert gossip.heard == {"a": 3, "c": 0}


@pytest.mark.req("AGG-040", "AGG-041")
def test_attachments_ride_along_and_reach_only_their_own_feature() -> None:
    class Rider(Feature):
        """Attaches its own name to every subscription it sends on."""

        def __init__(self, name: str) -> None:
            self.name = name
            self.got: list[bytes] = []
            self.subscriptions = 0

        def advice(self) -> Mapping[Joinpoint, Advice]:
            return {Joinpoint.SUB_SEND: self.send, Joinpoint.SUB_ADD: self.add}

        def on_attached(self, link: Link, data: bytes) -> None:
            self.got.append(data)

        def send(self, proceed: Callable[..., Any], scope: str, announcement: Any, source: Link, targets: Any) -> None:
            for link in targets:
                self.context.attach(link, f"{self.name} at {self.context.name}".encode())
            proceed()

        def add(self, proceed: Callable[..., Any], scope: str, entry: Any) -> Any:
            self.subscriptions += 1
            return proceed()

    # b has only one of the features, c none of them: those who do not know an attachment ignore it.
    has = {"a": ["one", "two"], "b": ["two"], "c": []}
    network = Network(seed=1, features=lambda name: [Rider(rider) for rider in has[name]])
    network.add_brokers("abc", links=["ab", "bc"])
    network.run()
    frames = frames_of(network)
    alice, carol = network.add_client("alice", "a"), network.add_client("carol", "c")
    alice.subscribe("price > 100")
    carol.subscribe("price > 200")
    network.run()
    carol.publish(price=300)
    network.run()
    assert len(alice.received) == len(carol.received) == 1
    two_at_b = network.brokers["b"].features["two"]
    assert isinstance(two_at_b, Rider)
    assert two_at_b.got == [b"two at a"], "carol's came from a broker without the feature"
    assert two_at_b.subscriptions == 2
    at_a = {name: feature.got for name, feature in network.brokers["a"].features.items()}  # type: ignore[attr-defined]
    assert at_a == {"one": [], "two": [b"two at b"]}
    attached = [frame.hop.attachments for _, _, frame in frames if frame.hop.attachments]  # type: ignore[attr-defined]
    assert {"one": b"one at a", "two": b"two at a"} in attached, "one map, keyed by feature"
    assert all("at a" not in str(entry) or "two at b" not in str(entry) for entry in attached), "never forwarded as is"


def test_an_attachment_that_finds_no_message_is_dropped() -> None:
    class Eager(Feature):
        name = "eager"
        privileged = True

        def advice(self) -> Mapping[Joinpoint, Advice]:
            return {Joinpoint.PUB_SEND: self.send}

        def send(self, proceed: Callable[..., Any], route: Any, envelope: Any, source: Link, targets: Any) -> None:
            for link in self.context.neighbours:
                self.context.attach(link, b"x")
            # and suppresses the sending

    network = Network(seed=1, features=lambda name: [Eager()])
    network.add_brokers("ab", links=["ab"])
    network.run()
    alice, bob = network.add_client("alice", "a"), network.add_client("bob", "b")
    bob.subscribe("price > 100")
    network.run()
    frames = frames_of(network)
    alice.publish(price=200)
    alice.subscribe("price > 500")
    network.run()
    assert frames
    assert not any(frame.hop.attachments for _, _, frame in frames)  # type: ignore[attr-defined]


def test_an_oversized_attachment_is_refused() -> None:
    class Heavy(At):
        pass

    def heavy(proceed: Callable[..., Any], scope: str, announcement: Any, source: Link, targets: Any) -> None:
        feature.context.attach(targets[0], b"x" * 100_000)

    feature = Heavy(Joinpoint.SUB_SEND, heavy)
    with pytest.raises(FeatureError, match="100,000 bytes as an attachment, which is too large"):
        deliveries_with(feature)


# --- weaving while the broker runs --------------------------------------------------------------------


class Counting(Feature):
    """Counts steps, from when it is told to until it is told to stop."""

    name = "counting"
    fail_stop = False

    def __init__(self) -> None:
        self.counts: Counter[Joinpoint] = Counter()

    def count(self, *joinpoints: Joinpoint) -> None:
        self.context.weave({joinpoint: self._counter(joinpoint) for joinpoint in joinpoints})

    def stop(self, *joinpoints: Joinpoint) -> None:
        self.context.unweave(*joinpoints)

    def _counter(self, joinpoint: Joinpoint) -> Callable[..., Any]:
        def observe(*arguments: Any) -> None:
            self.counts[joinpoint] += 1

        def advise(proceed: Callable[..., Any], *arguments: Any) -> Any:
            self.counts[joinpoint] += 1
            return proceed()

        return observe if joinpoint is Joinpoint.PUBLISHED else advise


def counting_network() -> tuple[Network, Counting]:
    counting = Counting()
    network = Network(features=lambda name: [counting])
    network.add_broker("a")
    alice = network.add_client("alice", "a")
    alice.subscribe("price EXISTS")
    network.run()
    return network, counting


@pytest.mark.req("AGG-044")
def test_a_feature_weaves_and_unweaves_and_leaves_the_plain_method_behind() -> None:
    network, counting = counting_network()
    broker, alice = network.brokers["a"], network.clients["alice"]
    plain = broker.at_pub_match, broker.at_deliver, broker.at_published
    counting.count(Joinpoint.PUB_MATCH, Joinpoint.DELIVER, Joinpoint.PUBLISHED)
    network.run()
    alice.publish(price=1)
    network.run()
    assert counting.counts == {Joinpoint.PUB_MATCH: 1, Joinpoint.DELIVER: 1, Joinpoint.PUBLISHED: 1}
    counting.stop(Joinpoint.PUB_MATCH, Joinpoint.DELIVER, Joinpoint.PUBLISHED)
    network.run()
    alice.publish(price=2)
    network.run()
    assert counting.counts.total() == 3
    assert (broker.at_pub_match, broker.at_deliver, broker.at_published) == plain
    assert broker.delivery.lanes.plain
    assert [one["price"] for one in alice.received] == [1, 2]


@pytest.mark.req("AGG-044")
@pytest.mark.parametrize("begins", [True, False])
def test_one_message_never_meets_two_weavings(begins: bool) -> None:
    """Whoever weaves in the middle of a turn sees none of its later steps, and whoever unweaves sees all of them."""
    network, counting = counting_network()
    alice = network.clients["alice"]
    steps = (Joinpoint.PUB_SEND, Joinpoint.DELIVER)
    if not begins:
        counting.count(*steps)

    def in_the_middle(proceed: Callable[..., Any], *arguments: Any) -> Any:
        if begins:
            counting.count(*steps)
        else:
            counting.stop(*steps)
        return proceed()

    counting.context.weave({Joinpoint.PUB_MATCH: in_the_middle})
    network.run()
    alice.publish(price=1)
    network.run()
    counting.context.unweave(Joinpoint.PUB_MATCH)
    network.run()
    assert counting.counts == ({} if begins else dict.fromkeys(steps, 1))
    alice.publish(price=2)
    network.run()
    assert counting.counts == dict.fromkeys(steps, 1)
    assert [one["price"] for one in alice.received] == [1, 2]


def published_with(feature: Callable[[], Feature]) -> tuple[list[Any], Network]:
    """What arrives of one publication where every broker has a feature."""
    network = small_network(lambda name: [feature()], advertisements=False)
    alice, bob = network.add_client("alice", "a"), network.add_client("bob", "c")
    bob.subscribe("price > 100")
    network.run()
    alice.publish(price=182)
    network.run()
    return [one["price"] for one in bob.received], network


def test_an_observer_of_publications_sees_each_once_in_the_network_and_changes_nothing() -> None:
    seen: list[tuple[str, str, float]] = []

    class Observing(Feature):
        name = "observing"

        def advice(self) -> dict[Joinpoint, Callable[..., Any]]:
            def published(envelope: Envelope, link: Link) -> str:
                seen.append((self.context.name, link.name, float(str(envelope.notification["price"]))))
                return "what it returns does not matter"

            return {Joinpoint.PUBLISHED: published}

    received, _ = published_with(Observing)
    assert received == [182]
    assert seen == [("a", "alice", 182)]


@pytest.mark.parametrize("fail_stop", [True, False])
def test_an_observer_that_fails_is_counted_or_stops_the_broker(fail_stop: bool) -> None:
    def broken(*arguments: Any) -> None:
        raise ValueError("broken")

    def feature() -> Feature:
        return At(Joinpoint.PUBLISHED, broken, fail_stop=fail_stop)

    if fail_stop:
        with pytest.raises(FeatureError, match="feature 'at' failed as an observer: ValueError"):
            published_with(feature)
    else:
        received, network = published_with(feature)
        assert received == [182]
        assert sum(broker.failures.by_feature.get("at", 0) for broker in network.brokers.values()) == 1
