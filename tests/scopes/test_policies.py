"""Transmission policies: who gets what may be seen, in the oracle and over a network."""

from __future__ import annotations

import logging
import random

import pytest
from scopes.network_world import Watched

from tidings.model import Identity, Notification, ScopeError
from tidings.scopes import (
    OPEN,
    AnyChange,
    CreateScope,
    Graph,
    Join,
    Placement,
    Policy,
    PolicyContext,
    PolicyKind,
    PolicyUse,
    SetAttributes,
    SetPolicy,
    SetRoles,
    apply,
    reach,
    register_policy,
    sightings,
)
from tidings.scopes.policies import _running
from tidings.scopes.policies._registry import CATALOGUE
from tidings.sim import check
from tidings.sim._scenario import Scenario

PUBLISHING, DELIVERY, INTERNAL = PolicyKind.PUBLISHING, PolicyKind.DELIVERY, PolicyKind.INTERNAL
NOON = 12 * 3_600_000_000


def published_by(client: str, at: int = 0) -> Identity:
    return Identity("b", 1, 1, client, 1, at)


def market(*changes: AnyChange) -> Graph:
    """Members @a, @b, @c and the scope `inner` with @d in `market`, which is in `city` with @e."""
    members = [Join(f"@{name}", "market") for name in "abc"]
    made = (CreateScope("city", OPEN), CreateScope("market", OPEN), CreateScope("inner", OPEN))
    edges = (Join("market", "city"), Join("inner", "market"), *members, Join("@d", "inner"), Join("@e", "city"))
    return apply(Graph(), (*made, *edges, *changes))


def seen(graph: Graph, publisher: str, at: int = 0, **attributes: object) -> str:
    """The clients that see a publication, as one word."""
    found = reach(graph, f"@{publisher}", Notification(attributes), identity=published_by(publisher, at))
    return "".join(sorted(one.node[1:] for one in found if one.node.startswith("@") and one.node != f"@{publisher}"))


def has(node: str, kind: PolicyKind, name: str, **parameters: object) -> SetPolicy:
    return SetPolicy(node, kind, PolicyUse(name, parameters))


# --- which policy is asked --------------------------------------------------------------------------------


class Recording(Policy):
    asked: list[tuple[PolicyKind, tuple[str, ...], tuple[str, ...]]] = []  # noqa: RUF012 - shared on purpose

    def select(self, notification, eligible, context):  # type: ignore[no-untyped-def]
        self.asked.append((context.kind, tuple(eligible), context.path))
        return eligible


@pytest.mark.req("VIS-601", "VIS-602", "VIS-603", "ARC-155")
def test_delivery_is_asked_for_what_came_from_above_and_internal_for_what_was_published_inside() -> None:
    register_policy("recording", Recording)
    graph = market(*(has("market", kind, "recording") for kind in (PUBLISHING, DELIVERY, INTERNAL)))
    for publisher, kinds in (("a", {INTERNAL, PUBLISHING}), ("d", {INTERNAL, PUBLISHING}), ("e", {DELIVERY})):
        Recording.asked.clear()
        seen(graph, publisher)
        assert {kind for kind, _, _ in Recording.asked} == kinds
        up = [eligible for kind, eligible, _ in Recording.asked if kind is PUBLISHING]
        assert up == ([("city",)] if PUBLISHING in kinds else [])
        down = {eligible for kind, eligible, _ in Recording.asked if kind is not PUBLISHING}
        everybody = {("@a",), ("@b",), ("@c",), ("inner",)}
        assert down == everybody - {(f"@{publisher}",)} - ({("inner",)} if publisher == "d" else set())


@pytest.mark.req("VIS-601")
def test_a_client_has_a_publishing_policy_too() -> None:
    both = (CreateScope("other", OPEN), Join("@a", "other"), Join("@f", "other"))
    denies = SetPolicy("@a", PUBLISHING, PolicyUse("credentials", {"attribute": "level", "level": 1}))
    graph = market(*both, denies)
    assert seen(graph, "a") == ""
    assert seen(apply(graph, (SetAttributes("other", {"level": 1}),)), "a") == "f"


