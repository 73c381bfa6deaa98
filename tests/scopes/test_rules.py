"""Rules on simulated networks of production brokers: what happens is carried out, once, and only if it is visible."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidings.broker import RoutingOptions
from tidings.model import ROOT_SCOPE, Notification
from tidings.scopes import (
    Answer,
    AnyChange,
    Ask,
    Graph,
    Join,
    Leave,
    Redefine,
    Rules,
    Scopes,
    SetAdministration,
    SetAttributes,
    SetRules,
    Undefine,
    reach,
)
from tidings.scopes.language import Source, World, compile_script
from tidings.scopes.service import _backlog, _firing, _watching
from tidings.sim import Network
from tidings.wire import Quality

R = "INTEGRATED_ROUTING"


class Ruled:
    """Brokers a, b and c in a row; a is the authority. Clients are attached to b and c in turns."""

    def __init__(self, script: str = "", clients: str = "wxyz", *, advertisements: bool = False, seed: int = 1) -> None:
        routing = RoutingOptions("covering", advertisements=advertisements)
        self.network = Network(seed=seed, features=_features, routing=routing)
        self.network.add_brokers("abc", links=("ab", "bc"))
        self.network.run()
        for at, client in enumerate(clients):
            self.network.add_client(client, "bc"[at % 2])
        self.network.run()
        if script:
            assert self.execute(script).error == ""

    def execute(self, script: str, who: str = "") -> Answer:
        """Carry out a script as somebody; without a name, as an operator."""
        changes = compile_script([Source(script)], World(self.graph), command=True).changes
        return self.change(*changes, who=who)

    def change(self, *changes: AnyChange, who: str = "") -> Answer:
        answers: list[Answer] = []
        scopes = self.feature("b", "scopes")
        scopes.ask(changes, answers.append, who=who, administrator=not who, template=Ask("", changes))
        self.network.run()
        return answers[0]

    def publish(self, client: str, **attributes: object) -> None:
        self.network.clients[client].publish(Notification(attributes))
        self.network.run()

    def feature(self, broker: str, name: str) -> Any:
        return self.network.brokers[broker].features[name]

    @property
    def graph(self) -> Graph:
        graph = self.feature("a", "scopes").graph
        assert isinstance(graph, Graph)
        return graph

    @property
    def firings(self) -> _firing.Firings:
        authority = self.feature("a", "scopes").authority
        assert authority is not None
        return authority.firings  # type: ignore[no-any-return]

    @property
    def reasons(self) -> list[str]:
        return list(self.firings.reasons.values())

    def said(self, scope: str) -> dict[str, object]:
        return dict(self.graph.scopes[scope].attributes)

    def members(self, scope: str) -> set[str]:
        return set(self.graph.members(scope))


def _features(broker: str) -> list[Any]:
    scopes = Scopes("a")
    return [scopes, Rules(scopes)]


MARKET = f"DEPLOY AS market ALL FROM @w, @x {R}; DEPLOY AS vips {R}; "
GROW = "UPDATE ON pub(n: OUTPUT(kind = 'order')) DO ALTER SCOPE vips ADD ALL FROM trigger"
COUNT = "UPDATE ON pub(n: OUTPUT(1)) DO ALTER SCOPE self SET latest = n.n"


# --- events ---------------------------------------------------------------------------------------------


@pytest.mark.req("VIS-915", "VIS-917")
def test_a_publication_changes_the_graph() -> None:
    world = Ruled(f"{MARKET} ALTER SCOPE market ADD {GROW}")
    world.publish("w", kind="offer")
    assert world.members("vips") == set()
    world.publish("w", kind="order")
    assert world.members("vips") == {"@w"}
    world.publish("x", kind="order")
    assert world.members("vips") == {"@w", "@x"}
    assert world.firings.done.total() == 2


@pytest.mark.req("VIS-915")
def test_all_events_of_the_language_are_watched_for() -> None:
    events = {
        "pub": "pub(n: OUTPUT(kind = 'a'))",
        "in": "pub(n: INPUT(kind = 'a'))",
        "con": "con(n: INPUT(kind = 'a'))",
        "sub": "sub(INPUT(kind = 'a'))",
        "unsub": "unsub(INPUT(kind = 'a'))",
        "adv": "adv(OUTPUT(kind = 'a'))",
        "unadv": "unadv(OUTPUT(kind = 'a'))",
        "join": "join(*, self)",
        "leave": "leave(*, self)",
    }
    rules = " ".join(
        f"UPDATE ON {event} DO ALTER SCOPE self SET {name} = trigger.name" for name, event in events.items()
    )
    world = Ruled(
        f"DEPLOY AS hall ALL FROM @z {R};"
        f"DEPLOY AS s SUPERSCOPE ALL FROM hall ALL FROM @w, @x INTERFACES INPUT(1), OUTPUT(1) {rules} {R}",
        advertisements=True,
    )
    w, x, z = (world.network.clients[name] for name in "wxz")

    def seen(**expected: str) -> None:
        world.network.run()
        assert world.said("s") == expected, world.reasons

    other = x.advertise("kind = 'b'")
    seen()
    ad = x.advertise("kind = 'a'")
    z.advertise("TRUE")
    seen(adv="x")
    w.subscribe("kind = 'b'")
    seen(adv="x")
    mine = w.subscribe("kind = 'a' AND n > 3")
    seen(adv="x", sub="w")
    x.publish(kind="a", n=1)
    seen(adv="x", sub="w", pub="x")
    x.publish(kind="a", n=5)
    seen(adv="x", sub="w", pub="x", con="w")
    z.publish(kind="a", n=1)
    seen(adv="x", sub="w", pub="x", con="w", **{"in": "hall"})
    w.unsubscribe(mine)
    x.unadvertise(other)
    seen(adv="x", sub="w", pub="x", con="w", unsub="w", **{"in": "hall"})
    x.unadvertise(ad)
    seen(adv="x", sub="w", pub="x", con="w", unsub="w", unadv="x", **{"in": "hall"})
    assert not world.change(Join("@y", "s")).error
    seen(adv="x", sub="w", pub="x", con="w", unsub="w", unadv="x", join="y", **{"in": "hall"})
    assert not world.change(Leave("@w", "s")).error
    seen(adv="x", sub="w", pub="x", con="w", unsub="w", unadv="x", join="y", leave="w", **{"in": "hall"})


def test_the_trigger_of_what_is_published_deeper_inside_is_the_subscope() -> None:
    world = Ruled(
        f"DEPLOY AS hall UPDATE ON pub(n: OUTPUT(1)) DO ALTER SCOPE self SET by = trigger.name {R};"
        f"DEPLOY AS room SUPERSCOPE ALL FROM hall ALL FROM @w INTERFACES OUTPUT(kind = 'a') {R}"
    )
    world.publish("w", kind="b")
    assert world.said("hall") == {}
    world.publish("w", kind="a")
    assert world.said("hall") == {"by": "room"}


@pytest.mark.req("VIS-916")
def test_conditions_are_about_the_notification_the_component_and_the_scope() -> None:
    condition = "n.price > self.limit AND (trigger.level >= 2 OR IS ROLE(boss)) AND NOT n.symbol LIKE 'X%'"
    world = Ruled(
        f"{MARKET} ALTER SCOPE market SET limit = 100; ALTER SCOPE @w SET level = 2; ALTER SCOPE @x ROLES boss;"
        f"ALTER SCOPE market ADD ALL FROM @y UPDATE ON pub(n: OUTPUT(1)) IF {condition} "
        "DO ALTER SCOPE self SET hit = n.id"
    )
    for id, (client, price, symbol) in enumerate(
        [("w", 100, "A"), ("y", 101, "A"), ("w", 101, "XA"), ("w", 101, "A"), ("x", 200, "B")]
    ):
        world.publish(client, price=price, symbol=symbol, id=id)
        assert world.said("market").get("hit") == {3: 3, 4: 4}.get(id), (id, world.reasons)
    world.publish("w", symbol="A", id=9)
    assert world.said("market")["hit"] == 4, "an attribute that is missing makes a test false"


PLACES = st.sampled_from(["hall", "room", "shed", "hall room", "room shed", ""])


@pytest.mark.req("VIS-918")
@settings(max_examples=25, deadline=None)
@given(
    places=st.lists(PLACES, min_size=3, max_size=3),
    closed=st.booleans(),
    kinds=st.lists(st.sampled_from("ab"), min_size=3, max_size=3),
)
def test_rules_react_to_what_their_scope_can_see_and_to_nothing_else(
    places: list[str], closed: bool, kinds: list[str]
) -> None:
    mark = "DO ALTER SCOPE self SET {0} = 1"
    rule = f"UPDATE ON pub(n: OUTPUT(by = '{{0}}')) {mark} UPDATE ON pub(n: INPUT(by = '{{0}}')) {mark}"
    out = "INTERFACES INPUT(kind = 'a'), OUTPUT(kind = 'b')" if closed else "INTERFACES INPUT(1), OUTPUT(1)"
    script = f"DEPLOY AS hall {R}; DEPLOY AS room SUPERSCOPE ALL FROM hall {out} {R}; DEPLOY AS shed {R};"
    for client, place in zip("wxy", places, strict=True):
        script += "".join(f"ALTER SCOPE {scope} ADD ALL FROM @{client};" for scope in place.split())
    for scope in ("hall", "room", "shed"):
        names = " ".join(map(rule.format, "wxy"))
        script += f"ALTER SCOPE {scope} ADD {names};"
    world = Ruled(script, "wxy")
    for client, kind in zip("wxy", kinds, strict=True):
        seen = {at.node for at in reach(world.graph, f"@{client}", Notification(kind=kind, by=client), clients=False)}
        world.publish(client, kind=kind, by=client)
        marked = {scope for scope in ("hall", "room", "shed") if client in world.said(scope)}
        assert marked == seen - {ROOT_SCOPE, f"@{client}"}


# --- once -----------------------------------------------------------------------------------------------


def requests(world: Ruled) -> list[str]:
    """What rules have asked for, of all versions but those in which brokers came to carry a scope."""
    transactions = world.feature("a", "scopes").versions.since(0)
    return [one.request for one in transactions if one.depth]


def test_an_event_that_is_told_again_is_answered_and_not_carried_out_again() -> None:
    world = Ruled(f"{MARKET} ALTER SCOPE market ADD {COUNT}")
    world.publish("w", n=1)
    (id,) = requests(world)
    rules = world.feature("b", "rules")
    (known,) = [fired for fired in world.firings._known.values() if fired.id == id]
    scope, key = next(iter(world.firings.done))
    fire = _watching.Fire(id, scope, key, "pub again", "@w", _watching.encode_body(Notification(n=7)))
    rules._backlog.add(_backlog.Waiting(fire, rules.context.now()))
    rules._ask_later(0)
    world.network.run()
    assert world.said("market") == {"latest": 1}
    assert (known.outcome.value, rules.waiting, rules.counted["done"]) == ("done", 0, 2)


@pytest.mark.parametrize("crashed", ["a", "b", "ab"])
def test_a_crash_of_the_authority_or_of_the_broker_that_asks_changes_nothing(crashed: str) -> None:
    """Whatever is lost at whatever instant: what was accepted is carried out once."""
    for delay in range(0, 60, 4):
        world = Ruled(f"{MARKET} ALTER SCOPE market ADD {COUNT}", seed=delay)
        world.network.clients["w"].publish(n=1)
        world.network.run(delay / 1_000)
        for name in crashed:
            world.network.crash(name)
        world.network.run(0.5)
        for name in crashed:
            world.network.restart(name)
        world.network.run()
        world.publish("w", n=2)
        ids = requests(world)
        assert len(ids) == len(set(ids))
        assert len(ids) == 2 or "b" in crashed, "only what its broker has lost is not carried out"
        assert world.said("market") == {"latest": 2}


def test_what_was_stored_has_its_consequences_though_the_disk_had_lost_what_rules_make_of_it() -> None:
    world = Ruled(f"{MARKET} ALTER SCOPE market ADD {COUNT}")
    world.network.cut("a", "b")
    world.network.run(1)
    world.network.clients["w"].publish(n=1, quality=Quality.STORED)
    world.network.run(1)
    disk = world.network.brokers["b"].runtime.log
    assert disk is not None
    (waiting,) = disk.items(_watching.TABLE)
    disk.delete(_watching.TABLE, waiting)  # as if it had been written behind the publication, and too late
    world.network.run(1)
    world.network.crash("b")
    world.network.restart("b")
    world.network.heal("a", "b")
    world.network.run()
    assert world.said("market") == {"latest": 1}
    assert len(requests(world)) == 1


def test_while_the_authority_is_away_events_wait_and_then_they_are_dropped_and_counted(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    world = Ruled(f"{MARKET} ALTER SCOPE market ADD {COUNT}")
    rules = world.feature("b", "rules")
    world.network.cut("a", "b")
    world.network.run(1)
    world.network.clients["w"].publish(n=1)
    world.network.run(30)
    assert (rules.waiting, world.said("market")) == (1, {})
    world.network.heal("a", "b")
    world.network.run()
    assert world.said("market") == {"latest": 1}
    monkeypatch.setattr(_backlog, "MAX_WAITING", 2)
    monkeypatch.setattr(_watching, "MAX_WAITING", 2)
    world.network.cut("a", "b")
    world.network.run(1)
    for n in (2, 3, 4):
        world.network.clients["w"].publish(n=n)
    world.network.run(1)
    assert (rules.waiting, rules.counted["dropped"]) == (2, 1)
    world.network.run(120)
    assert (rules.waiting, rules.counted["dropped"]) == (0, 3)
    world.network.heal("a", "b")
    world.network.run()
    assert world.said("market") == {"latest": 1}
    messages = [record.getMessage() for record in caplog.records if "is not carried out" in record.getMessage()]
    assert messages[0].startswith("a rule of 'market' is not carried out at pub b ")
    assert messages[0].endswith(": 2 others wait for the authority")
    assert messages[1].endswith(": the authority has not answered for 60 s")


# --- what goes wrong ------------------------------------------------------------------------------------


def test_a_rule_that_fails_changes_nothing_is_counted_and_holds_up_nobody(caplog: pytest.LogCaptureFixture) -> None:
    fails = "UPDATE ON pub(n: OUTPUT(1)) DO ALTER SCOPE vips ADD ALL FROM trigger SET price = n.price"
    world = Ruled(f"{MARKET} ALTER SCOPE market ADD {fails} {COUNT}")
    world.network.clients["x"].subscribe("TRUE")
    world.network.run()
    world.publish("w", n=1)
    assert world.members("vips") == set(), "all of a rule, or nothing"
    assert world.said("market") == {"latest": 1}, "the next rule is carried out"
    assert len(world.network.clients["x"].received) == 1
    assert (world.firings.done.total(), world.firings.failed.total()) == (1, 1)
    (message,) = (record.getMessage() for record in caplog.records if record.name == "tidings.rules")
    identity = message.removeprefix("a rule of 'market' failed at pub b ").split(":")[0]
    assert message == (
        f"a rule of 'market' failed at pub b {identity}: there is no n.price in this event; test for it by IF, or set "
        "a constant"
    )


def test_rules_that_lead_to_each_other_end_after_sixteen() -> None:
    world = Ruled(
        f"DEPLOY AS s UPDATE ON join(*, self) DO ALTER SCOPE self DEL ALL FROM trigger "
        f"UPDATE ON leave(*, self) DO ALTER SCOPE self ADD ALL FROM trigger {R}"
    )
    assert not world.change(Join("@w", "s")).error
    assert world.firings.done.total() == _firing.MAX_DEPTH == 16
    assert world.reasons == [
        "16 rules have led to each other by what they change, which is the most; let one of them ask by IF whether "
        "there is something to do"
    ]
    depths = [one.depth for one in world.feature("a", "scopes").versions.since(0) if one.depth and one.changes]
    assert max(depths) == 16
    assert not world.change(Join("@x", "s")).error, "others go on"


def test_two_rules_that_pull_in_both_directions_at_each_event_are_carried_out_in_their_order() -> None:
    world = Ruled(
        f"DEPLOY AS s ALL FROM @w UPDATE ON pub(n: OUTPUT(1)) DO ALTER SCOPE self SET state = 'open' "
        f"UPDATE ON pub(n: OUTPUT(1)) DO ALTER SCOPE self SET state = 'shut' {R}"
    )
    for n in range(3):
        world.publish("w", n=n)
        assert world.said("s") == {"state": "shut"}
    assert world.firings.done.total() == 6


AUCTION = (
    'DEFINE SCOPE auction AS SUPERSCOPE ALL FROM market SET session-id = "auto" INTERFACES OUTPUT(kind = "sold") '
    'UPDATE ON pub(n: OUTPUT(kind = "open")) DO CREATE NOW INCLUDE COMPONENT '
    'UPDATE ON con(n: INPUT(kind = "open")) DO ALTER SCOPE self ADD ALL FROM trigger;'
)


@pytest.mark.req("VIS-917", "VIS-919")
def test_a_session_scope_per_auction_starts_with_the_opener_and_grows_with_each_consumer() -> None:
    """X1 of the documents, on three brokers: the whole of it is written in the language."""
    world = Ruled(f"DEPLOY AS market ALL FROM @w, @x, @y, @z {R}; {AUCTION} DEPLOY auction {R}")
    for client in "xy":
        world.network.clients[client].subscribe("kind = 'open'")
    world.network.run()
    world.publish("w", kind="open", lot=1)
    (first,) = (id for id in world.graph.scopes if id.startswith("auction"))
    assert world.members(first) == {"@w", "@x", "@y"}, world.reasons
    assert world.said(first) == {"session-id": "auto"}
    world.publish("x", kind="open", lot=2)
    (second,) = (id for id in world.graph.scopes if id.startswith("auction") and id != first)
    assert world.members(second) == {"@x", "@y"}
    assert world.members(first) == {"@w", "@x", "@y"}, "who hears of one auction is not in the other"
    assert set(world.graph.superscopes(second)) == {"market"}


def test_how_many_scopes_a_rule_creates_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_firing, "MAX_CREATED", 3)
    world = Ruled(f"DEPLOY AS market ALL FROM @w {R}; {AUCTION} DEPLOY auction {R}")
    for lot in range(5):
        world.publish("w", kind="open", lot=lot)
    assert sum(id.startswith("auction") for id in world.graph.scopes) == 3
    assert world.reasons == [
        "it has created 3 scopes within a minute, which is the most; let it ask by IF for what is rare, or publish "
        "less often what it waits for"
    ]
    world.network.run(61)
    world.publish("w", kind="open", lot=9)
    assert sum(id.startswith("auction") for id in world.graph.scopes) == 4


def test_the_authority_forgets_what_rules_did_that_are_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_firing, "MAX_CREATED", 1)
    monkeypatch.setattr(_firing, "MINUTE", 3_600_000_000)  # time goes by while the brokers come to rest
    world = Ruled(f"DEPLOY AS market ALL FROM @w {R}; {AUCTION} DEPLOY auction {R}")
    opens = "UPDATE ON pub(n: OUTPUT(kind = 'note')) DO ALTER SCOPE self SET noted = n.lot"
    assert not world.execute(f"DEPLOY AS board ALL FROM @w {opens} {opens.replace('lot', 'none')} {R}").error
    world.publish("w", kind="note", lot=1)
    world.publish("w", kind="open", lot=1)
    assert {scope for scope, _ in world.firings.done} == {"market", "board"}
    assert {scope for scope, _ in world.firings.failed} == {"board"}
    (board,) = (scope for scope in world.graph.ruled if scope.id == "board")
    assert not world.change(SetRules("board", ())).error
    (market,) = world.graph.scopes["market"].rules
    assert not world.change(SetRules("market", ())).error
    firings = world.firings
    assert (*firings.done, *firings.failed, *firings.reasons) == ()
    assert len(firings._created) == 1, "taking a rule away and giving it back creates no more scopes in a minute"
    assert not world.change(SetRules("market", (market,))).error
    world.publish("w", kind="open", lot=2)
    assert firings.failed.total() == 1
    world.network.run(3_601)
    assert not world.change(SetRules("market", ()), SetRules("board", board.rules)).error
    assert not firings._created


# --- rights ---------------------------------------------------------------------------------------------


def test_whoever_deploys_a_rule_needs_the_rights_that_its_actions_need() -> None:
    world = Ruled(f"{MARKET} ALTER SCOPE market SET administrators = ['w']")
    answer = world.execute(f"ALTER SCOPE market ADD {GROW}", who="w")
    assert (answer.error, answer.reason) == (
        "NotAllowed",
        "a rule of 'market' would do what its owner may not: 'w' may not Join here: it is not an administrator of "
        "'vips'; ask one to do it, or to make you one",
    )
    assert world.graph.scopes["market"].rules == ()
    assert world.execute(f"ALTER SCOPE market ADD {COUNT}", who="x").error == "NotAllowed"
    answer = world.execute(f"ALTER SCOPE market ADD {COUNT}", who="w")
    assert (answer.error, answer.changes) == ("", ()), "what was asked was granted"
    (rule,) = world.graph.scopes["market"].rules
    assert (rule.who, rule.everything) == ("w", False)


def test_the_rights_of_its_owner_are_checked_again_when_a_rule_is_carried_out() -> None:
    world = Ruled(
        f"{MARKET} ALTER SCOPE market SET administrators = ['w']; ALTER SCOPE vips SET administrators = ['w']"
    )
    assert world.execute(f"ALTER SCOPE market ADD {GROW}", who="w").error == ""
    world.publish("w", kind="order")
    assert world.members("vips") == {"@w"}
    assert not world.change(SetAdministration("vips", administrators=())).error
    world.publish("x", kind="order")
    assert world.members("vips") == {"@w"}
    assert world.reasons == [
        "'w' may not Join here: it is not an administrator of 'vips'; ask one to do it, or to make you one"
    ]


def test_a_rule_that_names_what_is_not_there_is_refused_when_it_is_deployed() -> None:
    world = Ruled(MARKET)
    answer = world.execute(
        "ALTER SCOPE market ADD UPDATE ON pub(n: OUTPUT(1)) DO ALTER SCOPE nowhere ADD ALL FROM trigger"
    )
    assert answer.error == "UnknownName"
    assert answer.reason.startswith(
        "a rule of 'market' can never be carried out: no scope or client 'nowhere' can be seen here; "
    )


# --- what others may not spoil ----------------------------------------------------------------------------


def test_a_rule_whose_owner_no_longer_sees_its_scope_fails_and_others_go_on() -> None:
    world = Ruled(f"DEPLOY AS team ALL FROM @x, @y SET administrators = ['w'] SET hidden = TRUE {R}")
    assert world.execute(f"ALTER SCOPE team ADD {COUNT}", who="w").error == ""
    assert world.change(SetAdministration("team", administrators=()), who="w").error == ""
    world.publish("x", n=1)
    assert world.reasons == ["'w', who deployed it, no longer sees the scope; let somebody who does deploy it"]
    assert world.execute(f"DEPLOY AS later {R}").error == ""


def test_a_rule_that_cannot_be_read_any_more_does_not_stop_the_authority() -> None:
    world = Ruled(f"{MARKET} ALTER SCOPE market ADD UPDATE ON pub(n: OUTPUT(Order)) DO ALTER SCOPE self SET a = 1")
    assert world.change(SetAttributes("market", {"filter-model": "nonsense"})).error == ""
    assert world.change(Join("@w", "vips")).error == ""
    assert world.members("vips") == {"@w"}
    assert world.firings.failed.total() >= 1
    assert all("it cannot be read" in reason for reason in world.reasons)


def test_nobody_changes_a_definition_by_which_a_rule_of_somebody_else_creates_scopes() -> None:
    opens = 'UPDATE ON pub(n: OUTPUT(kind = "open")) DO CREATE NOW'
    world = Ruled(
        f"DEPLOY AS team ALL FROM @w, @x SET administrators = ['w'] {R}; "
        f'DEFINE SCOPE "team/auction" AS SUPERSCOPE ALL FROM team {opens}; DEPLOY SCOPE "team/auction" {R}'
    )
    other = f'DEFINE SCOPE "team/auction" AS SUPERSCOPE ALL FROM team ALL FROM @y {opens}'
    for change in (Redefine("team/auction", other), Undefine("team/auction")):
        answer = world.change(change, who="w")
        assert (answer.error, answer.reason) == (
            "NotAllowed",
            f"'w' may not {type(change).__name__} 'team/auction': a rule of 'team' creates scopes by it in the name "
            "of an operator; ask for it there, or have the rule taken away",
        )
    assert world.execute('DEFINE SCOPE "team/other" AS ALL FROM @w', who="w").error == ""
    assert world.change(Undefine("team/auction")).error == ""


def test_whoever_floods_a_scope_with_events_costs_no_other_scope_and_no_other_member_theirs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_backlog, "MAX_WAITING", 10)
    world = Ruled(
        f"DEPLOY AS loud ALL FROM @w, @y {COUNT} {R}; "
        f"DEPLOY AS quiet ALL FROM @y UPDATE ON pub(n: OUTPUT(m > 0)) DO ALTER SCOPE self SET heard = n.m {R}"
    )
    rules = world.feature("b", "rules")
    world.network.cut("a", "b")
    world.network.run(1)
    for client, some in (("w", range(30)), ("y", range(101, 103)), ("w", range(30, 60))):
        for n in some:
            world.network.clients[client].publish(n=n, m=n - 100)
            world.network.run(0.1)
    disk = world.network.brokers["b"].runtime.log
    assert disk is not None
    kept = [(waiting.fire.scope, waiting.fire.trigger) for waiting in rules._backlog]
    assert kept == [("loud", "@w")] * 6 + [("loud", "@y"), ("quiet", "@y")] * 2
    assert set(disk.items(_watching.TABLE)) == {waiting.fire.id for waiting in rules._backlog}
    assert (rules.waiting, rules.counted["dropped"]) == (10, 54)
    world.network.heal("a", "b")
    world.network.run()
    assert (world.said("loud"), world.said("quiet")) == ({"latest": 102}, {"heard": 2})
    assert (rules.waiting, *rules._backlog._scopes, *rules._backlog._triggers) == (0,)


def test_the_event_that_the_authority_is_asked_about_is_not_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_backlog, "MAX_WAITING", 1)
    backlog = _backlog.Backlog()
    for id, scope in (("a", "s"), ("b", "s")):
        backlog.add(_backlog.Waiting(_watching.Fire(id, scope, "rule", id, "@w"), 0))
    dropped = {asking: backlog.excess(asking) for asking in (None, "a", "b")}
    assert [(asking, one and one.fire.id) for asking, one in dropped.items()] == [(None, "b"), ("a", "b"), ("b", "a")]


def test_what_was_advertised_before_does_not_begin_again_and_is_forgotten_when_it_ends() -> None:
    began = "UPDATE ON adv(OUTPUT(1)) DO ALTER SCOPE self SET began = trigger.name"
    world = Ruled(f"DEPLOY AS s ALL FROM @x {R}; DEPLOY AS t {R}", advertisements=True)
    x, rules = world.network.clients["x"], world.feature("c", "rules")
    x.advertise("n = 0")
    world.network.run()
    assert world.execute(f"ALTER SCOPE s ADD {began}").error == ""
    assert world.execute(f"ALTER SCOPE t ADD {began}").error == ""
    for change in (Join("@x", "t"), Leave("@x", "s"), Join("@x", "s")):
        assert world.change(change).error == ""
    assert world.said("s") == world.said("t") == {}
    for n in range(5):
        ad = x.advertise(f"n = {n}")
        world.network.run()
        x.unadvertise(ad)
        world.network.run()
    assert len(rules._advertised) == 1
    assert list(world.firings.done.values()) == [5, 5]
    assert not world.change(SetRules("s", ()), SetRules("t", ())).error
    assert not rules._advertised
    assert not rules._woven, "without rules nothing is advised"


def test_what_the_authority_cannot_say_yet_holds_up_nobody_else() -> None:
    """X publishes above the scope what would open an auction inside: its consumers wait for one that never begins."""
    world = Ruled(
        f"DEPLOY AS city ALL FROM @x {R}; "
        f"DEPLOY AS market SUPERSCOPE ALL FROM city ALL FROM @w, @y INTERFACES INPUT(1) {R}; "
        f"{AUCTION} DEPLOY auction {R}; DEPLOY AS other ALL FROM @w {COUNT} {R}"
    )
    world.network.clients["y"].subscribe("kind = 'open'")
    world.network.run()
    for lot in range(20):
        world.network.clients["x"].publish(Notification(kind="open", lot=lot))
    world.network.run(1)
    assert world.feature("b", "rules").waiting == 20
    world.network.clients["w"].publish(Notification(n=7))
    world.network.run(1)
    assert world.said("other") == {"latest": 7}


def test_somebody_who_makes_a_rule_fire_all_the_time_does_not_keep_scripts_of_others_out() -> None:
    """A script is worked out on a version. While it is, the rule makes the next one, again and again."""
    world = Ruled(f"DEPLOY AS market ALL FROM @w {COUNT} {R}")
    published = 0

    def go_on() -> None:
        nonlocal published
        for _ in range(5):
            published += 1
            world.network.clients["w"].publish(Notification(n=published))
            world.network.run(0.01)

    def execute(script: str) -> Answer:
        graph, answers = world.graph, list[Answer]()
        go_on()
        changes = compile_script([Source(script)], World(graph), command=True).changes
        ask = Ask("", changes, expected=graph.version)
        world.feature("b", "scopes").ask(changes, answers.append, administrator=True, template=ask)
        while not answers:
            go_on()
        return answers[0]

    go_on()
    refused = 0
    while error := execute("ALTER SCOPE market SET y = 2").error:
        assert error == "StaleGraph"
        refused += 1
    assert 1 <= refused <= 3, "a client tries ten times"
    for _ in range(10):
        go_on()
    world.network.run(5)
    assert world.said("market") == {"latest": published, "y": 2}, "the rule goes on, and loses nothing"
    assert sum(world.firings.done.values()) == published
