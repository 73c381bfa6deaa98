"""A real cluster on this machine, a master and two workers: source, sink and audit work there as in one process.

One driver does all of it, so that the executors start once.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from spark.audit_world import World
from spark_processes import BrokerProcess, cluster, publish
from spark_world import archived

from tidings.model import Filter
from tidings.store.archive import ArchiveReader

pytestmark = pytest.mark.soak

CODE = """
import sys
import tidings.spark._audit as job
from tidings.spark import explained, read_archive, session
from pyspark.sql import functions as F
master, archive, origin, target, home, *data = sys.argv[1:]
spark = session(master, options={"spark.executor.memory": "512m", "spark.driver.memory": "512m",
    "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1", "spark.cores.max": "2",
    "spark.sql.shuffle.partitions": "4",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1", "spark.ui.enabled": "false",
    "spark.executor.defaultJavaOptions": "-XX:TieredStopAtLevel=1"})
with explained():
    table = spark.read.format("tidings").load(archive)
    print("table", table.where("price > 50").count(), read_archive(spark, archive, "price > 50").count())
    source = spark.readStream.format("tidings").option("broker", origin).option("promote", "n:integer")
    rows = source.load().select("n").repartition(4, "n")
    query = (rows.writeStream.format("tidings").option("broker", target)
        .option("checkpointLocation", home + "/checkpoint").trigger(availableNow=True).start())
    query.awaitTermination()
    hosts = spark.range(8).repartition(8).mapInPandas(
        lambda some: (__import__("pandas").DataFrame({"pid": [__import__("os").getppid()]}) for _ in some), "pid long")
    print("processes", hosts.distinct().count() > 1)
print("audit")
job.PIECE_NUMBERS = 7
report = job.audit(data, since=0, until=2**62, skew=0.0, master=master, work=home + "/work")
for one in report.findings:
    print(one.kind.value, one.client, one.seq)
print(report.verdict.owed, report.verdict.sent)
spark.stop()
"""


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory, audited: World) -> Done:
    home = tmp_path_factory.mktemp("cluster")
    archive = archived(home, 300)
    brokers = origin, target = BrokerProcess("origin", home), BrokerProcess("target", home)
    try:
        publish(origin.url, range(1_000))
        with cluster(home) as master:
            data = [str(audited.home / name) for name in "ab"]
            words = [sys.executable, "-c", CODE, master, str(archive), origin.url, target.url, str(home), *data]
            ran = subprocess.run(words, capture_output=True, text=True, timeout=340, check=False)
        assert ran.returncode == 0, ran.stderr[-3_000:]
        flow, _, audit = ran.stdout.partition("audit\n")
        return Done(archive, flow.splitlines(), target.numbers(), audit.splitlines(), ran.stderr)
    finally:
        for broker in brokers:
            broker.kill()


class Done(NamedTuple):
    """What one driver has done on the cluster."""

    archive: Path
    flow: list[str]
    published: list[int]
    audit: list[str]
    complaints: str


def test_a_driver_on_a_cluster_is_quiet(done: Done) -> None:
    assert done.complaints == ""


def test_source_and_sink_on_a_cluster(done: Done) -> None:
    expected = len(list(ArchiveReader(done.archive).query(Filter.parse("price > 50"))))
    assert done.flow == [f"table {expected} {expected}", "processes True"]
    assert sorted(done.published) == list(range(1_000))


def test_an_audit_on_a_cluster(done: Done) -> None:
    assert done.audit == ["loss bob 7", "loss bob 33", "loss carol 33", "70 67"]
