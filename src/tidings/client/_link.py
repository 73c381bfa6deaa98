"""The client's link: one session with the service, over as many connections as it takes.

A cut connection is opened again, to the same broker first and then to the others in turn, with jittered back-off. If
the broker still knows the session it goes on where it was. If not, or if it is another broker, the local broker
announces everything anew and says how far it has come.
"""

from __future__ import annotations

import asyncio
import logging
import random
import ssl
from collections.abc import Callable
from typing import NamedTuple
from urllib.parse import urlsplit

from tidings.model import TidingsError
from tidings.wire import (
    SERIALISERS,
    VERSION,
    Frame,
    Hello,
    Part,
    PeerRole,
    Reject,
    Serialiser,
    Session,
    Stream,
    Welcome,
    WireError,
    ack,
    ack_number,
    decode_words,
    encode_words,
    part,
)

log = logging.getLogger("tidings.client")

DEFAULT_PORT = 7311
FIRST_RETRY = 0.05
"""Seconds before the first new attempt; each further round waits twice as long, with jitter."""
LAST_RETRY = 5.0
"""The most seconds between two rounds of attempts."""
HANDSHAKE = 5.0
"""Seconds that a broker may take to answer a hello."""
ACK_DELAY = 0.02
"""Seconds after which what arrived is acknowledged at the latest."""


class ConnectionFailed(TidingsError, OSError):
    """The service cannot be reached, or does not let this client in."""


class NotAdmitted(ConnectionFailed):
    """The service is there and does not let this client in, or this client does not trust it."""

    retry = False
    """Whether trying again later may help."""


class Address(NamedTuple):
    """Where a broker listens."""

    host: str
    port: int
    tls: bool

    @classmethod
    def parse(cls, url: str) -> Address:
        """From `tidings://host:port` or `tidings+tls://host:port`.

        >>> Address.parse("tidings://localhost")
        Address(host='localhost', port=7311, tls=False)
        """
        parts = urlsplit(url if "://" in url else f"tidings://{url}")
        if parts.scheme not in ("tidings", "tidings+tls"):
            raise ConnectionFailed(f"'{url}' is not the address of a broker; write tidings://host:port")
        return cls(parts.hostname or "localhost", parts.port or DEFAULT_PORT, parts.scheme == "tidings+tls")

    def __str__(self) -> str:
        return f"tidings{'+tls' if self.tls else ''}://{self.host}:{self.port}"


class _Connection(Stream):
    """One connection of the link."""

    def __init__(self, link: Link) -> None:
        super().__init__()
        self.link = link
        self.answer: asyncio.Future[Welcome] = self.loop.create_future()
        self.gone: asyncio.Future[None] = self.loop.create_future()
        self.farewell: Reject | None = None

    def parts_received(self, parts: list[tuple[int, bytes]]) -> None:
        if self.answer.cancelled():
            return
        if not self.answer.done():
            kind, payload = parts.pop(0)
            if kind == Part.REJECT:
                self.farewell = decode_words(payload, Reject)
                self.close()
                return
            if kind != Part.WELCOME:
                raise WireError(f"a hello is answered by WELCOME or REJECT, not by kind {kind}")
            welcome = decode_words(payload, Welcome)
            self.link.welcomed(self, welcome)
            self.answer.set_result(welcome)
        if parts:
            self.link.received(self, parts)

    def bad_input(self, error: WireError) -> None:
        log.warning("the broker does not speak the protocol: %s", error)
        self.farewell = Reject("protocol", str(error))
        self.abort()

    def lost(self, error: Exception | None) -> None:
        if not self.gone.done():
            self.gone.set_result(None)
        if not self.answer.done():
            if self.farewell is not None:
                refusal = NotAdmitted(self.farewell.reason)
                refusal.retry = self.farewell.retry
                self.answer.set_exception(refusal)
            else:
                why = f"the connection was closed ({error or 'without a word'}); a broker with TLS is at tidings+tls://"
                self.answer.set_exception(ConnectionFailed(why))

    def slow(self) -> None:
        self.link.taken(self)

    def ready(self) -> None:
        self.link.taken(self)


