"""A trace as a Parquet file: for runs that are larger than memory, and for other tools.

One row for each record. The first columns are those of a trace as every process of an experiment writes it: who, when,
what, about which subscription and publication, at which broker. The others are the named fields of what the records
say. Rows are written in groups of `GROUP`, so neither side ever holds more than one of these.

Needs pyarrow, the extra `archive`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tidings.model import Filter, TidingsError
from tidings.scopes import Mode, Snapshot, Transaction, decode_snapshot, decode_transaction, encode
from tidings.wire import Ending, Past, Quality, decode_body, encode_body, pack, unpacker

from ._details import (
    Acknowledged,
    Activated,
    Answered,
    Asked,
    Attached,
    Broken,
    Detail,
    Enlisted,
    Given,
    Joined,
    Missing,
    Nothing,
    Notified,
    Presiding,
    Published,
    Refusal,
    Remembered,
    Ruled,
    Settlement,
    Subscribed,
    Taken,
    Unnoticed,
)
from ._trace import Op, Record, typed

GROUP = 50_000
"""Records in one row group."""

KINDS = {
    Op.PUB: "published",
    Op.ACK: "accepted",
    Op.NOTIFY: "delivered",
    Op.ATTACH: "connect",
    Op.LOST: "disconnect_detected",
}
"""What experiments call a record; all others are called as their `Op`."""
_OPS = {kind: op for op, kind in KINDS.items()} | {op.value: op for op in Op if op not in KINDS}

COLUMNS = {
    "run_id": "string",
    "ts": "int64",
    "node": "string",
    "kind": "string",
    "subscriber": "string",
    "sub": "string",
    "publisher": "string",
    "seq": "int64",
    "broker": "string",
    "peer": "string",
    "size": "int64",
    "extra": "string",
    "record": "int64",
    "filter": "string",
    "body": "binary",
    "origin": "string",
    "epoch": "int64",
    "number": "int64",
    "form": "uint64",
    "graph_epoch": "int64",
    "from_past": "bool",
    "quality": "string",
    "cause": "int64",
    "receive_own": "bool",
    "past": "binary",
    "advertisement": "bool",
    "reach": "list",
    "error": "string",
    "reason": "string",
    "reference": "string",
    "first": "int64",
    "last": "int64",
    "found": "int64",
    "ending": "string",
    "capped": "bool",
    "brokers": "int64",
    "published_at": "int64",
    "fault": "string",
    "graph": "binary",
}
"""The columns and their types. `ts` and `published_at` are microseconds since 1970 UTC, `size` is in bytes."""
_past = unpacker(Past)


def write(path: str | Path, records: Iterable[Record], run_id: str = "") -> int:
    """Write records as a Parquet file; return how many there were."""
    arrow, parquet = _libraries()
    types = {"list": arrow.list_(arrow.string()), "bool": arrow.bool_(), "binary": arrow.binary()}
    schema = arrow.schema(
        [(name, types.get(kind) or getattr(arrow, kind)()) for name, kind in COLUMNS.items()],
        metadata={b"tidings.trace": b"2"},
    )
    count = 0
    with parquet.ParquetWriter(path, schema) as writer:
        for group in _groups(records):
            rows = [_row(typed(record), run_id) for record in group]
            columns = {name: [row.get(name) for row in rows] for name in COLUMNS}
            writer.write_table(arrow.table(columns, schema=schema), row_group_size=GROUP)
            count += len(rows)
    return count


def read(path: str | Path) -> Iterator[Record]:
    """Read the records of a file, group by group."""
    arrow, parquet = _libraries()
    try:
        opened = parquet.ParquetFile(path)
    except arrow.ArrowInvalid as error:
        raise TidingsError(
            f"{path} is no Parquet file, or a part of one; write one with Trace.write: {error}"
        ) from None
    with opened as file:
        if (file.schema_arrow.metadata or {}).get(b"tidings.trace") != b"2":
            raise TidingsError(f"{path} is no trace that this version can read; write one with Trace.write")
        for number in range(file.num_row_groups):
            for row in file.read_row_group(number).to_pylist():
                yield _record(row)


def _libraries() -> tuple[Any, Any]:
    try:
        import pyarrow  # noqa: PLC0415 - an extra
        import pyarrow.parquet  # noqa: PLC0415
    except ImportError:
        raise TidingsError(
            "a trace as a Parquet file needs pyarrow; in a clone of Tidings, run: pip install '.[archive]'"
        ) from None
    return pyarrow, pyarrow.parquet


def _groups(records: Iterable[Record]) -> Iterator[list[Record]]:
    group: list[Record] = []
    for record in records:
        group.append(record)
        if len(group) == GROUP:
            yield group
            group = []
    if group:
        yield group


# --- writing --------------------------------------------------------------------------------------------


def _row(record: Record, run_id: str) -> dict[str, object]:
    row: dict[str, object] = {
        "run_id": run_id,
        "record": record.seq,
        "ts": record.time,
        "node": record.component,
        "kind": KINDS.get(record.op, record.op.value),
        "sub": record.subscription,
        "publisher": record.publisher,
        "seq": record.publication,
    }
    if record.subscription:
        row["subscriber"] = record.component
    if record.filter is not None:
        if not isinstance(record.filter, Filter):
            raise TidingsError(f"record {record.seq} has a filter that is no content filter; it cannot be written")
        row["filter"] = str(record.filter)
    if record.notification is not None:
        row["body"] = body = encode_body(record.notification)
        row["size"] = len(body)
    return row | _columns(record.detail)


def _columns(detail: Detail) -> dict[str, object]:
    match detail:
        case Subscribed(receive_own, past):
            return {"receive_own": receive_own, "past": None if past is None else pack(past)}
        case Settlement(advertisement, reach):
            return {"advertisement": advertisement, "reach": sorted(reach)}
        case Joined(group):
            return {"reference": group}
        case Published(quality, cause):
            return {"quality": quality.name, "cause": cause}
        case Acknowledged(origin, epoch, number, quality):
            reached = None if quality is None else quality.name
            return {"origin": origin, "epoch": epoch, "number": number, "quality": reached}
        case Notified(_, _, _, form):
            return {**detail._asdict(), "form": form, "version": None}
        case Unnoticed(broker):
            return {"broker": broker}
        case Attached(broker, epoch):
            return {"broker": broker, "epoch": epoch}
        case Activated(version, graph):
            return {"graph_epoch": version, "graph": encode(Snapshot.of(graph))}
        case Remembered():
            return {**detail._asdict(), "ending": detail.ending.name}
        case Broken(fault, where):
            broker, _, peer = where.partition(" - ")
            return {"fault": fault, "broker": broker, "peer": peer or None}
        case Asked(request, mode, changes):
            asked = encode(Transaction(0, changes, "", 0, request, mode))
            return {"reference": request, "fault": mode.name, "extra": "\n".join(map(str, changes)), "graph": asked}
        case Answered(request, version, error, reason):
            return {"reference": request, "graph_epoch": version, "error": error, "reason": reason}
        case Presiding() | Enlisted() | Given():
            return {"extra": json.dumps(detail)}
        case Ruled():
            return {"extra": json.dumps(detail, default=sorted)}
        case Refusal() | Missing() | Taken():
            return dict(detail._asdict())
        case _:
            return {}


# --- reading --------------------------------------------------------------------------------------------


def _record(row: dict[str, Any]) -> Record:
    op = _OPS[row["kind"]]
    return Record(
        row["record"],
        row["ts"],
        op,
        row["node"],
        row["sub"],
        None if row["filter"] is None else Filter.parse(row["filter"]),
        row["seq"],
        row["publisher"],
        None if row["body"] is None else decode_body(row["body"]),
        _detail(op, row),
    )


def _detail(op: Op, row: dict[str, Any]) -> Detail:
    quality = None if row["quality"] is None else Quality[row["quality"]]
    event = (row["origin"], row["epoch"], row["number"])
    match op:
        case Op.SUB:
            return Subscribed(row["receive_own"], None if row["past"] is None else _past(row["past"]))
        case Op.JOIN:
            return Joined(row["reference"])
        case Op.ENLIST:
            return Enlisted(*json.loads(row["extra"]))
        case Op.JOB:
            return Given(*json.loads(row["extra"]))
        case Op.SETTLED | Op.JOINED | Op.ENLISTED:
            return Settlement(row["advertisement"], frozenset(row["reach"]))
        case Op.PUB:
            assert quality is not None
            return Published(quality, row["cause"])
        case Op.ACK:
            return Acknowledged(*event, quality)
        case Op.NOTIFY | Op.SHARE | Op.DONE | Op.BACK:
            return Notified(*event, row["form"], row["graph_epoch"], row["from_past"])
        case Op.REFUSED:
            return Refusal(row["error"], row["reason"], row["reference"])
        case Op.GAP | Op.MISSED:
            return Missing(row["origin"], row["epoch"], row["first"], row["last"])
        case Op.ATTACH | Op.HOSTED | Op.RELEASED | Op.COURIER:
            return Attached(row["broker"], row["epoch"])
        case Op.LOST if row["broker"] is not None:
            return Unnoticed(row["broker"])
        case Op.ACTIVE:
            return Activated(row["graph_epoch"], decode_snapshot(row["graph"]).graph())
        case Op.TAKEN:
            return Taken(*event, row["published_at"], row["graph_epoch"])
        case Op.PRESIDES:
            scope, term, before = json.loads(row["extra"])
            return Presiding(scope, tuple(term), tuple(map(tuple, before)))
        case Op.RULED:
            scope, term, origin, epoch, number, version, path, candidates, chosen, *waits = json.loads(row["extra"])
            names = (frozenset(candidates), frozenset(chosen))
            return Ruled(scope, tuple(term), origin, epoch, number, version, tuple(path), *names, *waits)
        case Op.REMEMBERED:
            return Remembered(row["found"], Ending[row["ending"]], row["capped"], row["brokers"])
        case Op.FAULT:
            where = row["broker"] if row["peer"] is None else f"{row['broker']} - {row['peer']}"
            return Broken(row["fault"], where)
        case Op.CHANGE if row["fault"] is not None:
            return Asked(row["reference"], Mode[row["fault"]], decode_transaction(row["graph"]).changes)
        case Op.CHANGE:
            return Answered(row["reference"], row["graph_epoch"], row["error"], row["reason"])
        case _:
            return Nothing()
