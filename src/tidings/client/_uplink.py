"""The client's link: it finds a broker, and another one when that is lost.

A cut connection is opened again, to the same broker first and then to the others in turn, with jittered back-off. If
the broker still knows the session it goes on where it was. If not, or if it is another broker, the local broker
announces everything anew and says how far it has come. What goes over the connections is in `_traffic`.
"""

from __future__ import annotations

import asyncio
import logging
import random
import ssl
from collections.abc import Callable, Mapping
from typing import TypeVar

from tidings.wire import BEATS, TAKEN_OVER, VERSION, Hello, PeerRole, Reject, Welcome

from ._address import Address, ConnectionFailed, NotAdmitted, TakenOver
from ._callbacks import MISTAKES
from ._connection import Connection
from ._crossing import Crossing
from ._settings import OnDisconnect, OnReconnect
from ._traffic import Traffic

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
LATE_HELLO = 60.0
"""Seconds for which a broker that has not answered a hello may still come to read it."""
LAST_RETRY = 5.0
"""The most seconds between two rounds of attempts."""


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
        overlap: bool = False,
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
        self.traffic = Traffic(serialiser)
        """What goes over the connections."""
        self.crossing = Crossing(self)
        """Goes to another broker before this one stops."""
        self._moving = False
        """Whether the connection is given up because the application wants another one."""
        self.attached = 0
        """The epoch under which the client was attached last."""
        self._keeper: asyncio.Task[None] | None = None
        self._silence = silence
        self._overlap = overlap
        """Whether what the old broker sends is taken, too, when the client has entered the next one."""
        self._hurry = asyncio.Event()
        """Set when the application wants a connection now."""
        self._unanswered: float | None = None
        """When a hello was given up that a broker may still read."""
        self._parted: float | None = None
        """Since when there is no broker, if there was one."""
        self._here = asyncio.Event()
        """Set when there is a connection, or will never be one."""
        self.reconnects = 0
        self.broker = ""
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
    def failure(self) -> ConnectionFailed | None:
        """Why the link has ended for good, if it has."""
        return self.traffic.failure

    def elsewhere(self) -> list[Address]:
        """The addresses of this client but that of its connection."""
        there = self.traffic.connection.address if self.traffic.connection is not None else None
        return [one for one in self._addresses if one != there]

    @property
    def connected(self) -> bool:
        """Whether there is a connection now."""
        return self.traffic.connection is not None

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
        if self._overlap and (there := self.traffic.connection) is not None:
            if await self.crossing.to(address):
                return
            if self.traffic.connection is there and not there.gone.done():
                stays = f"it is still connected to broker '{self.broker}'"
                raise ConnectionFailed(f"{address} did not let the client '{self.name}' in; {stays}")
        self._addresses = [address, *(one for one in self._addresses if one != address)]
        connection = self.traffic.leave()
        self.traffic.look()
        self._moving = connection is not None
        if connection is not None:
            self._parted = connection.loop.time()
            connection.abort()
            await connection.gone
        await self.traffic.flow()
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
        connection = self.traffic.connection
        if connection is not None and await connection.answers():
            return True
        self._hurry.set()
        while self.traffic.connection in (connection, None) and self.failure is None:
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
        self.traffic.rest()
        if (connection := self.traffic.farewell()) is not None:
            await asyncio.wait((connection.gone,), timeout=GOODBYE)
            connection.close()
            await connection.gone

    def give_up(self, reason: ConnectionFailed) -> None:
        """The client is closed before it was open."""
        self.traffic.failure = self.failure or reason

    def _end(self, failure: ConnectionFailed) -> None:
        self.traffic.end(failure)
        self._here.set()

    # --- connections ----------------------------------------------------------------------------------

    def hello(self, *, fresh: bool = False, evacuated: bool = False) -> Hello:
        """What this client says first; `fresh`: to a broker that shall not go on with its session."""
        traffic, resumes = self.traffic, not fresh
        return Hello(
            (VERSION,),
            PeerRole.CLIENT,
            self.name,
            serialisers=(self._offered,),
            session=traffic.session if resumes else None,
            received=traffic.received if resumes else 0,
            token=self._token,
            attributes=self._attributes,
            attached=self.attached,
            last=self.broker,
            take_over=self._take_over and not self.attached,
            silence=self._silence or 0.0,
            evacuated=evacuated,
            overlap=fresh and self._overlap,
        )

    async def _connect(self, address: Address) -> None:
        connection = Connection(self, address)
        try:
            await connection.dial(self.tls, self.hello())
        finally:
            if connection is not self.traffic.connection:
                if connection.greeted and connection.farewell is None:
                    self._unanswered = connection.loop.time()
                connection.give_up()

    def welcomed(self, connection: Connection, welcome: Welcome) -> None:
        """A broker lets this client in."""
        own = welcome.heartbeat if self._silence is None else self._silence / BEATS
        connection.watch(min(own, welcome.heartbeat))  # a broker that knows nothing of silences says its own
        left = self.traffic.carry(connection, welcome.serialiser)
        self._moving = False
        # The broker that is connected now is asked first the next time.
        self._addresses = [connection.address, *(one for one in self._addresses if one != connection.address)]
        old, self.broker = self.broker, welcome.name
        since, self._parted = self._parted, None
        if left is not None:
            if self._overlap and left.place == connection.place:  # filters mean the same at both
                self.traffic.drain(left)
            else:
                left.abort()
            self.reconnects += 1
            since = left.loop.time()
        self.attached = welcome.attached
        self.features = welcome.features
        self.name = self.name or welcome.client  # from now on, at every broker
        if self.traffic.goes_on(welcome):
            self.on_resumed()
        else:
            self._renewed(welcome)
        self.traffic.look()
        if since is not None and old != self.broker:
            self.on_moved(old, welcome, since)
        self._here.set()

    async def _keep(self) -> None:
        """Watch the connection; open another when it is lost: at once, if that one was good for anything."""
        traffic, wait, lost = self.traffic, 0.0, 0.0
        while True:
            connection = traffic.connection
            if connection is not None:
                heard, began = traffic.heard, connection.loop.time()
                await asyncio.wait([connection.gone])
                lost = connection.loop.time()
                traffic.wake()
                await self.crossing.over()
                if traffic.connection not in (connection, None):
                    continue  # the client had gone to another broker before
                good = traffic.heard > heard or connection.loop.time() > began + LAST_RETRY
                wait = 0.0 if good else max(FIRST_RETRY, wait)
                if traffic.connection is connection:
                    traffic.leave()
                if self._parted is None:
                    silent = connection.vigil is not None and connection.vigil.gave_up
                    self._parted = connection.last_heard if silent else lost
                end = self._end_by(connection)
                self._disconnected(connection, ends=end is not None)
                if end is not None:
                    self._fail(end)
                    return
            traffic.look()
            wait = await self._back_off(wait)
            try:
                await self._reconnect()
            except NotAdmitted as error:
                log.warning("no broker takes the client '%s' back: %s", self.name, error)
                self._fail(error)
                return
            self._reconnected(asyncio.get_running_loop().time() - lost)

    def _end_by(self, connection: Connection) -> ConnectionFailed | None:
        """Why the loss of a connection is the end of this client; None: it connects again."""
        farewell = connection.farewell
        if farewell is None or farewell.retry:
            return None
        return None if farewell.code == TAKEN_OVER and self._is_own(connection) else _end_of(farewell)

    def _is_own(self, connection: Connection) -> bool:
        """Whether the broker may have given this client away because it has said hello to another one itself.

        A hello that was given up may be read late, and counts once: if another process has the name, that one answers.
        """
        since, self._unanswered = self._unanswered, None
        late = since is not None and connection.loop.time() < since + LATE_HELLO
        return late or connection is self.crossing.greeted

    def _disconnected(self, connection: Connection, *, ends: bool) -> None:
        """A connection is lost: tell the log and the application."""
        if self._moving:
            self._moving = False
            log.info("the client '%s' leaves broker '%s' for %s", self.name, self.broker, self._addresses[0])
            return
        farewell = connection.farewell
        why = "the connection was lost" if farewell is None else farewell.reason
        after = "it will not reconnect" if ends else "reconnecting"
        error = ConnectionFailed(f"the client '{self.name}' lost broker '{self.broker}': {why}; {after}")
        log.warning("%s", error)
        self.on_lost()
        self._tell("on_disconnect", self._on_disconnect, error)

    def _reconnected(self, seconds: float) -> None:
        log.warning(
            "the client '%s' is connected again, to broker '%s', after %.1f seconds", self.name, self.broker, seconds
        )
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
                text = "the client '%s' has been without a broker for %.0f seconds, and its calls wait: %s"
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
