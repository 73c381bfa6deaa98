"""The filter language: what each form means, and what comes back from `str`."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import NAMES, constraints, filters, markers, notifications, scalars

from tidings.model import (
    EVERYTHING,
    NOTHING,
    Conjunction,
    Constraint,
    Filter,
    FilterSyntaxError,
    Kind,
    Location,
    Notification,
    Scalar,
    kind_of,
)
from tidings.model._language import parse
from tidings.model._names import KEYWORDS, quoted
from tidings.model._values import literal

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
NOTE = Notification(
    type="quote",
    symbol="SAP",
    price=182.4,
    size=100,
    urgent=True,
    raw=b"\x0a\xff",
    at=NOON,
    location=Location("/berlin/campus/b3"),
    tags=["tech", "dax"],
    venue={"city": "Frankfurt", "it's": 'a "b"'},
    note="100% _sure_",
)


@pytest.mark.req("VIS-107", "VIS-113")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("symbol = 'SAP'", True),
        ("symbol = 'sap'", False),
        ("symbol <> 'IBM'", True),
        ("symbol != 'IBM'", True),
        ("price > 182.4", False),
        ("price >= 182.4", True),
        ("price < 1.824e2", False),
        ("price <= +182.4", True),
        ("size = 100.0", True),
        ("size = '100'", False),
        ("-5 < size", True),
        ("100 >= size", True),
        ("99.5 > size", False),
        ("'SAP' = symbol", True),
        ("size BETWEEN 100 AND 200", True),
        ("size NOT BETWEEN 100 AND 200", False),
        ("symbol BETWEEN 'R' AND 'T'", True),
        ("symbol IN ('IBM', 'SAP')", True),
        ("symbol NOT IN ('IBM', 'SAP')", False),
        ("size IN (100)", True),
        ("symbol LIKE 'S_P'", True),
        ("symbol LIKE '%A%'", True),
        ("symbol NOT LIKE 'S%'", False),
        ("note LIKE '100!% %' ESCAPE '!'", True),
        ("note LIKE '100!%' ESCAPE '!'", False),
        (r"note LIKE '%\_' ESCAPE '\'", True),
        ("missing IS NULL", True),
        ("symbol IS NULL", False),
        ("symbol IS NOT NULL", True),
        ("symbol EXISTS", True),
        ("symbol NOT EXISTS", False),
        ("EXISTS(missing)", False),
        ("NOT EXISTS (missing)", True),
        ("urgent = TRUE", True),
        ("urgent = 1", False),
        ("raw = X'0AFF'", True),
        ("raw = x'0aff'", True),
        ("raw > X''", True),
        ("at = TIMESTAMP '2026-11-15T12:00:00Z'", True),
        ("at = timestamp'2026-11-15 13:00+01:00'", True),
        ("at < TIMESTAMP '2026-11-15T12:00:00.000001Z'", True),
        ("location = LOCATION '/berlin/campus/b3'", True),
        ("location WITHIN LOCATION '/berlin'", True),
        ("location WITHIN location '/berlin/campus/b3/'", True),
        ("location WITHIN LOCATION '/ber'", False),
        ("location NOT WITHIN LOCATION '/paris'", True),
        ("location WITHIN myloc", False),
        ("tags = 'dax'", True),
        ("tags <> 'dax'", False),
        ("tags NOT IN ('x', 'y')", True),
        ("tags > 'e' AND tags < 'e'", True),
        ("venue.city = 'Frankfurt'", True),
        ("\"venue.city\" = 'Frankfurt'", True),
        ('"venue.it\'s" = \'a "b"\'', True),
        ("TRUE", True),
        ("FALSE", False),
        ("NOT FALSE", True),
        ("\n\tsymbol\n=\r\n'SAP'  ", True),
        ("symbol='SAP'AND size=100", True),
        ("sYmBoL iS nUlL oR tRuE", True),
    ],
)
def test_a_text_means_what_sql_means(text: str, expected: bool) -> None:
    assert parse(text).matches(NOTE) is expected


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("a = 1 OR b = 2 AND c = 3", "a = 1 OR (b = 2 AND c = 3)"),
        ("NOT a = 1 AND b = 2", "(NOT a = 1) AND b = 2"),
        ("NOT a = 1 OR b = 2", "(NOT (a = 1)) OR b = 2"),
        ("a BETWEEN 1 AND 2 AND b = 3", "(a BETWEEN 1 AND 2) AND b = 3"),
        ("NOT a BETWEEN 1 AND 2 OR b = 3", "(a < 1 OR a > 2) OR b = 3"),
        ("NOT NOT a = 1", "a = 1"),
        ("NOT (a = 1 AND b = 2)", "a <> 1 OR b <> 2"),
        ("NOT (a = 1 OR b = 2)", "a <> 1 AND b <> 2"),
        ("NOT a EXISTS", "a IS NULL"),
        ("NOT a IS NULL", "a EXISTS"),
        ("NOT a > 5", "a <= 5"),
        ("5 <> a", "a <> 5"),
        ("(((a = 1)))", "a = 1"),
        ("a = 1 AND TRUE", "a = 1"),
        ("a = 1 OR FALSE", "a = 1"),
        ("a = 1 AND FALSE", "FALSE"),
    ],
)
def test_not_binds_tightest_then_and_then_or(text: str, same: str) -> None:
    assert parse(text) == parse(same)


def test_everything_and_nothing() -> None:
    assert parse("TRUE") == EVERYTHING
    assert parse("FALSE") == NOTHING
    assert str(EVERYTHING) == "TRUE"
    assert str(NOTHING) == "FALSE"


@pytest.mark.parametrize("word", ["timestamp", "location", "x", "X", "Location", "escape_", "null.x", "größe"])
def test_a_word_that_is_no_keyword_is_a_name(word: str) -> None:
    assert parse(f"{word} = 1").matches({word: 1})


@pytest.mark.parametrize("word", sorted(KEYWORDS))
def test_a_keyword_is_a_name_in_double_quotes(word: str) -> None:
    assert parse(f'"{word}" = 1').matches({word: 1})
    with pytest.raises(FilterSyntaxError):
        parse(f"{word} = 1")


# What three-valued logic says, by an evaluator that knows nothing of normal forms.


def _kleene(node: object, notification: Notification) -> bool | None:
    match node:
        case ("not", part):
            truth = _kleene(part, notification)
            return None if truth is None else not truth
        case ("and", left, right):
            both = {_kleene(left, notification), _kleene(right, notification)}
            return False if False in both else None if None in both else True
        case ("or", left, right):
            both = {_kleene(left, notification), _kleene(right, notification)}
            return True if True in both else None if None in both else False
    assert isinstance(node, Constraint)
    value = notification.get(node.name)
    if node.kind is None:
        return node.passes(value)
    if value is None or kind_of(value) is not node.kind:  # type: ignore[arg-type]
        return None
    return node.passes(value)


def _written(node: object) -> str:
    match node:
        case ("not", part):
            return f"NOT ({_written(part)})"
        case (word, left, right):
            return f"({_written(left)}) {word} ({_written(right)})"
    return str(node)


def _trees() -> st.SearchStrategy[object]:
    return st.recursive(
        constraints(NAMES[:2]),
        lambda part: st.tuples(st.just("not"), part) | st.tuples(st.sampled_from(["and", "or"]), part, part),
        max_leaves=6,
    )


def _flat_notes() -> st.SearchStrategy[Notification]:
    return st.dictionaries(st.sampled_from(NAMES[:2]), scalars()).map(Notification)


@given(_trees(), _flat_notes())
def test_not_and_or_follow_three_valued_logic(tree: object, notification: Notification) -> None:
    assert parse(_written(tree)).matches(notification) is (_kleene(tree, notification) is True)


@given(constraints(), notifications())
def test_on_lists_too_a_text_and_its_constraint_agree(constraint: Constraint, notification: Notification) -> None:
    passes = constraint.passes(notification.get(constraint.name))
    assert parse(str(constraint)).matches(notification) is passes


# Round trips.


@given(filters(wild=True), st.lists(notifications(), max_size=3))
def test_a_filter_printed_and_parsed_means_the_same(f: Filter, notes: list[Notification]) -> None:
    again = parse(str(f))
    assert [again.matches(note) for note in notes] == [f.matches(note) for note in notes]
    assert parse(str(again)) == again


@given(filters(wild=True))
def test_a_canonical_filter_printed_and_parsed_is_equal(f: Filter) -> None:
    canonical = f.canonical()
    assert parse(str(canonical)) == canonical


@given(markers())
def test_the_marker_survives_printing(constraint: Constraint) -> None:
    f = Filter([Conjunction([constraint])])
    assert parse(str(f)) == f
    assert parse(str(f)).has_marker


@given(scalars(wild=True))
def test_every_value_can_be_written_and_read(value: Scalar) -> None:
    f = parse(f"a = {literal(value)}")
    assert f.matches({"a": value})


@given(st.text(min_size=1, max_size=20))
def test_every_name_can_be_written_and_read(name: str) -> None:
    assert parse(f"{quoted(name)} = 1").matches({name: 1})


@given(scalars((Kind.NUMBER, Kind.TEXT)), st.sampled_from(["=", "<>", "<", "<=", ">", ">="]))
def test_the_constant_may_stand_first(value: Scalar, sign: str) -> None:
    flipped = sign.translate(str.maketrans("<>", "><")) if sign != "<>" else sign
    assert parse(f"{literal(value)} {sign} a") == parse(f"a {flipped} {literal(value)}")
