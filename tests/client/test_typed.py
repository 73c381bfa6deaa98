"""Objects are published as they are, and come back as what they were; what does not fit is told, and left out."""

from __future__ import annotations

import asyncio
import enum
import logging
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from client.transports import brokers, on_both, take, until, url
from hypothesis import given
from hypothesis import strategies as st

import tidings
from tidings.client._typed import Typed
from tidings.model import Location


class Side(enum.Enum):
    BUY = "buy"
    SELL = "sell"


@dataclass
class Venue:
    city: str
    country: str = "DE"


@dataclass
class Quote:
    symbol: str
    price: float
    venue: Venue | None = None
    note: str | None = None


class Leg(msgspec.Struct):
    side: Side
    size: int


class Order(msgspec.Struct, rename="camel"):
    order_id: int
    legs: list[Leg]
    tags: tuple[str, ...]
    limits: dict[str, float]
    at: datetime
    place: Location
    raw: bytes
    parent: Order | None
    desk: Venue = msgspec.field(default_factory=lambda: Venue("Berlin"))


class Trade(msgspec.Struct, tag="trade", forbid_unknown_fields=True):
    symbol: str
    count: int = 1


@dataclass
class Typed_:
    type: str
    n: int


legs = st.lists(st.builds(Leg, st.sampled_from(Side), st.integers(-(2**63), 2**63 - 1)), max_size=3)
words = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
venues = st.builds(Venue, words, words)
orders = st.deferred(
    lambda: st.builds(
        Order,
        st.integers(-(2**63), 2**63 - 1),
        legs,
        st.lists(words, max_size=3).map(tuple),
        st.dictionaries(
            st.text("abc", min_size=1, max_size=3), st.floats(allow_nan=False, allow_infinity=False), max_size=3
        ),
        st.datetimes(timezones=st.just(UTC)),
        st.sampled_from([Location("/berlin"), Location("/berlin/mitte")]),
        st.binary(max_size=5),
        st.none() | orders,
        venues,
    )
)
quotes = st.builds(
    Quote, words, st.floats(allow_nan=False, allow_infinity=False), st.none() | venues, st.none() | words
)


@given(
    st.one_of(quotes, orders, st.builds(Trade, words, st.integers(0, 9)), st.builds(Typed_, words, st.integers(0, 9)))
)
def test_what_was_flattened_becomes_what_it_was(instance: Any) -> None:
    assert Typed(type(instance)).of(tidings.Notification.from_object(instance)) == instance


@on_both
async def test_objects_are_published_and_come_back_typed() -> None:
    async with brokers("b") as servers, tidings.connect(url(servers["b"])) as client:
        subscription = await client.subscribe("type = 'Quote' AND venue.city = 'Bonn'", as_=Quote)
        plain = await client.subscribe("EXISTS(price)")
        await client.publish(Quote("SAP", 182.4, Venue("Bonn")))
        await client.publish(Quote("BMW", 80, Venue("Ulm")))
        await client.publish({"type": "Quote", "symbol": "DTE", "price": 31, "venue": {"city": "Bonn"}, "extra": 1})
        got = await take(subscription, 2)  # type: ignore[arg-type]
        assert got == [Quote("SAP", 182.4, Venue("Bonn")), Quote("DTE", 31.0, Venue("Bonn"))]
        first, *_ = await take(plain, 3)
        assert dict(first) == {
            "type": ("Quote",),
            "symbol": "SAP",
            "price": 182.4,
            "venue.city": "Bonn",
            "venue.country": "DE",
        }
        assert (await client.publish(Quote("SAP", 1.0), ttl=5)).number


@on_both
async def test_attributes_may_be_added_to_an_object() -> None:
    async with brokers("b") as servers, tidings.connect(url(servers["b"])) as client:
        subscription = await client.subscribe("TRUE")
        await client.publish(Trade("SAP", 3), desk="north")
        with pytest.raises(tidings.ValueRefused, match="'symbol' is given twice"):
            await client.publish(Trade("SAP", 3), symbol="BMW")
        assert dict((await take(subscription, 1))[0]) == {
            "type": ("Trade",),
            "symbol": "SAP",
            "count": 3,
            "desk": "north",
        }


@on_both
async def test_what_does_not_fit_is_told_and_left_out() -> None:
    misfits: list[tidings.Misfit] = []
    async with brokers("b") as servers, tidings.connect(url(servers["b"])) as client:
        subscription = await client.subscribe("TRUE", as_=Quote, on_misfit=misfits.append)
        await client.publish(symbol="SAP", price="cheap")
        await client.publish(symbol="SAP")
        await client.publish(symbol="SAP", price=1.5, venue={"country": "DE"})
        await client.publish(symbol="BMW", price=2)
        assert await take(subscription, 1) == [Quote("BMW", 2.0)]  # type: ignore[arg-type]
        assert subscription.misfits == 3
    assert [one.notification["symbol"] for one in misfits] == ["SAP"] * 3
    assert misfits[0].problem == "no Quote: Expected `float`, got `str` - at `$.price`"
    assert "missing required field `price`" in misfits[1].problem
    assert "city" in misfits[2].problem


