"""What is wrong with a text that is not TOML, in plain words: what stands there, and what would be right."""

from __future__ import annotations

import re
import tomllib
from typing import NamedTuple

_PLACE = re.compile(r"^(?P<told>.*?) \(at (?:line (?P<line>\d+), column (?P<column>\d+)|end of document)\)$", re.DOTALL)
_WORDS: list[tuple[str, str, str]] = [
    ("Invalid value", "{there} is not a value", "put texts in double quotes; numbers, true and false have none"),
    ("Expected newline", "{there} does not belong after the value", "write one `key = value` per line"),
    ("Expected '='", "there is no = after the key", "write `key = value`"),
    ("Expected ']'", "the name of a table is not closed", "write [limits], and its keys below"),
    ("Expected ']]'", "the name of a list of tables is not closed", "write [[access]], and its keys below"),
    ("Unterminated string", "a text is not closed", 'close it with "'),
    ('Expected "', "a text is not closed", "close it with the quotes that it begins with"),
    ("Cannot overwrite a value", "a key appears twice", "keep one of them"),
    ("Duplicate inline table key", "a key appears twice", "keep one of them"),
    ("Cannot declare", "a table appears twice", "keep one of them, with all its keys"),
    ("Unescaped '\\'", "a \\ in a text means nothing here", "write \\\\, or put the text into single quotes"),
    ("Unclosed", "a list or table is not closed", "close it with ] or }}"),
    ("Invalid statement", "{there} cannot begin a line", "write `key = value`, or a table like [limits]"),
    ("Illegal character '\\n'", "a text is not closed", 'close it with "'),
    ("Illegal character", "there is a character that cannot be printed", "remove it"),
]
_OTHERWISE = "put texts in quotes, and one `key = value` on each line; see https://toml.io"


class Mistake(NamedTuple):
    """What is wrong, where, and what would be right."""

    line: int
    problem: str
    remedy: str


def mistake(text: str, error: tomllib.TOMLDecodeError) -> Mistake:
    """What the parser has found.

    >>> try:
    ...     tomllib.loads("name = berlin")
    ... except tomllib.TOMLDecodeError as error:
    ...     print(mistake("name = berlin", error).problem)
    'berlin' is not a value
    """
    found = _PLACE.match(str(error))
    told = found["told"] if found else str(error)
    lines = text.rstrip().split("\n")
    line = int(found["line"]) if found and found["line"] else len(lines)
    column = int(found["column"]) if found and found["column"] else len(lines[-1]) + 1
    there = lines[line - 1][column - 1 :].strip() if line <= len(lines) else ""
    shown = f"'{there[:40]}'" if there else "the end of the line"
    for beginning, problem, remedy in _WORDS:
        if told.startswith(beginning):
            return Mistake(line, problem.format(there=shown), remedy)
    return Mistake(line, f"column {column}: {told[:1].lower()}{told[1:]}", _OTHERWISE)
