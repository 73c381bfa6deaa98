"""The compiled engine, where one was built; nothing else in Tidings needs it, and nothing means another thing with it.

`engine` is the extension module, or None: then `WHY_PURE` says why, and the same work is done in Python.
`TIDINGS_PURE=1` in the environment switches the engine off, when the package is built as when it runs. How it is built,
and how to change it, is told in docs/native.md. It knows no policy, no clock and no socket, and imports nothing.
"""

import os
from types import ModuleType

__all__ = ["INTERFACE", "WHY_PURE", "describe", "engine", "is_pure"]

INTERFACE = 8
"""What this version of Tidings expects of the extension; one that was built from other sources is not used."""


def is_pure() -> bool:
    """Whether the environment asks for Python only."""
    return os.environ.get("TIDINGS_PURE", "") not in ("", "0")


def _loaded() -> tuple[ModuleType | None, str]:
    if is_pure():
        return None, "TIDINGS_PURE is set"
    try:
        from . import _engine  # noqa: PLC0415 - it may not be there
    except ImportError as error:
        if error.name == f"{__name__}._engine" or "_engine" in str(error):
            return None, "the engine was not built"
        return None, f"the engine cannot be loaded: {error}"
    if _engine.INTERFACE != INTERFACE:
        return None, "the engine was built from other sources; run python -m tidings._native.build"
    return _engine, ""


engine, WHY_PURE = _loaded()


def describe() -> str:
    """Which engine this process has, in a few words.

    >>> describe().startswith(("compiled engine", "pure Python"))
    True
    """
    return "compiled engine" if engine is not None else f"pure Python: {WHY_PURE}"
