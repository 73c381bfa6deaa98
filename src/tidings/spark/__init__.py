"""Tidings in Spark: everything that flowed, as a table and as a stream. Needs the extra `spark`."""

from ._archive import read_archive
from ._audit import AuditError, Report, audit
from ._columns import column
from ._errors import ArchiveChanged, GapInStream, NoJava, SourceError, SparkError, explained
from ._judge import Finding, Kind, Verdict
from ._progress import progress
from ._session import session

__all__ = [
    "ArchiveChanged",
    "AuditError",
    "Finding",
    "GapInStream",
    "Kind",
    "NoJava",
    "Report",
    "SourceError",
    "SparkError",
    "Verdict",
    "audit",
    "column",
    "explained",
    "progress",
    "read_archive",
    "session",
]
