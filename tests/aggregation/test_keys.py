"""The index of keys leaves out nothing that overlaps."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from tidings.aggregation._keys import KeyIndex
from tidings.model import Filter
from tidings.sim._workload import random_filter


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 30))
def test_whatever_overlaps_is_near(seed: int, count: int) -> None:
    rng = random.Random(seed)
    keys: dict[int, Filter] = {number: random_filter(rng) for number in range(count)}
    index: KeyIndex[int] = KeyIndex()
    for number, filter in keys.items():
        index.add(number, filter)
    for gone in rng.sample(sorted(keys), count // 3):
        index.remove(gone, keys.pop(gone))
    for _ in range(10):
        filter = random_filter(rng)
        near = list(index.near(filter))
        assert len(near) == len(set(near))
        assert set(near) >= {number for number, key in keys.items() if key.overlaps(filter)}
        assert set(near) <= keys.keys()


def test_a_list_may_pass_several_values_of_one_attribute() -> None:
    index: KeyIndex[str] = KeyIndex()
    index.add("either", Filter.parse("(a = 1 AND b = 5) OR a = 2"))
    assert list(index.near(Filter.parse("a = 1 AND a = 2 AND b = 6 AND b = 5"))) == ["either"]


def test_of_many_keys_only_those_that_share_a_value_are_near() -> None:
    index: KeyIndex[int] = KeyIndex()
    for number in range(1_000):
        index.add(number, Filter.parse(f"type = 'quote' AND symbol = 'S{number}'"))
    assert list(index.near(Filter.parse("type = 'quote' AND symbol IN ('S7', 'S9') AND price > 3"))) == [7, 9]
    assert list(index.near(Filter.parse("type = 'trade' AND symbol = 'S7'"))) == [7]
    assert len(list(index.near(Filter.parse("type = 'quote'")))) == 1_000


def test_a_number_is_found_as_a_number_and_true_is_none() -> None:
    index: KeyIndex[str] = KeyIndex()
    index.add("one", Filter.parse("a = 1"))
    index.add("true", Filter.parse("a = TRUE"))
    assert list(index.near(Filter.parse("a = 1.0"))) == ["one"]
    assert list(index.near(Filter.parse("a = TRUE"))) == ["true"]


def test_nothing_is_left_of_keys_that_are_removed() -> None:
    index: KeyIndex[int] = KeyIndex()
    texts = {number: f"a IN ({number}, {number + 1}) OR b > {number}" for number in range(10)}
    texts |= {number + 100: f"a = {number}" for number in range(10)}
    for number, text in texts.items():
        index.add(number, Filter.parse(text))
    assert set(index) == set(texts)
    for number, text in texts.items():
        index.remove(number, Filter.parse(text))
    assert not index
    assert not index._by_value
    assert not index._always