@pytest.mark.req("VIS-601", "VIS-607")
def test_interfaces_come_first_so_a_policy_is_asked_about_nothing_that_they_stop() -> None:
    register_policy("recording", Recording)
    closed = apply(Graph(), (CreateScope("s"), CreateScope("t", OPEN), Join("s", "t"), Join("@x", "s")))
    graph = apply(closed, (has("s", PUBLISHING, "recording"),))
    Recording.asked.clear()
    seen(graph, "x")
    assert Recording.asked == []


def test_full_policies_change_nothing() -> None:
    plain = market()
    full = market(
        *(has(node, kind, "full") for node in ("market", "inner", "city") for kind in (PUBLISHING, DELIVERY, INTERNAL))
    )
    for publisher in "abcde":
        assert seen(full, publisher) == seen(plain, publisher)


def test_a_policy_is_set_up_once_and_shut_down_when_no_version_has_it() -> None:
    life: list[str] = []

    class Living(Policy):
        def init(self, context: PolicyContext) -> None:
            life.append(f"init {context.component} {context.kind.value}")

        def shutdown(self) -> None:
            life.append("shutdown")

    register_policy("living", Living)
    world = Watched("ab", ["ab"], {"x": "a", "y": "b"})
    world.change(CreateScope("s", OPEN), Join("@x", "s"), Join("@y", "s"), has("s", INTERNAL, "living"))
    world.subscribe("y")
    world.publish("x", n=1)
    world.publish("x", n=2)
    assert (len(world.got("y")), life) == (2, ["init s internal"])
    world.change(SetPolicy("s", INTERNAL, None))
    assert life == ["init s internal", "shutdown"]


# --- the catalogue ----------------------------------------------------------------------------------------


@pytest.mark.req("VIS-608")
def test_credentials_let_a_scope_publish_only_where_the_demanded_privilege_is_held() -> None:
    graph = market(
        *(CreateScope("public", OPEN), Join("market", "public"), Join("@p", "public")),
        SetAttributes("city", {"clearance": 2}),
        has("market", PUBLISHING, "credentials", attribute="clearance", demanded="secrecy"),
    )
    assert seen(graph, "a") == "bcdep"
    assert seen(graph, "a", secrecy=2) == "bcde"
    assert seen(graph, "a", secrecy=3) == "bcd"
    assert seen(graph, "a", secrecy="high") == "bcd"


@pytest.mark.req("VIS-611")
def test_key_dispatch_gives_a_share_to_the_engine_that_is_there_for_it() -> None:
    table = ("SAP=@b", "BMW=inner", "5=@c")
    graph = market(has("market", INTERNAL, "key-dispatch", attribute="share", table=table, others="@c"))
    assert [seen(graph, "a", share=share) for share in ("SAP", "BMW", 5, "ABC")] == ["be", "de", "ce", "ce"]
    assert seen(graph, "a") == "ce"
    assert seen(graph, "e", share="SAP") == "abcd", "what comes from above is another policy's business"
    alone = market(has("market", DELIVERY, "key-dispatch", attribute="share", table="SAP=@b"))
    assert [seen(alone, "e", share=share) for share in ("SAP", "ABC")] == ["b", ""]


@pytest.mark.req("VIS-614")
def test_a_chain_goes_from_handler_to_handler_and_then_to_everybody_else() -> None:
    graph = market(has("market", INTERNAL, "chain", members=("@b", "inner", "@c")))
    assert [seen(graph, publisher) for publisher in "abdc"] == ["be", "de", "ce", "ae"]


