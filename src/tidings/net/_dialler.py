"""The dialler: keeps a connection to one neighbour, however often it is lost."""

from __future__ import annotations

import asyncio
import logging
import random
import ssl
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from tidings.broker import LinkKind
from tidings.model import TidingsError
from tidings.wire import (
    DEFAULT_PORT,
    NO_ANSWER,
    SERIALISERS,
    VERSION,
    Hello,
    Part,
    PeerRole,
    Reject,
    Welcome,
    WireError,
    decode_words,
    dial_problem,
    encode_words,
    part,
)

from ._connection import Connection
from ._peer import Peer

if TYPE_CHECKING:
    from ._host import Host

log = logging.getLogger("tidings.net")

FIRST_RETRY = 0.1
"""Seconds before the first new attempt; each further one waits twice as long, with jitter."""
LAST_RETRY = 5.0
"""The most seconds between two attempts."""


class Dialled(Connection):
    """A connection that this broker opened to a neighbour."""

    def __init__(self, host: Host, previous: Peer | None, token: str | None) -> None:
        super().__init__(host)
        self._previous = previous
        self._token = token
        self.greeted: asyncio.Future[None] = self.loop.create_future()
        """Done when the neighbour has answered."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Say hello."""
        super().connection_made(transport)
        previous = self._previous
        session = previous.session if previous is not None else None
        hello = Hello(
            (VERSION,),
            PeerRole.BROKER,
            self.host.options.name,
            session=session.id if session is not None else None,
            received=session.received if session is not None else 0,
            token=self._token,
            epoch=self.host.epoch,
            max_part=self.host.options.limits.max_part,
            authority=self.host.governance.declared,
            names=self.host.names.digest,
            routing=self.host.options.routing_kind,
            features=self.host.schemes.told,
        )
        self.write(part(Part.HELLO, encode_words(hello)))

    def first(self, kind: int, payload: bytes) -> None:
        """The neighbour answers."""
        self.greeted.set_result(None)
        if kind == Part.REJECT:
            self.refused = decode_words(payload, Reject)
            self.close()
            return
        if kind != Part.WELCOME:
            raise WireError(f"the answer to a hello is WELCOME or REJECT, not a part of kind {kind}")
        welcome = decode_words(payload, Welcome)
        if welcome.version != VERSION or welcome.serialiser not in SERIALISERS:
            raise WireError(
                f"the neighbour chose version {welcome.version} and {welcome.serialiser}, which was not offered"
            )
        self.host.names.compare(welcome.name, welcome.names)
        self.host.schemes.compare(welcome.name, welcome.features)
        previous = self._previous
        if welcome.resumed and previous is not None:
            self.peer = previous
            previous.connected(self)
            previous.resume(welcome.received)
            return
        if previous is not None:
            self.host.end(previous, "the neighbour forgot the session")
        known = self.host.peer_of(welcome.name, LinkKind.BROKER)
        if known is not None and (known.stream is None or self.host.options.name < welcome.name):
            self.host.end(known, "another connection replaces it")  # see `Accepted._replaces`
        elif known is not None:
            self.refused = Reject("duplicate", f"broker '{welcome.name}' is already connected", retry=True)
            self.write(part(Part.BYE))
            self.close()
            return
        peer = self.host.admit(welcome.name, LinkKind.BROKER, None, welcome.session)
        peer.dialled = True
        peer.epoch = welcome.epoch
        peer.max_part = welcome.max_part
        peer.serialiser = SERIALISERS[welcome.serialiser]
        self.peer = peer
        peer.connected(self)
        try:
            self.host.begin(peer)
        except TidingsError as error:
            self.peer = None
            self.refused = Reject("refused", str(error))
            self.write(part(Part.BYE))
            self.close()

    def bad_input(self, error: WireError) -> None:
        """Remember what was wrong: the dialler says why the neighbour is not connected."""
        self.refused = self.refused or Reject("protocol", str(error))
        if self.peer is None:
            self.reject(self.refused)
        else:
            super().bad_input(error)


class Dialler:
    """Keeps one neighbour connected."""

    def __init__(self, host: Host, url: str, tls: ssl.SSLContext | None, token: str | None) -> None:
        self.host = host
        self.url = url
        parts = urlsplit(url)
        self._address = (parts.hostname or "127.0.0.1", parts.port or DEFAULT_PORT)
        self._tls = tls if parts.scheme == "tidings+tls" else None
        self._token = token
        self._peer: Peer | None = None
        self.problem: str | None = None
        """Why the neighbour is not connected, if it is not."""

    @property
    def connected(self) -> bool:
        """Whether the neighbour is connected now."""
        return self.problem is None and self._peer is not None and self._peer.stream is not None

    async def run(self) -> None:
        """Connect, and connect again, until cancelled."""
        wait = FIRST_RETRY
        while True:
            connection = await self._dial()
            if connection is not None and connection.peer is not None:
                wait = FIRST_RETRY
                self.problem = None
                self._peer = connection.peer
                await connection.done
                self.problem = "the connection was lost"
                if connection.refused is not None:
                    self.problem = connection.refused.reason
                    self._peer = None
            if self._peer is not None and self.host.find(self._peer.session.id) is not self._peer:
                self._peer = None
            await asyncio.sleep(wait * random.uniform(0.5, 1.0))  # noqa: S311 - jitter, not a secret
            wait = min(wait * 2, LAST_RETRY)

    async def _dial(self) -> Connection | None:
        loop = self.host.loop
        host, port = self._address
        try:
            _, connection = await loop.create_connection(
                lambda: Dialled(self.host, self._peer, self._token),
                host,
                port,
                ssl=self._tls,
                server_hostname=host if self._tls is not None else None,
            )
        except (OSError, ssl.SSLError) as error:
            self._complain(dial_problem(error))
            return None
        try:
            await asyncio.wait(
                (connection.greeted, connection.done),
                timeout=self.host.options.limits.handshake,
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            if not connection.greeted.done():
                connection.abort()
        if connection.peer is None:
            silence = NO_ANSWER if connection.done.done() else "no answer came to the hello"
            connection.close()
            self._complain(connection.refused.reason if connection.refused is not None else silence)
        return connection

    def _complain(self, problem: str) -> None:
        if problem != self.problem:
            log.warning("cannot connect to %s: %s", self.url, problem)
        self.problem = problem
