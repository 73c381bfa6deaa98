"""The delivery audit: which notification should have reached which subscription, against what did.

Theory of operation
-------------------
1. The journals of all brokers are read, in one pass each (`_chronicle`): the lives of subscriptions stay in memory,
   what was sent goes into Parquet files, one for each broker and source, in a directory of this run.
2. The log, in archive and stores, is cut into pieces of some numbers of one epoch of one origin.
3. Each piece is judged by itself (`_judge`): a matching index over all filters says who should have got each
   publication, the files say who did. Nothing is joined or shuffled: subscriptions travel to the pieces.
4. Findings and sums are put together.

With a master, pieces are judged by Spark; without, one after the other in this process. The results are the same.
"""

from __future__ import annotations

import contextlib
import tempfile
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tidings.model import TidingsError
from tidings.scopes import decode_snapshot, decode_transaction
from tidings.store import Carried, Sent, StoreReader

from ._chronicle import Chronicle, Timeliness
from ._errors import explained
from ._graphs import history
from ._judge import Case, Finding, Kind, Piece, Verdict, decode_verdict, encoded, judged, source_name
from ._progress import progress
from ._session import session

PIECE_NUMBERS = 200_000
"""Numbers of a log that are judged together."""
ROWS = 65_536
"""Deliveries in memory for each source before they go to a file."""
SKEW_SECONDS = 1.0
"""How far the clocks of two brokers may differ, unless somebody knows better."""
EARLY_SECONDS = 60.0
"""Deliveries from before the range, less this, are not looked at."""
_SCHEMA = pa.schema(
    [
        ("seq", pa.int64()),
        ("life", pa.int32()),
        ("form", pa.int64()),
        ("at", pa.int64()),
        ("timeliness", pa.int8()),
    ]
)


class AuditError(TidingsError):
    """An audit that cannot be made."""


@dataclass(frozen=True, slots=True)
class Report:
    """The result of an audit."""

    verdict: Verdict
    subscriptions: int
    silent: tuple[str, ...]
    """Brokers that did not note what they sent: nothing is known of their clients."""
    holes: dict[str, int]
    """Records that the disks of brokers have refused; what they were about is not judged."""
    damaged: dict[str, int]
    """Rows of the journals that cannot be read; neither is what they were about."""
    judged: int = 0
    """Subscriptions at brokers that noted what they sent."""

    @property
    def why_nothing(self) -> str | None:
        """Why nothing at all was judged; None if something was."""
        if not self.verdict.publications:
            return "nothing was published in this time; choose an earlier --from, or name the archive with --archive"
        if not self.subscriptions:
            return "nobody was subscribed; name the data directories of all brokers with --data"
        if not self.judged:
            return "no broker with subscriptions noted what it sent; set deliveries = true in its [store]"
        return None

    @property
    def findings(self) -> list[Finding]:
        """The findings, ordered by time; if there are too many, some are only counted."""
        return sorted(self.verdict.findings, key=lambda finding: (finding.at, finding.seq))

    @property
    def counts(self) -> dict[str, int]:
        """The number of findings of each kind."""
        return {kind.value: self.verdict.counts.get(kind.value, 0) for kind in Kind}

    @property
    def clean(self) -> bool:
        """Whether nothing is wrong."""
        return not self.verdict.counts


def audit(
    data: Sequence[str | Path],
    *,
    since: int,
    until: int,
    archive: str | Path | None = None,
    master: str | None = None,
    work: str | Path | None = None,
    skew: float = SKEW_SECONDS,
    done: Callable[[int, int], None] = lambda pieces, of: None,
) -> Report:
    """Audit what was published with `since <= published_at < until` (microseconds).

    `data` names the data directories of all brokers. With an `archive`, publications that the stores have forgotten
    are read from there. `work` is a directory for the records of what was sent; on a cluster, it must be one that every
    node can read. `skew` is the number of seconds by which the clocks of two brokers may differ. `done` is called as
    pieces are judged, if there is no master. An audit that cannot be made raises `AuditError`.
    """
    if not data:
        raise AuditError("an audit needs the journals of all brokers; name their data directories")
    with _workplace(work) as directory, contextlib.ExitStack() as stack:
        stores = [stack.enter_context(StoreReader(one)) for one in data]
        owners = [store.owner for store in stores]
        if twice := {owner for owner in owners if owners.count(owner) > 1}:
            raise AuditError(f"two of the data directories belong to broker '{min(twice)}'; name each broker once")
        early = since - int(EARLY_SECONDS * 1e6)
        for store in stores:
            _check_horizon(store, store.carried(), early)
        files = _Files(directory)
        chronicle = Chronicle(files)
        for store in stores:
            with store.moment():  # a broker that runs may forget meanwhile
                carried = store.carried()
                _check_horizon(store, carried, early)
                chronicle.read(store.owner, store.journal(holes=True), carried, sent_from=early)
            files.close()
        base, transactions = history(stores)
        case = Case(
            chronicle.lives,
            base,
            transactions,
            since,
            until,
            int(skew * 1e6),
            str(directory),
            ordered=not _detours(base, transactions),
        )
        pieces = list(_pieces(stores, archive, since, until))
        verdict = Verdict()
        for part in _judged(encoded(case), pieces, master, done):
            verdict.add(part)
        for finding in files.strays:
            verdict.find(finding)
        judged = sum(life.broker not in chronicle.silent for life in chronicle.lives)
        silent = tuple(chronicle.silent)
        return Report(verdict, len(chronicle.lives), silent, chronicle.holes, chronicle.damaged, judged)


