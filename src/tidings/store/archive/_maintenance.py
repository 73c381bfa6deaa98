"""Maintenance: an archive with fewer, larger files, sorted as readers ask, without what is too old.

Theory of operation
-------------------
Every step leaves an archive that holds the same rows, and is seen at once (`_directories`). What has been done is read
from the archive itself, so whoever is killed loses the step that he was at, and the next one goes on there:

    compact   small files of one origin, epoch and hour that follow one another in the log become one
    sort      files whose promoted columns are not those that are wanted, or in another order, are written anew
    retain    hours that have ended before an instant disappear
    trim      the oldest files of one origin disappear, until the others are small enough

One at a time maintains an archive: it holds a lock, which ends with its process. Brokers roll and readers read
meanwhile.
"""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from tidings.store._errors import StoreError, StoreFailed, StoreForeign, StoreLocked
from tidings.store._file import lock
from tidings.store._layout import ArchiveFile, files_in, path_of, size_of
from tidings.store._promoted import Promoted

from ._directories import Stage, put
from ._manifest import forget
from ._reader import UNREADABLE, ArchiveDamage, ArchiveReader
from ._rewriting import Header, Layout, header_of, rewrite
from ._roller import FILE_ROWS

LARGE_ROWS = FILE_ROWS // 2
"""A file with so many rows is left as it is: writing it anew would cost more than it gains."""
SPARE_BYTES = 67_108_864
"""Free space that must be left beside what is about to be written."""
_LOCK = ".maintenance.lock"

Progress = Callable[[int, int], None]
"""Called with the rows that are done and the rows that there are to do."""


class Job(NamedTuple):
    """Some files that are to become one, or to be written anew, or to disappear."""

    files: tuple[ArchiveFile, ...]
    rows: int
    layout: Layout | None = None


@dataclass(frozen=True, slots=True)
class Maintained:
    """What was done, or with `dry_run` what would have been."""

    before: int
    """Files that were merged, written anew or removed."""
    after: int
    """Files that took their place."""
    rows: int
    bytes_before: int
    bytes_after: int
    """0 with `dry_run`: only writing tells."""
    damage: tuple[ArchiveDamage, ...] = ()
    """Files that could not be read, and were left as they are."""


def compact(
    archive: str | Path,
    *,
    since: int | None = None,
    until: int | None = None,
    dry_run: bool = False,
    progress: Progress = lambda done, total: None,
) -> Maintained:
    """Merge small files; only those of hours within a range of time (microseconds) if one is given."""

    def jobs(survey: _Survey) -> list[Job]:
        return [job for files in _epochs(survey.files(since, until)) for job in _runs(files, survey)]

    return _maintain(archive, jobs, _merge, dry_run, progress)


def sort(
    archive: str | Path,
    promoted: Sequence[Promoted],
    *,
    since: int | None = None,
    until: int | None = None,
    dry_run: bool = False,
    progress: Progress = lambda done, total: None,
) -> Maintained:
    """Give files these promoted columns, and sort the rows of each row group by them, in this order."""

    def jobs(survey: _Survey) -> list[Job]:
        found = []
        for file in survey.files(since, until):
            header = survey.header(file)
            if header is not None and header.layout.promoted != tuple(promoted):
                layout = Layout(tuple(promoted), header.layout.with_body)
                found.append(Job((file,), header.rows, layout))
        return found

    return _maintain(archive, jobs, _write_anew, dry_run, progress)


def retain(
    archive: str | Path, before: int, *, dry_run: bool = False, progress: Progress = lambda done, total: None
) -> Maintained:
    """Remove the hours that ended before an instant, in microseconds. Damaged files go as well."""

    def jobs(survey: _Survey) -> list[Job]:
        old = sorted((file for file in files_in(survey.root) if file.until <= before), key=lambda one: one.path.parent)
        by_hour = groupby(old, lambda one: one.path.parent)
        chosen = [tuple(files) for _, files in by_hour]
        return [Job(files, sum(h.rows for one in files if (h := survey.header(one)) is not None)) for files in chosen]

    done = _maintain(archive, jobs, _remove, dry_run, progress)
    if not dry_run:
        forget(Path(archive), lambda file: file.until <= before)
    return done


