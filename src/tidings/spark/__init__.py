"""Tidings in Spark: all the traffic, as a table and as a stream. Needs the extra `spark`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidings.model import guard_log

from ._archive import read_archive
from ._audit import AuditError, Report, audit
from ._columns import column
from ._errors import ArchiveChanged, GapInStream, NoJava, SourceError, SparkError, explained
from ._graphs import scope_graph
from ._judge import Finding, Kind, Verdict
from ._mining import Judged, Mined, collect, mine
from ._progress import progress
from ._query import query_archive
from ._series import Step, Windowed, series, windows
from ._session import session
from ._trace_audit import audit_trace
from ._views import Visibility
from ._warm import warm

if TYPE_CHECKING:
    from ._backtest import backtest
    from ._historic import historic
    from ._reconcile import Agreement, Reconciled, Told, reconcile, reconcile_counts, told_in
    from ._source import TidingsSource, register

__all__ = [
    "Agreement",
    "ArchiveChanged",
    "AuditError",
    "Finding",
    "GapInStream",
    "Judged",
    "Kind",
    "Mined",
    "NoJava",
    "Reconciled",
    "Report",
    "SourceError",
    "SparkError",
    "Step",
    "TidingsSource",
    "Told",
    "Verdict",
    "Visibility",
    "Windowed",
    "audit",
    "audit_trace",
    "backtest",
    "collect",
    "column",
    "explained",
    "historic",
    "mine",
    "progress",
    "query_archive",
    "read_archive",
    "reconcile",
    "reconcile_counts",
    "register",
    "scope_graph",
    "series",
    "session",
    "told_in",
    "warm",
    "windows",
]

guard_log("tidings.spark")


def __getattr__(name: str) -> Any:
    """Load what needs pyspark only when it is asked for, so that its absence can be explained."""
    if name in ("TidingsSource", "register"):
        from . import _source  # noqa: PLC0415

        return getattr(_source, name)
    if name == "backtest":
        from ._backtest import backtest  # noqa: PLC0415

        return backtest
    if name in ("Agreement", "Reconciled", "Told", "reconcile", "reconcile_counts", "told_in"):
        from . import _reconcile  # noqa: PLC0415

        return getattr(_reconcile, name)
    if name == "historic":
        from ._historic import historic  # noqa: PLC0415

        return historic
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
