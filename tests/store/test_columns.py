"""The compiled engine makes the same rows of a log as Python does, and leaves to Python whatever is odd."""

from __future__ import annotations

import gc
import hashlib
import struct
import threading
import tracemalloc
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec
import pyarrow as pa
import pytest
from archive_world import HOUR, START, fill, publication, quotes
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import notifications, values

from tidings import _native
from tidings.model import Location, Notification, Route, RouteState
from tidings.store import StoreReader
from tidings.store._packing import encode
from tidings.store.archive import ArchiveReader, Promoted, PromotedKind, _gathering, roll
from tidings.store.archive._compiled import CompiledColumns
from tidings.store.archive._gathering import Gathering
from tidings.store.archive._row_group import columns_of, row_group
from tidings.wire import Envelope, Quality, encode_body

QUOTED = [Promoted.parse(text) for text in ("type", "symbol", "price:float")]
EVERY_KIND = [Promoted("a", kind) for kind in PromotedKind]
_compiled = pytest.mark.skipif(_native.engine is None, reason=_native.WHY_PURE)


def compiled(promoted: list[Promoted], *, with_body: bool = False) -> CompiledColumns:
    assert _native.engine is not None
    return CompiledColumns(_native.engine, "b", promoted, with_body=with_body)


def in_python(envelopes: list[Envelope], promoted: list[Promoted], *, with_body: bool = False) -> tuple[pa.Table, Any]:
    table, incomplete = columns_of(envelopes, promoted, with_body=with_body)
    return row_group([table], promoted), incomplete


def assert_same(
    envelopes: list[Envelope], promoted: list[Promoted], *, with_body: bool = False, parts: int = 1
) -> None:
    """Byte for byte, which tells -0.0 from 0.0, and in the same order."""
    columns = compiled(promoted, with_body=with_body)
    size = -(-len(envelopes) // parts)
    for start in range(0, len(envelopes), size):
        some = envelopes[start : start + size]
        assert columns.add(encode(some))[:2] == (len(some), sum(len(one.body) for one in some))  # type: ignore[index]
    table, incomplete = columns.table()
    table.validate(full=True)
    expected, missing = in_python(envelopes, promoted, with_body=with_body)
    assert incomplete == missing
    assert table.schema.equals(expected.schema, check_metadata=True)
    for name in table.schema.names:
        assert repr(table[name].to_pylist()) == repr(expected[name].to_pylist()), name
    assert table.equals(expected)


routes = st.builds(
    Route,
    st.sampled_from(["", "market", "märkte/ü"]),
    st.sampled_from(RouteState),
    st.sampled_from(["", "market"]),
    st.lists(st.sampled_from(["a", "b"]), max_size=2).map(tuple),
    st.integers(0, 2**63 - 1) | st.just(0),
    st.lists(st.sampled_from(["t"]), max_size=1).map(tuple),
)


@_compiled
@settings(max_examples=150)
@given(
    st.lists(st.tuples(notifications(wild=True), st.lists(routes, max_size=2)), min_size=1, max_size=8),
    st.sampled_from([[], *([one] for one in EVERY_KIND), [Promoted("b"), Promoted("a", PromotedKind.FLOAT)]]),
    st.booleans(),
    st.none() | st.integers(0, 2**63 - 1),
    st.integers(1, 3),
)
def test_the_engine_makes_the_same_columns(
    some: list[tuple[Notification, list[Route]]], promoted: list[Promoted], with_body: bool, ttl: int | None, parts: int
) -> None:
    envelopes = [
        publication("b", 1, seq, seq, notification, *way, ttl=ttl if seq % 2 else None)
        for seq, (notification, way) in enumerate(some, 1)
    ]
    assert_same(envelopes, promoted, with_body=with_body, parts=parts)


ODD_VALUES = [
    -(2**63), 2**63 - 1, 2**53, 2**53 + 1, -(2**53) - 1, -1, -32, -33, 127, 128, 255, 256, 65_535, 65_536, 2**32,
    -0.0, 0.0, 5e-324, -1.7976931348623157e308, True, False, "", "ä€𝄞", "\x00", "x" * 40, "y" * 70_000,
    b"", b"\xff\x00", b"z" * 300, datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC),
    datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC), datetime(2514, 5, 30, 1, 53, 4, tzinfo=UTC),
    datetime(2106, 2, 7, 6, 28, 16, tzinfo=UTC), Location("/"), Location("/berlin"), Location("/ü/ö"),
    (), (1,), (1, 1.0, True, "1", b"1"), ("", ""), tuple(range(1_024)),
]  # fmt: skip


