"""What an application waits for: the places in its own code at which its tasks stand."""

from __future__ import annotations

import asyncio
import linecache
from collections.abc import Iterable, Iterator
from types import FrameType
from typing import Any

from ._reality import is_library

MAX_SHOWN = 20
"""The most tasks that are named."""


def waits(tasks: Iterable[asyncio.Task[Any]]) -> list[str]:
    """Return one line for each task of the application: where it stands, and the code there."""
    found = sorted(line for task in tasks if not task.done() and (line := _stands(task)))
    rest = len(found) - MAX_SHOWN
    return [*found[:MAX_SHOWN], *([f"and {rest} more tasks"] if rest > 0 else [])]


def fail(task: asyncio.Task[Any], error: BaseException) -> None:
    """Let what a task waits for fail, as far as it waits for anything: it raises the error where the task stands."""
    awaited: Any = task
    while isinstance(awaited, asyncio.Task):
        awaited = getattr(awaited, "_fut_waiter", None)
    if awaited is not None and not awaited.done():
        awaited.set_exception(error)


def _stands(task: asyncio.Task[Any]) -> str:
    own = [frame for frame in _frames(task.get_coro()) if not is_library(frame)]
    if not own:
        return ""
    frame = own[-1]
    code = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
    return f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}: {code}"


def _frames(awaited: Any) -> Iterator[FrameType]:
    """From the outermost to what is waited for."""
    while awaited is not None:
        frame = getattr(awaited, "cr_frame", None) or getattr(awaited, "gi_frame", None)
        frame = frame or getattr(awaited, "ag_frame", None)
        if frame is not None:
            yield frame
        awaited = getattr(awaited, "cr_await", None) or getattr(awaited, "gi_yieldfrom", None)
