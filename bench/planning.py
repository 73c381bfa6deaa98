"""What it costs to know before: the plan of a change against making it, and who sees what among many clients."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from bench import Report
from bench.language import script
from tidings.model import Filter
from tidings.scopes import (
    OPEN,
    AnyChange,
    CreateScope,
    Graph,
    Interface,
    Join,
    Scopes,
    SetInterface,
    apply,
    client_node,
    plan_change,
    readers_named,
    who_sees,
)
from tidings.scopes.language import Source, World, compile_script
from tidings.sim import Network

SCOPES, CLIENTS, BROKERS, ROUNDS = 1_000, 2_000, 5, 3

_T = TypeVar("_T")


def run(report: Report) -> None:
    """Measure plans."""
    _one_edge(report)
    _statements(report)
    _readers(report)


def _timed(work: Callable[[], _T]) -> tuple[float, _T]:
    """Milliseconds of processor time, and what came of it."""
    gc.collect()
    began = time.process_time()
    result = work()
    return (time.process_time() - began) * 1_000, result


def _forest(scopes: int, clients: int) -> Iterator[AnyChange]:
    """Scopes in three levels, thirty in each, with some different interfaces, and clients all over them."""
    yield CreateScope("top", OPEN)
    for number in range(scopes - 1):
        interface = Interface.parse(input=f"group = {number % 7}", output=f"price > {number % 50}")
        yield CreateScope(f"s{number}", interface)
        yield Join(f"s{number}", "top" if number < 30 else f"s{(number - 30) // 30}")
    for number in range(clients):
        yield Join(client_node(f"c{number}"), f"s{number % (scopes - 1)}")


def _network(clients: int) -> Network:
    network = Network(0, features=lambda name: [Scopes("b0")])
    network.add_brokers([f"b{number}" for number in range(BROKERS)], [("b0", f"b{n}") for n in range(1, BROKERS)])
    for number in range(clients):
        network.add_client(f"c{number}", f"b{number % BROKERS}")
    network.run()
    return network


def _made(network: Network, *changes: AnyChange) -> None:
    answers = network.change("b3", changes)
    network.run()
    assert [answer.error for answer in answers] == [""], answers


def _one_edge(report: Report) -> None:
    """One edge among a thousand scopes: planned, and made in a network of five brokers."""
    graph = apply(Graph(), tuple(_forest(SCOPES, CLIENTS)))
    network = _network(CLIENTS)
    _made(network, *_forest(SCOPES, CLIENTS))
    changes = {"a scope joins": Join("s900", "top"), "an interface": SetInterface("s901", OPEN)}
    changes["a client joins"] = Join("@new", "s900")
    for name, change in changes.items():
        plan = min(_timed(lambda change=change: plan_change(graph, (change,)))[0] for _ in range(ROUNDS))  # type: ignore[misc]
        making, _ = _timed(lambda change=change: _made(network, change))  # type: ignore[misc]
        report.figure(f"plan, {name}, {SCOPES:,} scopes", plan, "ms")
        report.limit(f"plan / making it, {name}, {SCOPES:,} scopes", plan / making, "x", at_most=50)


def _statements(report: Report) -> None:
    """Five hundred changes at once, and five hundred statements of the language, no two of which are alike."""
    written = compile_script([Source(script(500)[0])], World(Graph())).changes
    for name, changes, clients in (("changes", tuple(_forest(150, 201)), 201), ("statements", written, 0)):
        network = _network(clients)
        plan, outlook = _timed(lambda changes=changes: plan_change(Graph(), changes))  # type: ignore[misc]
        making, _ = _timed(lambda network=network, changes=changes: _made(network, *changes))  # type: ignore[misc]
        report.figure(f"plan of 500 {name}, {len(outlook.sights):,} entries", plan, "ms")
        report.figure(f"plan of 500 {name}, sources not followed everywhere", len(outlook.unexamined), "")
        report.limit(f"plan / making it, 500 {name}", plan / making, "x", at_most=5)


def _readers(report: Report) -> None:
    """Who sees something, among ten thousand clients, those with equal memberships in groups and all different."""
    grouped = apply(Graph(), tuple(_forest(SCOPES, 10_000)))
    single = [
        Join(f"@c{number}", f"s{number % 999}", Interface.parse(input=f"price < {number}")) for number in range(10_000)
    ]
    different = apply(apply(Graph(), tuple(_forest(SCOPES, 0))), tuple(single))
    wanted = Filter.parse("price > 20 AND group = 3")
    for graph in (grouped, different):
        for whose, source in (("of one client", "@c500"), ("of anybody", None)):
            spent, found = _timed(lambda graph=graph, source=source: who_sees(graph, wanted, source))  # type: ignore[misc]
            assert len(readers_named(found)) > 1_000, len(readers_named(found))
            if graph is grouped:
                report.limit(f"who-sees {whose}, 10,000 clients in {SCOPES:,} scopes", spent / 1_000, "s", at_most=1)
            else:
                report.figure(f"who-sees {whose}, 10,000 clients, a filter of its own for each", spent / 1_000, "s")
