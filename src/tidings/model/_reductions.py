"""What becomes of each rule of the grammar: a piece of an expression, or a refusal that points at a token."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import lark
from lark import Token

from ._constraint import Constraint
from ._errors import FilterError, ValueRefused
from ._expression import Expression, Joined, Nested, Test
from ._literals import attribute, constant, is_name, misfit, misfit_of
from ._location import MAX_DEPTH
from ._operator_words import OperatorFactory, operator_of
from ._remedies import unknown_operator
from ._tokens import shortened
from ._values import Scalar, kind_of
from .operators import Equal, Exists, IsNull, Member, MyLoc, Range, Within, like

_FLIPPED = {"=": "=", "<>": "<>", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_PUNCTUATION = frozenset({"LPAR", "RPAR", "COMMA"})


@lark.v_args(inline=True)
class Reductions(lark.Transformer[Token, Expression]):
    """The methods are named after the rules of the grammar, and take what stands in them."""

    def start(self, expression: Expression) -> Expression:
        return expression

    def disjunction(self, *parts: Expression) -> Expression:
        return parts[0] if len(parts) == 1 else Joined(False, parts[::2])

    def conjunction(self, *parts: Expression) -> Expression:
        return parts[0] if len(parts) == 1 else Joined(True, parts[::2])

    def negation(self, _not: Token, expression: Expression) -> Expression:
        return Nested(expression, positive=False)

    def group(self, _open: Token, expression: Expression, _close: Token) -> Expression:
        return Nested(expression)

    def bare(self, token: Token) -> Expression:
        if token.type in {"TRUE", "FALSE"}:
            return Joined(token.type == "TRUE")
        if is_name(token):
            shown = shortened(token)
            raise misfit(token, f"{shown} alone is not a condition", f"Write {shown} = TRUE, or {shown} EXISTS.")
        raise misfit(token, "a value alone is not a condition", "Compare it with an attribute: price > 20.")

    def comparison(self, left: Token, operator: Token, right: Token) -> Expression:
        sign = str(operator)
        if is_name(right) and not is_name(left):
            left, sign, right = right, _FLIPPED[sign], left
        if left.type == "NULL":
            constant(left)
        name, value = attribute(left, sign), constant(right)
        if sign in {"=", "<>", "!="}:
            return Test(Equal(name, value), sign == "=")
        if sign[0] == ">":
            return Test(_built(right, Range, name, low=value, low_open=sign == ">"))
        return Test(_built(right, Range, name, high=value, high_open=sign == "<"))

    def between(
        self, left: Token, negated: Token | None, word: Token, low: Token, _and: Token, high: Token
    ) -> Expression:
        name, least, most = attribute(left, word), constant(low), constant(high)
        _built(low, Range, name, least)
        return Test(_built(high, Range, name, least, most), negated is None)

    def membership(
        self, left: Token, negated: Token | None, word: Token, opened: Token, *rest: Token | None
    ) -> Expression:
        name, operands = attribute(left, word), _operands(rest)
        values = [constant(operand) for operand in operands]
        at = opened
        for operand, value in zip(operands, values, strict=True):
            if kind_of(value) is not kind_of(values[0]):
                at = operand
                break
        return Test(_built(at, Member, name, tuple(values)), negated is None)

    def like(
        self,
        left: Token,
        negated: Token | None,
        word: Token,
        pattern: Token,
        escape: Token | None,
    ) -> Expression:
        name = attribute(left, word)
        texts = [_text(token, word) for token in (pattern, escape) if token is not None]
        try:
            return Test(like(name, *texts), negated is None)
        except FilterError as error:
            remedy = "Escape with one character, and double it to mean itself: LIKE '5!% !!' ESCAPE '!'."
            raise misfit(escape or pattern, str(error), remedy) from None

    def escape(self, _word: Token, operand: Token) -> Token:
        return operand

    def levels(self, _open: Token, operand: Token, _close: Token) -> Token:
        return operand

    def null(self, left: Token, word: Token, negated: Token | None, null: Token) -> Expression:
        name = attribute(left, word)
        if null.type != "NULL":
            operator = "=" if negated is None else "<>"
            remedy = f"Write {shortened(left)} {operator} {shortened(null)}."
            raise misfit(null, "only NULL or NOT NULL may follow IS", remedy)
        return Test(IsNull(name) if negated is None else Exists(name))

    def existence(self, left: Token, negated: Token | None, word: Token) -> Expression:
        name = attribute(left, word)
        return Test(Exists(name) if negated is None else IsNull(name))

    def existence_of(self, word: Token, _open: Token, operand: Token, _close: Token) -> Expression:
        return Test(Exists(attribute(operand, word)))

    def within(
        self,
        left: Token,
        negated: Token | None,
        word: Token,
        place: Token,
        levels: Token | None,
    ) -> Expression:
        name = attribute(left, word)
        if place.type == "MYLOC":
            return Test(Within(name, MyLoc(_levels(levels))), negated is None)
        if levels is not None:
            raise misfit(levels, "only myloc takes a number of levels", "Write WITHIN myloc(2).")
        if place.type == "PLACE":
            return Test(_built(place, Within, name, constant(place)), negated is None)
        written = shortened(place)
        example = written if place.type == "TEXT" else "'/berlin'"
        raise misfit(place, f"{written} is not a place", f"Write WITHIN LOCATION {example}, or WITHIN myloc.")

    def extension(self, left: Token, negated: Token | None, word: Token, *rest: Token | None) -> Expression:
        factory = operator_of(word)
        if factory is None:
            raise unknown_operator(word)
        name, values = attribute(left, word), [constant(operand) for operand in _operands(rest)]
        return Test(_built(word, _extended, factory, name, values), negated is None)


def _built(at: Token, make: Callable[..., Constraint], *arguments: Any, **options: Any) -> Constraint:
    """A constraint by this constructor; what it refuses points at the token."""
    try:
        return make(*arguments, **options)
    except (FilterError, ValueRefused) as error:
        raise misfit_of(error, at) from None


def _operands(rest: tuple[Token | None, ...]) -> list[Token]:
    return [token for token in rest if token is not None and token.type not in _PUNCTUATION]


def _text(token: Token, word: Token) -> str:
    if token.type != "TEXT":
        remedy = "Write it in single quotes, % for any text and _ for one character: LIKE 'SA%'."
        raise misfit(token, f"{word} takes text, not {shortened(token)}", remedy)
    return str(constant(token))


def _levels(token: Token | None) -> int:
    if token is None:
        return 0
    if token.isdecimal() and len(token) <= len(str(MAX_DEPTH)) and int(token) <= MAX_DEPTH:
        return int(token)
    raise misfit(token, f"myloc goes up 0 to {MAX_DEPTH} levels, not {shortened(token)}", "Write WITHIN myloc(2).")


def _extended(factory: OperatorFactory, name: str, values: list[Scalar]) -> Constraint:
    """What a user's operator makes of its operands; its own complaints become `FilterError`."""
    try:
        constraint: object = factory(name, *values)
    except (FilterError, ValueRefused):
        raise
    except Exception as error:  # the factory is not ours, and a text must never do more than be refused
        raise FilterError(f"the operator refuses its operands ({error}); see its documentation") from error
    if isinstance(constraint, Constraint) and constraint.name == name:
        return constraint
    raise FilterError(f"the operator made {constraint!r:.60}; it must make a Constraint on '{name}'")
