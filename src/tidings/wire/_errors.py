"""What is wrong with bytes that came from elsewhere."""

from __future__ import annotations

import msgspec

from tidings.model import WireError, shortened

__all__ = ["UNREADABLE", "WireError", "brief"]

UNREADABLE = (msgspec.MsgspecError, ValueError, RecursionError)
"""What a decoder raises for bytes that are not what they should be."""
SHOWN = 200
"""The most characters of a decoder's words that an error repeats: they quote what was sent, which may be megabytes."""


def brief(problem: object) -> str:
    """What a decoder says, short enough for a log and for an answer.

    >>> len(brief(ValueError("x" * 4_000_000)))
    200
    """
    return shortened(str(problem), SHOWN)
