"""`LIKE`: the attribute is a text of this pattern; `%` stands for any text, `_` for one character.

The pattern is kept as a tuple of tokens: a string of literal characters, `ANY` for `%`, `ONE` for `_`.
Prefix, suffix and contains are patterns of a simple form; each is a class of its own, because each
matches and indexes faster than a general pattern. `like` chooses the class.

The relations of patterns are decided by their automata. The simple forms need none: a wildcard can
stand for characters that no operand contains, so a text that every match must have at its start, at its
end or somewhere has to stand in the pattern, in one piece.
"""

from __future__ import annotations

import enum
import functools
import re
from collections.abc import Callable, Iterator
from typing import TypeAlias

from tidings.model._automaton import NONE, UNDECIDED, Automaton, Pattern, Verdict, settled, walk
from tidings.model._constraint import Constraint
from tidings.model._effort import is_spent
from tidings.model._names import quoted
from tidings.model._values import Kind, Scalar, literal


class Wild(enum.Enum):
    """The two wildcards."""

    ANY = "%"
    ONE = "_"


ANY, ONE = Wild.ANY, Wild.ONE
Tokens: TypeAlias = tuple[str | Wild, ...]

MAX_PATTERN = 1_024
"""The most characters of a pattern that is compared with others; a longer one is only matched."""
CHEAP_PART = 32
"""The most characters of a part with `_` in it that cost nothing beside its wildcards."""


class Like(Constraint):
    """`name LIKE pattern`. Build it with `like`, which picks the simplest equal constraint."""

    __slots__ = ("name", "tokens")

    def __init__(self, name: str, tokens: Tokens) -> None:
        self.name = name
        self.tokens = tokens

    @property
    def kind(self) -> Kind:
        return Kind.TEXT

    def holds(self, scalar: Scalar) -> bool:
        """Whether the whole text fits the pattern."""
        return type(scalar) is str and _test(self.tokens)(scalar)

    @property
    def cost(self) -> int:
        """Every wildcard counts: a pattern is read with each of them at once.

        A part with `_` in it is compared at every place of the text, character by character, so a long one costs more.
        """
        parts = [part for part in _parts(self.tokens) if ONE in part]
        long = sum(max(0, sum(map(_length, part)) - CHEAP_PART) for part in parts)
        return 1 + sum(isinstance(token, Wild) for token in self.tokens) + long

    @property
    def expression(self) -> str:
        """A regular expression for the whole text, in which `.` stands for every character. It never looks back.

        >>> Like("x", ("a", ANY, "b", ANY)).expression
        'a(?>.*?b).*'
        """
        return _expression(self.tokens)

    def automaton(self) -> Automaton | None:
        return _automaton(self.tokens)

    def examples(self) -> Iterator[Scalar]:
        """The shortest match, and others with something in place of each `%`."""
        for filling in ("", "x", "y"):
            wild = {"%": filling, "_": "x"}
            yield "".join([wild[token.value] if isinstance(token, Wild) else token for token in self.tokens])

    def simplest(self) -> Constraint:
        """The simplest class for these tokens."""
        # The subclasses need this module first.
        from .pattern import from_tokens  # noqa: PLC0415

        return from_tokens(self.name, self.tokens)

    def includes(self, other: Constraint) -> bool:
        """Whether every text that fits the other fits this one."""
        if not isinstance(other, Like):
            return super().includes(other)
        if self.tokens == other.tokens:
            return True
        if not other.head.startswith(self.head) or not other.tail.endswith(self.tail):
            return False
        known = "\0".join([token for token in other.tokens if isinstance(token, str)])
        if is_spent() or not all(isinstance(token, Wild) or token in known for token in self.tokens):
            return False
        return _included(self.tokens, other.tokens)

    def meets(self, other: Constraint) -> bool:
        """Whether some text fits both."""
        if not isinstance(other, Like):
            return super().meets(other)
        head, other_head, tail, other_tail = self.head, other.head, self.tail, other.tail
        if not (head.startswith(other_head) or other_head.startswith(head)):
            return False
        if not (tail.endswith(other_tail) or other_tail.endswith(tail)):
            return False
        return (self._has_room and other._has_room) or super().meets(other)

    def hull(self, other: Constraint) -> Constraint | None:
        """What the two have in common at the start, or else at the end."""
        if (union := self.union(other)) is not None:
            return union
        if isinstance(other, Like):
            heads, tails = [self.head, other.head], [self.tail, other.tail]
        elif other.kind is Kind.TEXT and other.values:
            heads = [self.head, *map(str, other.values)]
            tails = [self.tail, *map(str, other.values)]
        else:
            return None
        if head := _shared(heads):
            return Like(self.name, (head, ANY)).simplest()
        if tail := _shared([tail[::-1] for tail in tails])[::-1]:
            return Like(self.name, (ANY, tail)).simplest()
        return None

    @property
    def head(self) -> str:
        """What every match starts with."""
        first = self.tokens[0] if self.tokens else ANY
        return first if isinstance(first, str) else ""

    @property
    def tail(self) -> str:
        """What every match ends with."""
        last = self.tokens[-1] if self.tokens else ANY
        return last if isinstance(last, str) else ""

    @property
    def _has_room(self) -> bool:
        """Whether anything may stand right behind the head and right before the tail."""
        inner = self.tokens[bool(self.head) : len(self.tokens) - bool(self.tail)]
        return bool(inner) and inner[0] is ANY is inner[-1]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Like) and self.name == other.name and self.tokens == other.tokens

    def __hash__(self) -> int:
        return hash((Like, self.name, self.tokens))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"

    def __str__(self) -> str:
        return f"{quoted(self.name)} LIKE {_pattern(self.tokens)}"

    def negated_text(self) -> str:
        return f"{quoted(self.name)} NOT LIKE {_pattern(self.tokens)}"


