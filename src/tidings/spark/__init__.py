"""Tidings in Spark: everything that flowed, as a table and as a stream. Needs the extra `spark`."""

from ._archive import read_archive
from ._columns import column
from ._errors import ArchiveChanged, GapInStream, NoJava, SourceError, SparkError, explained
from ._progress import progress
from ._session import session

__all__ = [
    "ArchiveChanged",
    "GapInStream",
    "NoJava",
    "SourceError",
    "SparkError",
    "column",
    "explained",
    "progress",
    "read_archive",
    "session",
]