@_compiled
@pytest.mark.parametrize("kind", PromotedKind)
def test_every_odd_value_is_the_same_under_every_kind_of_promoted_column(kind: PromotedKind) -> None:
    some = [Notification({"a": value, "b.c": n, "ä": "ü"}) for n, value in enumerate(ODD_VALUES)]
    assert_same(
        [publication("b", 1, n, n, one) for n, one in enumerate([*some, Notification()], 1)], [Promoted("a", kind)]
    )


@_compiled
def test_rows_are_sorted_as_python_sorts_them() -> None:
    rows = [{"a": a, "b": b} for a in ("x", "", "ä", None, 7) for b in (1.5, -0.0, 0, None, "no", 2**60)] * 3
    some = [Notification({name: value for name, value in row.items() if value is not None}) for row in rows]
    order = [Promoted("a"), Promoted("b", PromotedKind.FLOAT), Promoted("c", PromotedKind.TIME)]
    columns = compiled(order)
    envelopes = [publication("b", 1, n, n, one) for n, one in enumerate(some, 1)]
    assert columns.add(encode(envelopes)) is not None
    table, _ = columns.table()
    assert table["seq"].equals(in_python(envelopes, order)[0]["seq"])


def test_all_files_of_an_archive_are_the_same_byte_for_byte(tmp_path: Path) -> None:
    content = quotes(3_000, step=3_000_000)
    content += [(START + 3 * HOUR + n, Notification(a=value, tags=["x", n])) for n, value in enumerate(ODD_VALUES)]
    fill(tmp_path / "data", content)
    fill(tmp_path / "data", quotes(700, start=START + 4 * HOUR))
    digests = []
    for name, engine in (("compiled", _native.engine), ("python", None)):
        with patch.object(_gathering._native, "engine", engine), patch.object(_gathering, "ROW_GROUP_ROWS", 1_200):
            files = roll(tmp_path / "data", tmp_path / name, QUOTED, with_body=True).files
        digests.append([(path.name, hashlib.sha256(path.read_bytes()).hexdigest()) for path in files])
    assert digests[0] == digests[1]
    assert len(digests[0]) == 5


# --- what is odd --------------------------------------------------------------------------------------

_raw = msgspec.msgpack.Encoder().encode


def batch(body: bytes, *more: bytes, identity: Any = None, end: bytes = b"\x02") -> bytes:
    """A batch of envelopes with these bodies, each with its own identity or the one that is given."""
    envelopes = [
        b"\x94"
        + _raw(identity or ["b", 1, seq, "p", seq, seq, 0, None])
        + b"\x91\x96\xa0\x00\xa0\x90\x00\x90"
        + _raw(one)
        + end
        for seq, one in enumerate((body, *more), 1)
    ]
    return bytes([0x90 + len(envelopes)]) + b"".join(envelopes)


