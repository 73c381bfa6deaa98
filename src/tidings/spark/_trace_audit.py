"""The delivery audit of a simulated run: the same question as `audit`, asked of a trace that the simulator has written.

A trace says what reached applications, where the journals of brokers say what was sent to clients. Each client is
judged by itself: its rows, against all publications. With a master, clients are judged by Spark; without, one
after the other in this process. The results are the same.

A subscription is owed what is published after it has settled towards the publisher's broker, was acknowledged, and
passes every filter that the subscription has from then on; what it was told is lost, by a gap, is counted as told.
Nothing is owed to a client that is not connected at the end. Where there are scopes, who sees what is not in these rows
alone, and a trace with a change of the scope graph is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from tidings.model import Filter, Notification
from tidings.wire import decode_body

from ._audit import AuditError, Report
from ._errors import explained
from ._judge import Finding, Kind, Verdict, decode_verdict, encoded
from ._progress import progress
from ._session import session

_COLUMNS = [
    *("ts", "node", "kind", "sub", "publisher", "seq", "record", "filter", "body", "origin", "epoch", "number"),
    *("receive_own", "advertisement", "reach", "first", "last", "broker", "graph_epoch"),
]


def audit_trace(path: str | Path, *, master: str | None = None) -> Report:
    """Audit a trace that `Trace.write` has written; a file that is none, or has scopes, raises `AuditError`."""
    clients = _clients(path)
    verdict = Verdict()
    if master is None or not clients:
        for client in clients:
            verdict.add(_judged(str(path), client))
    else:
        for part in _by_spark(str(path), clients, master):
            verdict.add(part)
    verdict.publications = _published(path)
    lives = sum(clients.values())
    return Report(verdict, lives, (), {}, {}, lives)


def _clients(path: str | Path) -> dict[str, int]:
    """The clients of a trace, and how many subscriptions each has had."""
    found: dict[str, int] = {}
    for row in _rows(path, ["node", "kind", "graph_epoch"]):
        if row["kind"] == "active" and row["graph_epoch"]:
            raise AuditError(f"{path} is a run with scopes; audit the stores of its brokers, or use tidings.sim.check")
        if row["kind"] == "sub":
            found[row["node"]] = found.get(row["node"], 0) + 1
        elif row["kind"] == "delivered":
            found.setdefault(row["node"], 0)
    return found


def _published(path: str | Path) -> int:
    return sum(row["kind"] == "published" for row in _rows(path, ["kind"]))


def _rows(path: str | Path, columns: list[str]) -> Iterator[dict[str, Any]]:
    with pq.ParquetFile(path) as file:
        if (file.schema_arrow.metadata or {}).get(b"tidings.trace") != b"2":
            raise AuditError(f"{path} is no trace that this version can read; write one with Trace.write")
        for batch in file.iter_batches(columns=columns):
            yield from batch.to_pylist()


def _by_spark(path: str, clients: Iterable[str], master: str) -> Iterator[Verdict]:
    def judge(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            verdicts = [encoded(_judged(path, client)) for client in batch.column("client").to_pylist()]
            yield pa.RecordBatch.from_pydict({"verdict": pa.array(verdicts, pa.binary())})

    spark = session(master, name="tidings audit of a trace")
    names = [(client,) for client in clients]
    with explained(), progress(spark, "auditing"):
        table = spark.createDataFrame(names, "client string")
        rows = table.repartition(len(names)).mapInArrow(judge, "verdict binary").collect()
    for row in rows:
        yield decode_verdict(bytes(row.verdict))


# --- one client -----------------------------------------------------------------------------------------


class _Event(NamedTuple):
    origin: str
    epoch: int
    number: int


@dataclass(slots=True)
class _Publication:
    record: int
    at: int
    publisher: str
    notification: Notification
    event: _Event | None = None
    """Once it is acknowledged, with a number that its broker knew."""


@dataclass(slots=True)
class _Life:
    """One subscription of the client."""

    id: str
    filters: list[tuple[int, Filter, bool]] = field(default_factory=list)
    settled: list[tuple[int, frozenset[str]]] = field(default_factory=list)
    got: set[tuple[str, int]] = field(default_factory=set)
    last: dict[tuple[str, str, int], int] = field(default_factory=dict)
    gaps: list[tuple[str, int, int, int | None]] = field(default_factory=list)

    def is_owed(self, publication: _Publication, client: str) -> bool:
        """Whether it settled before the publication, and has wanted it ever since."""
        assert publication.event is not None
        for since, reach in self.settled:
            if since > publication.record or publication.event.origin not in reach:
                continue
            before = [at for at, (seq, _, _) in enumerate(self.filters) if seq <= since]
            if all(
                filter.matches(publication.notification) and (receive_own or publication.publisher != client)
                for _, filter, receive_own in self.filters[before[-1] if before else 0 :]
            ):
                return True
        return False

    def was_told(self, event: _Event) -> bool:
        """Whether a gap contains the event; one without an end stands for later epochs, too."""
        return any(
            origin == event.origin
            and (
                (epoch == event.epoch and first <= event.number and (last is None or event.number <= last))
                or (last is None and epoch < event.epoch)
            )
            for origin, epoch, first, last in self.gaps
        )


class _Judge:
    def __init__(self, client: str) -> None:
        self._client = client
        self._broker = ""
        self._connected = False
        self._lives: dict[str, _Life] = {}
        self._published: dict[tuple[str, int], _Publication] = {}
        self.verdict = Verdict()

    def take(self, row: dict[str, Any]) -> None:
        key = (row["publisher"], row["seq"])
        if row["kind"] == "published":
            notification = decode_body(row["body"])
            self._published[key] = _Publication(row["record"], row["ts"], row["publisher"], notification)
        elif row["kind"] == "accepted" and row["number"]:
            self._published[key].event = _Event(row["origin"], row["epoch"], row["number"])
        elif row["node"] == self._client:
            self._own(row)

    def _own(self, row: dict[str, Any]) -> None:
        life = self._lives.get(row["sub"])
        match row["kind"]:
            case "connect":
                self._broker, self._connected = row["broker"], True
            case "detach" | "disconnect_detected":
                self._connected = False
            case "sub":
                life = self._lives.setdefault(row["sub"], _Life(row["sub"]))
                life.filters.append((row["record"], Filter.parse(row["filter"]), row["receive_own"]))
            case "unsub":
                self._lives.pop(row["sub"], None)
            case "settled" if life is not None and not row["advertisement"]:
                life.settled.append((row["record"], frozenset(row["reach"])))
            case "gap" if life is not None:
                life.gaps.append((row["origin"], row["epoch"], row["first"], row["last"]))
            case "delivered":
                self._delivered(life, row)

    def _delivered(self, life: _Life | None, row: dict[str, Any]) -> None:
        self.verdict.sent += 1
        event, key = _Event(row["origin"], row["epoch"], row["number"]), (row["publisher"], row["seq"])
        if life is None:
            self._find(Kind.STRAY, event, row["sub"], row["ts"], "the client has no such subscription")
            return
        published = self._published.get(key)
        _, filter, receive_own = life.filters[-1]
        notification = decode_body(row["body"])
        if published is None or published.notification != notification:
            self._find(Kind.MISMATCH, event, life.id, row["ts"], "this was never published")
        elif not filter.matches(notification) or (row["publisher"] == self._client and not receive_own):
            self._find(Kind.MISMATCH, event, life.id, row["ts"], f"the filter is {filter}")
        if key in life.got:
            self._find(Kind.DUPLICATE, event, life.id, row["ts"], "it was delivered before")
            return
        life.got.add(key)
        path = (row["publisher"], event.origin, event.epoch)
        if event.number < life.last.get(path, 0):
            later = life.last[path]
            self._find(Kind.ORDER, event, life.id, row["ts"], f"number {later} of this broker was delivered first")
        life.last[path] = max(event.number, life.last.get(path, 0))

    def close(self) -> Verdict:
        """Judge what is missing at the end."""
        for key, publication in self._published.items() if self._connected else ():
            event = publication.event
            if event is None:
                continue
            for life in self._lives.values():
                if not life.is_owed(publication, self._client):
                    continue
                self.verdict.owed += 1
                if key in life.got:
                    continue
                if life.was_told(event):
                    self.verdict.told += 1
                else:
                    self._find(Kind.LOSS, event, life.id, publication.at, "it was acknowledged, and never came")
        return self.verdict

    def _find(self, kind: Kind, event: _Event, subscription: str, at: int, why: str) -> None:
        self.verdict.find(Finding(kind, *event, self._broker, self._client, subscription, at, why))


def _judged(path: str, client: str) -> Verdict:
    judge = _Judge(client)
    for row in _rows(path, _COLUMNS):
        judge.take(row)
    return judge.close()
