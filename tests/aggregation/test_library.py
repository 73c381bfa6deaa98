"""The library: each function of the theory, computed over any grouping, is what Python finds at once."""

from __future__ import annotations

import functools
import math
import operator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.aggregation.definitions import (
    JP,
    BitAnd,
    BitOr,
    BitXor,
    Count,
    Intersection,
    Max,
    Mean,
    Min,
    Product,
    Rate,
    Record,
    Sliding,
    Sum,
    Union,
)

WINDOW = Sliding("10s", "10s")
LIBRARY: dict[str, tuple[Any, Any]] = {
    "count": (Count(), len),
    "sum": (Sum("x"), sum),
    "rate": (Rate(window=WINDOW), lambda values: len(values) / 10),
    "product": (Product("x"), math.prod),
    "union": (Union("x"), lambda values: sorted(set(values))),
    "intersection": (Intersection("x"), lambda values: sorted(set(values)) if len(set(values)) == 1 else []),
    "bit and": (BitAnd("x"), lambda values: functools.reduce(operator.and_, values)),
    "bit or": (BitOr("x"), lambda values: functools.reduce(operator.or_, values)),
    "bit xor": (BitXor("x"), lambda values: functools.reduce(operator.xor, values)),
    "max": (Max("x"), max),
    "min": (Min("x"), min),
    "mean": (Mean("x"), lambda values: sum(values) / len(values)),
}


@pytest.mark.req("AGG-051")
@pytest.mark.parametrize("name", LIBRARY)
@given(groups=st.lists(st.lists(st.integers(1, 60), min_size=1, max_size=5), min_size=1, max_size=4))
def test_every_function_is_there_and_right_however_values_are_grouped(name: str, groups: list[list[int]]) -> None:
    definition, truth = LIBRARY[name]
    partials = []
    for group in groups:
        lifted = [definition.lift(Record(ts_ms=0, broker="b", jp=JP.PUBLISHED, attrs={"x": x})) for x in group]
        partials.append(functools.reduce(definition.combine, lifted, definition.zero()))
    known = definition.present(functools.reduce(definition.combine, partials, definition.zero()))
    expected = truth([x for group in groups for x in group])
    if isinstance(expected, list):
        assert sorted(known) == expected
    else:
        error = definition.error(functools.reduce(definition.combine, partials, definition.zero()))
        assert abs(known - expected) <= error + 1e-9 * abs(expected)  # a product says how far it is off
