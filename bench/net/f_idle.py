"""10,000 idle clients with a subscription each in one broker: its memory."""

from __future__ import annotations

import resource
import time

from tidings.wire import Part, part

from ._bench import Bench
from ._load import Subscriber
from ._tidings import Tidings

SCENARIO = "f  10,000 idle clients"
CONNECTIONS = 10_000
ALIVE = 5.0
"""Seconds between two signs of life."""
LIMIT = 1_000.0
"""Megabytes."""


def run(bench: Bench) -> None:
    """Measure."""
    tidings = Tidings()
    soft, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < CONNECTIONS + 100:
        bench.report.missing(SCENARIO, "tidings", f"only {soft:,} open files are allowed", target=f"<= {LIMIT} MB")
        return
    clients: list[Subscriber] = []
    with tidings.start() as server:
        empty = server.memory()
        begun = heard = time.perf_counter()
        for number in range(CONNECTIONS):
            text = f"type = 'quote' AND symbol = 'S{number:05}' AND price > {number % 100}"
            clients.append(tidings.subscribe(server.port, [text]))
            if time.perf_counter() - heard > ALIVE:
                heard = _say_alive(clients)
        taken = time.perf_counter() - begun
        _say_alive(clients)
        cpu, start = server.cpu(), time.perf_counter()
        time.sleep(bench.seconds)
        idle = (server.cpu() - cpu) / (time.perf_counter() - start)
        memory, connected = server.memory(), server.connections()
        for client in clients:
            client.socket.close()
    if connected < CONNECTIONS:  # the memory of those that are gone would be missing
        why = f"only {connected:,} of the connections are still there"
        bench.report.missing(SCENARIO, "tidings", why, target=f"<= {LIMIT:,.0f} MB")
        return
    more = (
        f", {(memory - empty) / CONNECTIONS / 1e3:.1f} kB each; connected in {taken:.1f} s; "
        f"{idle * 100:.1f} % of a core while idle"
    )
    bench.report.limit(SCENARIO, "tidings", memory / 1e6, "MB", at_most=LIMIT, more=more)


def _say_alive(clients: list[Subscriber]) -> float:
    """Answer the broker's question before it is asked, as a client does that is idle and well."""
    for client in clients:
        client.socket.sendall(part(Part.PONG))
    return time.perf_counter()
