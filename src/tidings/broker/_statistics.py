"""What a broker counts. Counters only grow; whoever wants rates takes differences."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class Statistics:
    """The counters of one broker."""

    messages_in: Counter[str] = field(default_factory=Counter)
    """Frames received, by the type of their message."""
    messages_out: Counter[str] = field(default_factory=Counter)
    """Frames sent, by the type of their message."""
    stale_frames: int = 0
    """Frames of an old tree, dropped."""
    refused: int = 0
    """Messages that were refused, from clients and neighbours."""
    repeated_publications: int = 0
    """Publications that came again and were not published again."""
    gaps: int = 0
    """Gaps that were reported to clients."""

    def received(self, message: object) -> None:
        """Count a frame that came in."""
        self.messages_in[type(message).__name__] += 1

    def sent(self, message: object) -> None:
        """Count a frame that went out."""
        self.messages_out[type(message).__name__] += 1
