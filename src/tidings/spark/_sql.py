"""From a filter to a condition in Spark's SQL that is true for exactly the rows whose notification passes.

Theory of operation
-------------------
The column `attributes` has an entry for each attribute and for each element of a list, with the value in the field of
its type (docs/archive.md). A constraint asks for *some* entry of its name, which is what it means for scalars and for
lists; its opposite asks that there is an entry of the name, that a scalar is of the kind, and that no entry passes.

Looking through a list is slow and tells Parquet nothing. So a constraint on a promoted column is a comparison with that
column: where it is *complete*, null means that the attribute is missing, and the comparison says it all. Elsewhere null
may hide a list or a value of another kind, and only then the list is looked at; beside it stands the weaker condition
"it compares, or is null", which Spark pushes down to the files.

All conditions are true or false, never null, so that they can be negated. Numbers are compared by value, exactly, as
brokers do: an integer column with an integer, a float column with a float, with the bounds moved where the two meet.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from tidings.model import Constraint, Filter, Kind, Location, Negated, Scalar, UnsupportedFilter
from tidings.model.operators import Contains, Exists, IsNull, Prefix, Range, Suffix, Within
from tidings.model.operators.like import Like
from tidings.store import Promoted, PromotedKind
from tidings.store.archive import VALUE_FIELDS

TRUE, FALSE = "TRUE", "FALSE"
ATTRIBUTES = "attributes"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LONGS = range(-(2**63), 2**63)
_PLAIN = re.compile(r"[A-Za-z0-9 _.,:;/@+%=-]*")
_FIELDS = {
    Kind.BOOLEAN: ("as_bool",),
    Kind.NUMBER: ("as_int", "as_float"),
    Kind.TEXT: ("as_text",),
    Kind.BYTES: ("as_bytes",),
    Kind.TIME: ("as_time",),
    Kind.PLACE: ("as_place",),
}


class Column(NamedTuple):
    """A promoted column of a table."""

    promoted: Promoted
    complete: bool
    """Whether null means that the attribute is missing, and nothing else."""


def sql(filter: Filter, columns: Mapping[str, Column] | None = None, attributes: str = ATTRIBUTES) -> str:
    """The condition, for a table with the column `attributes` and these promoted ones; the former may be an expression.

    >>> sql(Filter.parse("price IS NULL"))
    "NOT exists(attributes, x -> x.name = 'price')"
    >>> sql(Filter.parse("symbol = 'SAP'"), {"symbol": Column(Promoted("symbol"), True)})
    "(`symbol` IS NOT NULL AND `symbol` = 'SAP')"
    """
    if filter.has_marker:
        raise UnsupportedFilter(f"{filter} uses myloc, but a table has no place; name the place")
    known = columns or {}
    exact, weaker, slow = [], [], False
    for conjunction in filter.conjunctions:
        conditions = [_condition(constraint, known.get(constraint.name), attributes) for constraint in conjunction]
        exact.append(all_of([one.exact for one in conditions]))
        weaker.append(all_of([one.weaker for one in conditions]))
        slow = slow or any(one.exact != one.weaker for one in conditions)
    if not slow or TRUE in weaker:
        return any_of(exact)
    return f"({any_of(weaker)} AND {any_of(exact)})"


class _Condition(NamedTuple):
    exact: str
    weaker: str
    """What is true whenever the other is, and can be pushed down to files; TRUE if nothing is known."""


def all_of(parts: list[str]) -> str:
    """The condition that all of these hold."""
    useful = [part for part in parts if part != TRUE]
    if FALSE in useful:
        return FALSE
    return " AND ".join(useful) if useful else TRUE


def any_of(parts: list[str]) -> str:
    """The condition that one of these holds."""
    useful = [part for part in parts if part != FALSE]
    if TRUE in useful:
        return TRUE
    if len(useful) < 2:
        return useful[0] if useful else FALSE
    return "(" + " OR ".join(f"({part})" for part in useful) + ")"


def _condition(constraint: Constraint, column: Column | None, attributes: str) -> _Condition:
    if column is None:
        return _Condition(_in_list(constraint, attributes), TRUE)
    quoted = identifier(column.promoted.name)
    if isinstance(constraint, IsNull):
        exact = f"{quoted} IS NULL"
        return _Condition(exact if column.complete else f"({exact} AND {_in_list(constraint, attributes)})", exact)
    held = _held(constraint, column.promoted.kind, quoted)
    if column.complete:
        return _Condition(held, held)
    listed = _in_list(constraint, attributes)
    exact = f"({held} OR ({quoted} IS NULL AND {listed}))"
    return _Condition(exact, any_of([held, f"{quoted} IS NULL"]))


def _held(constraint: Constraint, kind: PromotedKind, quoted: str) -> str:
    """For a value that the column holds, which is a scalar of its kind."""
    there = f"{quoted} IS NOT NULL"
    if isinstance(constraint, Exists):
        return there
    field = VALUE_FIELDS[kind]
    inner = constraint.inner if isinstance(constraint, Negated) else constraint
    if inner.kind is not None and field not in _FIELDS[inner.kind]:
        return FALSE
    holds = all_of([_compare(one, field, quoted) for one in _parts(inner)])
    if inner is not constraint:
        holds = {TRUE: FALSE, FALSE: TRUE}.get(holds, f"NOT ({holds})")
    return FALSE if holds == FALSE else there if holds == TRUE else f"({there} AND {holds})"


def _in_list(constraint: Constraint, attributes: str) -> str:
    name = f"x.name = {text(constraint.name)}"
    if isinstance(constraint, Exists):
        return _exists(attributes, name)
    if isinstance(constraint, IsNull):
        return f"NOT {_exists(attributes, name)}"
    if not isinstance(constraint, Negated):
        return all_of([_entry(attributes, name, one) for one in _parts(constraint)])
    inner = constraint.inner
    fields = _FIELDS[inner.kind] if inner.kind is not None else ()
    scalar = " OR ".join(f"x.{field} IS NOT NULL" for field in fields) or TRUE
    compares = _exists(attributes, f"{name} AND (x.index IS NOT NULL OR {scalar})")
    passes = all_of([_within_and(_holds(one)) for one in _parts(inner)])
    return compares if passes == FALSE else f"({compares} AND NOT {_exists(attributes, f'{name} AND ({passes})')})"


def _exists(attributes: str, condition: str) -> str:
    return f"exists({attributes}, x -> {condition})"


def _entry(attributes: str, name: str, constraint: Constraint) -> str:
    holds = _holds(constraint)
    return FALSE if holds == FALSE else _exists(attributes, f"{name} AND ({holds})")


def _parts(constraint: Constraint) -> tuple[Constraint, ...]:
    """A range asks a list for each of its bounds; everything else asks once."""
    return constraint.wants if isinstance(constraint, Range) else (constraint,)


def _holds(constraint: Constraint) -> str:
    """For the value of an entry `x`, in whichever field it is."""
    assert constraint.kind is not None, "only EXISTS and IS NULL pass every kind"
    tests = []
    for field in _FIELDS[constraint.kind]:
        compared = _compare(constraint, field, f"x.{field}")
        if compared != FALSE:
            there = f"x.{field} IS NOT NULL"
            tests.append(there if compared == TRUE else f"({there} AND {compared})")
    return " OR ".join(tests) or FALSE


def _within_and(condition: str) -> str:
    return f"({condition})" if " OR " in condition else condition


def _compare(constraint: Constraint, field: str, value: str) -> str:
    """The operator on a value that is there, of one type."""
    if (values := constraint.values) is not None:
        return _among(values, field, value)
    match constraint:
        case Range():
            return _range(constraint, field, value)
        case Prefix():
            return f"startswith({value}, {text(constraint.text)})" if constraint.text else TRUE
        case Suffix():
            return f"endswith({value}, {text(constraint.text)})"
        case Contains():
            return f"contains({value}, {text(constraint.text)})"
        case Like():
            whole = rf"(?s)\A{constraint.expression}\z"
            return f"{value} RLIKE {text(whole)}"
        case Within(place=Location() as place):
            path = str(place)
            if path == "/":
                return TRUE
            return f"({value} = {text(path)} OR startswith({value}, {text(path + '/')}))"
    raise UnsupportedFilter(
        f"{constraint} has an operator of your own, which Spark does not know; filter with it before or after Spark"
    )


def _among(values: tuple[Scalar, ...], field: str, value: str) -> str:
    if field == "as_float":
        return any_of([_equal_float(one, value) for one in values])
    if field == "as_int":
        values = tuple(int(one) for one in values if one == math.floor(one) and int(one) in _LONGS)  # type: ignore[arg-type]
    operands = [literal(one) for one in values]
    if not operands:
        return FALSE
    return f"{value} = {operands[0]}" if len(operands) == 1 else f"{value} IN ({', '.join(operands)})"


def _equal_float(operand: Any, value: str) -> str:
    try:
        if float(operand) != operand:
            return FALSE
    except OverflowError:
        return FALSE
    if operand == 0:  # there are two zeros, and an index of a file may know only one of them
        return f"({value} >= -0.0D AND {value} <= 0.0D)"
    return f"{value} = {literal(float(operand))}"


def _range(constraint: Range, field: str, value: str) -> str:
    bounds = [("low", constraint.low, constraint.low_open), ("high", constraint.high, constraint.high_open)]
    move: Callable[[str, Any, bool], tuple[Any, bool]] = _MOVES.get(field, lambda side, bound, open: (bound, open))
    parts = []
    for side, given, given_open in bounds:
        if given is None:
            continue
        bound, open = move(side, given, given_open)
        if isinstance(bound, bool) and field != "as_bool":
            parts.append(TRUE if bound else FALSE)
            continue
        sign = (">" if side == "low" else "<") + ("" if open else "=")
        if bound == 0 and field == "as_float":
            parts.append(f"{value} {sign} {'-0.0D' if sign in ('>=', '<') else '0.0D'}")
        else:
            parts.append(f"{value} {sign} {literal(bound)}")
    return all_of(parts)


def _whole(side: str, bound: Any, open: bool) -> tuple[Any, bool]:
    """A bound for 64-bit integers; True and False if all of them, or none, are on the right side of it."""
    towards = math.floor if side == "low" else math.ceil
    whole = towards(bound)
    if whole in _LONGS:
        return whole, open or whole != bound
    return (bound < 0) is (side == "low"), open


def _float(side: str, bound: Any, open: bool) -> tuple[Any, bool]:
    """A bound for floats: an integer that is none lies between two of them."""
    near = float(bound)
    if near == bound:
        return near, open
    return near, (near < bound) if side == "low" else (near > bound)


_MOVES = {"as_int": _whole, "as_float": _float}


# --- literals -----------------------------------------------------------------------------------------


def literal(value: Scalar) -> str:
    """A value as Spark's SQL writes it."""
    match value:
        case bool():
            return "TRUE" if value else "FALSE"
        case int():
            return f"{value}L"
        case float():
            return f"{value!r}D"
        case str():
            return text(value)
        case bytes():
            return f"X'{value.hex()}'"
        case datetime():
            return f"timestamp_micros({(value - _EPOCH) // timedelta(microseconds=1)}L)"
        case _:
            return text(str(value))


def text(value: str) -> str:
    """A text; one with characters that might mean something else travels as bytes."""
    return f"'{value}'" if _PLAIN.fullmatch(value) else f"CAST(X'{value.encode().hex()}' AS STRING)"


def identifier(name: str) -> str:
    """The name of a column."""
    return "`" + name.replace("`", "``") + "`"
