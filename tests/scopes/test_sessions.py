"""Session scopes: a reaction appears where its cause was, and in no other session."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scopes.network_world import Watched

from tidings.broker._causes import AT, IN, climbs, combined, scope_tag, session_tag, told_of
from tidings.model import Notification, ScopeError
from tidings.scopes import (
    SESSION_ID,
    SESSION_MODE,
    CreateScope,
    DestroyScope,
    Graph,
    Join,
    SetAttributes,
    apply,
)
from tidings.scopes.service._view import Plan
from tidings.wire import Frame, Publish

SIGNING = ("signer < S", "signer < T", "signer < PLAIN", "alice < S", "bob < T", "log < PLAIN")
"""The signing service of the document, with a scope that is no session scope."""


NUMBERS = itertools.count(1_000)


def signing(**modes: str) -> Watched:
    """The signer is a member of three scopes, two of them session scopes, on two brokers."""
    world = Watched(
        ("b1", "b2"),
        (("b1", "b2"),),
        {"signer": "b1", "alice": "b2", "bob": "b2", "log": "b1"},
    )
    world.make(*SIGNING)
    for scope in ("S", "T"):
        said = {SESSION_ID: f"session {scope}", SESSION_MODE: modes.get(scope)}
        assert not world.change(SetAttributes(scope, said)).error
    for client in ("alice", "bob", "log"):
        world.client(client).subscribe("kind = 'signed'")
    world.client("signer").subscribe("kind = 'request'")
    world.network.run()
    signer = world.client("signer")
    signer.react(signer.subscriptions[next(iter(signer.subscriptions))], Notification(kind="signed"), 100)  # type: ignore[arg-type]
    return world


def got(world: Watched) -> dict[str, int]:
    return {name: len(client.received) for name, client in world.network.clients.items()}


@pytest.mark.req("VIS-701", "VIS-704", "VIS-707")
def test_what_is_signed_for_one_session_is_not_seen_in_the_other() -> None:
    world = signing()
    world.publish("alice", kind="request")
    assert got(world) == {"signer": 1, "alice": 1, "bob": 0, "log": 1}
    world.publish("bob", kind="request")
    assert got(world) == {"signer": 2, "alice": 1, "bob": 1, "log": 2}


def test_without_a_session_id_the_reaction_is_seen_in_both() -> None:
    world = signing()
    world.change(SetAttributes("S", {SESSION_ID: None}), SetAttributes("T", {SESSION_ID: None}))
    world.publish("alice", kind="request")
    assert got(world) == {"signer": 1, "alice": 1, "bob": 1, "log": 1}


@pytest.mark.req("VIS-705")
def test_a_session_may_keep_reactions_to_itself() -> None:
    world = signing(S="origin_only")
    world.publish("alice", kind="request")
    assert got(world) == {"signer": 1, "alice": 1, "bob": 0, "log": 0}
    world.publish("bob", kind="request")
    assert got(world) == {"signer": 2, "alice": 1, "bob": 1, "log": 1}, "the other session has not asked for that"


@pytest.mark.req("VIS-704")
def test_what_is_no_reaction_is_seen_everywhere() -> None:
    world = signing(S="origin_only")
    world.publish("signer", kind="signed")
    assert got(world) == {"signer": 0, "alice": 1, "bob": 1, "log": 1}


def test_a_reaction_to_a_reaction_belongs_to_the_session_as_well() -> None:
    world = signing()
    world.change(Join("@log", "T"))
    world.client("log").react(next(iter(world.client("log").subscriptions.values())), Notification(kind="noted"), 9)  # type: ignore[arg-type]
    world.client("bob").subscribe("kind = 'noted'")
    world.network.run()
    world.publish("alice", kind="request")
    assert got(world)["bob"] == 0, "what the log notes of alice's request is not seen in bob's session"
    world.publish("bob", kind="request")
    assert got(world)["bob"] == 2


@pytest.mark.parametrize("mode", [None, "origin_only"])
def test_what_comes_down_from_the_root_scope_belongs_to_no_session(mode: str | None) -> None:
    """Nobody has published it in the session scope that it came through, so the reaction is seen in all of them."""
    world = Watched(("b1", "b2"), (("b1", "b2"),), {"signer": "b1", "alice": "b2", "bob": "b2", "stranger": "b2"})
    world.make("signer < S", "signer < T", "alice < S", "bob < T", "S < ")
    for scope in ("S", "T"):
        assert not world.change(SetAttributes(scope, {SESSION_ID: f"session {scope}", SESSION_MODE: mode})).error
    for client in ("alice", "bob"):
        world.client(client).subscribe("kind = 'signed'")
    signer = world.client("signer")
    signer.subscribe("kind = 'request'")
    world.network.run()
    signer.react(next(iter(signer.subscriptions.values())), Notification(kind="signed"), 9)  # type: ignore[arg-type]
    world.publish("stranger", kind="request")
    assert next(message for _, to, message in world.handed if to == "signer").envelope.routes[0].tags == ()
    assert got(world) == {"signer": 1, "alice": 1, "bob": 1, "stranger": 0}


@pytest.mark.req("VIS-702")
def test_tags_travel_outside_of_the_notification_and_name_no_scope() -> None:
    world = signing()
    world.publish("alice", kind="request")
    assert all(dict(one) == {"kind": "request"} for one in world.client("signer").received)
    (delivered,) = [message for _, client, message in world.handed if client == "signer"]
    assert delivered.envelope.routes[0].tags == (session_tag("session S"),)
    assert not any("session" in tag or "S" in tag for tag in delivered.envelope.routes[0].tags)


@pytest.mark.req("VIS-706")
@settings(max_examples=15, deadline=None)
@given(
    st.sets(st.sampled_from(["S", "T", "PLAIN", "ABOVE"])), st.lists(st.sampled_from(["alice", "bob", "log", "signer"]))
)
def test_nothing_changes_for_what_is_no_reaction(sessions: set[str], publishers: list[str]) -> None:
    """The same programs, with sessions and without: everybody gets the same, in the same order."""
    seen = []
    for chosen in (sessions, set()):
        world = Watched(
            ("b1", "b2"), (("b1", "b2"),), {"signer": "b1", "alice": "b2", "bob": "b2", "log": "b1", "up": "b2"}
        )
        world.make(*SIGNING, "S < ABOVE", "up < ABOVE")
        for scope in chosen:
            world.change(SetAttributes(scope, {SESSION_ID: "auto"}))
        world.subscribe()
        for number, publisher in enumerate(publishers):
            world.publish(publisher, n=number)
        seen.append({name: list(client.received) for name, client in world.network.clients.items()})
    assert seen[0] == seen[1]


def test_nested_sessions_push_tags() -> None:
    """What climbs from a session scope into another belongs to both: whoever reads it there may answer there."""
    world = Watched(("b1",), (), {"inner": "b1", "outer": "b1", "other": "b1"})
    world.make("inner < S", "S < T", "outer < T", "outer < U", "other < U")
    for scope in "STU":
        world.change(SetAttributes(scope, {SESSION_ID: "auto"}))
    world.client("outer").subscribe("kind = 'question'")
    for client in ("inner", "other"):
        world.client(client).subscribe("kind = 'answer'")
    world.network.run()
    outer = world.client("outer")
    outer.react(next(iter(outer.subscriptions.values())), Notification(kind="answer"), 9)  # type: ignore[arg-type]
    world.publish("inner", kind="question")
    tags = next(message for _, client, message in world.handed if client == "outer").envelope.routes[0].tags
    assert len(tags) == 2
    assert got(world) == {"inner": 1, "outer": 1, "other": 0}


def lying(world: Watched, *cause: str) -> set[str]:
    """Who gets what the signer publishes with this cause, whatever it has seen."""
    before = got(world)
    signer = world.client("signer")
    signer._send(Frame(Publish(next(NUMBERS), b"\x81\xa4kind\xa6signed", cause=cause)))
    world.network.run()
    return {name for name, count in got(world).items() if count > before[name]}


@settings(max_examples=25, deadline=None)
@given(
    st.sets(
        st.sampled_from(
            [session_tag("session S"), session_tag("session T"), IN, IN + "x", scope_tag("S"), scope_tag("PLAIN"), AT]
        )
    )
)
def test_whoever_lies_about_a_cause_publishes_to_no_more_than_it_may(cause: set[str]) -> None:
    world = signing(T="origin_only")
    assert lying(world, *cause) <= {"alice", "bob", "log"} == lying(world)


def test_a_cause_that_is_none_is_refused() -> None:
    world = signing()
    assert lying(world, "scope S") == set()
    (refusal,) = world.client("signer").refusals
    assert (refusal.error, refusal.reason) == (
        "ValueRefused",
        "cause 'scope S' is no tag of a session; repeat what the notification came with",
    )


@pytest.mark.req("VIS-707")
@pytest.mark.parametrize("sessions", [True, False])
def test_the_order_of_a_customer_of_two_markets_stays_in_the_market_of_its_quote(sessions: bool) -> None:
    """The customer is a scope of its own, which is no session: what is in it climbs into one market only."""
    world = Watched(("b1", "b2"), (("b1", "b2"),), {"me1": "b1", "me2": "b2", "pc3": "b1", "seen": "b2"})
    world.make("me1 < Prof1", "me2 < Prof2", "C3 < Prof1", "C3 < Prof2", "pc3 < C3", "seen < C3")
    for scope in ("Prof1", "Prof2") if sessions else ():
        world.change(SetAttributes(scope, {SESSION_ID: "auto"}))
    world.client("pc3").subscribe("type = 'Quote'")
    for client in ("me1", "me2", "seen"):
        world.client(client).subscribe("type = 'Order'")
    world.network.run()
    world.client("pc3").react(next(iter(world.client("pc3").subscriptions.values())), Notification(type="Order"), 9)  # type: ignore[arg-type]
    world.publish("me1", type="Quote")
    assert got(world) == {"me1": 1, "me2": 0 if sessions else 1, "pc3": 1, "seen": 1}
    world.publish("me2", type="Quote")
    assert got(world) == {"me1": 1 if sessions else 2, "me2": 1 if sessions else 2, "pc3": 2, "seen": 2}
    world.publish("pc3", type="Order")
    assert got(world)["me1"] == got(world)["me2"], "an order of its own is for both"


# --- the graph ----------------------------------------------------------------------------------------


def graph(**sessions: Any) -> Graph:
    return apply(Graph(), tuple(CreateScope(name, attributes={SESSION_ID: id}) for name, id in sessions.items()))


@pytest.mark.req("VIS-701")
def test_a_scope_becomes_a_session_scope_by_its_id_and_ceases_to_be_one_without() -> None:
    known = apply(graph(a="one"), (CreateScope("b"),))
    assert Plan(known).sessions == {"a": session_tag("one")}
    known = apply(known, (SetAttributes("b", {"session-id": "auto"}), SetAttributes("a", {"session-id": None})))
    assert set(Plan(known).sessions) == {"b"}


def test_automatic_ids_differ_from_each_other_and_from_all_others() -> None:
    tags = Plan(graph(a="auto", b="auto", c="auto a", d="a")).sessions
    assert len({*tags.values()}) == 4


@pytest.mark.parametrize(
    ("attributes", "problem"),
    [
        (
            {SESSION_ID: "one"},
            "session-id='one' of scope 'b' belongs to scope 'a'; choose another, or 'auto'",
        ),
        (
            {SESSION_ID: 7},
            "session-id=7 of scope 'b' cannot be the id of a session; use a text of up to 256 printable characters, "
            "or 'auto'",
        ),
        (
            {SESSION_ID: ""},
            "session-id='' of scope 'b' cannot be the id of a session; use a text of up to 256 printable characters, "
            "or 'auto'",
        ),
        (
            {SESSION_ID: "two", SESSION_MODE: "strict"},
            "session-mode='strict' of scope 'b' is not a session mode; use 'default' or 'origin_only'",
        ),
        (
            {SESSION_MODE: "default"},
            "scope 'b' has a session-mode but no session-id; set both, or remove the mode",
        ),
    ],
)
def test_a_session_that_cannot_be_is_refused_before_anything_changes(attributes: Any, problem: str) -> None:
    known = graph(a="one")
    with pytest.raises(ScopeError) as made:
        apply(known, (CreateScope("b", attributes=attributes),))
    with pytest.raises(ScopeError) as changed:
        apply(apply(known, (CreateScope("b"),)), (SetAttributes("b", attributes),))
    assert str(made.value) == str(changed.value) == problem


def test_the_id_of_a_session_that_is_hidden_is_refused_without_its_name() -> None:
    known = apply(Graph(), (CreateScope("a", hidden=True, attributes={SESSION_ID: "one"}), CreateScope("b")))
    with pytest.raises(ScopeError) as refused:
        apply(known, (SetAttributes("b", {SESSION_ID: "one"}),))
    assert str(refused.value) == "session-id='one' of scope 'b' belongs to another scope; choose another, or 'auto'"


def test_an_id_is_free_again_when_its_scope_is_gone() -> None:
    known = apply(graph(a="one"), (DestroyScope("a"), CreateScope("b", attributes={SESSION_ID: "one"})))
    assert set(Plan(known).sessions) == {"b"}


def test_the_root_scope_is_no_session() -> None:
    with pytest.raises(ScopeError) as refused:
        apply(Graph(), (SetAttributes("", {SESSION_ID: "auto"}),))
    assert str(refused.value) == (
        "the root scope cannot be a session scope; make a scope in it, and let clients join that"
    )


# --- tags ---------------------------------------------------------------------------------------------

TAGS = st.frozensets(st.sampled_from(["in:a", "in:b", "in:c", "at:x", "at:y"]), min_size=1)


class Some:
    """Three session scopes, and one that is none."""

    sessions = {"a": "in:a", "b": "in:b", "c": "in:c"}  # noqa: RUF012
    confined = frozenset({"in:c"})

    def supers(self, scope: str) -> dict[str, object]:
        return {"a": {"b": 0}, "n": {"a": 0}}.get(scope, {})


@given(st.lists(TAGS, min_size=1, max_size=4))
def test_a_reaction_to_several_appears_only_where_a_reaction_to_each_would(causes: list[frozenset[str]]) -> None:
    for scope in ("a", "b", "c", "n"):
        together = climbs((), scope, combined(causes), Some())
        assert together == all(climbs((), scope, cause, Some()) for cause in causes)


@pytest.mark.parametrize("order", [*itertools.permutations(("in:a", "re:here/1", "of:7"))])
def test_a_copy_belongs_to_the_sessions_that_it_climbed_through_and_was_caused_by(order: tuple[str, ...]) -> None:
    assert set(told_of(("n", "a", "b", "c"), order, Some())) == {"in:a", "re:here/1", "in:b"}, (
        "c was entered from above"
    )
    assert set(told_of(("c",), order, Some())) == {"in:a", "re:here/1", "in:c", scope_tag("c")}