@pytest.mark.req("VIS-606")
def test_a_producer_policy_knows_who_published_and_by_which_way() -> None:
    named = market(has("city", INTERNAL, "producer", publishers="@a"))
    assert [seen(named, publisher)[-1:] == "e" for publisher in "abd"] == [True, False, False]
    others = market(has("city", INTERNAL, "producer", publishers="@a", deny=True))
    assert [seen(others, publisher)[-1:] == "e" for publisher in "abd"] == [False, True, True]
    way = market(has("city", INTERNAL, "producer", through="inner"))
    assert [seen(way, publisher)[-1:] == "e" for publisher in "abd"] == [False, False, True]
    roles = market(SetRoles("@b", ("trader",)), has("city", INTERNAL, "producer", roles="trader"))
    assert [seen(roles, publisher)[-1:] == "e" for publisher in "abd"] == [False, True, False]


def test_a_window_is_open_at_certain_times_of_certain_days() -> None:
    day = market(has("market", PUBLISHING, "window", opens="09:00", closes="17:30"))
    minute = 60_000_000
    times = (9 * 60 - 1, 9 * 60, 17 * 60 + 29, 17 * 60 + 30)
    assert [seen(day, "a", at=time * minute) for time in times] == ["bcd", "bcde", "bcde", "bcd"]
    night = market(has("market", PUBLISHING, "window", opens="22:00", closes="06:00", days="thu"))
    times = (21 * 60, 22 * 60, 24 * 60 + 5 * 60, 24 * 60 + 6 * 60, 24 * 60 + 22 * 60)  # the first day was a Thursday
    assert [seen(night, "a", at=time * minute)[-1] == "e" for time in times] == [False, True, True, False, False]


def test_parameters_go_to_the_members_that_name_the_value() -> None:
    said = (SetAttributes("@b", {"symbols": ("SAP", "BMW")}), SetAttributes("@c", {"symbols": "SAP"}))
    graph = market(*said, has("market", INTERNAL, "parameters", attribute="symbol", member="symbols"))
    assert [seen(graph, "a", symbol=symbol) for symbol in ("SAP", "BMW", "ABC")] == ["bce", "be", "e"]
    assert seen(graph, "a", symbol=("ABC", "BMW")) == "be"
    assert seen(graph, "a") == "e"


# --- over a network ---------------------------------------------------------------------------------------


@pytest.mark.req("ARC-155")
@pytest.mark.parametrize("placement", list(Placement))
def test_policies_decide_alike_wherever_an_edge_is_crossed(placement: Placement) -> None:
    world = Watched("abcd", ["ab", "bc", "cd"], {"x": "a", "y": "b", "z": "c", "u": "d"})
    gateway = "c" if placement is Placement.GATEWAY else ""
    answer = world.change(
        *(CreateScope("in", OPEN), CreateScope("out", OPEN), Join("in", "out", placement=placement, gateway=gateway)),
        *(Join("@x", "in"), Join("@y", "in"), Join("@z", "out"), Join("@u", "out")),
        has("in", PUBLISHING, "producer", publishers="@x"),
        has("in", DELIVERY, "key-dispatch", attribute="n", table="1=@y", others="@x"),
        has("out", INTERNAL, "key-dispatch", attribute="n", table=("1=@z", "2=in"), others="@u"),
    )
    assert not answer.error, answer.reason
    world.subscribe()
    for publisher in "xyzu":
        for number in (1, 2, 3):
            world.publish(publisher, n=number)
    assert not check(world.network.trace)
    assert {name: [one["n"] for one in world.got(name)] for name in "yz"} == {
        "y": [1, 2, 3, 1, 2, 3],  # what x publishes inside; its own
        "z": [1, 1, 2, 3, 1],  # of x, its own, and of u
    }


@pytest.mark.req("VIS-617", "ARC-155", "VIS-607")
@pytest.mark.parametrize("name", ["ts", "tm", "tp", "tws"])
def test_random_policies_keep_every_promise(name: str) -> None:
    for seed in (7, 8, 12, 14):
        result = Scenario.named(f"{name}{seed}").run()
        assert result.scenario.name == f"{name}{seed}"
        assert not result.violations, result.report()


