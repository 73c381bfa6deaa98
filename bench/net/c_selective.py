"""1,000 connections, each with a filter of its own, and notifications that each pass one of them."""

from __future__ import annotations

from ._bench import Bench
from ._dialect import Dialect, Interest, quote
from ._mosquitto import Mosquitto
from ._nats import Nats
from ._rabbitmq import RabbitMQ
from ._redis import Redis
from ._tidings import Tidings

CONNECTIONS = 1_000
TARGET = 3.0


def interest(number: int) -> Interest:
    """One symbol; a topic of its own for the servers that have only topics."""
    symbol = f"S{number:04}"
    return Interest(f"quote/{symbol}", f"type = 'quote' AND symbol = '{symbol}'", {"type": "quote", "symbol": symbol})


def run(bench: Bench) -> None:
    """Measure."""
    rabbitmq = RabbitMQ()
    dialects: list[Dialect] = [Tidings(), rabbitmq, Mosquitto(), Nats(), Redis()]
    try:
        bench.compare(
            "c  1,000 selective filters",
            dialects,
            [interest(number) for number in range(CONNECTIONS)],
            [
                quote(f"S{number * 377 % CONNECTIONS:04}", f"quote/S{number * 377 % CONNECTIONS:04}")
                for number in range(CONNECTIONS)
            ],
            copies=1,
            targets={"rabbitmq": TARGET},
        )
    finally:
        rabbitmq.stop()
