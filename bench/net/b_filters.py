"""1,000 other content filters in our table, of which none matches. The peers know topics only and have none."""

from __future__ import annotations

from ._bench import BATCH, Bench
from ._dialect import Dialect, quote
from ._load import Subscriber
from ._processes import Running
from ._tidings import Tidings
from .a_fanout import INTEREST, dialects

OTHERS = 1_000
CONNECTIONS = 10
TARGET = 0.8


def other(number: int) -> str:
    """A filter that a quote of SAP at 182.4 does not pass, although it speaks of the same attributes."""
    match number % 4:
        case 0:
            return f"type = 'quote' AND symbol = 'S{number:04}' AND price > {number % 100}"
        case 1:
            return f"type = 'quote' AND price > {200 + number}"
        case 2:
            return f"type = 'quote' AND price BETWEEN {number % 90} AND {number % 90 + 2.5} AND volume > {number}"
        case _:
            return f"type = 'quote' AND symbol LIKE 'S{number:04}%' AND venue = 'XETR'"


def prepare(dialect: Dialect, server: Running) -> list[Subscriber]:
    """Fill our table."""
    if not isinstance(dialect, Tidings):
        return []
    each = OTHERS // CONNECTIONS
    return [
        dialect.subscribe(server.port, [other(at * each + number) for number in range(each)])
        for at in range(CONNECTIONS)
    ]


def run(bench: Bench) -> None:
    """Measure."""
    bench.compare(
        "b  1:1, 1,000 other filters",
        dialects(),
        [INTEREST],
        [quote()] * BATCH,
        copies=1,
        targets={"mosquitto": TARGET, "nats-server": 1.0},
        prepare=prepare,
    )
