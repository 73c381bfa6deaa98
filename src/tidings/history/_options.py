"""What can be set about history, with the defaults and the limits."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HistoryOptions:
    """How a broker answers subscriptions into the past. Times are in seconds, sizes in bytes."""

    strategy: str = "strict"
    """One of `STRATEGIES`."""
    timer: float = 10.0
    """How long a subscription waits for the past at most, if it does not say."""
    max_answer: int = 10_000
    """The most notifications from the past that one subscription gets."""
    max_answer_bytes: int = 16_777_216
    """The most bytes that these may have together."""
