"""A session of Spark that is quiet and starts quickly: on this machine unless another master is named.

Whatever is configured already wins: a session that exists is used as it is, and the options of a caller come last. On
this machine nothing listens beyond localhost.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ._connect import SCHEME, check_reachable
from ._errors import explained, not_installed
from ._java import find_java, java_home
from ._warm import kept

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MASTER = "local[*]"
DRIVER_MEMORY = "2g"
_QUIET = Path(__file__).with_name("log4j2.properties")

SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",  # times before 1900 are what they say
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
}
"""What the jobs rely on, wherever they run."""
_LOG = f"-Dlog4j2.configurationFile={_QUIET.as_uri()}"
_QUIETLY = {"spark.ui.showConsoleProgress": "false"}
"""Where Spark is started by this process."""
_ON_A_CLUSTER = {"spark.driver.defaultJavaOptions": _LOG}
"""What is not said of the driver elsewhere: `extraJavaOptions` may be set where the cluster is configured."""
_HERE = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.driver.memory": DRIVER_MEMORY,
    "spark.driver.extraJavaOptions": f"{_LOG} -XX:+UseParallelGC",
}
"""On this machine."""


def session(
    master: str | None = None, *, name: str = "tidings", options: Mapping[str, str] | None = None
) -> SparkSession:
    """Return a session with the data source `tidings`: the existing one, or a new one.

    `master` is Spark's master (`local[4]`, `spark://host:7077`, `yarn`, `k8s://...`), or `sc://host:15002` for Spark
    Connect. The caller stops the session.
    """
    try:
        from pyspark.sql import SparkSession  # noqa: PLC0415 - an extra, and slow to load
    except ModuleNotFoundError as error:
        raise not_installed(error) from None
    with explained():
        if (spark := SparkSession.getActiveSession()) is None:  # a new one finds the format by its name
            return _started(SparkSession, master or MASTER, name, dict(options or {}))
        from ._source import register  # noqa: PLC0415 - needs pyspark

        register(spark)
    return spark


def _started(kind: type[SparkSession], master: str, name: str, options: dict[str, str]) -> SparkSession:
    _silence()
    builder = kind.builder.appName(name)
    for key, value in (_settings(master) | options).items():
        builder = builder.config(key, value)
    if master.startswith(SCHEME):
        check_reachable(master)
        return builder.remote(master).getOrCreate()
    with _prepared():
        return builder.master(master).getOrCreate()


def _silence() -> None:
    """Keep PySpark from logging each error as a page of JSON beside raising it."""
    from pyspark.logger import PySparkLogger  # noqa: PLC0415 - an extra, and slow to load

    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL + 1)


@contextmanager
def _prepared() -> Iterator[None]:
    """What must be known before Java starts."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else a worker might be another Python
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    java, before = find_java(), os.environ.get("JAVA_HOME")
    os.environ["JAVA_HOME"] = str(java_home(java, kept(java)))
    try:
        yield
    finally:
        if before is None:
            del os.environ["JAVA_HOME"]
        else:
            os.environ["JAVA_HOME"] = before


def _settings(master: str) -> dict[str, str]:
    if master.startswith(SCHEME):
        return SETTINGS
    if not master.startswith("local"):
        return SETTINGS | _QUIETLY | _ON_A_CLUSTER
    cores = os.cpu_count() or 1 if master in ("local[*]", "local[*,1]") else 2
    return SETTINGS | _QUIETLY | _HERE | {"spark.sql.shuffle.partitions": str(max(2, cores))}