def test_a_scope_with_a_policy_leaves_its_lane_and_others_stay() -> None:
    world = Watched("a", [], {"x": "a", "y": "a", "u": "a", "v": "a"})
    members = (Join("@x", "s"), Join("@y", "s"), Join("@u", "t"), Join("@v", "t"))
    world.change(CreateScope("s", OPEN), CreateScope("t", OPEN), *members, has("t", INTERNAL, "full"))
    world.subscribe()
    for number in range(5):
        world.client("x").publish(n=number)
        world.client("u").publish(n=number)
    world.network.run()
    lanes = world.network.brokers["a"].delivery.lanes.all()
    assert {scope: lane.taken for scope, lane in lanes.items() if scope and lane.taken} == {"s": 5}
    assert len(world.got("y")) == len(world.got("v")) == 5


def test_removing_a_policy_changes_only_what_goes_through_its_scope() -> None:
    dice = random.Random(5)
    for _ in range(30):
        node, kind = dice.choice(("market", "inner", "city")), dice.choice((PUBLISHING, DELIVERY, INTERNAL))
        graph = market(has(node, kind, "producer", publishers=f"@{dice.choice('abcde')}", deny=dice.random() < 0.5))
        without = apply(graph, (SetPolicy(node, kind, None),))
        for publisher in "abcde":
            note, identity = Notification(n=1), published_by(publisher)
            for reader in "abcde":
                ways = [
                    {one.path for one in sightings(some, f"@{publisher}", note, f"@{reader}", identity=identity)}
                    for some in (graph, without)
                ]
                assert ways[0] <= ways[1]
                assert all(node in way for way in ways[1] - ways[0])


# --- what goes wrong --------------------------------------------------------------------------------------


class Wrong(Policy):
    how = "raise"

    def select(self, notification, eligible, context):  # type: ignore[no-untyped-def]
        if self.how == "raise":
            raise ValueError("no such desk")
        return ["@stranger"] if self.how == "stranger" else eligible

    def not_before(self, notification: Notification, context: PolicyContext) -> int:
        return -1


