"""The border of a simulated world: what an application does in it stays in it.

Inside a world the clock, randomness and the network belong to the simulation. Whatever would reach the real ones either
gets simulated ones instead (`time.time`, `time.monotonic`, `random`, `os.urandom`, and with it `uuid4` and `secrets`)
or is refused with the place in the application and the remedy (`time.sleep`, threads, processes, sockets, signals,
another event loop). It applies to the thread of the world; other threads, such as those of a test runner, keep the real
ones.

Functions are replaced where they are, in their modules. What was taken from there before, by `from time import sleep`
at the top of a file, is not; nor is what has its clock in C, such as `datetime.now()`.
"""

from __future__ import annotations

import _thread
import asyncio
import os
import random
import select
import signal
import socket
import subprocess
import sys
import sysconfig
import threading
import time
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from types import FrameType, ModuleType
from typing import Any

from tidings.model import TidingsError

from ._scheduler import Scheduler

_TIDINGS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_STDLIB = sysconfig.get_paths()["stdlib"] + os.sep


_COROUTINE = "make it a coroutine: nothing waits in virtual time"
_TASK = "use a task: `asyncio.create_task(...)`"
_PROCESS = "start an application with `world.start(...)`, and let it be no other program"
_URL = "connect to `world.url(...)`"
_REFUSED: tuple[tuple[ModuleType | type, str, str, str], ...] = (
    (time, "sleep", "time.sleep", "use `await asyncio.sleep(...)`, which takes virtual time"),
    (threading.Thread, "start", "a thread", _TASK),
    (_thread, "start_new_thread start_new start_joinable_thread", "a thread", _TASK),
    (threading.Condition, "wait", "waiting for a thread", "use what asyncio has: `asyncio.Event`, `asyncio.Queue`"),
    (asyncio, "new_event_loop", "another event loop", "a world runs everything on its own"),
    (socket.socket, "connect connect_ex bind sendto", "a real socket ({})", _URL),
    (socket, "getaddrinfo gethostbyname", "asking for the address of a host", _URL),
    (select, "select poll", "waiting for real files (select.{})", _COROUTINE),
    (subprocess.Popen, "__init__", "another process", _PROCESS),
    (BaseProcess, "start", "another process", _PROCESS),
    (os, "system fork forkpty posix_spawn posix_spawnp execv execve", "another process (os.{})", _PROCESS),
    (signal, "signal alarm setitimer", "a signal of the system (signal.{})", "leave it out: `world.crash` kills"),
)
"""What an application must not do in a world: of what, which functions, what that is, and the remedy."""


class OutsideWorld(TidingsError):
    """Something was refused because it would leave the simulated world."""


def is_library(frame: FrameType) -> bool:
    """Whether this is code of Python or of Tidings, not of the application."""
    file = frame.f_code.co_filename
    return file.startswith((_TIDINGS, "<frozen")) or (file.startswith(_STDLIB) and "site-packages" not in file)


def place() -> str:
    """Return where the application is that has called this, as file, line and function."""
    frame: FrameType | None = sys._getframe(1)
    innermost = frame
    while frame is not None and is_library(frame):
        frame = frame.f_back
    found = frame or innermost
    assert found is not None
    return f"{found.f_code.co_filename}:{found.f_lineno} in {found.f_code.co_name}"


def refusal(what: str, remedy: str) -> OutsideWorld:
    """Return the error for something that the application does now."""
    return OutsideWorld(f"{what} would leave the simulated world, at {place()}; {remedy}")


class Border:
    """Everything that is replaced while a world runs in this thread."""

    _closed: Border | None = None
    """The one of the world that runs in this process."""

    def __init__(self, scheduler: Scheduler, seed: object) -> None:
        self._scheduler = scheduler
        self._seed = seed
        self._entropy = random.Random(f"entropy {seed}")
        self._replaced: list[tuple[Any, str, Any]] = []
        self._values: dict[tuple[Any, str], Callable[..., Any]] = {}
        """What stands in the place of the real functions in this world."""
        self._state: Any = None
        self._thread = 0

    def require_closed(self) -> None:
        """Raise `OutsideWorld` unless the world runs."""
        if Border._closed is not self:
            state = "has ended" if self._thread else "has not begun"
            raise OutsideWorld(f"this world {state}, at {place()}; call it inside `async with`")

    def close(self) -> None:
        """Begin: nothing gets out any more."""
        if self._thread:
            raise OutsideWorld(f"this world has begun before, at {place()}; make another one: `World(...)`")
        if Border._closed is not None:
            raise OutsideWorld("another world runs in this process; run one after the other, or in other processes")
        Border._closed = self
        self._thread = threading.get_ident()
        self._state = random.getstate()
        random.seed(f"application {self._seed}")
        scheduler = self._scheduler
        for name, value in (
            ("time", lambda: scheduler.now / 1_000_000),
            ("time_ns", lambda: scheduler.now * 1_000),
            ("monotonic", lambda: scheduler.now / 1_000_000),
            ("monotonic_ns", lambda: scheduler.now * 1_000),
        ):
            self._replace(time, name, value)
        self._replace(os, "urandom", self._entropy.randbytes)
        self._replace(random, "_urandom", self._entropy.randbytes)
        for owner, names, what, remedy in _REFUSED:
            for name in names.split():
                if hasattr(owner, name):  # not every system, nor every Python, has all of them
                    self._refuse(owner, name, what.format(name), remedy)

    def open(self) -> None:
        """End: everything is as it was before. Opening an open one does nothing."""
        if Border._closed is not self:
            return
        Border._closed = None
        for owner, name, value in reversed(self._replaced):
            setattr(owner, name, value)
        self._replaced.clear()
        random.setstate(self._state)

    def _replace(self, owner: ModuleType | type, name: str, value: Callable[..., Any]) -> None:
        real = getattr(owner, name)

        def replaced(*args: Any, **more: Any) -> Any:
            # A module that was imported in a world keeps this for ever: it means the world that runs now, if any.
            # It does not bind asyncio itself, which begins and ends the loop.
            world = Border._closed
            if world is None or threading.get_ident() != world._thread or asyncio._get_running_loop() is None:
                return real(*args, **more)
            return world._values[owner, name](*args, **more)

        self._values[owner, name] = value
        self._replaced.append((owner, name, real))
        setattr(owner, name, replaced)

    def _refuse(self, owner: ModuleType | type, name: str, what: str, remedy: str) -> None:
        def refused(*args: Any, **more: Any) -> Any:
            raise refusal(what, remedy)

        self._replace(owner, name, refused)
