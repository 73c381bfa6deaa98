"""Patterns of names, and whether two identities can have the same name."""

from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.net import Access, AccessEntry, Options, Server, StartError, clashes
from tidings.net._patterns import common_name, matches

patterns = st.text(alphabet="ab/*", max_size=6)
NAMES = ["".join(letters) for size in range(6) for letters in itertools.product("ab/", repeat=size)]


@given(patterns, st.text(alphabet="ab/\n*", max_size=8))
def test_a_star_stands_for_any_text(pattern: str, name: str) -> None:
    expected = re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), name, re.DOTALL) is not None
    assert matches(pattern, name) == expected


@given(patterns, patterns)
def test_a_common_name_is_found_if_there_is_one(one: str, two: str) -> None:
    common = common_name(one, two)
    if common is None:
        assert not [name for name in NAMES if matches(one, name) and matches(two, name)]
    else:
        assert matches(one, common)
        assert matches(two, common)
        shorter = [name for name in NAMES if len(name) < len(common)]
        assert not [name for name in shorter if matches(one, name) and matches(two, name)]


names = st.text(alphabet="ab", min_size=1, max_size=2)
identities = st.builds(AccessEntry, names, names=st.lists(patterns.filter(bool), max_size=2).map(tuple))


@given(st.lists(identities, max_size=4, unique_by=lambda one: one.name))
def test_every_name_that_two_identities_could_have_is_told(entries: list[AccessEntry]) -> None:
    told = {clash.identities for clash in clashes(entries)}
    for one, two in itertools.combinations(sorted(entries, key=lambda one: one.name), 2):
        shared = any(common_name(a, b) is not None for a in one.patterns for b in two.patterns)
        assert ((one.name, two.name) in told) == shared


@pytest.mark.parametrize(
    ("one", "two", "common"),
    [
        (AccessEntry("a"), AccessEntry("b", names=("a",)), "a"),
        (AccessEntry("a"), AccessEntry("a/b"), "a/b"),  # the names below `a` belong to it
        (AccessEntry("a"), AccessEntry("b", names=("*/pc",)), "a/pc"),
        (AccessEntry("a", names=("feed-*",)), AccessEntry("b", names=("f*-eu",)), "feed-eu"),
        (AccessEntry("a", names=("*",)), AccessEntry("b"), "b"),
    ],
)
def test_a_server_whose_identities_share_a_name_does_not_start(one: AccessEntry, two: AccessEntry, common: str) -> None:
    with pytest.raises(StartError) as caught:
        Server(Options(access=Access({"1": one}, {"2": two})))
    told = str(caught.value)
    assert told.startswith(f"'{one.name}' and '{two.name}' may both be called '{common}'")
    assert "narrow the `names`" in told


@pytest.mark.parametrize(("name", "told"), [("a*", "'a*' cannot be"), ("", "'' cannot be"), ("a" * 232, "at most 231")])
def test_names_that_no_identity_can_have(name: str, told: str) -> None:
    with pytest.raises(StartError, match=re.escape(told)):
        Server(Options(access=Access({"1": AccessEntry(name)})))


def test_identities_of_different_names_get_along() -> None:
    entries = [AccessEntry("a", names=("feed-*",)), AccessEntry("b", names=("food-*", "feed")), AccessEntry("ab")]
    assert not list(clashes([*entries, entries[0]]))


def test_many_identities_are_checked_at_once() -> None:
    many = [AccessEntry(f"app-{n}", names=(f"feed-{n}-*", f"batch/{n}")) for n in range(3_000)]
    assert not list(clashes(many))
    (clash,) = clashes([*many, AccessEntry("other", names=("feed-2999-x",))])
    assert clash.identities == ("app-2999", "other")
