"""What an entry of the log says of a change; `test_comparison` proves that it is so."""

from __future__ import annotations

from tidings.model import EVERYTHING, NOTHING
from tidings.scopes import (
    AuditEntry,
    CreateScope,
    Define,
    Graph,
    Interface,
    Join,
    SetAdministration,
    SetInterface,
    SetMapping,
    SetRoles,
    Sight,
    apply,
    mapping,
)
from tidings.scopes._audit import MAX_SIGHTS, described, judged
from tidings.scopes._changes import AnyChange
from tidings.scopes._comparison import compare
from tidings.scopes.mappings._mapping import EdgeMapping, Mapping
from tidings.scopes.steps import Add, Drop

OPEN = Interface.parse()


def entry(graph: Graph, *changes: AnyChange) -> AuditEntry:
    return judged(AuditEntry(0, "root", ()), compare(graph, apply(graph, changes)))


def test_a_change_is_one_line_without_secrets() -> None:
    change = CreateScope("m", Interface.parse(input="x > 1"), admission=("0" * 32,), administrators=("alice", "bob"))
    assert (
        described(change)
        == "CreateScope id=m interface=[input: x > 1, output: TRUE] administrators=alice,bob admission=(1)"
    )
    assert len(described(CreateScope("m", attributes={"a": "b" * 5_000}))) <= 500


def test_a_wide_change_is_cut_and_says_so() -> None:
    names = [f"n{number}" for number in range(400)]
    graph = apply(
        Graph(),
        (
            CreateScope("top", Interface.parse()),
            *(CreateScope(name, Interface.parse()) for name in names),
            *(Join(name, "top") for name in names),
        ),
    )
    made = entry(graph, Join("@a", "top"))
    assert made.more
    assert len(made.gained) == MAX_SIGHTS
    assert len(made.lost) == 2


def test_a_sight_that_changed_says_what_it_was_and_gives_an_example() -> None:
    graph = apply(
        Graph(),
        (
            CreateScope("top", OPEN),
            CreateScope("low", Interface.parse(input="FALSE", output="x > 5")),
            Join("low", "top"),
        ),
    )
    made = entry(graph, SetInterface("low", Interface.parse(input="FALSE", output="x > 3")))
    assert made.wider == (Sight("low", "top", "x > 3", "x > 5", "x=4"),)
    assert str(made.wider[0]) == "low -> top (x > 3; was x > 5)"
    assert made == AuditEntry(0, "root", (), wider=made.wider)
    made = entry(graph, SetInterface("low", Interface.parse(input="FALSE", output="x > 7")))
    assert [str(sight) for sight in made.narrower] == ["low -> top (x > 7; was x > 5)"]


def test_what_cannot_be_told_is_listed_as_that() -> None:
    one, other = EdgeMapping(mapping(Add("a", 1), Add("b", 2))), EdgeMapping(mapping(Add("b", 2), Add("a", 1)))
    graph = apply(Graph(), (CreateScope("top", OPEN), CreateScope("low", OPEN), Join("low", "top", mapping=one)))
    made = entry(graph, SetMapping("low", "top", other))
    assert [str(sight) for sight in made.undecided] == ["low -> top"]
    assert made == AuditEntry(0, "root", (), undecided=made.undecided)


def test_a_change_is_described_with_what_it_opens() -> None:
    opened = SetInterface("sales", Interface(NOTHING, EVERYTHING))
    assert described(opened) == "SetInterface scope=sales interface=[input: FALSE, output: TRUE]"
    assert described(SetAdministration("sales", admission=())) == "SetAdministration scope=sales admission=(0)"
    assert described(SetRoles("@a", ())) == "SetRoles node=@a roles=none"
    hidden = EdgeMapping(mapping(Drop(("patient",)), Add("market", "FRA")), Mapping.BLOCK)
    assert described(SetMapping("ward", "public", hidden)) == (
        "SetMapping member=ward scope=public mapping=[outward: Drop(names=['patient']) then "
        "Add(name='market', constant='FRA'), inward: Only(filter=FALSE)]"
    )


def test_a_description_is_one_line() -> None:
    text = described(Define("d", "DEFINE SCOPE d AS\n    ALL FROM @x;\n"))
    assert text.rstrip() == "Define name=d text=DEFINE SCOPE d AS ALL FROM @x;"
    assert "\n" not in text
