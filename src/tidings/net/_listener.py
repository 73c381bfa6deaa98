"""A listener: accepts connections, knows all of them from the first moment, and keeps room for those that mean it.

Theory of operation
-------------------
A *guest* is a connection that was accepted, from `accept` on: a TLS handshake that has not begun counts like a session.
A guest is *known* when it has said what it came for and was let in; its owner bounds how many of these there are. All
others can be made by anybody who reaches the port, so they have no right to stay: when there are as many guests as
`limit`, the oldest that is not known goes, and the new one comes in. Nobody can keep others out by sitting there. Some
room, `MARGIN`, is left for guests that are not known even where all others are: they shall hear why they are refused.

One connection is accepted in a turn of the loop, so whoever came before is read from before a flood has pushed it out.

If nothing can be accepted, because no file descriptor is left, the listener pauses and tries again; it says so once in
an *episode*, which ends when nothing of the kind has happened for `EPISODE_SECONDS`.
"""

from __future__ import annotations

import asyncio
import errno
import itertools
import logging
import os
import socket
import ssl
from collections.abc import Callable

log = logging.getLogger("tidings.net")

BACKLOG = 1_024
"""Connections that the system keeps until they are accepted."""
MARGIN = 16
"""Guests that are not known and may stay, for a while, even where all others are known."""
ACCEPT_PAUSE = 0.25
"""Seconds after which a listener tries again that could not accept."""
EPISODE_SECONDS = 60.0
"""How long all must be well before another exhaustion of descriptors is told."""
_EXHAUSTED = (errno.EMFILE, errno.ENFILE)


class Visitor(asyncio.Protocol):
    """The protocol of a connection, as its listener sees it."""

    done: asyncio.Future[None]
    """Done when the connection is gone."""

    @property
    def known(self) -> bool:
        """Whether it has said what it came for and was let in."""
        raise NotImplementedError

    def abort(self) -> None:
        """Close at once."""
        raise NotImplementedError


class _Guest:
    """One accepted connection, with or without a protocol yet."""

    __slots__ = ("socket", "task", "visitor")

    def __init__(self, accepted: socket.socket) -> None:
        self.socket: socket.socket | None = accepted
        """Until a transport has it."""
        self.task: asyncio.Task[None] | None = None
        """Its handshake, until it is done."""
        self.visitor: Visitor | None = None

    @property
    def is_known(self) -> bool:
        return self.visitor is not None and self.visitor.known

    def dismiss(self) -> None:
        if self.visitor is not None:
            self.visitor.abort()
        elif self.task is not None:
            self.task.cancel()


class Listener:
    """Listens on one address, which may be several sockets."""

    def __init__(
        self,
        visitor: Callable[[], Visitor],
        limit: int,
        *,
        tls: ssl.SSLContext | None = None,
        handshake: float | None = None,
    ) -> None:
        self._visitor = visitor
        self._limit = limit
        self._tls = tls
        self._handshake = handshake if tls is not None else None
        self._sockets: list[socket.socket] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._guests: set[_Guest] = set()
        self._strangers: dict[_Guest, None] = {}
        """Those that were not known when last seen, oldest first."""
        self._failed_at: float | None = None
        self.port = 0
        """The port it listens on."""
        self.dismissed = 0
        """Guests that had to go before they were known, because others came."""
        self.failures = 0
        """Episodes in which nothing could be accepted."""

    def start(self, sockets: list[socket.socket]) -> None:
        """Accept connections on sockets from `bind`, which are closed by `stop`."""
        self._sockets = sockets
        self.port = sockets[0].getsockname()[1]
        self._tasks = [asyncio.create_task(self._accept(one), name=f"accept on port {self.port}") for one in sockets]

    @property
    def count(self) -> int:
        """How many connections are open, known or not."""
        return len(self._guests)

    async def stop(self) -> None:
        """Accept nothing more, and end the handshakes that are under way."""
        tasks = [*self._tasks, *(guest.task for guest in self._guests if guest.task is not None)]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for one in self._sockets:
            one.close()
        self._sockets.clear()

    # --- accepting ------------------------------------------------------------------------------------

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, _ = await loop.sock_accept(listening)
            except ConnectionAbortedError:
                accepted = None  # it went while it waited
            except OSError as error:
                self._tell(error)
                await asyncio.sleep(ACCEPT_PAUSE)
                continue
            if accepted is not None:
                self._make_room()
                self._admit(_Guest(accepted))
            await asyncio.sleep(0)  # an accept that need not wait does not yield; others have their turn

    def _make_room(self) -> None:
        """Send the oldest guest away that is not known, if there are too many."""
        for oldest in list(itertools.takewhile(lambda guest: guest.is_known, self._strangers)):
            del self._strangers[oldest]
        if len(self._guests) < self._limit or len(self._strangers) < MARGIN:
            return
        oldest = next(iter(self._strangers))
        del self._strangers[oldest]
        self.dismissed += 1
        oldest.dismiss()

    def _admit(self, guest: _Guest) -> None:
        self._guests.add(guest)
        self._strangers[guest] = None
        guest.task = asyncio.create_task(self._enter(guest))
        guest.task.add_done_callback(lambda _: self._entered(guest))

    async def _enter(self, guest: _Guest) -> None:
        loop = asyncio.get_running_loop()
        accepted, guest.socket = guest.socket, None
        assert accepted is not None
        visitor = self._visitor()
        try:
            await loop.connect_accepted_socket(
                lambda: visitor, accepted, ssl=self._tls, ssl_handshake_timeout=self._handshake
            )
        except OSError as error:  # among them what is wrong with TLS, and its timeout
            log.debug("a connection failed its handshake: %s", error)
        else:
            guest.visitor = visitor
            visitor.done.add_done_callback(lambda _: self._left(guest))

    def _entered(self, guest: _Guest) -> None:
        guest.task = None
        if guest.socket is not None:
            guest.socket.close()  # cancelled before it began
        if guest.visitor is None:
            self._left(guest)

    def _left(self, guest: _Guest) -> None:
        self._guests.discard(guest)
        self._strangers.pop(guest, None)

    def _tell(self, error: OSError) -> None:
        now = asyncio.get_running_loop().time()
        if self._failed_at is None or now - self._failed_at > EPISODE_SECONDS:
            self.failures += 1
            log.error(
                "cannot accept connections on port %s, where %s are open: %s; %s",
                self.port,
                self.count,
                os.strerror(error.errno or 0).lower(),
                "allow more with `ulimit -n`, or fewer `connections`" if error.errno in _EXHAUSTED else "trying again",
            )
        self._failed_at = now


async def bind(host: str, port: int) -> list[socket.socket]:
    """Take an address, which may be several sockets; `OSError` if that is not possible.

    This is a step of its own because a server takes its addresses before it touches its disk. Connections that come
    meanwhile wait.
    """
    sockets: list[socket.socket] = []
    try:
        found = await asyncio.get_running_loop().getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        for family, kind, proto, _, address in dict.fromkeys(found):
            sockets.append(_bound(family, kind, proto, address))
    except OSError:
        for one in sockets:
            one.close()
        raise
    return sockets


def _bound(family: int, kind: int, proto: int, address: tuple[object, ...]) -> socket.socket:
    bound = socket.socket(family, kind, proto)
    try:
        bound.setblocking(False)
        if os.name == "posix":
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        bound.bind(address)
        bound.listen(BACKLOG)
    except OSError:
        bound.close()
        raise
    return bound
