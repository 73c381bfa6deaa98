"""Who can be asked for the past: a cache, a store, an archive, another broker. The answer does not tell which it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from tidings.broker import Link
from tidings.model import ROOT_SCOPE, Filter, Position
from tidings.wire import Envelope

from ._order import position


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked of the past: the newest notifications that pass a filter, oldest first."""

    filter: Filter
    limit: int | None = None
    """At most so many, the newest; None: all."""
    since: int | None = None
    """Published at or after this time, in microseconds since 1970 UTC; None: whenever."""
    have: Mapping[str, Position] = field(default_factory=dict)
    """For each origin, the oldest (epoch, number) that is known already: only older ones are wanted."""
    exclude: Link | None = None
    """A link whose notifications are not wanted: whoever asks is behind it."""
    scope: str = ROOT_SCOPE

    def wants(self, envelope: Envelope) -> bool:
        """Whether this notification, which passes the filter, is new and recent enough."""
        identity = envelope.identity
        if self.since is not None and identity.published_at < self.since:
            return False
        known = self.have.get(identity.origin)
        return known is None or position(envelope) < known

    def is_satisfied(self, count: int) -> bool:
        """Whether so many notifications are all that is asked for."""
        return self.limit is not None and count >= self.limit


class HistoryProvider(Protocol):
    """A place where the past can be looked up."""

    def ask(self, question: Question, answer: Callable[[list[Envelope]], None]) -> None:
        """Call `answer` exactly once, now or in a later turn, with what is there; fewer than asked for is no error."""
        ...
