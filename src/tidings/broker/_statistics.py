"""What a broker counts. Counters only grow; whoever wants rates takes differences."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field


@dataclass(slots=True)
class Statistics:
    """The counters of one broker."""

    received: defaultdict[type, int] = field(default_factory=lambda: defaultdict(int))
    """Frames received, by the type of their message."""
    sent: defaultdict[type, int] = field(default_factory=lambda: defaultdict(int))
    """Frames sent, by the type of their message."""
    stale_frames: int = 0
    """Frames of an old tree, dropped."""
    refused: int = 0
    """Messages that were refused, from clients and neighbours."""
    repeated_publications: int = 0
    """Publications that came again and were not published again."""
    crossings: int = 0
    """Copies that crossed into another scope here."""
    unjudged: int = 0
    """Notifications of a version of the scope graph that nobody remembers, not delivered."""
    unstored: int = 0
    """Publications that asked for no quality and went on as `accepted`, because the store did not take them."""
    border_refusals: Counter[str] = field(default_factory=Counter)
    """What the borders of scopes did not let pass, by the reason."""
    gaps: int = 0
    """Gaps that were reported to clients."""

    @property
    def messages_in(self) -> Counter[str]:
        """Frames received, by the name of their message's type."""
        return Counter({kind.__name__: count for kind, count in self.received.items()})

    @property
    def messages_out(self) -> Counter[str]:
        """Frames sent, by the name of their message's type."""
        return Counter({kind.__name__: count for kind, count in self.sent.items()})
