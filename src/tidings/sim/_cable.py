"""A simulated connection: two transports of asyncio with the weather between them.

Bytes arrive in order, each write after a latency of its own and as fast as the bandwidth allows. A connection can be
*reset*: both ends notice, and what is under way is lost. It can be *silent*: nothing arrives, and neither end notices;
what was written waits, as TCP would send it again, and arrives if the silence ends before somebody gives up.

A reader that pauses fills the window; beyond `WINDOW` bytes the writer is told to pause, as by a socket's buffer.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from ._channel import Radio, transmitted
from ._scheduler import Event, Scheduler

WINDOW = 262_144
"""Bytes that may be under way or unread before they count as the writer's buffer."""


class Climate(Radio, Protocol):
    """How connections behave. Times are in microseconds."""

    @property
    def latency(self) -> tuple[int, int]:
        """The least and the most that a write takes."""
        ...

    @property
    def bandwidth(self) -> int | None:
        """Bytes per second; None: any number."""
        ...


class End(asyncio.Transport):
    """One end of a connection."""

    def __init__(self, cable: Cable, protocol: Any) -> None:
        super().__init__()
        self._cable = cable
        self._loop = asyncio.get_running_loop()
        self._protocol = protocol
        self.other: End
        self._closing = self._lost = self._last_word = False
        self._reading = True
        self._inbox: deque[bytes] = deque()
        self._outstanding = 0
        self._high, self._low = 65_536, 16_384
        self._told_to_pause = False
        self._last = self._free_at = 0
        self._under_way: dict[Event, bytes | None] = {}
        self._held: list[bytes | None] = []

    # --- what asyncio expects of a transport ----------------------------------------------------------

    def get_protocol(self) -> Any:
        return self._protocol

    def set_protocol(self, protocol: Any) -> None:
        self._protocol = protocol

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default

    def is_closing(self) -> bool:
        return self._closing

    def is_reading(self) -> bool:
        return self._reading

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        self._reading = True
        if self._inbox:
            self._loop.call_soon(self._read)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = 65_536 if high is None else high
        self._low = self._high // 4 if low is None else low

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._low, self._high

    def get_write_buffer_size(self) -> int:
        return max(0, self._outstanding - WINDOW)

    def can_write_eof(self) -> bool:
        return False

    def write(self, data: Any) -> None:
        if self._closing or not data:
            return
        self._outstanding += len(data)
        self._send(bytes(data))
        if not self._told_to_pause and self.get_write_buffer_size() > self._high:
            self._told_to_pause = True
            self._protocol.pause_writing()

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            self._send(None)
            self._loop.call_soon(self._gone, None)

    def abort(self) -> None:
        if not self._lost:
            self._drop()
            if not self._closing:
                self._send(None)
            self._closing = True
            self._loop.call_soon(self._gone, None)

    # --- on the way -----------------------------------------------------------------------------------

    def _send(self, what: bytes | None) -> None:
        """Put bytes on the way; None: the end of all."""
        cable = self._cable
        if cable.silent:
            self._held.append(what)
            return
        scheduler, weather = cable.scheduler, cable.weather
        depart, packet = scheduler.now, transmitted(weather, cable.random)
        if weather.bandwidth is not None and what is not None:
            once = len(what) * 1_000_000 // weather.bandwidth
            depart = max(depart, self._free_at) + packet.before * once
            self._free_at = depart + packet.after * once
        self._last = max(self._last, depart + packet.pause + cable.random.randint(*weather.latency))
        event = scheduler.at(self._last, lambda: self._arrive(event, what))
        self._under_way[event] = what

    def _arrive(self, event: Event, what: bytes | None) -> None:
        del self._under_way[event]
        if what is None:
            self._loop.call_soon(self.other._ended)
        else:
            self.other._inbox.append(what)
            self._loop.call_soon(self.other._read)

    def _drop(self) -> None:
        for event in self._under_way:
            event.cancel()
        self._under_way.clear()
        self._held.clear()

    def stop(self) -> None:
        """The silence begins: what is under way waits, in the order in which it was written."""
        waiting = list(self._under_way.values())
        self._drop()
        self._held = waiting

    def go_on(self) -> None:
        """The silence has ended."""
        held, self._held = self._held, []
        for what in held:
            self._send(what)

    # --- arriving -------------------------------------------------------------------------------------

    def _read(self) -> None:
        while self._inbox and self._reading and not self._closing:
            data = self._inbox.popleft()
            self.other._taken(len(data))
            try:
                self._protocol.data_received(data)
            except Exception as error:
                context = {"message": "a protocol failed", "exception": error, "transport": self}
                self._loop.call_exception_handler(context)
                self.abort()
        if self._last_word and not self._inbox:
            self._gone(None)

    def _taken(self, size: int) -> None:
        self._outstanding -= size
        if self._told_to_pause and self.get_write_buffer_size() <= self._low and not self._closing:
            self._told_to_pause = False
            self._protocol.resume_writing()

    def _ended(self) -> None:
        self._last_word = True
        if not self._inbox:  # otherwise the reader has paused, and reads the rest first
            self._gone(None)

    def _gone(self, error: Exception | None) -> None:
        if not self._lost:
            self._lost = self._closing = True
            self._inbox.clear()
            self._cable.ended(self)
            self._protocol.connection_lost(error)

    @property
    def under_way(self) -> int:
        """How many writes have not arrived."""
        return len(self._under_way)

    def die(self) -> None:
        """Whoever is at this end hears and says nothing more."""
        self._drop()
        self._closing = self._lost = True
        self._inbox.clear()
        self._cable.ended(self)

    def reset(self) -> None:
        """The connection breaks."""
        self._drop()
        self._closing = True
        self._loop.call_soon(self._gone, ConnectionResetError(104, "the connection was reset"))


class Cable:
    """A connection between a client and a broker."""

    def __init__(self, scheduler: Scheduler, rng: random.Random, weather: Climate, one: Any, two: Any) -> None:
        self.scheduler = scheduler
        self.random = rng
        self.weather = weather
        self.silent = False
        self.ends = End(self, one), End(self, two)
        self.ends[0].other, self.ends[1].other = self.ends[1], self.ends[0]
        self._open = set(self.ends)
        self.on_end: Callable[[End], None] = lambda end: None
        """Called when one end knows that it is over."""

    @property
    def is_open(self) -> bool:
        """Whether an end of it still believes that it is."""
        return bool(self._open)

    @property
    def under_way(self) -> int:
        """How many writes have not arrived."""
        return sum(end.under_way for end in self.ends)

    def ended(self, end: End) -> None:
        """One end knows that it is over."""
        self._open.discard(end)
        self.on_end(end)

    def reset(self) -> None:
        """Break it: both ends notice, and what is under way is lost."""
        for end in self.ends:
            end.reset()

    def sever(self) -> None:
        """The client is dead: nothing more comes from it, what is under way to it is lost, and the broker notices."""
        client, broker = self.ends
        client.die()
        broker.reset()

    def silence(self, *, silent: bool = True) -> None:
        """Let nothing through, so that nobody notices, or let it through again."""
        if silent == self.silent:
            return
        self.silent = silent
        for end in self.ends:
            if silent:
                end.stop()
            else:
                end.go_on()
