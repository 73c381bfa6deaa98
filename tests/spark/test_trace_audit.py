"""The delivery audit of a trace that the simulator has written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from tidings.sim import Network, Op, Promises, Record, Scenario, Trace
from tidings.sim._trace_file import write
from tidings.spark import AuditError, Kind, audit_trace
from tidings.wire import Quality

PROMISES = Promises.load()


def at_rest(name: str) -> list[Record]:
    """The trace of a random run, until it first comes to rest."""
    trace: Trace = Scenario.named(name).run(PROMISES).network.trace
    end = next(at for at, record in enumerate(trace.records) if record.op is Op.QUIESCE)
    return trace.records[: end + 1]


def audited(path: Path, records: list[Record]) -> dict[str, int]:
    write(path / "run.parquet", records)
    return {kind: count for kind, count in audit_trace(path / "run.parquet").counts.items() if count}


@pytest.mark.parametrize("name", ["1", "2", "3", "5", "7", "11", "12", "r2", "w3", "h7"])
def test_a_run_in_which_every_promise_was_kept_is_clean(tmp_path: Path, name: str) -> None:
    records = at_rest(name)
    assert audited(tmp_path, records) == {}
    report = audit_trace(tmp_path / "run.parquet")
    assert report.verdict.publications == sum(record.op is Op.PUB for record in records)
    assert report.verdict.sent == sum(record.op is Op.NOTIFY for record in records)
    assert report.why_nothing is None


def simple() -> list[Record]:
    """Four publications for one reader, and nothing goes wrong."""
    network = Network(1)
    network.add_brokers("ab", links=["ab"])
    reader, writer = network.add_client("reader", "a"), network.add_client("writer", "b")
    reader.subscribe("n >= 0")
    network.run()
    for n in range(4):
        writer.publish(n=n, quality=Quality.ACCEPTED)
    network.run()
    return network.trace.records


def reads(records: list[Record]) -> list[int]:
    return [at for at, one in enumerate(records) if one.op is Op.NOTIFY]


def lost(records: list[Record]) -> list[Record]:
    at = reads(records)[0]
    return records[:at] + records[at + 1 :]


def twice(records: list[Record]) -> list[Record]:
    at = reads(records)[0]
    return records[: at + 1] + records[at:]


def strange(records: list[Record]) -> list[Record]:
    at = reads(records)[0]
    return [*records[:at], records[at]._replace(subscription="nothing"), *records[at:]]


def wrong(records: list[Record]) -> list[Record]:
    first, second = reads(records)[:2]
    changed = records[first]._replace(notification=records[second].notification)
    return [*records[:first], changed, *records[first + 1 :]]


def swapped(records: list[Record]) -> list[Record]:
    first, second = reads(records)[-2:]
    changed = list(records)
    changed[first], changed[second] = changed[second], changed[first]
    return changed


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (lost, Kind.LOSS),
        (twice, Kind.DUPLICATE),
        (strange, Kind.STRAY),
        (wrong, Kind.MISMATCH),
        (swapped, Kind.ORDER),
    ],
)
def test_what_is_wrong_is_found(tmp_path: Path, change: Callable[[list[Record]], list[Record]], kind: Kind) -> None:
    assert audited(tmp_path, change(simple())) == {kind.value: 1}


def test_what_was_told_as_a_gap_is_counted_as_told(tmp_path: Path) -> None:
    records = simple()
    at = reads(records)[0]
    origin, epoch, number, *_ = records[at].detail
    gap = Record(0, 0, Op.GAP, "reader", records[at].subscription, detail=(origin, epoch, number, number))
    assert audited(tmp_path, [*records[:at], gap, *records[at + 1 :]]) == {}
    assert audit_trace(tmp_path / "run.parquet").verdict.told == 1


def test_spark_says_the_same(tmp_path: Path) -> None:
    write(tmp_path / "run.parquet", lost(simple()))
    alone = audit_trace(tmp_path / "run.parquet")
    together = audit_trace(tmp_path / "run.parquet", master="local[2]")
    assert alone.findings == together.findings
    assert alone.verdict.owed == together.verdict.owed > 0


def test_a_run_with_scopes_and_another_file_are_refused(tmp_path: Path) -> None:
    write(tmp_path / "scoped.parquet", at_rest("s1"))
    with pytest.raises(AuditError, match="a run with scopes"):
        audit_trace(tmp_path / "scoped.parquet")
    pyarrow.parquet.write_table(pyarrow.table({"a": [1]}), tmp_path / "other.parquet")
    with pytest.raises(AuditError, match="no trace"):
        audit_trace(tmp_path / "other.parquet")
