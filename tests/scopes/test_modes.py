"""When a change of the graph takes effect, as notifications under way see it; and who may ask for one."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import get_args

import pytest
from scopes.network_world import Watched, joins

from tidings.broker import Link
from tidings.model import Duplicates, Matches, Notification
from tidings.scopes import (
    OPEN,
    Anchor,
    Answer,
    AnyChange,
    Ask,
    CreateScope,
    Decision,
    Define,
    DestroyScope,
    EdgeMapping,
    Forget,
    Graph,
    Impose,
    Interface,
    Join,
    Leave,
    Mode,
    Placement,
    Plan,
    PolicyKind,
    PolicyUse,
    Redefine,
    Rule,
    ScopeEnded,
    Seen,
    SetAdministration,
    SetAttributes,
    SetDelivery,
    SetInterface,
    SetMapping,
    SetOrigin,
    SetPlacement,
    SetPolicy,
    SetRoles,
    SetRules,
    SetSelective,
    Snapshot,
    Unanchor,
    Undefine,
    decode,
    encode,
    mapping,
    sightings,
)
from tidings.scopes._messages import AnyScopeMessage, Retire, State
from tidings.scopes.steps import Convert
from tidings.sim import Op, check
from tidings.sim._invariants import broken_invariants, overgrown
from tidings.wire import Deliver, Extension, Frame

PLACES = {"x": "a", "y": "d", "z": "d", "u": "b", "v": "c", "w": "c"}
EDGES = ("x < S", "y < S", "S < T", "z < T", "u < T", "V < T", "v < V", "x < V")
TENFOLD = EdgeMapping(mapping(Convert("n", 10)), mapping())
HIGH = Interface.parse(input="n >= 10", output="n >= 10")


class Judge:
    """Looks at everything that is handed to a client, at the moment at which it is."""

    def __init__(self, world: Watched) -> None:
        self._world = world
        world.network.tap = self._tap
        self.handed = 0
        self.late = 0
        """How much of it the graph of that moment does not allow, as some broker judges by it."""
        self.wrong = 0
        """How much of it the graph does not allow by which it was judged when it was published."""

    def _tap(self, broker: str, link: Link, frame: Frame) -> None:
        if not isinstance(frame.message, Deliver):
            return
        envelope = frame.message.envelope
        publisher, number = envelope.identity.publisher, envelope.identity.publisher_seq
        published = self._published[publisher, number]

        def allowed(graph: Graph) -> bool:
            seen = sightings(graph, f"@{publisher}", published, f"@{link.name}")
            return any(one.notification == envelope.notification for one in seen)

        self.handed += 1
        versions = self._world.scopes(broker).versions
        self.wrong += not allowed(versions.plan(envelope.identity.graph_epoch).graph)
        active = {self._world.view(name).version for name in self._world.network.brokers}
        self.late += not all(allowed(versions.plan(version).graph) for version in active)

    @property
    def _published(self) -> dict[tuple[str, int], Notification]:
        records = (record for record in self._world.network.trace.records if record.op is Op.PUB)
        return {(one.publisher, one.publication): one.notification for one in records if one.notification is not None}


def line(seed: int = 0) -> Watched:
    """Four brokers in a row; the authority is b."""
    world = Watched("bacd", ["ab", "bc", "cd"], PLACES, seed=seed)
    answer = world.change(*joins(*EDGES))
    assert not answer.error, answer.reason
    world.subscribe()
    return world


def changes(dice: random.Random) -> Iterator[AnyChange]:
    """Edges that come and go, interfaces and mappings that change; each change can follow the one before."""
    gone: dict[str, AnyChange] = {}
    optional = {"x S": ("@x", "S"), "y S": ("@y", "S"), "z T": ("@z", "T"), "S T": ("S", "T"), "V T": ("V", "T")}
    while True:
        draw = dice.random()
        edge = dice.choice(sorted(optional))
        if draw < 0.6:
            back = gone.pop(edge, None)
            if back is None:
                gone[edge] = Join(*optional[edge])
            yield back or Leave(*optional[edge])
        elif draw < 0.75 and "S T" not in gone:
            yield SetMapping("S", "T", dice.choice((None, TENFOLD)))
        elif draw < 0.9:
            yield SetInterface("S", dice.choice((OPEN, HIGH)))
        elif "V T" not in gone:
            yield SetSelective("V", "T", dice.choice((OPEN, HIGH)))


def mappings(dice: random.Random) -> Iterator[AnyChange]:
    """A mapping that comes and goes, and nothing else."""
    while True:
        yield SetMapping("S", "T", TENFOLD)
        yield SetMapping("S", "T", None)


def run(
    seed: int, mode: Mode, changing: Callable[[random.Random], Iterator[AnyChange]] = changes
) -> tuple[Watched, Judge]:
    """Everybody publishes all the time while the graph changes again and again."""
    dice = random.Random(seed)
    world = line(seed)
    judge = Judge(world)
    following = changing(dice)
    answers = []
    for number in range(120):
        world.client(dice.choice(sorted(PLACES))).publish(n=number % 20)
        if number % 12 == 0:
            answers.append(world.network.change(dice.choice("abcd"), (next(following),), mode))
        world.network.run(dice.random() * 0.006)
    world.network.run()
    assert all(not answer.error for (answer,) in answers), answers
    return world, judge


@pytest.mark.parametrize(("mode", "expected"), [(Mode.RELAXED, False), (Mode.DRAIN, False), (Mode.INSTANT, True)])
def test_only_an_instant_change_makes_those_wait_whom_it_does_not_concern(mode: Mode, expected: bool) -> None:
    world = line()
    world.change(CreateScope("aside", OPEN), Join("@w", "aside"))
    world.subscribe("w")
    broker = world.network.brokers["c"]
    link = broker.client("w")
    assert link is not None
    answers = world.network.change("b", (SetInterface("S", HIGH),), mode)
    waited = False
    while not answers:
        world.client("w").publish(n=1)
        world.network.run(0.001)
        waited = waited or link in broker.delivery.waiting
    world.network.run()
    assert waited is expected
    assert not answers[0].error


@pytest.mark.req("VIS-315", "VIS-504")
@pytest.mark.parametrize("seed", range(4))
def test_instant_nothing_is_handed_over_that_the_graph_of_that_moment_does_not_allow(seed: int) -> None:
    _, judge = run(seed, Mode.INSTANT)
    assert judge.handed > 100
    assert (judge.late, judge.wrong) == (0, 0)


@pytest.mark.req("VIS-316", "VIS-504")
@pytest.mark.parametrize("seed", range(4))
def test_drain_nothing_is_handed_over_that_the_graph_of_that_moment_does_not_allow(seed: int) -> None:
    _, judge = run(seed, Mode.DRAIN)
    assert judge.handed > 100
    assert (judge.late, judge.wrong) == (0, 0)


@pytest.mark.req("VIS-504")
def test_a_mapping_does_not_change_while_something_is_under_way_that_it_would_map() -> None:
    late = {}
    for mode in Mode:
        _, judge = run(0, mode, mappings)
        assert judge.handed > 100
        assert judge.wrong == 0
        late[mode] = judge.late
    assert late[Mode.RELAXED], "otherwise nothing was under way"
    assert (late[Mode.INSTANT], late[Mode.DRAIN]) == (0, 0)


@pytest.mark.req("VIS-317", "VIS-504")
def test_relaxed_what_is_handed_over_was_allowed_when_it_was_published() -> None:
    late = 0
    for seed in range(4):
        _, judge = run(seed, Mode.RELAXED)
        assert judge.handed > 100
        assert judge.wrong == 0
        late += judge.late
    assert late, "otherwise the other modes would be proven by nothing"


@pytest.mark.req("VIS-316")
@pytest.mark.parametrize("mode", Mode)
def test_a_change_is_answered_when_every_broker_judges_by_it(mode: Mode) -> None:
    world = line()
    answers = world.network.change("d", (Leave("@x", "S"),), mode)
    seen = set()
    while not answers:
        seen.add(frozenset(world.view(broker).version for broker in "abcd"))
        world.network.run(0.0005)
    assert {world.view(broker).version for broker in "abcd"} == {answers[0].version}
    assert any(len(versions) == 2 for versions in seen), "it does not come to all of them at once"


def under_way(mode: Mode) -> tuple[Watched, Judge]:
    """s4 of the documents: x publishes, x leaves, and only then could y be notified."""
    world = line()
    judge = Judge(world)
    world.client("x").publish(n=1)
    world.network.change("a", (Leave("@x", "S"),), mode)
    world.network.run()
    return world, judge


@pytest.mark.req("VIS-315", "VIS-316", "VIS-317", "VIS-318")
@pytest.mark.parametrize("mode", Mode)
def test_s4_what_was_published_before_its_publisher_left_still_arrives(mode: Mode) -> None:
    world, judge = under_way(mode)
    assert world.got("y") == [Notification(n=1)]
    assert judge.wrong == 0
    if mode is not Mode.RELAXED:
        assert judge.late == 0, "the change has waited for it"
    assert check(world.network.trace) == []


def churn() -> Watched:
    """s5: y is a member whenever x publishes, and has left before it could be notified."""
    world = line()
    for number in range(5):
        world.client("x").publish(n=number)
        world.network.change("b", (Leave("@y", "S"),))
        world.network.run(1)
        world.network.change("b", (Join("@y", "S"),))
        world.network.run(1)
    world.network.run()
    return world


@pytest.mark.req("VIS-318")
def test_s5_who_comes_and_goes_is_not_given_up() -> None:
    world = churn()
    assert world.got("y") == [Notification(n=number) for number in range(5)]
    assert check(world.network.trace) == []


@pytest.mark.req("VIS-318", "VIS-317")
def test_s5_is_legal_without_any_notification_and_a_steady_member_is_owed_every_one() -> None:
    records = churn().network.trace.records
    for client, legal in (("y", True), ("z", False)):
        lost = [record for record in records if not (record.op is Op.NOTIFY and record.component == client)]
        assert (check(lost) == []) is legal


# --- who may change it ------------------------------------------------------------------------------------


class Plain:
    """A client that may do what everybody may, besides what scopes let it do."""

    name = "plain"
    administer = False

    def check_publish(self, notification: Notification) -> None: ...

    def check_subscribe(self, filter: Matches) -> None: ...

    def check_advertise(self, filter: Matches) -> None: ...


def tell(world: Watched, client: str, *messages: AnyScopeMessage) -> list[Answer]:
    """What a client is answered if it sends these messages, as bytes, on its link."""
    broker = world.network.brokers[PLACES[client]]
    link = broker.client(client)
    assert link is not None
    answers: list[Answer] = []

    def tap(name: str, to: Link, frame: Frame) -> None:
        if to is link and isinstance(frame.message, Extension):
            answer = decode(frame.message.body)
            assert isinstance(answer, Answer)
            answers.append(answer)

    world.network.tap = tap
    for message in messages:
        broker.receive(link, Frame(Extension("scopes", encode(message))))
    world.network.run()
    return answers


def common(world: Watched) -> None:
    """From now on nobody is an administrator by itself."""
    for client, broker in PLACES.items():
        link = world.network.brokers[broker].client(client)
        assert link is not None
        link.guard = Plain()


FORBIDDEN: tuple[AnyChange, ...] = (
    CreateScope("mine"),
    DestroyScope("V", cascade=True),
    Join("@w", "S"),
    Leave("@x", "S"),
    Forget("@x"),
    SetInterface("S", OPEN),
    Impose("S", HIGH),
    Impose("S", HIGH, "@x"),
    SetSelective("@w", "S", OPEN),
    SetMapping("S", "T", TENFOLD),
    SetPlacement("S", "T", Placement.EVERYWHERE),
    SetDelivery("S", Duplicates.EVENT),
    SetPolicy("S", PolicyKind.DELIVERY, PolicyUse("delay", {"seconds": 5})),
    SetAttributes("S", {"a": "b"}),
    SetRoles("S", ("boss",)),
    SetRules("S", (Rule("UPDATE ON join(*, self) DO ALTER SCOPE self SET a = 1"),)),
    SetOrigin("S", "d"),
    Define("d", "DEFINE SCOPE d AS;"),
    Redefine("d", "DEFINE SCOPE d AS;"),
    Undefine("d"),
    SetAdministration("S", ("w",)),
    Anchor("S", "c"),
    Anchor("S", "c", stay=True),
    Unanchor("S", "a"),
)


@pytest.mark.req("VIS-313")
def test_nobody_changes_anything_by_default_whatever_it_says_it_is() -> None:
    world = line()
    common(world)
    before = {broker: world.scopes(broker).graph for broker in "abcd"}
    for number, change in enumerate(FORBIDDEN):
        honest = Ask(f"{number}", (change,))
        forged = Ask(f"{number} forged", (change,), who="", administrator=True)
        assert [answer.error for answer in tell(world, "w", honest, forged)] == ["NotAllowed"] * 2, change
    assert {broker: world.scopes(broker).graph for broker in "abcd"} == before
    assert {type(change) for change in FORBIDDEN} == set(get_args(AnyChange)), "every kind of change was tried"


@pytest.mark.req("VIS-313")
def test_messages_that_only_brokers_send_are_refused_when_a_client_sends_them() -> None:
    world = line()
    common(world)
    before = {broker: (world.scopes(broker).graph, world.view(broker).version) for broker in "abcd"}
    stolen = Graph(99, {"": world.scopes("b").graph.scopes[""]})
    tell(
        world,
        "w",
        State(Snapshot.of(stolen), (), 99),
        Retire(99, 99),
        Answer("1", 99),
        Seen("1", Snapshot.of(stolen)),
    )
    assert [refusal.error for refusal in world.client("w").refusals] == ["TidingsError"] * 4
    after = {broker: (world.scopes(broker).graph, world.view(broker).version) for broker in "abcd"}
    assert after == before


@pytest.mark.req("VIS-326")
def test_a_program_can_be_an_administrator_and_changes_its_scope_by_what_it_hears() -> None:
    """A client like any other: it listens, and asks over its own link. It was made an administrator of T."""
    world = line()
    common(world)
    world.change(SetAdministration("T", ("u",)))

    class Program:
        def __init__(self) -> None:
            self.answers: list[Answer] = []

        def look(self) -> None:
            for notification in world.got("u"):
                if notification["n"] == 13:
                    self.answers += tell(world, "u", Ask("1", (Leave("@z", "T"),)))

    program = Program()
    for number in (12, 13):
        world.publish("z", n=number)
        program.look()
    assert [answer.error for answer in program.answers] == [""]
    assert "@z" not in world.scopes("d").graph.members("T")
    world.getters()
    world.publish("u", n=1)
    assert "z" not in world.getters()


@pytest.mark.req("VIS-408", "VIS-711", "VIS-712")
def test_credentials_choose_the_interface_that_a_new_member_gets_from_its_first_notification_on() -> None:
    asked: list[tuple[str, str, str]] = []

    def rule(member: str, scope: str, credentials: tuple[str, ...], action: str) -> Decision:
        asked.append((member, scope, action))
        if member != "@w":
            return Decision(allow=True)
        if "gold" in credentials:
            return Decision(allow=True, selective=Interface.parse(output="n < 15"))
        if "silver" in credentials:
            return Decision(allow=True, imposed=HIGH)
        return Decision(allow=False)

    for metal, heard, said in (("silver", [12, 17], [12, 17]), ("gold", [3, 12, 17], [3, 12])):
        world = Watched("bacd", ["ab", "bc", "cd"], PLACES, hook=rule)
        world.make(*EDGES)
        common(world)
        world.change(SetAdministration("S", ("w",)))
        world.subscribe()
        assert [answer.error for answer in tell(world, "w", Ask("1", (Join("@w", "S"),)))] == ["NotAllowed"]
        world.client("x").publish(n=3)  # while it joins
        (answer,) = tell(world, "w", Ask("2", (Join("@w", "S"),), credentials=(metal,)))
        assert answer.changes, "it is told what it was granted"
        for n in (3, 12, 17):
            world.client("x").publish(n=n)
        world.network.run()
        assert [one["n"] for one in world.got("w")] == heard
        world.getters()
        for n in (3, 12, 17):
            world.client("w").publish(n=n)
        world.network.run()
        assert [one["n"] for one in world.got("y")] == said
        tell(world, "w", Ask("3", (SetSelective("@w", "S", OPEN),), credentials=(metal,)))
        assert asked[-1] == ("@w", "S", "SetSelective"), "an edge that changes is asked about, too"


def test_a_static_graph_takes_no_changes_and_clients_still_move() -> None:
    world = line()
    world.scopes("b").frozen = True
    before = world.scopes("d").graph
    for change in FORBIDDEN:
        if not isinstance(change, Anchor | Unanchor) or change.stay:
            answer = world.change(change, at="d")
            assert (answer.error, answer.reason.split(":")[0]) == (
                "FrozenGraph",
                "the scope graph of this network is static",
            )
    assert world.scopes("d").graph == before
    world.client("y").detach()
    world.client("y").attach("c")
    world.network.run()
    world.publish("x", n=1)
    assert world.got("y") == [Notification(n=1)], "its new broker was admitted to carry S"


# --- what a change costs ----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_a_change_that_moves_clients_only_leaves_nothing_to_be_worked_out_again(seed: int) -> None:
    """Tables and views follow such a change without being looked at as a whole; looking at them finds nothing."""
    dice = random.Random(seed)
    world = line(seed)
    away = {"x": "S", "y": "S", "z": "T", "u": "T", "v": "V"}
    gone = set[str]()
    for _ in range(12):
        client = dice.choice(sorted(away))
        member = Leave if client not in gone else Join
        gone ^= {client}
        assert not world.change(member(f"@{client}", away[client])).error
    sent: list[Frame] = []
    world.network.tap = lambda name, link, frame: sent.append(frame)
    for name, broker in world.network.brokers.items():
        graph = world.scopes(name).graph
        anew = Snapshot.of(graph).graph()
        fresh = Plan(anew).on(name, broker.adjacency.tree)
        for scope in graph.scopes:
            assert graph.members(scope) == anew.members(scope)
            assert graph.anchored(scope) == anew.anchored(scope)
            assert world.view(name).overlay(scope) == fresh.overlay(scope)
            assert world.view(name).supers(scope).keys() == fresh.supers(scope).keys()
        assert world.view(name).scopes == fresh.scopes
        before = {(entry.link.name, entry.id, str(entry.filter)) for entry in broker.scoping.entries()}
        broker.scoping.refresh()
        assert {(entry.link.name, entry.id, str(entry.filter)) for entry in broker.scoping.entries()} == before
    assert sent == []
    assert not broken_invariants(world.network)
    assert not overgrown(world.network)


@pytest.mark.req("ARC-139")
@pytest.mark.parametrize("mode", list(Mode))
def test_a_scope_that_ends_leaves_nothing_behind_and_its_members_are_told(mode: Mode) -> None:
    world = Watched("abcd", ["ab", "bc", "cd"], PLACES)
    world.make(*EDGES)
    world.subscribe()
    told: list[tuple[str, ScopeEnded]] = []

    def tap(broker: str, link: Link, frame: Frame) -> None:
        if link.is_client and isinstance(frame.message, Extension):
            message = decode(frame.message.body)
            assert isinstance(message, ScopeEnded)
            told.append((link.name, message))

    world.network.tap = tap
    assert not world.change(DestroyScope("S", cascade=True), at="c", mode=mode).error
    assert sorted(told) == [("x", ScopeEnded("S")), ("y", ScopeEnded("S", isolated=True))]
    for name, broker in world.network.brokers.items():
        graph = world.scopes(name).graph
        assert "S" not in {*broker.scoping.tables, *graph.anchors, *graph.scopes}
        assert all("S" not in table.gates and "S" not in table.supers for table in broker.scoping.tables.values())
        assert not any("S" in (edge.member, edge.scope) for edge in graph.memberships())
    assert not broken_invariants(world.network, [Notification(n=1)])


def test_a_member_is_told_that_it_is_in_the_root_scope_again_if_it_is() -> None:
    world = Watched("ab", ["ab"], {"x": "a", "y": "b", "z": "b"})
    world.make("x < S", "y < S", "z < S")
    assert not world.change(CreateScope("group", abstract=True), Join("@y", "group")).error
    told: dict[str, ScopeEnded] = {}

    def tap(broker: str, link: Link, frame: Frame) -> None:
        if link.is_client and isinstance(frame.message, Extension):
            message = decode(frame.message.body)
            assert isinstance(message, ScopeEnded)
            told[link.name] = message

    world.network.tap = tap
    assert not world.change(Leave("@x", "S"), Forget("@x"), DestroyScope("S", cascade=True)).error
    assert told == {
        "x": ScopeEnded("S", in_root=True),
        "y": ScopeEnded("S", in_root=True),
        "z": ScopeEnded("S", isolated=True),
    }
    assert str(told["x"]) == "scope 'S', of which this client was a member, has ended; it is in the root scope again"
    world.network.tap = world._tap
    world.subscribe("x")
    world.publish("y", n=1)
    assert [client for _, client, _ in world.handed] == ["x"], "and it is"


def test_a_broker_that_was_cut_off_tells_its_members_when_it_hears_of_the_end() -> None:
    world = Watched("ab", ["ab"], {"x": "a", "y": "b"})
    world.make("x < S", "y < S")
    told: list[str] = []
    world.network.tap = lambda broker, link, frame: (
        told.append(link.name) if link.is_client and isinstance(frame.message, Extension) else None
    )
    world.network.cut("a", "b")
    world.network.run(2)
    world.network.change("a", (DestroyScope("S", cascade=True),))
    world.network.run(2)
    world.network.heal("a", "b")
    world.network.run()
    assert sorted(told) == ["x", "y"]
