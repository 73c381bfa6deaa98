"""Names are local to a scope: the nearest scope of a name is meant."""

from __future__ import annotations

import pytest
from scopes.graph_world import graph

from tidings.model import ROOT_SCOPE, AmbiguousName, ScopeError, UnknownName
from tidings.scopes import CreateScope, Graph, Join, apply, resolve

EDGES = [
    ("market", ROOT_SCOPE),
    ("market/floor", "market"),
    ("market/floor/desk", "market/floor"),
    ("market/archive", "market"),
    ("bank", ROOT_SCOPE),
    ("bank/floor", "bank"),
    ("bank/vault", "bank"),
]
TOWN = apply(
    Graph(), (*(CreateScope(id) for id, _ in EDGES), *(Join(*edge) for edge in EDGES), Join("@ann", "market/floor"))
)


@pytest.mark.parametrize("within", ["", "bank", "market/floor/desk", "@ann", "@stranger"])
def test_an_id_means_itself_everywhere(within: str) -> None:
    for id in TOWN.scopes:
        assert resolve(TOWN, id, within) == id


@pytest.mark.parametrize(
    ("name", "within", "id"),
    [
        ("floor", "market", "market/floor"),
        ("floor", "bank", "bank/floor"),
        ("floor", "market/floor/desk", "market/floor"),
        ("floor", "market/floor", "market/floor"),
        ("floor", "bank/vault", "bank/floor"),
        ("archive", "market/floor/desk", "market/archive"),
        ("desk", "@ann", "market/floor/desk"),
        ("bank", "market/floor/desk", "bank"),
        ("", "market", ROOT_SCOPE),
    ],
)
def test_the_nearest_scope_of_a_name_is_meant(name: str, within: str, id: str) -> None:
    assert resolve(TOWN, name, within) == id


def test_two_scopes_equally_near_are_ambiguous() -> None:
    both = apply(TOWN, (CreateScope("broker"), Join("broker", "bank"), Join("broker", "market")))
    with pytest.raises(AmbiguousName, match=r"'floor' may be 'bank/floor' or 'market/floor', seen from 'broker'"):
        resolve(both, "floor", "broker")
    assert resolve(both, "vault", "broker") == "bank/vault"


def test_one_scope_on_two_ways_is_not_ambiguous() -> None:
    both = apply(
        TOWN, (CreateScope("club"), Join("club", "bank"), Join("club", "market"), Join("bank/vault", "market"))
    )
    assert resolve(both, "vault", "club") == "bank/vault"


def test_what_is_further_in_cannot_be_seen_but_is_named() -> None:
    with pytest.raises(UnknownName, match=r"'desk' can be seen from the root scope; .* 'market/floor/desk'"):
        resolve(TOWN, "desk")
    with pytest.raises(UnknownName, match=r"'cellar' can be seen from 'bank'; `tidings scope tree` shows all"):
        resolve(TOWN, "cellar", "bank")


def test_many_candidates_are_not_all_listed() -> None:
    many = apply(Graph(), tuple(CreateScope(f"{letter}/x") for letter in "abcdefgh"))
    with pytest.raises(AmbiguousName, match=r"'a/x' or 'b/x' or 'c/x' or 'd/x' or 'e/x' or 3 more"):
        resolve(many, "x")


def test_what_is_a_member_of_nothing_is_seen_from_everywhere_at_last() -> None:
    loose = apply(TOWN, (CreateScope("far/away"),))
    assert resolve(loose, "away", "market/floor/desk") == "far/away"


def test_abstract_scopes_have_names_too() -> None:
    some = apply(TOWN, (CreateScope("bank/staff", abstract=True), Join("bank/staff", "bank")))
    assert resolve(some, "staff", "bank/vault") == "bank/staff"


def test_names_are_errors_of_scopes() -> None:
    with pytest.raises(ScopeError, match="there is no scope 'nowhere'"):
        resolve(TOWN, "floor", "nowhere")
    assert issubclass(UnknownName, ScopeError)
    assert issubclass(AmbiguousName, ScopeError)
    assert resolve(graph("x < S"), "S", "@x") == "S"
