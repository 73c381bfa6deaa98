"""The Python builder makes the same filters as the language, and refuses the same things."""

# ruff: noqa: SIM300 - the constant stands first on purpose

from __future__ import annotations

import copy
import functools
import math
import operator
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import NAMES, scalars

from tidings.model import (
    Filter,
    FilterError,
    FilterTooLarge,
    Kind,
    Location,
    Scalar,
    TidingsError,
    attr,
    kind_of,
    myloc,
)
from tidings.model._names import quoted
from tidings.model._values import ORDERED, literal

NAN = float("nan")
NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("built", "text"),
    [
        (attr.price > 20, "price > 20"),
        (attr.price >= 20, "price >= 20"),
        (attr.price < 20.5, "price < 20.5"),
        (attr.price <= -1, "price <= -1"),
        (attr.symbol == "it's", "symbol = 'it''s'"),
        (attr.symbol != "SAP", "symbol <> 'SAP'"),
        (attr.urgent == True, "urgent = TRUE"),  # noqa: E712
        (attr.at > NOON, "at > TIMESTAMP '2026-11-15T12:00:00Z'"),
        (attr.raw == b"\x0a", "raw = X'0A'"),
        (attr.venue.city == "Berlin", "venue.city = 'Berlin'"),
        (attr["a b"] == 1, '"a b" = 1'),
        (attr.venue["zip code"] == 1, '"venue.zip code" = 1'),
        (attr["in"] == 1, '"in" = 1'),
        (20 < attr.price, "price > 20"),
        (20 >= attr.price, "price <= 20"),
        ("SAP" == attr.symbol, "symbol = 'SAP'"),
        ("SAP" != attr.symbol, "symbol <> 'SAP'"),
        (attr.price.between(1, 2), "price BETWEEN 1 AND 2"),
        (attr.symbol.isin(["SAP", "IBM"]), "symbol IN ('IBM', 'SAP')"),
        (attr.symbol.isin({"SAP"}), "symbol IN ('SAP')"),
        (~attr.symbol.isin(iter(["SAP"])), "symbol NOT IN ('SAP')"),
        (attr.symbol.like("S_P%"), "symbol LIKE 'S_P%'"),
        (attr.note.like("5!%", escape="!"), "note LIKE '5!%' ESCAPE '!'"),
        (attr.symbol.startswith("50%"), r"symbol LIKE '50\%%' ESCAPE '\'"),
        (attr.symbol.endswith("AP"), "symbol LIKE '%AP'"),
        (attr.symbol.contains("_"), r"symbol LIKE '%\_%' ESCAPE '\'"),
        (attr.symbol.startswith(""), "symbol LIKE '%'"),
        (attr.symbol.endswith(""), "symbol LIKE '%'"),
        (attr.symbol.contains(""), "symbol LIKE '%'"),
        (attr.symbol.exists(), "symbol EXISTS"),
        (attr.symbol.is_null(), "symbol IS NULL"),
        (attr.location.within("/berlin"), "location WITHIN LOCATION '/berlin'"),
        (attr.location.within(Location("/berlin")), "location WITHIN LOCATION '/berlin'"),
        (attr.location.within(myloc), "location WITHIN myloc"),
        (attr.location.within(myloc(2)), "location WITHIN myloc(2)"),
        (~attr.location.within("/berlin"), "location NOT WITHIN LOCATION '/berlin'"),
        ((attr.a == 1) & (attr.b == 2) | ~(attr.c > 3), "a = 1 AND b = 2 OR NOT c > 3"),
    ],
)
def test_built_and_parsed_filters_are_equal(built: Filter, text: str) -> None:
    assert built == Filter.parse(text)
    assert Filter.parse(str(built)) == built


@given(st.sampled_from(NAMES), scalars())
def test_every_comparison_equals_its_text(name: str, value: Scalar) -> None:
    attribute, written = attr[name], f"{quoted(name)} {{}} {literal(value)}"
    assert (attribute == value) == Filter.parse(written.format("="))
    assert (attribute != value) == Filter.parse(written.format("<>"))
    if kind_of(value) in ORDERED:
        assert (attribute < value) == Filter.parse(written.format("<"))
        assert (attribute <= value) == Filter.parse(written.format("<="))
        assert (attribute > value) == Filter.parse(written.format(">"))
        assert (attribute >= value) == Filter.parse(written.format(">="))


