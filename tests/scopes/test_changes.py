"""Changes: one version of a scope graph becomes the next, or stays what it is."""

from __future__ import annotations

import random
from typing import get_args

import msgspec
import pytest
from scopes.graph_world import graph

from tidings.model import EVERYTHING, NOTHING, ROOT_SCOPE, Duplicates, Filter, ScopeError
from tidings.scopes import (
    CLOSED,
    OPEN,
    Anchor,
    AnyChange,
    CreateScope,
    Define,
    DestroyScope,
    EdgeMapping,
    Forget,
    Graph,
    Impose,
    Interface,
    Join,
    Leave,
    Mapping,
    Placement,
    PolicyKind,
    PolicyUse,
    Redefine,
    Rule,
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
    apply,
    dec_hook,
    edge_mapping,
    enc_hook,
    is_client,
    mapping,
    warnings,
)
from tidings.scopes._applying import MAX_DEPTH, MAX_ID, MAX_PATHS, MAX_SUPERSCOPES
from tidings.scopes._attributes import MAX_ATTRIBUTES
from tidings.scopes.mappings._steps import Rename

QUOTES = Interface.parse(output="type = 'quote'")
SMALL = graph("x < S", "S < T", "T < R")


def refused(before: Graph, *changes: AnyChange, match: str) -> None:
    """The changes are refused with these words, and nothing has happened to the graph they were for."""
    picture = before.version, repr(before.scopes), repr(list(before.memberships())), repr(before.anchors)
    with pytest.raises(ScopeError, match=match):
        apply(before, changes)
    assert (before.version, repr(before.scopes), repr(list(before.memberships())), repr(before.anchors)) == picture


# --- scopes ---------------------------------------------------------------------------------------------


@pytest.mark.req("VIS-312")
def test_a_scope_is_created_as_it_was_described() -> None:
    change = CreateScope("a/b", QUOTES, OPEN, True, {"name": "b"}, ("ann",), True, ("b1",), ("digest",))
    after = apply(Graph(), (change,))
    scope = after.scope("a/b")
    assert (scope.interface, scope.imposed, scope.abstract) == (QUOTES, OPEN, True)
    assert (scope.attributes, scope.administrators, scope.admission) == ({"name": "b"}, ("ann",), ("digest",))
    assert scope.hidden
    assert scope.confidential
    assert (scope.revised, after.version) == (1, 1)
    assert after.members("a/b") == after.superscopes("a/b") == {}


@pytest.mark.parametrize("id", ["", "@x", "a//b", "/a", "a/", "a\nb", "x" * (MAX_ID + 1)])
def test_what_cannot_name_a_scope_is_refused(id: str) -> None:
    refused(SMALL, CreateScope(id), match=r"exists already|cannot name a scope: up to 256 printable characters")


def test_the_longest_name_is_a_name() -> None:
    assert "x" * MAX_ID in apply(SMALL, (CreateScope("x" * MAX_ID),)).scopes


def test_a_scope_is_created_once() -> None:
    refused(SMALL, CreateScope("S"), match="a scope 'S' exists already; choose another name")


def test_there_are_only_so_many_scopes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidings.scopes._applying.MAX_SCOPES", 4)
    refused(SMALL, CreateScope("U"), match="there are 4 scopes already; destroy some first")


@pytest.mark.req("VIS-312")
def test_a_scope_with_edges_is_destroyed_only_with_them() -> None:
    refused(SMALL, DestroyScope("S"), match="'S' has 1 member and 1 superscope; .* --cascade")
    after = apply(SMALL, (DestroyScope("S", cascade=True),))
    assert "S" not in after.scopes
    assert after.members("T") == after.superscopes("@x") == after.superscopes("S") == {}
    assert after.superscopes("T") == SMALL.superscopes("T")
    alone = apply(SMALL, (Leave("@x", "S"), Leave("S", "T"), DestroyScope("S")))
    assert alone == after


def test_a_destroyed_scope_leaves_no_anchors() -> None:
    after = apply(SMALL, (Anchor("S", "b1"), DestroyScope("S", cascade=True)))
    assert after.anchors == {}


def test_the_root_scope_cannot_be_destroyed() -> None:
    refused(SMALL, DestroyScope(ROOT_SCOPE, cascade=True), match="the root scope is always there")
    refused(SMALL, DestroyScope("X"), match="there is no scope 'X'")


# --- edges ----------------------------------------------------------------------------------------------


