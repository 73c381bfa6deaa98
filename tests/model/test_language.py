"""The filter language: what each form means, what comes back from `str`, and what a mistake is told."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from strategies import KINDS, NAMES, SOAK, constraints, filters, markers, notifications, scalars

from tidings.model import (
    EVERYTHING,
    MAX_CONJUNCTIONS,
    MAX_CONSTRAINTS,
    MAX_FILTER_TEXT,
    NOTHING,
    Conjunction,
    Constraint,
    Filter,
    FilterError,
    FilterSyntaxError,
    FilterTooLarge,
    Kind,
    Location,
    Notification,
    Scalar,
    _operator_words,
    attr,
    kind_of,
    register_operator,
)
from tidings.model._expression import MAX_DEPTH
from tidings.model._language import _remembered, parse
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


# What a mistake is told: the text, the column, a part of the remedy.

MISTAKES = [
    ("", 1, "Write TRUE"),
    ("  \n ", 1, "Write TRUE"),
    ("price => 5", 7, "Write >="),
    ("price =< 5", 7, "Write <="),
    ("price == 5", 7, "Write ="),
    ("a = 1 && b = 2", 7, "Write AND"),
    ("a = 1 || b = 2", 7, "Write OR"),
    ("a = 1 | b = 2", 7, "Write OR"),
    ("!urgent", 1, "Write NOT"),
    ("price ~ 5", 7, "LIKE"),
    ("price =~ 'x'", 7, "LIKE"),
    ("price ≥ 5", 7, "Write >="),
    ('price > "100"', 9, "single quotes: '100'"),
    ("symbol = SAP", 10, "single quotes: 'SAP'"),
    ("symbol = SAP AG", 10, "single quotes: 'SAP"),
    ("symbol = 'SAP", 10, "Close the text"),
    ("symbol = 'it''s", 10, "Close the text"),
    ('"symbol = 5', 1, "Close the name"),
    ("symbol = ‘SAP’", 10, "straight quotes"),
    ("symbol = 'it's'", 14, "double a '"),
    ("(a = 1", 1, "Close it"),
    ("((a = 1) AND (b = 2)", 1, "Close it"),
    ("a IN (1, 2", 6, "Close it"),
    ("a = 1)", 6, "Remove it"),
    ("()", 2, "price > 20"),
    ("a = 1 b = 2", 7, "AND or OR"),
    ("a = 1 (b = 2)", 7, "AND or OR"),
    ("a = 1 AND", 10, "price > 20"),
    ("a = 1 OR OR b = 2", 10, "double quotes"),
    ("AND", 1, "double quotes"),
    ("a =", 4, "Write a number"),
    ("a = = 5", 5, "Write a number"),
    ("= 5", 1, "Begin with a name"),
    ("a = 1;", 6, "without a semicolon"),
    ("urgent", 1, "Write urgent = TRUE"),
    ("NOT urgent AND a = 1", 5, "Write urgent = TRUE"),
    ("5", 1, "price > 20"),
    ("'SAP' AND a = 1", 1, "price > 20"),
    ("5 < 7", 1, "on the left"),
    ("'price' > 5", 1, "double quotes: price"),
    ("5 LIKE 'a'", 1, "on the left of LIKE"),
    ("a = b", 5, "constant"),
    ("a < b", 5, "constant"),
    ("a = 1 + 2", 7, "do not calculate"),
    ("a * 2 = 4", 3, "do not calculate"),
    ("a -2 = 4", 3, "do not calculate"),
    ("building-3 = 4", 9, "double quotes"),
    ("1 < a < 5", 7, "1 < price AND price < 5"),
    ("price LIKE 5", 12, "single quotes"),
    ("price LIKE name", 12, "single quotes"),
    ("a LIKE 'x' ESCAPE 'xy'", 19, "one character"),
    ("a LIKE 'x!' ESCAPE '!'", 20, "double it"),
    ("a < TRUE", 5, "="),
    ("a > LOCATION '/x'", 5, "="),
    ("a BETWEEN TRUE AND 5", 11, "="),
    ("a BETWEEN 1 AND 'x'", 17, "one kind"),
    ("a BETWEEN 1", 12, "BETWEEN 1 AND 5"),
    ("a BETWEEN 1, 5", 12, "BETWEEN 1 AND 5"),
    ("a IN ()", 6, "at least one"),
    ("a IN (1, 'x', 2)", 10, "one IN per kind"),
    ("a IN 5", 6, "Write IN"),
    ("a IN (1 2)", 9, "Write IN (1, 2, 3)"),
    ("a IN (1, b)", 10, "constant"),
    ("a IN (1, )", 10, "Write a number"),
    ("a = NULL", 5, "IS NULL"),
    ("NULL <> a", 1, "IS NULL"),
    ("a IS 5", 6, "a = 5"),
    ("a IS NOT TRUE", 10, "a <> TRUE"),
    ("a IS", 5, "IS NULL"),
    ("a NOT = 5", 3, "NOT in front"),
    ("a CONTAINS 'x'", 3, "LIKE '%part%'"),
    ("a NOT CONTAINS", 7, "LIKE '%part%'"),
    ("a frobs 5", 3, "Operators are"),
    ("a b = 5", 3, "Operators are"),
    ("price 20", 7, "Operators are"),
    ("in = 5", 1, "double quotes"),
    ("EXISTS a", 8, "EXISTS (price)"),
    ("EXISTS (5)", 9, "on the left of EXISTS"),
    ("a = myloc", 5, "WITHIN myloc"),
    ("a WITHIN '/x'", 10, "LOCATION '/x'"),
    ("a WITHIN 5", 10, "LOCATION"),
    ("a WITHIN myloc(99)", 16, "myloc(2)"),
    ("a WITHIN myloc(-1)", 16, "myloc(2)"),
    ("a WITHIN LOCATION '/x'(2)", 24, "myloc(2)"),
    ("a WITHIN LOCATION '/x//y'", 10, "/berlin/campus"),
    ("a > TIMESTAMP '2026-11-15T12:00:00'", 5, "Add Z for UTC"),
    ("a > TIMESTAMP '2026-11-15'", 5, "Add Z for UTC"),
    ("a > TIMESTAMP 'noon'", 5, "TIMESTAMP '2026-"),
    ("a > TIMESTAMP '0001-01-01T00:00:00+14:00'", 5, ""),
    ("a = X'0AF'", 5, "two hexadecimal"),
    ("a = X'zz'", 5, "two hexadecimal"),
    ("a = 9223372036854775808", 5, "float or a string"),
    ("a = " + "9" * 5000, 5, "float"),
    ("a = 1e999", 5, "1.8e308"),
    ("a = 1.2.3", 5, "numbers look like"),
    ("a = 1_000", 5, "numbers look like"),
    ("2a = 1", 1, "double quotes"),
    ('"" = 1', 1, "not empty"),
    ('"' + "n" * 300 + '" = 1', 1, ""),
    ("a = :limit", 5, "build the filter in Python"),
    ("a = $5", 5, "double quotes"),
    ("a = '\ud800'", 5, "bytes"),
]


@pytest.mark.parametrize(("text", "column", "remedy"), MISTAKES)
def test_a_mistake_is_shown_with_its_column_and_a_remedy(text: str, column: int, remedy: str) -> None:
    with pytest.raises(FilterSyntaxError) as raised:
        parse(text)
    error = raised.value
    assert (error.column, error.text) == (column, text)
    assert remedy in error.remedy
    assert error.problem
    assert len(str(error)) < 600
    assert error.__cause__ is None
    assert error.__suppress_context__ or error.__context__ is None


def test_the_message_points_at_the_column() -> None:
    with pytest.raises(FilterSyntaxError) as raised:
        parse("type = 'quote' AND price => 5")
    assert str(raised.value) == (
        "=> is not an operator at column 26\n"
        "  type = 'quote' AND price => 5\n"
        "                           ^\n"
        "Write >= for 'greater or equal'."
    )


@pytest.mark.parametrize("text", [None, 5, b"a = 1", ["a = 1"]])
def test_only_text_is_parsed(text: object) -> None:
    with pytest.raises(FilterError, match="a filter's text is a string"):
        Filter.parse(text)  # type: ignore[arg-type]


# Limits.


@pytest.mark.parametrize("factors", [10, 40, 400])
def test_a_product_that_would_explode_is_refused_before_it_is_computed(factors: int) -> None:
    text = " AND ".join(f"(a{i} = 1 OR b{i} = 2)" for i in range(factors))
    with pytest.raises(FilterTooLarge, match="alternatives"):
        parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "NOT (" + " OR ".join(f"(a{i} = 1 AND b{i} = 2)" for i in range(40)) + ")",
        " AND ".join(f"a{i} NOT BETWEEN 1 AND 2" for i in range(40)),
        " OR ".join(f"a = {i}" for i in range(MAX_CONJUNCTIONS + 1)),
        " AND ".join(f"a{i}=1" for i in range(MAX_CONSTRAINTS + 1)),
        "(" * (MAX_DEPTH + 1) + "a = 1" + ")" * (MAX_DEPTH + 1),
        "NOT " * (MAX_DEPTH + 1) + "a = 1",
        "a = '" + "x" * MAX_FILTER_TEXT + "'",
    ],
)
def test_beyond_a_limit_is_too_large(text: str) -> None:
    with pytest.raises(FilterTooLarge, match=r"at most|deeper than"):
        parse(text)


@pytest.mark.parametrize(
    "text",
    [
        " OR ".join(f"a = {i}" for i in range(MAX_CONJUNCTIONS)),
        " AND ".join(f"a{i}=1" for i in range(MAX_CONSTRAINTS)),
        "(" * MAX_DEPTH + "a <> 1" + ")" * MAX_DEPTH,
        "NOT " * MAX_DEPTH + "a = 1",
        "a = 1" + " " * (MAX_FILTER_TEXT - 5),
        " OR ".join(["a = 1"] * (MAX_CONJUNCTIONS + 1)),
        " AND ".join(f"(a = {i} OR b = {i})" for i in range(7)),
    ],
)
def test_at_a_limit_is_accepted(text: str) -> None:
    assert parse(text).conjunctions


@pytest.mark.parametrize(
    "unit",
    ["(", ")", "NOT ", "'", '"', "''", "a", "1", "-", ".", "a.", "a=1 AND ", "a IN (", "X'", "TIMESTAMP '"],
)
def test_a_monotonous_text_is_refused_before_the_sun_goes_down(unit: str) -> None:
    text = (unit * MAX_FILTER_TEXT)[:MAX_FILTER_TEXT]
    with pytest.raises(FilterError):
        parse(text)


def test_a_filter_that_would_print_too_long_is_refused_where_it_is_made() -> None:
    long, other = "x" * (MAX_FILTER_TEXT // 2), "y" * (MAX_FILTER_TEXT // 2)
    with pytest.raises(FilterTooLarge, match="a text of"):
        attr.a == "x" * MAX_FILTER_TEXT  # noqa: B015
    with pytest.raises(FilterTooLarge, match="a text of"):
        (attr.a == long) | (attr.b == other)
    with pytest.raises(FilterTooLarge, match="a text of"):
        parse(f"a = '{long}' AND (b = 1 OR b = 2)")


def test_a_merger_that_could_not_travel_is_none() -> None:
    low = Filter.parse(f"a IN ({', '.join(map(str, range(10_000, 12_000)))})")
    high = Filter.parse(f"a IN ({', '.join(map(str, range(20_000, 22_000)))})")
    assert low.merge(high) is None
    assert parse("a IN (1, 2)").merge(parse("a IN (3, 4)")) == parse("a IN (1, 2, 3, 4)")


def test_the_memory_of_texts_is_bounded() -> None:
    for i in range(2_000):
        parse(f"a = {i}")
    info = _remembered.cache_info()
    assert info.maxsize is not None
    assert info.currsize <= info.maxsize


# Operators of one's own.


class Divisible(Constraint):
    __slots__ = ("by", "name")
    kind = Kind.NUMBER

    def __init__(self, name: str, by: int) -> None:
        if not isinstance(by, int) or by < 1:
            raise FilterError(f"'{name}': {by!r} divides nothing; use a positive integer")
        self.name = name
        self.by = by

    def holds(self, scalar: Scalar) -> bool:
        return type(scalar) is int and scalar % self.by == 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Divisible) and (self.name, self.by) == (other.name, other.by)

    def __hash__(self) -> int:
        return hash((self.name, self.by))

    def __str__(self) -> str:
        return f"{quoted(self.name)} DIVISIBLE_BY {self.by}"


@pytest.fixture
def divisible(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(_operator_words, "_FACTORIES", {})
    _remembered.cache_clear()
    register_operator("divisible_by", Divisible)
    register_operator("WEIRD", lambda name, *operands: operands)  # type: ignore[arg-type, return-value]
    yield
    _remembered.cache_clear()


@pytest.mark.req("VIS-107", "VIS-114")
@pytest.mark.usefixtures("divisible")
def test_a_registered_operator_is_part_of_the_language() -> None:
    f = parse("size DIVISIBLE_BY 4 AND NOT size divisible_by (100)")
    assert [size for size in (4, 6, 100, 104) if f.matches({"size": size})] == [4, 104]
    assert parse(str(f)) == f
    assert parse("divisible_by = 1").matches({"divisible_by": 1})


@pytest.mark.req("VIS-114")
@pytest.mark.usefixtures("divisible")
def test_an_operator_that_only_holds_gets_safe_relations() -> None:
    fours, sixes = parse("size DIVISIBLE_BY 4"), parse("size DIVISIBLE_BY 6")
    assert EVERYTHING.covers(fours)
    assert fours.covers(parse("size DIVISIBLE_BY 4 AND a = 1"))
    assert fours.covers(parse("size IN (8, 12)"))
    assert not fours.covers(parse("size IN (8, 13)"))
    assert not fours.covers(parse("size DIVISIBLE_BY 8"))  # it would, if somebody had told
    assert fours.overlaps(sixes)
    assert not fours.overlaps(parse("size = 6"))
    assert not fours.overlaps(parse("size = '4'"))
    assert fours.merge(sixes) is None
    assert parse(str(fours.canonical())).id == fours.id


@pytest.mark.usefixtures("divisible")
@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("size DIVISIBLE_BY 0", 6),
        ("size DIVISIBLE_BY (1, 2, 3)", 6),
        ("size DIVISIBLE_BY ()", 6),
        ("size DIVISIBLE_BY", 18),
        ("size WEIRD 3", 6),
    ],
)
def test_what_a_registered_operator_refuses_points_at_the_column(text: str, column: int) -> None:
    with pytest.raises(FilterSyntaxError) as raised:
        parse(text)
    assert raised.value.column == column


@pytest.mark.parametrize("word", ["AND", "like", "two words", "", "1ST", "a.b", "größer"])
def test_a_word_that_cannot_be_an_operator_is_refused(word: str) -> None:
    with pytest.raises(FilterError):
        register_operator(word, Divisible)


@pytest.mark.usefixtures("divisible")
def test_a_word_has_one_meaning() -> None:
    register_operator("DIVISIBLE_BY", Divisible)
    with pytest.raises(FilterError, match="exists"):
        register_operator("DIVISIBLE_BY", lambda name: Divisible(name, 2))


# Fuzzing: whatever the text, a filter or a `FilterError`.

_PIECES = [
    *sorted(KEYWORDS),
    *["=", "<>", "!=", "<", "<=", ">", ">=", "(", ")", ",", "'", '"', "''", "==", "&&", "*", "-", ".", ";"],
    *["a", "b.c", "in", '"q"', "5", "-2.5", "1e400", "'t'", "'%_'", "X'0A'", "X'0'", "LOCATION '/p'"],
    *["TIMESTAMP '2026-01-01T00:00:00Z'", "TIMESTAMP", "LOCATION", "X", "\x00", "é", "\ud800", "9" * 30],
]


def _refuses_politely(text: str) -> None:
    try:
        f = parse(text)
    except FilterError as error:
        refusal = error
    else:
        assert f.matches({"a": 1, "b.c": "t"}) in {True, False}
        assert parse(str(f)) == f
        return
    assert str(refusal)
    if isinstance(refusal, FilterSyntaxError):
        assert 1 <= refusal.column <= len(text) + 1
        assert refusal.problem
    else:
        assert isinstance(refusal, FilterTooLarge)


def _mutated(text: str, edits: list[tuple[int, str]]) -> str:
    for at, piece in edits:
        cut = at % (len(text) + 1)
        text = text[:cut] + piece + text[cut + (at % 3) :]
    return text


_ANY_TEXT = st.text(max_size=60)
_SOUP = st.lists(st.sampled_from(_PIECES), max_size=20).map(" ".join)
_TIGHT_SOUP = st.lists(st.sampled_from(_PIECES), max_size=20).map("".join)
_MUTANTS = st.builds(
    _mutated,
    filters(kinds=KINDS).map(str),
    st.lists(st.tuples(st.integers(0, 10_000), st.sampled_from(_PIECES) | st.just("")), min_size=1, max_size=3),
)


@settings(max_examples=300)
@example("\ud800")
@example("a = '\x00'")
@given(_ANY_TEXT | _SOUP | _TIGHT_SOUP)
def test_any_text_is_a_filter_or_refused_politely(text: str) -> None:
    _refuses_politely(text)


@settings(max_examples=300)
@given(_MUTANTS)
def test_a_damaged_filter_is_a_filter_or_refused_politely(text: str) -> None:
    _refuses_politely(text)


@pytest.mark.soak
@SOAK
@given(_ANY_TEXT | _SOUP | _TIGHT_SOUP | _MUTANTS)
def test_soak_any_text_is_a_filter_or_refused_politely(text: str) -> None:
    _refuses_politely(text)
