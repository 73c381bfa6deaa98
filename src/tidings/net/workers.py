"""Workers as processes: what a `Supervisor` wants done is done here, on asyncio, and nothing is decided.

A process has two pipes and no environment. Everything that concerns one process stops at its end: what a process
that was killed had still written is not read.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Callable, Sequence

from tidings.aggregation.workers import (
    HEADER,
    MEMORY,
    Answer,
    Code,
    Done,
    Effect,
    GivenUp,
    Job,
    Kill,
    Quarantined,
    Reply,
    Send,
    Start,
    Supervisor,
    command,
    length_of,
    unframed,
)
from tidings.model import AggregateError, printable

log = logging.getLogger("tidings.net")

_ENDED = {
    77: "it has no memory left",
    78: "its isolation cannot be put up",
}
"""What the exit codes of a worker mean."""
_SAID = 400
"""How many bytes of its error output are read when it has ended."""


class Worker:
    """The worker of one tenant. `submit` gives answers, or raises `AggregateError` if the batch was given up."""

    def __init__(
        self,
        tenant: str,
        *,
        both: bool = True,
        memory: int = MEMORY,
        on_quarantine: Callable[[str, str], None] = lambda definition, reason: None,
    ) -> None:
        self._tenant = tenant
        self._command = command(both=both, memory=memory)
        self._on_quarantine = on_quarantine
        self.supervisor = Supervisor()
        self._waiting: dict[int, asyncio.Future[tuple[Answer, ...]]] = {}
        self._process: _Process | None = None
        self._living: set[_Process] = set()
        """Those that have not ended yet, though they may have been killed."""
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    def install(self, definition: str, code: Code) -> None:
        """Take a definition, whose source is sent with its first batch."""
        self.supervisor.install(definition, code)

    def remove(self, definition: str) -> None:
        """Forget a definition; whoever waits for it is told."""
        self._do(self.supervisor.remove(definition))

    async def submit(self, definition: str, jobs: Sequence[Job]) -> tuple[Answer, ...]:
        """The answers to a batch of jobs for one definition, one for each."""
        if self._closed:
            raise AggregateError(f"the worker of {self._tenant} is closed")
        loop = asyncio.get_running_loop()
        number, effects = self.supervisor.submit(definition, jobs, loop.time())
        waiting: asyncio.Future[tuple[Answer, ...]] = loop.create_future()
        self._waiting[number] = waiting
        self._do(effects)
        return await waiting

    async def close(self) -> None:
        """End the process; whoever waits is told."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(AggregateError(f"the worker of {self._tenant} is closed"))
        self._waiting.clear()
        self._process = None
        for process in self._living:
            process.kill()
        await asyncio.gather(*(process.task for process in self._living), return_exceptions=True)

    def _gone(self, process: _Process, task: asyncio.Task[None]) -> None:
        self._living.discard(process)

    def _do(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            match effect:
                case Start():
                    self._process = _Process(self._command, self._heard, self._lost)
                    self._living.add(self._process)
                    self._process.task.add_done_callback(functools.partial(self._gone, self._process))
                case Send(frame):
                    if self._process is not None:
                        self._process.send(frame)
                case Kill(reason):
                    log.warning("the worker of %s was ended: %s", self._tenant, printable(reason))
                    if self._process is not None:
                        self._process.kill()
                        self._process = None
                case Done(number, answers):
                    self._settle(number, answers)
                case GivenUp(number, reason):
                    self._settle(number, AggregateError(f"the worker of {self._tenant}: {printable(reason)}"))
                case Quarantined(definition, reason):
                    log.warning("%s is in quarantine: %s", definition, printable(reason))
                    self._on_quarantine(definition, reason)
        self._arm()

    def _settle(self, number: int, result: tuple[Answer, ...] | AggregateError) -> None:
        waiting = self._waiting.pop(number, None)
        if waiting is None or waiting.done():
            return
        if isinstance(result, AggregateError):
            waiting.set_exception(result)
        else:
            waiting.set_result(result)

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self.supervisor.deadline is not None and not self._closed:
            self._timer = asyncio.get_running_loop().call_at(self.supervisor.deadline, self._late)

    def _late(self) -> None:
        self._timer = None
        self._do(self.supervisor.late(asyncio.get_running_loop().time()))

    def _heard(self, process: _Process, reply: Reply) -> None:
        if process is not self._process or self._closed:
            return
        now = asyncio.get_running_loop().time()
        if reply.number:
            self._do(self.supervisor.reply(reply, now))
        else:
            self._do(self.supervisor.ready(reply.layers, now))

    def _lost(self, process: _Process, reason: str) -> None:
        if process is self._process and not self._closed:
            self._process = None
            self._do(self.supervisor.lost(reason, asyncio.get_running_loop().time()))


class _Process:
    """One process: it is started, spoken to, heard, and ends once."""

    def __init__(
        self,
        words: Sequence[str],
        heard: Callable[[_Process, Reply], None],
        lost: Callable[[_Process, str], None],
    ) -> None:
        self._heard = heard
        self._lost = lost
        self._process: asyncio.subprocess.Process | None = None
        self._killed = False
        self._frames: list[bytes] = []
        self.task = asyncio.ensure_future(self._run(words))

    def send(self, frame: bytes) -> None:
        """Write a frame; the pipe holds it until the worker reads."""
        if self._process is not None and self._process.stdin is not None and not self._killed:
            self._process.stdin.write(frame)

    def kill(self) -> None:
        """End it now."""
        self._killed = True
        if self._process is not None and self._process.returncode is None:
            self._process.kill()

    async def _run(self, words: Sequence[str]) -> None:
        pipe = asyncio.subprocess.PIPE
        reason = ""
        try:
            self._process = process = await asyncio.create_subprocess_exec(
                *words, stdin=pipe, stdout=pipe, stderr=pipe, env={}, cwd="/"
            )
            if self._killed:
                process.kill()
            assert process.stdout is not None
            assert process.stderr is not None
            reason = await self._listen(process.stdout)
            if process.returncode is None and reason:
                process.kill()
            said = (await process.stderr.read(_SAID)).decode(errors="replace").strip()
            code = await process.wait()
            reason = reason or said or _ENDED.get(code, f"it ended with code {code}")
        except OSError as error:
            reason = f"it cannot be started: {error}"
        finally:
            if self._process is not None:
                self._process._transport.close()  # type: ignore[attr-defined]  # its pipes may outlive it
        if not self._killed:
            self._lost(self, reason)

    async def _listen(self, stdout: asyncio.StreamReader) -> str:
        """Hear replies until the end of the pipe; why it must be ended, if it says what is no reply."""
        while not self._killed:
            try:
                header = await stdout.readexactly(HEADER)
                self._heard(self, unframed(await stdout.readexactly(length_of(header)), Reply))
            except asyncio.IncompleteReadError:
                return ""
            except AggregateError as error:
                return str(error)
        return ""
