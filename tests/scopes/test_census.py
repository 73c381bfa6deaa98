"""The census: which components are connected now, what is known of them, and what their interfaces cover."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scopes.network_world import Watched

from tidings.broker import Link, RoutingOptions
from tidings.model import AccessDenied, Filter, Location, Matches, Notification, Value
from tidings.scopes import (
    OPEN,
    Anchor,
    Answer,
    Census,
    Component,
    Counted,
    CreateScope,
    Graph,
    Interface,
    Join,
    Leave,
    SetAttributes,
    SetRoles,
    apply,
    decode,
    encode,
    members_of,
    scope_component,
)
from tidings.scopes._components import covered
from tidings.scopes.service import _census as census
from tidings.wire import Extension, Frame

PLACES = {"x": "a", "y": "b", "z": "c"}


class Reader:
    """Somebody who administers nothing by right, and may publish readings only."""

    name, administer, deploy = "reader", False, False

    def check_publish(self, notification: Notification) -> None: ...

    def check_subscribe(self, filter: Matches) -> None: ...

    def check_advertise(self, filter: Matches) -> None:
        if not (isinstance(filter, Filter) and Filter.parse("type = 'reading'").covers(filter)):
            raise AccessDenied("only readings")


def world(**more: object) -> Watched:
    return Watched("abc", ["ab", "bc"], PLACES, **more)  # type: ignore[arg-type]


def asked(watched: Watched, client: str, question: Census) -> Counted | Answer:
    """What a client is answered; messages travel, and time passes."""
    broker = watched.network.brokers[PLACES[client]]
    link = broker.client(client)
    assert link is not None
    answers: list[Counted | Answer] = []

    def tap(name: str, to: Link, frame: Frame) -> None:
        if to is link and isinstance(frame.message, Extension):
            answer = decode(frame.message.body)
            assert isinstance(answer, Counted | Answer)
            answers.append(answer)

    watched.network.tap = tap
    broker.receive(link, Frame(Extension("scopes", encode(question))))
    watched.network.run(30)
    (answer,) = answers
    return answer


def told(watched: Watched, client: str, question: Census) -> dict[str, Component]:
    answer = asked(watched, client, question)
    assert isinstance(answer, Counted), answer
    return {one.node: one for one in answer.components}


def bring(watched: Watched, client: str, broker: str, **attributes: Value) -> None:
    watched.client(client).detach()
    watched.client(client).attributes = attributes
    watched.client(client).attach(broker)
    watched.network.run()


def test_every_connected_client_is_told_with_its_broker() -> None:
    watched = world()
    found = told(watched, "x", Census("r"))
    assert {node: one.broker for node, one in found.items()} == {"@x": "a", "@y": "b", "@z": "c"}
    watched.client("z").detach()
    watched.network.run()
    assert told(watched, "x", Census("r")).keys() == {"@x", "@y"}


def test_what_the_graph_says_wins_over_what_a_client_brings() -> None:
    watched = world()
    bring(watched, "y", "b", city="Berlin", sensor=True, at=Location("/roof"))
    assert not watched.change(SetAttributes("@y", {"city": "Rome", "experience": 7}), SetRoles("@y", ("boss",))).error
    found = told(watched, "x", Census("r"))["@y"]
    assert found.attributes == {"city": "Rome", "sensor": True, "at": Location("/roof"), "experience": 7}
    assert found.roles == ("boss",)
    assert told(watched, "x", Census("r", attributes=("city", "other")))["@y"].attributes == {"city": "Rome"}


def test_what_a_client_brings_is_not_in_the_graph_and_ends_with_its_connection() -> None:
    watched = world()
    bring(watched, "y", "b", city="Berlin")
    assert watched.scopes("a").graph.attributes("@y") == {}
    bring(watched, "y", "b")
    assert told(watched, "x", Census("r"))["@y"].attributes == {}


def test_interfaces_are_what_is_subscribed_to_and_advertised() -> None:
    watched = world(routing=RoutingOptions(advertisements=True))
    watched.client("y").subscribe("price > 10")
    watched.client("y").subscribe("price < 5")
    watched.client("z").advertise("type = 'reading'")
    watched.network.run()
    inputs = ("price > 20", "price = 7", "price = 1 OR price > 30")
    outputs = ("type = 'reading' AND n = 1", "type = 'alarm'")
    found = told(watched, "x", Census("r", inputs, outputs))
    assert (found["@y"].inputs, found["@y"].outputs) == ((True, False, True), (False, False))
    assert (found["@z"].inputs, found["@z"].outputs) == ((False, False, False), (True, False))


def test_where_nobody_advertises_an_output_is_what_a_client_may_publish() -> None:
    watched = world()
    link = watched.network.brokers["b"].client("y")
    assert link is not None
    link.guard = Reader()
    outputs = ("type = 'reading' AND n = 1", "type = 'alarm'")
    found = told(watched, "x", Census("r", (), outputs))
    assert found["@y"].outputs == (True, False)
    assert found["@z"].outputs == (True, True)


def test_a_broker_that_does_not_answer_is_an_error_unless_a_part_will_do() -> None:
    watched = world()
    watched.network.brokers["c"].waves._kinds.pop("scopes.census")
    answer = asked(watched, "x", Census("r"))
    assert isinstance(answer, Answer)
    assert (answer.error, answer.reason) == (
        "ScopeError",
        "broker 'c' did not tell which clients are connected there, so the answer would not be whole; try again, or "
        "take what is there (partial)",
    )
    part = asked(watched, "x", Census("r", partial=True))
    assert isinstance(part, Counted)
    assert [one.node for one in part.components] == ["@x", "@y"]
    assert (part.complete, part.silent, part.absent) == (False, ("c",), ())


def test_a_broker_that_is_not_there_any_more_is_not_asked_and_is_named() -> None:
    watched = world()
    whole = asked(watched, "x", Census("r"))
    assert isinstance(whole, Counted)
    assert (whole.complete, whole.silent, whole.absent) == (True, (), ())
    watched.network.crash("c")
    watched.network.run(60)
    part = asked(watched, "x", Census("r"))
    assert isinstance(part, Counted)
    assert [one.node for one in part.components] == ["@x", "@y"]
    assert (part.complete, part.silent, part.absent) == (True, (), ("c",))


def test_a_broker_that_only_the_graph_speaks_of_is_named_too() -> None:
    watched = world()
    assert not watched.change(CreateScope("S"), Anchor("S", "far", stay=True)).error
    whole = asked(watched, "x", Census("r"))
    assert isinstance(whole, Counted)
    assert whole.absent == ("far",)


def test_more_than_fits_into_an_answer_is_an_error_and_not_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = world()
    bring(watched, "z", "c", long="x" * 500)
    monkeypatch.setattr(census, "MAX_ANSWER", 400)
    answer = asked(watched, "x", Census("r"))
    assert isinstance(answer, Answer)
    assert "too many for one answer; ask for fewer of their attributes" in answer.reason
    assert told(watched, "x", Census("r", attributes=())).keys() == {"@x", "@y", "@z"}


def test_a_broker_with_many_clients_answers_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = world()
    for number in range(50):
        watched.network.add_client(f"n{number}", "b").subscribe(f"price > {number}")
    watched.network.run()
    monkeypatch.setattr(census, "STEPS", 7)
    turns: list[int] = []
    context = watched.scopes("b").context
    later = context.call_later
    monkeypatch.setattr(context, "call_later", lambda delay, action: (turns.append(delay), later(delay, action))[1])
    found = told(watched, "x", Census("r", ("price > 25",)))
    assert sum(one.inputs[0] for one in found.values()) == 26
    assert len(turns) > 10


def test_a_client_is_told_of_the_members_that_it_administers_only() -> None:
    watched = world()
    made = (CreateScope("S", administrators=("x",)), Join("@y", "S"), CreateScope("T", OPEN), Join("@z", "T"))
    assert not watched.change(*made).error
    for client in "xyz":
        link = watched.network.brokers[PLACES[client]].client(client)
        assert link is not None
        link.guard = Reader()
    assert told(watched, "x", Census("r")).keys() == {"@x", "@y"}
    answer = asked(watched, "y", Census("r"))
    assert isinstance(answer, Answer)
    assert answer.error == "NotAllowed"
    assert answer.reason == "'y' administers no scope, so it is not told who is connected; ask one who does"


def test_a_client_asks_one_question_at_a_time() -> None:
    watched = world()
    broker = watched.network.brokers["a"]
    link = broker.client("x")
    assert link is not None
    broker.receive(link, Frame(Extension("scopes", encode(Census("first")))))
    answers: list[object] = []

    def tap(name: str, to: Link, frame: Frame) -> None:
        if to is link and isinstance(frame.message, Extension):
            answers.append(decode(frame.message.body))

    watched.network.tap = tap
    broker.receive(link, Frame(Extension("scopes", encode(Census("second")))))
    watched.network.run()
    refused, counted = answers
    assert refused == Answer(
        "second",
        error="ScopeError",
        reason="'x' has asked which components there are already; wait for that answer",
    )
    assert isinstance(counted, Counted)
    assert counted.request == "first"
    assert told(watched, "x", Census("third")).keys() == {"@x", "@y", "@z"}


def test_too_many_filters_are_refused() -> None:
    answer = asked(world(), "x", Census("r", ("a = 1",) * 65))
    assert isinstance(answer, Answer)
    assert answer.reason == "at most 64 filters can be asked about at once; ask more than once"


def test_what_is_too_much_is_refused_before_any_filter_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = world()
    read: list[str] = []
    monkeypatch.setattr(Filter, "parse", lambda text, **more: read.append(text))
    many = asked(watched, "x", Census("r", tuple(f"a = {number}" for number in range(20_000))))
    long = asked(watched, "x", Census("r", ("a = 1",), ("a = '" + "x" * 16_384 + "'",)))
    assert isinstance(many, Answer)
    assert isinstance(long, Answer)
    assert long.reason == (
        "the filters that are asked about have 16,395 characters, at most 16,384 together; ask more than once"
    )
    assert not read


def test_a_filter_that_cannot_be_read_is_refused() -> None:
    answer = asked(world(), "x", Census("r", ("a = ",)))
    assert isinstance(answer, Answer)
    assert answer.error == "ScopeError"


def test_filters_that_cost_too_much_are_refused() -> None:
    wide = " OR ".join(f"a > {number} AND b > {number}" for number in range(100))
    answer = asked(world(), "x", Census("r", (wide,) * 6))
    assert isinstance(answer, Answer)
    assert (answer.error, answer.reason) == (
        "ScopeError",
        "the filters that are asked about cost 1,200, at most 1,000 together; ask more than once",
    )


def test_members_of_the_root_scope_are_those_that_nobody_put_elsewhere() -> None:
    graph = apply(
        Graph(),
        (
            *(CreateScope("S", OPEN), CreateScope("R", OPEN), Join("R", ""), Join("@s", "S"), Join("@gone", "S")),
            *(Leave("@gone", "S"), Join("@r", ""), CreateScope("A", abstract=True), Join("@grouped", "A")),
        ),
    )
    here = [Component(node, "b") for node in ("@s", "@gone", "@stranger", "@grouped")]
    assert [one.node for one in members_of(graph, "", here)] == ["@grouped", "@r", "@stranger", "R"]
    assert [(one.node, one.broker) for one in members_of(graph, "S", here)] == [("@s", "b")]
    assert [(one.node, one.broker) for one in members_of(graph, "", [])] == [("@r", ""), ("R", "")]


def test_a_scope_is_a_component_with_the_interface_that_it_was_given() -> None:
    scope = CreateScope("S", Interface.parse(input="n > 3", output="FALSE"), attributes={"city": "Rome"}, roles=("r",))
    found = scope_component(
        apply(Graph(), (scope,)), "S", [Filter.parse("n = 5"), Filter.parse("n = 1")], [OPEN.output]
    )
    assert found == Component("S", "", {"city": "Rome"}, ("r",), (True, False), (False,))


def _verdict(asked: Filter, filters: Iterable[Filter]) -> bool:
    return bool([*covered(asked, list(filters))][-1])


numbers = st.integers(0, 6)
ranges = st.builds(lambda low, high: Filter.parse(f"n BETWEEN {low} AND {max(low, high)}"), numbers, numbers)


@given(ranges | st.builds(lambda one, two: one | two, ranges, ranges), st.lists(ranges, max_size=4))
def test_filters_cover_only_what_one_of_them_lets_pass(asked: Filter, filters: list[Filter]) -> None:
    if _verdict(asked, filters):
        for half in range(13):
            sample = Notification(n=half / 2)
            assert not asked.matches(sample) or any(one.matches(sample) for one in filters)


def test_filters_cover_together_what_none_of_them_covers_alone() -> None:
    assert _verdict(Filter.parse("n BETWEEN 1 AND 5"), map(Filter.parse, ("n BETWEEN 0 AND 3", "n BETWEEN 3 AND 6")))
    assert not _verdict(Filter.parse("n BETWEEN 1 AND 5"), map(Filter.parse, ("n BETWEEN 0 AND 2", "n > 3")))
    assert not _verdict(Filter.parse("TRUE"), [])
    assert _verdict(Filter.parse("FALSE"), [])
