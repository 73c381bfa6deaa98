"""The keeper: has the store forget what is too old or too much, and has what it has grown by archived.

How much is too much was decided when the broker started (`_bounds`).

A roll is the work of a process of its own (`python -m tidings.store.archive`), at low priority: it takes a core for a
while, and a thread would share the interpreter's lock with the loop. The keeper starts one when the last has ended and
`roll_after` has passed, or the store has grown by a part of its bound, and notes in the store how far the archive
reaches; only then may the store forget. A roll that fails is told in the log and tried again next time. When it is
done, the process removes this broker's oldest files from an archive that is beyond its bound.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
import logging
import math
import sys
import time
from asyncio.subprocess import DEVNULL, PIPE, Process
from pathlib import Path
from typing import Any

from tidings.model import Position
from tidings.store import ARCHIVED, Store, StoreError, open_to_others

from ._bounds import bounds_of, held_before
from ._options import ArchiveOptions, Options

log = logging.getLogger("tidings.net")

RETAIN_SECONDS = 10.0
"""How often the store is told its limits."""
ROLL_PART = 4
"""A roll does not wait for its time when the store has grown by this part of its bound."""


class Housekeeper:
    """Looks after the disk of one broker."""

    def __init__(self, store: Store, options: Options) -> None:
        self._store = store
        self._options = options
        self.archived = ARCHIVED.read(store.items(ARCHIVED.table))
        """How far the archive reaches."""
        self.bounds = bounds_of(options, held_before(store, options))
        """How much the store and the archive may hold."""
        self.rolls = self.failures = self.rows = self.removed = 0
        for warning in store.warnings:
            log.warning("%s", warning)
        if options.archive is not None and (wide := open_to_others(Path(options.archive.directory))):
            log.warning("%s", wide)
        self._unforgotten = ""
        """Why something old stays in the store, as the log has been told."""

    @property
    def counted(self) -> dict[str, int]:
        """What was archived since the broker started, for status and metrics; empty without an archive."""
        if self._options.archive is None:
            return {}
        told = {"archived": self.rows, "archive_rolls": self.rolls, "archive_failures": self.failures}
        return {**told, "archive_removed": self.removed}

    async def run(self) -> None:
        """Go on until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._retain_now_and_then())
            if (archive := self._options.archive) is not None:
                tasks.create_task(self._roll_now_and_then(archive))

    # --- retention ------------------------------------------------------------------------------------

    async def _retain_now_and_then(self) -> None:
        while True:
            self.retain()
            await asyncio.sleep(RETAIN_SECONDS)

    def retain(self) -> None:
        """Tell the store its limits."""
        limits, now = self._options.store, time.time_ns() // 1_000
        older_than = None if limits.retain_for is None else now - int(limits.retain_for * 1e6)
        journal_before = now - int(limits.journal_for * 1e6)
        archived = self.archived if self._options.archive is not None else None
        with contextlib.suppress(StoreError):  # too much waits for the disk: then next time
            self._store.retain(
                max_bytes=self.bounds.store,
                older_than=older_than,
                archived=archived,
                journal_before=journal_before,
                synced=self._forgot,
                failed=self._could_not_forget,
            )

    def _forgot(self) -> None:
        if self._unforgotten:
            log.info("the store forgets old publications again")
        self._unforgotten = ""

    def _could_not_forget(self, error: StoreError) -> None:
        if (problem := str(error)) != self._unforgotten:  # once, not every few seconds
            log.error("%s", problem)
        self._unforgotten = problem

    # --- archive --------------------------------------------------------------------------------------

    async def _roll_now_and_then(self, archive: ArchiveOptions) -> None:
        while True:
            await self._until_due(archive)
            try:
                await self.roll(archive)
            except Exception as error:  # whatever it is, the next roll is a new attempt
                self._failed(f"{type(error).__name__}: {error}")

    async def _until_due(self, archive: ArchiveOptions) -> None:
        """Until `roll_after` has passed, or what is not archived is much for a store of this size."""
        deadline = time.monotonic() + archive.roll_after
        most = math.inf if self.bounds.store is None else self.bounds.store // ROLL_PART
        before = self._store.statistics().bytes
        while (left := deadline - time.monotonic()) > 0 and self._store.statistics().bytes - before < most:
            await asyncio.sleep(min(left, RETAIN_SECONDS))

    async def roll(self, archive: ArchiveOptions) -> None:
        """Archive what has been synced since the last time."""
        data = self._store.path.parent
        most = "-" if self.bounds.archive is None else str(self.bounds.archive)
        command = [sys.executable, "-m", "tidings.store.archive", str(data), str(archive.directory), most]
        command += archive.promote
        try:
            process = await asyncio.create_subprocess_exec(
                *command, stdin=DEVNULL, stdout=PIPE, stderr=PIPE, start_new_session=True
            )  # a session of its own: Ctrl-C is for the broker, which ends it in order
        except OSError as error:
            self._failed(str(error))
            return
        try:
            told, complaints = await process.communicate()
        except asyncio.CancelledError:
            await _ended(process)
            raise
        if process.returncode == 0:
            self._rolled(json.loads(told))
        else:
            self._failed(complaints.decode(errors="replace").strip().rpartition("\n")[2])

    def _rolled(self, told: dict[str, Any]) -> None:
        self.rolls += 1
        self.rows += told["count"]
        if told["damage"]:
            log.warning("cannot archive %s damaged batches of the log", len(told["damage"]))
        if told["removed"]:
            self.removed += told["removed"]
            log.info(
                "the archive exceeded %s bytes, and its %s oldest files were removed; [archive] retain_bytes sets it",
                f"{self.bounds.archive:,}",
                told["removed"],
            )
        position = Position(told["epoch"], told["seq"])
        if position > self.archived:
            self.archived = position
            with contextlib.suppress(StoreError):  # the names of the files tell it, too
                self._store.put(*ARCHIVED, ARCHIVED.written(position))
            log.info("archived %s publications, up to number %s", f"{told['count']:,}", position.seq)

    def _failed(self, problem: str) -> None:
        self.failures += 1
        log.error(
            "cannot archive the log: %s; it is kept, and archiving is tried again later", problem or "the process died"
        )


async def _ended(process: Process) -> None:
    """A roll may end at any moment; what it has not finished, the next one does."""
    with contextlib.suppress(ProcessLookupError):
        process.kill()
    await process.wait()


def can_archive() -> bool:
    """Whether the extra `archive` is installed."""
    return importlib.util.find_spec("pyarrow") is not None
