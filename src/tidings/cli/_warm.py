"""`tidings warm`: let Spark start sooner from now on."""

from __future__ import annotations

from rich.console import Console

from ._errors import UsageError


def warm() -> None:
    """Let Spark start in half the time on this machine, by keeping the classes that Java loads for it.

    It takes half a minute and 180 MB of ~/.cache/tidings (XDG_CACHE_HOME), once for each Java and each Spark. Remove
    the file, and all is as before.
    """
    try:
        from tidings import spark  # noqa: PLC0415 - an extra, and slow to load
    except ModuleNotFoundError as error:
        raise UsageError(f"Spark needs {error.name}; in a clone of Tidings, run: pip install '.[spark]'") from None

    with Console(stderr=True).status("Spark starts, works a little, and ends"):
        path = spark.warm()
    print(path)
