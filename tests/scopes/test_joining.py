"""Whoever asks for a change gets one answer, and everybody who must know hears of it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from scopes.network_world import FX_3_BROKERS, FX_3_PLACES, Watched, at_rest, fx_3

from tidings.broker import Feature, Link
from tidings.model import Matches, Notification
from tidings.scopes import (
    OPEN,
    Answer,
    AnyChange,
    Ask,
    CreateScope,
    Decision,
    Interface,
    Join,
    Look,
    Placement,
    Policy,
    PolicyKind,
    PolicyUse,
    Seen,
    SetPlacement,
    SetPolicy,
    Snapshot,
    credential,
    decode,
    encode,
    register_policy,
)
from tidings.wire import Extension, Frame

# --- asking to join -------------------------------------------------------------------------------------


def everything(world: Watched) -> dict[str, object]:
    """All that brokers hold about scopes and subscriptions."""
    held: dict[str, object] = {}
    for name, broker in world.network.brokers.items():
        entries = sorted((entry.link.name, entry.id, str(entry.filter)) for entry in broker.scoping.entries())
        held[name] = (Snapshot.of(world.scopes(name).graph), sorted(broker.scoping.tables), entries)
    return held


def only_with(word: str) -> Callable[[str, str, tuple[str, ...], str], Decision]:
    """An admission rule of S: who knows the word sees everything, who does not gets small things only, c5 nothing."""

    def admit(member: str, scope: str, credentials: tuple[str, ...], action: str) -> Decision:
        if (member, scope) == ("@c5", "S"):
            return Decision(allow=False, reason=f"{len(credentials)} credentials, none for '{member}'")
        if word in credentials or scope != "S" or member in ("@c1", "@c4"):
            return Decision(allow=True)
        return Decision(allow=True, imposed=Interface.parse(input="x < 10", output="x < 10"))

    return admit


def ask(world: Watched, broker: str, change: AnyChange, *credentials: str) -> list[Answer]:
    """Ask as an administrator at a broker, and wait; all answers that came."""
    answers: list[Answer] = []
    template = Ask("", (change,), credentials=credentials)
    world.scopes(broker).ask((change,), answers.append, who="root", administrator=True, template=template)
    world.network.run()
    return answers


@pytest.mark.req("ARC-140", "ARC-142", "ARC-213", "ARC-215")
def test_a_rejection_finds_its_way_back_says_why_and_leaves_everything_as_it_was() -> None:
    world = fx_3(hook=only_with("please"))
    world.subscribe()
    before = everything(world)
    version = world.scopes("B1").graph.version
    (answer,) = ask(world, "B4", Join("@c5", "S"), "thanks")
    assert (answer.version, answer.error) == (0, "NotAllowed")
    assert answer.reason == "'@c5' is not admitted to 'S': 1 credentials, none for '@c5'"
    assert everything(world) == before
    assert world.scopes("B1").graph.version == version
    at_rest(world)


@pytest.mark.req("ARC-142")
def test_a_scope_that_knows_secrets_admits_whoever_presents_one_of_them() -> None:
    world = fx_3()
    (made,) = ask(world, "B1", CreateScope("V", admission=(credential("sesame"), credential("shibboleth"))))
    assert not made.error
    for secrets in ((), ("thanks",), ("sesam", "", credential("sesame"))):
        (answer,) = ask(world, "B4", Join("@c5", "V"), *secrets)
        assert (answer.version, answer.error) == (0, "NotAllowed")
        known = f"none of the {len(secrets)} credentials presented is one that this scope knows"
        assert answer.reason == f"'@c5' is not admitted to 'V': {known}"
        assert "V" not in world.scopes("B1").graph.superscopes("@c5")
    (answer,) = ask(world, "B4", Join("@c5", "V"), "thanks", "shibboleth")
    assert not answer.error
    assert "V" in world.scopes("B1").graph.superscopes("@c5")
    at_rest(world)


@pytest.mark.req("ARC-140", "ARC-141", "ARC-213", "ARC-214")
def test_an_approval_says_what_was_granted_if_it_is_not_what_was_asked_for() -> None:
    world = fx_3(hook=only_with("please"))
    world.network.add_client("c7", "B3")
    world.subscribe()
    (answer,) = ask(world, "B5", Join("@c7", "S"))
    narrow = Interface.parse(input="x < 10", output="x < 10")
    assert answer.changes == (Join("@c7", "S", imposed=narrow),)
    assert not answer.error
    for x in (1, 11):
        world.publish("c1", x=x)
    assert world.got("c7") == [Notification(x=1)]
    world.getters()
    for x in (2, 12):
        world.publish("c7", x=x)
    assert world.got("c4") == [Notification(x=2)]
    at_rest(world)


@pytest.mark.req("ARC-214")
def test_an_approval_of_what_was_asked_for_does_not_repeat_it() -> None:
    world = fx_3(hook=only_with("please"))
    (answer,) = ask(world, "B5", Join("@c3", "S"), "please")
    assert (answer.error, answer.changes) == ("", ())
    told = world.scopes("B5").versions.plan(answer.version).graph
    assert "S" in told.superscopes("@c3"), "its own version is told, not the one in which B5 came to carry the scope"
    assert "S" not in world.scopes("B5").versions.plan(answer.version - 1).graph.superscopes("@c3")
    at_rest(world)


@pytest.mark.req("ARC-140")
def test_every_broker_on_the_way_of_a_question_remembers_it_until_the_answer_has_passed() -> None:
    world = fx_3()
    answers = world.network.change("B4", (CreateScope("V"),))
    trails = set()
    while not answers:
        world.network.run(0.0005)
        trails |= {broker for broker in FX_3_BROKERS if world.scopes(broker).questions._trails}
    assert trails == {"B4", "B2", "B1"}, "from B4 to the authority"
    at_rest(world)


@pytest.mark.req("ARC-140")
@pytest.mark.parametrize("cut_after", [0, 4, 8, 12, 16, 20, 30])
def test_every_request_gets_one_answer_even_if_the_way_back_is_cut(cut_after: int) -> None:
    world = fx_3()
    answers = world.network.change("B4", (CreateScope("V"),))
    world.network.run(cut_after / 1_000)
    world.network.cut("B2", "B4")
    world.network.run(2)
    world.network.heal("B2", "B4")
    world.network.run()
    assert len(answers) == 1
    made = {"V" in world.scopes(broker).graph.scopes for broker in FX_3_BROKERS}
    assert len(made) == 1
    if not answers[0].error:
        assert made == {True}
    at_rest(world)


# --- what is pluggable ----------------------------------------------------------------------------------


class Greeter(Feature):
    """A feature with messages of its own."""

    name = "greeter"

    def __init__(self) -> None:
        self.heard: list[tuple[str, bytes]] = []

    def on_message(self, link: Link, body: bytes) -> None:
        self.heard.append((link.name, body))


@pytest.mark.req("ARC-162")
def test_messages_about_scopes_go_to_whoever_registered_for_them() -> None:
    world = Watched("a", [], {"x": "a"}, features=lambda name: [Greeter()])
    broker = world.network.brokers["a"]
    link = broker.client("x")
    assert link is not None
    seen: list[Seen] = []

    def tap(name: str, to: Link, frame: Frame) -> None:
        if isinstance(frame.message, Extension) and isinstance(message := decode(frame.message.body), Seen):
            seen.append(message)

    world.network.tap = tap
    broker.receive(link, Frame(Extension("greeter", b"hello")))
    broker.receive(link, Frame(Extension("scopes", encode(Look("1")))))
    assert broker.features["greeter"].heard == [("x", b"hello")]  # type: ignore[attr-defined]
    assert [message.request for message in seen] == ["1"]
    refused = broker.statistics.refused
    broker.receive(link, Frame(Extension("nobody", b"hello")))
    assert broker.statistics.refused == refused + 1


@pytest.mark.req("ARC-136")
def test_a_scope_that_is_created_is_announced_to_every_broker_and_every_client_may_look() -> None:
    world = fx_3()
    world.change(CreateScope("V"), CreateScope("W", hidden=True), Join("@c3", "W"), at="B4")
    looked: dict[str, set[str]] = {}

    def tap(name: str, to: Link, frame: Frame) -> None:
        if isinstance(frame.message, Extension) and isinstance(message := decode(frame.message.body), Seen):
            looked[to.name] = {scope.id for scope in message.graph.scopes}

    world.network.tap = tap
    for client, name in FX_3_PLACES.items():
        broker = world.network.brokers[name]
        link = broker.client(client)
        assert link is not None
        link.guard = Plain()
        broker.receive(link, Frame(Extension("scopes", encode(Look("1")))))
    assert looked == {client: {"", *"STUV"} | ({"W"} if client == "c3" else set()) for client in FX_3_PLACES}


class Plain:
    """A client that may do what everybody may."""

    name = "plain"
    administer = False

    def check_publish(self, notification: Notification) -> None: ...

    def check_subscribe(self, filter: Matches) -> None: ...

    def check_advertise(self, filter: Matches) -> None: ...


def pinned(member: str, scope: str, credentials: tuple[str, ...], action: str) -> Decision:
    """The scope V is crossed at broker B5, whatever administrators say, and c5 publishes in it alone."""
    gateway = "B5" if "V" in (member, scope) and not member.startswith("@") else ""
    publishing = PolicyUse("only-v") if member == "@c5" else None
    return Decision(allow=True, gateway=gateway, publishing=publishing)


class OnlyV(Policy):
    """Whoever has it publishes in V, and nowhere else."""

    def select(self, notification, eligible, context):  # type: ignore[no-untyped-def]
        return [one for one in eligible if one == "V"]


@pytest.mark.req("VIS-713")
def test_an_admission_rule_pins_a_scope_to_one_broker() -> None:
    """All its edges are crossed there, up and down, however they came to be, and stay so."""
    world = fx_3(hook=pinned)
    made = world.change(CreateScope("V", OPEN), CreateScope("W", OPEN), Join("V", "S"), Join("W", "V"))
    assert not made.error
    for edge in (("V", "S"), ("W", "V")):
        found = world.scopes("B1").graph.membership(*edge)
        assert (found.placement, found.gateway) == (Placement.GATEWAY, "B5")
    moved = world.change(SetPlacement("V", "S", Placement.ONCE), SetPlacement("W", "V", Placement.GATEWAY, "B1"))
    assert [(one.placement, one.gateway) for one in moved.changes if isinstance(one, SetPlacement)] == [
        (Placement.GATEWAY, "B5"),
        (Placement.GATEWAY, "B5"),
    ]
    world.change(Join("@c3", "W"))
    world.subscribe()
    world.publish("c1", n=1)
    assert world.got("c3")
    crossed = {(one.edge, one.broker) for one in world.crossed if "V" in one.edge}
    assert crossed == {(("S", "V"), "B5"), (("V", "W"), "B5")}


@pytest.mark.req("VIS-713")
def test_an_admission_rule_chooses_the_policy_of_a_member() -> None:
    """Nobody takes it away again: not in the same transaction, and not later."""
    register_policy("only-v", OnlyV)
    world = fx_3(hook=pinned)
    free = SetPolicy("@c5", PolicyKind.PUBLISHING, None)
    made = world.change(CreateScope("V", OPEN), Join("@c5", "V"), free)
    assert not made.error, made.reason
    assert world.scopes("B1").graph.publishing("@c5") == PolicyUse("only-v")
    assert not world.change(free).error
    assert world.scopes("B1").graph.publishing("@c5") == PolicyUse("only-v")
    world.change(Join("@c3", "V"))
    world.subscribe()
    world.publish("c5", n=1)
    assert world.getters() == {"c3", "c5"}


def test_a_rule_that_wants_a_client_to_cross_at_a_broker_is_told_that_this_cannot_be() -> None:
    world = fx_3(hook=lambda member, scope, credentials, action: Decision(allow=True, gateway="B" * ("c7" in member)))
    answer = world.change(Join("@c7", "S"))
    assert answer.reason == (
        "'@c7' is not admitted to 'S': the admission rule wants it to cross at 'B', but a client crosses where it is "
        "connected; let the rule ask that of scopes"
    )
