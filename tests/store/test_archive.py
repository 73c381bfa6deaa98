"""The archive holds exactly what the log held, answers exactly what is asked, and is pruned by whoever reads it."""

from __future__ import annotations

import itertools
import json
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from unittest.mock import patch

import polars
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from archive_world import HOUR, START, fill, in_duckdb, publication, quotes
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import filters, notifications

from tidings.model import EVERYTHING, Filter, Location, Notification, Route, RouteState
from tidings.store import ARCHIVED, StoreError, StoreForeign, StoreLocked
from tidings.store._file import lock
from tidings.store._layout import file_at, files_in, path_of
from tidings.store._promoted import RESERVED
from tidings.store._query import Query
from tidings.store.archive import ArchiveReader, Promoted, PromotedKind, _reader, roll, schema_of
from tidings.store.archive._pushdown import predicate
from tidings.store.archive._row_group import columns_of, envelopes_in, row_group
from tidings.wire import Envelope

QUOTED = [Promoted.parse(text) for text in ("type", "symbol", "price:float")]
EVERY_KIND = [Promoted("a", kind) for kind in PromotedKind]


# --- what is kept -------------------------------------------------------------------------------------


@settings(max_examples=150)
@given(
    st.lists(notifications(wild=True), min_size=1, max_size=8),
    st.sampled_from([[], *([one] for one in EVERY_KIND)]),
    st.booleans(),
    st.sampled_from([1, 40]),
)
def test_every_value_survives_exactly(
    some: list[Notification], promoted: list[Promoted], with_body: bool, times: int
) -> None:
    envelopes = [publication("b", 1, seq, seq, one) for seq, one in enumerate(some * times, 1)]
    table, _ = columns_of(envelopes, promoted, with_body=with_body)
    found = envelopes_in(row_group([table], promoted).sort_by("seq"))
    assert [one.identity for one in found] == [one.identity for one in envelopes]
    for one, expected in zip(found, envelopes, strict=True):
        assert one == expected if with_body else one.notification == expected.notification
        for name, value in expected.notification.items():
            kept = one.notification[name]
            assert type(kept) is type(value)
            if isinstance(value, tuple):
                assert list(map(type, kept)) == list(map(type, value))  # type: ignore[arg-type]


def test_routes_times_to_live_and_scopes_survive() -> None:
    routes = (Route("market", RouteState.UPWARD, "x", ("a", "b"), 7, ("t",)), Route("world"))
    some = [
        publication("b", 1, 1, 1, Notification(n=1), Route("market")),
        publication("b", 1, 2, 2, Notification(n=2), *routes, ttl=5),
        publication("b", 1, 3, 3, Notification()),
    ]
    table, _ = columns_of(some, [], with_body=False)
    assert sorted(table["scope"].to_pylist()) == ["", "market", "market"]
    assert envelopes_in(table.sort_by("seq")) == some


def test_extremes_survive() -> None:
    extreme = Notification(
        least=-(2**63), most=2**63 - 1, none=[], mixed=[1, 1.0, True, "1"], zero=-0.0, empty="", void=b"",
        first=datetime.min.replace(tzinfo=UTC), last=datetime.max.replace(tzinfo=UTC), world=Location("/"),
    )  # fmt: skip
    table, _ = columns_of([publication("b", 1, 1, 1, extreme)], [], with_body=False)
    (found,) = envelopes_in(table)
    assert found.notification == extreme
    assert repr(found.notification) == repr(extreme)


# --- rolling ------------------------------------------------------------------------------------------


def test_a_log_is_cut_into_files_by_hour_and_goes_on_where_it_ended(tmp_path: Path) -> None:
    data, archive = tmp_path / "data", tmp_path / "archive"
    first = fill(data, quotes(5_000, start=START - 1_000 * 1_000_000))
    rolled = roll(data, archive, QUOTED)
    assert rolled.count == 5_000
    assert [str(path.relative_to(archive).parent) for path in rolled.files] == [
        "date=2025-11-24/hour=15", "date=2025-11-24/hour=16", "date=2025-11-24/hour=17",
    ]  # fmt: skip
    assert roll(data, archive, QUOTED).count == 0
    second = fill(data, quotes(10))
    assert roll(data, archive, QUOTED).count == 10
    reader = ArchiveReader(archive)
    assert list(reader.query()) == first + second
    assert reader.extent().count == 5_010
    assert reader.extent().earliest == first[0].identity.published_at
    assert [file.first for file in reader.files() if file.epoch == first[0].identity.epoch] == [2, 2_002, 9_202]


