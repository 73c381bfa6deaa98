"""A session of Spark that is quiet and starts quickly: on this machine unless another master is named.

Whatever is configured already wins: a session that exists is used as it is, and the options of a caller come last. On
this machine nothing listens beyond localhost.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ._errors import SparkError, explained
from ._java import java_home

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
    "spark.ui.showConsoleProgress": "false",
}
"""What the jobs rely on, wherever they run."""
_HERE = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.driver.memory": DRIVER_MEMORY,
    "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_QUIET.as_uri()} -XX:+UseParallelGC",
}
"""On this machine."""


def session(
    master: str | None = None, *, name: str = "tidings", options: Mapping[str, str] | None = None
) -> SparkSession:
    """A session with the data source `tidings`: the one there is, or a new one.

    `master` is what Spark calls so (`local[4]`, `spark://host:7077`, `yarn`, `k8s://...`), or `sc://host:15002` for
    Spark Connect. The caller stops it.
    """
    try:
        from pyspark.sql import SparkSession  # noqa: PLC0415 - an extra, and slow to load
    except ModuleNotFoundError as error:
        raise SparkError(f"Spark needs {error.name}; install it with: pip install 'tidings[spark]'") from None
    from ._source import register  # noqa: PLC0415 - needs pyspark

    with explained():
        spark = SparkSession.getActiveSession() or _started(SparkSession, master or MASTER, name, dict(options or {}))
        register(spark)
    return spark


def _started(kind: type[SparkSession], master: str, name: str, options: dict[str, str]) -> SparkSession:
    builder = kind.builder.appName(name)
    if master.startswith("sc://"):
        settings = SETTINGS | options
        builder = builder.remote(master)
    else:
        _prepare()
        settings = SETTINGS | (_here(master) if master.startswith("local") else {}) | options
        builder = builder.master(master)
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _prepare() -> None:
    """What must be known before Java starts."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else a worker might be another Python
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    os.environ["JAVA_HOME"] = str(java_home())


def _here(master: str) -> dict[str, str]:
    cores = os.cpu_count() or 1 if master in ("local[*]", "local[*,1]") else 2
    return {**_HERE, "spark.sql.shuffle.partitions": str(max(2, cores))}
