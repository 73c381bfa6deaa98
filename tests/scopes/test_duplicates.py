"""Several ways through the scopes: what counts as a second copy is for the reader to say."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

import pytest

from tidings.broker import Advice, Feature, Joinpoint, Link
from tidings.model import ROOT_SCOPE, Duplicates, EventKey, Notification, Route
from tidings.scopes import (
    OPEN,
    AnyChange,
    CreateScope,
    Join,
    Mapping,
    Placement,
    Scopes,
    SetDelivery,
    client_node,
    delivery_paths,
    edge_mapping,
    mapping,
)
from tidings.scopes.steps import Add, Annotate, Convert, Rename
from tidings.sim import Network, SimClient
from tidings.wire import Deliver, Envelope, Frame


def diamond(
    *,
    mapped: bool,
    placement: Placement = Placement.ONCE,
    rule: Duplicates = Duplicates.DEFAULT,
    features: Callable[[], Iterable[Feature]] = tuple,
) -> tuple[Network, dict[str, SimClient]]:
    """A publisher in s, which is in t1 and t2, which are in r; the reader is in r, brokers in a row between them."""
    network = Network(7, features=lambda name: [Scopes("a"), *features()])
    network.add_brokers("abc", ["ab", "bc"])
    clients = {name: network.add_client(name, broker) for name, broker in (("x", "a"), ("y", "c"))}
    network.run()
    gateway = "b" if placement is Placement.GATEWAY else ""
    joins: list[AnyChange] = [CreateScope(scope, OPEN, duplicates=rule) for scope in ("s", "t1", "t2", "r")]
    for member, scope in (("s", "t1"), ("s", "t2"), ("t1", "r"), ("t2", "r")):
        annotated = edge_mapping(mapping(Annotate("way", member)), mapping()) if mapped and member != "s" else None
        joins.append(Join(member, scope, mapping=annotated, placement=placement, gateway=gateway))
    answers = network.change("b", (*joins, Join("@x", "s"), Join("@y", "r")))
    network.run()
    assert answers[0].version
    return network, clients


@pytest.mark.req("ARC-149")
def test_one_event_in_one_form_comes_once_however_many_ways_there_are() -> None:
    network, clients = diamond(mapped=False)
    clients["y"].subscribe("n > 0")
    network.run()
    clients["x"].publish(n=1)
    network.run()
    assert [dict(notification) for notification in clients["y"].received] == [{"n": 1}]


@pytest.mark.parametrize("brokers", [1, 3])
@pytest.mark.parametrize(
    ("there", "back"),
    [
        (mapping(Rename("n", "x")), mapping(Rename("x", "n"))),
        (mapping(Convert("n", 2)), mapping(Convert("n", 0.5))),
    ],
    ids=["in another order", "as another kind of number"],
)
def test_what_mappings_turn_back_into_what_it_was_is_no_other_form(there: Mapping, back: Mapping, brokers: int) -> None:
    network = Network(5, features=lambda name: [Scopes("a")])
    network.add_brokers("abc"[:brokers], ["ab", "bc"][: brokers - 1])
    x, y = network.add_client("x", "a"), network.add_client("y", "abc"[brokers - 1])
    network.run()
    network.change(
        "a",
        (
            *(CreateScope(scope, OPEN) for scope in ("s", "t", "u")),
            Join("s", "t", mapping=edge_mapping(there, mapping())),
            Join("t", "u", mapping=edge_mapping(back, mapping())),
            *(Join("@x", "s"), Join("@y", "s"), Join("@y", "u")),
        ),
    )
    y.subscribe("n > 0")
    network.run()
    x.publish(n=4, word="ab")
    network.run()
    assert y.received == [Notification(n=4, word="ab")]


def test_two_mappings_that_make_the_same_make_one_form() -> None:
    network = Network(6, features=lambda name: [Scopes("a")])
    network.add_brokers("ab", ["ab"])
    x, y = network.add_client("x", "a"), network.add_client("y", "b")
    network.run()
    first, second = mapping(Add("a", 1), Add("b", 2)), mapping(Add("b", 2), Add("a", 1))
    network.change(
        "a",
        (
            *(CreateScope(scope, OPEN) for scope in ("s", "t", "u")),
            Join("s", "t", mapping=edge_mapping(first, mapping())),
            Join("s", "u", mapping=edge_mapping(second, mapping())),
            *(Join("@x", "s"), Join("@y", "t"), Join("@y", "u")),
        ),
    )
    y.subscribe("n > 0")
    network.run()
    x.publish(n=4)
    network.run()
    assert y.received == [Notification(n=4, a=1, b=2)]


def test_each_form_of_an_event_comes_once_unless_the_event_itself_is_what_counts() -> None:
    network, clients = diamond(mapped=True)
    clients["y"].subscribe("n > 0", id="forms")
    network.run()
    clients["x"].publish(n=1)
    network.run()
    ways = sorted(notification["way"] for notification in clients["y"].received)  # type: ignore[type-var]
    assert ways == [("t1",), ("t2",)]
    clients["y"].received.clear()
    clients["y"].unsubscribe("forms")
    clients["y"].subscribe("n > 0", duplicates=Duplicates.EVENT)
    network.run()
    clients["x"].publish(n=2)
    network.run()
    assert len(clients["y"].received) == 1


@pytest.mark.parametrize("mapped", [False, True])
def test_paths_count_if_the_reader_says_so(mapped: bool) -> None:
    network, clients = diamond(mapped=mapped)
    clients["y"].subscribe("n > 0", duplicates=Duplicates.PER_PATH)
    network.run()
    clients["x"].publish(n=1)
    network.run()
    scopes = network.brokers["a"].features["scopes"]
    assert isinstance(scopes, Scopes)
    paths = delivery_paths(scopes.graph, client_node("x"), client_node("y"))
    assert len(clients["y"].received) == len(paths) == 2


RULES = ((False, Duplicates.PER_PATH, 2), (True, Duplicates.PER_PATH, 2), (True, Duplicates.EVENT, 1))


@pytest.mark.req("VIS-310")
@pytest.mark.parametrize(("mapped", "rule", "expected"), RULES)
def test_the_scope_says_what_counts_unless_the_reader_does(mapped: bool, rule: Duplicates, expected: int) -> None:
    network, clients = diamond(mapped=mapped, rule=rule)
    y = clients["y"]
    y.subscribe("n > 0", id="as the scope says")
    network.run()
    clients["x"].publish(n=1)
    network.run()
    assert len(y.received) == expected
    y.received.clear()
    y.subscribe("n > 0", id="as the scope says", duplicates=Duplicates.SUPPRESS)
    network.run()
    clients["x"].publish(n=2)
    network.run()
    assert len(y.received) == (2 if mapped else 1)


@pytest.mark.req("VIS-310")
def test_the_rule_of_a_scope_can_change() -> None:
    network, clients = diamond(mapped=False)
    y = clients["y"]
    y.subscribe("n > 0")
    network.run()
    for number, (rule, expected) in enumerate(((Duplicates.PER_PATH, 2), (Duplicates.SUPPRESS, 1))):
        network.change("c", (SetDelivery("r", rule),))
        network.run()
        clients["x"].publish(n=number + 1)
        network.run()
        assert len(y.received) == expected
        y.received.clear()


@pytest.mark.parametrize("late", [False, True], ids=["in time", "late"])
@pytest.mark.parametrize("own", [False, True], ids=["rule of the scope", "rule of the reader"])
@pytest.mark.parametrize("mapped", [False, True])
def test_whoever_counts_paths_can_tell_them_apart_and_learns_no_scope(mapped: bool, own: bool, late: bool) -> None:
    """The header names scopes as long as a copy is among brokers. To a client a path is a digest."""
    network, clients = diamond(mapped=mapped, rule=Duplicates.DEFAULT if own else Duplicates.PER_PATH)
    handed: list[Envelope] = []

    def tap(broker: str, link: Link, frame: Frame) -> None:
        if isinstance(frame.message, Deliver) and link.name == "y":
            handed.append(frame.message.envelope)

    network.tap = tap
    clients["y"].subscribe("n > 0", duplicates=Duplicates.PER_PATH if own else Duplicates.DEFAULT)
    network.run()
    if late:
        network.cut("b", "c")
        network.run(0.5)
    clients["x"].publish(n=1)
    network.run(0.5)
    if late:
        network.heal("b", "c")
    network.run()
    routes = [route for envelope in handed for route in envelope.routes]
    assert len(routes) == len({(route.version, route.path) for route in routes}) == 2
    for route in routes:
        told = [text for name in Route.__struct_fields__ for text in _texts(getattr(route, name))]
        assert not {"s", "t1", "t2", "r", "@x", "@y"} & {word for text in told for word in re.split(r"\W+", text)}
        assert route.scope == ROOT_SCOPE
        assert route.source == ""


def _texts(value: object) -> list[str]:
    """All texts in a field of a header."""
    if isinstance(value, tuple):
        return [text for part in value for text in _texts(part)]
    return [value] if isinstance(value, str) else []


@pytest.mark.req("VIS-310")
@pytest.mark.parametrize("own", [False, True], ids=["rule of the scope", "rule of the reader"])
@pytest.mark.parametrize(("mapped", "rule", "expected"), RULES)
def test_what_comes_late_is_counted_as_what_comes_in_time(
    mapped: bool, rule: Duplicates, expected: int, own: bool
) -> None:
    """The second publication is fetched from its origin, and so, perhaps, is the first one again."""
    network, clients = diamond(mapped=mapped, rule=Duplicates.DEFAULT if own else rule)
    y = clients["y"]
    y.subscribe("n > 0", duplicates=rule if own else Duplicates.DEFAULT)
    network.run()
    clients["x"].publish(n=1)
    network.run(0.5)  # before a mark says how far everything has come
    assert len(y.received) == expected
    network.cut("b", "c")
    network.run(0.5)
    clients["x"].publish(n=2)
    network.run(0.5)
    network.heal("b", "c")
    network.run()
    assert sorted(notification["n"] for notification in y.received) == [1] * expected + [2] * expected  # type: ignore[type-var]


@pytest.mark.parametrize("inside", [False, True], ids=["in the root scope", "in a scope in it"])
def test_what_strangers_publish_comes_late_by_the_same_path_as_in_time(inside: bool) -> None:
    """A client that is a member of nothing publishes in the root scope. Both are fetched, the first one again."""
    network = Network(7, features=lambda name: [Scopes("a")])
    network.add_brokers("abc", ["ab", "bc"])
    x, y = network.add_client("x", "a"), network.add_client("y", "c")
    network.run()
    network.change("a", (CreateScope("s", OPEN), Join("s", ROOT_SCOPE), *((Join("@y", "s"),) if inside else ())))
    network.run()
    paths: dict[object, set[tuple[str, ...]]] = {}

    def tap(broker: str, link: Link, frame: Frame) -> None:
        if isinstance(frame.message, Deliver) and link.name == "y":
            envelope = frame.message.envelope
            paths.setdefault(envelope.notification["n"], set()).add(envelope.routes[0].path)

    network.tap = tap
    y.subscribe("n > 0", duplicates=Duplicates.PER_PATH)
    network.run()
    x.publish(n=1)
    network.run(0.5)  # before a mark says how far everything has come
    network.cut("b", "c")
    network.run(0.5)
    x.publish(n=2)
    network.run(0.5)
    network.heal("b", "c")
    network.run()
    assert [notification["n"] for notification in y.received] == [1, 2]
    assert paths[1] == paths[2]
    assert len(paths[1]) == 1


class OnceInto(Feature):
    """At the border of one scope, lets every event in once."""

    name = "once into"
    privileged = True

    def __init__(self, scope: str) -> None:
        self._scope = scope
        self._seen: set[EventKey] = set()

    def advice(self) -> dict[Joinpoint, Advice]:
        return {Joinpoint.CROSS: self._cross}

    def _cross(self, proceed: Callable[[], None], route: Route, envelope: Envelope, scope: str) -> None:
        if scope == self._scope:
            if envelope.identity.key in self._seen:
                return
            self._seen.add(envelope.identity.key)
        proceed()


@pytest.mark.req("VIS-311")
def test_second_copies_can_be_handled_at_the_border_of_a_scope() -> None:
    for border, expected in (("r", 1), ("elsewhere", 2)):
        network, clients = diamond(mapped=True, features=lambda border=border: [OnceInto(border)])  # type: ignore[misc]
        clients["y"].subscribe("n > 0", duplicates=Duplicates.PER_PATH)
        network.run()
        for number in (1, 2):
            clients["x"].publish(n=number)
        network.run()
        assert len(clients["y"].received) == 2 * expected


@pytest.mark.req("ARC-150")
def test_at_a_gateway_and_nowhere_else_everything_crosses() -> None:
    network, clients = diamond(mapped=True, placement=Placement.GATEWAY)
    clients["y"].subscribe("n > 0")
    network.run()
    before = {name: broker.statistics.crossings for name, broker in network.brokers.items()}
    clients["x"].publish(n=1)
    network.run()
    crossed = {name: broker.statistics.crossings - before[name] for name, broker in network.brokers.items()}
    assert crossed == {"a": 0, "b": 4, "c": 0}
    assert len(clients["y"].received) == 2


def test_what_crosses_at_a_gateway_may_come_back_to_where_it_was_published() -> None:
    network = Network(3, features=lambda name: [Scopes("a")])
    network.add_brokers("abc", ["ab", "bc"])
    one, two = network.add_client("one", "a"), network.add_client("two", "a")
    network.run()
    network.change(
        "c",
        (
            CreateScope("s", OPEN),
            CreateScope("t", OPEN),
            Join("s", "t", placement=Placement.GATEWAY, gateway="c"),
            Join("@one", "s"),
            Join("@two", "t"),
        ),
    )
    two.subscribe("TRUE")
    network.run()
    one.publish(n=1)
    network.run()
    assert [dict(notification) for notification in two.received] == [{"n": 1}]
    assert set(network.brokers["b"].scoping.tables) == {ROOT_SCOPE, "s", "t"}


@pytest.mark.req("ARC-151")
@pytest.mark.parametrize(
    "gateways",
    [
        {("s", "t1"): "b", ("s", "t2"): "b", ("t1", "r"): "b", ("t2", "r"): "b"},
        {("s", "t1"): "a", ("s", "t2"): "a", ("t1", "r"): "c", ("t2", "r"): "c"},
        {("s", "t1"): "a", ("s", "t2"): "c", ("t1", "r"): "b", ("t2", "r"): "a"},
    ],
    ids=["all on one broker", "one for each scope", "each where its administrators want it"],
)
def test_every_edge_has_its_gateway_where_it_was_put(gateways: dict[tuple[str, str], str]) -> None:
    network = Network(9, features=lambda name: [Scopes("a")])
    network.add_brokers("abc", ["ab", "bc"])
    x, y = network.add_client("x", "a"), network.add_client("y", "c")
    network.run()
    changes: list[AnyChange] = [CreateScope(scope, OPEN) for scope in ("s", "t1", "t2", "r")]
    for (member, scope), gateway in gateways.items():
        changes.append(Join(member, scope, placement=Placement.GATEWAY, gateway=gateway))
    network.change("b", (*changes, Join("@x", "s"), Join("@y", "r")))
    y.subscribe("n > 0", duplicates=Duplicates.PER_PATH)
    network.run()
    x.publish(n=1)
    network.run()
    assert len(y.received) == 2
    crossed = {name: broker.statistics.crossings for name, broker in network.brokers.items()}
    designated = list(gateways.values())
    assert crossed == {name: designated.count(name) for name in "abc"}
