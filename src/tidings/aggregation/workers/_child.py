"""The worker process: it puts up its walls, says so, and answers batches until its pipe is closed.

It keeps definitions and nothing else. The code of a tenant runs with the modules that were imported before the
walls went up; importing another one fails, because no file can be opened.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from typing import Any

from tidings.aggregation.definitions import Aggregate, RunOnce
from tidings.aggregation.laws import check, fingerprint
from tidings.model import AggregateError, Filter, LawBroken, TidingsError

from . import _isolation
from ._allowed import ALLOWED
from ._loading import loaded
from ._messages import (
    HEADER,
    MAX_REASON,
    Answer,
    Batch,
    Check,
    Code,
    Combine,
    Combined,
    Describe,
    Described,
    Failed,
    Fingerprint,
    Job,
    Lawful,
    Lift,
    Lifted,
    Present,
    Presented,
    Printed,
    Reply,
    framed,
    length_of,
    unframed,
)
from ._screening import entry_of

OUT_OF_MEMORY = 77
"""How a worker ends that has no memory left."""
NOT_ISOLATED = 78
"""How a worker ends where its walls cannot be put up; it says why on its error output."""


class Definitions:
    """What this worker runs, by the names that the broker has for them."""

    def __init__(self) -> None:
        self._known: dict[str, Aggregate[Any] | RunOnce] = {}
        self._codes: dict[str, Code] = {}

    def answer(self, batch: Batch) -> Reply:
        """The answers to a batch. Whatever the code raises is an answer too."""
        answers: list[Answer] = []
        try:
            if batch.code is not None:
                self._codes[batch.definition] = batch.code
                self._known[batch.definition] = loaded(batch.code.source, batch.code.entry)
            known = self._known[batch.definition]
            if Describe() in batch.jobs:  # it is about to be deployed
                code = self._codes[batch.definition]
                entry_of(code.source, "the source", code.entry)
            answers = [_answered(known, job) for job in batch.jobs]
        except MemoryError:
            raise
        except BaseException as error:
            answers = [Failed(_reason(error))] * len(batch.jobs)
        return Reply(batch.number, answers)


def _answered(known: Aggregate[Any] | RunOnce, job: Job) -> Answer:
    if isinstance(job, Describe):
        return _described(known)
    if isinstance(job, Check):
        done = check(known, seed=job.seed, seconds=job.seconds)
        return Lawful(done.rounds, done.bytes)
    if isinstance(known, RunOnce):
        data = known.encode(known.run(job.rows[0].broker if isinstance(job, Lift) and job.rows else ""))
        return Printed(data.hex()) if isinstance(job, Fingerprint) else Combined([data])
    match job:
        case Fingerprint(seed):
            return Printed(fingerprint(known, seed))
        case Lift(rows):
            return _lifted(known, rows)
        case Combine(groups):
            return Combined([_combined(known, group) for group in groups])
        case Present(partials):
            return Presented([_presented(known, partial) for partial in partials])


def _described(known: Aggregate[Any] | RunOnce) -> Described:
    window = getattr(known, "window", None)
    length = None if window is None else (int(window.size_ms), int(window.slide_ms))
    where = str(getattr(known, "where", ""))
    grouped = bool(getattr(known, "grouped", True))
    return Described(str(known.name), str(known.version), length, where, known.kind.value, grouped)


def _lifted(known: Aggregate[Any], rows: list[Any]) -> Lifted:
    partials: dict[tuple[str, int], Any] = {}
    window, taken = known.window, 0
    for row in rows:
        record = row.record()
        one = known.lift(record)
        if one is None:
            continue
        taken += 1
        key = known.key(record)
        if type(key) is not str:
            raise AggregateError(f"key gave {key!r:.40}; a key is a text")
        place = key, 0 if window is None else window.pane(record.ts_ms)
        held = partials.get(place)
        partials[place] = known.combine(known.zero(), one) if held is None else known.combine(held, one)
    return Lifted([(key, pane, _encoded(known, partial)) for (key, pane), partial in partials.items()], taken)


def _combined(known: Aggregate[Any], group: list[bytes]) -> bytes:
    partial = known.zero()
    for data in group:
        partial = known.combine(partial, known.decode(data))
    return _encoded(known, partial)


def _encoded(known: Aggregate[Any], partial: Any) -> bytes:
    data = known.encode(partial)
    if type(data) is not bytes:
        raise AggregateError(f"encode gave {type(data).__name__}, not bytes")
    return known.bounded(data)


def _presented(known: Aggregate[Any], data: bytes) -> tuple[bytes, float]:
    partial = known.decode(data)
    value = json.dumps(known.present(partial), allow_nan=False, ensure_ascii=False).encode()
    return known.bounded(value), float(known.error(partial))


def _reason(error: BaseException) -> str:
    if isinstance(error, LawBroken | TidingsError):
        return str(error)[:MAX_REASON]
    return f"{type(error).__name__}: {error!s:.200}"[:MAX_REASON]


def main(arguments: list[str]) -> None:
    """Run as a worker on standard input and output; the arguments are the memory, and whether layer 2 is wanted."""
    memory, both = int(arguments[0]), arguments[1] == "both"
    os.environ.clear()  # Python itself puts something there
    for name in ALLOWED:
        __import__(name)
    Filter.parse("TRUE")  # loads the language of filters, which definitions may use
    gc.freeze()
    try:
        _isolation.machine()
        outer = _isolation.namespaces() if both else ()
        _isolation.limits(memory)
        _isolation.seccomp()
    except (_isolation.NoIsolation, OSError, ValueError) as error:
        os.write(2, f"{error}\n".encode())
        os._exit(NOT_ISOLATED)
    sys.stdout = sys.stderr = None  # the pipe is for frames: what code prints goes nowhere
    known = Definitions()
    _write(framed(Reply(0, [], ("seccomp", *outer))))
    try:
        while header := _read(HEADER):
            batch = unframed(_read(length_of(header)), Batch)
            _write(framed(known.answer(batch)))
    except MemoryError:
        os._exit(OUT_OF_MEMORY)
    os._exit(0)


def _read(length: int) -> bytes:
    """So many bytes; none at the end of the pipe."""
    parts = bytearray()
    while len(parts) < length:
        part = os.read(0, length - len(parts))
        if not part:
            return b""
        parts += part
    return bytes(parts)


def _write(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]


if __name__ == "__main__":
    main(sys.argv[1:])