def trim(
    archive: str | Path,
    origin: str,
    most: int,
    *,
    dry_run: bool = False,
    progress: Progress = lambda done, total: None,
) -> Maintained:
    """Remove the oldest files of one origin until the others have at most so many bytes; the newest always stays."""

    kept: list[tuple[int, int]] = []
    """Where what is left begins."""

    def jobs(survey: _Survey) -> list[Job]:
        ours = [file for file in survey.files(None, None) if file.written_by(origin)]
        ours.sort(key=lambda file: (file.epoch, file.first))
        excess = sum(size_of(file.path) for file in ours) - most
        old = []
        for file in ours[:-1]:
            if excess <= 0:
                break
            old.append(file)
            excess -= size_of(file.path)
        kept.extend((file.epoch, file.first) for file in ours[len(old) : len(old) + 1] if old)
        old.sort(key=lambda file: (file.hour, file.epoch, file.first))
        return [Job(tuple(files), 0) for _, files in groupby(old, lambda one: one.path.parent)]

    done = _maintain(archive, jobs, _remove, dry_run, progress)
    if not dry_run and kept:
        forget(Path(archive), lambda file: file.written_by(origin) and (file.epoch, file.first) < kept[0])
    return done


# --- what is to be done -------------------------------------------------------------------------------