def test_a_clock_that_jumps_makes_more_files_and_no_disorder(tmp_path: Path) -> None:
    jumps = [START, START + HOUR, START - 5, START, START, START + 3 * HOUR]
    expected = fill(tmp_path / "data", [(at, Notification(n=n)) for n, at in enumerate(jumps)])
    assert len(roll(tmp_path / "data", tmp_path / "archive").files) == 5
    assert list(ArchiveReader(tmp_path / "archive").query()) == expected


def test_files_that_were_deleted_do_not_come_back_if_the_store_knows(tmp_path: Path) -> None:
    from store_world import Loop

    fill(tmp_path / "data", quotes(10))
    rolled = roll(tmp_path / "data", tmp_path / "archive")
    with Loop().open(tmp_path / "data", owner="berlin") as store:
        store.put(*ARCHIVED, ARCHIVED.written(rolled.position))
    rolled.files[0].unlink()
    assert roll(tmp_path / "data", tmp_path / "archive").count == 0


def test_a_namesake_in_the_same_archive_does_not_cost_a_publication(tmp_path: Path) -> None:
    expected = [fill(tmp_path / name, quotes(10, start=START + at)) for at, name in enumerate(("one", "two"))]
    for name in ("two", "one"):  # the one with the larger epoch first
        assert roll(tmp_path / name, tmp_path / "archive").count == 10
    assert list(ArchiveReader(tmp_path / "archive").query()) == [*expected[0], *expected[1]]


def test_only_one_roll_of_an_origin_runs_at_a_time(tmp_path: Path) -> None:
    fill(tmp_path / "data", quotes(10))
    held = lock(tmp_path / "archive", ".berlin.lock")
    with pytest.raises(StoreLocked, match="another process is archiving broker 'berlin'"):
        roll(tmp_path / "data", tmp_path / "archive")
    held.close()
    assert roll(tmp_path / "data", tmp_path / "archive").count == 10


def test_a_roll_that_fails_leaves_nothing_half_done(tmp_path: Path) -> None:
    fill(tmp_path / "data", quotes(3_000, step=3_000_000))
    with (
        patch("tidings.store.archive._directories.os.fsync", side_effect=[None] * 5 + [OSError(28, "No space left")]),
        pytest.raises(OSError, match="No space"),
    ):
        roll(tmp_path / "data", tmp_path / "archive")
    before = len(list(ArchiveReader(tmp_path / "archive").query()))
    assert 0 < before < 3_000
    assert not list((tmp_path / "archive").glob("*.rolling"))
    assert roll(tmp_path / "data", tmp_path / "archive").count == 3_000 - before
    assert len(list(ArchiveReader(tmp_path / "archive").query())) == 3_000


@pytest.mark.parametrize("origin", ["berlin", "_hidden", ".x", "a/b-c", "größe", "a b", "x" * 256, "=%"])
def test_names_of_files_hold_any_origin(tmp_path: Path, origin: str) -> None:
    path = tmp_path / path_of(origin, 1_763_263_000_000_000, 1, 2, 490_000)
    assert path.name[0] not in "._"
    assert len(path.name.encode()) < 255
    file = file_at(tmp_path, path)
    assert file is not None
    assert file.written_by(origin)
    assert not file.written_by(origin + "x")
    assert (file.epoch, file.first, file.last, file.hour) == (1_763_263_000_000_000, 1, 2, 490_000)
    fill(tmp_path / "data", quotes(1), origin)
    roll(tmp_path / "data", tmp_path / "archive")
    assert len(list(ArchiveReader(tmp_path / "archive", origin=origin).query())) == 1
    assert list(ArchiveReader(tmp_path / "archive", origin="other").query()) == []


def test_memory_does_not_grow_with_the_log(tmp_path: Path) -> None:
    with (
        patch("tidings.store.archive._gathering.ROW_GROUP_ROWS", 2_000),
        patch("tidings.store.archive._gathering.PART_ROWS", 500),
    ):
        fill(tmp_path / "data", quotes(30_000, step=1_000))
        before, seen = pa.total_allocated_bytes(), list[int]()
        (path,) = roll(
            tmp_path / "data", tmp_path / "archive", progress=lambda _: seen.append(pa.total_allocated_bytes())
        ).files
    assert pq.read_metadata(path).num_row_groups >= 14
    assert max(seen) - before < 8_000_000


# --- reading ------------------------------------------------------------------------------------------


