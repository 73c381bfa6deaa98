"""The tables of the parser: made of `grammar.lark` by lark, kept in `tables.json`.

Making them takes longer than parsing any file, so they come with the package, and a test says that they are those of
the grammar. After a change of the grammar, `python -m tidings.scopes.language._tables` writes them anew.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import msgspec

END = "$END"
"""The token after the last one."""
_HERE = Path(__file__).parent


class Rule(msgspec.Struct, frozen=True, array_like=True):
    """What is reduced to what."""

    name: str
    length: int


class Tables(msgspec.Struct, frozen=True):
    """What an LALR(1) parser needs to know."""

    rules: list[Rule]
    end: int
    """The state after the last token; the one before the first is 0."""
    states: list[dict[str, int]]
    """For each state and symbol: the state that follows, or as a negative number the rule to reduce, -1 the first."""


def grammar() -> str:
    """The grammar, as a text."""
    return (_HERE / "grammar.lark").read_text(encoding="utf-8")


@functools.cache
def tables() -> Tables:
    """The tables that come with the package."""
    return msgspec.json.decode((_HERE / "tables.json").read_bytes(), type=Tables)


def built() -> Tables:
    """The tables of the grammar, made anew."""
    import lark  # noqa: PLC0415 - only whoever changes the grammar needs it
    from lark.parsers.lalr_analysis import Shift  # noqa: PLC0415

    made: Any = lark.Lark(grammar(), parser="lalr", keep_all_tokens=True, maybe_placeholders=False).parser
    table = made.parser._parse_table
    rules: dict[tuple[str, tuple[str, ...]], int] = {}
    numbers = {table.start_states["start"]: 0}  # as they are met from the start, so the same in every process
    states: list[dict[str, int]] = []
    for state in (queue := list(numbers)):
        states.append({})
        for symbol, (action, argument) in sorted(table.states[state].items()):
            if action is Shift:
                if argument not in numbers:
                    numbers[argument] = len(numbers)
                    queue.append(argument)
                states[-1][str(symbol)] = numbers[argument]
            else:
                rule = str(argument.origin.name), tuple(str(one.name) for one in argument.expansion)
                states[-1][str(symbol)] = -1 - rules.setdefault(rule, len(rules))
    listed = [Rule(name, len(expansion)) for name, expansion in rules]
    return Tables(listed, numbers[table.end_states["start"]], states)


if __name__ == "__main__":
    (_HERE / "tables.json").write_bytes(msgspec.json.encode(built()) + b"\n")
