"""Mappings: what notifications become at a border, and that no filter loses one on its way through it."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from scopes.mapping_world import converts, mappings, promises, steps
from strategies import SOAK, filters, notifications

from tidings.model import EVERYTHING, NOTHING, Filter, Kind, Location, MappingError, Notification, ValueRefused
from tidings.scopes._convert import Convert
from tidings.scopes._mapping import EdgeMapping, Mapping, decode, edge_mapping, encode, mapping
from tidings.scopes._step import MappingFailed
from tidings.scopes._steps import Add, Annotate, Drop, Keep, Only, Rename

KINDS_OF_STEPS = sorted(steps())


def check_soundness(one: Mapping, filter: Filter, notification: Notification) -> None:
    """The two promises of a mapping to routing, and the second one as advertisements read it."""
    result = one.apply(notification)
    if result is None:
        return
    if filter.matches(result):
        assert one.wanted(filter).matches(notification)
    if filter.matches(notification):
        assert one.offered(filter).matches(result)
    if promises(filter, notification):
        assert promises(one.offered(filter), result)


# What holds for every mapping.


@pytest.mark.req("VIS-508")
@pytest.mark.parametrize("kind", KINDS_OF_STEPS)
@given(st.data())
def test_no_filter_loses_a_notification_at_a_step(kind: str, data: st.DataObject) -> None:
    wild = data.draw(st.booleans())
    step = data.draw(steps(wild=wild)[kind])
    for _ in range(3):
        filter = data.draw(filters(wild=wild))
        check_soundness(Mapping((step,)), filter, data.draw(notifications(wild=wild)))


@pytest.mark.req("VIS-508")
@settings(max_examples=300)
@given(mappings(), filters(), notifications())
def test_no_filter_loses_a_notification_at_a_mapping(one: Mapping, filter: Filter, notification: Notification) -> None:
    check_soundness(one, filter, notification)


@pytest.mark.soak
@SOAK
@given(st.booleans().flatmap(lambda wild: st.tuples(mappings(wild=wild), filters(wild=wild), notifications(wild=wild))))
def test_no_filter_loses_a_notification_at_a_mapping_for_long(drawn: tuple[Mapping, Filter, Notification]) -> None:
    check_soundness(*drawn)


@given(mappings(wild=True), notifications(wild=True))
def test_what_comes_out_is_a_notification_and_what_went_in_is_unchanged(
    one: Mapping, notification: Notification
) -> None:
    before = dict(notification)
    result = one.apply(notification)
    assert dict(notification) == before
    assert result is None or Notification(dict(result)) == result


@given(mappings(), mappings(), notifications())
def test_steps_are_applied_in_their_order(first: Mapping, second: Mapping, notification: Notification) -> None:
    between = first.apply(notification)
    expected = None if between is None else second.apply(between)
    assert Mapping(first.steps + second.steps).apply(notification) == expected


@given(mappings(wild=True))
def test_a_mapping_travels(one: Mapping) -> None:
    again = decode(encode(one), Mapping)
    assert str(again) == str(decode(encode(again), Mapping))
    assert [type(step) for step in again.steps] == [type(step) for step in one.steps]


@given(mappings(wild=True), notifications(wild=True))
def test_a_mapping_that_has_travelled_means_the_same(one: Mapping, notification: Notification) -> None:
    assert decode(encode(one), Mapping).apply(notification) == one.apply(notification)


@given(st.binary(max_size=60))
def test_bytes_that_are_no_mapping_are_refused(data: bytes) -> None:
    with pytest.raises(MappingError, match="not a"):
        decode(b"\x81\xa5steps" + data + b"\xc1", Mapping)


@given(mappings(), notifications())
def test_an_inverse_takes_back_what_the_mapping_did(one: Mapping, notification: Notification) -> None:
    inverse = one.inverse()
    assume(inverse is not None and not any(isinstance(step, Convert) for step in one.steps))
    there = one.apply(notification)
    assert inverse is not None
    if there is not None:
        back = inverse.apply(there)
        assert back is not None
        assert one.apply(back) == there


def test_a_mapping_cannot_be_changed() -> None:
    one = mapping(Add("a", 1))
    with pytest.raises(AttributeError):
        one.steps = ()  # type: ignore[misc]
    with pytest.raises(AttributeError):
        one.steps[0].name = "b"  # type: ignore[misc, union-attr]
    with pytest.raises(AttributeError):
        one.steps[0].constant.value = 2  # type: ignore[union-attr]
    assert one == mapping(Add("a", 1))
    assert hash(one) == hash(mapping(Add("a", 1)))
    assert one != mapping(Add("a", True))


@pytest.mark.req("VIS-501")
@given(filters(), notifications())
def test_a_filter_is_a_mapping(filter: Filter, notification: Notification) -> None:
    assert mapping(filter).apply(notification) is filter(notification)
    assert Mapping.IDENTITY.apply(notification) is notification
    assert Mapping.BLOCK.apply(notification) is None
    assert Mapping.IDENTITY.wanted(filter) == filter == Mapping.IDENTITY.offered(filter)
    assert Mapping.BLOCK.wanted(filter) == NOTHING == Mapping.BLOCK.offered(filter)


@settings(max_examples=5)
@given(notifications(), filters())
def test_a_filter_too_large_for_a_mapping_is_weakened_not_lost(notification: Notification, filter: Filter) -> None:
    wide = Filter.parse(" OR ".join(f"a = {n} AND b = {-n}" for n in range(-3, 120)))
    other = Filter.parse(" OR ".join(f'"c.d" = {n}' for n in range(100)))
    long_name = "n" * 250
    for one in (
        mapping(Only(other)),
        mapping(Rename(long_name, "a")),
        mapping(Drop(tuple(f"x{n}" for n in range(99)))),
    ):
        for asked in (wide, Filter((*wide.conjunctions, *filter.conjunctions))):
            check_soundness(one, asked, notification)
            assert Filter.parse(str(one.wanted(asked))).conjunctions
            assert Filter.parse(str(one.offered(asked))).conjunctions


# One step after the other.


def wanted(step: object, text: str) -> str:
    return str(mapping(step).wanted(Filter.parse(text)).canonical())  # type: ignore[arg-type]


def offered(step: object, text: str) -> str:
    return str(mapping(step).offered(Filter.parse(text)).canonical())  # type: ignore[arg-type]


def test_a_renamed_attribute_is_asked_for_by_its_old_name() -> None:
    step = Rename("price", "preis")
    assert mapping(step).apply(Notification(price=5, preis="x")) == Notification(preis=5)
    assert mapping(step).apply(Notification(preis="x", b=1)) == Notification(b=1)
    assert wanted(step, "preis > 5 AND b LIKE 'a%'") == "b LIKE 'a%' AND price > 5"
    assert wanted(step, "price > 5 OR preis IS NULL") == "price IS NULL"
    assert wanted(step, "price IS NULL AND preis NOT IN (1, 2)") == "price NOT IN (1, 2)"
    assert offered(step, "price > 5 AND preis = 1") == "preis > 5 AND price IS NULL"


def test_dropped_attributes_are_missing() -> None:
    assert mapping(Drop(["a"])).apply(Notification(a=1, b=2)) == Notification(b=2)  # type: ignore[arg-type]
    assert wanted(Drop(("a",)), "a = 1 OR b = 2") == "b = 2"
    assert wanted(Drop(("a",)), "a IS NULL AND b = 2") == "b = 2"
    assert offered(Drop(("a",)), "a = 1 AND b = 2") == "a IS NULL AND b = 2"
    assert mapping(Keep(("a",))).apply(Notification(a=1, b=2)) == Notification(a=1)
    assert wanted(Keep(("a",)), "a = 1 AND b IS NULL OR c = 1") == "a = 1"
    assert offered(Keep(("a",)), "a = 1 AND b = 2") == "a = 1"


def test_a_constant_is_decided_when_the_filter_crosses() -> None:
    step = Add("market", "FRA")
    assert mapping(step).apply(Notification(market=1, b=2)) == Notification(market="FRA", b=2)
    assert wanted(step, "market = 'FRA' AND b = 2") == "b = 2"
    assert wanted(step, "market = 'NYC' AND b = 2") == "FALSE"
    assert wanted(Add("at", Location("/p")), "at WITHIN myloc AND b = 2") == "b = 2"
    assert offered(step, "b = 2 AND market = 'x'") == "b = 2 AND market = 'FRA'"
    assert offered(Add("tags", ["a", "b"]), "TRUE") == "tags IN ('a', 'b')"


def test_a_subscription_is_decided_against_only() -> None:
    assert wanted(Only(Filter.parse("a = 1")), "b = 2") == "a = 1 AND b = 2"
    assert offered(Only(Filter.parse("a = 'x' AND c IS NULL")), "b = 2") == "a EXISTS AND b = 2 AND c IS NULL"
    assert offered(Only(Filter.parse("a IS NULL")), "a = 2") == "FALSE"
    assert offered(Only(Filter.parse("a = 1")), "a = 2") == "a = 2", "the list (1, 2) passes both"


@pytest.mark.req("VIS-510")
def test_a_border_annotates_the_path() -> None:
    step = Annotate("path", "FRA")
    once = mapping(step).apply(Notification(b=1))
    assert once == Notification(b=1, path=["FRA"])
    assert mapping(Annotate("path", "NYC")).apply(once) == Notification(b=1, path=["FRA", "NYC"])
    assert mapping(step).apply(Notification(path="x")) == Notification(path=["x", "FRA"])
    by_two_ways = {mapping(Annotate("path", border)).apply(Notification(b=1)) for border in ("FRA", "NYC")}
    assert len(by_two_ways) == 2, "copies that took different paths can be told apart"
    assert wanted(step, "path = 'FRA' AND b = 2") == "b = 2"
    assert wanted(step, "path = 'NYC'") == "path = 'NYC'"
    assert wanted(step, "path <> 'FRA'") == "FALSE"
    full = Notification(path=["x"] * 1024)
    assert mapping(step).apply(full) is None


# Units and currencies.


@pytest.mark.req("VIS-509")
def test_currency_changes_at_the_market_border() -> None:
    border = edge_mapping(outward=mapping(Convert("eur", 1.25, to="usd"), Add("currency", "USD")))
    inside = Notification(symbol="SAP", eur=100, sizes=[1, 2])
    outside = border.outward.apply(inside)
    assert outside == Notification(symbol="SAP", usd=125.0, sizes=[1, 2], currency="USD")
    assert outside is not None
    assert border.inward.apply(outside) == Notification(symbol="SAP", eur=100.0, sizes=[1, 2])
    asked = Filter.parse("eur BETWEEN 80 AND 100 AND symbol = 'SAP'")
    assert str(border.inward.wanted(asked).canonical()) == "symbol = 'SAP' AND usd BETWEEN 100 AND 125"


def test_a_conversion_takes_lists_element_by_element_and_blocks_other_kinds() -> None:
    cents = mapping(Convert("price", 100))
    assert cents.apply(Notification(price=[1, 2.5])) == Notification(price=[100, 250.0])
    assert cents.apply(Notification(other=1)) == Notification(other=1)
    for other in ("1", True, b"1", [1, "x"], 2**62, 1e308):
        assert cents.apply(Notification(price=other)) is None
        with pytest.raises(MappingFailed, match=r"Convert: 'price' is"):
            cents.run(Notification(price=other))


def test_constants_are_converted_back() -> None:
    cents = Convert("euro", 100, to="cent")
    assert wanted(cents, "cent = 500") == "euro = 5"
    assert wanted(cents, "cent IN (500, 700)") == "euro IN (5, 7)"
    assert wanted(cents, "cent <> 500") == "euro <> 5"
    assert wanted(cents, "cent > 500") == "euro > 5" or wanted(cents, "cent > 500") == "euro >= 5.000000000000001"
    assert wanted(cents, "cent = '5'") == "FALSE"
    assert wanted(cents, "cent <> '5'") == "euro EXISTS"
    assert wanted(cents, "cent IS NULL") == "euro IS NULL"
    assert wanted(cents, "euro = 5") == "FALSE"
    assert offered(cents, "euro BETWEEN 1 AND 5") == "cent BETWEEN 100 AND 500 AND euro IS NULL"
    assert offered(cents, "euro = 5 AND cent = 1") == "cent = 500 AND euro IS NULL"
    assert offered(cents, "euro = 'x'") == "FALSE"


@settings(max_examples=400)
@given(
    converts(wild=True),
    filters(names=("a",), kinds=(Kind.NUMBER,), wild=True, max_conjunctions=1),
    notifications(names=("a",), kinds=(Kind.NUMBER,), wild=True),
)
def test_no_rounding_loses_a_notification(step: Convert, filter: Filter, notification: Notification) -> None:
    one = mapping(Convert("a", step.factor, step.offset, None, step.divide))
    check_soundness(one, filter, notification)
    result = one.apply(notification)
    if result is None or "a" not in result or isinstance(result["a"], tuple):
        return
    (became,) = result.values()
    for text in (f"a = {became!r}", f"a >= {became!r}", f"a <= {became!r}", f"a IN ({became!r}, 0)"):
        assert one.wanted(Filter.parse(text)).matches(notification)
    (was,) = notification.values()
    for text in (f"a = {was!r}", f"a >= {was!r}", f"a <= {was!r}", f"a IN ({was!r}, 0)"):
        assert one.offered(Filter.parse(text)).matches(result)


@given(converts(), st.integers(-(10**9), 10**9) | st.floats(-1e9, 1e9))
def test_a_conversion_and_its_inverse_differ_by_rounding_only(step: Convert, number: int | float) -> None:
    inverse = step.inverse()
    there = step.image(number)
    assert there is not None
    back = inverse.image(there)  # type: ignore[attr-defined]
    assert back == pytest.approx(number, rel=1e-12, abs=1e-6)
    if type(number) is type(step.factor) is type(step.offset) is int and not step.divide:
        assert back == number
        assert type(back) is int


# What is refused.


@pytest.mark.parametrize(
    ("step", "problem"),
    [
        (lambda: Rename("a", "a"), "to itself"),
        (lambda: Rename("", "a"), "is not a name"),
        (lambda: Drop("abc"), "one text"),  # type: ignore[arg-type]
        (lambda: Convert("a", 0), "factor 0"),
        (lambda: Convert("a", float("nan")), "not a number"),
        (lambda: Convert("a", True), "not a number"),
        (lambda: Annotate("a", [1]), "is a list"),
        (lambda: Add("a", {"b": 1}), "not one value"),
        (lambda: Only(Filter.parse("a WITHIN myloc")), "myloc"),
        (lambda: Mapping((Add("a", 1),) * 65), "65 steps"),
        (edge_mapping, "neither direction"),
        (
            lambda: edge_mapping(mapping(Rename("b", "c"), Drop(("a",)))),
            r"Drop\(names=\('a',\)\).*inward=Mapping.BLOCK",
        ),
        (lambda: edge_mapping(inward=mapping(EVERYTHING)), r"Only.*outward=Mapping.BLOCK"),
    ],
)
def test_a_mapping_that_makes_no_sense_is_refused(step: object, problem: str) -> None:
    with pytest.raises(MappingError, match=problem):
        step()  # type: ignore[operator]


def test_a_value_that_no_notification_holds_is_refused() -> None:
    with pytest.raises(ValueRefused):
        Add("a", float("nan"))


@pytest.mark.parametrize(
    "value", [True, 1, 1.0, "it's", b"\x00\xff", datetime(2026, 1, 1, tzinfo=UTC), Location("/p/q"), [1, "a"], []]
)
def test_a_constant_of_every_kind_travels_in_msgpack_and_json(value: object) -> None:
    from tidings.scopes._constant import dec_hook, enc_hook

    one = mapping(Add("a", value))
    assert decode(encode(one), Mapping) == one
    text = msgspec.json.encode(one, enc_hook=enc_hook)
    assert msgspec.json.decode(text, type=Mapping, dec_hook=dec_hook) == one


def test_an_edge_mapping_travels() -> None:
    edge = edge_mapping(mapping(Rename("a", "b"), Filter.parse("b = 1")), Mapping.BLOCK)
    assert decode(encode(edge), EdgeMapping) == edge


@example("steps")
@given(st.text(max_size=5))
def test_a_constant_that_cannot_be_read_is_refused(text: str) -> None:
    data = msgspec.msgpack.encode({"steps": [{"step": "add", "name": "a", "constant": text + " OR x = 1"}]})
    with pytest.raises(MappingError):
        decode(data, Mapping)