@pytest.mark.req("VIS-312")
def test_members_join_and_leave() -> None:
    joined = apply(SMALL, (Join("@y", "T", QUOTES, CLOSED),))
    assert set(joined.members("T")) == {"S", "@y"}
    edge = joined.membership("@y", "T")
    assert (edge.selective, edge.imposed, edge.since) == (QUOTES, CLOSED, 2)
    left = apply(joined, (Leave("@y", "T"),))
    assert list(left.memberships()) == list(SMALL.memberships())


def test_who_has_left_its_last_scope_is_a_member_of_nothing_until_somebody_decides() -> None:
    joined = apply(SMALL, (Join("@y", "T"),))
    assert set(SMALL.upward("@y")) == {ROOT_SCOPE}  # a stranger
    left = apply(joined, (Leave("@y", "T"),))
    assert not left.upward("@y")
    assert Snapshot.of(left).graph() == left
    destroyed = apply(joined, (DestroyScope("T", cascade=True),))
    assert not destroyed.upward("@y")
    assert set(apply(left, (Join("@y", ROOT_SCOPE),)).upward("@y")) == {ROOT_SCOPE}


@pytest.mark.req("VIS-301")
def test_a_member_may_have_several_superscopes() -> None:
    after = apply(SMALL, (Join("@x", "R"), Join("S", "R")))
    assert set(after.superscopes("@x")) == {"S", "R"}
    assert set(after.superscopes("S")) == {"T", "R"}


@pytest.mark.req("VIS-301")
def test_a_cycle_is_refused_and_the_way_round_is_named() -> None:
    refused(SMALL, Join("R", "S"), match="'R' cannot join 'S', which is inside it already: 'S' in 'T' in 'R'")
    refused(SMALL, Join("S", "S"), match="'S' cannot join 'S', which is inside it already: 'S'")
    refused(SMALL, Join("T", "S"), match="'S' in 'T'")


@pytest.mark.req("VIS-301")
def test_a_cycle_through_abstract_scopes_is_one() -> None:
    before = apply(SMALL, (CreateScope("A", abstract=True), Join("R", "A")))
    refused(before, Join("A", "S"), match="'S' in 'T' in 'R' in 'A'")


def test_nobody_can_be_above_the_root_scope() -> None:
    refused(SMALL, Join(ROOT_SCOPE, "S"), match="the root scope is a member of nothing")
    assert "S" in apply(SMALL, (Join("S", ROOT_SCOPE),)).members(ROOT_SCOPE)


@pytest.mark.req("VIS-301")
def test_a_client_is_no_scope() -> None:
    refused(SMALL, Join("@y", "@x"), match="there is no scope '@x'")
    refused(SMALL, CreateScope("@x"), match="cannot name a scope")
    refused(SMALL, Join("@", "S"), match="'@' names no client")


def test_unknown_names_are_refused() -> None:
    refused(SMALL, Join("@y", "X"), match="there is no scope 'X'; known scopes: R, S, T")
    refused(SMALL, Join("X", "S"), match="there is no scope 'X'")
    refused(SMALL, Leave("@y", "S"), match="'@y' is not a member of 'S'")
    refused(SMALL, Leave("T", "S"), match="'T' is not a member of 'S'")


def test_nobody_joins_twice() -> None:
    refused(SMALL, Join("S", "T"), match="'S' is a member of 'T' already; change the edge instead")


def test_a_member_has_only_so_many_superscopes() -> None:
    scopes = tuple(CreateScope(f"s{number}") for number in range(MAX_SUPERSCOPES + 1))
    before = apply(Graph(), (*scopes, *(Join("@x", f"s{number}") for number in range(MAX_SUPERSCOPES))))
    refused(before, Join("@x", f"s{MAX_SUPERSCOPES}"), match="'@x' has 256 superscopes already; leave one first")


def ladder(levels: int, width: int, prefix: str = "s") -> tuple[AnyChange, ...]:
    """Scopes on levels, each a member of all of the level above."""
    names = [[f"{prefix}{level}.{number}" for number in range(width)] for level in range(levels)]
    changes: list[AnyChange] = [CreateScope(name, OPEN) for level in names for name in level]
    for inner, outer in zip(names[1:], names, strict=False):
        changes += [Join(member, scope) for member in inner for scope in outer]
    return tuple(changes)


def test_there_are_only_so_many_ways_up() -> None:
    before = apply(Graph(), ladder(6, 3))  # 3 + 9 + 27 + 81 + 243 = 363 ways from the lowest
    changes = (CreateScope("low"), *(Join("low", f"s5.{number}") for number in range(3)))
    refused(before, *changes, match=rf"'low' has [\d,]+ paths upwards, at most {MAX_PATHS:,} are allowed")
    assert apply(before, changes[:-1]).superscopes("low")


