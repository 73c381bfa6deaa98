"""How a file of the archive is laid out: row groups, pages, compression, Bloom filters."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidings.store._promoted import Promoted, PromotedKind
from tidings.store._rights import private_file

ROW_GROUP_ROWS = 32_768
"""The most rows of a row group: what a reader has to read at once."""
PAGE_ROWS = 4_096
"""The most rows of a page: what a reader can skip within a row group."""
COMPRESSION_LEVEL = 3
"""zstd's own choice."""
BLOOMED = {PromotedKind.TEXT, PromotedKind.INTEGER, PromotedKind.PLACE, PromotedKind.BYTES}
"""Kinds that are asked for by equality, for which a Bloom filter tells that a value is nowhere."""


def parquet_writer(path: Path, sample: pa.Table, promoted: Sequence[Promoted]) -> pq.ParquetWriter:
    """A writer of row groups like this one; the file may be read by those who may use its directory."""
    private_file(path, like=path.parent)
    hashed = [one.name for one in promoted if one.kind in BLOOMED]
    distinct = {name: max(64, pc.count_distinct(sample.column(name)).as_py()) for name in hashed}
    return pq.ParquetWriter(
        path,
        sample.schema,
        compression="zstd",
        compression_level=COMPRESSION_LEVEL,
        write_page_index=True,
        write_page_checksum=True,
        max_rows_per_page=PAGE_ROWS,
        bloom_filter_options={name: {"ndv": count, "fpp": 0.01} for name, count in distinct.items()} or None,
    )
