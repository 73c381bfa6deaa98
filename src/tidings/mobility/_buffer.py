"""The buffer: what the copies of one broker hold for clients that are not there.

Each notification is held once, however many copies want it, and each of these has a reference to it. All copies share
one limit in bytes. At the limit the identity that has most loses its oldest notification, so one that has little keeps
it: every copy of its clients that had a reference to it notes up to where it has lost something of that origin, and the
origin is asked for it when the client arrives. Where the broker has no room for the clients of an identity, a copy of
one of them loses its own oldest in the same way.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from tidings.model import Position
from tidings.wire import Envelope

from ._room import OwnRoom, Room
from ._shares import Shares

MAX_SAME = 64
"""The most sets of subscriptions that one copy knows again."""
REFERENCE_BYTES = 64
"""What a reference counts for."""


class Holder:
    """Whose references there are; a copy of a client."""

    def __init__(self, owner: str = "") -> None:
        """`owner` is the identity of the client."""
        self.owner = owner
        self.references: dict[int, tuple[str, ...]] = {}
        """The numbers of what it refers to, the oldest first, each with the ids of its subscriptions that want it."""
        self.by_id: dict[str, deque[int]] = {}
        """These numbers for each of its subscriptions; some that are not the oldest may have been overwritten."""
        self.held_in: SharedBuffer | None = None
        """The buffer whose numbers these are."""
        self._ids: dict[tuple[str, ...], tuple[str, ...]] = {}
        self.overwritten: dict[str, Position] = {}
        """By origin, the last that was overwritten."""
        self.most: int | None = None
        """How many bytes it may hold by itself."""
        self.bytes = 0

    def same(self, ids: tuple[str, ...]) -> tuple[str, ...]:
        """The same ids, as they were given before: many notifications are for the same subscriptions."""
        if len(self._ids) >= MAX_SAME:
            self._ids.clear()
        return self._ids.setdefault(ids, ids)

    def overwrite(self, origin: str, position: Position) -> None:
        """Note that something of an origin is not held, the last of it at this position."""
        self.overwritten[origin] = max(position, self.overwritten.get(origin, position))


@dataclass(slots=True, eq=False)
class _Held:
    envelope: Envelope
    size: int
    holders: list[Holder] = field(default_factory=list)
    """Some may have given their references up since."""
    owners: dict[str, int] = field(default_factory=dict)
    """How many references the holders of each identity have."""


class SharedBuffer:
    """What is held at one broker, the oldest first."""

    def __init__(
        self,
        most: int,
        room: Room | None = None,
        overwrote: Callable[[Envelope, Iterable[Holder]], None] | None = None,
    ) -> None:
        """`most` is the limit in bytes; `overwrote` is told of each notification that had to go."""
        self.most = most
        self._room = room or OwnRoom()
        self._overwrote = overwrote
        self._held: dict[int, _Held] = {}
        self.filled: Callable[[], None] = lambda: None
        """Called when something is held after there was nothing."""
        self._numbers_for: dict[str, dict[int, None]] = {}
        """For each identity the numbers of what its clients have references to, as these came."""
        self._shares = Shares()
        self._numbers = 0
        self._last: tuple[Envelope, int] | None = None
        """What was added last: it comes to each copy by itself."""
        self._numbers_of: dict[int, int] = {}
        """The number of what is held, by its `id`: what is moved comes to each copy by itself, too."""
        self.bytes = 0
        self.overwritten = 0
        """How many references were lost."""

    def __len__(self) -> int:
        return len(self._held)

    def add(self, envelope: Envelope, holder: Holder, ids: tuple[str, ...]) -> None:
        """Hold a notification for subscriptions of a copy."""
        if self._last is not None and self._last[0] is envelope and self._last[1] in self._held:
            number = self._last[1]
        else:
            self._numbers += 1
            number = self._numbers_of[id(envelope)] = self._numbers
            if not self._held:
                self.filled()
            self._held[number] = _Held(envelope, len(envelope.body))
            self._last = (envelope, number)
        self._refer(number, holder, ids)

    def _refer(self, number: int, holder: Holder, ids: tuple[str, ...]) -> None:
        held, known = self._held[number], holder.references.get(number)
        if known is None:
            holder.held_in = self
            held.holders.append(holder)
            self._count(number, holder, 1)
        holder.references[number] = holder.same(ids if known is None else (*known, *ids))
        for id in ids:
            holder.by_id.setdefault(id, deque()).append(number)
        while holder.most is not None and holder.bytes > holder.most:
            self._lose_oldest(holder)
        while holder.references and not self._room.has_room(holder.owner):
            self._lose_oldest(holder)
        while self.bytes > self.most and self._held:
            owner = self._shares.largest()
            self._overwrite(next(iter(self._numbers_for[owner])), owner)

    def of(self, holder: Holder, id: str) -> list[Envelope]:
        """What is held for one subscription of a copy, in the order in which it came."""
        return [self._held[number].envelope for number in holder.by_id.get(id, ()) if number in holder.references]

    @property
    def latest(self) -> int:
        """The number of what was added last."""
        return self._numbers

    def numbered(self, holder: Holder, id: str) -> list[tuple[int, Envelope]]:
        """The same, each with the number under which it was added: they only grow."""
        return [(one, self._held[one].envelope) for one in holder.by_id.get(id, ()) if one in holder.references]

    def all_of(self, holder: Holder) -> list[tuple[Envelope, tuple[str, ...]]]:
        """What is held for a copy, each with the ids of the subscriptions that want it."""
        return [(self._held[number].envelope, ids) for number, ids in holder.references.items()]

    def release(self, holder: Holder, id: str | None = None) -> None:
        """Hold nothing any more for one subscription of a copy, or for all of them."""
        numbers = list(holder.references) if id is None else holder.by_id.pop(id, ())
        for number in numbers:
            ids = holder.references.get(number)
            if ids is None:
                continue  # it was overwritten
            left = () if id is None else tuple(one for one in ids if one != id)
            if left:
                holder.references[number] = holder.same(left)
            else:
                self._drop(number, holder)
        if id is None:
            holder.by_id.clear()

    def move(self, holder: Holder, to: SharedBuffer) -> None:
        """Let another buffer hold what this one holds for a copy."""
        held = self.all_of(holder)
        self.release(holder)
        for envelope, ids in held:
            if number := to._numbers_of.get(id(envelope), 0):
                to._refer(number, holder, ids)
            else:
                to.add(envelope, holder, ids)

    def overwrite_until(self, number: int) -> None:
        """Hold nothing any more that was added under a number up to this one."""
        while self._held and (oldest := next(iter(self._held))) <= number:
            self._overwrite(oldest)

    def _drop(self, number: int, holder: Holder) -> None:
        held = self._held[number]
        del holder.references[number]
        self._count(number, holder, -1)
        if not held.owners:
            del self._held[number]
            if self._numbers_of.get(id(held.envelope)) == number:
                del self._numbers_of[id(held.envelope)]

    def _count(self, number: int, holder: Holder, change: int) -> None:
        """A holder has got a reference, or lost it; in all a body counts once, and once for each identity."""
        held = self._held[number]
        known = held.owners.get(holder.owner, 0)
        left = known + change
        if left:
            held.owners[holder.owner] = left
            self._numbers_for.setdefault(holder.owner, {})[number] = None
        else:
            del held.owners[holder.owner]
            del self._numbers_for[holder.owner][number]
            if not self._numbers_for[holder.owner]:
                del self._numbers_for[holder.owner]
        own = change * (REFERENCE_BYTES + (0 if known and left else held.size))
        others = len(held.owners) > (change > 0)
        in_all = change * REFERENCE_BYTES if others else own
        self.bytes += in_all
        holder.bytes += change * (REFERENCE_BYTES + held.size)
        self._shares.count(holder.owner, own)
        self._room.count(holder.owner, own, in_all)

    def _overwrite(self, number: int, owner: str | None = None) -> None:
        """Take a notification from all who have it, or from the clients of one identity."""
        held = self._held[number]
        holders = [
            one
            for one in dict.fromkeys(held.holders)
            if one.held_in is self and number in one.references and owner in (None, one.owner)
        ]
        if self._overwrote is not None:
            self._overwrote(held.envelope, holders)
        for holder in holders:
            self._lose(number, holder)

    def _lose_oldest(self, holder: Holder) -> None:
        self._lose(next(iter(holder.references)), holder)

    def _lose(self, number: int, holder: Holder) -> None:
        identity = self._held[number].envelope.identity
        position = Position(identity.epoch, identity.seq)
        self.overwritten += 1
        holder.overwrite(identity.origin, position)
        ids = holder.references[number]
        self._drop(number, holder)
        for id in ids:
            numbers = holder.by_id[id]
            while numbers and numbers[0] not in holder.references:
                numbers.popleft()