@settings(max_examples=150)
@given(
    st.lists(notifications(("a", "b")), min_size=1, max_size=6),
    st.lists(filters(("a", "b")), min_size=1, max_size=8),
    st.sampled_from(EVERY_KIND),
)
def test_a_predicate_never_hides_a_match(some: list[Notification], asked: list[Filter], promoted: Promoted) -> None:
    envelopes = [publication("b", 1, seq, seq, one) for seq, one in enumerate(some, 1)]
    table, incomplete = columns_of(envelopes, [promoted], with_body=False)
    for filter in asked:
        wanted = predicate(Query(filter=filter), {"a": promoted}, frozenset({"a"} - incomplete))
        found = set(table["seq"].to_pylist() if wanted is None else table.filter(wanted)["seq"].to_pylist())
        assert {seq for seq, one in enumerate(some, 1) if filter.matches(one)} <= found


@settings(max_examples=150)
@given(
    st.lists(notifications(("a",), wild=True), min_size=1, max_size=6),
    filters(("a",), wild=True, max_size=2),
    st.sampled_from(EVERY_KIND),
)
def test_a_predicate_never_hides_a_wild_match(some: list[Notification], filter: Filter, promoted: Promoted) -> None:
    test_a_predicate_never_hides_a_match.hypothesis.inner_test(some, [filter], promoted)


TIMES = st.sampled_from([START, START + 1, START + HOUR - 1, START + HOUR, START + 2 * HOUR + 5])
MAYBE = st.none() | TIMES
CONTENT = st.lists(st.tuples(TIMES, notifications(("a", "b"))), max_size=12)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(CONTENT, min_size=1, max_size=3),
    st.lists(
        st.tuples(
            filters(("a", "b")), st.none() | TIMES, st.none() | TIMES, st.none() | st.integers(0, 5), st.booleans()
        ),
        min_size=1,
        max_size=6,
    ),
    st.sampled_from([[], [Promoted("a")], [Promoted("b", PromotedKind.FLOAT), Promoted("a")]]),
)
def test_a_query_equals_a_look_at_everything(contents, queries, promoted) -> None:  # type: ignore[no-untyped-def]
    with (
        tempfile.TemporaryDirectory() as home,
        patch("tidings.store.archive._gathering.ROW_GROUP_ROWS", 3),
        patch("tidings.store.archive._gathering.PART_ROWS", 2),
        patch("tidings.store.archive._reader.STEP", 2),
    ):
        everything = []
        for content in contents:
            everything += fill(Path(home) / "data", content)
            roll(Path(home) / "data", Path(home) / "archive", promoted)
        reader = ArchiveReader(Path(home) / "archive")
        for filter, since, until, limit, back in queries:
            expected = [
                one
                for one in everything
                if filter.matches(one.notification)
                and (since is None or since <= one.identity.published_at)
                and (until is None or one.identity.published_at < until)
            ]
            asked = {"since": since, "until": until, "limit": limit, "newest_first": back}
            assert list(reader.query(filter, **asked)) == (expected[::-1] if back else expected)[:limit]
        assert reader.damage == ()


def test_origins_are_merged_by_time_and_each_keeps_its_order(tmp_path: Path) -> None:
    everything = []
    for at, origin in enumerate(("berlin", "paris", "rome")):
        everything += fill(tmp_path / origin, quotes(50, start=START + at), origin)
        roll(tmp_path / origin, tmp_path / "archive")
    everything.sort(key=lambda one: one.identity.published_at)
    reader = ArchiveReader(tmp_path / "archive")
    assert list(reader.query()) == everything
    assert list(reader.query(limit=7, newest_first=True)) == everything[:-8:-1]