class _Survey:
    """The files of an archive, and what their ends tell."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.damage: dict[Path, ArchiveDamage] = {}
        self._headers: dict[Path, Header] = {}

    def files(self, since: int | None, until: int | None) -> list[ArchiveFile]:
        """Those of whole hours within a range of time, in the order of the log."""
        return sorted(
            (
                file
                for file in files_in(self.root)
                if (since is None or since <= file.since) and (until is None or file.until <= until)
            ),
            key=lambda file: file.place,
        )

    def header(self, file: ArchiveFile) -> Header | None:
        """None if the file is damaged."""
        if file.path not in self._headers:
            try:
                self._headers[file.path] = header_of(file.path)
            except UNREADABLE as error:
                self.damage[file.path] = ArchiveDamage(file.path, str(error).partition("\n")[0])
        return self._headers.get(file.path)


def headers(reader: ArchiveReader) -> Iterator[tuple[ArchiveFile, Header]]:
    """What the end of each file tells; those that cannot be read are in the damage of the reader."""
    for file in reader.files():
        try:
            yield file, header_of(file.path)
        except FileNotFoundError:
            continue  # merged or removed meanwhile
        except UNREADABLE as error:
            reader.damaged(file.path, error)


def _epochs(files: Iterable[ArchiveFile]) -> Iterator[list[ArchiveFile]]:
    for _, some in groupby(files, lambda file: (file.origin, file.epoch)):
        yield list(some)


def _runs(files: list[ArchiveFile], survey: _Survey) -> Iterator[Job]:
    """What to merge among the files of an epoch: neighbours of one hour and layout, and those that others contain."""
    run: list[ArchiveFile] = []
    rows = 0
    layout: Layout | None = None
    for file in files:
        header = survey.header(file)
        if run and run[0].hour == file.hour and file.last <= max(one.last for one in run):
            run.append(file)  # it is contained, and goes when the run is written
            continue
        fits = (
            header is not None
            and run
            and header.layout == layout
            and run[0].hour == file.hour
            and file.first > max(one.last for one in run)
            and header.rows < LARGE_ROWS
            and rows + header.rows <= FILE_ROWS
            and rows < LARGE_ROWS
        )
        if fits and header is not None:
            run.append(file)
            rows += header.rows
            continue
        if len(run) > 1:
            yield Job(tuple(run), rows, layout)
        run, rows, layout = ([file], header.rows, header.layout) if header is not None else ([], 0, None)
    if len(run) > 1:
        yield Job(tuple(run), rows, layout)


# --- doing it -----------------------------------------------------------------------------------------


def _maintain(
    archive: str | Path,
    plan: Callable[[_Survey], list[Job]],
    do: Callable[[Stage, Job, Callable[[int], None]], int],
    dry_run: bool,
    progress: Progress,
) -> Maintained:
    root = Path(archive)
    if not root.is_dir():
        raise StoreForeign(f"there is no archive in '{root}'; name the directory that a broker archives to")
    survey = _Survey(root)
    with contextlib.ExitStack() as leaving:
        if not dry_run:
            leaving.enter_context(contextlib.closing(_locked(root)))
        jobs = plan(survey)
        before, size = sum(len(job.files) for job in jobs), sum(f.path.stat().st_size for j in jobs for f in j.files)
        rows = sum(job.rows for job in jobs)
        if dry_run:
            after = sum(job.layout is not None for job in jobs)
            return Maintained(before, after, rows, size, 0, tuple(survey.damage.values()))
        after = written = done = 0
        stage = leaving.enter_context(Stage(root))
        for job in jobs:
            _check_room(root, job)

            def told(count: int, done: int = done) -> None:
                progress(done + count, rows)

            try:
                made = do(stage, job, told)
            except (pa.ArrowException, StoreError, ValueError, KeyError) as error:
                if isinstance(error, StoreLocked):
                    raise
                problem = ArchiveDamage(job.files[0].path, str(error).partition("\n")[0])
                survey.damage[problem.path] = problem
                before -= len(job.files)
                made = 0
            after += made > 0
            written += made
            done += job.rows
            progress(done, rows)
        return Maintained(before, after, rows, size, written, tuple(survey.damage.values()))


def _locked(root: Path) -> sqlite3.Connection:
    try:
        return lock(root, _LOCK, shared=True)
    except StoreLocked:
        raise StoreLocked(
            f"another process is maintaining the archive in '{root}'; wait until it has finished"
        ) from None


def _check_room(root: Path, job: Job) -> None:
    needed = 0 if job.layout is None else sum(file.path.stat().st_size for file in job.files) + SPARE_BYTES
    if needed > shutil.disk_usage(root).free:
        raise StoreFailed(
            f"the disk of '{root}' has no room for a new file of {needed:,} bytes; free some space, and try again"
        )


def _merge(stage: Stage, job: Job, progress: Callable[[int], None]) -> int:
    assert job.layout is not None
    chosen = [file for at, file in enumerate(job.files) if all(file.last > one.last for one in job.files[:at])]
    first, last = chosen[0], chosen[-1]
    target = first.path.with_name(path_named(first, last))
    if len(chosen) > 1:
        temporary = stage.temporary
        _counted(chosen, temporary, job.layout, progress)
        size = temporary.stat().st_size
        stage.exchange(first.path.parent, [file.path for file in job.files], (temporary, target))
        return size
    stage.exchange(first.path.parent, [file.path for file in job.files if file is not first])
    return first.path.stat().st_size


def _remove(stage: Stage, job: Job, _: Callable[[int], None]) -> int:
    stage.exchange(job.files[0].path.parent, [file.path for file in job.files])
    return 0


def _write_anew(stage: Stage, job: Job, progress: Callable[[int], None]) -> int:
    assert job.layout is not None
    (file,) = job.files
    temporary = stage.temporary
    _counted([file], temporary, job.layout, progress)
    size = temporary.stat().st_size
    put(stage.root, temporary, file.path)
    return size


def _counted(files: list[ArchiveFile], target: Path, layout: Layout, progress: Callable[[int], None]) -> None:
    done = 0

    def count(rows: int) -> None:
        nonlocal done
        done += rows
        progress(done)

    rewrite(files, target, layout, count)


def path_named(first: ArchiveFile, last: ArchiveFile) -> str:
    """The name of a file that begins as one file and ends as another; the origin stands there as it does in theirs."""
    stem = first.path.name.rsplit("-", 3)[0]
    return f"{stem}-{path_of('x', first.epoch, first.first, last.last, first.hour).name.removeprefix('x-')}"
