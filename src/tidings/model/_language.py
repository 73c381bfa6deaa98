"""The filter language: the WHERE dialect of SQL-92 that JMS, RabbitMQ streams and Spark speak.

Theory of operation
-------------------
Text becomes tokens (`_tokens`), tokens become an expression by the grammar below, in an LALR parser
that lark builds once, and the expression becomes a filter (`_expression`). The grammar is laxer than
the language on purpose: it reads `5 < 'a'`, `price = NULL` and `price LIKE 5` as what they look like,
so that `_reductions`, where a rule becomes a piece of the expression, can say what is wrong with them
and where. What even the lax grammar cannot read is explained by `_remedies`.

`docs/filters.md` is the contract of the language.
"""

from __future__ import annotations

import functools
from typing import Any

import lark
from lark import Token

from ._errors import FilterError, FilterSyntaxError, FilterTooLarge
from ._expression import Expression, filter_of
from ._filter import Filter
from ._limits import checked_length
from ._plain_texts import plain_filter
from ._reductions import Reductions
from ._remedies import unexpected
from ._subject_texts import subject_misfit
from ._tokens import END, Misfit, least_cost, tokens

_CACHED_TEXTS = 1_024
"""How many texts are remembered with their filters."""
_CACHED_LENGTH = 1_024
"""The longest text that is remembered: many clients send the same short ones."""

_GRAMMAR = """
start: disjunction
disjunction: conjunction (OR conjunction)*
conjunction: factor (AND factor)*
?factor: condition
       | NOT factor                                               -> negation

?condition: LPAR disjunction RPAR                                 -> group
          | operand                                               -> bare
          | operand COMPARISON operand                            -> comparison
          | operand [NOT] BETWEEN operand AND operand             -> between
          | operand [NOT] IN LPAR [_operands] RPAR                -> membership
          | operand [NOT] LIKE operand [escape]                   -> like
          | operand IS [NOT] operand                              -> null
          | operand [NOT] EXISTS                                  -> existence
          | EXISTS LPAR operand RPAR                              -> existence_of
          | operand [NOT] WITHIN operand [levels]                 -> within
          | operand [NOT] NAME operand                            -> extension
          | operand [NOT] NAME LPAR [_operands] RPAR              -> extension

_operands: operand (COMMA operand)*
escape: ESCAPE operand
levels: LPAR operand RPAR
?operand: NAME | QUOTED | NUMBER | TEXT | BYTES | TIME | PLACE | TRUE | FALSE | NULL | MYLOC

%declare OR AND NOT BETWEEN IN LIKE ESCAPE IS EXISTS WITHIN NULL MYLOC TRUE FALSE
%declare NAME QUOTED NUMBER TEXT BYTES TIME PLACE COMPARISON LPAR RPAR COMMA
"""


def parse(text: str, *, most: int | None = None) -> Filter:
    """The filter that a text means, or `FilterSyntaxError`, which points at the column.

    >>> parse("type = 'quote' AND NOT price > 20")
    Filter.parse("price <= 20 AND type = 'quote'")
    """
    if not isinstance(text, str):
        raise FilterError(f'a filter\'s text is a string, not {type(text).__name__}; write "price > 20"')
    checked_length(len(text))
    if most is not None and len(text) > most and (cost := least_cost(text)) > most:
        raise FilterTooLarge(
            f"the filter, as it is written, costs at least {cost:,}, counting its comparisons, its wildcards and every "
            f"fourth value of an IN; at most {most:,} are taken: use several subscriptions"
        )
    return _remembered(text) if len(text) <= _CACHED_LENGTH else _parsed(text)


def _parsed(text: str) -> Filter:
    if (plain := plain_filter(text)) is not None:
        return plain
    return _parsed_by_grammar(text)


def _parsed_by_grammar(text: str) -> Filter:
    try:
        return filter_of(_expression(text))
    except Misfit as misfit:
        error = subject_misfit(text) or misfit
        raise FilterSyntaxError(error.problem, text, error.at + 1, error.remedy) from None


_remembered = functools.lru_cache(maxsize=_CACHED_TEXTS)(_parsed)


def _expression(text: str) -> Expression:
    parser = _parser().parse_interactive()
    read: list[Token] = []
    expression: Any = None
    for token in tokens(text):
        if token.type == END and not read:
            raise Misfit("the filter is empty", 0, "Write TRUE to receive everything.")
        try:
            expression = parser.feed_token(token)
        except lark.UnexpectedToken:
            raise unexpected(read, token, frozenset(parser.accepts())) from None  # type: ignore[no-untyped-call]
        read.append(token)
    return expression  # type: ignore[no-any-return]


@functools.cache
def _parser() -> lark.Lark:
    return lark.Lark(_GRAMMAR, parser="lalr", transformer=Reductions(), maybe_placeholders=True)
