"""Where each key of a TOML file stands, so that a complaint can name the line.

The standard parser tells what is in a file, not where. This reads a text that the parser has accepted, and looks at
nothing but keys, headers and the ends of values.
"""

from __future__ import annotations

import re
from typing import TypeAlias

KeyPath: TypeAlias = tuple[str | int, ...]

_SPACE = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_VALUE_PART = re.compile(
    r'"""(?:\\.|[^\\])*?"""+'
    r"|'''.*?'''+"
    r'|"(?:\\.|[^"\\\n])*"'
    r"|'[^'\n]*'"
    r"|\#[^\n]*"
    r"|[\[{]|[\]}]|\n|[^\"'#\[\]{}\n]+",
    re.DOTALL,
)
_QUOTED = re.compile(r'"(?P<escaped>(?:\\.|[^"\\\n])*)"|\'(?P<literal>[^\'\n]*)\'')


def lines_of(text: str) -> dict[KeyPath, int]:
    """The line of every key and every table; a table of an array is named by its index, from 0.

    >>> lines_of('port = 1\\n[limits]\\ndrain = 2\\n[[access]]\\nname = "x"\\n')[("access", 0, "name")]
    5
    """
    return _Reader(text).read()


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._found: dict[KeyPath, int] = {}
        self._arrays: dict[KeyPath, int] = {}

    def read(self) -> dict[KeyPath, int]:
        prefix: KeyPath = ()
        while self._skip_space():
            line = self._text.count("\n", 0, self._at) + 1
            if self._text.startswith("[[", self._at):
                self._at += 2
                prefix = self._next_of_array(self._key())
                self._at = self._text.index("]]", self._at) + 2
            elif self._text.startswith("[", self._at):
                self._at += 1
                prefix = self._resolved((), self._key())
                self._at = self._text.index("]", self._at) + 1
            else:
                path = self._resolved(prefix, self._key())
                self._found.setdefault(path, line)
                self._at = self._text.index("=", self._at) + 1
                self._skip_value()
                continue
            self._found.setdefault(prefix, line)
        return self._found

    def _skip_space(self) -> bool:
        match = _SPACE.match(self._text, self._at)
        assert match is not None  # it also matches nothing
        self._at = match.end()
        return self._at < len(self._text)

    def _key(self) -> list[str]:
        parts = []
        while True:
            self._skip_space()
            if quoted := _QUOTED.match(self._text, self._at):
                parts.append(quoted["escaped"] if quoted["escaped"] is not None else quoted["literal"])
                self._at = quoted.end()
            elif bare := _BARE.match(self._text, self._at):
                parts.append(bare[0])
                self._at = bare.end()
            self._skip_space()
            if not self._text.startswith(".", self._at):
                return parts
            self._at += 1

    def _resolved(self, prefix: KeyPath, parts: list[str]) -> KeyPath:
        path = prefix
        for part in parts:
            path = (*path, part)
            if path in self._arrays:
                path = (*path, self._arrays[path])
        return path

    def _next_of_array(self, parts: list[str]) -> KeyPath:
        path = (*self._resolved((), parts[:-1]), parts[-1])
        self._arrays[path] = self._arrays.get(path, -1) + 1
        return (*path, self._arrays[path])

    def _skip_value(self) -> None:
        depth = 0
        while match := _VALUE_PART.match(self._text, self._at):
            self._at = match.end()
            if match[0] in ("[", "{"):
                depth += 1
            elif match[0] in ("]", "}"):
                depth -= 1
            elif match[0] == "\n" and depth == 0:
                return
