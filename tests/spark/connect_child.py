"""What a data engineer does, with nothing but a connection to a Spark elsewhere; a line of JSON for each part.

python connect_child.py SERVER BROKER ARCHIVE HOME DATA...
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
from collections.abc import Callable
from typing import Any

from tidings.model import Filter
from tidings.scopes import CreateScope, Graph, Join, apply
from tidings.spark import (
    SparkError,
    Visibility,
    audit,
    column,
    explained,
    progress,
    query_archive,
    read_archive,
    session,
)

FILTER = "price > 50 AND n < 250"


def tell(name: str, what: object) -> None:
    print(json.dumps([name, what]), flush=True)


def complaint(work: Callable[[], object]) -> str:
    try:
        with explained():
            work()
    except SparkError as error:
        return str(error)
    return "nothing"


def without_its_packages(server: str) -> str:
    sys.modules["grpc"] = None  # type: ignore[assignment]
    try:
        return complaint(lambda: session(server))
    finally:
        del sys.modules["grpc"]


def main(server: str, broker: str, archive: str, home: str, *data: str) -> None:
    tell("not installed", without_its_packages(server))
    tell("nobody there", complaint(lambda: session("sc://127.0.0.1:9")))
    spark = session(server)
    tell("kind", type(spark).__module__)
    tell("one session", session() is spark)
    table = read_archive(spark, archive)
    tell("native", [read_archive(spark, archive, FILTER).count(), table.where(column(FILTER, table)).count()])
    tell("column", table.where(column(FILTER)).count())
    tell("source", spark.read.format("tidings").option("filter", FILTER).load(archive).count())
    tell("pushed", pushed(spark, archive))
    for _ in range(2):
        rows = spark.range(50).selectExpr("id AS n")
        rows.write.format("tidings").mode("append").option("broker", broker).option("id", "fifty").save()
    stream(spark, broker, archive, home)
    tell("query", [one.identity.seq for one in query_archive(archive, Filter.parse(FILTER), limit=5, master=server)])
    report = audit(data, since=0, until=2**62, skew=0.0, master=server, work=home)
    tell("audit", sorted([one.kind.value, one.client, one.seq] for one in report.findings))
    graph = apply(Graph(), (CreateScope("S"), Join("@p0", "S"))).numbered(0)
    seen = Visibility(table, graph)
    names = seen.create_views("here ")
    tell("views", [seen.visible("S").count(), spark.sql(f"SELECT * FROM `{names['']}`").count()])
    os.environ["FORCE_COLOR"] = "1"  # as on a terminal; a Spark elsewhere tells nothing of its tasks
    with progress(spark, "counting"):
        tell("progress", spark.range(3).count())
    del os.environ["FORCE_COLOR"]
    tell("no archive", complaint(lambda: spark.read.format("tidings").load("/nowhere/at/all").count()))
    nan = spark.sql("SELECT double('NaN') AS price").write.format("tidings").mode("append").option("broker", broker)
    tell("bad row", complaint(nan.save))
    away = spark.read.format("tidings").option("broker", "tidings://127.0.0.1:9").option("patience", "0.1").load()
    tell("no broker", complaint(away.count))
    spark.stop()


def pushed(spark: Any, archive: str) -> bool:
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        table = spark.read.format("tidings").option("pushdown", "once").load(archive)
        table.where("symbol = 'S07'").explain("formatted")
    return "PushedFilters: [IsNotNull(symbol), EqualTo(symbol,S07)]" in said.getvalue()


def stream(spark: Any, broker: str, archive: str, home: str) -> None:
    """From the archive to the broker."""
    rows = spark.readStream.format("tidings").option("maxRowsPerTrigger", "200").load(archive).selectExpr("seq AS m")
    writing = rows.writeStream.format("tidings").option("broker", broker).option("checkpointLocation", f"{home}/pipe")
    with explained():
        writing.trigger(availableNow=True).start().awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
