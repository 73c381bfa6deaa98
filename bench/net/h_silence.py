"""10,000 idle clients that agree on a silence of 3 seconds with their broker: what its pings and answers cost.

Each client does what the client library does: it pings after a heartbeat, a third of the silence, without a sign of
life, and answers what it is asked.
"""

from __future__ import annotations

import heapq
import resource
import select
import socket
import time

from tidings.wire import BEATS, Parser, Part, part

from ._bench import Bench
from ._tidings import Tidings

CONNECTIONS = 10_000
SILENCES = (3.0, 30.0)
LIMIT = 1.0
"""Cores that a silence of 3 seconds may take: the broker must keep up."""
_PING, _PONG = part(Part.PING), part(Part.PONG)


class Idle:
    """Idle clients of one broker, which it must not lose."""

    def __init__(self, tidings: Tidings, port: int, silence: float) -> None:
        self._tidings = tidings
        self._port = port
        self._silence = silence
        self._heartbeat = silence / BEATS
        self._poll = select.epoll()
        self._clients: dict[int, tuple[socket.socket, Parser]] = {}
        self._heard: dict[int, float] = {}
        self._due: list[tuple[float, int]] = []
        self.pings = 0

    def __len__(self) -> int:
        return len(self._clients)

    def add(self) -> None:
        """One more client connects."""
        connection = self._tidings.publisher(self._port, silence=self._silence).socket
        connection.setblocking(False)
        number, now = connection.fileno(), time.monotonic()
        self._clients[number] = (connection, Parser())
        self._heard[number] = now
        heapq.heappush(self._due, (now + self._heartbeat, number))
        self._poll.register(number, select.EPOLLIN)

    def idle(self, seconds: float) -> None:
        """Say and answer what idle clients do."""
        until = time.monotonic() + seconds
        while (now := time.monotonic()) < until:
            next_ping = self._due[0][0] if self._due else until
            for number, _ in self._poll.poll(max(0.0, min(next_ping, until) - now)):
                self._read(number)
            self._ping(time.monotonic())

    def _read(self, number: int) -> None:
        connection, parser = self._clients[number]
        data = connection.recv(65_536)
        if not data:
            raise ConnectionError("the broker has given an idle client up")
        self._heard[number] = time.monotonic()
        for kind, _ in parser.feed(data):
            if kind == Part.PING:
                connection.send(_PONG)

    def _ping(self, now: float) -> None:
        while self._due and self._due[0][0] <= now:
            _, number = heapq.heappop(self._due)
            due = self._heard[number] + self._heartbeat
            if due <= now:
                self.pings += 1
                self._clients[number][0].send(_PING)
                due = now + self._heartbeat
            heapq.heappush(self._due, (due, number))

    def close(self) -> None:
        """They leave."""
        for connection, _ in self._clients.values():
            connection.close()
        self._poll.close()


def run(bench: Bench) -> None:
    """Measure."""
    soft, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for silence in SILENCES:
        scenario = f"h  10,000 idle, {silence:g} s silence"
        if soft < CONNECTIONS + 100:
            bench.report.missing(scenario, "tidings", f"only {soft:,} open files are allowed", target=f"<= {LIMIT:g}")
            continue
        tidings = Tidings()
        with tidings.start() as server:
            clients = Idle(tidings, server.port, silence)
            served = time.monotonic()
            while len(clients) < CONNECTIONS:
                clients.add()
                if time.monotonic() - served > 0.1:
                    clients.idle(0.01)
                    served = time.monotonic()
            clients.idle(silence)
            cpu, begun, clients.pings = server.cpu(), time.perf_counter(), 0
            clients.idle(max(bench.seconds, silence))
            seconds = time.perf_counter() - begun
            cores = (server.cpu() - cpu) / seconds
            more = f"; {clients.pings / seconds:,.0f} pings a second, {server.connections():,} connected"
            clients.close()
        bench.report.limit(scenario, "tidings", cores, "cores", at_most=LIMIT, more=more)
