"""Touching: whether a subscription concerns what a key stands for, by one rule for live counts and for history."""

from __future__ import annotations

from typing import TypeAlias

from tidings.model import Effort, Filter, Matches, Notification

PAIR_STEPS = 2_000
"""How many steps the comparison of a key with one subscription may take (about 1 ms); then it counts as touching."""

Key: TypeAlias = Filter | Notification
"""What is counted: who could hear something that passes a filter, or who would hear a probe."""


def touches(key: Key, wanted: Matches) -> bool:
    """Whether somebody who subscribes to this could hear of what a key stands for.

    >>> touches(Filter.parse("type = 'load'"), Filter.parse("rack = 'r1'"))
    True
    >>> touches(Filter.parse("type = 'load'"), Filter.parse("type = 'quote'"))
    False
    """
    if isinstance(key, Notification):
        return wanted.matches(key)
    if not isinstance(wanted, Filter):
        return True
    with Effort(PAIR_STEPS, apart=True):  # nobody's haste may show in a count
        return key.overlaps(wanted)
