"""What the index promises about itself: exact kinds, better homes with time, nothing left behind."""

from __future__ import annotations

import gc
import itertools
import random

import pytest
from bench._naive_index import NaiveIndex

from tidings.matching import Index, _index, _segment
from tidings.matching._column import Column
from tidings.matching._home import Home
from tidings.matching._node import Node
from tidings.matching._probe import Probe
from tidings.matching._segment import Segment
from tidings.matching._shape import RowShape
from tidings.model import EVERYTHING, NOTHING, Conjunction, Constraint, Filter, Location, Negated, Notification
from tidings.model.operators import Contains, Equal, Exists, IsNull, Member, Prefix, Range, Suffix, Within


def one(*constraints: Constraint) -> Filter:
    return Filter([Conjunction(constraints)])


def index_of(*filters: Filter) -> Index[int]:
    index: Index[int] = Index()
    for key, filter in enumerate(filters):
        index.add(filter, key)
    return index


def found(index: Index[int], **attributes: object) -> list[int]:
    return sorted(index.match(Notification(attributes)))


def test_a_key_holds_one_filter() -> None:
    index = index_of(EVERYTHING)
    with pytest.raises(KeyError):
        index.add(NOTHING, 0)
    assert found(index) == [0]
    with pytest.raises(KeyError):
        index.remove(1)
    index.remove(0)
    index.add(NOTHING, 0)
    assert 0 in index
    assert found(index) == []


@pytest.mark.parametrize("crowd", [1, 30])
def test_true_is_not_one(crowd: int) -> None:
    index = index_of(*[one(Equal("x", value), Range("n", at)) for at in range(crowd) for value in (True, 1, 1.0)])
    assert len(found(index, x=True, n=99)) == crowd
    assert len(found(index, x=1, n=99)) == 2 * crowd
    assert len(found(index, x=1.0, n=99)) == 2 * crowd
    assert found(index, x="1", n=99) == []


def test_integers_stay_exact_beyond_the_floats() -> None:
    big = 2**53
    index = index_of(
        one(Equal("x", big + 1)),
        one(Equal("x", float(big))),
        one(Range("x", big + 1, None)),
        one(Range("x", None, float(big))),
        one(Range("x", big + 1, big + 1)),
        one(Range("x", float(big), None, low_open=True)),
    )
    assert found(index, x=big + 1) == [0, 2, 4, 5]
    assert found(index, x=big) == found(index, x=float(big)) == [1, 3]


def test_bounds_are_exact_in_a_segment() -> None:
    """Many ranges with the same bounds: every cut is somebody's bound, open or closed, text or number."""
    for values in ([1, 2, 3, 4, 5], [0.5, 1, 2**53, 2**53 + 1, 1e300], ["a", "ab", "b", "ba", "c"]):
        filters = [
            one(Range("x", low, high, low_open=low_open, high_open=high_open))
            for low, high in itertools.product((None, *values), repeat=2)
            for low_open, high_open in itertools.product((False, True), repeat=2)
            if (low, high) != (None, None)
        ]
        index = index_of(*filters)
        naive: NaiveIndex[int] = NaiveIndex()
        for key, filter in enumerate(filters):
            naive.add(filter, key)
        for value in (*values, 1.5, 2**53 + 2, "aa", "bb", ""):
            assert found(index, x=value) == naive.match(Notification(x=value))


def test_a_key_is_found_once_though_several_conjunctions_match() -> None:
    both = Filter([Conjunction([Equal("x", 1)]), Conjunction([Equal("y", 2)]), Conjunction([Range("x", 0)])])
    index = index_of(both, one(Equal("x", 1)))
    assert found(index, x=1, y=2) == [0, 1]
    assert found(index, x=[1, 1, 2], y=2) == [0, 1]


def test_lists() -> None:
    index = index_of(
        one(Range("x", 3, 5)),
        one(Negated(Equal("x", 3))),
        one(Equal("x", 3)),
        one(Exists("x")),
        one(IsNull("x")),
        one(Prefix("x", "a")),
        one(Within("x", Location("/a"))),
    )
    assert found(index, x=[1, 10]) == [0, 1, 3]  # each bound asks for some element
    assert found(index, x=[3, "ab", Location("/a/b")]) == [0, 2, 3, 5, 6]
    assert found(index, x=[]) == [1, 3]
    assert found(index) == [4]


def test_thousands_of_one_shape() -> None:
    filters = [
        one(Equal("kind", "quote"), Range("price", at, None), Range("size", None, 10 * at)) for at in range(3000)
    ]
    index = index_of(*filters)
    for price, size in ((0, 0), (1500, 7000), (2999, 29990), (5000, 5), (10, 400)):
        assert found(index, kind="quote", price=price, size=size) == [
            at for at in range(3000) if at <= price and size <= 10 * at
        ]
        assert found(index, kind="trade", price=price, size=size) == []
    assert index.statistics()["shapes"] < 5