def _shared(texts: list[str]) -> str:
    """The longest text that all of them start with."""
    low, high = min(texts), max(texts)
    end = next((at for at, letter in enumerate(low) if high[at] != letter), len(low))
    return low[:end]


def _automaton(tokens: Tokens) -> Automaton | None:
    if sum(1 if isinstance(token, Wild) else len(token) for token in tokens) > MAX_PATTERN:
        return None
    steps: list[str | None] = []
    for token in tokens:
        steps.extend((None,) if token is ANY else ("",) if isinstance(token, Wild) else token)
    return Pattern(steps)


def _included(outer: Tokens, inner: Tokens) -> bool:
    """Whether every text of the one pattern is certain to be one of the other."""
    return not is_spent() and settled(*_compared(outer, inner)) is NONE


@functools.lru_cache(maxsize=4096)
def _compared(outer: Tokens, inner: Tokens) -> tuple[str | Verdict, int]:
    inside, outside = _automaton(inner), _automaton(outer)
    return (UNDECIDED, 0) if inside is None or outside is None else walk((inside,), (outside,))


@functools.lru_cache(maxsize=4096)
def _test(tokens: Tokens) -> Callable[[str], bool]:
    """Whether a text fits. Without `_`, in a time that grows with the text alone, however long the pattern is."""
    if ONE in tokens:
        fullmatch = re.compile(_expression(tokens), re.DOTALL).fullmatch
        return lambda text: fullmatch(text) is not None
    parts = ["".join([token for token in part if isinstance(token, str)]) for part in _parts(tokens)]
    if len(parts) == 1:
        return parts[0].__eq__
    head, *middle, tail = parts
    least = sum(map(len, parts))

    def fits(text: str) -> bool:
        if len(text) < least or not text.startswith(head) or not text.endswith(tail):
            return False
        at, end = len(head), len(text) - len(tail)
        for part in middle:
            found = text.find(part, at, end)
            if found < 0:
                return False
            at = found + len(part)
        return True

    return fits


def _parts(tokens: Tokens) -> list[list[str | Wild]]:
    """What stands before, between and behind the `%`."""
    parts: list[list[str | Wild]] = [[]]
    for token in tokens:
        if token is ANY:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def _length(token: str | Wild) -> int:
    return len(token) if isinstance(token, str) else 1


def _expression(tokens: Tokens) -> str:
    """The pattern as a regular expression that never looks back.

    What stands between two `%` is best found as early as possible, so each finding is final (`(?>...)`).
    With a plain `.*` for each `%`, one long text could keep a broker busy for hours.
    """
    parts = [""]
    for token in tokens:
        if token is ANY:
            parts.append("")
        else:
            parts[-1] += "." if isinstance(token, Wild) else re.escape(token)
    first, *middle = parts
    last = f".*{middle.pop()}" if middle else ""
    return "".join((first, *(f"(?>.*?{part})" for part in middle), last))


def _pattern(tokens: Tokens) -> str:
    special = any(isinstance(token, str) and ("%" in token or "_" in token) for token in tokens)
    text = "".join(
        token.value if isinstance(token, Wild) else (re.sub(r"([%_\\])", r"\\\1", token) if special else token)
        for token in tokens
    )
    return literal(text) + (r" ESCAPE '\'" if special else "")