def test_an_edge_between_two_ladders_is_refused_without_walking_all_ways() -> None:
    before = apply(Graph(), ladder(6, 3, "s") + ladder(6, 3, "low"))
    refused(before, Join("low0.0", "s5.0"), match=r"'low\S*' has \d+,\d+ paths upwards")


def test_scopes_are_nested_only_so_deep() -> None:
    depth = MAX_DEPTH + 1
    chain = (*(CreateScope(f"s{n}") for n in range(depth)), *(Join(f"s{n + 1}", f"s{n}") for n in range(depth - 1)))
    before = apply(Graph(), chain)
    refused(before, Join("@x", f"s{depth - 1}"), match=f"'@x' is inside {depth} scopes, at most {MAX_DEPTH}")
    refused(before, CreateScope("top"), Join("s0", "top"), match=f"is inside {depth} scopes")
    assert apply(before, (Join("@x", f"s{depth - 2}"),))


# --- what an edge is ------------------------------------------------------------------------------------


@pytest.mark.req("VIS-402", "VIS-403", "VIS-404")
def test_each_interface_is_set_where_it_belongs() -> None:
    before = apply(SMALL, (Join("@y", "S"),))
    after = apply(
        before,
        (SetInterface("S", QUOTES), Impose("S", QUOTES), Impose("S", CLOSED, "@x"), SetSelective("@x", "S", QUOTES)),
    )
    assert (after.scope("S").interface, after.scope("S").imposed) == (QUOTES, QUOTES)
    assert (after.membership("@x", "S").imposed, after.membership("@x", "S").selective) == (CLOSED, QUOTES)
    assert after.membership("@y", "S") == before.membership("@y", "S")
    assert after.membership("S", "T") == before.membership("S", "T")
    assert after.scope("T") == before.scope("T")


def test_a_change_of_what_is_not_there_is_refused() -> None:
    refused(SMALL, SetInterface("X", OPEN), match="there is no scope 'X'")
    refused(SMALL, Impose("X", OPEN), match="there is no scope 'X'")
    refused(SMALL, Impose("S", OPEN, "@y"), match="'@y' is not a member of 'S'")
    refused(SMALL, SetSelective("@y", "S", OPEN), match="'@y' is not a member of 'S'")
    refused(SMALL, SetMapping("@y", "S"), match="'@y' is not a member of 'S'")
    refused(SMALL, SetPlacement("S", "R", Placement.ONCE), match="'S' is not a member of 'R'")
    refused(SMALL, SetAttributes("X", {}), match="there is no scope 'X'")
    refused(SMALL, SetAdministration("X"), match="there is no scope 'X'")
    refused(SMALL, Anchor("X", "b1"), match="there is no scope 'X'")


def test_the_root_scope_has_no_border_to_put_an_interface_on() -> None:
    refused(SMALL, SetInterface(ROOT_SCOPE, OPEN), match="the root scope has no superscope.*impose one instead")
    assert apply(SMALL, (Impose(ROOT_SCOPE, QUOTES),)).scope(ROOT_SCOPE).imposed == QUOTES


def test_a_mapping_is_set_and_taken_away() -> None:
    euro = edge_mapping(mapping(Rename("price", "preis")))
    after = apply(SMALL, (SetMapping("S", "T", euro),))
    assert after.membership("S", "T").mapping == euro
    assert apply(after, (SetMapping("S", "T"),)).membership("S", "T").mapping is None


def test_a_gateway_is_named_exactly_where_there_is_one() -> None:
    placed = apply(SMALL, (SetPlacement("S", "T", Placement.GATEWAY, "b1"),)).membership("S", "T")
    assert (placed.placement, placed.gateway) == (Placement.GATEWAY, "b1")
    refused(SMALL, SetPlacement("S", "T", Placement.GATEWAY), match="name the broker that is the gateway")
    refused(SMALL, SetPlacement("S", "T", Placement.ONCE, "b1"), match="'b1' is a gateway only if")
    refused(SMALL, SetPlacement("@x", "S", Placement.GATEWAY, "b1"), match="'@x' is a client")
    refused(SMALL, Join("@y", "S", placement=Placement.EVERYWHERE), match="'@y' is a client")
    refused(SMALL, Join("S", "R", gateway="b1"), match="'b1' is a gateway only if")


# --- what people say about a scope ----------------------------------------------------------------------


