"""The generator: one publisher, some subscribers, a window. It is the same for every server.

Every notification holds `MARKER` once, so a subscriber counts notifications by counting markers in what it reads,
whatever the protocol. What a protocol needs beyond that is in its dialect: how batches are numbered, and what a
subscriber answers.
"""

from __future__ import annotations

import gc
import select
import socket
import statistics
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

MARKER = b"~tidings~"
READ = 65_536
"""Bytes of one read."""
STALLED = 5.0
"""Seconds without any progress after which a run has failed."""
_NUMBER = struct.Struct(">Q")


class Stalled(Exception):
    """Nothing arrives any more, or not what should: such a run measures nothing."""


@dataclass
class Batch:
    """Publications, encoded; where the protocol numbers them, the places of the numbers."""

    data: bytearray
    count: int
    numbers: list[int] = field(default_factory=list)

    def number(self, first: int) -> None:
        """Number the publications, if this protocol wants it."""
        pack, data = _NUMBER.pack_into, self.data
        for number, place in enumerate(self.numbers, first):
            pack(data, place, number)


@dataclass
class Subscriber:
    """A connection that counts what it gets."""

    socket: socket.socket
    acknowledge: Callable[[int], bytes] | None = None
    """What to answer when so many notifications have come; None if this protocol has no answers."""
    every: int = 256
    """How many notifications are answered at once."""
    got: int = 0
    _answered: int = 0
    _tail: bytes = b""

    def read(self) -> int:
        """Read once; how many notifications that were."""
        data = self.socket.recv(READ)
        if not data:
            raise Stalled("a server has closed the connection of a subscriber")
        edge = len(MARKER) - 1
        count = data.count(MARKER) + (self._tail + data[:edge]).count(MARKER)
        self._tail = data[-edge:] if len(data) >= edge else (self._tail + data)[-edge:]
        self.got += count
        if self.acknowledge is not None and self.got - self._answered >= self.every:
            self.answer()
        return count

    def answer(self) -> None:
        """Say what has come."""
        if self.acknowledge is not None and self.got > self._answered:
            self._answered = self.got
            self.socket.send(self.acknowledge(self.got))


@dataclass
class Publisher:
    """A connection that publishes."""

    socket: socket.socket
    ping: tuple[bytes, bytes] | None = None
    """What the server asks to see whether somebody is there, and the answer."""
    sent: int = 0

    def drain(self) -> None:
        """Read what the server says and forget it."""
        data = self.socket.recv(READ)
        if not data:
            raise Stalled("a server has closed the connection of the publisher")
        if self.ping is not None and self.ping[0] in data:
            self.socket.send(self.ping[1])


@dataclass(frozen=True)
class Sample:
    """What a run has measured."""

    rate: float
    """Delivered notifications in a second."""
    cpu: tuple[float, ...]
    """Microseconds of each server's CPU for one delivered notification."""

    @property
    def total_cpu(self) -> float:
        """Of all servers together."""
        return sum(self.cpu)


CpuClock = Callable[[], tuple[float, ...]]
"""Seconds of CPU that each server has used so far."""


