"""Maintenance changes how an archive is laid out and never what it holds, whoever reads, writes or dies meanwhile."""

from __future__ import annotations

import random
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from archive_world import HOUR, START, child, fill, in_duckdb, kill_at_some_point, publication, quotes
from hypothesis import given, settings
from hypothesis import strategies as st
from soaking import SOAK_SECONDS, soak_seeds
from strategies import notifications

from tidings.model import Filter, Notification
from tidings.store import StoreFailed, StoreForeign, StoreLocked, StoreReader
from tidings.store._file import lock
from tidings.store._layout import files_in
from tidings.store.archive import (
    ArchiveReader,
    Promoted,
    PromotedKind,
    compact,
    promoted_of,
    retain,
    roll,
    sort,
    verify,
)
from tidings.store.archive import _directories as directories
from tidings.store.archive._row_group import columns_of
from tidings.store.archive._verification import missing_in

TYPE, SYMBOL, PRICE = (Promoted.parse(text) for text in ("type", "symbol", "price:float"))


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directories, "LISTING_SECONDS", 0.0)


def grown(home: Path, rolls: int = 6, count: int = 50, step: int = 1_000_000, origin: str = "berlin") -> list[object]:
    """An archive with many small files, and what it holds."""
    expected: list[object] = []
    for number in range(rolls):
        expected += fill(home / origin, quotes(count, step, START + number * count * step), origin)
        roll(home / origin, home / "archive", [TYPE])
    return expected


def held(archive: Path) -> list[object]:
    reader = ArchiveReader(archive)
    found = list(reader.query())
    assert reader.damage == ()
    return found


def small_files(monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    """Rolls cut a file after so many rows, so that one epoch has many of them."""
    monkeypatch.setattr("tidings.store.archive._roller.FILE_ROWS", rows)


# --- merging ------------------------------------------------------------------------------------------


def cut(home: Path, monkeypatch: pytest.MonkeyPatch, count: int = 5_000, step: int = 1_000_000) -> list[object]:
    """Files of 500 rows, of one epoch."""
    small_files(monkeypatch, 500)
    expected = fill(home / "data", quotes(count, step))
    roll(home / "data", home / "archive", [TYPE])
    return expected


def test_small_files_become_one_for_each_hour_and_hold_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = cut(tmp_path, monkeypatch)
    archive = tmp_path / "archive"
    before = len(list(files_in(archive)))
    plan = compact(archive, dry_run=True)
    assert (plan.before, plan.after, plan.rows) == (before, 2, 5_000)
    assert len(list(files_in(archive))) == before
    seen: list[tuple[int, int]] = []
    done = compact(archive, progress=lambda done, total: seen.append((done, total)))
    assert (done.before, done.after, done.rows) == (before, 2, 5_000)
    assert seen[-1] == (5_000, 5_000)
    assert [(file.first, file.last) for file in sorted(files_in(archive))] == [(2, 7_200), (7_202, 10_000)]
    assert held(archive) == expected
    assert verify(archive).problems == ()
    assert compact(archive).before == 0
    assert not (archive / directories.STAGE).exists()


def test_the_newest_are_found_first_and_filters_prune_as_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = cut(tmp_path, monkeypatch)
    compact(tmp_path / "archive")
    reader = ArchiveReader(tmp_path / "archive")
    assert list(reader.query(limit=5, newest_first=True)) == expected[:-6:-1]
    wanted = Filter.parse("type = 'trade' AND n < 500")
    assert [one.notification["n"] for one in reader.query(wanted)] == list(range(0, 500, 10))


def test_a_roll_goes_on_behind_what_was_merged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = grown(tmp_path, rolls=3)
    compact(tmp_path / "archive")
    assert roll(tmp_path / "berlin", tmp_path / "archive").count == 0
    expected += fill(tmp_path / "berlin", quotes(10, start=START + HOUR))
    assert roll(tmp_path / "berlin", tmp_path / "archive").count == 10
    assert held(tmp_path / "archive") == expected


def test_files_of_other_origins_epochs_hours_and_layouts_are_not_mixed(tmp_path: Path) -> None:
    grown(tmp_path, rolls=2)
    grown(tmp_path, rolls=2, origin="paris")
    assert compact(tmp_path / "archive").before == 0  # each roll was of an epoch of its own


def test_a_file_of_another_hour_in_between_is_not_swallowed(tmp_path: Path) -> None:
    jumps = [START, START + HOUR, START + 1, START + 2, START + HOUR + 1]
    expected = fill(tmp_path / "data", [(at, Notification(n=n)) for n, at in enumerate(jumps)])
    roll(tmp_path / "data", tmp_path / "archive")
    assert compact(tmp_path / "archive").before == 0
    assert held(tmp_path / "archive") == expected
    assert verify(tmp_path / "archive").problems == ()


def test_large_files_are_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cut(tmp_path, monkeypatch)
    monkeypatch.setattr("tidings.store.archive._maintenance.LARGE_ROWS", 500)
    assert compact(tmp_path / "archive").before == 0


def test_only_the_hours_that_are_asked_for_are_merged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cut(tmp_path, monkeypatch)
    compact(tmp_path / "archive", until=START + HOUR)
    assert len(list((tmp_path / "archive" / "date=2025-11-24" / "hour=16").iterdir())) == 1
    assert len(list((tmp_path / "archive" / "date=2025-11-24" / "hour=17").iterdir())) > 1


@pytest.mark.parametrize("lacking", ["exchange", "links"])
def test_a_file_system_that_can_do_less_gets_the_same_in_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lacking: str
) -> None:
    expected = cut(tmp_path, monkeypatch)
    if lacking == "exchange":
        monkeypatch.setattr(directories, "_exchanged", lambda one, other: False)
    else:
        monkeypatch.setattr(directories.os, "link", lambda *_: (_ for _ in ()).throw(OSError(95, "no links")))
    assert compact(tmp_path / "archive").after == 2
    assert held(tmp_path / "archive") == expected
    assert verify(tmp_path / "archive").problems == ()


