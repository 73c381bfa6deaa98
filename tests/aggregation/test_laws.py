"""The laws on which the engine relies, for every definition of the catalogue, byte for byte."""

from __future__ import annotations

import math
import subprocess
import sys
from collections import Counter
from typing import Any

import pytest
from aggregation.catalogue_world import CATALOGUE, FREQUENT, folded, some
from hypothesis import given, settings
from hypothesis import strategies as st

from tidings.aggregation.definitions import MAX_PARTIAL, Aggregate, Count, Distinct, Record
from tidings.aggregation.definitions._distinct import REGISTERS
from tidings.aggregation.definitions._frequent import COUNTERS, MAX_KEPT
from tidings.aggregation.definitions._measured import items_of
from tidings.model import PartialRefused

ALL = {**CATALOGUE, "frequent": FREQUENT}


def same(aggregate: Aggregate[Any], a: Any, b: Any) -> None:
    assert a == b, aggregate.name
    assert aggregate.encode(a) == aggregate.encode(b), aggregate.name


@pytest.mark.req("AGG-070", "AGG-107")
@settings(max_examples=60)
@given(some, some, some)
def test_every_definition_of_the_catalogue_obeys_the_laws(x: list[Record], y: list[Record], z: list[Record]) -> None:
    for aggregate in CATALOGUE.values():
        a, b, c = (folded(aggregate, one) for one in (x, y, z))
        plus, zero, d = aggregate.combine, aggregate.zero(), aggregate.distance
        same(aggregate, plus(plus(a, b), c), plus(a, plus(b, c)))
        same(aggregate, plus(a, b), plus(b, a))
        same(aggregate, folded(aggregate, x + y + z), plus(a, plus(b, c)))
        same(aggregate, plus(zero, a), a)
        if aggregate.invertible:
            assert plus(a, aggregate.invert(a)) == zero, aggregate.name
            same(aggregate, plus(plus(a, b), aggregate.invert(a)), b)
        data = aggregate.encode(a)
        same(aggregate, aggregate.decode(data), a)
        assert (d(a, b) == 0) == (a == b), aggregate.name
        assert d(a, b) == d(b, a) >= 0, aggregate.name
        assert d(a, c) <= (float(d(a, b)) + float(d(b, c))) * (1 + 1e-9), aggregate.name
        assert not aggregate.integral or d(a, b) == math.inf or isinstance(d(a, b), int), aggregate.name
        aggregate.present(a)
        assert aggregate.error(a) >= 0


@pytest.mark.req("AGG-107")
@settings(max_examples=60)
@given(some, some)
def test_the_most_frequent_values_are_right_within_what_they_say_is_lost(x: list[Record], y: list[Record]) -> None:
    both = FREQUENT.combine(folded(FREQUENT, x), folded(FREQUENT, y))
    exact = Counter(item for record in x + y if record.ingress for item in _items(record))
    for item, count in exact.items():
        held = dict(both.counters).get(item, 0)
        assert held <= count <= held + both.lost
    assert both.lost <= exact.total() // (COUNTERS + 1)
    assert FREQUENT.decode(FREQUENT.encode(both)) == both
    assert len(FREQUENT.encode(both)) <= MAX_PARTIAL


def _items(record: Record) -> list[str]:
    return items_of(record.attrs["x"], MAX_KEPT) if "x" in record.attrs else []


@pytest.mark.req("AGG-107")
@pytest.mark.parametrize("used", [1, 256, 257, REGISTERS])
def test_the_largest_ranks_and_all_registers_of_a_sketch_come_back(used: int) -> None:
    distinct = Distinct("x")
    partial: Any = tuple(at << 6 | 54 - at % 3 for at in range(used))
    if used > 256:
        partial = bytes(54 - at % 3 if at < used else 0 for at in range(REGISTERS))
    assert distinct.decode(distinct.encode(partial)) == partial
    assert len(distinct.encode(partial)) <= 1_537


_SHAPES = [
    b"[[[",
    b"1e400",
    b"[1,2]",
    b"NaN",
    b'{"a":1,"a":1}',
    b"01",
    b"null",
    b"-1",
    b'["[1]"]',
    b'["NaN"]',
    b'[0,[["1",0]]]',
]


@given(st.one_of(st.binary(max_size=40), st.sampled_from(_SHAPES), st.tuples(some, st.data())))
def test_made_up_bytes_are_refused_or_are_a_partial(made_up: Any) -> None:
    for aggregate in ALL.values():
        data = made_up if isinstance(made_up, bytes) else _damaged(aggregate, *made_up)
        try:
            partial = aggregate.decode(data)
        except PartialRefused:
            continue
        assert aggregate.encode(partial) == data, aggregate.name
        assert aggregate.combine(partial, aggregate.zero()) == partial, aggregate.name
        aggregate.present(partial)
        aggregate.error(partial)


def _damaged(aggregate: Aggregate[Any], given: list[Record], draw: st.DataObject) -> bytes:
    data = bytearray(aggregate.encode(folded(aggregate, given)))
    if data:
        data[draw.draw(st.integers(0, len(data) - 1))] = draw.draw(st.integers(0, 255))
    return bytes(data)


def test_the_default_encoding_takes_what_has_one_form_only() -> None:
    default: Aggregate[Any] = Aggregate()
    default.name = "acme.any"
    assert default.decode(default.encode({"b": [1, "é"], "a": None})) == {"a": None, "b": [1, "é"]}
    for wrong, remedy in [
        (1.5, "thousandths"),
        ((1, 2), "use a list"),
        ({1}, "sorted list"),
        ({1: 2}, "keys are texts: use '1'"),
        (10**5_000, "digits"),
        (object(), "define encode and decode"),
        ("\ud800", "lone surrogate"),
    ]:
        with pytest.raises(PartialRefused, match=remedy):
            default.encode(wrong)
    deep: Any = 1
    for _ in range(40):
        deep = [deep]
    with pytest.raises(PartialRefused, match="nested deeper than 16"):
        default.encode(deep)
    for data in (b"1.5", b"[1, 2]", b'{"b":1,"a":2}', b"", b"\xff", b"[" * 100_000, b"9" * 5_000):
        with pytest.raises(PartialRefused):
            default.decode(data)


def test_a_partial_that_is_too_large_does_not_travel() -> None:
    count = Count(name="acme.count")
    assert count.bounded(b"x" * MAX_PARTIAL)
    with pytest.raises(PartialRefused, match=r"acme.count: a partial of 4,097 bytes, at most 4,096 travel"):
        count.bounded(b"x" * (MAX_PARTIAL + 1))


def test_definitions_are_loaded_without_a_broker() -> None:
    code = "import sys, tidings.aggregation.definitions; print(*(m for m in sys.modules if m.startswith('tidings.')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    packages = {name.split(".")[1] for name in done.stdout.split()}
    assert packages == {"aggregation", "model"}
