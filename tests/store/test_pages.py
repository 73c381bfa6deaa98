"""What is read of a row group is what was asked for: by Bloom filters and by pages, and the answer stays the same."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from archive_world import fill, quotes
from hypothesis import given, settings
from hypothesis import strategies as st

from tidings.model import Filter, Location, Notification
from tidings.store.archive import ArchiveReader, Promoted, _pages, _parquet, roll
from tidings.store.archive._bloom import BloomFilter, hash_of
from tidings.store.archive._pages import Pages, Part
from tidings.store.archive._thrift import fields, varint

PROMOTED = [Promoted.parse(text) for text in ("type", "symbol", "n:integer", "at:place", "raw:bytes")]


# --- Bloom filters ------------------------------------------------------------------------------------


@settings(max_examples=50)
@given(st.sets(st.binary(max_size=100), min_size=1, max_size=50), st.sets(st.binary(max_size=100), max_size=50))
def test_what_a_row_group_holds_is_in_its_bloom_filter(held: set[bytes], absent: set[bytes]) -> None:
    """Arrow writes the filters, so hashes and blocks are as Parquet has them."""
    sink = pa.BufferOutputStream()
    options = {"v": {"ndv": len(held), "fpp": 1e-6}}
    pq.write_table(pa.table({"v": pa.array(sorted(held))}), sink, bloom_filter_options=options)
    data = sink.getvalue().to_pybytes()
    column = pq.read_metadata(pa.BufferReader(data)).row_group(0).column(0)
    start, size = column.bloom_filter_offset, column.bloom_filter_length
    filter = BloomFilter.read(data[start : start + size])
    assert filter.blocks
    assert all(filter.may_hold(hash_of(one)) for one in held)
    assert sum(filter.may_hold(hash_of(one)) for one in absent - held) <= 1


@pytest.mark.parametrize("data", [b"", b"\x15", b"\x15\x80\x80\x80\x80\x80\x80", b"\x15\x40" + bytes(80), b"\x1c" * 60])
def test_a_bloom_filter_that_cannot_be_read_tells_nothing(data: bytes) -> None:
    assert BloomFilter.read(data).may_hold(hash_of(b"a"))


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some row groups, in each of which a symbol occurs once, or a few times in a list."""
    home = tmp_path_factory.mktemp("pages")
    content = []
    for at, (time, quote) in enumerate(quotes(6_000, step=100_000)):
        more: dict[str, Any] = {"at": Location(f"/b/{at % 7}"), "raw": bytes([at % 250]), "tags": ["x", at]}
        if at % 1_000 == 500:
            more |= {"symbol": "RARE"}
        if at % 2_000 == 1_500:
            more |= {
                "symbol": "ODD",
                "n": -(2**63),
                "at": Location("/ü"),
                "raw": b"\xff\xfe",
                "when": datetime(1960, 1, 1, tzinfo=UTC),
            }
        if at == 5_501:
            more |= {"symbol": ["RARE", "ONLY"]}
        content.append((time, Notification({**quote, **more})))
    expected = fill(home / "data", content, batch=500)  # a row group ends where a batch does
    assert len(expected) == 6_000
    with patch("tidings.store.archive._gathering.ROW_GROUP_ROWS", 2_000), patch.object(_parquet, "PAGE_ROWS", 128):
        assert len(roll(home / "data", home / "archive", PROMOTED).files) == 1
    return home / "archive"


ASKED = {  # how many are found, and in how many of the three row groups they may be
    "symbol = 'ODD'": (3, 3),
    "symbol = 'RARE'": (4, 3),
    "symbol = 'ONLY'": (1, 1),
    "symbol = 'NONE' AND type = 'quote'": (0, 1),  # in the last one, a list may have it
    "symbol = 'NONE' AND at = LOCATION '/no'": (0, 0),
    "n = 6001 OR raw = X'FFFD'": (0, 0),
    "at = LOCATION '/ü'": (3, 3),
    "raw = X'FFFE' AND symbol IN ('ODD', 'NO')": (3, 3),
    "type = 'quote' AND n BETWEEN 701 AND 703": (3, 3),
    "n = 701": (1, 1),
}


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("newest_first", [False, True])
def test_what_is_found_is_what_a_look_at_everything_finds(archive: Path, asked: str, newest_first: bool) -> None:
    filter = Filter.parse(asked)
    everything = [one for one in ArchiveReader(archive).query() if filter.matches(one.notification)]
    found = list(ArchiveReader(archive).query(filter, newest_first=newest_first))
    assert found == (everything[::-1] if newest_first else everything)
    assert len(found) == ASKED[asked][0]


@pytest.mark.parametrize("asked", ASKED)
def test_row_groups_whose_bloom_filters_say_no_are_not_read(archive: Path, asked: str) -> None:
    (file,) = ArchiveReader(archive).files()
    assert pq.read_metadata(file.path).num_row_groups == 3
    with patch("tidings.store.archive._reader._passing", return_value=[]) as passing:
        list(ArchiveReader(archive).query(Filter.parse(asked)))
    assert passing.call_count == ASKED[asked][1]


