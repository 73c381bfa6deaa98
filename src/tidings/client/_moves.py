"""The moves of a client from broker to broker, told when each of them is over.

Theory of operation
-------------------
A move begins when the client is let in by another broker than the last one that let it in, in the same process. It is
over when all subscriptions have settled there, and the broker says that everything has been sent that they had missed
(`tidings.mobility.Arrivals`); so the figures of a move are final. One that is interrupted by the next is told as it is,
incomplete. A broker of an older version cannot say; then a move is over when everything has settled, incomplete.

What counts as missed was published before the client arrived, by the clocks of the brokers: the epoch under which the
new broker hosts the client is the time at which it let it in.
"""

from __future__ import annotations

import asyncio
import weakref
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from tidings.broker import LocalBroker
from tidings.wire import (
    ARRIVALS,
    CatchingUp,
    CaughtUp,
    Deliver,
    Extension,
    Frame,
    Welcome,
    WireError,
    pack,
    read_arrival,
)

from ._uplink import Uplink

MAX_MOVES = 1_000
"""The most moves that wait for whoever iterates over them; at the limit the oldest goes."""


@dataclass(frozen=True, slots=True)
class Move:
    """A client has gone from one broker to another."""

    old: str
    """The broker that it has left."""
    new: str
    scheme: str
    """How what it had missed has come: "proactive" if a copy had it ready, "origins" if the brokers where it was
    published were asked."""
    missed: int
    """How many notifications have come that were published before it arrived."""
    pause: float
    """Seconds from the last sign of life of the old broker, or from when that was left on purpose, until everything
    that was missed had come."""
    complete: bool = True
    """Whether everything has come: False if an origin still owes something after ten seconds, if the client has moved
    on before, or if the broker is of a version that cannot tell."""


@dataclass(slots=True)
class _Open:
    """A move that is not over."""

    old: str
    new: str
    since: float
    arrived: int
    """By the clock of the new broker, in microseconds since 1970 UTC."""
    answers: bool
    """Whether that can say when everything has come."""
    number: int
    asked: bool = False
    missed: int = 0


class Moves:
    """The moves of one client. Iterate over it with `async for`: each iteration gets those that end from then on."""

    def __init__(self, local: LocalBroker, link: Uplink) -> None:
        self._local = local
        self._open: _Open | None = None
        self._traffic = link.traffic
        self._receive: Callable[[Frame], None] = link.traffic.receive
        self._streams: weakref.WeakSet[_Stream] = weakref.WeakSet()
        self._numbers = 0
        self._ended = False
        link.on_moved = self._begin

    def __aiter__(self) -> AsyncIterator[Move]:
        stream = _Stream(self._ended)
        self._streams.add(stream)
        return stream

    def end(self) -> None:
        """The client has ended: so has every iteration, after what it has not taken yet."""
        self._over(complete=False)
        self._ended = True
        for stream in self._streams:
            stream.end()

    # --- what the link and the local broker tell ------------------------------------------------------

    def _begin(self, old: str, welcome: Welcome, since: float) -> None:
        """Another broker has let this client in, which announces its subscriptions now."""
        self._over(complete=False)
        self._numbers += 1
        self._open = _Open(old, welcome.name, since, welcome.attached, ARRIVALS in welcome.features, self._numbers)
        self._receive, self._traffic.receive = self._traffic.receive, self._count
        self.look()

    def _count(self, frame: Frame) -> None:
        """A frame has come while a move is under way."""
        message, move = frame.message, self._open
        if move is None or type(message) is not Deliver or message.envelope.identity.published_at >= move.arrived:
            self._receive(frame)
            return
        repeated = self._local.duplicates
        self._receive(frame)
        move.missed += self._local.duplicates == repeated

    def look(self) -> None:
        """A subscription may have settled."""
        move = self._open
        if move is None or move.asked or self._local.unconfirmed:
            return
        move.asked = True
        if move.answers:
            self._traffic.send(Frame(Extension(ARRIVALS, pack(CatchingUp(move.number)))))
        else:
            self._over(complete=False)

    def heard(self, body: bytes) -> None:
        """The broker says that everything has come."""
        try:
            told = read_arrival(body)
        except WireError:
            return  # of another version
        if isinstance(told, CaughtUp) and self._open is not None and told.number == self._open.number:
            self._over(complete=told.complete, scheme=told.scheme)

    def _over(self, *, complete: bool, scheme: str = "origins") -> None:
        move, self._open = self._open, None
        if move is None:
            return
        self._traffic.receive = self._receive
        pause = asyncio.get_running_loop().time() - move.since
        for stream in self._streams:
            stream.put(Move(move.old, move.new, scheme, move.missed, pause, complete))


class _Stream(AsyncIterator[Move]):
    """One iteration over the moves of a client."""

    def __init__(self, ended: bool) -> None:
        self._queue: deque[Move] = deque(maxlen=MAX_MOVES)
        self._ended = ended
        self._news = asyncio.Event()

    def put(self, move: Move) -> None:
        self._queue.append(move)
        self._news.set()

    def end(self) -> None:
        self._ended = True
        self._news.set()

    async def __anext__(self) -> Move:
        while not self._queue:
            if self._ended:
                raise StopAsyncIteration
            self._news.clear()
            await self._news.wait()
        return self._queue.popleft()
