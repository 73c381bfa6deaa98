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
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TypeAlias

from tidings.model import TidingsError
from tidings.wire import Advertise, Publish, Unadvertise

from ._links import Link

MAX_WAITING_BYTES = 33_554_432
"""The most bytes of one client's publications that wait until they may go; further ones are refused."""
MAX_ALL_WAITING_BYTES = 134_217_728
"""The same for all clients together."""
RELEASE_STEP = 20
"""How many go in one turn: each may pass thousands of subscriptions, and others must be served in between."""
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
        self.bytes = 0
        """Of all that waits."""

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
        if line.bytes + size > MAX_WAITING_BYTES or self.bytes + size > MAX_ALL_WAITING_BYTES:
            raise TidingsError(
                f"{len(line.messages):,} publications of '{client.name}' wait at broker '{self._broker}' for scopes or "
                f"advertisements to be ready, {self.bytes:,} bytes of all clients together; publish again later"
            )
        self._lines[client] = line
        line.messages.append(message)
        line.bytes += size
        self.bytes += size

    def release(self, lets_go: Callable[[Link, Said], bool], most: int) -> bool:
        """Let go what may go, in order: of each client as much as `lets_go` has nothing against, but not more than so
        many in all; whether that was reached."""
        for client, line in list(self._lines.items()):
            while line.messages and most and lets_go(client, line.messages[0]):
                size = _size(line.messages.popleft())
                line.bytes -= size
                self.bytes -= size
                most -= 1
            if not line.messages:
                del self._lines[client]
        return not most

    def abandon(self, client: Link) -> None:
        """A client has gone: nothing of it waits any longer."""
        self.bytes -= self._lines.pop(client, _Line()).bytes


def _size(message: Said) -> int:
    if isinstance(message, Publish):
        return MESSAGE_OVERHEAD + len(message.body)
    return MESSAGE_OVERHEAD + (len(str(message.filter)) if isinstance(message, Advertise) else 0)
