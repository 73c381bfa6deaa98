"""What waits: publications that may not go yet, and everything that their clients say about publishing behind them.

Theory of operation
-------------------
A publication waits until

    its scopes         are carried here, and no change of the graph holds it up,
    its advertisement  has settled: one that announces it has, at least once since it has its place in the scopes,
    the log            says that this epoch gives numbers to what is not on disk, unless the publication is `stored`.

Only then does it get its identity and its acknowledgement. What its client publishes or advertises after it waits
behind it, so that each publication is judged by what was advertised when it was made.

Why it waits for its advertisement. With advertisements, a subscription is sent only to where what it wants is offered.
A client that comes back to a restarted broker sends its advertisements and what nobody has acknowledged in one breath.
No subscription has followed the advertisements here yet, so a publication that went at once would go nowhere. Once the
advertisement has settled, this cannot happen: links are FIFO, and a broker that confirms an advertisement has sent
every subscription that overlaps it ahead of the confirmation, on the same links. So all of them are here.

Why an advertisement that has settled once is enough. On a new tree all announcements begin anew, and what is published
before they have arrived goes nowhere. But then each broker fetches from this one what its subscriptions are owed, after
a wave that visits this broker on the new tree (see `_recovery`). An advertisement that was here before that tree is
told ahead of the answer to the wave, and the subscriptions that it draws have settled before they fetch: nothing is
missed. Only an advertisement that came behind the wave could be overlooked, and that one has yet to settle.

What waits is bounded in all, and for the clients of one owner: by a limit, and by what is still left for everybody. So
whoever comes late finds room, however many names the others have.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from tidings.broker._links import Link
from tidings.model import TidingsError
from tidings.wire import Advertise, Publish, Unadvertise

from ._host import Host

CONTINUE_INTERVAL = 50_000
"""Microseconds after which those who were held up are looked at again."""
MAX_WAITING_BYTES = 33_554_432
"""The most bytes of the publications of one owner's clients that wait until they may go; more are refused."""
MAX_ALL_WAITING_BYTES = 134_217_728
"""The same for all clients together; nobody gets more of it than is left for the others."""
RELEASE_STEP = 20
"""How many go in one turn: each may pass thousands of subscriptions, and others must be served in between."""
LARGE_MESSAGE = 16_384
"""Bytes for which a message counts as one more of these, so that a turn does not overfill a queue."""
MESSAGE_OVERHEAD = 200
"""Bytes that a message takes beside its body, about."""

Said: TypeAlias = Publish | Advertise | Unadvertise


class _Line:
    """What one client has said and has to wait, in order."""

    __slots__ = ("bytes", "messages")

    def __init__(self) -> None:
        self.messages: deque[Said] = deque()
        self.bytes = 0


class Waiting:
    """The publications of the clients of one broker that may not go yet."""

    def __init__(self, broker: str) -> None:
        self._broker = broker
        self._lines: dict[Link, _Line] = {}
        self._owners: dict[str, int] = {}
        """The bytes that wait for the clients of each owner."""
        self.bytes = 0
        """Of all that waits."""
        self.refused = 0
        """What has not been let wait, for want of room."""

    def __contains__(self, client: Link) -> bool:
        return client in self._lines

    def __len__(self) -> int:
        return sum(len(line.messages) for line in self._lines.values())

    def heads(self) -> list[tuple[Link, Said]]:
        """Of each client, what has waited longest."""
        return [(client, line.messages[0]) for client, line in self._lines.items()]

    def add(self, client: Link, message: Said) -> None:
        """Let something wait; `TidingsError` if too much does already."""
        line = self._lines.get(client, _Line())
        size = _size(message)
        own = self._owners.get(client.owner, 0) + size
        if own > min(MAX_WAITING_BYTES, MAX_ALL_WAITING_BYTES - self.bytes):
            self.refused += 1
            raise TidingsError(
                f"{len(line.messages):,} publications of '{client.name}' wait at broker '{self._broker}' for scopes, "
                f"advertisements or the disk to be ready, {own - size:,} bytes of '{client.owner}' and {self.bytes:,} "
                "of all clients together; publish again later"
            )
        self._lines[client] = line
        line.messages.append(message)
        self._count(client, line, size)

    def _count(self, client: Link, line: _Line, size: int) -> None:
        line.bytes += size
        self.bytes += size
        own = self._owners.get(client.owner, 0) + size
        if own:
            self._owners[client.owner] = own
        else:
            self._owners.pop(client.owner, None)

    @property
    def clients(self) -> list[Link]:
        """Whose publications wait, those first who had a turn longest ago."""
        return list(self._lines)

    def release(self, client: Link, lets_go: Callable[[Link, Said], bool], most: int) -> int:
        """Let go what may go of a client, in order: as much as `lets_go` has nothing against, but not more than so many
        messages; how many more could have gone, 0: the client has used up the turn."""
        line = self._lines[client]
        while line.messages and most > 0 and lets_go(client, line.messages[0]):
            size = _size(line.messages.popleft())
            self._count(client, line, -size)
            most -= 1 + size // LARGE_MESSAGE
        if not line.messages:
            del self._lines[client]
        elif most <= 0:
            self._lines[client] = self._lines.pop(client)
        return max(0, most)

    def abandon(self, client: Link) -> None:
        """A client has gone: nothing of it waits any longer."""
        line = self._lines.pop(client, _Line())
        self._count(client, line, -line.bytes)


class Release:
    """Called when something that publications wait for may be there: it publishes them, some in each turn.

    What goes is the doing of its publisher, whoever's turn it is; a publisher that has filled a queue is held up.
    """

    def __init__(self, broker: Host, waiting: Waiting, lets_go: Callable[[Link, Said], bool]) -> None:
        self._broker = broker
        self._waiting = waiting
        self._lets_go = lets_go
        self._going_on = False
        """Whether more goes in the next turn."""
        self._returning = False
        """Whether to come back to those that were held up."""

    def __call__(self) -> None:
        if self._going_on:
            return
        broker, left, held_up = self._broker, RELEASE_STEP, False
        for client in self._waiting.clients:
            if broker.held_up(client):
                held_up = True
                continue
            left = broker.charge(client, partial(self._waiting.release, client, self._lets_go, left))
            if not left:
                self._going_on = True
                broker.call_later(0, self._go_on)
                return
        if held_up and not self._returning:
            self._returning = True
            broker.call_later(CONTINUE_INTERVAL, self._return)

    def _go_on(self) -> None:
        self._going_on = False
        self()

    def _return(self) -> None:
        self._returning = False
        self()


def _size(message: Said) -> int:
    if isinstance(message, Publish):
        return MESSAGE_OVERHEAD + len(message.body)
    return MESSAGE_OVERHEAD + (len(str(message.filter)) if isinstance(message, Advertise) else 0)
