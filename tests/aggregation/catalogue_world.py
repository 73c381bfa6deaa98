"""Records, and every definition of the catalogue, for the tests of laws."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tidings.aggregation.definitions import (
    JP,
    ActivePublishers,
    Aggregate,
    BitAnd,
    BitOr,
    BitXor,
    Composite,
    Count,
    Distinct,
    Frequent,
    Histogram,
    Intersection,
    Max,
    Mean,
    Min,
    Product,
    PublicationRate,
    PublisherCount,
    Quantile,
    Rate,
    Record,
    Sliding,
    SubscriberCount,
    SubscriptionCount,
    SubscriptionRate,
    Sum,
    Tumbling,
    Union,
)

WINDOW = Sliding("10s", "5s")

CATALOGUE: dict[str, Aggregate[Any]] = {
    "count": Count(),
    "sum": Sum("x"),
    "rate": Rate(window=WINDOW),
    "mean": Mean("x"),
    "product": Product("x"),
    "histogram": Histogram("x", edges=(-1, 0, 2.5, 100)),
    "max": Max("x"),
    "min": Min("x"),
    "union": Union("x"),
    "intersection": Intersection("x"),
    "and": BitAnd("x"),
    "or": BitOr("x"),
    "xor": BitXor("x"),
    "distinct": Distinct("x"),
    "quantile": Quantile("x", q=0.95),
    "composite": Composite([Count(), Quantile("x", q=0.5), Max("x")]),
    "sums": Composite([Count(), Sum("x"), Histogram("x", edges=(0,))]),
    "subscribers": SubscriberCount(),
    "publishers": PublisherCount(),
    "subscriptions": SubscriptionCount(),
    "publications": PublicationRate(Tumbling("60s")),
    "subscribing": SubscriptionRate(Tumbling("60s"), ends=True),
    "active": ActivePublishers(Tumbling("60s")),
}
"""Those whose laws hold byte for byte."""
FREQUENT = Frequent("x")

numbers = st.one_of(
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-9, 9),
    st.floats(allow_nan=False, allow_infinity=False),
    st.booleans(),
)
scalars = st.one_of(numbers, st.text(st.characters(exclude_categories=["Cs"]), max_size=300), st.binary(max_size=9))
values = st.one_of(scalars, st.lists(scalars, max_size=4).map(tuple))


def _record(jp: JP, edge: int, value: Any) -> Record:
    attrs = {} if value is None else {"x": value, "rack": value}
    peer = f"p{value!r:.1}"
    return Record(
        ts_ms=7, broker="b1", jp=jp, topic="quote", peer=peer, ingress=edge >= -1, edge=max(edge, -1), attrs=attrs
    )


records = st.builds(_record, st.sampled_from(JP), st.integers(-2, 1), st.one_of(st.none(), values))
some = st.lists(records, max_size=6)


def folded(aggregate: Aggregate[Any], given: list[Record]) -> Any:
    """The partial of some records, one after the other."""
    partial = aggregate.zero()
    for record in given:
        if (lifted := aggregate.lift(record)) is not None:
            partial = aggregate.combine(partial, lifted)
    return partial
