"""The regular expressions after MATCHES, matched in time that is bounded whatever they are.

Theory of operation
-------------------
The expressions are those of `re` without what only a search with backtracking can do: references to groups, looking
around, atomic groups, flags and word boundaries. Such an expression becomes a nondeterministic automaton, and a text
is read through it once, with the set of all states that it may be in. So the time is at most the states times the
characters; `(a+)+` costs no more than `a+`. Steps that have been made are remembered.

`re` decides whether an expression is one, and what a single character or a class of them is.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable

from tidings.model import ScopeError

MAX_PATTERN = 1_000
"""The most characters of a regular expression after MATCHES."""
MAX_STATES = 5_000
"""The most states of its automaton: a count like {100} repeats what it counts."""
MAX_WORK = 20_000_000
"""The most steps, states times characters, that one match may take."""
MAX_STEPS_KEPT = 10_000
"""The most steps that are remembered for one expression."""

_CLASS = r"\[\^?\]?(?:\\.|[^\]\\])*+\]"
_ESCAPE = r"\\(?:x..|u.{4}|U.{8}|N\{[^}]*\}|.)"
_TOKEN = re.compile(
    rf"""
      (?P<GROUP> \((?:\?:|\?P<\w+>)?(?!\?) )
    | (?P<END> \) ) | (?P<OR> \| ) | (?P<FIRST> \^ ) | (?P<LAST> \$ )
    | (?P<COUNT> (?: [*+?] | \{{(?=[\d,])(?P<least>\d*)(?P<range>,(?P<most>\d*))?\}} ) (?P<how>[?+]?) )
    | (?P<ONE> {_CLASS} | {_ESCAPE} | [^(] )
    """,
    re.VERBOSE | re.DOTALL,
)
_REFUSED = re.compile(r"\\[0-9AbBZ]")
_COUNTS: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
_Build = Callable[[int], int]
"""Adds states behind one, and tells the last."""


@functools.lru_cache(maxsize=256)
def pattern(text: str) -> Pattern:
    """The pattern that an expression stands for, or `ScopeError`."""
    return Pattern(text)


class Pattern:
    """A regular expression that is matched with a whole text."""

    def __init__(self, text: str) -> None:
        if len(text) > MAX_PATTERN:
            raise ScopeError(f"a pattern of {len(text):,} characters; at most {MAX_PATTERN:,} are allowed")
        self._empty: list[list[int]] = []
        """For each state those that are reached without a character."""
        self._ends: list[list[int]] = []
        """The same at the end of the text only."""
        self._begins: list[list[int]] = []
        self._next: list[tuple[Callable[[str], object], int] | None] = []
        self._steps: dict[tuple[frozenset[int], str], frozenset[int]] = {}
        try:
            re.compile(text)
            first = self._state()
            self._last = _Parser(text, self).whole()(first)
        except re.error as error:
            raise ScopeError(f"this is no regular expression: {error}; correct it, or write LIKE") from None
        except RecursionError:
            raise ScopeError("this regular expression nests too deeply; write it with fewer brackets") from None
        self._first = self._closed([first], self._empty, self._begins)

    def matches(self, text: str) -> bool:
        """Whether the whole text is one that the expression describes; `ScopeError` if that takes too long."""
        if len(text) * len(self._next) > MAX_WORK:
            raise ScopeError(
                f"a text of {len(text):,} characters is too long for this regular expression; write a shorter one"
            )
        states = self._first
        for character in text:
            states = self._step(states, character)
            if not states:
                return False
        if not text:
            return self._last in self._closed(states, self._empty, self._begins, self._ends)
        return self._last in self._closed(states, self._empty, self._ends)

    def _step(self, states: frozenset[int], character: str) -> frozenset[int]:
        known = self._steps.get((states, character))
        if known is None:
            moves = [move for state in states if (move := self._next[state]) is not None]
            known = self._closed([target for test, target in moves if test(character)], self._empty)
            if len(self._steps) < MAX_STEPS_KEPT:
                self._steps[states, character] = known
        return known

    @staticmethod
    def _closed(states: Iterable[int], *ways: list[list[int]]) -> frozenset[int]:
        found = set(states)
        queue = list(found)
        while queue:
            state = queue.pop()
            for way in ways:
                more = [other for other in way[state] if other not in found]
                found.update(more)
                queue += more
        return frozenset(found)

    # --- building ---------------------------------------------------------------------------------------

    def _state(self) -> int:
        if len(self._next) >= MAX_STATES:
            raise ScopeError("this regular expression counts too far; write smaller numbers in its braces")
        self._next.append(None)
        for ways in (self._empty, self._ends, self._begins):
            ways.append([])
        return len(self._next) - 1

    def one(self, source: str) -> _Build:
        """A character that fits an expression for a single one."""
        test = re.compile(source).fullmatch

        def build(start: int) -> int:
            end = self._state()
            self._next[start] = (test, end)
            return self._gone(end)

        return build

    def _gone(self, state: int) -> int:
        """A fresh state behind one, so that each has at most one character to read."""
        end = self._state()
        self._empty[state].append(end)
        return end

    def only(self, *, last: bool) -> _Build:
        """Nothing, at the beginning or at the end."""

        def build(start: int) -> int:
            end = self._state()
            (self._ends if last else self._begins)[start].append(end)
            return end

        return build

    def sequence(self, parts: list[_Build]) -> _Build:
        """One after the other."""
        return lambda start: functools.reduce(lambda state, part: part(state), parts, start)

    def either(self, parts: list[_Build]) -> _Build:
        """One of several."""
        if len(parts) == 1:
            return parts[0]

        def build(start: int) -> int:
            lasts = [part(self._gone(start)) for part in parts]
            end = self._state()
            for last in lasts:
                self._empty[last].append(end)
            return end

        return build

    def repeated(self, part: _Build, least: int, most: int | None) -> _Build:
        """The same several times; `most` None: without a limit."""

        def build(start: int) -> int:
            state = start
            for _ in range(least):
                state = part(self._gone(state))
            if most is None:
                loop = self._gone(state)
                self._empty[part(self._gone(loop))].append(loop)
                return self._gone(loop)
            lasts = [state]
            for _ in range(most - least):
                lasts.append(part(self._gone(lasts[-1])))
            end = self._state()
            for last in lasts:
                self._empty[last].append(end)
            return end

        return build


class _Parser:
    """Reads an expression that `re` has found to be one."""

    def __init__(self, text: str, pattern: Pattern) -> None:
        self._text = text
        self._pattern = pattern
        self._at = 0

    def whole(self) -> _Build:
        """What stands up to the end, or to the end of a group."""
        choices: list[list[_Build]] = [[]]
        while self._at < len(self._text):
            token = _TOKEN.match(self._text, self._at)
            if token is None or _REFUSED.match(token.group()):
                shown = self._text[self._at : self._at + 4]
                raise ScopeError(
                    f"'{shown}' in a regular expression is not supported, because matching it may take for ever; "
                    "write it with groups, classes, | and repetitions alone"
                )
            self._at = token.end()
            match token.lastgroup:
                case "GROUP":
                    choices[-1].append(self.whole())
                case "END":
                    break
                case "OR":
                    choices.append([])
                case "FIRST" | "LAST":
                    choices[-1].append(self._pattern.only(last=token.lastgroup == "LAST"))
                case "COUNT":
                    self._count(choices[-1], token)
                case _:
                    choices[-1].append(self._pattern.one(token.group()))
        return self._pattern.either([self._pattern.sequence(parts) for parts in choices])

    def _count(self, parts: list[_Build], token: re.Match[str]) -> None:
        if token["how"] == "+":
            raise ScopeError(f"'{token.group()}' in a regular expression is not supported; leave out the last +")
        if (known := _COUNTS.get(token.group()[0])) is not None:
            least, most = known
        else:
            least = int(token["least"] or 0)
            most = least if token["range"] is None else int(token["most"]) if token["most"] else None
        parts[-1] = self._pattern.repeated(parts[-1], least, most)
