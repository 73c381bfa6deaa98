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
from collections.abc import Callable, Mapping
from typing import TypeVar

from tidings.wire import (
    BEATS,
    SERIALISERS,
    TAKEN_OVER,
    UNREADABLE,
    VERSION,
    Frame,
    Hello,
    Part,
    PeerRole,
    Publish,
    Reject,
    Serialiser,
    Session,
    Welcome,
    WireError,
    ack,
    ack_number,
    data_parts,
    decode_words,
    part,
)

from ._address import Address, ConnectionFailed, NotAdmitted, TakenOver
from ._callbacks import MISTAKES
from ._connection import Connection
from ._crossing import Crossing
from ._settings import OnDisconnect, OnReconnect

_T = TypeVar("_T")

log = logging.getLogger("tidings.client")

GOODBYE = 0.5
"""Seconds for which a client that leaves waits until its broker has let it go, and its name is free."""
FIRST_RETRY = 0.05
"""Seconds before the first new attempt; each further round waits twice as long, with jitter."""
OFFLINE_SOON = 5.0
"""Seconds without a broker after which the log says so."""
OFFLINE_AGAIN = 60.0
"""Seconds after which it says so again."""
LAST_RETRY = 5.0
"""The most seconds between two rounds of attempts."""
OUTBOX = 64
"""Publications that are encoded together at most."""
_DATA = int(Part.DATA)  # members of an enum compare slowly
ACK_DELAY = 0.02
"""Seconds after which what arrived is acknowledged at the latest."""


