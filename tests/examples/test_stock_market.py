"""The stock market of the documents: the same programs in one market and in two; only administrators differ.

Who must see what stands in section 6 of the model's specification. The policy that delays quotes for private customers
is in a file of its own.
"""

from __future__ import annotations

import asyncio
import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tidings.model import Identity, Notification
from tidings.scopes import Graph, apply, sightings
from tidings.scopes.language import Source, World, compile_script

EXAMPLE = Path(__file__).parents[2] / "examples" / "stock_market"
PROGRAMS = ("customer", "database", "engine", "limit_watcher", "market_maker", "printer")


@pytest.fixture
def day() -> Iterator[ModuleType]:
    sys.path.insert(0, str(EXAMPLE))
    try:
        yield importlib.import_module("day")
    finally:
        sys.path.remove(str(EXAMPLE))


def of(seen: dict[str, dict[str, float]], name: str, kind: str) -> set[str]:
    """What a program got of one type, without the type."""
    return {what.partition(" ")[2] for what in seen.get(name, ()) if what.startswith(f"{kind} ")}


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.req("VIS-324")
def test_the_programs_know_nothing_of_scopes(program: str) -> None:
    text = (EXAMPLE / f"{program}.py").read_text()
    code = text.replace("It knows no scopes.", "")
    assert not re.search(r"scope|admin|M1|Priv|Prof|TF\d", code)


@pytest.mark.req("VIS-324")
def test_without_scopes_everybody_sees_everything(day: ModuleType) -> None:
    seen = asyncio.run(day.day())
    for name in ("pc2", "pc3", "pc4"):
        assert of(seen, name, "Quote") == of(seen, name, "OrderBook") == {"me1", "me2"}
        assert of(seen, name, "Order") == {"agent2", "agent3"}


@pytest.mark.req("VIS-409")
def test_one_market(day: ModuleType) -> None:
    seen = asyncio.run(day.day(day.ONE_MARKET))
    assert of(seen, "db1", "Quote") == of(seen, "pc2", "Quote") == of(seen, "pc3", "Quote") == {"me1"}
    assert "pc1" not in seen  # it is interested in another share
    assert of(seen, "me1", "Order") == of(seen, "db1", "Order") == {"agent2", "agent3"}
    assert of(seen, "pc2", "Order") == {"agent2"}  # of its own customer only
    assert of(seen, "pc3", "Order") == {"agent3"}
    for name in ("pc2", "pc3"):
        assert of(seen, name, "Accept") == {"me1 agent2", "me1 agent3"}
        assert not of(seen, name, "OrderBook")  # stays on the floor
    assert of(seen, "pc4", "Quote") == {"me2"}  # nobody has put these into a scope: they are in the root scope
    assert not of(seen, "me2", "Order")


def test_two_markets(day: ModuleType) -> None:
    seen = asyncio.run(day.day(day.TWO_MARKETS))
    assert of(seen, "db1", "Quote") == of(seen, "pc2", "Quote") == {"me1"}
    assert of(seen, "db2", "Quote") == of(seen, "pc4", "Quote") == {"me2"}
    assert of(seen, "pc3", "Quote") == {"me1", "me2"}  # it trades in both
    assert of(seen, "me1", "Order") == of(seen, "db1", "Order") == {"agent2", "agent3"}
    assert of(seen, "me2", "Order") == of(seen, "db2", "Order") == {"agent3"}
    assert of(seen, "pc2", "Accept") == {"me1 agent2", "me1 agent3"}  # Accept by itself is not confidential
    assert of(seen, "pc3", "Accept") == {"me1 agent2", "me1 agent3", "me2 agent3"}
    assert of(seen, "pc4", "Accept") == {"me2 agent3"}
    assert not any(of(seen, name, "OrderBook") for name in seen)


@pytest.mark.req("VIS-412", "VIS-704", "VIS-707")
def test_with_sessions_an_order_goes_to_the_market_of_the_quote_that_caused_it(day: ModuleType) -> None:
    seen = asyncio.run(day.day(day.TWO_SESSIONS))
    (market,) = of(seen, "agent3", "Quote")  # it orders once, at the first of both
    other = {"me1": "me2", "me2": "me1"}[market]
    assert "agent3" in of(seen, market, "Order")
    assert "agent3" not in of(seen, other, "Order")
    assert of(seen, "pc3", "Accept") >= {f"{market} agent3"}
    assert of(seen, "me1", "Order") >= {"agent2"}  # a private customer of the first market, as before
    assert of(seen, "pc3", "Quote") == {"me1", "me2"}  # what is no reaction is seen as before


