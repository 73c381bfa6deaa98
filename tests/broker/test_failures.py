"""A feature that fails, wherever the broker calls it: the broker stops, or counts it and goes on; never half of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import pytest

from tidings.broker import Advice, Feature, Joinpoint, Link, LinkKind, WaveKind
from tidings.model import EVERYTHING, FeatureError, TidingsError
from tidings.sim import Network, Weather
from tidings.wire import Extension, Frame, Refused, Subscribe, Wave

STILL = Weather(latency=(1_000, 1_000))
SOON = 50_000


def boom(*arguments: object) -> Any:
    raise ValueError("boom")


class Frail(Feature):
    """A feature with functions that a test replaces by such as fail."""

    name = "frail"

    def __init__(self, *, fail_stop: bool, name: str = "frail") -> None:
        self.fail_stop = fail_stop
        self.name = name
        self.heard: list[object] = []
        self.ended: list[tuple[bytes, bool]] = []

    def on_attached(self, link: Link, data: bytes) -> None:
        self.heard.append(data)

    def on_message(self, link: Link, body: bytes) -> None:
        self.heard.append(body)

    def wave_kinds(self) -> Mapping[str, WaveKind]:
        return {"kind": self}

    def visit(self, body: bytes, answer: Callable[[bytes | None], None]) -> None:
        answer(b"1")

    def combine(self, answers: list[bytes]) -> bytes:
        return b"".join(answers)

    def end(self, answer: bytes, complete: bool) -> None:
        self.ended.append((answer, complete))

    def link_to(self, neighbour: str) -> Link:
        return next(link for link in self.context.neighbours if link.name == neighbour)


def world(*, fail_stop: bool, names: tuple[str, ...] = ("frail",)) -> tuple[Network, dict[str, Frail]]:
    network = Network(weather=STILL, features=lambda broker: [Frail(fail_stop=fail_stop, name=name) for name in names])
    network.add_brokers("ab", links=["ab"])
    network.run()
    return network, frails(network)


def frails(network: Network, name: str = "frail") -> dict[str, Frail]:
    return {broker: one.features[name] for broker, one in network.brokers.items()}  # type: ignore[misc]


def rides(network: Network, a: Frail, b: Frail) -> None:
    a.context.ride(a.link_to("b"), boom, SOON)


def chooses(network: Network, a: Frail, b: Frail) -> None:
    a.context.ride(a.link_to("b"), lambda: b"x", SOON, boom)
    network.add_client("carrier", "a").subscribe("m > 0")


def says(network: Network, a: Frail, b: Frail) -> None:
    a.on_message = boom  # type: ignore[method-assign]
    b.context.send(b.link_to("a"), b"x")


def attaches(network: Network, a: Frail, b: Frail) -> None:
    a.on_attached = boom  # type: ignore[method-assign]
    b.context.ride(b.link_to("a"), lambda: b"x", SOON)
    network.add_client("carrier", "b").subscribe("m > 0")


def routes(network: Network, a: Frail, b: Frail) -> None:
    a.on_routed = boom  # type: ignore[method-assign]
    b.context.send_to("a", b"x")


def waits(network: Network, a: Frail, b: Frail) -> None:
    a.context.call_later(SOON, boom)


def weaves(network: Network, a: Frail, b: Frail) -> None:
    a.context.weave({}, boom)


def visits(network: Network, a: Frail, b: Frail) -> None:
    a.visit = boom  # type: ignore[method-assign]
    b.context.wave("kind", b"", b.end)


def combines(network: Network, a: Frail, b: Frail) -> None:
    a.combine = lambda answers: "text"  # type: ignore[method-assign,assignment,return-value]
    b.context.wave("kind", b"", b.end)


def ends(network: Network, a: Frail, b: Frail) -> None:
    a.context.wave("kind", b"", boom)


def receives(network: Network, a: Frail, b: Frail) -> None:
    client = a.context.open_client("inside", boom)
    client.send(Frame(Subscribe("all", EVERYTHING)))
    network.run(seconds=0.0001)
    network.add_client("innocent", "a").publish(n=-1)


def greets(network: Network, a: Frail, b: Frail) -> None:
    a.neighbour_ready = boom  # type: ignore[method-assign]
    network.cut("a", "b")
    network.run()
    network.heal("a", "b")


def sends_text(network: Network, a: Frail, b: Frail) -> None:
    a.context.call_later(0, lambda: a.context.send(a.link_to("b"), "text"))  # type: ignore[arg-type]


CALLS = [
    rides,
    chooses,
    says,
    attaches,
    routes,
    waits,
    weaves,
    visits,
    combines,
    ends,
    receives,
    greets,
    sends_text,
]


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.__name__)
def test_a_failure_of_a_feature_that_keeps_promises_stops_the_broker(call: Callable[..., None]) -> None:
    network, frail = world(fail_stop=True)

    def fail() -> None:
        call(network, frail["a"], frail["b"])
        network.run()

    with pytest.raises(FeatureError, match="'frail'"):
        fail()
    assert network.brokers["a"].failures.by_feature == {"frail": 1}


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.__name__)
def test_a_failure_of_another_feature_is_counted_and_logged_and_nothing_is_lost(
    call: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    network, frail = world(fail_stop=False)
    alice, bob = network.add_client("alice", "a"), network.add_client("bob", "b")
    bob.subscribe("n > 0")
    network.run()
    call(network, frail["a"], frail["b"])
    alice.publish(n=1)
    network.run()
    alice.publish(n=2)
    network.run()
    assert [one["n"] for one in bob.received] == [1, 2]
    assert network.brokers["a"].failures.by_feature["frail"] >= 1
    assert "feature 'frail' failed" in caplog.text


@pytest.mark.parametrize("method", ["advice", "start", "wave_kinds"])
@pytest.mark.parametrize("fail_stop", [True, False])
def test_a_feature_may_fail_while_the_broker_is_built(method: str, fail_stop: bool) -> None:
    def failing(broker: str) -> list[Feature]:
        feature = Frail(fail_stop=fail_stop)
        setattr(feature, method, boom)
        return [feature]

    network = Network(features=failing)
    if fail_stop:
        with pytest.raises(FeatureError, match=f"'frail' failed in {method}: ValueError"):
            network.add_broker("a")
    else:
        network.add_broker("a")
        assert network.brokers["a"].failures.by_feature == {"frail": 1}


def test_a_failure_that_stops_the_broker_is_not_swallowed_by_the_feature_that_caused_it() -> None:
    def both(broker: str) -> list[Feature]:
        return [Frail(fail_stop=False), Frail(fail_stop=True, name="strict")]

    network = Network(weather=STILL, features=both)
    network.add_brokers("ab", links=["ab"])
    network.run()
    frail, strict = frails(network)["a"], frails(network, "strict")["a"]
    strict.context.ride(strict.link_to("b"), boom, SOON)
    frail.context.call_later(0, lambda: frail.context.send(frail.link_to("b"), b"carries it"))
    with pytest.raises(FeatureError, match="'strict' failed"):
        network.run()


@pytest.mark.parametrize(
    "error", [TidingsError("no"), msgspec.DecodeError("no"), UnicodeDecodeError("a", b"", 0, 1, "no")]
)
def test_what_a_feature_cannot_read_is_the_fault_of_the_client_that_sent_it(error: Exception) -> None:
    network, frail = world(fail_stop=True)
    refused: list[str] = []
    network.tap = lambda broker, link, frame: (
        refused.append(frame.message.reason) if isinstance(frame.message, Refused) else None
    )

    def unreadable(link: Link, body: bytes) -> None:
        raise error

    frail["a"].on_message = unreadable  # type: ignore[method-assign]
    network.add_client("alice", "a")
    network.run()
    broker = network.brokers["a"]
    broker.receive(broker.clients[0], Frame(Extension("frail", b"?")))
    assert len(refused) == 1
    assert broker.failures.by_feature == {}


# --- riders -------------------------------------------------------------------------------------------


def test_a_rider_that_fails_leaves_the_others_in_their_seats() -> None:
    network, _ = world(fail_stop=False, names=("frail", "other"))
    frail, other, there = frails(network)["a"], frails(network, "other")["a"], frails(network, "other")["b"]
    link = frail.link_to("b")
    frail.context.ride(link, boom, SOON)
    other.context.ride(link, lambda: b"here", SOON)
    network.add_client("alice", "a").subscribe("n > 0")
    network.run()
    assert there.heard == [b"here"], "once, and its timer finds nobody"


def test_who_rides_again_goes_at_the_earlier_of_the_two_times_and_by_its_new_carrier() -> None:
    network, frail = world(fail_stop=True)
    a, b = frail["a"], frail["b"]
    a.context.ride(a.link_to("b"), lambda: b"old", 60_000_000, lambda message: False)
    a.context.ride(a.link_to("b"), lambda: b"new", SOON)
    begin = network.scheduler.now
    network.run(seconds=1)
    assert b.heard == [b"new"]
    a.context.ride(a.link_to("b"), lambda: b"old", 60_000_000, lambda message: False)
    a.context.ride(a.link_to("b"), lambda: b"newer", 90_000_000)
    network.add_client("alice", "a").subscribe("n > 0")
    network.run(seconds=1)
    assert b.heard == [b"new", b"newer"]
    assert network.scheduler.now - begin < 60_000_000


# --- advice -------------------------------------------------------------------------------------------


class Late(Feature):
    """Keeps `proceed` of a step, to call it when that has ended."""

    name = "late"

    def __init__(self, *, privileged: bool) -> None:
        self.privileged = privileged
        self.kept: list[Callable[..., Any]] = []

    def advice(self) -> Mapping[Joinpoint, Advice]:
        def keep(proceed: Callable[..., Any], *arguments: Any) -> None:
            self.kept.append(proceed)

        return {Joinpoint.PUB_SEND: keep}


@pytest.mark.parametrize("privileged", [True, False])
def test_nobody_proceeds_when_the_step_has_ended(privileged: bool) -> None:
    late = Late(privileged=privileged)
    network = Network(features=lambda broker: [late])
    network.add_broker("a")
    alice, bob = network.add_client("alice", "a"), network.add_client("bob", "a")
    bob.subscribe("n > 0")
    network.run()
    alice.publish(n=1)
    network.run()
    with pytest.raises(FeatureError, match="'late' proceeded when its step had ended at PUB_SEND"):
        late.kept[0]()
    network.run()
    assert len(bob.received) == (0 if privileged else 1)


def test_advice_at_something_that_is_no_joinpoint_is_refused() -> None:
    class Wrong(Feature):
        name = "wrong"

        def advice(self) -> Mapping[Joinpoint, Advice]:
            return {"pub_send": boom}  # type: ignore[dict-item]

    network = Network(features=lambda broker: [Wrong()])
    with pytest.raises(FeatureError, match="'wrong' advises 'pub_send', which is no joinpoint; choose one of"):
        network.add_broker("a")
    _, frail = world(fail_stop=True)
    for wrong in (lambda: frail["a"].context.weave({"x": boom}), lambda: frail["a"].context.unweave("x")):  # type: ignore[dict-item,arg-type]
        with pytest.raises(FeatureError, match="advises 'x', which is no joinpoint"):
            wrong()  # type: ignore[no-untyped-call]


def test_no_advice_runs_before_all_features_have_started() -> None:
    class Opening(Feature):
        name = "a"

        def start(self) -> None:
            self.context.open_client("inside", lambda frame: None)

    class Noting(Feature):
        name = "b"

        def start(self) -> None:
            self.seen: list[str] = []

        def advice(self) -> Mapping[Joinpoint, Advice]:
            def note(proceed: Callable[..., Any], link: Link) -> None:
                self.seen.append(link.name)

            return {Joinpoint.ATTACH: note}

    network = Network(features=lambda broker: [Opening(), Noting()])
    network.add_broker("a")
    network.add_client("alice", "a")
    noting = network.brokers["a"].features["b"]
    assert noting.seen == ["alice"]  # type: ignore[attr-defined]
    assert [link.name for link in noting.context.clients] == ["inside", "alice"]


# --- attachments --------------------------------------------------------------------------------------


class Attaching(Feature):
    """Attaches something for a neighbour that its step sends nothing."""

    name = "attaching"

    def __init__(self) -> None:
        self.heard: list[bytes] = []

    def on_attached(self, link: Link, data: bytes) -> None:
        self.heard.append(data)

    def advice(self) -> Mapping[Joinpoint, Advice]:
        def attach(proceed: Callable[..., Any], *arguments: Any) -> None:
            for link in self.context.neighbours:
                self.context.attach(link, b"for this step")
            proceed()

        return {Joinpoint.PUB_SEND: attach}


def test_an_attachment_that_finds_no_message_in_its_step_is_dropped() -> None:
    network = Network(weather=STILL, features=lambda broker: [Attaching()])
    network.add_brokers("ab", links=["ab"])
    network.run()
    alice, bob = network.add_client("alice", "a"), network.add_client("bob", "a")
    bob.subscribe("n > 0")
    network.run()
    alice.publish(n=1)  # it goes to bob, and not to the neighbour
    network.run()
    assert network.brokers["a"].doors.attached == {}
    bob.subscribe("n > 5")
    network.run()
    there = network.brokers["b"].features["attaching"]
    assert len(bob.received) == 1
    assert there.heard == []  # type: ignore[attr-defined]


def test_nothing_is_attached_outside_a_step_that_sends() -> None:
    _, frail = world(fail_stop=True)
    with pytest.raises(
        FeatureError, match="cannot attach anything for 'b' now; attach for a neighbour, in advice around"
    ):
        frail["a"].context.attach(frail["a"].link_to("b"), b"x")


# --- waves --------------------------------------------------------------------------------------------


def test_a_wave_is_checked_before_it_goes_out() -> None:
    network, frail = world(fail_stop=True)
    context, before = frail["a"].context, network.frames
    with pytest.raises(FeatureError, match=r"answers waves of the kind 'frail\.unknown'"):
        context.wave("unknown", b"", frail["a"].end)
    with pytest.raises(FeatureError, match=r"a deadline of 7,200,000,000; give microseconds, at most 3,600,000,000"):
        context.wave("kind", b"", frail["a"].end, 7_200_000_000)
    with pytest.raises(FeatureError, match="gives str as a question to all, which must be bytes; encode it"):
        context.wave("kind", "text", frail["a"].end)  # type: ignore[arg-type]
    with pytest.raises(FeatureError, match=r"gives 4,000,001 bytes as a message, .* at most 4,000,000"):
        context.send(frail["a"].link_to("b"), b"x" * 4_000_001)
    network.run()
    assert network.frames == before
    assert len(network.brokers["a"].waves) == 0


def test_a_wave_ends_once_where_the_visit_fails() -> None:
    network, frail = world(fail_stop=False)
    frail["a"].visit = boom  # type: ignore[method-assign]
    frail["a"].context.wave("kind", b"", frail["a"].end)
    network.run()
    assert frail["a"].ended == [(b"1", False)]


def test_a_neighbour_cannot_take_the_place_of_a_wave_that_began_here() -> None:
    network, frail = world(fail_stop=True)
    a, b = network.brokers["a"], network.brokers["b"]
    b.send(frail["b"].link_to("a"), Wave("a", 1, "frail.kind", b"", 1_000_000))
    frail["a"].context.wave("kind", b"", frail["a"].end)
    network.run()
    assert frail["a"].ended == [(b"11", True)]
    assert len(a.waves) == 0


# --- clients inside the broker ------------------------------------------------------------------------


def test_a_client_inside_the_broker_has_a_name_and_adopts_only_from_whom_it_says() -> None:
    network, frail = world(fail_stop=True)
    context = frail["a"].context
    with pytest.raises(FeatureError, match="'frail' opens a client with an empty name; choose another one"):
        context.open_client("", lambda frame: None)
    alice = network.add_client("alice", "a")
    alice.subscribe("n > 0")
    network.run()
    (foreign,) = context.subscribed(context.client("alice"))  # type: ignore[arg-type]
    one, other = (context.open_client(name, lambda frame: None, "somebody") for name in ("one", "other"))
    with pytest.raises(FeatureError, match="which is a registration of 'alice'; choose among those of 'one'"):
        context.adopt(one.link, other.link, [foreign])


def test_riding_needs_a_time_that_is_to_come() -> None:
    _, frail = world(fail_stop=True)
    with pytest.raises(FeatureError, match="'frail' rides within -5; give microseconds, 0 or more"):
        frail["a"].context.ride(frail["a"].link_to("b"), lambda: b"x", -5)
    assert frail["a"].link_to("b").kind is LinkKind.BROKER