@pytest.mark.parametrize(
    ("mistake", "remedy"),
    [
        (lambda: attr.price == None, "is_null"),  # noqa: E711
        (lambda: attr.price != None, "exists"),  # noqa: E711
        (lambda: attr.price > attr.limit, "with a constant"),
        (lambda: attr.price == [1, 2], "isin"),
        (lambda: attr.price > NAN, "cannot be compared"),
        (lambda: attr.price == 2**63, "64"),
        (lambda: attr.price == object(), "use bool, int"),
        (lambda: attr.price > datetime(2026, 1, 1), "time zone"),
        (lambda: attr.price > True, "no order"),
        (lambda: attr.price > Location("/x"), "no order"),
        (lambda: attr.price.between(1, "x"), "one kind"),
        (lambda: attr.price.between(None, 5), "is_null"),
        (lambda: attr.price.isin([]), "at least one"),
        (lambda: attr.price.isin("SAP"), "list of values"),
        (lambda: attr.price.isin([1, "x"]), "one IN per kind"),
        (lambda: attr.price.isin(range(5_000)), "at most"),
        (lambda: attr.price.like(5), "a string"),
        (lambda: attr.price.like("x", escape="xy"), "one character"),
        (lambda: attr.price.startswith(b"x"), "a string"),
        (lambda: attr.price.contains("x" * 100_000), "at most"),
        (lambda: attr.price.within(5), "/berlin"),
        (lambda: attr.price.within("/a//b"), "empty"),
        (lambda: bool(attr.price), "== True"),
        (lambda: attr.price & attr.size, "parentheses"),
        (lambda: 1 | attr.price, "parentheses"),
        (lambda: ~attr.price, "parentheses"),
        (lambda: attr["x" * 300] == 1, "at most"),
        (lambda: attr[""] == 1, "not empty"),
        (lambda: attr[5] == 1, "use a string"),  # type: ignore[index]
        (lambda: myloc(-1), "0 to"),
        (lambda: myloc(True), "0 to"),
    ],
)
def test_a_mistake_is_refused_with_a_remedy(mistake: Callable[[], object], remedy: str) -> None:
    with pytest.raises(TidingsError) as raised:
        mistake()
    assert remedy in str(raised.value)


def test_a_refused_value_names_the_attribute() -> None:
    with pytest.raises(TidingsError, match=r"'venue\.fee'"):
        attr.venue.fee > math.inf  # noqa: B015


def test_a_chained_comparison_raises_instead_of_losing_its_first_half() -> None:
    with pytest.raises(FilterError, match="neither true nor false"):
        1 < attr.price < 5  # noqa: B015


def test_a_filter_in_a_condition_raises() -> None:
    with pytest.raises(FilterError, match="join filters with"):
        assert attr.price == 1


def test_joining_without_end_is_refused() -> None:
    with pytest.raises(FilterTooLarge):
        functools.reduce(operator.or_, [attr.a == i for i in range(1_000)])


def test_multiplying_without_end_is_refused() -> None:
    with pytest.raises(FilterTooLarge):
        functools.reduce(operator.and_, [(attr.a == i) | (attr.b == i) for i in range(40)])


def test_python_protocols_do_not_become_attributes() -> None:
    assert not hasattr(attr, "__wrapped__")
    assert not hasattr(attr.price, "__array__")
    assert repr(attr.venue.city) == "attr['venue.city']"
    assert str(copy.copy(attr.price) > 5) == "price > 5"
    with pytest.raises(TypeError, match="unhashable"):
        hash(attr.price)


@given(scalars((Kind.PLACE,)))
def test_a_place_means_the_same_as_path_and_as_location(place: Location) -> None:
    assert attr.here.within(place) == attr.here.within(str(place))
