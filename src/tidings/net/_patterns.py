"""Patterns of names: `*` stands for any characters, also none and also `/`; everything else for itself."""

from __future__ import annotations

from collections import deque

ANY = "*"


def matches(pattern: str, name: str) -> bool:
    """Whether a name is one of those that a pattern stands for.

    >>> matches("feed-*", "feed-7"), matches("feed-*", "Feed-7"), matches("*/pc", "alice/pc")
    (True, False, True)
    """
    first, *rest = pattern.split(ANY)
    if not rest:
        return name == pattern
    *middle, last = rest
    at, end = len(first), len(name) - len(last)
    if at > end or not name.startswith(first) or not name.endswith(last):
        return False
    for text in middle:
        found = name.find(text, at, end)
        if found < 0:
            return False
        at = found + len(text)
    return True


def common_name(one: str, two: str) -> str | None:
    """A name that both patterns stand for, one of the shortest; None: there is none.

    >>> common_name("feed-*", "*-eu"), common_name("feed-*", "food-*")
    ('feed-eu', None)
    """
    if ANY not in one:
        return one if matches(two, one) else None
    if ANY not in two:
        return two if matches(one, two) else None
    # Each state is how far both patterns have been read; those reached with fewer characters come first.
    end = (len(one), len(two))
    names: dict[tuple[int, int], str] = {}
    states: deque[tuple[tuple[int, int], str]] = deque([((0, 0), "")])
    while states:
        (i, j), name = states.popleft()
        if (i, j) in names:
            continue
        names[i, j] = name
        if (i, j) == end:
            return name
        first, second = one[i : i + 1], two[j : j + 1]
        if first == ANY:
            states.appendleft(((i + 1, j), name))
        if second == ANY:
            states.appendleft(((i, j + 1), name))
        if first == ANY and second not in ("", ANY):
            states.append(((i, j + 1), name + second))
        elif second == ANY and first not in ("", ANY):
            states.append(((i + 1, j), name + first))
        elif first == second != ANY and first:
            states.append(((i + 1, j + 1), name + first))
    return None


def fixed_start(pattern: str) -> str:
    """What every name begins with that a pattern stands for."""
    return pattern.partition(ANY)[0]