GOOD = encode_body({"a": 1, "b": "x"})
ODD = {
    "routes of another form": batch(GOOD).replace(b"\x96\xa0\x00\xa0\x90\x00\x90", b"\x96\xa0\x00\xa0\x90\xa0\x90"),
    "a state that there is not": batch(GOOD).replace(b"\x96\xa0\x00", b"\x96\xa0\x03"),
    "a scope that is no UTF-8": batch(GOOD).replace(b"\x96\xa0\x00", b"\x96\xa1\xff\x00"),
    "routes without an end": batch(GOOD).replace(b"\x91\x96", b"\xdc\xff\xff\x96"),
    "a name that comes twice": batch(bytes.fromhex("82a16101a16102")),
    "a name that is no text": batch(bytes.fromhex("810101")),
    "a name that is no UTF-8": batch(bytes.fromhex("81a1ff01")),
    "a text that is no UTF-8": batch(bytes.fromhex("81a161a1ff")),
    "an integer beyond 63 bits": batch(bytes.fromhex("81a161cfffffffffffffffff")),
    "not a number": batch(b"\x81\xa1a\xcb" + struct.pack(">d", float("nan"))),
    "infinity": batch(b"\x81\xa1a\xca" + struct.pack(">f", float("inf"))),
    "nothing": batch(bytes.fromhex("81a161c0")),
    "a map in a map": batch(bytes.fromhex("81a16180")),
    "a list in a list": batch(bytes.fromhex("81a1619190")),
    "a body that is cut": batch(GOOD[:-1]),
    "a body with more behind it": batch(GOOD + b"\x01"),
    "a body without its map": batch(b"\x90"),
    "an empty body": batch(b""),
    "a list whose count is cut": batch(bytes.fromhex("81a161dc00")),
    "more attributes than there are bytes": batch(bytes.fromhex("dfffffffff")),
    "an extension of another type": batch(bytes.fromhex("81a161d40201")),
    "a place that is no UTF-8": batch(bytes.fromhex("81a161d401ff")),
    "a place with an empty part": batch(bytes.fromhex("81a161d701") + b"/ab//cd/"),
    "nanoseconds": batch(bytes.fromhex("81a161d7ff0000000400000000")),
    "a time after the year 9999": batch(bytes.fromhex("81a161c70cff00000000") + (253_402_300_800).to_bytes(8, "big")),
    "another origin": batch(GOOD, identity=["c", 1, 1, "p", 1, 1, 0, None]),
    "an identity of an earlier form": batch(GOOD, identity=["b", 1, 1, "p", 1, 1]),
    "a negative number": batch(GOOD, identity=["b", 1, -1, "p", 1, 1, 0, None]),
    "a number that is a float": batch(GOOD, identity=["b", 1, 1.0, "p", 1, 1, 0, None]),
    "a quality that there is not": batch(GOOD, end=b"\x04"),
    "no quality": batch(GOOD, end=b""),
    "more behind the last": batch(GOOD) + b"\x01",
    "fewer than it says": b"\x92" + batch(GOOD)[1:],
    "no list": b"\x80",
    "no bytes": b"",
}


@_compiled
@pytest.mark.parametrize("what", ODD)
def test_whatever_is_odd_is_left_to_python_as_a_whole(what: str) -> None:
    columns = compiled([Promoted("a", PromotedKind.INTEGER)])
    assert columns.add(batch(GOOD)) == (1, len(GOOD), 2)
    assert columns.add(ODD[what]) is None
    if ODD[what][:1] == b"\x91":
        assert columns.add(b"\x92" + batch(GOOD)[1:] + ODD[what][1:]) is None  # behind a good one
    table, incomplete = columns.table()
    assert len(table) == 1
    assert not incomplete
    assert columns.table()[0].num_rows == 0  # what was taken is gone


@_compiled
@settings(max_examples=300)
@given(st.lists(st.dictionaries(st.sampled_from("ab"), values(wild=True)), min_size=1, max_size=3), st.data())
def test_what_the_engine_takes_python_would_have_taken(some: list[dict[str, Any]], data: st.DataObject) -> None:
    envelopes = [publication("b", 1, n, n, Notification(one)) for n, one in enumerate(some, 1)]
    changed = bytearray(encode(envelopes))
    for _ in range(data.draw(st.integers(1, 3))):
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    columns = compiled(EVERY_KIND[:1])
    if columns.add(bytes(changed)) is not None:
        found = msgspec.msgpack.decode(bytes(changed), type=list[Envelope])
        assert columns.table()[0].equals(in_python(found, EVERY_KIND[:1])[0]) if found else True


