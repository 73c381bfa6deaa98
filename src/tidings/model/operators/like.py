"""`LIKE`: the attribute is a text of this pattern; `%` stands for any text, `_` for one character.

The pattern is kept as a tuple of tokens: a string of literal characters, `ANY` for `%`, `ONE` for `_`.
Prefix, suffix and contains are patterns of a simple form; each is a class of its own, because each
matches and indexes faster than a general pattern. `like` chooses the class.
"""

from __future__ import annotations

import enum
import functools
import re
from typing import TypeAlias

from .._constraint import Constraint
from .._names import quoted
from .._values import Kind, Scalar, literal


class Wild(enum.Enum):
    """The two wildcards."""

    ANY = "%"
    ONE = "_"


ANY, ONE = Wild.ANY, Wild.ONE
Tokens: TypeAlias = tuple[str | Wild, ...]


class Like(Constraint):
    """`name LIKE pattern`. Build it with `like`, which picks the simplest equal constraint."""

    __slots__ = ("name", "tokens")

    def __init__(self, name: str, tokens: Tokens) -> None:
        self.name = name
        self.tokens = tokens

    @property
    def kind(self) -> Kind:
        """Only text passes."""
        return Kind.TEXT

    def holds(self, scalar: Scalar) -> bool:
        """Whether the whole text fits the pattern."""
        return type(scalar) is str and _compiled(self.tokens).fullmatch(scalar) is not None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Like) and self.name == other.name and self.tokens == other.tokens

    def __hash__(self) -> int:
        return hash((Like, self.name, self.tokens))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"

    def __str__(self) -> str:
        return f"{quoted(self.name)} LIKE {_pattern(self.tokens)}"

    def negated_text(self) -> str:
        """`name NOT LIKE pattern`."""
        return f"{quoted(self.name)} NOT LIKE {_pattern(self.tokens)}"


@functools.lru_cache(maxsize=4096)
def _compiled(tokens: Tokens) -> re.Pattern[str]:
    parts = [re.escape(token) if isinstance(token, str) else (".*" if token is ANY else ".") for token in tokens]
    return re.compile("".join(parts), re.DOTALL)


def _pattern(tokens: Tokens) -> str:
    special = any(isinstance(token, str) and ("%" in token or "_" in token) for token in tokens)
    text = "".join(
        token.value if isinstance(token, Wild) else (re.sub(r"([%_\\])", r"\\\1", token) if special else token)
        for token in tokens
    )
    return literal(text) + (r" ESCAPE '\'" if special else "")
