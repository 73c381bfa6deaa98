"""Remembering: what a publication reaches that asks for no quality.

Theory of operation
-------------------
A client that says nothing leaves the choice to its border broker, which alone knows whether there is a store and
whether that takes more. The choice is made once, when the publication gets its number: `stored` where there is a store
that takes it, else `accepted`. From there on nobody sees the difference to a publication that asked for just that,
except when the disk refuses it later: then the notification is out, and the acknowledgement says `accepted`.

A publication *falls* if there is a store and it does not take it. The first one begins an *episode*, of which whoever
runs the broker is told once. The episode ends when something is on disk that was published after the last one that
fell, or nothing waits for the disk any more: what was in a full queue before says nothing about now.

A publication that comes again is answered as the first time, as far as that is known: those that fell lately are
remembered, and where that is not enough, the less is said. Of what an earlier epoch took, only the last number of each
publisher is sure to be on disk.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tidings.broker._runtime import Log
from tidings.broker._statistics import Statistics
from tidings.wire import Quality

MAX_FALLEN = 10_000
"""How many of the latest publications that fell a broker remembers, for publishers that ask again.

After more than these, whatever comes again is answered as `accepted` until the broker is started anew.
"""

_ACCEPTED, _STORED = Quality.ACCEPTED, Quality.STORED


class Remembering:
    """Chooses for those who do not, and knows how well that goes."""

    def __init__(self, log: Log | None, statistics: Statistics, before: Mapping[str, int]) -> None:
        self._log = log
        self._statistics = statistics
        self._before = dict(before)
        """The last stored number of each publisher when this epoch began."""
        self._fallen: dict[tuple[str, int], None] = {}
        self._in_doubt = False
        """Whether more fell than is remembered: then nothing that came before is sure to be on disk."""
        self._latest = 0
        """The number of the latest publication that fell."""
        self.trouble = ""
        """Why publications fall; empty: they do not."""
        self.told: Callable[[str], None] = lambda trouble: None
        """Called when an episode begins, with the reason, and when it ends, with an empty one."""

    @property
    def takes(self) -> bool:
        """Whether there is a store that takes another publication now."""
        return self._log is not None and not self._log.full

    def choose(self, publisher: str, seq: int, number: int) -> Quality:
        """The quality of a publication that asks for none; it is about to get this number."""
        if self._log is None:
            return _ACCEPTED
        if self._log.full:
            self.fell(publisher, seq, number, "the queue of writes for its disk is full")
            return _ACCEPTED
        return _STORED

    def fell(self, publisher: str, seq: int, number: int, why: str) -> None:
        """The store has not taken a publication, which goes on as `accepted`."""
        self._statistics.unstored += 1
        self._latest = max(self._latest, number)
        self._fallen[publisher, seq] = None
        if len(self._fallen) > MAX_FALLEN:
            del self._fallen[next(iter(self._fallen))]
            self._in_doubt = True
        if not self.trouble:
            self.trouble = why
            self.told(why)

    def synced(self, number: int, *, all_of_it: bool) -> None:
        """Everything up to this number that the store has taken is on disk; perhaps all that it was ever given."""
        if self.trouble and (all_of_it or number > self._latest):
            self.trouble = ""
            self.told("")

    def reached(self, publisher: str, seq: int) -> Quality:
        """What is sure of a publication that came before, asked for no quality, and does not wait for the disk."""
        if self._log is None or self._in_doubt or (publisher, seq) in self._fallen:
            return _ACCEPTED
        return _STORED if seq >= self._before.get(publisher, 0) else _ACCEPTED
