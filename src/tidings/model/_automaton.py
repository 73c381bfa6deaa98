"""Sets of texts as automata: is there a text in all of these sets and in none of those?

Theory of operation
-------------------
Every operator on texts can be read from left to right by a machine with few states: a pattern keeps the
set of positions it may have reached (the bits of an int), a bound keeps whether the text so far is
below, equal or above, a finite set keeps what it has read. `find` walks the product of such machines,
breadth first, until all of the `inside` accept and none of the `outside` does. That decides at once

    inclusion     P in the union of Q, D, ...   no text is inside P and outside Q, D, ...
    intersection  of P and Q                    a text is inside both; `find` shows a shortest one

Of the many characters only those count that some machine can tell apart: the ones in its operands, and
one for all the others. Where bounds take part, there is one for each gap between the operands'
characters, because a bound sees the order. So the walk is exact. It is also limited: beyond `MAX_STEPS`
the answer is `UNDECIDED`, and the caller says what is safe.
"""

from __future__ import annotations

import enum
import itertools
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, Final, Protocol

from ._effort import MAX_STEPS, afford

_SURROGATES = range(0xD800, 0xE000)
_END_OF_UNICODE = 0x110000
_FILLERS = "xyz*0123456789"


class Verdict(enum.Enum):
    """What `find` says when it has no text to show."""

    NONE = "there is no such text"
    UNDECIDED = "the walk was given up"


NONE: Final = Verdict.NONE
UNDECIDED: Final = Verdict.UNDECIDED


class Automaton(Protocol):
    """A set of texts, read character by character. Any: every machine has states of its own type."""

    letters: frozenset[str]
    """The characters that it tells from all others."""
    ordered: bool
    """Whether it tells apart what lies between its letters, too."""
    start: Any
    """The state before the first character."""

    def step(self, state: Any, letter: str) -> Any:
        """The state after one more character; None if nothing that goes on like this is accepted."""
        ...

    def accepts(self, state: Any) -> bool:
        """Whether the text read so far belongs to the set."""
        ...


class Pattern:
    """The texts of a pattern: a character stands for itself, `''` for any one, None for any number."""

    ordered = False

    def __init__(self, steps: Sequence[str | None]) -> None:
        self._any = sum(1 << at for at, step in enumerate(steps) if step is None)
        one = sum(1 << at for at, step in enumerate(steps) if step == "")
        masks: dict[str, int] = {}
        for at, step in enumerate(steps):
            if step:
                masks[step] = masks.get(step, one) | 1 << at
        self._one = one
        self._masks = masks
        self._end = 1 << len(steps)
        self.letters = frozenset(masks)
        self.start = self._closed(1)

    def _closed(self, positions: int) -> int:
        """The positions together with those behind any `%` that they are at, which may stand for nothing."""
        while (more := positions | (positions & self._any) << 1) != positions:
            positions = more
        return positions

    def step(self, state: int, letter: str) -> int | None:
        """Move every position that the letter fits."""
        moved = (state & self._masks.get(letter, self._one)) << 1
        return self._closed(moved | (state & self._any)) or None

    def accepts(self, state: int) -> bool:
        """Whether the end of the pattern has been reached."""
        return bool(state & self._end)


class Bounds:
    """The texts between two bounds; None is no bound. A state is a pair, one part for each bound.

    A part is the number of characters that the text and the bound share, or a side once they differ.
    """

    ordered = True
    _BELOW, _ABOVE = -2, -1

    def __init__(self, low: str | None, high: str | None, low_open: bool, high_open: bool) -> None:
        self._low, self._high = low, high
        self._low_open, self._high_open = low_open, high_open
        self.letters = frozenset((low or "") + (high or ""))
        self.start = (0, 0)

    def step(self, state: tuple[int, int], letter: str) -> tuple[int, int] | None:
        """Compare one more character with each bound."""
        low = self._compare(self._low, state[0], letter, self._ABOVE)
        high = self._compare(self._high, state[1], letter, self._BELOW)
        return None if low == self._BELOW or high == self._ABOVE else (low, high)

    def _compare(self, bound: str | None, at: int, letter: str, free: int) -> int:
        if bound is None:
            return free
        if at < 0:
            return at
        if at == len(bound) or letter > bound[at]:
            return self._ABOVE
        return self._BELOW if letter < bound[at] else at + 1

    def accepts(self, state: tuple[int, int]) -> bool:
        """Whether the text is above the one bound and below the other."""
        low, high = state
        above = self._low is None or low == self._ABOVE or (low == len(self._low) and not self._low_open)
        if self._high is None or not above:
            return above
        return high == self._BELOW or (0 <= high < len(self._high)) or (high >= 0 and not self._high_open)