def test_files_that_another_one_contains_are_read_once_and_removed_next_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is left if a file system without exchange loses power between the new file and the old ones."""
    expected = cut(tmp_path, monkeypatch)
    archive = tmp_path / "archive"
    kept = {path: path.read_bytes() for path in archive.rglob("*.parquet")}
    compact(archive)
    for path, content in kept.items():
        path.write_bytes(content)
    assert held(archive) == expected
    assert list(ArchiveReader(archive).query(newest_first=True)) == expected[::-1]
    assert any("overlaps" in one.problem for one in verify(archive).problems)
    compact(archive)
    assert len(list(files_in(archive))) == 2
    assert held(archive) == expected


# --- sorting ------------------------------------------------------------------------------------------


def test_sorting_gives_files_the_columns_that_are_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = cut(tmp_path, monkeypatch)
    archive = tmp_path / "archive"
    done = sort(archive, [SYMBOL, PRICE])
    assert done.before == done.after == len(list(files_in(archive)))
    assert held(archive) == expected
    assert verify(archive).problems == ()
    table = pq.read_table(min(files_in(archive)).path)
    assert table["symbol"].to_pylist() == sorted(table["symbol"].to_pylist())
    assert "type" not in table.column_names
    assert sort(archive, [SYMBOL, PRICE]).before == 0
    assert compact(archive).after == 2
    assert held(archive) == expected
    found = in_duckdb(
        f"SELECT count(*) FROM read_parquet('{archive}/date=*/hour=*/*.parquet') WHERE symbol = 'S07' AND price > 50"
    )
    assert found == [[sum(1 for _ in ArchiveReader(archive).query(Filter.parse("symbol = 'S07' AND price > 50")))]]


@settings(max_examples=100)
@given(st.lists(notifications(("a", "b"), wild=True), min_size=1, max_size=12), st.sampled_from(PromotedKind))
def test_a_column_made_of_attributes_is_the_one_that_a_roll_makes(some: list[Notification], kind: PromotedKind) -> None:
    envelopes = [publication("b", 1, seq, seq, one) for seq, one in enumerate(some, 1)]
    promoted = Promoted("a", kind)
    table, incomplete = columns_of(envelopes, [promoted], with_body=False)
    column, whole = promoted_of(table.column("attributes").combine_chunks(), promoted)
    assert column.equals(table.column("a").combine_chunks())
    assert whole == (not incomplete)


# --- retention ----------------------------------------------------------------------------------------


def test_what_is_too_old_is_removed_by_whole_hours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = cut(tmp_path, monkeypatch)
    archive = tmp_path / "archive"
    assert retain(archive, START + HOUR - 1).before == 0
    plan = retain(archive, START + HOUR, dry_run=True)
    assert plan.rows == 3_600
    assert held(archive) == expected
    assert retain(archive, START + HOUR).rows == 3_600
    assert held(archive) == expected[3_600:]
    assert retain(archive, START + 24 * HOUR).rows == 1_400
    assert held(archive) == []
    assert not list(archive.glob("date=*"))


# --- while others are at work ---------------------------------------------------------------------------


def test_a_reader_that_has_begun_finds_everything_that_is_merged_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = cut(tmp_path, monkeypatch)
    for newest_first in (False, True):
        roll(tmp_path / "data", tmp_path / str(newest_first), [TYPE])
        reader = ArchiveReader(tmp_path / str(newest_first))
        steps = reader.query_in_steps(newest_first=newest_first)
        found = [one for _ in range(4) for one in next(steps)]
        compact(tmp_path / str(newest_first))
        found += [one for step in steps for one in step]
        assert found == (expected[::-1] if newest_first else expected)
        assert reader.damage == ()


def test_a_reader_that_has_begun_misses_what_is_removed_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = cut(tmp_path, monkeypatch)
    reader = ArchiveReader(tmp_path / "archive")
    steps = reader.query_in_steps(newest_first=True)
    found = [one for _ in range(4) for one in next(steps)]
    retain(tmp_path / "archive", START + HOUR)
    found += [one for step in steps for one in step]
    assert found == expected[:3_599:-1]
    assert reader.damage == ()


def test_only_one_maintains_an_archive_at_a_time(tmp_path: Path) -> None:
    grown(tmp_path, rolls=1)
    held = lock(tmp_path / "archive", ".maintenance.lock")
    with pytest.raises(StoreLocked, match="another process is maintaining"):
        compact(tmp_path / "archive")
    held.close()
    compact(tmp_path / "archive")


def test_a_disk_without_room_is_told_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = cut(tmp_path, monkeypatch)
    with (
        patch("tidings.store.archive._maintenance.SPARE_BYTES", 2**60),
        pytest.raises(StoreFailed, match="has no room"),
    ):
        compact(tmp_path / "archive")
    assert held(tmp_path / "archive") == expected


def test_what_is_no_archive_is_refused(tmp_path: Path) -> None:
    for job in (compact, verify, lambda archive: sort(archive, [TYPE]), lambda archive: retain(archive, 0)):
        with pytest.raises(StoreForeign, match="there is no archive"):
            job(tmp_path / "nowhere")


# --- verification ---------------------------------------------------------------------------------------


def test_a_sound_archive_has_no_problems(tmp_path: Path) -> None:
    grown(tmp_path)
    found = verify(tmp_path / "archive")
    assert (found.problems, found.remarks) == ((), ())
    assert (found.files, found.rows) == (6, 300)


def rewritten(archive: Path, change: object) -> Path:
    """A file whose rows somebody has changed with another tool."""
    path = min(files_in(archive)).path
    table = pq.read_table(path, partitioning=None)
    pq.write_table(change(table), path)  # type: ignore[operator]
    return path


CHANGES = {
    "its name says": lambda t: t.set_column(0, t.schema.field(0), pa.array(["rome"] * len(t))),
    "epoch 7": lambda t: t.set_column(1, t.schema.field(1), pa.array([7] * len(t))),
    "are expected": lambda t: t.set_column(2, t.schema.field(2), pa.array([n + 1_000 for n in t["seq"].to_pylist()])),
    "a number twice": lambda t: t.set_column(2, t.schema.field(2), pa.array([2] * len(t))),
    "another hour": lambda t: t.set_column(
        5, t.schema.field(5), pa.array([START - 1] * len(t), t.schema.field(5).type)
    ),
    "not sorted": lambda t: t.take(pa.array(range(len(t) - 1, -1, -1))),
    "other values in column 'type'": lambda t: t.set_column(11, "type", pa.array(["quote"] * len(t))),
}


@pytest.mark.parametrize("told", CHANGES)
def test_each_kind_of_damage_is_found(tmp_path: Path, told: str) -> None:
    grown(tmp_path)
    path = rewritten(tmp_path / "archive", CHANGES[told])
    problems = verify(tmp_path / "archive").problems
    assert {one.path for one in problems} == {path}
    assert any(told in one.problem for one in problems)


def test_a_byte_that_has_changed_is_found_wherever_it_is(tmp_path: Path) -> None:
    grown(tmp_path, rolls=1, count=400)
    (path,) = [file.path for file in files_in(tmp_path / "archive")]
    sound = path.read_bytes()
    expected = held(tmp_path / "archive")
    missed = 0
    places = random.Random(1).sample(range(len(sound)), 60)
    for place in places:
        damaged = bytearray(sound)
        damaged[place] ^= 0x55
        path.write_bytes(bytes(damaged))
        if not verify(tmp_path / "archive").problems:
            missed += 1  # nothing that is read depends on it, or the rows would differ
            assert held(tmp_path / "archive") == expected
    assert missed < len(places) / 2


def test_a_damaged_file_is_left_as_it_is_and_the_others_are_merged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut(tmp_path, monkeypatch)
    path = sorted(files_in(tmp_path / "archive"))[2].path
    path.write_bytes(path.read_bytes()[:1_000])
    done = compact(tmp_path / "archive")
    assert [one.path for one in done.damage] == [path]
    assert done.before > 0
    assert path.exists()
    assert len(list(files_in(tmp_path / "archive"))) == 4  # before it, itself, after it, the second hour


# --- kill -9 --------------------------------------------------------------------------------------------


def crash(home: Path, kills: int, seed: int) -> None:
    """A broker appends and rolls, somebody maintains and is killed, somebody reads: nothing is missing or twice."""
    rng = random.Random(seed)
    data, archive = home / "data", home / "archive"
    with child("roll", "append", str(data)) as broker:
        assert broker.stdout is not None
        assert broker.stdout.readline(), "the store is there"
        with child("roll", "roll", str(data), str(archive)) as roller:
            assert roller.stdout is not None
            assert roller.stdout.readline()
            with child("maintain", "read", str(archive)) as reader:
                for _ in range(kills):
                    with child("maintain", "maintain", str(archive)) as maintainer:
                        kill_at_some_point(maintainer, rng)
                    assert missing_in(archive) == [], "whoever is killed leaves nothing that would be missed"
                reader.kill()
                assert reader.stdout is not None
                read = reader.stdout.read().decode().splitlines()
    assert len(read) > 2, "it has read while others were at work"
    assert not [line for line in read if "WRONG" in line]
    roll(data, archive)
    compact(archive)
    found = verify(archive)
    told = ("overlaps", "numbers", "is missing")
    assert [one for one in found.problems if any(word in one.problem for word in told)] == []
    with StoreReader(data) as log:
        assert held(archive) == list(log.query())


@pytest.mark.soak
def test_maintenance_that_is_killed_costs_nothing_and_leaves_nothing_twice(tmp_path: Path) -> None:
    crash(tmp_path, 3, seed=1)


@pytest.mark.soak
def test_maintenance_that_is_killed_over_and_over_costs_nothing(tmp_path: Path) -> None:
    for seed in soak_seeds(min(200.0, SOAK_SECONDS / 4)):
        crash(tmp_path / str(seed), 20, seed)