def test_only_the_pages_that_hold_something_are_read(archive: Path) -> None:
    read: list[int] = []
    whole = Pages.holding

    def look(self: Pages, group: int, rows: pa.Int64Array) -> Any:
        for part in whole(self, group, rows):
            read.append(part.file.metadata.num_rows)
            yield part

    with patch.object(Pages, "holding", look):
        assert len(list(ArchiveReader(archive).query(Filter.parse("symbol = 'ODD'")))) == 3
    assert read == [128] * 3


# --- pages --------------------------------------------------------------------------------------------


def table(rows: int, rng: random.Random) -> pa.Table:
    """Columns whose pages end at different rows, where bytes end them."""
    lists = [
        [{"k": rng.choice("ab"), "v": None if rng.random() < 0.5 else rng.random()}] * rng.randrange(4)
        for _ in range(rows)
    ]
    kind = pa.list_(pa.struct([pa.field("k", pa.string(), nullable=False), pa.field("v", pa.float64())]))
    return pa.table(
        {
            "a": pa.array([rng.randrange(2**60) for _ in range(rows)]),
            "b": pa.array([rng.choice([None, "x" * rng.randrange(300)]) for _ in range(rows)]),
            "c": pa.array([True] * rows),
            "d": pa.array(lists, kind),
        }
    )


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 2**32),
    st.sampled_from([30, 700]),
    st.sampled_from(["none", "zstd"]),
    st.booleans() | st.just(["b"]),
    st.sampled_from(["1.0", "2.0"]),
    st.sampled_from([1_000, 2**20]),
    st.sets(st.sampled_from(range(5)), min_size=1),
    st.data(),
)
def test_parts_hold_the_rows_that_are_asked_for(
    seed: int,
    page: int,
    compression: str,
    dictionary: Any,
    version: str,
    size: int,
    wanted: set[int],
    data: st.DataObject,
) -> None:
    written = table(1_500, random.Random(seed))
    sink = pa.BufferOutputStream()
    pq.write_table(
        written, sink, row_group_size=800, compression=compression, use_dictionary=dictionary, write_page_index=True,
        data_page_version=version, data_page_size=size, max_rows_per_page=page, write_batch_size=10,
        write_page_checksum=True,
    )  # fmt: skip
    source = pa.BufferReader(sink.getvalue())
    file = pq.ParquetFile(source)
    group = data.draw(st.integers(0, 1))
    rows = sorted(
        data.draw(st.sets(st.integers(0, file.metadata.row_group(group).num_rows - 1), min_size=1, max_size=3))
    )
    names = [name for at, name in enumerate("abc") if at in wanted] + ["d"] * bool(wanted & {3, 4})
    leaves = {at for at in wanted if at < 3} | ({3, 4} if wanted & {3, 4} else set())
    expected = file.read_row_group(group, columns=names)
    covered = set()
    for start, part, number in Pages(source, file, sorted(leaves)).holding(group, pa.array(rows, pa.int64())):
        found = part.read_row_group(number, columns=names)
        assert found.equals(expected.slice(start, len(found)))
        covered |= set(range(start, start + len(found)))
    assert covered >= set(rows)
    if page == 30 and size > 1_000:
        assert len(covered) <= 30 * len(rows)


@pytest.mark.parametrize("index", [False, True])
def test_a_row_group_whose_pages_are_not_known_or_mostly_needed_is_read_whole(index: bool) -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(
        table(100, random.Random(1)), sink, write_page_index=index, max_rows_per_page=10, write_batch_size=10
    )
    source = pa.BufferReader(sink.getvalue())
    file = pq.ParquetFile(source)
    rows = pa.array(range(0, 100, 10) if index else [5], pa.int64())
    assert list(Pages(source, file, [0]).holding(0, rows)) == [Part(0, file, 0)]


def test_a_footer_of_another_form_is_not_guessed_at() -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(table(100, random.Random(1)), sink, write_page_index=True, max_rows_per_page=10, write_batch_size=10)
    source = pa.BufferReader(sink.getvalue())
    file = pq.ParquetFile(source)
    whole, rows = [Part(0, file, 0)], pa.array([5], pa.int64())
    assert list(Pages(source, file, [0]).holding(0, rows)) != whole
    footer = source.read_at(file.metadata.serialized_size, source.size() - 8 - file.metadata.serialized_size)
    rng = random.Random(2)
    for _ in range(300):
        changed = bytearray(footer)
        for _ in range(rng.randrange(1, 4)):
            changed[rng.randrange(len(changed))] = rng.randrange(256)
        with patch.object(_pages.Pages, "_footer", property(lambda _, data=bytes(changed): _pages._Footer(data))):
            pages = Pages(source, file, [0])
            try:
                parts = list(pages.holding(0, rows))
            except (pa.ArrowException, OSError):
                continue  # Arrow does not take it: a reader reports the file as damaged
            assert parts


def test_numbers_of_thrift() -> None:
    data = b"\x16" + varint(300 << 1) + b"\x18\x02ab" + b"\x29\x23\x01\x02" + b"\x06\x0a\x01" + b"\x00"
    assert [(number, kind) for number, kind, _ in fields(data, 0)] == [(1, 6), (2, 8), (4, 9), (5, 6), (0, 0)]
    with pytest.raises(IndexError):
        list(fields(data[:-1], 0))
    with pytest.raises(ValueError, match="without an end"):
        list(fields(b"\x18" + b"\xff" * 20, 0))
