"""Values: what is kept, how it compares, what is refused and with which words."""

from __future__ import annotations

import decimal
import enum
import math
from datetime import UTC, date, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import scalars

from tidings.model import Filter, Kind, Location, Notification, Scalar, TidingsError, ValueRefused, kind_of
from tidings.model._values import MAX_LIST, MAX_TEXT, checked_scalar, checked_value, literal


class Colour(str, enum.Enum):  # noqa: UP042 - as in code older than StrEnum
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


class Moment(datetime):
    """As pandas.Timestamp is a datetime."""


class Angle(float):
    pass


@pytest.mark.req("VIS-104")
@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (True, Kind.BOOLEAN),
        (5, Kind.NUMBER),
        (-(2**63), Kind.NUMBER),
        (2**63 - 1, Kind.NUMBER),
        (5.5, Kind.NUMBER),
        ("", Kind.TEXT),
        ("grüße 🚀", Kind.TEXT),
        (b"", Kind.BYTES),
        (datetime(2026, 1, 1, tzinfo=UTC), Kind.TIME),
        (Location("/"), Kind.PLACE),
    ],
)
def test_every_kind_is_kept_as_it_is(value: Scalar, kind: Kind) -> None:
    checked = checked_scalar(value, "here")
    assert checked == value
    assert type(checked) is type(value)
    assert kind_of(checked) is kind


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        (Colour.RED, "red"),
        (Level.HIGH, 3),
        (Angle(1.5), 1.5),
        (datetime(2026, 1, 1, 12, tzinfo=timezone(timedelta(hours=2))), datetime(2026, 1, 1, 10, tzinfo=UTC)),
        (Moment(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC)),
    ],
)
def test_a_subclass_is_kept_as_the_plain_value(value: object, kept: Scalar) -> None:
    checked = checked_scalar(value, "here")
    assert checked == kept
    assert type(checked) is type(kept)
    assert kind_of(checked) in Kind


REFUSED = [
    (None, "leave the attribute out"),
    (math.nan, "leave the attribute out"),
    (math.inf, "leave the attribute out"),
    (-math.inf, "leave the attribute out"),
    (2**63, "use a float or a string"),
    (-(2**63) - 1, "use a float or a string"),
    (10**10_000, "use a float or a string"),
    ("x" * (MAX_TEXT + 1), "at most 1,048,576"),
    (b"x" * (MAX_TEXT + 1), "at most 1,048,576"),
    ("\ud800", "send it as bytes"),
    (datetime(2026, 1, 1), "datetime.now(UTC)"),
    (datetime.max.replace(tzinfo=timezone(timedelta(hours=-1))), "years 1 to 9999"),
    (date(2026, 1, 1), "use bool, int"),
    (decimal.Decimal(1), "use bool, int"),
    (1j, "use bool, int"),
    (object(), "use bool, int"),
    (int, "use bool, int"),
    ({1, 2}, "use bool, int"),
]


@pytest.mark.parametrize(("value", "remedy"), REFUSED, ids=range(len(REFUSED)))
def test_a_refusal_names_the_attribute_and_the_remedy(value: object, remedy: str) -> None:
    with pytest.raises(ValueRefused) as raised:
        Notification(fine=1, price=value)
    assert "attribute 'price'" in str(raised.value)
    assert remedy in str(raised.value)
    assert len(str(raised.value)) < 300
    assert isinstance(raised.value, TidingsError)
    assert isinstance(raised.value, ValueError)


@pytest.mark.parametrize(("value", "remedy"), REFUSED, ids=range(len(REFUSED)))
def test_a_refusal_in_a_list_names_the_element(value: object, remedy: str) -> None:
    with pytest.raises(ValueRefused, match=r"attribute 'prices'\[1\]") as raised:
        Notification(prices=[1, value])
    assert remedy in str(raised.value)


def test_a_list_is_kept_as_a_tuple_and_has_a_limit() -> None:
    assert checked_value([1, "a", True], "here") == (1, "a", True)
    assert checked_value([], "here") == ()
    assert len(checked_value([0] * MAX_LIST, "here")) == MAX_LIST  # type: ignore[arg-type]
    with pytest.raises(ValueRefused, match="at most 1,024"):
        checked_value([0] * (MAX_LIST + 1), "here")
    with pytest.raises(ValueRefused, match="list is not a value"):
        checked_value([[1]], "here")


@given(scalars(wild=True), scalars(wild=True))
def test_values_of_different_kinds_never_compare(one: Scalar, other: Scalar) -> None:
    if kind_of(one) is not kind_of(other):
        for text in ("a = {}", "a <> {}", "a IN ({})", "a NOT IN ({})"):
            assert not Filter.parse(text.format(literal(other))).matches({"a": one})


@pytest.mark.parametrize(("number", "same"), [(1, 1.0), (-0.0, 0), (2**53, float(2**53))])
def test_numbers_compare_by_value(number: float, same: float) -> None:
    assert Filter.parse(f"a = {number!r}").matches({"a": same})


def test_large_numbers_compare_exactly() -> None:
    assert not Filter.parse(f"a = {2**53 + 1}").matches({"a": float(2**53)})
    assert Filter.parse(f"a > {float(2**53)!r}").matches({"a": 2**53 + 1})


def test_true_is_not_one() -> None:
    assert not Filter.parse("a = 1").matches({"a": True})
    assert not Filter.parse("a = TRUE").matches({"a": 1})
    assert not Filter.parse("a IN (0, 1)").matches({"a": [True]})


@given(st.lists(st.text(min_size=1).filter(lambda part: "/" not in part), max_size=5))
def test_a_location_is_its_path(parts: list[str]) -> None:
    place = Location(tuple(parts))
    assert Location(str(place)) == place
    assert place.within(Location("/"))
    assert place.within(place)
    if parts:
        assert not Location("/").within(place)


@pytest.mark.parametrize(
    "path",
    ["/a//b", ("a", ""), ("a/b",), ("a", 5), None, 5, "/x" * 33, "/" + "x" * 2_000, "/\ud800", ["a"]],
)
def test_what_is_no_location_is_refused(path: object) -> None:
    with pytest.raises(ValueRefused, match=r"location|Unicode"):
        Location(path)  # type: ignore[arg-type]


def test_a_location_is_not_within_a_place_whose_name_it_merely_begins_with() -> None:
    assert not Location("/berlin-west").within(Location("/berlin"))
