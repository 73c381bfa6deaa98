"""A backlog: notifications that are kept back from outlets, because something else has to reach these first.

A hold keeps back what its past must precede (`_holds`). A debt keeps back what earlier notifications of its origin must
precede (`_suspension`), once for all outlets that are owed the same: what is kept is a reference to the notification,
and one to the group of its outlets, which consecutive notifications share.

What somebody else publishes makes a backlog grow, so it has a limit, and there is one rule at it: the oldest is
forgotten, and its origin asked for it. The backlog says from which origins something was forgotten, and up to where.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from tidings.broker.interest import Registration
from tidings.model import Position
from tidings.wire import Envelope

MAX_KEPT = 10_000
"""The most notifications in one backlog."""
MAX_KEPT_BYTES = 16_777_216
"""The most bytes that their bodies may have together."""
MAX_GROUPS = 64
"""The most groups of outlets that are recognised when they come again."""

Group = tuple[Registration, ...]


class Kept(NamedTuple):
    """A notification, in one form, and the outlets from which it is kept back."""

    envelope: Envelope
    outlets: Group

    @property
    def position(self) -> Position:
        """Where it is in what its origin has published."""
        return position_of(self.envelope)


def position_of(envelope: Envelope) -> Position:
    """Where a notification is in what its origin has published."""
    return envelope.identity.position


class Backlog:
    """What is kept back, in the order in which it came."""

    __slots__ = ("_bytes", "_envelopes", "_groups", "_known", "_open", "forgotten")

    def __init__(self) -> None:
        self._envelopes: deque[Envelope] = deque()
        self._groups: deque[Group] = deque()
        """For each notification, its outlets; those of the last one are in `_open`, because there may be more."""
        self._open: list[Registration] = []
        self._known: dict[Group, Group] = {}
        self._bytes = 0
        self.forgotten: dict[str, Position] = {}
        """By origin, the last that had to be forgotten."""

    def __len__(self) -> int:
        return len(self._envelopes)

    def __iter__(self) -> Iterator[Kept]:
        self._close()
        return map(Kept, self._envelopes, self._groups)

    def keep(self, envelope: Envelope, outlets: Iterable[Registration] = ()) -> None:
        """Keep a notification back from outlets; none need be named if the backlog is one outlet's own."""
        if self._envelopes and self._envelopes[-1] is envelope:
            self._open += outlets  # it comes to each client by itself
            return
        self._close()
        self._envelopes.append(envelope)
        self._groups.append(())
        self._open = list(outlets)
        self._bytes += len(envelope.body)
        while len(self._envelopes) > MAX_KEPT or self._bytes > MAX_KEPT_BYTES:
            self._forget_oldest()

    def take(self, ready: Callable[[Kept], bool]) -> list[Kept]:
        """What is ready, and kept no longer."""
        taken: list[Kept] = []
        left: list[Kept] = []
        for kept in self:
            (taken if ready(kept) else left).append(kept)
        self._envelopes = deque(kept.envelope for kept in left)
        self._groups = deque(kept.outlets for kept in left)
        self._open = list(left[-1].outlets) if left else []
        self._bytes -= sum(len(kept.envelope.body) for kept in taken)
        return taken

    def replace(self, old: Registration, new: Registration) -> None:
        """Keep back from one outlet what was kept back from another."""
        self._close()
        changed: dict[Group, Group] = {}
        for group in self._groups:
            if group not in changed:
                changed[group] = tuple(new if outlet is old else outlet for outlet in group)
        self._groups = deque(changed[group] for group in self._groups)
        self._open = list(self._groups[-1]) if self._groups else []
        self._known.clear()

    def release(self, outlet: Registration) -> list[Envelope]:
        """Keep nothing back from one outlet any more; what was."""
        released: list[Envelope] = []
        changed: dict[Group, Group] = {}
        left: list[Kept] = []
        for envelope, group in self:
            if outlet not in group:
                left.append(Kept(envelope, group))
                continue
            released.append(envelope)
            if group not in changed:
                changed[group] = tuple(one for one in group if one is not outlet)
            if changed[group]:
                left.append(Kept(envelope, changed[group]))
            else:
                self._bytes -= len(envelope.body)
        self._envelopes = deque(kept.envelope for kept in left)
        self._groups = deque(kept.outlets for kept in left)
        self._open = list(left[-1].outlets) if left else []
        self._known.clear()
        return released

    def clear(self) -> None:
        """Nothing is kept, and nothing was forgotten."""
        for kept in (self._envelopes, self._groups, self._open, self._known, self.forgotten):
            kept.clear()
        self._bytes = 0

    def _forget_oldest(self) -> None:
        """Forget an event, in all its forms."""
        identity = self._envelopes[0].identity
        while self._envelopes and self._envelopes[0].identity == identity:
            self._bytes -= len(self._envelopes.popleft().body)
            self._groups.popleft()
        position = identity.position
        self.forgotten[identity.origin] = max(position, self.forgotten.get(identity.origin, position))

    def _close(self) -> None:
        """There will be no more outlets of the last one: share its group with those that have the same."""
        if self._open and self._groups:
            group = tuple(self._open)
            self._groups[-1] = self._known.setdefault(group, group)
            if len(self._known) > MAX_GROUPS:
                self._known.clear()
