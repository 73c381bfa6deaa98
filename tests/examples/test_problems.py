"""The four problems that scopes solve, each with and without them: side effects, design, management, security."""

from __future__ import annotations

import asyncio
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import tidings
from tidings.net import Options, serve
from tidings.scopes import Graph, apply, plan_change
from tidings.scopes.language import Source, World, compile_script

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def day() -> Iterator[ModuleType]:
    sys.path.insert(0, str(EXAMPLES / "stock_market"))
    try:
        yield importlib.import_module("day")
    finally:
        sys.path.remove(str(EXAMPLES / "stock_market"))


@pytest.fixture(scope="module")
def sensors() -> Iterator[ModuleType]:
    sys.path.insert(0, str(EXAMPLES / "sensors"))
    try:
        yield importlib.import_module("sensors")
    finally:
        sys.path.remove(str(EXAMPLES / "sensors"))


def orders(seen: dict[str, set[str]], name: str) -> set[str]:
    return {what for what in seen.get(name, ()) if what.startswith("Order ")}


@pytest.mark.req("VIS-957")
def test_side_effects_a_program_of_one_customer_is_no_matter_of_another(day: ModuleType) -> None:
    without, within = asyncio.run(day.day()), asyncio.run(day.day(day.TWO_MARKETS))
    assert "Order agent3" in orders(without, "pc2"), "every order is everybody's"
    assert orders(within, "pc2") == {"Order agent2"}
    assert orders(within, "pc3") == {"Order agent3"}


@pytest.mark.req("VIS-957")
def test_security_what_happens_on_the_floor_is_seen_on_the_floor(day: ModuleType) -> None:
    without, within = asyncio.run(day.day()), asyncio.run(day.day(day.ONE_MARKET))
    assert "OrderBook me1" in without["pc2"]
    assert not {what for what in within["pc2"] if what.startswith("OrderBook")}


@pytest.mark.req("VIS-957")
def test_design_two_systems_that_measure_differently_are_put_together(sensors: ModuleType) -> None:
    without, within = asyncio.run(sensors.run(None)), asyncio.run(sensors.run())
    assert {"celsius", "fahrenheit"} <= {name for one in without["control"] for name in one}, "two units, side by side"
    assert not any("fahrenheit" in one for one in within["control"])
    assert not any("building" in one for one in without["control"]), "nobody knows which building"
    assert all("building" in one for one in within["control"])


def test_a_market_maker_and_a_limit_watcher_are_added_without_a_change_of_others(day: ModuleType) -> None:
    """Two markets, and one statement each for what is new."""
    texts = [(EXAMPLES / "stock_market" / file).read_text(encoding="utf-8") for file in day.TWO_MARKETS]
    world = World(Graph())
    graph = apply(Graph(), compile_script([Source(text) for text in texts], world).changes)
    for text, newcomer, scope in (
        ("ALTER SCOPE TF1 ADD FROM @maker", "@maker", "TF1"),
        ("ALTER SCOPE C1 ADD FROM @watcher", "@watcher", "C1"),
    ):
        changes = compile_script([Source(text)], World(graph)).changes
        assert len(changes) == 1
        outlook = plan_change(graph, changes)
        touched = {one.target for one in outlook.sights if newcomer not in (one.source, one.target)}
        assert not touched, "nobody else sees anything else"
        assert outlook.leave_root == (newcomer,)
        assert scope in {one.target for one in outlook.sights}


@pytest.mark.req("VIS-957")
def test_management_who_sees_what_is_changed_while_everything_runs() -> None:
    async def run() -> list[list[object]]:
        async with serve(Options(name="a", port=0)) as server:
            url = f"tidings://127.0.0.1:{server.port}"
            async with (
                tidings.connect(url, name="source") as source,
                tidings.connect(url, name="reader") as reader,
                tidings.connect(url, name="guest") as guest,
                tidings.connect(url, name="admin") as admin,
            ):
                got: list[list[object]] = []
                subscriptions = [await client.subscribe("TRUE") for client in (reader, guest)]

                async def heard() -> None:
                    await source.publish(type="Fact", number=len(got))
                    await asyncio.sleep(0.2)
                    got.append([])
                    for subscription in subscriptions:
                        if subscription.waiting:
                            await subscription.next()
                            got[-1].append(subscriptions.index(subscription))

                await heard()
                await admin.admin.execute("DEPLOY AS house FROM @source, @reader INTEGRATED_ROUTING")
                await heard()
                await admin.admin.execute("ALTER SCOPE house ADD FROM @guest")
                await heard()
                await admin.admin.execute("ALTER SCOPE house DEL FROM @reader")
                await heard()
                return got

    assert asyncio.run(run()) == [[0, 1], [0], [0, 1], [1]]