def test_files_that_overlap_are_read_once(tmp_path: Path) -> None:
    expected = fill(tmp_path / "data", quotes(100))
    (whole,) = roll(tmp_path / "data", tmp_path / "archive").files
    epoch = expected[0].identity.epoch
    part = whole.with_name(path_of("berlin", epoch, 2, 100, START // HOUR).name)
    with pq.ParquetFile(whole) as file:
        table = file.read().filter(pc.field("seq") <= 100)
        pq.write_table(table.replace_schema_metadata(file.metadata.metadata), part)
    reader = ArchiveReader(tmp_path / "archive")
    assert len(reader.files()) == 2
    assert list(reader.query()) == expected
    assert list(reader.query(newest_first=True)) == expected[::-1]


def test_a_damaged_file_is_reported_and_the_rest_is_read(tmp_path: Path) -> None:
    expected = fill(tmp_path / "data", quotes(3_000, step=4_000_000))
    files = roll(tmp_path / "data", tmp_path / "archive").files
    assert len(files) == 4
    content = bytearray(files[1].read_bytes())
    content[len(content) // 3] ^= 0xFF
    files[1].write_bytes(content)
    files[2].write_bytes(files[2].read_bytes()[:500])
    (files[2].parent / "notes.parquet").write_text("not ours")
    reader = ArchiveReader(tmp_path / "archive")
    found = list(reader.query())
    hours = {one.identity.published_at // HOUR - START // HOUR for one in found}
    assert {0, 3} <= hours
    assert {damage.path for damage in reader.damage} == {files[1], files[2]}
    assert [one for one in expected if one in found] == found, "nothing is wrong, nothing twice"


def test_a_file_of_a_later_format_is_reported(tmp_path: Path) -> None:
    fill(tmp_path / "data", quotes(10))
    (path,) = roll(tmp_path / "data", tmp_path / "archive").files
    table = pq.read_table(path, partitioning=None)
    pq.write_table(table.replace_schema_metadata({b"tidings.format": b"9"}), path)
    reader = ArchiveReader(tmp_path / "archive")
    assert list(reader.query()) == []
    assert "format 9" in reader.damage[0].problem


def test_a_reader_never_sees_a_file_that_is_being_written(tmp_path: Path) -> None:
    fill(tmp_path / "data", quotes(3_000, step=4_000_000))
    archive = tmp_path / "archive"
    seen: list[int] = []

    def look(count: int) -> None:
        reader = ArchiveReader(archive)
        seen.append(sum(1 for _ in reader.query()))
        assert reader.damage == ()
        assert ds.dataset(archive, partitioning="hive", format="parquet").count_rows() == seen[-1]

    roll(tmp_path / "data", archive, progress=look)
    assert len(set(seen)) > 1
    assert seen == sorted(seen)


def test_every_column_has_a_name_that_cannot_be_promoted() -> None:
    assert {*schema_of([], with_body=True).names, "date", "hour"} == RESERVED


def test_what_cannot_be_an_archive_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreForeign, match="there is no archive"):
        ArchiveReader(tmp_path / "nowhere")
    fill(tmp_path / "data", quotes(1))
    with pytest.raises(StoreError, match="every archive has a column"):
        Promoted.parse("seq")
    with pytest.raises(StoreError, match="write name or name:kind"):
        Promoted.parse("price:money")
    with pytest.raises(StoreError, match="promoted twice"):
        roll(tmp_path / "data", tmp_path / "archive", [Promoted("x"), Promoted("x")])


# --- other readers ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four hours of two origins, in row groups of 400."""
    home = tmp_path_factory.mktemp("archive")
    with (
        patch("tidings.store.archive._gathering.ROW_GROUP_ROWS", 400),
        patch("tidings.store.archive._gathering.PART_ROWS", 100),
        patch("tidings.store.archive._parquet.PAGE_ROWS", 50),
        patch("tidings.store._packing.BATCH_COUNT", 100),
    ):
        for origin in ("berlin", "paris"):
            fill(home / origin, quotes(3_000, step=4_000_000), origin)
            roll(home / origin, home / "archive", QUOTED)
    return home / "archive"


def test_row_groups_can_be_pruned_by_time_origin_and_promoted_attributes(archive: Path) -> None:
    for file in files_in(archive):
        metadata = pq.read_metadata(file.path)
        names = metadata.schema.names
        times = []
        for at in range(metadata.num_row_groups):
            group = metadata.row_group(at)
            columns = {
                name: group.column(names.index(name)) for name in ("origin", "published_at", "seq", "symbol", "price")
            }
            assert columns["origin"].statistics.min == columns["origin"].statistics.max == file.origin
            assert all(column.statistics.has_min_max for column in columns.values())
            assert columns["symbol"].has_offset_index
            assert columns["symbol"].has_column_index
            times.append((columns["published_at"].statistics.min, columns["published_at"].statistics.max))
        assert all(one[1] < two[0] for one, two in pairwise(times)), "in the order of time"
        assert json.loads(metadata.metadata[b"tidings.complete"]) == ["type", "symbol", "price"]


def test_rows_of_a_row_group_are_sorted_by_promoted_attributes_then_by_number(archive: Path) -> None:
    for file in files_in(archive):
        with pq.ParquetFile(file.path) as parquet:
            for at in range(parquet.num_row_groups):
                table = parquet.read_row_group(at, columns=["type", "symbol", "price", "seq"])
                assert table.sort_by([(name, "ascending") for name in table.column_names]).equals(table)


def test_arrow_reads_only_row_groups_that_may_hold_something(archive: Path) -> None:
    dataset = ds.dataset(archive, partitioning="hive", format="parquet")

    def groups(wanted: pc.Expression) -> int:
        return sum(len(one.split_by_row_group(wanted)) for one in dataset.get_fragments(wanted))

    everything = groups(pc.scalar(True))
    at = pc.field("published_at")
    instants = [pa.scalar(START + HOUR + minutes * 60_000_000, pa.timestamp("us", "UTC")) for minutes in (0, 10)]
    assert everything >= 14
    assert groups((at >= instants[0]) & (at < instants[1])) <= 4
    assert groups(pc.field("origin") == "paris") == everything // 2
    assert groups(pc.field("symbol") == "ZZZ") == 0
    assert groups(pc.field("price") > 1_000) == 0


def test_duckdb_and_polars_read_it_and_agree(archive: Path) -> None:
    reader = ArchiveReader(archive)
    expected = sum(1 for _ in reader.query(Filter.parse("symbol = 'S07' AND price > 50"), since=START + HOUR))
    assert expected > 0
    files = f"{archive}/**/*.parquet"
    found = in_duckdb(
        f"SELECT count(*) FROM read_parquet('{files}', hive_partitioning = true) WHERE symbol = 'S07' AND price > 50 "
        f"AND published_at >= make_timestamptz({START + HOUR})"
    )
    assert found == [[expected]]
    lazy = polars.scan_parquet(files, hive_partitioning=True)
    moment = datetime.fromtimestamp((START + HOUR) / 1e6, UTC)
    chosen = lazy.filter(
        (polars.col("symbol") == "S07") & (polars.col("price") > 50) & (polars.col("published_at") >= moment)
    )
    assert chosen.collect().height == expected


def test_duckdb_reaches_attributes_that_are_not_promoted(archive: Path) -> None:
    query = f"""
        SELECT count(*) FROM read_parquet('{archive}/**/*.parquet')
        WHERE list_extract(list_filter(attributes, lambda a: a.name = 'n'), 1).as_int < 100
    """
    assert in_duckdb(query) == [[200]]


def test_bloom_filters_tell_duckdb_that_a_value_is_nowhere(archive: Path) -> None:
    file = min(files_in(archive)).path

    def probe(value: str) -> str:
        return f"SELECT bloom_filter_excludes FROM parquet_bloom_probe('{file}', 'symbol', '{value}')"

    *absent, present = in_duckdb(*(probe(f"S{number:02d}0") for number in range(50)), probe("S07"))
    excluded = list(itertools.chain(*absent))
    assert excluded.count(True) > 0.9 * len(excluded)
    assert not any(present)


def test_everything_is_asked_without_a_filter(archive: Path) -> None:
    assert sum(len(step) for step in ArchiveReader(archive).query_in_steps(EVERYTHING)) == 6_000


# --- steps --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("newest_first", [False, True])
@pytest.mark.parametrize("asked", ["TRUE", "price > 90", "n >= 0", "symbol = 'S01' OR n < 30", "n < 0"])
def test_a_step_is_short_however_large_the_row_group(tmp_path: Path, asked: str, newest_first: bool) -> None:
    content = quotes(5_000, step=1_000)
    expected = [one for one in fill(tmp_path / "data", content) if Filter.parse(asked).matches(one.notification)]
    roll(tmp_path / "data", tmp_path / "archive", QUOTED)
    reader = ArchiveReader(tmp_path / "archive")
    (file,) = reader.files()
    assert pq.read_metadata(file.path).num_row_groups == 1
    read: list[int] = []
    made: list[int] = []
    real, made_of = pq.ParquetFile.iter_batches, envelopes_in

    def batches(self: pq.ParquetFile, *words: object, **options: object) -> Iterator[pa.RecordBatch]:
        for batch in real(self, *words, **options):
            read.append(len(batch))
            yield batch

    def envelopes(table: pa.Table) -> list[Envelope]:
        made.append(len(table))
        return made_of(table)

    found = []
    since = START + 1_000 if newest_first else None
    with patch.object(pq.ParquetFile, "iter_batches", batches), patch.object(_reader, "envelopes_in", envelopes):
        for step in reader.query_in_steps(Filter.parse(asked), since=since, newest_first=newest_first):
            found += step
            assert sum(read) <= _reader.STEP_ROWS, "in one step"
            assert sum(made) <= _reader.STEP, "in one step"
            read.clear()
            made.clear()
    wanted = [one for one in expected if since is None or one.identity.published_at >= since]
    assert [one.identity for one in found] == [one.identity for one in (wanted[::-1] if newest_first else wanted)]
