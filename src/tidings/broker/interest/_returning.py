"""Returning: subscriptions that go on where they were, and wait because this broker recovers as much as it may already.

Each position from which something has to be recovered takes memory until its origin has answered, so there is a limit
for all clients of one owner, and for all. Beyond it nobody is refused: the subscription waits in line, is taken when
there is room, and its client hears by `Settled`, as ever, that it goes on. Until then it gets nothing, and misses
nothing: it says from where it wants to go on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tidings.broker._links import Link
from tidings.model import FeatureError, TidingsError
from tidings.wire import Subscribe

from ._host import Host

MAX_OWN = 10_000
"""The most subscriptions of one owner's clients that wait; more are refused."""
AGAIN = 50_000
"""Microseconds after which those who wait are looked at, once there may be room."""
POSITION_BYTES = 150
"""What a position of a subscription that waits takes, about."""


class Returning:
    """The subscriptions that wait at one broker, in the order in which they came."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._line: dict[tuple[Link, str], Subscribe] = {}
        self._owned: Counter[str] = Counter()
        self._looking = False

    def __len__(self) -> int:
        return len(self._line)

    def waiting(self) -> Iterator[tuple[Link, Subscribe]]:
        """Those that wait."""
        return ((link, message) for (link, _), message in self._line.items())

    def add(self, link: Link, message: Subscribe) -> None:
        """Let a subscription wait for room."""
        if self._owned[link.owner] >= MAX_OWN:
            raise TidingsError(
                f"{MAX_OWN:,} subscriptions of '{link.owner}' wait at broker '{self._host.name}' to go on where they "
                "were; subscribe again later, or without positions"
            )
        self._host.register(link, _size(message))
        self._owned[link.owner] += 1
        self._line[link, message.id] = message
        self.room_again()

    def waits(self, link: Link, id: str) -> Subscribe | None:
        """What waits for a client under an id. If the client changes it now, it still wants to go on from there."""
        return self._line.get((link, id))

    def drop(self, link: Link, id: str) -> None:
        """A client no longer wants it, or wants something else under this id."""
        message = self._line.pop((link, id), None)
        if message is not None:
            self._host.register(link, -_size(message))
            self._owned[link.owner] -= 1
            if not self._owned[link.owner]:
                del self._owned[link.owner]

    def abandon(self, link: Link) -> None:
        """A client has gone."""
        for whose, id in [known for known in self._line if known[0] is link]:
            self.drop(whose, id)

    def room_again(self) -> None:
        """There may be room: look soon."""
        if self._line and not self._looking:
            self._looking = True
            self._host.call_later(AGAIN, self._look)

    def _look(self) -> None:
        self._looking = False
        full: set[str] = set()
        for (link, id), message in list(self._line.items()):
            if link.owner in full or not self._host.recovery.has_room(link, len(message.after)):
                full.add(link.owner)  # who has come first goes first
                continue
            self.drop(link, id)
            try:
                self._host.registrations.subscribed(link, message)
            except FeatureError:
                raise
            except TidingsError as error:
                self._host.refuse(link, message, error)


def _size(message: Subscribe) -> int:
    return len(message.id) + len(str(message.filter)) + len(message.after) * POSITION_BYTES
