"""Rules in the language: which can be deployed, what they become in the graph, and what an event makes of them."""

from __future__ import annotations

import pytest
from scopes.language.script_world import carried_out, compiled, members, refusal

from tidings.model import ScopeError
from tidings.scopes import Graph, Rule, SetRules, Transaction, apply, inverse
from tidings.scopes.language import Extensions, Firing, check_written, export, instance_of, performed

R = "INTEGRATED_ROUTING"
GROW = "UPDATE ON pub(n: OUTPUT(Order)) DO ALTER SCOPE self ADD ALL FROM trigger"
NOTE = "UPDATE ON join(*, self) IF trigger.level > 2 DO ALTER SCOPE self SET newest = trigger.name"
AUCTION = (
    'DEFINE SCOPE auction AS SUPERSCOPE ALL FROM market SET session-id = "auto" INTERFACES OUTPUT(Sold) '
    "UPDATE ON pub(n: OUTPUT(AuctionOpened)) DO CREATE NOW INCLUDE COMPONENT "
    "UPDATE ON con(n: INPUT(AuctionOpened)) DO ALTER SCOPE self ADD ALL FROM trigger;"
)


def rules(graph: Graph, scope: str) -> list[str]:
    return [rule.text for rule in graph.scopes[scope].rules]


def fired(graph: Graph, scope: str, trigger: str, **notification: object) -> Graph:
    """The graph after the first rule of a scope."""
    firing = Firing(scope, graph.scopes[scope].rules[0], "pub b 1 1", trigger, notification)  # type: ignore[arg-type]
    return apply(graph, performed(graph, firing))


@pytest.mark.req("VIS-915")
def test_rules_are_part_of_the_scope_in_the_order_in_which_they_are_written() -> None:
    graph = carried_out(f"DEPLOY AS market {GROW} {NOTE} {R}")
    assert rules(graph, "market") == [GROW, NOTE]
    assert compiled(f"DEPLOY AS market {GROW} {NOTE} {R}", graph).changes == (), "a file is a state"
    assert compiled(f"DEPLOY AS market {R}", graph).changes == (), "what a file says nothing of is left alone"
    assert rules(carried_out(f"DEPLOY AS market {NOTE} {R}", graph), "market") == [NOTE]
    assert rules(carried_out(f"DEPLOY AS market {R}", graph, prune=True), "market") == []
    added = carried_out(f"ALTER SCOPE market ADD {GROW}", carried_out(f"DEPLOY AS market {NOTE} {R}"))
    assert rules(added, "market") == [NOTE, GROW]
    assert rules(carried_out(f"ALTER SCOPE market DEL {NOTE}", added), "market") == [GROW]
    assert rules(carried_out(f"ALTER SCOPE market {NOTE}", carried_out(f"DEPLOY AS market {GROW} {R}")), "market") == [
        NOTE
    ]


def test_rules_are_exported_undone_and_described_as_all_else_is() -> None:
    before = carried_out(f"DEPLOY AS market ALL FROM @ann {R}")
    script = f"{AUCTION} ALTER SCOPE market ADD {GROW}; DEPLOY auction {R}"
    changes = compiled(script, before).changes
    after = apply(before, changes)
    assert carried_out(export(after)).scopes["market"].rules == after.scopes["market"].rules
    back = inverse(before, Transaction(after.version, changes, "", 0, "x"), after)
    assert apply(after, back).scopes == before.scopes
    assert any(isinstance(change, SetRules) for change in changes)


@pytest.mark.req("VIS-919")
def test_deploying_a_definition_that_creates_scopes_arms_it_and_makes_none() -> None:
    graph = carried_out(f"DEPLOY AS market ALL FROM @ann, @bob {R}; {AUCTION} DEPLOY auction {R}")
    assert set(graph.scopes) == {"", "market"}
    (armed,) = graph.scopes["market"].rules
    assert armed.text == "UPDATE ON pub(n: OUTPUT(AuctionOpened)) DO CREATE NOW INCLUDE COMPONENT"
    made = fired(graph, "market", "@ann")
    name = instance_of(armed, "pub b 1 1")
    assert members(made, name) == {"@ann"}
    assert set(made.superscopes(name)) == {"market"}
    assert dict(made.scopes[name].attributes) == {"session-id": "auto"}
    assert rules(made, name) == ["UPDATE ON con(n: INPUT(AuctionOpened)) DO ALTER SCOPE self ADD ALL FROM trigger"]
    assert fired(made, "market", "@ann").scopes == made.scopes, "one event makes one scope"
    elsewhere = carried_out(f"DEPLOY AS market {R}; DEPLOY AS hall {R}; {AUCTION} DEPLOY auction SET arm = 'hall' {R}")
    assert (len(rules(elsewhere, "market")), len(rules(elsewhere, "hall"))) == (0, 1)
    assert rules(carried_out(f"ALTER SCOPE market DEL {armed.text}", graph), "market") == []