class Uplink:
    """The way of one client to the service."""

    def __init__(
        self,
        name: str,
        addresses: list[Address],
        *,
        token: str | None,
        attributes: bytes = b"",
        tls: ssl.SSLContext | None,
        serialiser: str,
        renewed: Callable[[Welcome], None],
        on_disconnect: OnDisconnect | None = None,
        on_reconnect: OnReconnect | None = None,
        take_over: bool = False,
        silence: float | None = None,
    ) -> None:
        self.name = name
        """What this client is called; "" until a broker has given it a name, if it was given none."""
        self._addresses = addresses
        self._token = token
        self._attributes = attributes
        self.tls = tls
        self._offered = serialiser
        self._renewed = renewed
        self._on_disconnect = on_disconnect
        self._on_reconnect = on_reconnect
        self._take_over = take_over
        self.crossing = Crossing(self)
        """Goes to another broker before this one stops."""
        self._moving = False
        """Whether the connection is given up because the application wants another one."""
        self.attached = 0
        """The epoch under which the client was attached last."""
        self._serialiser: Serialiser = SERIALISERS[serialiser]
        self._session: Session | None = None
        self._outbox: list[Frame] = []
        self._connection: Connection | None = None
        self._ack_timer: asyncio.TimerHandle | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._silence = silence
        self._hurry = asyncio.Event()
        """Set when the application wants a connection now."""
        self._parted: float | None = None
        """Since when there is no broker, if there was one."""
        self._here = asyncio.Event()
        """Set when there is a connection, or will never be one."""
        self._paused = False
        self.flowing = False
        """Whether more may be sent; if not, wait for `flow`."""
        self._moved = asyncio.Event()
        self.frames = 0
        """How many frames have come."""
        self._acks = 0
        """How often the broker has acknowledged something."""
        self._acked = asyncio.Event()
        self.reconnects = 0
        self.broker = ""
        self.failure: ConnectionFailed | None = None
        """Why the link has ended for good."""
        self.receive: Callable[[Frame], None] = lambda frame: None
        """Called with each frame that has come."""
        self.on_failure: Callable[[ConnectionFailed], None] = lambda error: None
        self.on_lost: Callable[[], None] = lambda: None
        """Called when a connection is lost."""
        self.on_resumed: Callable[[], None] = lambda: None
        """Called when the session goes on over another one."""
        self.features: tuple[str, ...] | None = None
        """What the broker can do, as its last welcome said; None: there was none yet."""
        self.on_moved: Callable[[str, Welcome, float], None] = lambda old, welcome, since: None
        """Called when another broker than the last one has let this client in: the old one, and since when that was
        gone."""

    @property
    def connection(self) -> Connection | None:
        """The connection that there is now."""
        return self._connection

    def elsewhere(self) -> list[Address]:
        """The addresses of this client but that of its connection."""
        there = self._connection.address if self._connection is not None else None
        return [one for one in self._addresses if one != there]

    @property
    def connected(self) -> bool:
        """Whether there is a connection now."""
        return self._connection is not None

    async def open(self, wait: float) -> None:
        """Connect for the first time: every address once, and again for as long as may be; then `ConnectionFailed`."""
        loop = asyncio.get_running_loop()
        deadline, pause = loop.time() + wait, FIRST_RETRY
        while problems := await self._tried():
            if self.failure is not None:
                raise self.failure
            if all(isinstance(problem, NotAdmitted) and not problem.retry for problem in problems.values()):
                raise _all_of(problems, 0)
            left = deadline - loop.time()
            if left <= 0:
                raise _all_of(problems, wait)
            if pause == FIRST_RETRY:
                log.warning("no broker is there yet, waiting for %g seconds: %s", wait, _told(problems))
            pause = await _pause(min(pause, left))
        self._keeper = asyncio.create_task(self._keep(), name=f"tidings link of {self.name}")

    async def _tried(self) -> dict[Address, ConnectionFailed]:
        """Try every address once, until one takes this client; otherwise what was wrong with each."""
        problems: dict[Address, ConnectionFailed] = {}
        for address in list(self._addresses):
            try:
                await self._connect(address)
            except ConnectionFailed as error:
                problems[address] = error
            else:
                return {}
        return problems

    def carry_on(self, name: str, attached: int, broker: str) -> None:
        """Come as the client that an earlier process was."""
        self.name, self.attached, self.broker = name, attached, broker

    async def move(self, address: Address) -> None:
        """Go to another broker, which is tried first from now on; `ConnectionFailed` if it was another one in the end.

        Returns when there is a connection. What was under way is handed over again, and fetched.
        """
        await self.crossing.stop()
        self._addresses = [address, *(one for one in self._addresses if one != address)]
        connection, self._connection = self._connection, None
        self.flowing = False
        self._moving = connection is not None
        if connection is not None:
            self._parted = connection.loop.time()
            connection.abort()
            await connection.gone
        await self.flow()
        if self.failure is not None:
            raise self.failure
        if self._addresses[0] != address:
            raise ConnectionFailed(
                f"{address} did not let the client '{self.name}' in; it is connected to broker '{self.broker}' now"
            )

    async def check(self) -> bool:
        """Find out at once whether the connection works, and open another if not; return whether it does.

        Without a connection, the brokers are tried at once. Returns when there is one.
        """
        connection = self._connection
        if connection is not None and await connection.answers():
            return True
        self._hurry.set()
        while (self._connection is connection or self._connection is None) and self.failure is None:
            self._here.clear()
            await self._here.wait()
        if self.failure is not None:
            raise self.failure
        return False

    async def close(self, reason: ConnectionFailed) -> None:
        """Say goodbye and end everything; whoever still wants something of this link hears the reason."""
        self._end(reason)
        await self.crossing.stop()
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)
        if self._ack_timer is not None:
            self._ack_timer.cancel()
        self.flush()
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.write(part(Part.BYE))
            connection.unpause()
            await asyncio.wait((connection.gone,), timeout=GOODBYE)
            connection.close()
            await connection.gone

    # --- frames ---------------------------------------------------------------------------------------

    def send(self, frame: Frame) -> None:
        """Send a frame; without a connection it waits in the session's window.

        Publications of one turn of the loop are encoded, noted and written together.
        """
        if type(frame.message) is Publish:
            outbox = self._outbox
            if not outbox:
                asyncio.get_running_loop().call_soon(self.flush)
            outbox.append(frame)
            if len(outbox) >= OUTBOX:
                self.flush()
        else:
            self.flush()
            self._transmit([frame])  # if it cannot be encoded, because of its filter, that is an error of the caller

    def flush(self) -> None:
        """Send what this turn has published."""
        if self._outbox:
            frames, self._outbox = self._outbox, []
            self._transmit(frames)

    def _transmit(self, frames: list[Frame]) -> None:
        if self._session is None:
            return
        encode = self._serialiser.encode
        data = b"".join(data_parts(map(encode, frames)))
        self._session.sent(data, len(frames))
        if self._session.full:
            self.flowing = False
        if self._connection is not None:
            self._connection.write(data)

    async def flow(self) -> None:
        """Wait until more may be sent, or the link has ended."""
        while not self.flowing and self.failure is None:
            self._moved.clear()
            await self._moved.wait()

    def look(self) -> None:
        """Find out whether more may be sent."""
        connection, session = self._connection, self._session
        self.flowing = (
            connection is not None
            and not connection.clogged
            and session is not None
            and not session.full
            and self.failure is None
            and not self.crossing.holds
        )
        if self.flowing:
            self._moved.set()

    def give_up(self, reason: ConnectionFailed) -> None:
        """The client is closed before it was open."""
        self.failure = self.failure or reason

    def _end(self, failure: ConnectionFailed) -> None:
        """Nothing more will be sent: whoever waits to send hears it."""
        self.failure = self.failure or failure
        self.flowing = False
        self._moved.set()
        self._here.set()

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

    def taken(self, connection: Connection) -> None:
        """Whether the broker takes what is sent may have changed."""
        if connection is self._connection:
            self.look()
            if not connection.clogged:
                self._acknowledge()

    def received(self, connection: Connection, parts: list[tuple[int, bytes]]) -> None:
        """Parts of a read."""
        session = self._session
        if connection is not self._connection or session is None:
            return
        read, receive = self._serialiser.read, self.receive
        arrived = 0
        for kind, payload in parts:
            if kind == _DATA:
                arrived += 1
                try:
                    frame = read(payload)
                except UNREADABLE as error:
                    raise WireError(f"not a frame: {error}") from None
                receive(frame)
            elif kind == Part.ACK:
                session.acknowledge(ack_number(payload))
                self._acks += 1
                self._acked.set()
                self.look()
            elif kind == Part.PING:
                connection.pong()
            elif kind == Part.REJECT:
                connection.farewell = decode_words(payload, Reject)
            elif kind == Part.BYE:
                self._session = None
                connection.close()
        if arrived:
            self.frames += arrived
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

    async def handed_over(self, connection: Connection) -> None:
        """Wait until the broker has everything that it was sent, or the connection is another one or gone."""
        session = self._session
        while session is self._session and session is not None and session.waiting:
            self._acked.clear()
            if connection.gone.done():
                return
            await self._acked.wait()

    def hello(self, *, fresh: bool = False) -> Hello:
        """What this client says first; `fresh`: to a broker that shall not go on with its session."""
        session = None if fresh else self._session
        return Hello(
            (VERSION,),
            PeerRole.CLIENT,
            self.name,
            serialisers=(self._offered,),
            session=session.id if session is not None else None,
            received=session.received if session is not None else 0,
            token=self._token,
            attributes=self._attributes,
            attached=self.attached,
            last=self.broker,
            take_over=self._take_over and not self.attached,
            silence=self._silence or 0.0,
            evacuated=fresh,
        )

    async def _connect(self, address: Address) -> None:
        connection = Connection(self, address)
        try:
            await connection.dial(self.tls, self.hello())
        finally:
            if connection is not self._connection:
                connection.give_up()

    def welcomed(self, connection: Connection, welcome: Welcome) -> None:
        """A broker lets this client in."""
        own = welcome.heartbeat if self._silence is None else self._silence / BEATS
        connection.watch(min(own, welcome.heartbeat))  # a broker that knows nothing of silences says its own
        self._serialiser = SERIALISERS[welcome.serialiser]
        left, self._connection = self._connection, connection
        self._moving = False
        # The broker that is connected now is asked first the next time.
        self._addresses = [connection.address, *(one for one in self._addresses if one != connection.address)]
        if self._paused:
            connection.pause()
        old, self.broker = self.broker, welcome.name
        since, self._parted = self._parted, None
        if left is not None:
            left.abort()
            self.reconnects += 1
            since = left.loop.time()
        self.attached = welcome.attached
        self.features = welcome.features
        self.name = self.name or welcome.client  # from now on, at every broker
        if welcome.resumed and self._session is not None:
            for data in self._session.resume(welcome.received):
                connection.write(data)
            self.on_resumed()
        else:
            self._session = Session(welcome.session)
            self._outbox.clear()  # the local broker knows what of it must be sent again
            self._renewed(welcome)
        self.look()
        if since is not None and old != self.broker:
            self.on_moved(old, welcome, since)
        self._here.set()

    async def _keep(self) -> None:
        """Watch the connection; open another when it is lost: at once, if that one was good for anything."""
        wait = 0.0
        lost = 0.0
        while True:
            connection = self._connection
            if connection is not None:
                heard, began = self.frames + self._acks, connection.loop.time()
                await asyncio.wait([connection.gone])
                lost = connection.loop.time()
                self._acked.set()
                await self.crossing.over()
                if self._connection is not connection and self._connection is not None:
                    continue  # the client had gone to another broker before
                good = self.frames + self._acks > heard or connection.loop.time() > began + LAST_RETRY
                wait = 0.0 if good else max(FIRST_RETRY, wait)
                if self._connection is connection:
                    self._connection = None
                if self._parted is None:
                    silent = connection.vigil is not None and connection.vigil.gave_up
                    self._parted = connection.last_heard if silent else lost
                self._disconnected(connection)
                if connection.farewell is not None and not connection.farewell.retry and not self._is_own(connection):
                    self._fail(_end_of(connection.farewell))
                    return
            self.look()
            wait = await self._back_off(wait)
            try:
                await self._reconnect()
            except NotAdmitted as error:
                log.warning("no broker takes the client '%s' back: %s", self.name, error)
                self._fail(error)
                return
            self._reconnected(asyncio.get_running_loop().time() - lost)

    def _is_own(self, connection: Connection) -> bool:
        """Whether the broker may have given this client away because it has said hello to another one itself."""
        farewell = connection.farewell
        return connection is self.crossing.greeted and farewell is not None and farewell.code == TAKEN_OVER

    def _disconnected(self, connection: Connection) -> None:
        """A connection is lost: tell the log and the application."""
        if self._moving:
            self._moving = False
            log.info("the client '%s' leaves broker '%s' for %s", self.name, self.broker, self._addresses[0])
            return
        farewell = connection.farewell
        why = "the connection was lost" if farewell is None else farewell.reason
        after = "it connects again" if farewell is None or farewell.retry else "it does not connect again"
        error = ConnectionFailed(f"the client '{self.name}' has lost broker '{self.broker}': {why}; {after}")
        log.warning("%s", error)
        self.on_lost()
        self._tell("on_disconnect", self._on_disconnect, error)

    def _reconnected(self, seconds: float) -> None:
        log.warning("the client '%s' is connected to broker '%s' after %.1f seconds", self.name, self.broker, seconds)
        self._tell("on_reconnect", self._on_reconnect, self.broker)

    def _tell(self, name: str, callback: Callable[[_T], object] | None, what: _T) -> None:
        if callback is None:
            return
        try:
            callback(what)
        except MISTAKES:  # a mistake of the application must not cost it the connection
            log.exception("`%s` failed; the client '%s' goes on", name, self.name)

    async def _reconnect(self) -> None:
        """Go round until a broker takes this client; `NotAdmitted` if all of them will never."""
        wait, began = FIRST_RETRY, asyncio.get_running_loop().time()
        report = began + OFFLINE_SOON
        while True:
            problems: list[ConnectionFailed] = []
            for address in list(self._addresses):
                try:
                    await self._connect(address)
                except TakenOver:
                    raise  # at whichever broker: another process uses the name
                except ConnectionFailed as error:
                    log.info("%s: %s", address, error)
                    problems.append(error)
                    continue
                self.reconnects += 1
                return
            if all(isinstance(problem, NotAdmitted) and not problem.retry for problem in problems):
                raise problems[0]
            now = asyncio.get_running_loop().time()
            if now >= report:
                report = now + OFFLINE_AGAIN
                why = "; ".join(map(str, problems))
                text = "the client '%s' has had no broker for %.0f seconds, and its calls wait: %s"
                log.warning(text, self.name, now - began, why)
            wait = await self._back_off(wait)

    async def _back_off(self, seconds: float) -> float:
        """Wait about so long, unless the application is in a hurry; how long to wait the next time."""
        try:
            async with asyncio.timeout(_jittered(seconds)):
                await self._hurry.wait()
        except TimeoutError:
            return min(seconds * 2, LAST_RETRY)
        self._hurry.clear()
        return FIRST_RETRY

    def _fail(self, error: ConnectionFailed) -> None:
        self._end(error)
        self.on_failure(error)