class Words:
    """Finitely many texts. A state is how much has been read, and the words that go on from there."""

    ordered = False

    def __init__(self, words: Iterable[str]) -> None:
        self.start = (0, tuple(sorted(words)))
        self.letters = frozenset("".join(self.start[1]))

    def step(self, state: tuple[int, tuple[str, ...]], letter: str) -> tuple[int, tuple[str, ...]] | None:
        """Keep the words that have this letter next."""
        read, words = state
        left = tuple(word for word in words if word[read : read + 1] == letter)
        return (read + 1, left) if left else None

    def accepts(self, state: tuple[int, tuple[str, ...]]) -> bool:
        """Whether a whole word has been read."""
        read, words = state
        return any(len(word) == read for word in words)


def find(inside: Sequence[Automaton], outside: Sequence[Automaton] = ()) -> str | Verdict:
    """A shortest text that all of `inside` accept and none of `outside`; else a verdict."""
    return settled(*walk(inside, outside))


def settled(found: str | Verdict, steps: int) -> str | Verdict:
    """What a walk has found, if this operation can afford its steps."""
    return found if afford(steps) else UNDECIDED


def walk(inside: Sequence[Automaton], outside: Sequence[Automaton] = ()) -> tuple[str | Verdict, int]:
    """As `find`, with the number of steps that it took, which nobody has paid for yet."""
    machines = (*inside, *outside)
    if sum(len(machine.letters) for machine in machines) > MAX_STEPS:
        return UNDECIDED, 0
    letters = _alphabet(machines)
    required = len(inside)
    start = tuple(machine.start for machine in machines)
    queue = deque([(start, "")])
    seen = {start}
    steps = 0
    while queue:
        states, text = queue.popleft()
        if _is_wanted(machines, states, required):
            return text, steps
        for letter in letters:
            steps += len(machines)
            moved = tuple(
                None if state is None else machine.step(state, letter)
                for machine, state in zip(machines, states, strict=True)
            )
            if moved in seen or None in moved[:required]:
                continue
            if steps > MAX_STEPS:
                return UNDECIDED, steps
            seen.add(moved)
            queue.append((moved, text + letter))
    return NONE, steps


def _is_wanted(machines: Sequence[Automaton], states: Sequence[Any], required: int) -> bool:
    return all(
        (state is not None and machine.accepts(state)) is (at < required)
        for at, (machine, state) in enumerate(zip(machines, states, strict=True))
    )


def _alphabet(machines: Sequence[Automaton]) -> list[str]:
    """A character of every class that the machines tell apart, in a fixed order."""
    letters = sorted(frozenset[str]().union(*(machine.letters for machine in machines)))
    if not any(machine.ordered for machine in machines):
        return [*letters, _filler(letters)]
    alphabet: list[str] = []
    free = 0
    for letter in letters:
        alphabet += _between(free, ord(letter))
        alphabet.append(letter)
        free = ord(letter) + 1
    return alphabet + _between(free, _END_OF_UNICODE)


def _between(first: int, end: int) -> list[str]:
    """One character from this gap, if there is one. Surrogates are not characters."""
    if first in _SURROGATES:
        first = _SURROGATES.stop
    if first >= end:
        return []
    # A letter that can be printed, where the gap has one: a witness may be read by people.
    readable = next((letter for letter in "amz09" if first <= ord(letter) < end), None)
    return [readable or chr(first)]


def _filler(letters: list[str]) -> str:
    """A character that no machine knows."""
    known = frozenset(letters)
    return next(letter for letter in itertools.chain(_FILLERS, map(chr, range(0xD800))) if letter not in known)