@contextmanager
def undisturbed() -> Iterator[None]:
    """Without garbage collection in the generator."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class _Loop:
    """The connections of one run."""

    def __init__(self, publisher: Publisher, subscribers: Sequence[Subscriber]) -> None:
        self.publisher = publisher
        self._by_fd = {s.socket.fileno(): s for s in subscribers}
        self._out = publisher.socket.fileno()
        self._poll = select.epoll()
        for fd in self._by_fd:
            self._poll.register(fd, select.EPOLLIN)
        self._poll.register(self._out, select.EPOLLIN)
        publisher.socket.setblocking(False)
        for subscriber in subscribers:
            subscriber.socket.setblocking(False)
        self._rest: memoryview | None = None
        self.got = 0

    @property
    def busy(self) -> bool:
        """Whether the publisher has bytes left that the server does not take yet."""
        return self._rest is not None

    def send(self, batch: Batch) -> None:
        publisher = self.publisher
        batch.number(publisher.sent + 1)
        publisher.sent += batch.count
        self._rest = memoryview(batch.data)
        self._push()

    def _push(self) -> None:
        assert self._rest is not None
        try:
            done = self.publisher.socket.send(self._rest)
        except BlockingIOError:
            done = 0
        if done == len(self._rest):
            self._rest = None
            self._poll.modify(self._out, select.EPOLLIN)
        else:
            self._rest = self._rest[done:]
            self._poll.modify(self._out, select.EPOLLIN | select.EPOLLOUT)

    def turn(self, timeout: float) -> int:
        """Wait for something to happen and handle it; how many notifications came."""
        got = 0
        for fd, event in self._poll.poll(timeout):
            if fd != self._out:
                got += self._by_fd[fd].read()
                continue
            if event & select.EPOLLOUT and self._rest is not None:
                self._push()
            if event & select.EPOLLIN:
                self.publisher.drain()
        self.got += got
        return got

    def settle(self, expected: int) -> None:
        """Wait for everything that is under way."""
        heard = time.perf_counter()
        while self.got < expected or self.busy:
            if self.turn(0.1):
                heard = time.perf_counter()
            elif time.perf_counter() - heard > STALLED:
                raise Stalled(f"{self.got:,} of {expected:,} notifications have arrived")
        if self.got > expected:
            raise Stalled(f"{self.got:,} notifications have arrived, but only {expected:,} were expected")

    def close(self) -> None:
        self._poll.close()


def throughput(
    publisher: Publisher,
    subscribers: Sequence[Subscriber],
    batches: Sequence[Batch],
    clock: CpuClock,
    *,
    copies: int,
    window: int,
    seconds: float,
    warm_up: float = 0.3,
) -> Sample:
    """Publish as fast as the window lets. `copies`: how many subscribers get each publication."""
    loop = _Loop(publisher, subscribers)
    size = batches[0].count
    base, turn = publisher.sent, 0
    begun = heard = time.perf_counter()
    start, end = begun + warm_up, begun + warm_up + seconds
    first: tuple[float, int, tuple[float, ...]] | None = None
    try:
        with undisturbed():
            while True:
                while not loop.busy and publisher.sent - base - loop.got // copies <= window - size:
                    loop.send(batches[turn % len(batches)])
                    turn += 1
                got = loop.turn(0.1)
                now = time.perf_counter()
                if got:
                    heard = now
                elif now - heard > STALLED:
                    raise Stalled(f"{loop.got:,} of {(publisher.sent - base) * copies:,} notifications have arrived")
                if first is None and now >= start:
                    first = now, loop.got, clock()
                elif now >= end and first is not None:
                    last = now, loop.got, clock()
                    break
        loop.settle((publisher.sent - base) * copies)
    finally:
        loop.close()
    got = last[1] - first[1]
    return Sample(
        got / (last[0] - first[0]),
        tuple((b - a) * 1e6 / got for a, b in zip(first[2], last[2], strict=True)),
    )


def latency(
    publisher: Publisher, subscriber: Subscriber, batches: Sequence[Batch], *, rate: float, seconds: float
) -> list[float]:
    """Seconds from publishing to receiving, one publication at a time, so many in a second."""
    assert all(batch.count == 1 for batch in batches)
    loop = _Loop(publisher, [subscriber])
    taken = []
    try:
        with undisturbed():
            begun = time.perf_counter()
            for turn in range(int(rate * seconds)):
                pause = begun + turn / rate - time.perf_counter()
                if pause > 0:
                    time.sleep(pause)
                start = time.perf_counter()
                loop.send(batches[turn % len(batches)])
                while loop.got <= turn:
                    if not loop.turn(STALLED) and time.perf_counter() - start > STALLED:
                        raise Stalled("a notification has not arrived")
                taken.append(time.perf_counter() - start)
                if turn % 20 == 19:
                    subscriber.answer()
    finally:
        loop.close()
    return taken[len(taken) // 10 :]


@dataclass(frozen=True)
class Steady:
    """What a run at a given rate has measured."""

    rate: float
    median: float
    """Seconds from publishing to receiving."""
    cpu: tuple[float, ...]


def steady(
    publisher: Publisher,
    subscriber: Subscriber,
    batches: Sequence[Batch],
    clock: CpuClock,
    *,
    rate: float,
    seconds: float,
    warm_up: float = 0.3,
) -> Steady:
    """Publish a small batch in each of equal intervals, so that the rate comes out. Links keep the order."""
    loop = _Loop(publisher, [subscriber])
    size = batches[0].count
    interval = size / rate
    published: list[tuple[int, float]] = []
    received: list[tuple[int, float]] = []
    total = int((seconds + warm_up) * rate / size)
    warm = int(warm_up * rate / size)
    base = publisher.sent
    first: tuple[float, int, tuple[float, ...]] | None = None
    try:
        with undisturbed():
            begun = time.perf_counter()
            turn = 0
            while turn < total:
                now = time.perf_counter()
                if now >= begun + turn * interval and not loop.busy:
                    if turn == warm:
                        first = now, loop.got, clock()
                    published.append((publisher.sent - base + size, now))
                    loop.send(batches[turn % len(batches)])
                    turn += 1
                    timeout = 0.0
                else:
                    timeout = max(0.0, begun + turn * interval - now)
                if loop.turn(timeout):
                    received.append((loop.got, time.perf_counter()))
            last = time.perf_counter(), loop.got, clock()
            loop.settle(publisher.sent - base)
            received.append((loop.got, time.perf_counter()))
    finally:
        loop.close()
    assert first is not None
    got = last[1] - first[1]
    taken = _taken(published[warm:], received)
    return Steady(
        got / (last[0] - first[0]),
        statistics.median(taken),
        tuple((b - a) * 1e6 / got for a, b in zip(first[2], last[2], strict=True)),
    )


def _taken(published: list[tuple[int, float]], received: list[tuple[int, float]]) -> list[float]:
    """For each batch, the time until its last notification came."""
    taken = []
    at = 0
    for upto, sent in published:
        while received[at][0] < upto:
            at += 1
        taken.append(received[at][1] - sent)
    return taken