def test_odd_batches_among_others_make_the_same_row_group(tmp_path: Path) -> None:
    """A store that was written by an earlier version: identities end after `published_at`."""
    expected = fill(tmp_path / "data", quotes(2_000))
    with StoreReader(tmp_path / "data") as log:
        size = len(list(log.packed_beyond(0, 0)))
    assert size > 3
    refused = iter(range(size))

    class Sometimes:
        def __init__(self, *words: Any, **more: Any) -> None:
            self._columns = CompiledColumns(*words, **more)
            self.table = self._columns.table

        def add(self, data: bytes) -> tuple[int, int, int] | None:
            return None if next(refused) % 3 == 1 else self._columns.add(data)

    if _native.engine is not None:
        with patch.object(_gathering, "CompiledColumns", Sometimes):
            files = [roll(tmp_path / "data", tmp_path / "mixed", QUOTED).files]
        assert next(refused, None) is None
    else:
        files = [roll(tmp_path / "data", tmp_path / "mixed", QUOTED).files]
    with patch.object(_gathering._native, "engine", None):
        files.append(roll(tmp_path / "data", tmp_path / "python", QUOTED).files)
    assert files[0][0].read_bytes() == files[1][0].read_bytes()
    assert list(ArchiveReader(tmp_path / "mixed").query()) == expected


# --- limits -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pure", [False, True])
def test_long_lists_with_long_names_close_a_row_group(pure: bool) -> None:
    """Each element has the name of its attribute: 2 KB of body can be a megabyte of columns."""
    wide = publication("b", 1, 1, START, Notification({"€" * 256: [1] * 1_024}))
    data = encode([wide] * 20)

    class Stretch:
        def __init__(self) -> None:
            self.data, self.envelopes = data, [wide] * 20

    gathering, rows = Gathering("b", [], with_body=False), 0
    if pure:
        gathering._compiled = None
    with patch.object(_gathering, "PART_ROWS", 20):
        while not gathering.is_enough:
            rows += gathering.add(Stretch()).rows  # type: ignore[arg-type]
    assert rows <= 200


@_compiled
def test_columns_are_refused_while_another_thread_takes_them() -> None:
    columns = compiled(QUOTED)
    data = encode([publication("b", 1, n, n, one) for n, (_, one) in enumerate(quotes(500), 1)])
    for _ in range(200):
        columns.add(data)
    outcomes: list[object] = []

    def take() -> None:
        try:
            outcomes.append(columns.table()[0].num_rows)
        except RuntimeError as error:
            outcomes.append(str(error))

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    taken = [one for one in outcomes if isinstance(one, int)]
    assert sum(taken) == 100_000
    assert {one for one in outcomes if isinstance(one, str)} <= {"the columns are in use"}


@_compiled
def test_what_was_added_is_given_back() -> None:
    data = encode([publication("b", 1, n, n, one) for n, (_, one) in enumerate(quotes(500), 1)])

    def turn() -> None:
        columns = compiled(QUOTED, with_body=True)
        for _ in range(4):
            columns.add(bytes(bytearray(data)))
            columns.add(ODD["a body that is cut"])
        columns.table()
        columns.add(bytes(bytearray(data)))

    turn()
    gc.collect()
    tracemalloc.start()
    try:
        turn()
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(20):
            turn()
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] - before < len(data)
    finally:
        tracemalloc.stop()


@_compiled
def test_what_is_no_batch_is_refused() -> None:
    assert _native.engine is not None
    columns = _native.engine.Columns("b", (), False)
    with pytest.raises(TypeError, match="a batch is bytes"):
        columns.add(bytearray(b"\x90"))
    for wrong, error in ((((1, 2),), TypeError), ((("a", 7),), ValueError), (("a",), TypeError)):
        with pytest.raises(error):
            _native.engine.Columns("b", wrong, False)


def test_quality_is_kept() -> None:
    some = [publication("b", 1, n, n, Notification(a=n)) for n in (1, 2)]
    some[0] = Envelope(some[0].identity, some[0].routes, some[0].body, Quality.FIRE)
    assert in_python(some, [])[0]["quality"].to_pylist() == [0, 2]
    if _native.engine is not None:
        assert_same(some, [])