@pytest.mark.req("VIS-607", "ARC-212")
@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("raise", "it raised ValueError: no such desk"),
        ("stranger", "it chose '@stranger', and could only choose '@b'"),
        ("time", "its time is -1, and no number of microseconds"),
    ],
)
def test_a_policy_that_fails_denies_is_logged_and_counted(
    how: str, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    register_policy("wrong", Wrong)
    Wrong.how = how
    graph = apply(Graph(), (CreateScope("s", OPEN), Join("@a", "s"), Join("@b", "s"), has("s", INTERNAL, "wrong")))
    before = _running.counted().failed
    with caplog.at_level(logging.WARNING, "tidings.scopes"):
        assert [seen(graph, "a") for _ in range(3)] == ["", "", ""]
    assert _running.counted().failed == before + 3
    assert [one.message for one in caplog.records] == [f"internal policy 'wrong' of 's' denies, because {reason}"]


def test_a_policy_that_is_registered_nowhere_here_denies(caplog: pytest.LogCaptureFixture) -> None:
    graph = apply(Graph(), (CreateScope("s", OPEN), Join("@a", "s"), Join("@b", "s"), has("s", INTERNAL, "unheard-of")))
    assert seen(graph, "a") == ""
    assert [one.message for one in caplog.records] == [
        "internal policy 'unheard-of' of 's' denies, because no policy 'unheard-of' is registered here; call "
        "register_policy first"
    ]


def test_a_policy_that_takes_long_is_reported_and_counts(caplog: pytest.LogCaptureFixture) -> None:
    register_policy("slow", Policy)
    graph = apply(Graph(), (CreateScope("s", OPEN), Join("@a", "s"), Join("@b", "s"), has("s", INTERNAL, "slow")))
    running = _running.running(PolicyUse("slow"), INTERNAL, "s")
    times = iter((100.0, 100.2, 100.2))
    running.clock = lambda: next(times)
    before = _running.counted().slow
    assert seen(graph, "a") == "b"
    assert _running.counted().slow == before + 1
    assert [one.message for one in caplog.records] == [
        "internal policy 'slow' of 's' took 200 ms, more than 50 ms; everybody waits for it meanwhile"
    ]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            has("s", INTERNAL, "release", by="n"),
            "the policy 'release' of 's' cannot be set up: commit is not given; say by a filter which notifications "
            "let others go",
        ),
        (
            has("s", INTERNAL, "acknowledged", by="n", acknowledgement="TRUE", count=0),
            "the policy 'acknowledged' of 's' cannot be set up: count is 0; give a number from 1 to 100",
        ),
        (
            has("s", PolicyKind.TRAVERSE, "bottom-up"),
            "'s' cannot have the traverse policy 'bottom-up': it compares what is at several places, and no deciding "
            "point carries that out yet; leave it out, then everything is delivered at every level",
        ),
        (
            has("s", PUBLISHING, "chain", members="@a"),
            "'chain' is no publishing policy of 's'; give it as internal policy",
        ),
        (
            has("@a", DELIVERY, "full"),
            "'@a' is a client, and has no members; give the delivery policy to a scope",
        ),
        (
            has("s", INTERNAL, "delay", seconds="long"),
            "the policy 'delay' of 's' cannot be set up: seconds is 'long'; give a number from 0 to 604,800",
        ),
        (
            has("", INTERNAL, "full", fast=True),
            "the policy 'full' of the root scope cannot be set up: it has no parameter 'fast'; its parameters are: "
            "none",
        ),
        (
            has("s", INTERNAL, "key-dispatch", attribute="n", table="SAP"),
            "the policy 'key-dispatch' of 's' cannot be set up: table has the row 'SAP'; write a value, '=' and a "
            "member, as in 'SAP=@engine'",
        ),
        (
            has("s", INTERNAL, "window", opens="9", closes="17:00"),
            "the policy 'window' of 's' cannot be set up: opens is '9'; give a time of the day in UTC, as in '17:30'",
        ),
        (
            has("s", INTERNAL, "top-k", k=0.5, attribute="rank"),
            "the policy 'top-k' of 's' cannot be set up: k is 0.5; give a number from 1 to 1,000",
        ),
        (
            has("s", INTERNAL, "top-k", k=2, by="luck"),
            "the policy 'top-k' of 's' cannot be set up: by is 'luck'; choose one of attribute, least-loaded",
        ),
        (
            has("s", INTERNAL, "rate-limit", count=1.5, seconds=1),
            "the policy 'rate-limit' of 's' cannot be set up: count is 1.5; give a whole number",
        ),
        (
            has("s", INTERNAL, "state", opens="type = 'open'"),
            "the policy 'state' of 's' cannot be set up: closes is not given; say by a filter which notifications do "
            "that",
        ),
        (
            has("s", PUBLISHING, "rate-limit", count=1, seconds=1),
            "'rate-limit' is no publishing policy of 's'; give it as delivery or internal policy",
        ),
        (
            has("s", PUBLISHING, "mine", point="a"),
            "'mine' is no publishing policy of 's'; give it as delivery or internal policy",
        ),
        (has("nowhere", INTERNAL, "full"), "there is no scope 'nowhere'; known scopes: s"),
    ],
)
def test_what_cannot_be_carried_out_is_refused_when_it_is_deployed(change: AnyChange, message: str) -> None:
    with pytest.raises(ScopeError) as refused:
        apply(apply(Graph(), (CreateScope("s", OPEN),)), (change,))
    assert str(refused.value) == message


def test_no_name_of_the_catalogue_can_be_registered() -> None:
    for name in CATALOGUE:
        with pytest.raises(ScopeError) as refused:
            register_policy(name, Policy)
        assert str(refused.value) == f"'{name}' is a policy of the catalogue; register yours under another name"
