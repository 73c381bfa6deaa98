"""Applications as processes of a world: each can be killed, and started again.

A process is what one coroutine does, with all the tasks and clients that come of it. When it is killed, nothing that it
sends arrives any more, from this moment on, and the brokers notice that its connections are gone, as they would notice
that of a process that was killed by `kill -9`. Its tasks are cancelled; what they do about it, in `finally` blocks for
example, reaches nobody.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any

from ._cable import Cable
from ._witness import Witness


class Process:
    """One life of an application."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.main: asyncio.Task[Any] | None = None
        """What it does; when that ends, it has ended."""
        self.alive = True
        """Whether it has not been killed."""
        self.tasks: set[asyncio.Task[Any]] = set()
        self.cables: list[Cable] = []
        self.witnesses: list[Witness] = []

    def kill(self) -> None:
        """End it, without a word to anybody."""
        self.alive = False
        for cable in self.cables:
            cable.sever()
        for witness in self.witnesses:
            witness.left()
        for task in sorted(self.tasks, key=_age):
            task.cancel()


def _age(task: asyncio.Task[Any]) -> Any:
    return asyncio.get_running_loop()._ages.get(task, -1)  # type: ignore[attr-defined]


current: ContextVar[Process | None] = ContextVar("process", default=None)
"""The process that runs now; None: the test itself, which does not die."""


class Processes:
    """The applications that a world can start and kill."""

    def __init__(self) -> None:
        self._applications: dict[str, Callable[[], Awaitable[Any]]] = {}
        self._lives: dict[str, Process] = {}

    @property
    def names(self) -> list[str]:
        """All of them, dead or alive."""
        return list(self._applications)

    @property
    def living(self) -> list[str]:
        """Those that are alive."""
        return [name for name in self._applications if self.lives(name)]

    def lives(self, name: str) -> bool:
        """Whether this one is alive: it was not killed, and has not ended by itself."""
        process = self._lives.get(name)
        return process is not None and process.alive and process.main is not None and not process.main.done()

    def was_killed(self, name: str) -> bool:
        """Whether this one is dead because somebody has killed it."""
        return name in self._lives and not self._lives[name].alive

    def start(self, name: str, application: Callable[[], Awaitable[Any]]) -> asyncio.Task[Any]:
        """Run an application for the first time."""
        self._applications[name] = application
        return self.restart(name)

    def restart(self, name: str) -> asyncio.Task[Any]:
        """Run it again. What is left of its last life, such as tasks that have outlived it, ends."""
        if name in self._lives:
            self._lives[name].kill()
        process = self._lives[name] = Process(name)
        token = current.set(process)
        try:
            process.main = asyncio.ensure_future(_run(self._applications[name]))
        finally:
            current.reset(token)
        return process.main

    def kill(self, name: str) -> None:
        """Kill it."""
        self._lives[name].kill()


async def _run(application: Callable[[], Awaitable[Any]]) -> Any:
    return await application()
