"""The traffic of a client's link: the frames of one session, over whichever connection carries them now.

What the application sends waits in the window of the session until the broker acknowledges it. What comes is handed to
`receive`, frame by frame, and acknowledged together. Whether more may be sent is one flag, `flowing`, which is asked
before each publication; `look` works it out again whenever something changes that it depends on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from tidings.wire import (
    MSGPACK,
    SERIALISERS,
    UNREADABLE,
    Deliver,
    Frame,
    Parser,
    Part,
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
    part_size,
    takes_deliveries,
)

if TYPE_CHECKING:
    from ._address import ConnectionFailed
    from ._connection import Connection

OUTBOX = 64
"""Publications that are encoded together at most."""
LONGEST_OVERLAP = 2.0
"""Seconds after which a connection that was left is closed, if its broker has not ended it."""
ACK_DELAY = 0.02
"""Seconds after which what arrived is acknowledged at the latest."""
MOST_SINGLE = 64
"""Frames that are read one by one at most before it is tried again whether many can be taken together."""
_DATA = int(Part.DATA)  # members of an enum compare slowly


class Traffic:
    """What one client and its broker send each other."""

    def __init__(self, serialiser: str) -> None:
        self._serialiser: Serialiser = SERIALISERS[serialiser]
        self._session: Session | None = None
        self._outbox: list[Frame] = []
        self.connection: Connection | None = None
        """The connection that there is now."""
        self._left_with: Serialiser = self._serialiser
        """What the connection of before spoke."""
        self._drained: Connection | None = None
        """A connection that was left, and is read until its broker ends it."""
        self._ack_timer: asyncio.TimerHandle | None = None
        self._paused = False
        self._held = False
        """Whether what is published waits, because the client is about to go to another broker."""
        self.flowing = False
        """Whether more may be sent; if not, wait for `flow`."""
        self._moved = asyncio.Event()
        self.frames = 0
        """How many frames have come."""
        self._acks = 0
        """How often the broker has acknowledged something."""
        self._acked = asyncio.Event()
        self.failure: ConnectionFailed | None = None
        """Why nothing will be sent any more."""
        self.receive: Callable[[Frame], None] = lambda frame: None
        """Called with each frame that has come."""
        self._taker: tuple[Callable[[Frame], None], Callable[[bytes, int], tuple[int, int]]] | None = None

    def hand_to(self, receive: Callable[[Frame], None], take: Callable[[bytes, int], tuple[int, int]]) -> None:
        """Call `receive` with each frame that has come, or `take` with bytes in which many may be.

        `take` says how far it came, and how many frames these were. It is called while nothing else is put in the place
        of `receive`.
        """
        self.receive = receive
        self._taker = receive, take

    # --- sessions and connections ---------------------------------------------------------------------

    @property
    def session(self) -> str | None:
        """The id of the session, if one has begun."""
        return self._session.id if self._session is not None else None

    @property
    def received(self) -> int:
        """The number of the last part that has come in this session."""
        return self._session.received if self._session is not None else 0

    @property
    def waiting(self) -> int:
        """How many frames the broker has not acknowledged yet."""
        return self._session.waiting if self._session is not None else 0

    @property
    def heard(self) -> int:
        """A number that grows with everything that comes: whether a connection was good for anything."""
        return self.frames + self._acks

    def carry(self, connection: Connection, serialiser: str) -> Connection | None:
        """Go on over this connection; return the one of before, if there was one."""
        self._left_with, self._serialiser = self._serialiser, SERIALISERS[serialiser]
        left, self.connection = self.connection, connection
        if self._paused:
            connection.pause()
        return left

    def drain(self, connection: Connection) -> None:
        """Take the notifications that a connection still brings which was left, until its broker ends it."""
        self._give_up_drained()
        self._drained = connection
        if not connection.gone.done():
            connection.gone.set_result(None)  # whoever watched it watches the new one from now on
        connection.loop.call_later(LONGEST_OVERLAP, connection.abort)

    def _give_up_drained(self) -> None:
        if self._drained is not None:
            self._drained.abort()
            self._drained = None

    def leave(self) -> Connection | None:
        """Go on without a connection; return the one of before."""
        connection, self.connection = self.connection, None
        return connection

    def goes_on(self, welcome: Welcome) -> bool:
        """Send again what the broker misses of this session; return False if another session has begun."""
        connection, session = self.connection, self._session
        if welcome.resumed and session is not None and connection is not None:
            for data in session.resume(welcome.received):
                connection.write(data)
            return True
        self._session = Session(welcome.session)
        self._outbox.clear()  # the local broker knows what of it must be sent again
        return False

    def end(self, failure: ConnectionFailed) -> None:
        """Nothing more will be sent: whoever waits to send hears it."""
        self.failure = self.failure or failure
        self.flowing = False
        self._moved.set()

    def rest(self) -> None:
        """Send what waits, and acknowledge nothing more by itself."""
        if self._ack_timer is not None:
            self._ack_timer.cancel()
        self._give_up_drained()
        self.flush()

    # --- what goes ------------------------------------------------------------------------------------

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
        if self.connection is not None:
            self.connection.write(data)

    async def flow(self) -> None:
        """Wait until more may be sent, or nothing ever will be."""
        while not self.flowing and self.failure is None:
            self._moved.clear()
            await self._moved.wait()

    def look(self) -> None:
        """Find out whether more may be sent."""
        connection, session = self.connection, self._session
        self.flowing = (
            connection is not None
            and not connection.clogged
            and session is not None
            and not session.full
            and self.failure is None
            and not self._held
        )
        if self.flowing:
            self._moved.set()

    def hold(self) -> None:
        """Let what is published wait from now on, until `release`."""
        self._held = True
        self.flowing = False

    def release(self) -> None:
        """Let what is published go on."""
        self._held = False
        self.look()

    async def handed_over(self, connection: Connection) -> None:
        """Wait until the broker has everything that it was sent, or the connection is another one or gone."""
        session = self._session
        while session is self._session and session is not None and session.waiting:
            self._acked.clear()
            if connection.gone.done():
                return
            await self._acked.wait()

    def wake(self) -> None:
        """Let `handed_over` look at its connection again."""
        self._acked.set()

    def takes(self, data: bytes, limit: int) -> bool:
        """Whether these bytes, which begin with a part, are for `read`."""
        return self._taker is not None and self._serialiser is MSGPACK and takes_deliveries(data, limit)

    # --- what comes -----------------------------------------------------------------------------------

    def pause(self) -> None:
        """Stop reading: the application does not keep up."""
        self._paused = True
        for connection in (self.connection, self._drained):
            if connection is not None:
                connection.pause()

    def resume(self) -> None:
        """Read again."""
        self._paused = False
        for connection in (self.connection, self._drained):
            if connection is not None:
                connection.unpause()

    def taken(self, connection: Connection) -> None:
        """Find out whether the broker takes what is sent, which may have changed."""
        if connection is self.connection:
            self.look()
            if not connection.clogged:
                self._acknowledge()

    def came(self, connection: Connection, parts: list[tuple[int, bytes]]) -> None:
        """Handle the parts of a read."""
        session = self._session
        if connection is self._drained:
            self._take_late(connection, parts)
            return
        if connection is not self.connection or session is None:
            return
        self._arrived(connection, session, self._handle(connection, session, parts))

    def read(self, connection: Connection, data: bytes, parser: Parser) -> None:
        """Handle the parts in these bytes, of which some may be taken together."""
        session = self._session
        if connection is not self.connection or session is None:
            return
        at = arrived = each = 0
        while at < len(data):
            if self._taker is not None and self.receive is self._taker[0]:
                at, taken = self._taker[1](data, at)
                arrived += taken
                each = 0 if taken else 2 * each  # where nothing is taken it is not tried each time
                if at >= len(data):
                    break
            else:
                each = MOST_SINGLE
            upto = at
            each = min(max(each, 1), MOST_SINGLE)
            for _ in range(each):
                upto = min(len(data), upto + part_size(data, upto))
            parts, at = parser.feed(data[at:upto]), upto
            arrived += self._handle(connection, session, parts)
        self._arrived(connection, session, arrived)

    def _handle(self, connection: Connection, session: Session, parts: list[tuple[int, bytes]]) -> int:
        """Handle parts; return how many frames were among them."""
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
        return arrived

    def _arrived(self, connection: Connection, session: Session, arrived: int) -> None:
        if arrived:
            self.frames += arrived
            if session.arrived(arrived):
                self._acknowledge()
            elif self._ack_timer is None:
                self._ack_timer = connection.loop.call_later(ACK_DELAY, self._acknowledge)

    def _take_late(self, connection: Connection, parts: list[tuple[int, bytes]]) -> None:
        """Handle what a broker still sends that this client has left: notifications, and nothing else."""
        if self.connection is None or self.connection.gone.done():
            self._give_up_drained()  # it is nobody's client
            return
        for kind, payload in parts:
            if kind == _DATA:
                try:
                    frame = self._left_with.read(payload)
                except UNREADABLE as error:
                    raise WireError(f"not a frame: {error}") from None
                if type(frame.message) is Deliver:
                    self.receive(frame)
            elif kind == Part.PING:
                connection.pong()

    def _acknowledge(self) -> None:
        if self._ack_timer is not None:
            self._ack_timer.cancel()
            self._ack_timer = None
        if self._session is not None and self.connection is not None and not self.connection.clogged:
            number = self._session.tell()
            if number is not None:
                self.connection.write(ack(number))

    def farewell(self) -> Connection | None:
        """Say goodbye on the connection that there is, and go on without it."""
        connection = self.leave()
        if connection is not None:
            connection.write(part(Part.BYE))
            connection.unpause()
        return connection