def _check_horizon(store: StoreReader, carried: Carried, early: int) -> None:
    """A journal that has forgotten what was sent would make a loss of each delivery."""
    if carried.horizon and early < carried.horizon:
        first = carried.horizon // 1_000_000 + 1 + int(EARLY_SECONDS)
        told = datetime.fromtimestamp(first, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        raise AuditError(
            f"the journal of '{store.owner}' goes back to {told}; choose --from then or later "
            "(journal_for in [store] says how much a broker keeps)"
        )


@contextlib.contextmanager
def _workplace(work: str | Path | None) -> Iterator[Path]:
    if work is not None:
        Path(work).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="tidings-audit-", dir=work) as directory:
        yield Path(directory)


# --- what was sent --------------------------------------------------------------------------------------


class _Files:
    """Sorts what was sent into one file for each source; memory holds some rows of each."""

    def __init__(self, directory: Path) -> None:
        self.strays: list[Finding] = []
        self._directory = directory
        self._round = 0
        self._columns: dict[tuple[str, int], list[array[int]]] = {}
        self._writers: dict[tuple[str, int], pq.ParquetWriter] = {}

    def add(self, source: tuple[str, int], life: int, sent: Sent, timeliness: Timeliness) -> None:
        columns = self._columns.get(source)
        if columns is None:
            columns = self._columns[source] = [array(code) for code in ("q", "l", "q", "q", "b")]
        seq, lives, form, at, how = columns
        seq.append(sent.seq)
        lives.append(life)
        form.append(sent.form)
        at.append(sent.at)
        how.append(timeliness)
        if len(seq) >= ROWS:
            self._write(source)

    def stray(self, broker: str, client: str, id: str, source: tuple[str, int], sent: Sent) -> None:
        why = "its client had no such subscription when it was sent"
        self.strays.append(Finding(Kind.STRAY, *source, sent.seq, broker, client, id, sent.at, why))

    def _write(self, source: tuple[str, int]) -> None:
        columns = self._columns.pop(source)
        writer = self._writers.get(source)
        if writer is None:
            path = self._directory / f"{source_name(*source)}-{self._round}.parquet"
            writer = self._writers[source] = pq.ParquetWriter(path, _SCHEMA, compression="zstd")
        arrays = [pa.array(column, field.type) for column, field in zip(columns, _SCHEMA, strict=True)]
        writer.write_table(pa.Table.from_arrays(arrays, schema=_SCHEMA))

    def close(self) -> None:
        """A journal has ended."""
        for source in list(self._columns):
            self._write(source)
        for writer in self._writers.values():
            writer.close()
        self._writers.clear()
        self._round += 1


def _detours(base: bytes, transactions: list[bytes]) -> bool:
    """Whether something has ever crossed at a gateway: then nobody promises an order."""
    edges = decode_snapshot(base).memberships if base else ()
    changes = (change for one in transactions for change in decode_transaction(one).changes)
    return any(getattr(one, "gateway", None) for one in (*edges, *changes))


# --- pieces ---------------------------------------------------------------------------------------------


def _pieces(stores: list[StoreReader], archive: str | Path | None, since: int, until: int) -> Iterator[Piece]:
    archived: dict[tuple[str, int], int] = {}
    if archive is not None:
        for origin, file in _archived(archive):
            key = (origin, file.epoch)
            archived[key] = max(file.last, archived.get(key, 0))
            if since < file.until and file.since < until:
                yield from _cut(Piece(origin, file.epoch, file.first, file.last, archive=str(archive)))
    for store in stores:
        for epoch in store.epochs():
            bounds = store.bounds(epoch)
            first = archived.get((store.owner, epoch), 0) + 1
            if bounds is not None and bounds.last >= first:
                yield from _cut(
                    Piece(store.owner, epoch, max(first, bounds.first), bounds.last, data=str(store.path.parent))
                )


def _archived(archive: str | Path) -> Iterator[tuple[str, Any]]:
    from tidings.store.archive import ArchiveReader  # noqa: PLC0415 - an extra, and slow to load

    reader = ArchiveReader(archive)
    for file in reader.files():
        yield reader.origin_of(file), file


def _cut(piece: Piece) -> Iterator[Piece]:
    for first in range(piece.first, piece.last + 1, PIECE_NUMBERS):
        last = min(first + PIECE_NUMBERS - 1, piece.last)
        yield Piece(piece.origin, piece.epoch, first, last, piece.archive, piece.data)


# --- judging --------------------------------------------------------------------------------------------


def _judged(
    case: bytes, pieces: list[Piece], master: str | None, done: Callable[[int, int], None]
) -> Iterator[Verdict]:
    if master is not None:
        yield from _by_spark(case, pieces, master)
        return
    for number, piece in enumerate(pieces, 1):
        yield decode_verdict(judged(case, encoded(piece)))
        done(number, len(pieces))


def _by_spark(case: bytes, pieces: list[Piece], master: str) -> Iterator[Verdict]:
    def judge(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            verdicts = [judged(case, piece) for piece in batch.column("piece").to_pylist()]
            yield pa.RecordBatch.from_pydict({"verdict": pa.array(verdicts, pa.binary())})

    if not pieces:
        return
    spark = session(master, name="tidings audit")
    with explained(), progress(spark, "auditing"):
        table = spark.createDataFrame([(bytearray(encoded(piece)),) for piece in pieces], "piece binary")
        rows = table.repartition(len(pieces)).mapInArrow(judge, "verdict binary").collect()
    for row in rows:
        yield decode_verdict(bytes(row.verdict))
