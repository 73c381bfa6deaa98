"""One session of Spark for all tests of a run that share it: they are kept in one process by their group."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from spark.audit_world import World

HERE = Path(__file__).parent


WITHOUT_SPARK = {"test_audit", "test_audit_clean", "test_audit_scopes", "test_lives", "test_pruned_journal"}
"""Tests of what the jobs do before and without Spark."""
OWN_PROCESSES = {"test_cluster", "test_connect", "test_kills"}
"""Tests that start each Java that they need, and share none."""


@pytest.hookimpl(tryfirst=True)  # before xdist looks for groups, also where only these tests are asked for
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What shares a session belongs to one worker of xdist, so that there is one JVM.

    What starts its own belongs to another one, so that there are not many at a time. Both take longest, so they begin.
    """
    for item in items:
        if HERE in item.path.parents and item.path.stem not in WITHOUT_SPARK:
            group = "processes of spark" if item.path.stem in OWN_PROCESSES else "spark"
            item.add_marker(pytest.mark.xdist_group(group))
    items.sort(key=lambda item: item.get_closest_marker("xdist_group") is None)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The session. It compiles lightly, because most tests are over before thorough compiling would pay."""
    from tidings.spark import session
    from tidings.spark._java import end_java

    home = tmp_path_factory.mktemp("spark")
    quick = "-XX:TieredStopAtLevel=1"
    started = session(
        "local[2]",
        options={
            "spark.driver.memory": "1g",
            "spark.driver.defaultJavaOptions": quick,
            "spark.local.dir": str(home / "local"),
            "spark.sql.warehouse.dir": str(home / "warehouse"),
        },
    )
    try:
        yield started
    finally:
        started.stop()
        end_java()


@pytest.fixture(scope="session")
def audited(tmp_path_factory: pytest.TempPathFactory) -> World:
    """Two brokers that have run, one of which has lost numbers 7 and 33; half of it archived. It is only read."""
    from spark.audit_world import Planted, World, publish

    from tidings.store.archive import Promoted, roll

    world = World(tmp_path_factory.mktemp("audit"))

    async def main() -> None:
        async with world.running("ab", {"b": Planted("loss", 7, 33)}), world.client("alice", "a") as alice:
            async with world.client("bob", "b") as bob, world.client("carol", "b") as carol:
                await bob.subscribe("type = 'quote'", callback=lambda _: None)
                await carol.subscribe("n > 30", callback=lambda _: None)
                await publish(alice, *range(1, 26))
                await asyncio.to_thread(roll, world.home / "a", world.home / "archive", [Promoted("type")])
                await publish(alice, *range(26, 51))
                await world.acknowledged()

    asyncio.run(main())
    return world
