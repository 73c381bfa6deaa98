"""From the syntax of a question to a definition. Calculations are walked through, never evaluated by Python."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tidings.aggregation.definitions import Aggregate, Attribute, Composite, Measured, Record

from ._functions import function_of
from ._parser import parse
from ._syntax import Calculation, Measure, Name, Negative, Number, Operand, Question


def compiled(question: str | Question) -> Aggregate[Any]:
    """The definition that a text means, or `ExpressionError`. Its name is the text as it is printed.

    >>> both = compiled("count(), p95(load) BY rack WINDOW 60s WHERE type = 'load'")
    >>> both.name, both.window.panes
    ("count(), p95(load) BY rack WINDOW 1m WHERE type = 'load'", 1)
    """
    asked = parse(question) if isinstance(question, str) else question
    parts = [_measured(measure, asked) for measure in asked.measures]
    return parts[0] if len(parts) == 1 else Composite(parts, name=str(asked))


def _measured(measure: Measure, asked: Question) -> Measured[Any]:
    function = function_of(measure.function)
    assert function is not None, measure.function  # the parser knows it
    operand = None if measure.operand is None else _operand(measure.operand)
    name = str(asked) if len(asked.measures) == 1 else str(measure)
    return function.make(operand, *measure.numbers, by=asked.by, where=asked.where, window=asked.window, name=name)


def _operand(operand: Operand) -> Attribute | Computed:
    return Attribute(operand.name) if isinstance(operand, Name) else Computed(operand)


@dataclass(frozen=True, slots=True)
class Computed:
    """The result of a calculation, as an operand; None where it has none: an attribute is missing or not a number,
    something is divided by 0, or the result is beyond the numbers that there are.
    """

    calculation: Operand

    def __call__(self, record: Record) -> int | float | None:
        try:
            return _value(self.calculation, record)
        except (ZeroDivisionError, OverflowError):
            return None


def _value(part: Operand, record: Record) -> int | float | None:
    match part:
        case Number(value):
            return value
        case Name(name):
            found = record.attrs.get(name)
            return found if type(found) is int or type(found) is float else None
        case Negative(inner):
            positive = _value(inner, record)
            return None if positive is None else -positive
        case Calculation(sign, left, right):
            a, b = _value(left, record), _value(right, record)
            if a is None or b is None:
                return None
            return a + b if sign == "+" else a - b if sign == "-" else a * b if sign == "*" else a / b
