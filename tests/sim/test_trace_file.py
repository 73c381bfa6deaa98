"""A trace as a Parquet file says the same as the trace."""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow.parquet
import pytest

from tidings.model import TidingsError
from tidings.sim import Op, Promises, Record, Scenario, Trace, check, describe, read_trace
from tidings.sim._trace_file import COLUMNS

PROMISES = Promises.load()


@pytest.mark.parametrize("name", ["1", "s3", "hs1", "m5", "p4", "r2", "h7", "q1", "ks1"])
def test_everything_comes_back_as_it_was(tmp_path: Path, name: str) -> None:
    network = Scenario.named(name).run(PROMISES).network
    assert network.trace.write(tmp_path / "run.parquet", name) == len(network.trace.records)
    again = list(read_trace(tmp_path / "run.parquet"))
    assert list(map(describe, again)) == list(map(describe, network.trace.records))
    for one, two in zip(network.trace.records, again, strict=True):
        assert one.detail == two.detail
    trace = network.trace
    advertisements = network.routing.advertisements
    assert check(tmp_path / "run.parquet", PROMISES, advertisements=advertisements) == check(
        trace, PROMISES, advertisements=advertisements
    )


def test_a_file_that_lacks_a_delivery_is_found_out(tmp_path: Path) -> None:
    network = Scenario.named("2").run(PROMISES).network
    trace: Trace = network.trace
    lost = next(record for record in trace.records if record.op is Op.NOTIFY)
    trace.records.remove(lost)
    trace.write(tmp_path / "run.parquet")
    assert [violation.guarantee for violation in check(tmp_path / "run.parquet", PROMISES)]


def test_the_first_columns_are_those_of_experiments(tmp_path: Path) -> None:
    trace = Scenario.named("1").run(PROMISES).network.trace
    trace.write(tmp_path / "run.parquet", "run 1")
    table = pyarrow.parquet.read_table(tmp_path / "run.parquet")
    experiments = ["run_id", "ts", "node", "kind", "subscriber", "sub", "publisher", "seq", "broker", "peer", "size"]
    assert table.column_names[:12] == [*experiments, "extra"]
    assert table.column_names == list(COLUMNS)
    kinds = set(table["kind"].to_pylist())
    assert {"published", "accepted", "delivered", "connect"} <= kinds
    assert set(table["run_id"].to_pylist()) == {"run 1"}


def test_rows_are_written_in_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidings.sim._trace_file.GROUP", 100)
    trace = Scenario.named("1").run(PROMISES).network.trace
    trace.write(tmp_path / "run.parquet")
    assert pyarrow.parquet.ParquetFile(tmp_path / "run.parquet").num_row_groups == -(-len(trace.records) // 100)
    assert len(list(read_trace(tmp_path / "run.parquet"))) == len(trace.records)


def test_another_file_is_refused(tmp_path: Path) -> None:
    pyarrow.parquet.write_table(pyarrow.table({"a": [1]}), tmp_path / "other.parquet")
    with pytest.raises(TidingsError, match="no trace that this version can read"):
        list(read_trace(tmp_path / "other.parquet"))


def test_without_pyarrow_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(TidingsError, match=r"\.\[archive\]"):
        list(read_trace(tmp_path / "run.parquet"))


def test_a_record_that_was_written_by_hand_gets_its_type() -> None:
    violations = check([Record(0, 0, Op.NOTIFY, "c", "s", publication=1, publisher="p", detail=("b", 1, 1))], PROMISES)
    assert [violation.guarantee for violation in violations][:1] == ["only-while-subscribed"]


def test_half_a_file_is_refused_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "half.parquet"
    Scenario.named("1").run(PROMISES).network.trace.write(path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(TidingsError, match=r"half\.parquet is no Parquet file, or a part of one"):
        check(path)
