"""Mappings: what notifications become at a border, and that no filter loses one on its way through it."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from scopes.mapping_world import FEW, converts, mappings, promises, questions, scalarised, steps
from strategies import SOAK_SLOWLY, filters, notifications

from tidings.model import (
    EVERYTHING,
    NOTHING,
    Conjunction,
    Filter,
    Kind,
    Location,
    MappingError,
    Notification,
    ValueRefused,
)
from tidings.scopes._mapping import AnyStep, EdgeMapping, Mapping, decode, edge_mapping, encode, mapping
from tidings.scopes.steps import (
    Add,
    Annotate,
    Compute,
    Convert,
    Drop,
    Form,
    How,
    Keep,
    MappingFailed,
    Named,
    Only,
    Pack,
    Rename,
    Represent,
    Unpack,
    register_mapping,
)

KINDS_OF_STEPS = sorted(steps())


some_notifications = notifications(names=FEW) | notifications(names=FEW, kinds=(Kind.NUMBER,))


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
@settings(max_examples=60)
@given(st.data())
def test_no_question_loses_a_notification_at_a_step(kind: str, data: st.DataObject) -> None:
    """Everything that can be asked about what goes out, and said about what comes in, one by one."""
    step, notification = data.draw(steps()[kind]), data.draw(some_notifications)
    if kind == "Only":  # one that passes
        passed = [one for one in questions(notification) if one.passes(notification.get(one.name))]
        step = Only(Filter([Conjunction(data.draw(st.lists(st.sampled_from(passed), min_size=1, max_size=4)))]))
    result = Mapping((step,)).apply(notification)
    if result is None:
        return
    for asked in questions(result):
        if asked.passes(result.get(asked.name)):
            assert step.wanted(Filter([Conjunction([asked])])).matches(notification), asked
    each = list(scalarised(notification))
    for said in questions(notification):
        filter = Filter([Conjunction([said])])
        if filter.matches(notification):
            assert step.offered(filter).matches(result), said
        if all(map(filter.matches, each)):
            assert promises(step.offered(filter), result), said


@pytest.mark.req("VIS-508")
@pytest.mark.parametrize("kind", KINDS_OF_STEPS)
@settings(max_examples=50)
@given(st.data())
def test_no_filter_loses_a_notification_at_a_step(kind: str, data: st.DataObject) -> None:
    wild = data.draw(st.booleans())
    one, filter = Mapping((data.draw(steps(wild=wild)[kind]),)), data.draw(filters(names=FEW, wild=wild))
    check_soundness(one, filter, data.draw(notifications(names=FEW, wild=wild)))


@pytest.mark.req("VIS-508")
@given(
    st.one_of(steps()["Pack"], st.builds(Represent, st.just("a"), st.sampled_from(How))),
    st.one_of(list(steps().values())),
    filters(names=FEW),
    some_notifications,
)
def test_no_filter_loses_a_notification_on_its_way_through_another_representation(
    first: AnyStep, then: AnyStep, filter: Filter, notification: Notification
) -> None:
    inverse = first.inverse()
    check_soundness(Mapping((first, inverse, then)), filter, notification)  # type: ignore[arg-type]
    check_soundness(Mapping((first, then, inverse)), filter, notification)  # type: ignore[arg-type]


@pytest.mark.req("VIS-508")
@settings(max_examples=300)
@given(mappings(), filters(names=FEW), some_notifications)
def test_no_filter_loses_a_notification_at_a_mapping(one: Mapping, filter: Filter, notification: Notification) -> None:
    check_soundness(one, filter, notification)


@pytest.mark.soak
@SOAK_SLOWLY
@given(
    st.booleans().flatmap(
        lambda wild: st.tuples(mappings(wild=wild), filters(names=FEW, wild=wild), notifications(names=FEW, wild=wild))
    )
)
def test_no_filter_loses_a_notification_at_a_mapping_for_long(drawn: tuple[Mapping, Filter, Notification]) -> None:
    check_soundness(*drawn)


@given(mappings(wild=True), notifications(names=FEW, wild=True))
def test_what_comes_out_is_a_notification_and_what_went_in_is_unchanged(
    one: Mapping, notification: Notification
) -> None:
    before = dict(notification)
    result = one.apply(notification)
    assert dict(notification) == before
    assert result is None or Notification(dict(result)) == result


@given(mappings(), mappings(), some_notifications)
def test_steps_are_applied_in_their_order(first: Mapping, second: Mapping, notification: Notification) -> None:
    between = first.apply(notification)
    expected = None if between is None else second.apply(between)
    assert Mapping(first.steps + second.steps).apply(notification) == expected


@given(mappings(wild=True))
def test_a_mapping_travels(one: Mapping) -> None:
    again = decode(encode(one), Mapping)
    assert str(again) == str(decode(encode(again), Mapping))
    assert [type(step) for step in again.steps] == [type(step) for step in one.steps]


@given(mappings(wild=True), notifications(names=FEW, wild=True))
def test_a_mapping_that_has_travelled_means_the_same(one: Mapping, notification: Notification) -> None:
    assert decode(encode(one), Mapping).apply(notification) == one.apply(notification)


@given(st.binary(max_size=60))
def test_bytes_that_are_no_mapping_are_refused(data: bytes) -> None:
    with pytest.raises(MappingError, match="not a"):
        decode(b"\x81\xa5steps" + data + b"\xc1", Mapping)


@given(mappings(), some_notifications)
def test_an_inverse_takes_back_what_the_mapping_did(one: Mapping, notification: Notification) -> None:
    inverse = one.inverse()
    assume(inverse is not None and not any(isinstance(step, Convert) for step in one.steps))
    # Where there was no document, Unpack did nothing, but its inverse packs: with steps before it, that is no way back.
    assume(len(one.steps) == 1 or not any(isinstance(step, Unpack) for step in one.steps))
    there = one.apply(notification)
    assert inverse is not None
    if there is not None:
        back = inverse.apply(there)
        again = None if back is None else one.apply(back)
        # A document of XML has no room for every text, and no document for more than 65,536 characters.
        assert again == there or (again is None and any(isinstance(step, Unpack) for step in one.steps))


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
    either = Filter.parse("a <> 1 OR a <> 2")
    pair = Notification(a=[1, 2])
    assert promises(either, pair)
    assert promises(mapping(Only(Filter.parse("a = 1 AND a = 2"))).offered(either), pair)


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


@pytest.mark.parametrize("start", [3 * 2**53, 3 * 2**60, -3 * 2**60])
@pytest.mark.parametrize("step", [Convert("a", 3, divide=True), Convert("a", 2.5), Convert("a", -2, 0.5)])
def test_a_conversion_keeps_the_order_of_large_integers(step: Convert, start: int) -> None:
    images = [step.image(number) for number in range(start, start + 100)]
    assert images == sorted(images, reverse=step.factor < 0)  # type: ignore[type-var]


# Arithmetic.


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("a + b * 2", 11),
        ("(a + b) * 2", 16),
        ("a - b - 1", 1),
        ("a / b / 2", 5 / 3 / 2),
        ("-a * -b", 15),
        ("a - -(b)", 8),
        ('"two words" * 1e2', 100.0),
        ("c.d + .5", 7.5),
        ("2 * a", 10),
    ],
)
def test_an_expression_means_what_arithmetic_says(expression: str, result: float) -> None:
    notification = Notification({"a": 5, "b": 3, "c.d": 7, "two words": 1})
    mapped = mapping(Compute("x", expression)).apply(notification)
    assert mapped is not None
    assert mapped["x"] == result


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("", "the end at column 1"),
        ("a +", "the end at column 4"),
        ("(a", r"write '\)'"),
        ("a b", "'b' at column 3"),
        ("a ** 2", r"'\*' at column 4"),
        ("f(a)", r"'\(' at column 2"),
        ("a; b", "';' at column 2"),
        ("__import__('os')", "at column 11"),
        ("2 * 3", "use Add"),
        ("a * 1e999", "larger than any float"),
        ("-" * 40 + "a", "at most 32 levels"),
        ("a" * 2000, "2,000 characters"),
    ],
)
def test_an_expression_that_cannot_be_read_is_refused(expression: str, problem: str) -> None:
    with pytest.raises(MappingError, match=problem):
        Compute("x", expression)


def test_a_computation_needs_its_operands() -> None:
    total = mapping(Compute("total", "price * size"))
    assert total.apply(Notification(price=2, size=3)) == Notification(price=2, size=3, total=6)
    assert total.apply(Notification(price=2, total="x")) == Notification(price=2, total="x")
    for price in ("2", True, [1, 2], 2**62):
        assert total.apply(Notification(price=price, size=3)) is None
    assert mapping(Compute("x", "1 / a")).apply(Notification(a=0)) is None
    assert wanted(Compute("x", "a * 2"), "x > 5 AND b = 1") == "(a EXISTS AND b = 1) OR (a IS NULL AND b = 1 AND x > 5)"
    assert wanted(Compute("a", "a * 2"), "a > 5") == "a EXISTS"
    assert wanted(Compute("a", "a * 2"), "a = 'x' OR a IS NULL") == "a IS NULL"
    assert offered(Compute("x", "a * 2"), "a > 5 AND x = 1") == "a > 5 AND x EXISTS"


# Other representations.

SAP = Notification(type="quote", symbol="SAP", price=182.4, at=datetime(2026, 1, 1, tzinfo=UTC), tags=["a", "<b>\r\n&"])


@pytest.mark.parametrize("form", list(Form))
@given(notifications(wild=True))
def test_a_document_gives_back_the_notification(form: Form, notification: Notification) -> None:
    there = mapping(Pack("body", form)).apply(notification)
    if there is None:
        assert form is Form.XML, "which has no place for control characters"
        return
    back = mapping(Unpack("body", form)).apply(there)
    assert back == notification
    assert back is not None
    in_order = Notification(dict(sorted(notification.items())))
    assert repr(back) == repr(in_order).replace(" fold=1,", ""), "1 comes back as 1, not as 1.0"


@pytest.mark.req("VIS-506", "VIS-509")
def test_xml_outside_is_binary_on_the_trading_floor() -> None:
    floor = edge_mapping(mapping(Unpack("fix", Form.BINARY), Pack("fixml", Form.XML, ("type",))))
    inside = mapping(Pack("fix", Form.BINARY)).apply(SAP)
    assert inside is not None
    assert isinstance(inside["fix"], bytes)
    outside = floor.outward.apply(inside)
    assert outside is not None
    assert str(outside["fixml"]).startswith('<notification><attribute name="at" kind="time">2026-01-01')
    assert set(outside) == {"type", "fixml"}
    assert floor.inward.apply(outside) == inside
    assert floor.outward.offered(Filter.parse("fix EXISTS")).matches(outside)
    assert floor.inward.wanted(Filter.parse("fix EXISTS")).matches(outside)


@pytest.mark.req("VIS-506", "VIS-509")
def test_xml_outside_is_ebcdic_on_the_mainframe() -> None:
    mainframe = edge_mapping(mapping(Represent("fixml", How.BYTES_TO_TEXT, "cp500")))
    outside = mapping(Pack("fixml", Form.XML)).apply(SAP)
    assert outside is not None
    inside = mainframe.inward.apply(outside)
    assert inside is not None
    assert bytes(inside["fixml"]).startswith("<notification".encode("cp500"))  # type: ignore[arg-type]
    assert mainframe.outward.apply(inside) == outside
    asked = Filter.parse("symbol = X'E2C1D7'")
    symbols = Represent("symbol", How.TEXT_TO_BYTES, "cp500")
    assert str(mapping(symbols).wanted(asked)) == "symbol = 'SAP'"


def test_what_has_no_other_representation_is_blocked() -> None:
    text, number = mapping(Represent("a", How.NUMBER_TO_TEXT)), mapping(Represent("a", How.TEXT_TO_NUMBER))
    assert text.apply(Notification(a=[1, 1.5])) == Notification(a=["1", "1.5"])
    assert number.apply(Notification(a=["007", "1.50", "-1e3"])) == Notification(a=[7, 1.5, -1000.0])
    for other in ("", "x", "1_0", "0x1", "1e999", " 1", "9" * 20, "nan", "٣", 5, True):
        assert number.apply(Notification(a=other)) is None
    assert mapping(Represent("a", How.TEXT_TO_BYTES, "ascii")).apply(Notification(a="ä")) is None
    assert mapping(Represent("a", How.BYTES_TO_TEXT)).apply(Notification(a=b"\xff")) is None
    assert wanted(Represent("a", How.NUMBER_TO_TEXT), "a IN ('5', 'x')") == "a = 5"
    assert wanted(Represent("a", How.NUMBER_TO_TEXT), "a <> '5'") == "a EXISTS", "5.0 is '5.0'"
    assert wanted(Represent("a", How.TEXT_TO_BYTES), "a <> X'61'") == "a <> 'a'"
    assert wanted(Represent("a", How.TEXT_TO_NUMBER), "a = 5") == "a EXISTS"
    assert offered(Represent("a", How.NUMBER_TO_TEXT), "a = 5") == "a IN ('5', '5.0')"


@pytest.mark.parametrize(
    ("form", "document"),
    [
        (Form.JSON, "[1]"),
        (Form.JSON, '{"a": NaN}'),
        (Form.JSON, '{"a": {"time": "noon"}}'),
        (Form.JSON, "[" * 5000),
        (Form.XML, "<notification>"),
        (Form.XML, '<!DOCTYPE x [<!ENTITY y "z">]><notification/>'),
        (Form.XML, "<other/>"),
        (Form.XML, '<notification><attribute name="a" kind="number">x</attribute></notification>'),
        (Form.XML, '<notification><attribute name="a">x</attribute></notification>'),
        (Form.XML, '<notification><attribute kind="text">x</attribute></notification>'),
        (Form.XML, '<notification><attribute name="a"><item kind="z"/></attribute></notification>'),
        (Form.BINARY, b"\xc1"),
        (Form.BINARY, b"\x81\xa1a\xd4\x05\x00"),
        (Form.JSON, 5),
    ],
)
def test_what_is_no_document_is_blocked(form: Form, document: object) -> None:
    with pytest.raises(MappingFailed):
        mapping(Unpack("a", form)).run(Notification(a=document))


def test_a_document_of_a_stranger_is_flattened() -> None:
    unpack = mapping(Unpack("a", Form.JSON))
    assert unpack.apply(Notification(a='{"b": {"c": 1, "d": null}, "e": null}')) == Notification({"b.c": 1})
    assert unpack.apply(Notification(b=1)) == Notification(b=1)


# Functions of one's own.


def test_a_function_that_is_not_registered_is_refused() -> None:
    one = decode(encode(mapping(Named("nobody's"))), Mapping)
    assert one.unknown == ("nobody's",)
    for use in (lambda: one.apply(SAP), lambda: one.wanted(EVERYTHING), one.inverse, lambda: edge_mapping(one, one)):
        with pytest.raises(MappingError, match=r"no mapping 'nobody's' is registered.*register_mapping"):
            use()


def test_a_function_that_fails_blocks_and_says_why() -> None:
    one = mapping(Named("break"))
    assert one.apply(Notification()) is None
    assert one.apply(Notification(a=1)) is None
    with pytest.raises(MappingFailed, match="the mapping 'break' failed: ZeroDivisionError"):
        one.run(Notification())


@pytest.mark.req("VIS-508")
def test_a_function_brings_its_filter_mappings_and_its_inverse() -> None:
    one = mapping(Named("swap a and b"))
    assert one.apply(Notification(a=1, c=2)) == Notification(b=1, c=2)
    assert one.inverse() == one
    assert str(one.wanted(Filter.parse("a = 1"))) == "b = 1"
    assert mapping(Named("count")).wanted(Filter.parse("a = 1")) == EVERYTHING
    assert mapping(Named("count")).wanted(NOTHING) == NOTHING
    register_mapping("bad filters", dict, wanted=lambda _: 1 / 0, offered=lambda _: None)  # type: ignore[arg-type, return-value]
    assert mapping(Named("bad filters")).wanted(Filter.parse("a = 1")) == EVERYTHING
    assert mapping(Named("bad filters")).offered(Filter.parse("a = 1")) == EVERYTHING
    with pytest.raises(MappingError, match="registered already"):
        register_mapping("count", dict)


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
        (lambda: Represent("a", How.TEXT_TO_BYTES, "idna"), "encoding 'idna'"),
        (lambda: Represent("a", "number"), "not known"),  # type: ignore[arg-type]
        (lambda: Pack("a", "json"), "not known"),  # type: ignore[arg-type]
        (lambda: Pack("a", Form.JSON, "b"), "list of names"),  # type: ignore[arg-type]
        (lambda: register_mapping("", dict), "cannot name"),
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
