"""What a subscription costs a broker that has ten thousand others, and what its text has to do with it."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable

from bench import Report
from bench._runtime import Idle
from tidings.broker import Broker, Link, LinkKind
from tidings.model import Filter, _language
from tidings.wire import MSGPACK, Frame, Subscribe

FILTERS, AT_ONCE, ROUNDS = 10_000, 500, 5


def run(report: Report) -> None:
    """Measure subscribing."""
    texts = [f"type = 'quote' AND symbol = 'S{n}' AND price BETWEEN {n} AND {n + 10}" for n in range(20_000)]
    by_grammar = _each(_language._parsed_by_grammar, texts[:1_000])
    report.figure("a filter of three conditions, by the grammar", by_grammar, "us")
    plain = _each(_language._parsed, texts[:1_000])
    report.ratio("the same by the shortcut for plain texts", by_grammar / plain, at_least=3)
    report.limit(f"subscribing at {FILTERS:,} different filters", _subscribed(texts), "us", at_most=100)


def _each(parse: Callable[[str], Filter], texts: list[str]) -> float:
    """The processor time for one text, the median of some rounds, in microseconds."""
    parse(texts[0])
    return statistics.median(_time(lambda: [parse(text) for text in texts]) / len(texts) for _ in range(ROUNDS))


def _subscribed(texts: list[str]) -> float:
    """From the bytes of a frame to what is sent back, in microseconds."""
    broker, link = Broker("a", Idle()), Link("c", LinkKind.CLIENT)
    broker.attach(link)
    frames = [MSGPACK.encode(Frame(Subscribe(f"s{n}", Filter.parse(text)))) for n, text in enumerate(texts)]

    def take(first: int, count: int) -> None:
        for frame in frames[first : first + count]:
            broker.receive(link, MSGPACK.decode_sparingly(frame))

    take(0, FILTERS)
    starts = range(FILTERS, FILTERS + ROUNDS * AT_ONCE, AT_ONCE)
    return statistics.median(_time(lambda start=start: take(start, AT_ONCE)) / AT_ONCE for start in starts)  # type: ignore[misc]


def _time(what: Callable[[], object]) -> float:
    gc.collect()
    gc.disable()
    start = time.process_time()
    what()
    elapsed = time.process_time() - start
    gc.enable()
    return elapsed * 1e6