@on_both
async def test_without_on_misfit_the_log_is_told_once_in_a_while(caplog: pytest.LogCaptureFixture) -> None:
    async with brokers("b") as servers, tidings.connect(url(servers["b"])) as client:
        with caplog.at_level(logging.WARNING, "tidings.client"):
            subscription = await client.subscribe("TRUE", as_=Quote)
            await client.publish_many([{"n": n} for n in range(20)])
            await until(lambda: subscription.misfits == 20)
    (record,) = caplog.records
    assert "no Quote: Object missing required field `symbol`" in record.getMessage()
    assert "Notification(n=0)" in record.getMessage()


@pytest.mark.parametrize("error", [RuntimeError, asyncio.CancelledError])
@on_both
async def test_an_on_misfit_that_fails_harms_nobody(
    error: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    def broken(misfit: tidings.Misfit) -> None:
        raise error("not this one")

    async with brokers("b") as servers, tidings.connect(url(servers["b"])) as client:
        subscription = await client.subscribe("TRUE", as_=Quote, on_misfit=broken)
        await client.publish(n=1)
        await client.publish(Quote("SAP", 1.0))
        assert await take(subscription, 1) == [Quote("SAP", 1.0)]  # type: ignore[arg-type]
    assert "`on_misfit` failed" in caplog.text


@on_both
async def test_callbacks_get_instances_too_and_what_does_not_fit_counts_as_handled(tmp_path: Path) -> None:
    heard: list[Quote] = []

    async def later(quote: Quote) -> None:
        heard.append(quote)

    async with brokers("b", data=tmp_path) as servers:
        for callback in (heard.append, later):
            async with tidings.connect(url(servers["b"]), name="alice") as client:
                await client.subscribe("TRUE", as_=Quote, durable="quotes", callback=callback)
                await client.publish(Quote("SAP", 1.0))
                await client.publish(n=1)
                await client.flush()
                await until(lambda: heard == [Quote("SAP", 1.0)])
                heard.clear()
        async with tidings.connect(url(servers["b"]), name="alice") as client:
            subscription = await client.subscribe("TRUE", as_=Quote, durable="quotes")
            await client.publish(Quote("BMW", 1.0))
            assert await take(subscription, 1) == [Quote("BMW", 1.0)]  # type: ignore[arg-type]
            assert subscription.misfits == 0


def test_lists_that_are_no_list_of_objects_do_not_fit() -> None:
    typed = Typed(Basket)
    assert typed.of(tidings.Notification({"legs.side": ["buy"], "legs.size": [1]})) == Basket([Leg(Side.BUY, 1)])
    assert typed.of(tidings.Notification({"legs": []})) == Basket([])
    for attributes in ({"legs.side": ["buy"], "legs.size": [1, 2]}, {"legs.side": "buy", "legs.size": 1}):
        misfit = typed.of(tidings.Notification(attributes))
        assert isinstance(misfit, tidings.Misfit)
        assert "the lists below 'legs'" in misfit.problem


@dataclass
class Basket:
    legs: list[Leg] = field(default_factory=list)


@dataclass
class Checked:
    n: int

    def __post_init__(self) -> None:
        if self.n < 0:
            raise ValueError("n is negative")


def test_what_a_class_itself_refuses_does_not_fit() -> None:
    misfit = Typed(Checked).of(tidings.Notification(n=-1))
    assert isinstance(misfit, tidings.Misfit)
    assert "n is negative" in misfit.problem


@dataclass
class Mean:
    total: int
    count: int

    def __post_init__(self) -> None:
        self.mean = self.total / self.count


@on_both
async def test_a_class_may_raise_anything_and_costs_no_connection() -> None:
    misfits: list[tidings.Misfit] = []
    async with brokers("b") as servers, tidings.connect(url(servers["b"])) as client:
        means = await client.subscribe("TRUE", as_=Mean, on_misfit=misfits.append)
        plain = await client.subscribe("TRUE")
        await client.publish_many([{"total": 6, "count": count} for count in (1, 0, 2, 0, 3)])
        assert [n["count"] for n in await take(plain, 5)] == [1, 0, 2, 0, 3]
        assert [mean.mean for mean in await take(means, 3)] == [6, 3, 2]  # type: ignore[arg-type, attr-defined]
        assert client.statistics().reconnects == 0
    assert [one.problem for one in misfits] == ["no Mean: ZeroDivisionError: division by zero"] * 2


@dataclass
class Either:
    what: Venue | str


class Nameless(msgspec.Struct, array_like=True):
    n: int


@dataclass
class Unknown:
    n: Nowhere  # type: ignore[name-defined]  # noqa: F821


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        (Either, "one of several classes"),
        (Nameless, "without names"),
        (Unknown, "cannot be read"),
        (dict, "give a dataclass"),
    ],
)
def test_a_class_that_no_notification_could_become_is_refused(kind: type, told: str) -> None:
    with pytest.raises(tidings.ArgumentRefused, match=told):
        Typed(kind)