@pytest.mark.req("VIS-917")
def test_an_event_binds_self_trigger_and_attributes_in_actions() -> None:
    graph = carried_out(
        f"DEPLOY AS vips {R}; ALTER SCOPE @ann SET level = 3; DEPLOY AS market ALL FROM @ann "
        "UPDATE ON pub(n: OUTPUT(Order)) DO ALTER SCOPE vips ADD ALL FROM trigger SET last = n.price, "
        f"by = trigger.level, at = self.name, ALTER SCOPE self DEL ALL FROM trigger {R}"
    )
    after = fired(graph, "market", "@ann", type="Order", price=7)
    assert (members(after, "vips"), members(after, "market")) == ({"@ann"}, set())
    assert dict(after.scopes["vips"].attributes) == {"last": 7, "by": 3, "at": "market"}
    with pytest.raises(ScopeError) as caught:
        fired(graph, "market", "@ann", type="Order")
    assert str(caught.value) == "there is no n.price in this event; test for it by IF, or set a constant"


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        (
            'UPDATE ON timer("1h") DO ALTER SCOPE self SET a = 1',
            "no broker watches for the event 'timer'|A definition may hold it; to deploy it, write one of adv, con, "
            "join, leave, pub, sub, unadv, unsub.",
        ),
        (
            "UPDATE ON con(n: OUTPUT(1)) DO ALTER SCOPE self SET a = 1",
            "con is about INPUT|Write INPUT there.",
        ),
        (
            "UPDATE ON pub(self: OUTPUT(1)) DO ALTER SCOPE self SET a = 1",
            "'self' means something else in a rule|Call the notification n.",
        ),
        (
            "UPDATE ON pub(n: OUTPUT(1)) IF price > 3 DO ALTER SCOPE self SET a = 1",
            "price is an attribute of nothing that the event binds|Write n.price, self.price or trigger.price.",
        ),
        (
            "UPDATE ON pub(n: OUTPUT(1)) IF m.price > 3 DO ALTER SCOPE self SET a = 1",
            "m.price is an attribute of nothing that the event binds|Write n.price, self.price or trigger.price.",
        ),
        (
            "UPDATE ON sub(INPUT(1)) IF n.price > 3 DO ALTER SCOPE self SET a = 1",
            "n.price is an attribute of nothing that the event binds|Write self.price or trigger.price.",
        ),
        (
            "UPDATE ON pub(n: OUTPUT(1)) IF HAS INPUT(1) DO ALTER SCOPE self SET a = 1",
            "what a component covers is not known where rules are watched for|Compare attributes of n, trigger or "
            "self, or write IS ROLE(r).",
        ),
        (
            "UPDATE ON pub(n: OUTPUT(1)) DO ALTER SCOPE self SET administrators = n.who",
            "administrators has a meaning to the system, and no event may say what it is|Write a constant, or "
            '"administrators" in quotes for a plain attribute.',
        ),
        (
            "UPDATE ON pub(n: OUTPUT(1)) DO (ALTER SCOPE self UPDATE ON join(*, *) DO ALTER SCOPE self SET a = 1)",
            "a rule cannot make rules|Give the rule to the scope itself.",
        ),
        (
            "UPDATE ON pub(n: OUTPUT(1)) DO CREATE NOW",
            "CREATE NOW makes a scope of a definition, and this has none|DEFINE SCOPE it with the rule, then DEPLOY "
            "the definition.",
        ),
    ],
)
def test_what_cannot_be_carried_out_is_refused_with_its_place_and_the_remedy(rule: str, problem: str) -> None:
    text = f"DEPLOY AS s {rule} {R}"
    message = refusal(text, extensions=Extensions(events=frozenset({"timer"})))
    first, *_, last = message.splitlines()
    assert f"{first.split(': ', 1)[1]}|{last.strip()}" == problem
    assert carried_out(f"DEFINE SCOPE d AS {rule}", extensions=Extensions(events=frozenset({"timer"}))).definitions


def test_what_creates_scopes_needs_a_definition_and_a_place_to_watch() -> None:
    lonely = "DEFINE SCOPE d AS UPDATE ON pub(n: OUTPUT(1)) DO CREATE NOW;"
    assert "no scope is named that would watch for what creates 'd'" in refusal(f"{lonely} DEPLOY d {R}")
    assert "Leave out AS x." in refusal(f"{lonely} DEPLOY d AS x {R}")
    assert "CREATE NOW makes a scope of the definition that the rule is in, and this is none" in refusal(
        f"DEPLOY AS s {R}; ALTER SCOPE s ADD UPDATE ON pub(n: OUTPUT(1)) DO CREATE NOW"
    )


def test_only_what_is_printed_so_is_taken_from_others() -> None:
    check_written(Rule(GROW))
    for text in ("", "nonsense", GROW.replace("ALL ", ""), f"{GROW} {GROW}", "ALL FROM x"):
        with pytest.raises(ScopeError):
            check_written(Rule(text))
    with pytest.raises(ScopeError):
        check_written(Rule("UPDATE ON pub(n: OUTPUT(1)) DO CREATE NOW"))
