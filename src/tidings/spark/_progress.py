"""How far a job of Spark has come, on a terminal: a line that is gone when the work is done."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

INTERVAL = 0.5
"""Seconds between two looks at the tasks."""


@contextlib.contextmanager
def progress(spark: SparkSession, what: str) -> Iterator[None]:
    """Show on a terminal how many tasks of the work inside are done."""
    console = Console(stderr=True)
    if not console.is_terminal or not hasattr(spark, "_jsc"):
        yield  # nobody watches, or Spark is elsewhere and tells nothing
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as shown, _watching(spark, shown, what):
        yield


@contextlib.contextmanager
def _watching(spark: SparkSession, shown: Progress, what: str) -> Iterator[None]:
    task = shown.add_task(what, total=None)
    over = threading.Event()
    tracker = spark.sparkContext.statusTracker()

    def watch() -> None:
        while not over.wait(INTERVAL):
            stages = [info for id in tracker.getActiveStageIds() if (info := tracker.getStageInfo(id)) is not None]
            total = sum(info.numTasks for info in stages)
            if total:
                shown.update(task, total=total, completed=sum(info.numCompletedTasks for info in stages))

    thread = threading.Thread(target=watch, name="tidings-spark-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
