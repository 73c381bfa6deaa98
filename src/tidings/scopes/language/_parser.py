"""From a text to its syntax tree.

Theory of operation
-------------------
A table-driven parser of the class LALR(1): a stack of states, and for each state and token the next state or the rule
that ends here. lark makes the tables (`_tables`); walking them takes twenty lines, does not recurse, and takes linear
time. Where a rule ends, `_reductions` makes a node of what it consists of. Each statement is parsed for itself, so
one mistake is found in each.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from ._mistakes import Misfit, Mistake, ScriptError, Source
from ._reductions import REDUCTIONS
from ._remedies import unexpected
from ._syntax import Clause, Script, Statement
from ._tables import END, tables
from ._tokens import Token, statements
from ._tokens import tokens as tokens_of


def parse(text: str, name: str = "") -> Script:
    """The script that a text means, or `ScriptError` with everything that is wrong; `name` is that of the file.

    >>> parse("DEFINE SCOPE example AS ALL FROM prod1, prod2").statements[0].selections[0].sources
    (Name(name='prod1'), Name(name='prod2'))
    """
    script, mistakes = parsed(Source(text, name))
    if mistakes:
        raise ScriptError(mistakes)
    return script


def parsed(source: Source) -> tuple[Script, list[Mistake]]:
    """What can be read of a text, and what is wrong with the rest."""
    found: list[Statement] = []
    mistakes: list[Mistake] = []
    try:
        tokens = tokens_of(source.text)
    except Misfit as misfit:
        return Script(()), [source.mistake(misfit)]
    for statement in statements(tokens):
        try:
            found.append(_statement(statement))
        except Misfit as misfit:
            mistakes.append(source.mistake(misfit))
    return Script(tuple(found), tuple(tokens[-1].comments)), mistakes


class _Spliced(list[Any]):
    """What a rule without a node of its own consists of."""


def _statement(tokens: list[Token]) -> Statement:
    table = tables()
    states, rules = table.states, table.rules
    stack, values, firsts = [0], [], []
    end = Token(END, "", tokens[-1].end)
    for index, token in enumerate((*tokens, end)):
        while True:
            action = states[stack[-1]].get(token.type)
            if action is None:
                raise unexpected(tokens[:index], token, _expected(stack))
            if action >= 0:
                stack.append(action)
                values.append(token)
                firsts.append(index)
                break
            rule = rules[-1 - action]
            count = rule.length
            first = firsts[-count] if count else index
            value = _reduced(rule.name, values[len(values) - count :], tokens, first, index - 1)
            if count:
                del stack[-count:], values[-count:], firsts[-count:]
            stack.append(states[stack[-1]][rule.name])
            values.append(value)
            firsts.append(first)
            if token is end and stack[-1] == table.end:
                return _commented(value, tokens)
    raise AssertionError("the tables have no end")


def _reduced(name: str, values: list[Any], tokens: list[Token], first: int, last: int) -> Any:
    if name.startswith("_") and values and isinstance(values[0], _Spliced):  # a list that grows, item by item
        children, values = values[0], values[1:]
    else:
        children = _Spliced()
    for value in values:
        if isinstance(value, _Spliced):
            children += value
        else:
            children.append(value)
    if name.startswith("_"):
        return children
    node = REDUCTIONS[name](children, tokens[first].at)
    if isinstance(node, Clause):
        object.__setattr__(node, "span", (first, last))
    return node


def _expected(stack: list[int]) -> set[str]:
    """The tokens that would fit: those that are shifted in the end, if what can be reduced is."""
    table = tables()
    return {symbol for symbol in table.states[stack[-1]] if symbol.isupper() and _fits(symbol, list(stack))} | (
        {END} if END in table.states[stack[-1]] and _fits(END, list(stack)) else set()
    )


def _fits(symbol: str, stack: list[int]) -> bool:
    table = tables()
    while (action := table.states[stack[-1]].get(symbol)) is not None:
        if action >= 0:
            return True
        rule = table.rules[-1 - action]
        if rule.length:
            del stack[-rule.length :]
        stack.append(table.states[stack[-1]][rule.name])
        if symbol == END and stack[-1] == table.end:
            return True
    return False


def _commented(statement: Statement, tokens: list[Token]) -> Statement:
    """The same with its comments: each belongs to the clause that it stands in, before or behind."""
    clauses = [*statement.selections, *statement.features, *_architecture(statement)]
    owner: dict[int, Clause] = {}
    for clause in clauses:
        for index in range(clause.span[0], clause.span[1] + 1):
            owner[index] = clause
    comments: dict[int, list[str]] = {}
    notes: dict[int, str] = {}
    for index, token in enumerate(tokens):
        of = id(owner.get(index, statement))
        comments.setdefault(of, []).extend(token.comments)
        if token.note:
            last = index == owner[index].span[1] if index in owner else _is_head(index, tokens, owner)
            if last and of not in notes:
                notes[of] = token.note
            else:
                comments[of].append(token.note)
    if not any(comments.values()) and not notes:
        return statement

    def noted(clause: Any) -> Any:
        return dataclasses.replace(clause, comments=tuple(comments.get(id(clause), ())), note=notes.get(id(clause), ""))

    parts: dict[str, Any] = {
        "selections": tuple(map(noted, statement.selections)),
        "features": tuple(map(noted, statement.features)),
    }
    if _architecture(statement):
        parts["architecture"] = noted(_architecture(statement)[0])
    return dataclasses.replace(noted(statement), **parts)  # type: ignore[no-any-return]


def _architecture(statement: Any) -> list[Any]:
    return [statement.architecture] if hasattr(statement, "architecture") else []


def _is_head(index: int, tokens: list[Token], owner: dict[int, Clause]) -> bool:
    """Whether this is the last token before the clauses of a statement begin."""
    return index + 1 == len(tokens) or index + 1 in owner