class Link:
    """The way of one client to the service."""

    def __init__(
        self,
        name: str,
        addresses: list[Address],
        *,
        token: str | None,
        tls: ssl.SSLContext | None,
        serialiser: str,
        receive: Callable[[Frame], None],
        renewed: Callable[[Welcome], None],
    ) -> None:
        self._name = name
        self._addresses = addresses
        self._token = token
        self._tls = tls
        self._offered = serialiser
        self._receive = receive
        self._renewed = renewed
        self._serialiser: Serialiser = SERIALISERS[serialiser]
        self._session: Session | None = None
        self._connection: _Connection | None = None
        self._ack_timer: asyncio.TimerHandle | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._heartbeat = 10.0
        self._paused = False
        self.writable = asyncio.Event()
        """Set while the broker takes what is sent."""
        self.reconnects = 0
        self.broker = ""
        self.failure: ConnectionFailed | None = None
        """Why the link has ended for good."""
        self.on_failure: Callable[[ConnectionFailed], None] = lambda error: None

    @property
    def connected(self) -> bool:
        """Whether there is a connection now."""
        return self._connection is not None

    async def open(self) -> None:
        """Connect for the first time: every address once, then `ConnectionFailed`."""
        problems: dict[Address, ConnectionFailed] = {}
        for address in self._addresses:
            try:
                await self._connect(address)
                break
            except ConnectionFailed as error:
                problems[address] = error
        else:
            told = "; ".join(f"{address}: {error}" for address, error in problems.items())
            if any(isinstance(error, NotAdmitted) for error in problems.values()):
                raise NotAdmitted(told)
            raise ConnectionFailed(f"{told}. Is the server running? `tidings serve` starts one here.")
        self._keeper = asyncio.create_task(self._keep(), name=f"tidings link of {self._name}")

    async def close(self) -> None:
        """Say goodbye and end everything."""
        self.failure = self.failure or ConnectionFailed(f"the client '{self._name}' is closed; connect again")
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)
        if self._ack_timer is not None:
            self._ack_timer.cancel()
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.write(part(Part.BYE))
            connection.close()
            await connection.gone

    # --- frames ---------------------------------------------------------------------------------------

    def send(self, frame: Frame) -> None:
        """Send a frame; without a connection it waits in the session's window."""
        if self._session is None:
            return
        data = part(Part.DATA, self._serialiser.encode(frame))
        self._session.sent(data)
        if self._connection is not None:
            self._connection.write(data)

    @property
    def full(self) -> bool:
        """Whether nothing more should be sent for now."""
        return self._session is not None and self._session.full

    @property
    def waiting(self) -> int:
        """How many frames the broker has not acknowledged yet."""
        return self._session.waiting if self._session is not None else 0

    def pause(self) -> None:
        """Stop reading: the application does not keep up."""
        self._paused = True
        if self._connection is not None:
            self._connection.pause()

    def resume(self) -> None:
        """Read again."""
        self._paused = False
        if self._connection is not None:
            self._connection.unpause()

    def taken(self, connection: _Connection) -> None:
        """Whether the broker takes what is sent may have changed."""
        if connection is not self._connection:
            return
        if connection.clogged or self.full:
            self.writable.clear()
        else:
            self.writable.set()
            self._acknowledge()

    def received(self, connection: _Connection, parts: list[tuple[int, bytes]]) -> None:
        """Parts of a read."""
        session = self._session
        if connection is not self._connection or session is None:
            return
        decode, receive = self._serialiser.decode, self._receive
        arrived = 0
        for kind, payload in parts:
            if kind == Part.DATA:
                arrived += 1
                receive(decode(payload))
            elif kind == Part.ACK:
                session.acknowledge(ack_number(payload))
                if not session.full and not connection.clogged:
                    self.writable.set()
            elif kind == Part.PING:
                connection.pong()
            elif kind == Part.REJECT:
                connection.farewell = decode_words(payload, Reject)
            elif kind == Part.BYE:
                self._session = None
                connection.close()
        if arrived:
            if session.arrived(arrived):
                self._acknowledge()
            elif self._ack_timer is None:
                self._ack_timer = connection.loop.call_later(ACK_DELAY, self._acknowledge)

    def _acknowledge(self) -> None:
        if self._ack_timer is not None:
            self._ack_timer.cancel()
            self._ack_timer = None
        if self._session is not None and self._connection is not None and not self._connection.clogged:
            number = self._session.tell()
            if number is not None:
                self._connection.write(ack(number))

    # --- connections ----------------------------------------------------------------------------------

    async def _connect(self, address: Address) -> None:
        loop = asyncio.get_running_loop()
        context = self._tls if self._tls is not None else ssl.create_default_context() if address.tls else None
        connection = _Connection(self)
        try:
            async with asyncio.timeout(HANDSHAKE):
                await loop.create_connection(
                    lambda: connection, address.host, address.port, ssl=context if address.tls else None
                )
                session = self._session
                hello = Hello(
                    (VERSION,),
                    PeerRole.CLIENT,
                    self._name,
                    serialisers=(self._offered,),
                    session=session.id if session is not None else None,
                    received=session.received if session is not None else 0,
                    token=self._token,
                )
                connection.write(part(Part.HELLO, encode_words(hello)))
                await connection.answer
        except TimeoutError:
            raise ConnectionFailed("no answer came in time") from None
        except ssl.SSLCertVerificationError as error:
            raise NotAdmitted(
                f"the certificate of the broker is not trusted: {error.verify_message}; name the CA that signed it"
            ) from None
        except (OSError, ssl.SSLError) as error:
            if isinstance(error, ConnectionFailed):
                raise
            raise ConnectionFailed(str(error)) from None
        finally:
            if connection is not self._connection:
                connection.answer.cancel()  # an answer that comes now is too late
                connection.abort()

    def welcomed(self, connection: _Connection, welcome: Welcome) -> None:
        """A broker lets this client in."""
        self._heartbeat = welcome.heartbeat
        self._serialiser = SERIALISERS[welcome.serialiser]
        self._connection = connection
        if self._paused:
            connection.pause()
        self.broker = welcome.name
        if welcome.resumed and self._session is not None:
            for data in self._session.resume(welcome.received):
                connection.write(data)
        else:
            self._session = Session(welcome.session)
            self._renewed(welcome)
        self.writable.set()

    async def _keep(self) -> None:
        """Watch the connection; open another when it is lost."""
        while True:
            connection = self._connection
            if connection is not None:
                await self._watch(connection)
                if self._connection is connection:
                    self._connection = None
                if connection.farewell is not None and not connection.farewell.retry:
                    self._fail(ConnectionFailed(connection.farewell.reason))
                    return
            self.writable.clear()
            try:
                await self._reconnect()
            except NotAdmitted as error:
                self._fail(error)
                return

    async def _watch(self, connection: _Connection) -> None:
        before = connection.loop.time()
        while not connection.gone.done():
            await asyncio.wait([connection.gone], timeout=self._heartbeat)
            late = connection.loop.time() - before > 2 * self._heartbeat
            before = connection.loop.time()
            silence = connection.loop.time() - connection.last_heard
            if connection.paused:
                connection.write(part(Part.PING))  # this side does not listen, and says that it is there
            elif silence > 3 * self._heartbeat and not late:  # after a pause nothing can have been heard
                log.warning("the broker is silent; its connection is given up")
                connection.abort()
                await connection.gone
            elif silence > self._heartbeat and not connection.gone.done():
                connection.write(part(Part.PING))

    async def _reconnect(self) -> None:
        """Go round until a broker takes this client; `NotAdmitted` if all of them will never."""
        wait = FIRST_RETRY
        while True:
            problems: list[ConnectionFailed] = []
            for address in self._addresses:
                try:
                    await self._connect(address)
                except ConnectionFailed as error:
                    log.info("%s: %s", address, error)
                    problems.append(error)
                    continue
                self.reconnects += 1
                # The broker that is connected now is asked first the next time.
                self._addresses.remove(address)
                self._addresses.insert(0, address)
                return
            if all(isinstance(problem, NotAdmitted) and not problem.retry for problem in problems):
                raise problems[0]
            await asyncio.sleep(wait * random.uniform(0.5, 1.0))  # noqa: S311 - jitter, not a secret
            wait = min(wait * 2, LAST_RETRY)

    def _fail(self, error: ConnectionFailed) -> None:
        self.failure = error
        self.on_failure(error)
