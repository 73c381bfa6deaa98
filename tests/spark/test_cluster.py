"""A real cluster on this machine, a master and two workers: source, sink and audit work there as in one process."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest
from spark.audit_world import Planted, World
from spark.audit_world import publish as publish_at
from spark_processes import BrokerProcess, cluster, publish
from spark_world import archived

from tidings.model import Filter
from tidings.store.archive import ArchiveReader

CODE = """
import sys
from tidings.spark import explained, read_archive, session
from pyspark.sql import functions as F
master, archive, origin, target, checkpoint = sys.argv[1:]
spark = session(master, options={"spark.executor.memory": "512m", "spark.driver.memory": "512m",
    "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1", "spark.cores.max": "2",
    "spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1", "spark.ui.enabled": "false",
    "spark.executor.defaultJavaOptions": "-XX:TieredStopAtLevel=1"})
with explained():
    table = spark.read.format("tidings").load(archive)
    print("table", table.where("price > 50").count(), read_archive(spark, archive, "price > 50").count())
    source = spark.readStream.format("tidings").option("broker", origin).option("promote", "n:integer")
    rows = source.load().select("n").repartition(4, "n")
    query = (rows.writeStream.format("tidings").option("broker", target).option("checkpointLocation", checkpoint)
        .trigger(availableNow=True).start())
    query.awaitTermination()
    hosts = spark.range(8).repartition(8).mapInPandas(
        lambda some: (__import__("pandas").DataFrame({"pid": [__import__("os").getppid()]}) for _ in some), "pid long")
    print("processes", hosts.distinct().count() > 1)
spark.stop()
"""


AUDIT = """
import sys
import tidings.spark._audit as job
from tidings.spark import session
master, work, *data = sys.argv[1:]
spark = session(master, options={"spark.executor.memory": "512m", "spark.driver.memory": "512m",
    "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1", "spark.cores.max": "2",
    "spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1", "spark.ui.enabled": "false",
    "spark.executor.defaultJavaOptions": "-XX:TieredStopAtLevel=1"})
job.PIECE_NUMBERS = 7
report = job.audit(data, since=0, until=2**62, skew=0.0, master=master, work=work)
for one in report.findings:
    print(one.kind.value, one.client, one.seq)
print(report.verdict.owed, report.verdict.sent)
spark.stop()
"""


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory):
    with cluster(tmp_path_factory.mktemp("cluster")) as address:
        yield address


def test_source_and_sink_on_a_cluster(master: str, tmp_path: Path) -> None:
    archive = archived(tmp_path, 300)
    origin, target = BrokerProcess("origin", tmp_path), BrokerProcess("target", tmp_path)
    try:
        publish(origin.url, range(1_000))
        words = [sys.executable, "-c", CODE, master, str(archive), origin.url, target.url, str(tmp_path / "checkpoint")]
        ran = subprocess.run(words, capture_output=True, text=True, timeout=170, check=False)
        assert ran.returncode == 0, ran.stderr[-3_000:]
        expected = len(list(ArchiveReader(archive).query(Filter.parse("price > 50"))))
        assert ran.stdout.splitlines() == [f"table {expected} {expected}", "processes True"]
        assert sorted(target.numbers()) == list(range(1_000))
    finally:
        origin.kill()
        target.kill()


def test_an_audit_on_a_cluster(master: str, tmp_path: Path) -> None:
    world = World(tmp_path)

    async def main() -> None:
        async with world.running("ab", {"b": Planted("loss", 7, 33)}), world.client("alice", "a") as alice:
            async with world.client("bob", "b") as bob:
                await bob.subscribe("type = 'quote'", callback=lambda _: None)
                await publish_at(alice, *range(1, 51))
                await world.acknowledged()

    asyncio.run(main())
    words = [sys.executable, "-c", AUDIT, master, str(tmp_path / "work"), str(tmp_path / "a"), str(tmp_path / "b")]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=170, check=False)
    assert ran.returncode == 0, ran.stderr[-3_000:]
    assert ran.stdout.splitlines() == ["loss bob 7", "loss bob 33", "50 48"]
