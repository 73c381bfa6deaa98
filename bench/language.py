"""What the scope language costs: checking a file, working it out, and making it so on a network of five brokers."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

from bench import Report
from tidings.model import Filter, _language
from tidings.scopes import AnyChange, Graph, Scopes, apply
from tidings.scopes.language import Source, World, check_script, compile_script
from tidings.sim import Network

STATEMENTS, FEW = 500, 100


def run(report: Report) -> None:
    """Measure scripts."""
    text, filters = script(STATEMENTS)
    source = [Source(text)]
    parsing = _seconds(lambda: [Filter.parse(one) for one in filters])
    checking = _seconds(lambda: check_script(source))
    report.limit(
        f"check of {STATEMENTS} statements, without 0.1 s, as parsing its filters",
        (checking - 0.1) / parsing,
        "x",
        at_most=3,
    )
    report.figure("check", checking * 1_000, "ms")
    changes = compile_script(source, World(Graph())).changes
    working_out = _seconds(lambda: compile_script(source, World(Graph())))
    applying = _seconds(lambda: apply(Graph(), changes))
    report.figure("working it out", working_out * 1_000, "ms")
    report.figure(f"applying its {len(changes):,} changes", applying * 1_000, "ms")
    few = compile_script([Source(script(FEW)[0])], World(Graph())).changes
    report.limit(
        f"{STATEMENTS} statements on 5 brokers, as {FEW} of them", _network(changes) / _network(few), "x", at_most=3
    )


def script(count: int) -> tuple[str, list[str]]:
    """A file of nested scopes, each with two clients, and the filters in it."""
    lines, filters = [], []
    for number in range(count):
        first = f"type = 'Quote{number}' AND price > {number} AND symbol LIKE 'S{number}%'"
        second = f"type IN ('Order{number}', 'Accept{number}') OR size BETWEEN {number} AND {number + 5}"
        filters += [first, second]
        above = f"SUPERSCOPE ALL FROM s{(number - 1) // 10}" if number else ""
        sides = [one.replace("'", "''") for one in (first, second)]
        lines.append(
            f"DEPLOY SCOPE AS s{number} {above} ALL FROM @a{number}, @b{number} "
            f"INTERFACES INPUT('{sides[0]}'), OUTPUT('{sides[1]}') SET floor = {number} INTEGRATED_ROUTING;"
        )
    return "\n".join(lines), filters


def _network(changes: tuple[AnyChange, ...]) -> float:
    """Seconds of the processor for one transaction on five brokers, all of them together."""
    best = float("inf")
    for seed in range(3):
        network = Network(seed, features=lambda name: [Scopes("a")])
        network.add_brokers("abcde", links=["ab", "ac", "bd", "be"])
        network.run()
        gc.collect()
        before = time.process_time()
        answers = network.change("d", changes)
        while not answers:
            network.run(0.001)
        best = min(best, time.process_time() - before)
        assert not answers[0].error, answers[0].reason
    return best


def _seconds(work: Callable[[], object]) -> float:
    """Seconds of the processor, the least of three; texts of filters are not remembered from one to the next."""
    best = float("inf")
    for _ in range(3):
        _language._remembered.cache_clear()
        gc.collect()
        before = time.process_time()
        work()
        best = min(best, time.process_time() - before)
    return best
