"""A session that starts in half the time: Java keeps the classes that Spark loads in a file, and maps them from there.

Java calls it class data sharing. The file belongs to one Java and one Spark, as its name says; Java itself looks at
every jar before it trusts the file, and does without it if one has changed. It is code, so it must belong to the one
who uses it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from ._errors import SparkError, not_installed
from ._java import end_java, find_java

_QUIET = ("-Xshare:auto", "-Xlog:disable", "-Xlog:all=error:stderr")
"""A file that does not fit any more is no reason to say anything."""


def warm() -> Path:
    """Make the file for this Java and this Spark, which takes half a minute, and return its path."""
    try:
        path = _path(find_java())
    except ModuleNotFoundError as error:
        raise not_installed(error) from None
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.unlink(missing_ok=True)  # Java cannot keep what it has itself from such a file
    with tempfile.TemporaryDirectory(dir=path.parent) as home:
        made = Path(home, "classes.jsa")
        words = [sys.executable, "-m", __name__, str(made), str(Path(home, "table"))]
        said = subprocess.run(words, capture_output=True, text=True, check=False)  # noqa: S603 - this very module
        if said.returncode or not made.exists():
            why = (said.stderr.strip() or said.stdout.strip() or "it has written nothing").splitlines()[-1]
            raise SparkError(
                f"Java did not save the classes of Spark: {why}; sessions start as before; another Java may save them "
                "(set JAVA_HOME)"
            )
        _size(path).write_text(str(made.stat().st_size))
        made.replace(path)
    return path


def kept(java: Path) -> list[str]:
    """The options with which a Java finds what has been kept for it; none if there is nothing."""
    path = _path(java)
    with contextlib.suppress(OSError):
        known = path.stat()
        if known.st_uid == os.getuid() and _size(path).read_text() == str(known.st_size):
            return [*_QUIET, f"-XX:SharedArchiveFile={path}"]
    return []


def _size(path: Path) -> Path:
    """Where the size of the file is written down: Java 17 ends with a crash if it was cut off."""
    return path.with_suffix(".size")


def _path(java: Path) -> Path:
    import pyspark  # noqa: PLC0415 - an extra, and slow to load

    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    which = f"{java.resolve()}\n{java.stat().st_mtime_ns}\n{pyspark.__file__}"
    name = f"spark-{pyspark.__version__}-{hashlib.sha256(which.encode()).hexdigest()[:12]}.jsa"
    return Path(base).expanduser() / "tidings" / name


def _work(made: str, path: str) -> None:
    """Do what most jobs do, so that its classes are loaded; Java writes the file as it ends."""
    from ._session import session  # noqa: PLC0415 - needs pyspark

    options = " ".join([*_QUIET, f'"-XX:ArchiveClassesAtExit={made}"'])
    spark = session("local[2]", options={"spark.driver.defaultJavaOptions": options})
    spark.range(1000).selectExpr("id", "id % 7 AS kind", "string(id) AS name").write.parquet(path)
    table = spark.read.parquet(path).where("kind = 3 AND name > '5'")
    table.groupBy("kind").count().orderBy("count").collect()
    spark.stop()
    end_java()


if __name__ == "__main__":
    _work(*sys.argv[1:])