def test_filters_move_to_better_homes_when_traffic_shows_them() -> None:
    """The filters name ten groups and ten users; only traffic tells that there are a thousand users."""
    rng = random.Random(1)
    index: Index[int] = Index()
    for key in range(1000):
        index.add(one(Equal("group", key % 10), Equal("user", key // 100), Range("x", key)), key)
    before = [index._homes[key][0].pivot for key in range(1000)]
    for _ in range(3000):
        group, user = rng.randrange(10), rng.randrange(1000)
        expected = [key for key in range(1000) if (key % 10, key // 100) == (group, user)] if user < 10 else []
        assert found(index, group=group, user=user, x=1000) == expected
    while index.review(100):
        pass
    after = [index._homes[key][0].pivot for key in range(1000)]
    assert sum(pivot is not None and pivot.name == "user" for pivot in before) < 900
    assert sum(pivot is not None and pivot.name == "user" for pivot in after) > 950


def test_common_filters_move_to_segments_when_there_are_many() -> None:
    rng = random.Random(1)
    index: Index[int] = Index()
    index.add(one(Range("x", 500)), 0)
    assert index.statistics()["in_segments"] == 0
    for key in range(1, 500):
        index.add(one(Range("x", rng.randrange(1000)), Range("y", None, rng.randrange(1000))), key)
    for _ in range(3000):
        index.match(Notification(x=rng.randrange(1000), y=rng.randrange(1000)))
    while index.review(100):
        pass
    assert index.statistics()["in_segments"] > 450


def test_no_match_queues_more_than_one_segment(monkeypatch: pytest.MonkeyPatch) -> None:
    """When estimates have improved, everything in segments is due for a review; all at once would be a pause."""
    monkeypatch.setattr(_segment, "SLOTS", 8)
    monkeypatch.setattr(_index, "STRIDE", 1)
    monkeypatch.setattr(_index, "SPARED", 0.0)
    rng = random.Random(1)
    index: Index[int] = Index()
    for key in range(400):
        index.add(one(Range("x", rng.randrange(1000)), Range("y", None, rng.randrange(1000))), key)
    assert index.statistics()["in_segments"] == 400
    reviewed = 0
    for _ in range(200):
        before = len(index._queue)
        index.match(Notification(x=rng.randrange(1000), y=rng.randrange(1000)))
        assert len(index._queue) <= before + 8
        reviewed += before > 0
    assert reviewed > 50


def test_rare_attributes_are_pivots_whatever_the_operator() -> None:
    index: Index[int] = Index()
    for key in range(300):
        index.add(one(Negated(Equal(f"extra{key}", 1)), Range("x", 0)), key)
    for _ in range(3000):
        assert index.match(Notification(x=1)) == []
    while index.review(100):
        pass
    assert index.statistics()["in_segments"] < 50
    assert found(index, x=1, extra7=2, extra8=1) == [7]


def a_bit_of_everything(rng: random.Random, key: int) -> Filter:
    makers = [
        lambda: Equal(f"a{rng.randrange(3)}", rng.choice([rng.randrange(50), "x", True, Location("/a/b")])),
        lambda: Member("a1", tuple(rng.sample(range(50), 3))),
        lambda: Range("a0", rng.randrange(50), rng.randrange(50, 100)),
        lambda: Range("a2", rng.randrange(50), None, low_open=True),
        lambda: Range("a2", None, rng.random()),
        lambda: Prefix("t", rng.choice(["x", "xy", "yz"])),
        lambda: Suffix("t", rng.choice(["x", "xy", "yz"])),
        lambda: Contains("t", rng.choice(["x", "xyz", "yzab"])),
        lambda: Within("w", Location(rng.choice(["/", "/a", "/a/b"]))),
        lambda: Negated(Equal("a1", rng.randrange(5))),
        lambda: rng.choice([Exists, IsNull])("a0"),
    ]
    return Filter(
        Conjunction(rng.choice(makers)() for _ in range(rng.randrange(5))) for _ in range(rng.choice([1, 1, 1, 2]))
    )


def test_removing_everything_leaves_nothing_behind() -> None:
    rng = random.Random(5)
    index: Index[int] = Index()
    parts = (Home, Node, Probe, Segment, Column, RowShape)
    gc.collect()
    before = sum(isinstance(thing, parts) for thing in gc.get_objects())
    gc.disable()  # what is removed must go by itself: frozen cycles would stay for ever
    try:
        for key in range(2000):
            index.add(a_bit_of_everything(rng, key), key)
        for _ in range(2000):
            index.match(Notification(a0=rng.randrange(100), a1=rng.randrange(50), a2=rng.random() * 99, t="xyzab"))
        keys = list(range(2000))
        rng.shuffle(keys)
        for key in keys:
            index.remove(key)
        after = sum(isinstance(thing, parts) for thing in gc.get_objects())
    finally:
        gc.enable()
    assert set(index.statistics().values()) == {0}
    assert after == before
    assert found(index, a0=1, a1=2, a2=3, t="xyz") == []


def test_removal_forgets_the_keys() -> None:
    class Key:
        pass

    index: Index[Key] = Index()
    keys = [Key() for _ in range(50)]
    for at, key in enumerate(keys):
        index.add(one(Range("x", at % 7), Range("y", at)), key)
    for key in keys[:-1]:
        index.remove(key)
    del key
    assert gc.get_referrers(keys[0]) == [keys]
    assert index.match(Notification(x=10, y=100)) == keys[-1:]


@pytest.mark.req("ARC-204")
def test_an_open_filter_model_is_asked() -> None:
    class Long:
        asked = 0

        def matches(self, notification: Notification) -> bool:
            self.asked += 1
            return len(notification) > 1

    index: Index[str] = Index()
    long = Long()
    index.add(long, "long")
    index.add(one(Equal("x", 1)), "x")
    assert sorted(index.match(Notification(x=1, y=1))) == ["long", "x"]
    assert index.match(Notification(x=1)) == ["x"]
    assert index.match(Notification(y=[1], z=2)) == ["long"]
    assert long.asked == 3
    index.remove("long")
    assert index.match(Notification(y=1, z=2)) == []
    assert long.asked == 3


@pytest.mark.req("AGG-025")
def test_covered_filters_are_found_too() -> None:
    wide, narrow = one(Range("x", 0, 100)), one(Range("x", 40, 60))
    index = index_of(wide, narrow, narrow, EVERYTHING)
    assert found(index, x=50) == [0, 1, 2, 3]
    assert found(index, x=80) == [0, 3]
