"""Sketches are as exact as they say, and small."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.aggregation.definitions import (
    MAX_PARTIAL,
    Aggregate,
    Distinct,
    Frequent,
    Histogram,
    Product,
    Quantile,
    Rate,
)
from tidings.aggregation.definitions._counts import log2_units
from tidings.aggregation.definitions._quantile import RELATIVE_ERROR, bucket, edges
from tidings.model import AggregateError


def measured(aggregate: Any, values: Any) -> Any:
    partial = aggregate.zero()
    for value in values:
        partial = aggregate.combine(partial, aggregate.measure(value))
    return partial


@pytest.mark.parametrize("number", [0, 1, 50, 300, 2_000, 6_000, 20_000])
def test_distinct_values_are_counted_within_the_error(number: int) -> None:
    distinct = Distinct("x")
    seen = measured(distinct, (f"client {at}" for at in range(number)))
    assert abs(distinct.present(seen) - number) <= distinct.error(seen) <= 0.08 * number + 0.5
    assert len(distinct.encode(seen)) <= 1_537


def test_the_estimates_of_distinct_values_are_not_biased() -> None:
    distinct = Distinct("x")
    off = []
    for run in range(40):
        seen = measured(distinct, (run * 10_000 + at for at in range(3_000)))
        off.append(distinct.present(seen) / 3_000 - 1)
    assert abs(sum(off) / len(off)) < 0.012  # three standard errors of a mean of forty
    assert math.sqrt(sum(one * one for one in off) / len(off)) < 0.035


@given(st.one_of(st.integers(-(2**41), 2**41), st.floats(-(2.0**41), 2.0**41)))
def test_a_number_lies_between_the_edges_of_its_bucket(number: float) -> None:
    number = int(number) if float(number).is_integer() else number
    at = bucket(number)
    assert not at or (at > 0) == (number > 0)
    low, high = edges(abs(at))
    assert low <= abs(number)
    assert abs(number) < high or abs(number) >= 2**40
    assert not at or abs(at) == 897 or (high - low) / (high + low) <= RELATIVE_ERROR


numbers = st.one_of(st.integers(-(10**6), 10**6), st.floats(-1e6, 1e6))


@given(st.lists(numbers, min_size=1), st.sampled_from([0, 0.5, 0.95, 1]))
def test_a_quantile_is_off_by_no_more_than_it_says(values: list[float], q: float) -> None:
    quantile = Quantile("x", q=q)
    partial = measured(quantile, values)
    exact = sorted(values)[max(1, math.ceil(quantile.q * len(values))) - 1]
    error = quantile.error(partial)
    assert abs(quantile.present(partial) - exact) <= error * (1 + 1e-12)
    assert error <= abs(exact) * (17 / 16 / 33) * (1 + 1e-12) + 2.0**-16
    assert abs(quantile.present(partial) - exact) <= abs(exact) * RELATIVE_ERROR * (1 + 1e-12) + 2.0**-16


def test_beyond_the_last_bucket_the_error_is_infinite() -> None:
    quantile = Quantile("x", q=1)
    assert quantile.error(measured(quantile, [2**39])) <= 2**39 / 31
    assert quantile.error(measured(quantile, [2**40])) == math.inf


def test_sketches_of_many_values_fit_into_four_kilobytes() -> None:
    draw = random.Random(7)
    quantile, frequent = Quantile("x"), Frequent("x")
    partial, summary = quantile.zero(), frequent.zero()
    for at in range(-897, 898):  # every bucket, as often as takes two bytes each
        partial = quantile.combine(partial, {at: 16_383})
    assert len(quantile.encode(partial)) <= MAX_PARTIAL
    for _ in range(2_000):
        text = "".join(draw.choices("\x01é😀a", k=draw.randrange(1, 60)))
        summary = frequent.combine(summary, frequent.measure(text))
    assert len(frequent.encode(summary)) <= MAX_PARTIAL


def test_the_most_frequent_value_of_a_skewed_stream_is_found() -> None:
    frequent = Frequent("x")
    draw = random.Random(3)
    values = [min(int(draw.paretovariate(1)), 5_000) for _ in range(3_000)]
    summary = measured(frequent, values)
    (first, count), *_ = frequent.present(summary)
    assert first == 1
    assert count <= values.count(1) <= count + frequent.error(summary)
    assert frequent.error(summary) <= 3_000 / 25


@given(st.one_of(st.integers(1, 2**63), st.floats(5e-324, 1e308)))
def test_logarithms_of_integers_alone_are_logarithms(number: float) -> None:
    assert abs(log2_units(number) / 2**32 - math.log2(number)) < 2**-31


def test_a_product_stays_small_and_is_as_exact_as_it_says() -> None:
    product = Product("x")
    partial = measured(product, [1.5, -2, 10, 0.25] * 50)
    exact = (1.5 * -2 * 10 * 0.25) ** 50
    assert abs(product.present(partial) - exact) <= product.error(partial) < abs(exact) * 1e-6
    assert len(product.encode(partial)) < 40
    assert product.present(measured(product, [3, 0])) == 0


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Quantile("x", q=1.5), "1.5 is not a share"),
        (lambda: Quantile("x", q=math.nan), "nan is not a share"),
        (lambda: Histogram("x", edges=(2, 1)), r"\[2, 1\]; give 1 to 256 numbers"),
        (lambda: Histogram("x", edges=()), "give 1 to 256 numbers"),
        (Rate, "a rate needs a window"),
        (Distinct, "Distinct needs to know of what"),
        (lambda: Distinct("x", by=["a"] * 9), "groups by 9 attributes"),
    ],
)
def test_a_definition_that_cannot_be_is_refused(make: Any, said: str) -> None:
    with pytest.raises(AggregateError, match=said):
        make()


def test_a_rate_is_per_second() -> None:
    from tidings.aggregation.definitions import Tumbling

    rate: Aggregate[int] = Rate(window=Tumbling("60s"))
    assert rate.present(120) == 2
    assert rate.distance(0, 60) == 1