@pytest.mark.req("VIS-319")
def test_attributes_are_set_read_and_removed() -> None:
    one = apply(SMALL, (SetAttributes("S", {"name": "floor", "creation": "today"}),))
    assert one.scope("S").attributes == {"name": "floor", "creation": "today"}
    two = apply(one, (SetAttributes("S", {"creation": None, "qos": "high", "unknown": None}),))
    assert two.scope("S").attributes == {"name": "floor", "qos": "high"}
    assert one.scope("S").attributes == {"name": "floor", "creation": "today"}
    assert two.revised(two.membership("@x", "S")) == 1, "attributes change no border"


def test_attributes_have_a_limit() -> None:
    long = "x" * (MAX_ATTRIBUTES - 5)
    refused(SMALL, CreateScope("U", attributes={"name": long + "xx"}), match="at most 16,384 characters")
    half = apply(SMALL, (SetAttributes("S", {"name": long}),))
    refused(half, SetAttributes("S", {"more": long}), match="at most 16,384 characters")


def test_a_graph_does_not_change_with_the_dictionary_it_was_made_from() -> None:
    attributes = {"name": "floor"}
    after = apply(Graph(), (CreateScope("S", attributes=attributes),))
    attributes["name"] = "door"
    assert after.scope("S").attributes == {"name": "floor"}


def test_administration_is_changed_in_parts() -> None:
    one = apply(SMALL, (SetAdministration("S", ("ann",)),))
    two = apply(one, (SetAdministration("S", admission=("digest",)),))
    assert (two.scope("S").administrators, two.scope("S").admission) == (("ann",), ("digest",))
    assert apply(two, (SetAdministration("S", (), ()),)).scope("S") == SMALL.scope("S")


def test_brokers_come_to_carry_a_scope_and_give_it_up() -> None:
    one = apply(SMALL, (Anchor("S", "b1"), Anchor("S", "b2"), Anchor("S", "b1")))
    assert one.anchors == {"S": {"b1", "b2"}}
    two = apply(one, (Unanchor("S", "b1"), Unanchor("S", "b9"), Unanchor("gone", "b1")))
    assert two.anchors == {"S": {"b2"}}
    assert apply(two, (Unanchor("S", "b2"),)).anchors == {}


# --- transactions ---------------------------------------------------------------------------------------


def test_all_of_a_transaction_happens_in_one_version() -> None:
    after = apply(SMALL, (CreateScope("U"), Join("U", "T"), Join("@y", "U"), Leave("@x", "S")))
    assert after.version == SMALL.version + 1
    assert after.membership("U", "T").since == after.membership("@y", "U").since == after.scope("U").revised == 2


def test_of_a_transaction_that_is_refused_nothing_happens() -> None:
    refused(SMALL, CreateScope("U"), Join("U", "T"), DestroyScope("S", True), Join("T", "U"), match="'U' in 'T'")
    assert "U" not in SMALL.scopes
    assert "S" in SMALL.scopes


def random_change(dice: random.Random, known: Graph) -> AnyChange:
    """Any change, sensible or not."""
    scopes = [*(f"s{number}" for number in range(8)), ROOT_SCOPE, "@c0"]
    nodes = [*scopes, "@c0", "@c1", "@c2", "@"]
    member, scope = dice.choice(nodes), dice.choice(scopes)
    if dice.random() < 0.3 and (edges := list(known.memberships())):
        chosen = dice.choice(edges)
        member, scope = chosen.member, chosen.scope
    interface = dice.choice([OPEN, CLOSED, QUOTES])
    placement, gateway = dice.choice(list(Placement)), dice.choice(["", "b1"])
    return dice.choice(
        [
            CreateScope(scope, interface, interface, dice.random() < 0.2),
            CreateScope(scope, OPEN),
            DestroyScope(scope, dice.random() < 0.3),
            *[Join(member, scope)] * 5,
            Join(member, scope, interface, interface, EdgeMapping(Mapping.BLOCK), placement, gateway),
            Leave(member, scope),
            Forget(member),
            SetInterface(scope, interface),
            Impose(scope, interface, dice.choice([None, member])),
            SetSelective(member, scope, interface),
            SetMapping(member, scope, dice.choice([None, EdgeMapping(Mapping.BLOCK)])),
            SetPlacement(member, scope, placement, gateway),
            SetDelivery(scope, dice.choice(list(Duplicates))),
            SetRules(scope, (Rule("UPDATE ON join(*, self) DO ALTER SCOPE self SET a = 1"),)),
            SetPolicy(member, dice.choice(list(PolicyKind)), dice.choice([None, PolicyUse("delay", {"seconds": 5})])),
            SetAttributes(member, {"name": dice.choice([None, "x", 7])}),
            SetRoles(member, dice.choice([(), ("boss",), ("boss", "boss")])),
            SetAdministration(scope, ("ann",)),
            SetOrigin(scope, "d", {"m": (member,)}),
            Define("d", "DEFINE SCOPE d AS;"),
            Redefine("d", "DEFINE SCOPE d AS;"),
            Undefine("d"),
            Anchor(scope, "b1"),
            Unanchor(scope, "b1"),
        ]
    )