@pytest.mark.req("VIS-951")
def test_the_whole_trading_system(day: ModuleType) -> None:
    """Two markets that are sessions, delayed quotes, one of two engines, documents in two forms, and a market maker."""
    running = day.day(day.EVERYTHING, engines=("me1", "me2", "me3"), newcomers=day.NEWCOMERS, quiet=2.0)
    seen = asyncio.run(running)
    assert of(seen, "maker", "OrderBook") == {"me2"}  # it is on the second floor, and sees its book
    assert of(seen, "pc4", "Quote") == {"me2", "maker"}
    assert of(seen, "pc2", "Quote") == {"me1"}
    assert of(seen, "pc3", "Quote") == {"me1", "me2", "maker"}
    assert seen["pc2"]["Quote me1"] >= 1  # it is private
    assert seen["pc3"]["Quote me1"] < seen["pc2"]["Quote me1"]
    assert of(seen, "press", "Quote") == {"as XML"}
    assert of(seen, "archive", "Quote") == {"as bytes"}
    (cause,) = of(seen, "agent3", "Quote")
    floors = {"me1": "db1", "me2": "db2", "maker": "db2"}
    assert "agent3" in of(seen, floors[cause], "Order")
    assert "agent3" not in of(seen, {"db1": "db2", "db2": "db1"}[floors[cause]], "Order")
    engines = [of(seen, engine, "Order") for engine in ("me1", "me3")]
    assert engines[0] | engines[1] == of(seen, "db1", "Order")
    assert not engines[0] & engines[1]  # each order went to one of them


@pytest.mark.req("VIS-412", "VIS-609", "VIS-610")
def test_two_engines_share_the_orders_and_private_customers_get_quotes_later(day: ModuleType) -> None:
    """Section 6 as a whole: two markets, quotes that private customers get later, and two engines in one of them."""
    seen = asyncio.run(day.day(day.TWO_ENGINES, engines=("me1", "me2", "me3"), quiet=2.0))
    assert of(seen, "db1", "Quote") == of(seen, "pc2", "Quote") == {"me1"}
    assert of(seen, "db2", "Quote") == of(seen, "pc4", "Quote") == {"me2"}
    assert of(seen, "pc3", "Quote") == {"me1", "me2"}
    assert "pc1" not in seen  # it is interested in another share
    assert seen["pc2"]["Quote me1"] >= 1  # it is private
    assert seen["pc3"]["Quote me1"] < seen["pc2"]["Quote me1"]  # it is professional
    assert not any(of(seen, name, "OrderBook") for name in seen)
    assert of(seen, "db1", "Order") == {"agent2", "agent3"}
    assert of(seen, "me2", "Order") == of(seen, "db2", "Order") == {"agent3"}  # it trades in both
    first, second = of(seen, "me1", "Order"), of(seen, "me3", "Order")
    assert (len(first), len(second), first | second) == (1, 1, {"agent2", "agent3"})
    accepted = {f"{engine} {agent}" for engine, agents in (("me1", first), ("me3", second)) for agent in agents}
    assert of(seen, "pc2", "Accept") == accepted
    assert of(seen, "pc3", "Accept") == accepted | {"me2 agent3"}


@pytest.mark.req("VIS-609", "VIS-611")
def test_private_customers_get_quotes_later_and_a_second_engine_takes_its_orders() -> None:
    graph = Graph()
    for name in ("market.scopes", "policies.scopes"):
        script = Source((EXAMPLE / name).read_text(encoding="utf-8"), name)
        graph = apply(graph, compile_script([script], World.of(graph, [])).changes)

    def due(publisher: str, reader: str, **attributes: object) -> list[int]:
        identity, note = Identity("b", 1, 1, publisher, 1, 0), Notification(attributes)
        return [one.due for one in sightings(graph, f"@{publisher}", note, f"@{reader}", identity=identity)]

    quote = {"type": "Quote", "symbol": "SAP"}
    assert (due("me1", "pc3", **quote), due("me1", "pc2", **quote)) == ([0], [1_000_000])
    assert due("me1", "pc2", type="Accept", symbol="SAP") == [0]
    for symbol, engines in (("IBM", [[], [0]]), ("SAP", [[0], []])):
        assert [due("agent2", engine, type="Order", symbol=symbol) for engine in ("me1", "me3")] == engines
