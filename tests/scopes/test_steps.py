"""One step of a mapping after the other: what it does to notifications, and to filters that cross it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scopes.mapping_world import check_soundness, converts, offered, promises, wanted
from strategies import filters, notifications

from tidings.model import Filter, Kind, Location, MappingError, Notification
from tidings.scopes.mappings._mapping import edge_mapping, mapping
from tidings.scopes.steps import Add, Annotate, Compute, Convert, Drop, Keep, MappingFailed, Only, Rename


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
    assert str(border.inward.wanted(asked).canonical()) == (
        "(eur BETWEEN 80 AND 100 AND symbol = 'SAP' AND usd IS NULL) OR (symbol = 'SAP' AND usd BETWEEN 100 AND 125)"
    )


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
    assert wanted(cents, "cent = 500") == "(cent = 500 AND euro IS NULL) OR euro = 5"
    assert wanted(cents, "cent IN (500, 700)") == "(cent IN (500, 700) AND euro IS NULL) OR euro IN (5, 7)"
    assert wanted(cents, "cent <> 500") == "(cent <> 500 AND euro IS NULL) OR euro <> 5"
    above = ("euro > 5", "euro >= 5.000000000000001")
    assert wanted(cents, "cent > 500") in [f"(cent > 500 AND euro IS NULL) OR {one}" for one in above]
    assert wanted(cents, "cent = '5'") == "cent = '5' AND euro IS NULL"
    assert wanted(cents, "cent <> '5'") == "(cent <> '5' AND euro IS NULL) OR euro EXISTS"
    assert wanted(cents, "cent IS NULL") == "cent IS NULL AND euro IS NULL"
    assert wanted(cents, "euro = 5") == "FALSE"
    assert wanted(cents, "euro IS NULL AND b = 1") == "b = 1"
    assert offered(cents, "euro BETWEEN 1 AND 5") == "cent BETWEEN 100 AND 500 AND euro IS NULL"
    assert offered(cents, "euro = 5 AND cent = 1") == "cent = 500 AND euro IS NULL"
    assert offered(cents, "euro IS NULL AND cent = 1") == "cent = 1 AND euro IS NULL"
    assert offered(cents, "cent = 1") == "cent EXISTS AND euro IS NULL"
    assert offered(cents, "b = 1") == "b = 1 AND euro IS NULL"
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
        ("", "column 1: the end"),
        ("a +", "column 4: the end"),
        ("(a", r"write '\)'"),
        ("a b", "column 3: 'b'"),
        ("a ** 2", r"column 4: '\*'"),
        ("f(a)", r"column 2: '\('"),
        ("a; b", "column 2: ';'"),
        ("__import__('os')", "column 11: "),
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


def test_what_was_called_by_the_new_name_of_a_renaming_is_lost_unless_it_is_renamed_first() -> None:
    """Decision 95: after a renaming, the new name means one thing."""
    step = mapping(Rename("preis", "price"))
    assert step.apply(Notification(price=1, n=2)) == Notification(n=2)
    assert step.wanted(Filter.parse("price = 1")) == Filter.parse("preis = 1")
    kept = mapping(Rename("price", "list_price"), Rename("preis", "price"))
    assert kept.apply(Notification(price=1)) == Notification(list_price=1)
    assert kept.apply(Notification(price=1, preis=2)) == Notification(list_price=1, price=2)
    assert mapping(Convert("preis", 1, to="price")).apply(Notification(price=1)) == Notification(price=1)