def is_acyclic(some: Graph) -> bool:
    """Whether its nodes can be removed one by one, each when nothing is above it any more."""
    above = {node: set(some.superscopes(node)) for node in some.nodes()}
    while above:
        free = {node for node, supers in above.items() if not supers}
        if not free:
            return False
        above = {node: supers - free for node, supers in above.items() if node not in free}
    return True


@pytest.mark.req("VIS-301")
@pytest.mark.parametrize("seed", range(40))
def test_whatever_is_asked_for_the_graph_stays_one(seed: int) -> None:
    dice = random.Random(seed)
    now = apply(Graph(), tuple(CreateScope(f"s{number}", OPEN) for number in range(6)))
    for _ in range(150):
        changes = tuple(random_change(dice, now) for _ in range(dice.choice([1, 1, 1, 2, 3])))
        before = repr(now), now.version
        try:
            after = apply(now, changes)
        except ScopeError:
            assert (repr(now), now.version) == before
            continue
        assert apply(now, changes) == after, "applying is a function"
        assert (repr(now), now.version) == before, "the old version is what it was"
        assert after.version == now.version + 1
        now = after
        assert is_acyclic(now)
        for edge in now.memberships():
            assert not is_client(edge.scope)
            assert edge.scope in now.scopes
            assert is_client(edge.member) or edge.member in now.scopes
        assert set(now.anchors) <= set(now.scopes)
        assert ROOT_SCOPE in now.scopes
    assert now.version > 20


def test_every_change_is_tried_by_the_fuzz_and_travels() -> None:
    dice = random.Random(0)
    changes = [random_change(dice, SMALL) for _ in range(500)]
    assert {type(change) for change in changes} == set(get_args(AnyChange))
    plain = [one for one in changes if isinstance(one, Leave | DestroyScope | Anchor | SetAttributes)]
    for change in plain:
        text = msgspec.json.encode(change, enc_hook=enc_hook)
        assert msgspec.json.decode(text, type=AnyChange, dec_hook=dec_hook) == change


# --- warnings -------------------------------------------------------------------------------------------


def warned(*changes: AnyChange) -> list[str]:
    return list(warnings(apply(SMALL, changes)))


def test_sensible_graphs_warn_of_nothing() -> None:
    assert warned() == []
    assert warned(SetInterface("S", CLOSED), Impose("T", CLOSED)) == [], "closed on purpose"
    assert warned(SetMapping("S", "T", EdgeMapping(Mapping.BLOCK, Mapping.BLOCK))) == [], "blocked on purpose"
    assert warned(SetInterface("S", QUOTES), Impose("T", Interface.parse(output="price > 3"))) == []


def test_interfaces_that_exclude_each_other_are_warned_of() -> None:
    orders = Interface(EVERYTHING, Filter.parse("type = 'order'"))
    assert warned(SetInterface("S", QUOTES), Impose("T", orders)) == [
        "nothing can pass from 'S' to 'T': its interfaces exclude each other, and only lists could satisfy them all"
    ]
    both_ways = Interface(Filter.parse("a = 1 AND a = 2"), NOTHING)
    assert warned(SetSelective("@x", "S", both_ways)) == [
        "nothing can pass from 'S' to '@x': its interfaces exclude each other, and only lists could satisfy them all"
    ]


def test_interfaces_on_both_sides_of_a_mapping_are_compared_through_it() -> None:
    renamed = edge_mapping(mapping(Rename("type", "kind")))
    told = SetMapping("S", "T", renamed), SetInterface("S", QUOTES)
    assert warned(*told, Impose("T", Interface.parse(output="kind = 'quote'"))) == []
    assert warned(*told, Impose("T", Interface.parse(output="kind = 'order'"))) != []
    assert warned(*told, Impose("T", Interface.parse(output="type = 'quote'"))) != []


def test_nobody_is_warned_of_edges_of_abstract_scopes_or_of_old_ones() -> None:
    never = Interface(Filter.parse("a = 1 AND a = 2"), EVERYTHING)
    before = apply(SMALL, (SetSelective("@x", "S", never), CreateScope("A", abstract=True), Join("S", "A", never)))
    assert len(list(warnings(before))) == 1
    assert len(list(warnings(before, since=2))) == 1
    assert list(warnings(apply(before, (Join("@y", "T"),)), since=3)) == []
