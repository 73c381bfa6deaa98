"""Whoever is killed, whenever: source and sink together lose nothing and double nothing."""

from __future__ import annotations

import os
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from spark_processes import BrokerProcess, Child, publish, until

from tidings.store import Promoted
from tidings.store.archive import roll

CHILD = str(Path(__file__).with_name("pipe_child.py"))
PROMOTED = [Promoted.parse("n:integer")]


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[tuple[BrokerProcess, BrokerProcess]]:
    one, two = BrokerProcess("origin", tmp_path), BrokerProcess("target", tmp_path)
    (tmp_path / "archive").mkdir()
    yield one, two
    one.kill()
    two.kill()


def check_that_each_came_once(
    brokers: tuple[BrokerProcess, BrokerProcess], count: int, failed: Callable[[], object] = lambda: None
) -> None:
    origin, target = brokers
    assert Counter(origin.numbers()) == dict.fromkeys(range(count), 1)
    until(lambda: failed() or len(target.numbers()) >= count, pause=0.5)
    assert failed() is None
    assert Counter(target.numbers()) == dict.fromkeys(range(count), 1)


@pytest.mark.soak
def test_queries_drivers_and_brokers_that_are_killed_cost_nothing(
    spark: SparkSession, tmp_path: Path, brokers: tuple[BrokerProcess, BrokerProcess]
) -> None:
    origin, target = brokers
    chance = random.Random(os.urandom(8))
    count = 4_000
    publishing = threading.Thread(target=publish, args=(origin.url, range(count)))
    publishing.start()

    def started():
        source = spark.readStream.format("tidings").option("broker", origin.url).option("maxRowsPerTrigger", "300")
        rows = source.option("promote", "n:integer").load(str(tmp_path / "archive")).select("n").repartition(2, "n")
        writing = rows.writeStream.format("tidings").option("broker", target.url)
        return writing.option("checkpointLocation", str(tmp_path / "checkpoint")).start()

    words = [sys.executable, CHILD, origin.url, target.url, str(tmp_path / "archive"), str(tmp_path / "checkpoint")]
    driver = Child(words, tmp_path / "driver.log")
    try:
        until(lambda: not driver.alive or target.numbers(), pause=0.5)  # in the middle of something
        time.sleep(chance.uniform(0, 2))
    finally:
        driver.kill()
    assert target.numbers(), (tmp_path / "driver.log").read_text()
    for victim in ("query", "origin", "target", "query"):
        query = started()
        time.sleep(chance.uniform(0.5, 3))
        if victim == "query":
            query.stop()
            roll(origin.data, tmp_path / "archive", PROMOTED)
            continue
        killed = origin if victim == "origin" else target
        killed.kill()
        time.sleep(chance.uniform(0, 0.5))
        killed.start()
        time.sleep(chance.uniform(0, 1))
        query.stop()
    publishing.join()
    query = started()
    try:
        check_that_each_came_once(brokers, count, query.exception)
    finally:
        query.stop()


@pytest.mark.soak
def test_drivers_and_brokers_that_are_killed_cost_nothing(
    tmp_path: Path, brokers: tuple[BrokerProcess, BrokerProcess]
) -> None:
    origin, target = brokers
    seed = int.from_bytes(os.urandom(4))
    print(f"seed {seed}")
    chance = random.Random(seed)
    until_then = time.monotonic() + min(600.0, float(os.environ.get("SOAK_SECONDS", "60")) / 3)
    count = 0
    words = [sys.executable, CHILD, origin.url, target.url, str(tmp_path / "archive"), str(tmp_path / "checkpoint")]
    driver = Child(words, tmp_path / "driver.log")
    try:
        while time.monotonic() < until_then:
            publish(origin.url, range(count, count + 500))
            count += 500
            time.sleep(chance.uniform(0, 12))
            match chance.choice(["driver", "driver", "origin", "target", "roll"]):
                case "driver":
                    driver.kill()
                    driver = Child(words, tmp_path / "driver.log")
                case "origin":
                    origin.kill()
                    time.sleep(chance.uniform(0, 3))
                    origin.start()
                case "target":
                    target.kill()
                    time.sleep(chance.uniform(0, 3))
                    target.start()
                case "roll":
                    roll(origin.data, tmp_path / "archive", PROMOTED)
            if not driver.alive:
                driver = Child(words, tmp_path / "driver.log")
        check_that_each_came_once(brokers, count)
    finally:
        driver.kill()
