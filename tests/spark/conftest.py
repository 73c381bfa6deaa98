"""One session of Spark for all tests of a run: they are kept in one process by their group."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE = Path(__file__).parent


WITHOUT_SPARK = {"test_audit", "test_audit_clean", "test_audit_scopes", "test_lives", "test_pruned_journal"}
"""Tests of what the jobs do before and without Spark."""


@pytest.hookimpl(tryfirst=True)  # before xdist looks for groups, also where only these tests are asked for
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What needs Spark belongs to one worker of xdist, so that there is one JVM; it takes longest, so it begins."""
    for item in items:
        if HERE in item.path.parents and item.path.stem not in WITHOUT_SPARK:
            item.add_marker(pytest.mark.xdist_group("spark"))
    items.sort(key=lambda item: item.get_closest_marker("xdist_group") is None)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The session. It compiles lightly, because most tests are over before thorough compiling would pay."""
    from tidings.spark import session

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
        _end_java()


def _end_java() -> None:
    """Spark leaves Java running until Python ends, and its pipe open."""
    from pyspark import SparkContext

    gateway, SparkContext._gateway, SparkContext._jvm = SparkContext._gateway, None, None
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(30)
