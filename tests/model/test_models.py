"""Other data and filter models: each is an encoding on plain attributes, each filter a plain filter."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from itertools import product

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import filters, notifications

from tidings.model import (
    EVERYTHING,
    NOTHING,
    Filter,
    FilterError,
    Matches,
    Notification,
    ValueRefused,
    attr,
    channel,
    of_type,
    on_subject,
    rectangle,
    subject,
    template,
)

# Filters in general.


@pytest.mark.req("VIS-107")
@given(filters(max_conjunctions=1), notifications())
def test_a_constraint_on_an_absent_attribute_fails_unless_it_asks_for_absence(f: Filter, n: Notification) -> None:
    for conjunction in f.conjunctions:
        for constraint in conjunction:
            if constraint.name not in n and not str(constraint).endswith("IS NULL"):
                assert not f.matches(n)


@pytest.mark.req("VIS-108")
@given(filters(), filters(), notifications())
def test_a_filter_maps_to_the_notification_or_to_nothing_and_composes(f: Filter, g: Filter, n: Notification) -> None:
    assert f(n) is (n if f.matches(n) else None)
    assert f(None) is None
    assert f(g(n)) is (f & g)(n)


@pytest.mark.req("VIS-109")
@given(filters(), filters(), notifications())
def test_a_disjunction_passes_what_either_passes(f: Filter, g: Filter, n: Notification) -> None:
    assert (f | g).matches(n) is (f.matches(n) or g.matches(n))


@pytest.mark.req("VIS-108")
def test_filters_carry_ids_that_tell_them_apart() -> None:
    one, other = Filter.parse("a = 1 AND b = 2"), Filter.parse("b = 2 AND a = 1")
    assert one.id == other.id
    assert len({f.id for f in (one, Filter.parse("a = 1"), Filter.parse("a = '1'"), EVERYTHING, NOTHING)}) == 5


# Channels.


@pytest.mark.req("VIS-110")
def test_a_channel_filter_selects_its_channel_and_nothing_else() -> None:
    alerts = channel("alerts")
    assert alerts.matches({"channel": "alerts", "anything": 5})
    assert not alerts.matches({"channel": "alerts2"})
    assert not alerts.matches({"type": "alerts"})


# Subjects, against a reading of the pattern level by level.

_LEVELS = ("a", "b")
_SUBJECTS = ["/" + "/".join(levels) for length in (1, 2, 3, 4) for levels in product(_LEVELS, repeat=length)]
_PATTERNS = [
    *("/" + "/".join(levels) for length in (1, 2, 3) for levels in product((*_LEVELS, "*"), repeat=length)),
    *("/" + "/".join((*levels, "**")) for length in (0, 1, 2) for levels in product((*_LEVELS, "*"), repeat=length)),
]


def _on(pattern: str, path: str) -> bool:
    wanted, levels = pattern[1:].split("/"), path[1:].split("/")
    if wanted[-1] == "**":
        wanted = wanted[:-1]
        levels, short = levels[: len(wanted)], len(levels) < len(wanted)
        if short:
            return False
    return len(wanted) == len(levels) and all(w in {"*", level} for w, level in zip(wanted, levels, strict=True))


@pytest.mark.req("VIS-111")
@given(st.sampled_from(_PATTERNS))
def test_a_subject_pattern_selects_level_by_level(pattern: str) -> None:
    f = subject(pattern)
    assert [path for path in _SUBJECTS if f.matches(on_subject(path))] == [
        path for path in _SUBJECTS if _on(pattern, path)
    ]


@pytest.mark.req("VIS-111", "VIS-114")
@given(st.sampled_from(_PATTERNS), st.sampled_from(_PATTERNS))
def test_one_subject_pattern_covers_another_exactly_when_its_subjects_include_them(one: str, other: str) -> None:
    included = {path for path in _SUBJECTS if _on(other, path)} <= {path for path in _SUBJECTS if _on(one, path)}
    # `*/*` and `a/*` or `b/*` look the same over two letters, but there are more letters.
    expected = included and all(w == "*" or w == o for w, o in zip(*_aligned(one, other), strict=True))
    assert subject(one).covers(subject(other)) is expected


def _aligned(one: str, other: str) -> tuple[list[str], list[str]]:
    wanted, offered = one.removesuffix("/**")[1:].split("/"), other.removesuffix("/**")[1:].split("/")
    wanted = [level for level in wanted if level and level != "**"]
    return wanted, (offered + ["*"] * len(wanted))[: len(wanted)]


@pytest.mark.req("VIS-111")
def test_one_star_is_one_level_and_two_are_the_whole_subtree() -> None:
    one, all_below = subject("/Exchange/Europe/*"), subject("/Exchange/Europe/**")
    london, deeper, root = (
        on_subject(path) for path in ("/Exchange/Europe/London", "/Exchange/Europe/London/Tech", "/Exchange/Europe")
    )
    assert [one.matches(n) for n in (london, deeper, root)] == [True, False, False]
    assert [all_below.matches(n) for n in (london, deeper, root)] == [True, True, True]
    assert not all_below.matches(on_subject("/Exchange/EuropeWest/London"))


@pytest.mark.parametrize("path", ["", "/", "a/b", "/a//b", "/a/", "/a/*", "/**", "/" + "a/" * 40 + "a"])
def test_what_is_no_subject_of_a_notification_is_refused(path: str) -> None:
    with pytest.raises(ValueRefused):
        on_subject(path)


@pytest.mark.parametrize("pattern", ["", "/", "a", "/a//b", "/Lon*", "/**/a", "/a/***", "/**/**"])
def test_what_is_no_subject_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(ValueRefused):
        subject(pattern)


# Types.


class Priced:
    """A superclass that is no dataclass still counts."""


@dataclass(frozen=True)
class Event:
    source: str = "test"


@dataclass(frozen=True)
class Quote(Event, Priced):
    symbol: str = "SAP"
    price: float = 182.4
    note: str | None = None


@dataclass(frozen=True)
class OptionQuote(Quote):
    strike: float = 200.0


class Trade(msgspec.Struct):
    symbol: str
    size: int


class BlockTrade(Trade):
    desk: str = "1"


@pytest.mark.req("VIS-112", "VIS-105", "ARC-192")
def test_a_type_filter_selects_the_class_and_all_derived_ones() -> None:
    option, quote, event = (Notification.from_object(x) for x in (OptionQuote(), Quote(), Event()))
    assert [of_type(Quote).matches(n) for n in (option, quote, event)] == [True, True, False]
    assert [of_type(Event).matches(n) for n in (option, quote, event)] == [True, True, True]
    assert [of_type(Priced).matches(n) for n in (option, quote, event)] == [True, True, False]
    assert of_type("OptionQuote").matches(option)
    assert quote["type"] == ("Quote", "Event", "Priced")


@pytest.mark.req("VIS-112")
def test_a_type_filter_joins_with_content() -> None:
    f = of_type(Quote) & (attr.price > 100)
    assert f.matches(Notification.from_object(OptionQuote()))
    assert not f.matches(Notification.from_object(Quote(price=5)))
    assert of_type(Quote).covers(f)
    assert not f.covers(of_type(Quote))


@pytest.mark.req("VIS-105")
def test_a_struct_is_an_object_too() -> None:
    n = Notification.from_object(BlockTrade("SAP", 5))
    assert dict(n) == {"type": ("BlockTrade", "Trade"), "symbol": "SAP", "size": 5, "desk": "1"}


def test_a_field_of_none_is_left_out() -> None:
    assert "note" not in Notification.from_object(Quote())
    assert Notification.from_object(Quote(note="x"))["note"] == "x"


class Side(enum.Enum):
    BUY = "buy"


@dataclass
class Leg:
    side: Side
    size: int | None


@dataclass
class Basket:
    legs: list[Leg]
    owner: Event
    extra: dict[str, object] = field(default_factory=dict)


@pytest.mark.req("VIS-105")
def test_objects_in_objects_and_lists_become_dotted_names_and_lists() -> None:
    basket = Basket([Leg(Side.BUY, 1), Leg(Side.BUY, None)], Event("desk"), {"x": [[1], [2, 3]], "y": []})
    assert dict(Notification.from_object(basket)) == {
        "type": ("Basket",),
        "legs.side": ("buy", "buy"),
        "legs.size": (1,),
        "owner.source": "desk",
        "extra.x": (1, 2, 3),
        "extra.y": (),
    }


@dataclass
class Typed:
    type: str = "x"


@dataclass
class Knot:
    inner: object = None


def _knot() -> Knot:
    knot = Knot()
    knot.inner = knot
    return knot


@pytest.mark.parametrize(
    ("instance", "told"),
    [
        (_knot(), "nested deeper"),
        (Knot(object()), "attribute 'inner': object is not a value"),
        (Knot({5: 1}), "attribute 'inner': 5 is not a name"),
        (Knot({"a": {"b": 1}, "a.b": 1}), "given twice"),
        (Knot({"a": [{"b": 1}], "a.b": 1}), "given twice"),
        (Knot, "no fields"),
        (5, "no fields"),
        ({"a": 1}, "no fields"),
    ],
)
def test_what_is_no_object_is_refused(instance: object, told: str) -> None:
    with pytest.raises(ValueRefused, match=told):
        Notification.from_object(instance)


def test_a_field_of_its_own_says_what_type_an_object_is() -> None:
    assert dict(Notification.from_object(Typed())) == {"type": "x"}


# Tuples, documents, bytes, points.


@pytest.mark.req("VIS-105")
def test_the_attributes_of_a_tuple_are_its_positions() -> None:
    n = Notification.from_tuple(("quote", "SAP", 182.4))
    assert n["3"] == 182.4
    assert template("quote", ..., 182.4).matches(n)
    assert not template("quote", ...).matches(n)
    assert not template("quote", ..., ..., ...).matches(n)
    assert not template("trade", ..., ...).matches(n)
    assert template("quote", ..., ...).covers(template("quote", "SAP", ...))
    assert Filter.parse("\"2\" LIKE 'S%'").matches(n)


@pytest.mark.req("VIS-105")
def test_a_document_is_selected_by_paths() -> None:
    n = Notification.from_json(
        '{"order": {"id": 7, "items": [{"sku": "A7", "n": 2}, {"sku": "B2"}], "note": null}, "tags": ["x", "y"]}'
    )
    assert dict(n) == {"order.id": 7, "order.items.sku": ("A7", "B2"), "order.items.n": (2,), "tags": ("x", "y")}
    assert Filter.parse("order.items.sku = 'B2' AND order.note IS NULL").matches(n)


@pytest.mark.parametrize(
    "document",
    [
        "",
        "{",
        "[1]",
        "5",
        "null",
        '{"a": 1e999}',
        '{"a": 99999999999999999999999}',
        '{"": 1}',
        '{"a": {"b": 1}, "a.b": 2}',
        b"\xff{}",
        "\ud800",
        "[" * 100_000,
        '{"a":' * 100_000,
        '{"a":' * 30 + "1" + "}" * 30,
        '{"a": "' + "x" * 2_000_000 + '"}',
    ],
    ids=range(15),
)
def test_what_is_no_document_is_refused(document: str | bytes) -> None:
    with pytest.raises(ValueRefused):
        Notification.from_json(document)


@pytest.mark.req("VIS-106")
def test_opaque_bytes_are_selected_by_channel_or_subject() -> None:
    in_channel = Notification.opaque(b"\x00\x01", channel="raw")
    on_a_subject = Notification.opaque(b"\x00\x01", subject="/raw/cam1")
    assert in_channel["body"] == b"\x00\x01"
    assert channel("raw").matches(in_channel)
    assert subject("/raw/*").matches(on_a_subject)
    assert not channel("raw").matches(on_a_subject)
    with pytest.raises(ValueRefused, match="channel or a subject"):
        Notification.opaque(b"")
    with pytest.raises(ValueRefused, match="encode it first"):
        Notification.opaque("text", channel="raw")  # type: ignore[arg-type]


@pytest.mark.req("VIS-107")
@given(*[st.integers(-3, 3)] * 6)
def test_a_rectangle_holds_the_points_in_it(x1: int, y1: int, x2: int, y2: int, x: int, y: int) -> None:
    x1, x2 = sorted((x1, x2))
    y1, y2 = sorted((y1, y2))
    inside = x1 <= x <= x2 and y1 <= y <= y2
    assert rectangle("p", x1, y1, x2, y2).matches({"p": {"x": x, "y": y}}) is inside


def test_an_empty_rectangle_is_refused() -> None:
    with pytest.raises(FilterError, match="lower corner first"):
        rectangle("p", 1, 0, 0, 1)


# Open models.


@pytest.mark.req("ARC-019", "VIS-114")
def test_a_class_with_matches_alone_is_a_filter() -> None:
    class Sampled:
        def matches(self, notification: Notification) -> bool:
            return hash(notification) % 2 == 0

    class Derived(Matches):
        pass

    assert isinstance(Sampled(), Matches)
    assert isinstance(EVERYTHING, Matches)
    assert not isinstance(object(), Matches)
    assert not isinstance(EVERYTHING, Derived)
    assert isinstance(Derived(), Matches)


@pytest.mark.parametrize(
    "f", [channel("a"), subject("/a/*/**"), of_type(Quote), template(1, ...), rectangle("p", 0, 0, 1, 1)]
)
@pytest.mark.req("ARC-019")
def test_every_model_is_a_plain_filter_with_a_text(f: Filter) -> None:
    assert type(f) is Filter
    assert Filter.parse(str(f)) == f
    assert EVERYTHING.covers(f)
