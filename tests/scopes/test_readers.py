"""Who sees what passes a filter, and what one client sees: the lists are complete, and each entry is true."""

from __future__ import annotations

import pytest
from scopes.planning_world import SAMPLES, Oracle, planned

from tidings.model import Filter, Notification, ScopeError
from tidings.scopes import (
    OPEN,
    CreateScope,
    EdgeMapping,
    Graph,
    Interface,
    Join,
    Leave,
    Mapping,
    Reading,
    apply,
    mapping,
    readers_named,
    what_sees,
    who_sees,
)
from tidings.scopes.steps import Named, Rename

FILTERS = ["TRUE", "a > 2", "a IN (0, 3)", "a IS NULL", "FALSE"]


def names(nodes: tuple[str, ...], strangers: list[str]) -> list[str]:
    return [one for node in nodes for one in (strangers if node == "@" else [node])]


@pytest.mark.parametrize("seed", range(25))
def test_the_lists_are_complete_and_true(seed: int) -> None:
    one = planned(seed)
    oracle, clients = Oracle(one.before), one.clients
    strangers = [client for client in clients if one.before.is_stranger(client)]
    for text in FILTERS:
        filter = Filter.parse(text)
        published = [sample for sample in SAMPLES if filter.matches(sample)]
        for source in (None, *clients):
            found = who_sees(one.before, filter, source)
            listed = {name: entry for entry in found for name in names(entry.readers or (entry.reader,), strangers)}
            for reader in clients:
                sources = [other for other in clients if other != reader and source in (None, other)]
                seen = any(oracle.forms((other, reader), sample) for other in sources for sample in published)
                assert not seen or reader in listed, (text, source, reader)
                if reader in listed and listed[reader].certain and sources:
                    witness = Notification(dict(listed[reader].witness))
                    assert filter.matches(witness)
                    assert any(oracle.forms((other, reader), witness) for other in sources), (text, source, reader)
                    if source is not None:
                        forms = {Notification(dict(form)) for form in listed[reader].seen}
                        assert forms == oracle.forms((source, reader), witness)


@pytest.mark.parametrize("seed", range(25))
def test_what_a_client_sees_is_who_sees_the_other_way_round(seed: int) -> None:
    one = planned(seed)
    strangers = [client for client in one.clients if one.before.is_stranger(client)]
    filter = Filter.parse("a > 1 OR a IS NULL")
    for reader in one.clients:
        sources = {
            name
            for entry in what_sees(one.before, reader, filter)
            for name in names(entry.sources or (entry.source,), strangers)
        } - {reader}
        expected = {
            source
            for source in one.clients
            if source != reader
            and reader
            in {
                name
                for entry in who_sees(one.before, filter, source)
                for name in names(entry.readers or (entry.reader,), strangers)
            }
        }
        assert sources == expected


MARKET = apply(
    Graph(),
    (
        *(CreateScope("market", OPEN), CreateScope("floor", Interface.parse(output="type = 'quote'"))),
        *(Join("floor", "market"), Join("@trader", "floor"), Join("@public", "market"), Join("@press", "market")),
    ),
)


def test_an_entry_has_the_filter_of_its_reader_and_one_witness() -> None:
    assert who_sees(MARKET, Filter.parse("price > 10"), "@trader") == [
        Reading(
            "@public",
            "@trader",
            "price > 10 AND type = 'quote'",
            {"price": 11, "type": "quote"},
            ({"price": 11, "type": "quote"},),
            ("@public", "@press"),
        )
    ]


def test_nobody_is_listed_for_its_own_publications_alone() -> None:
    graph = apply(Graph(), (CreateScope("S", OPEN), Join("@alone", "S"), CreateScope("T", OPEN), Join("@x", "T")))
    assert readers_named(who_sees(graph)) == {"@"}
    pair = apply(graph, (Join("@two", "S"),))
    assert readers_named(who_sees(pair)) == {"@", "@alone", "@two"}
    other = apply(graph, (Join("@two", "S", selective=Interface.parse(output="n = 1")),))
    (alone,) = [one for one in who_sees(other) if one.reader == "@alone"]
    assert alone.filter == "n = 1"


def test_who_publishes_as_others_do_sees_these_whatever_it_lets_in_itself() -> None:
    members = [Join(f"@c{at}", "S", selective=Interface.parse(input=f"n < {at}")) for at in range(1, 4)]
    quiet = Join("@quiet", "S", selective=Interface.parse(output="n = 2"))
    graph = apply(Graph(), (CreateScope("S", OPEN), *members, quiet))
    assert [(one.reader, one.filter) for one in who_sees(graph) if one.reader != "@"] == [
        ("@c1", "n < 1"),
        ("@c2", "n < 2"),
        ("@c3", "n < 3"),
        ("@quiet", "TRUE"),
    ]
    deaf = Join("@deaf", "S", selective=Interface.parse(input="n IS NULL"))
    alone = apply(Graph(), (CreateScope("S", OPEN), deaf, quiet))
    assert [(one.reader, one.filter) for one in who_sees(alone) if one.reader != "@"] == [("@quiet", "TRUE")]


def test_forms_are_told_where_mappings_change_them() -> None:
    renaming = EdgeMapping(mapping(Rename("price", "preis")), mapping(Rename("preis", "price")))
    graph = apply(Graph(), (CreateScope("S", OPEN), Join("@a", "S", mapping=renaming), Join("@b", "S")))
    (entry,) = who_sees(graph, Filter.parse("price = 3"), "@a")
    assert entry.filter == "price = 3, mapped by Rename(old='price', new='preis')"
    assert entry.seen == ({"preis": 3},)
    (back,) = what_sees(graph, "@a", Filter.parse("preis = 3"))
    assert (back.source, back.seen) == ("@b", ({"price": 3},))


def test_what_cannot_be_tried_here_is_uncertain_and_listed() -> None:
    unknown = EdgeMapping(Mapping((Named("nobody registered this one either"),)), Mapping.IDENTITY)
    graph = apply(Graph(), (CreateScope("S", OPEN), Join("@a", "S", mapping=unknown), Join("@b", "S")))
    (entry,) = who_sees(graph, source="@a")
    assert not entry.certain


def test_only_clients_publish_and_only_scopes_that_are_there_read() -> None:
    with pytest.raises(ScopeError, match="'market' is no client; write '@' and the client's name"):
        who_sees(MARKET, source="market")
    with pytest.raises(ScopeError, match="there is no scope 'x'"):
        what_sees(MARKET, "x")
    assert {one.source for one in what_sees(MARKET, "market")} == {"@trader", "@public"}


def test_who_is_a_member_of_nothing_sees_nothing_and_is_not_seen() -> None:
    graph = apply(MARKET, (Leave("@trader", "floor"),))
    assert who_sees(graph, source="@trader") == []
    assert what_sees(graph, "@trader") == []
