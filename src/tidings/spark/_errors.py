"""What goes wrong in Spark, as one clear message: what, where, and what would help. Never a bare JVM stack trace.

    SparkError             something failed in Spark, or on the way to it
    ├── NoJava             no Java that this Spark can run on
    └── SourceError        the data source `tidings` was asked for what it cannot do
        ├── GapInStream        a stream has missed what nobody holds any more
        └── ArchiveChanged     files went away while they were read; reading again helps

Code that runs in Spark's Python workers raises these, or any other `TidingsError`; Spark carries their text through the
JVM as part of a traceback, and `explained` finds it again.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

from tidings.model import TidingsError


class SparkError(TidingsError):
    """Something failed in Spark, or on the way to it."""


class NoJava(SparkError):
    """There is no Java that this Spark can run on."""


class SourceError(SparkError):
    """The data source was asked for what it cannot do."""


class GapInStream(SourceError):
    """A stream has missed publications that no store or archive holds any more."""


class ArchiveChanged(SourceError):
    """Files of an archive were removed while they were read; reading again helps."""


def not_installed(error: ModuleNotFoundError) -> SparkError:
    """A package of the extra is missing."""
    return SparkError(f"Spark needs {error.name}; install it with: pip install 'tidings[spark]'")


_OURS = re.compile(r"^(?:pyspark\.errors\.\S+: )?(?:\[\w+\] )?tidings\.[\w.]+\.(\w+): (.*)", re.MULTILINE | re.DOTALL)
_END = re.compile(
    r"\n\s*(?:at |\.\.\. \d+ more|Caused by|Driver stacktrace|JVM stacktrace|=== |During handling|SQLSTATE|\n)"
)
_NAMED = re.compile(r"\[([A-Z][A-Z_0-9]+(?:\.[A-Z_0-9]+)*)\]")
"""The name that Spark gives an error."""
_PYTHON = re.compile(r"^(\w+(?:\.\w+)*(?:Error|Exception)): (.+)$", re.MULTILINE)
_CONDITIONS = {
    "JAVA_GATEWAY_EXITED": "Java has printed above why it did not start; often an option or a memory size is wrong",
    "PACKAGE_NOT_INSTALLED": "install what Spark Connect needs: pip install 'pyspark[connect]'",
    "PATH_NOT_FOUND": "name the directory of an archive",
    "FAILED_READ_FILE.FILE_NOT_EXIST": "the archive has changed since the table was made: make a new one",
    "FAILED_READ_FILE": "`tidings archive verify` says which files are damaged",
    "UNRESOLVED_COLUMN": "give an attribute a column of its own with .option('promote', 'name:kind'), or use "
    "tidings.spark.column('a filter') as a condition on any attribute",
    "STREAMING_CHECKPOINT": "use a new checkpoint directory for a new query",
}
"""What helps, by the beginning of the name that Spark gives an error."""


@contextlib.contextmanager
def explained() -> Iterator[None]:
    """Turn an exception of Spark into a `SparkError` with one message; every other exception passes unchanged.

    >>> from tidings.spark import SparkError, explained
    >>> with explained():
    ...     pass
    """
    try:
        yield
    except TidingsError:
        raise
    except Exception as error:
        if not _is_sparks(error):
            raise
        raise SparkError(explanation(error)) from None


def _is_sparks(error: Exception) -> bool:
    return type(error).__module__.partition(".")[0] in ("pyspark", "py4j", "grpc")


def explanation(error: BaseException) -> str:
    """What an exception of Spark says, without the stack traces of two languages.

    >>> explanation(Exception("Aborted.\\n  at org.X\\ntidings.spark._errors.SourceError: no; do so\\n at y"))
    'no; do so'
    """
    java = getattr(error, "java_exception", None)
    text = str(error) if java is None else "\n\n".join([*_messages(java), str(error)])
    if found := _last(_OURS, text):
        return _END.split(found[2], maxsplit=1)[0].strip()
    condition = _condition(error, text)
    remedy = next((help for name, help in _CONDITIONS.items() if condition.startswith(name)), "")
    if found := _last(_PYTHON, text):
        return _with(f"a Spark task failed with {found[1]}: {found[2].strip()}", remedy)
    said = _END.split(text, maxsplit=1)[0].strip().partition("\n")[0]
    return _with(f"Spark says: {said or type(error).__name__}", remedy)


def _last(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    """The last match; one error may stand inside the text of the next."""
    found, at = None, 0
    while (more := pattern.search(text, at)) is not None:
        found, at = more, more.start() + 1
    return found


def _messages(java: object) -> list[str]:
    """What an exception of Java says, and those that caused it: those that have a name for it come first."""
    said: list[str] = []
    while java is not None and len(said) < 20:
        said.append(str(java.getMessage()))  # type: ignore[attr-defined]
        java = java.getCause()  # type: ignore[attr-defined]
    return sorted(said, key=lambda one: _NAMED.search(one) is None)


def _condition(error: BaseException, text: str) -> str:
    get = getattr(error, "getCondition", None)
    if get is not None and (told := get()):
        return str(told)
    return found[1] if (found := _NAMED.search(text)) else ""


def _with(problem: str, remedy: str) -> str:
    return f"{problem}; {remedy}" if remedy else problem