def _end_of(farewell: Reject) -> ConnectionFailed:
    """Why a broker has ended a connection for good."""
    if farewell.code != TAKEN_OVER:
        return ConnectionFailed(farewell.reason)
    error = TakenOver(farewell.reason)
    error.code = farewell.code
    return error


def _told(problems: Mapping[Address, ConnectionFailed]) -> str:
    return "; ".join(f"{address}: {error}" for address, error in problems.items())


def _all_of(problems: Mapping[Address, ConnectionFailed], waited: float) -> ConnectionFailed:
    """One error for all that was tried."""
    if denials := [error for error in problems.values() if isinstance(error, NotAdmitted)]:
        denied = NotAdmitted(_told(problems))
        denied.retry, denied.code = any(error.retry for error in denials), denials[0].code
        return denied
    after = f" for {waited:g} seconds" if waited else ""
    if all("; " in str(error) for error in problems.values()):
        return ConnectionFailed(f"{_told(problems)}{after}")  # each says what to do
    return ConnectionFailed(f"{_told(problems)}{after}. Is the server running? `tidings serve` starts one here.")


async def _pause(seconds: float) -> float:
    """Wait about so long; how long to wait the next time."""
    await asyncio.sleep(_jittered(seconds))
    return min(seconds * 2, LAST_RETRY)


def _jittered(seconds: float) -> float:
    return seconds * random.uniform(0.5, 1.0)  # noqa: S311 - jitter, not a secret
