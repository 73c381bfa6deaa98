"""A store has a bound, also if nobody gives it one; so has its archive."""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from pathlib import Path

import pytest

import tidings
from tidings.net import ArchiveOptions, Bound, Options, Server, StoreOptions, bounds_of, serve
from tidings.net import _bounds as bounds_module
from tidings.net import _housekeeping as keeper_module
from tidings.store import Store, archive_bytes, store_bytes
from tidings.store.archive import ArchiveReader, verify
from tidings.wire import Quality

MB, GB = 1_000_000, 1_000_000_000


def options(home: Path, archive: ArchiveOptions | None = None, **store: object) -> Options:
    return Options("berlin", port=0, data=home / "data", archive=archive, store=StoreOptions(**store))  # type: ignore[arg-type]


async def publish(server: Server, size: int) -> None:
    """Store so many bytes that nothing can compress."""
    async with tidings.connect(f"tidings://127.0.0.1:{server.port}") as client:
        for n in range(size // 10_000):
            await client.publish({"type": "quote", "n": n, "blob": os.urandom(10_000)}, quality=Quality.STORED)
        await (await client.publish({"type": "last"}, quality=Quality.STORED))


async def until(condition) -> None:  # type: ignore[no-untyped-def]
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.05)


# What the bound is.


def test_the_default_is_a_gigabyte_and_at_most_a_tenth_of_what_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    really = shutil.disk_usage(tmp_path).free
    store, _, by_default = bounds_of(options(tmp_path))
    assert by_default
    assert store == pytest.approx(min(GB, really // 10), rel=0.5)  # others use the disk, too
    for free, expected in ((50 * GB, GB), (10 * GB, GB), (2 * GB, GB // 5), (0, MB)):
        monkeypatch.setattr(bounds_module, "_free", lambda directory, free=free: free)
        assert bounds_of(options(tmp_path)) == (expected, None, True)


def test_store_and_archive_share_the_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds_module, "_free", lambda directory: 100 * GB)
    here = tmp_path / "archive"
    unlimited = Bound.UNLIMITED
    for store, archive, expected in (
        (Bound.DEFAULT, Bound.DEFAULT, (GB // 4, GB - GB // 4, True)),
        (Bound.DEFAULT, unlimited, (GB, None, True)),
        (Bound.DEFAULT, 5 * GB, (GB, 5 * GB, True)),
        (2 * GB, Bound.DEFAULT, (2 * GB, None, False)),  # the archive is for what does not fit
        (2 * GB, 5 * GB, (2 * GB, 5 * GB, False)),
        (unlimited, Bound.DEFAULT, (None, None, False)),
        (unlimited, 5 * GB, (None, 5 * GB, False)),
    ):
        kept = ArchiveOptions(here, retain_bytes=archive)
        assert bounds_of(options(tmp_path, kept, retain_bytes=store)) == expected


def test_what_the_broker_has_itself_counts_as_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds_module, "_free", lambda directory: 50 * MB)
    data = tmp_path / "data"
    data.mkdir()
    (data / "store.sqlite").write_bytes(bytes(3 * MB))
    (data / "store.sqlite-wal").write_bytes(bytes(2 * MB))
    assert bounds_of(options(tmp_path)).store == 5_500_000


# What it does.


def test_a_store_without_a_word_about_its_size_stays_within_the_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds_module, "DEFAULT_BYTES", 2 * MB)
    monkeypatch.setattr(keeper_module, "RETAIN_SECONDS", 0.2)

    async def run() -> None:
        async with serve(options(tmp_path)) as server:
            await publish(server, 8 * MB)
            store = server.store
            assert store is not None
            await until(lambda: store_bytes(store.path) <= 2 * MB)
            kept = list(store.query())
            assert kept[-1].notification["type"] == "last"
            assert len(kept) > 30, "no more is forgotten than has to be"

    asyncio.run(run())


def test_unlimited_is_unlimited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds_module, "DEFAULT_BYTES", MB)
    monkeypatch.setattr(keeper_module, "RETAIN_SECONDS", 0.05)

    async def run() -> None:
        async with serve(options(tmp_path, retain_bytes=Bound.UNLIMITED)) as server:
            await publish(server, 4 * MB)
            await asyncio.sleep(0.3)
            assert server.store is not None
            assert len(list(server.store.query())) == 401

    asyncio.run(run())


def test_what_was_kept_before_there_was_a_bound_is_not_forgotten_because_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper_module, "RETAIN_SECONDS", 0.05)

    async def run(size: int, **store: object) -> tuple[int | None, int]:
        async with serve(options(tmp_path, **store)) as server:
            await publish(server, size)
            await asyncio.sleep(0.5)
            assert server.store is not None
            assert server.keeper is not None
            return server.keeper.bounds.store, len(list(server.store.query()))

    _, before = asyncio.run(run(4 * MB, retain_bytes=Bound.UNLIMITED))
    monkeypatch.setattr(bounds_module, "DEFAULT_BYTES", MB)
    bound, after = asyncio.run(run(0))
    assert after == before + 1
    assert bound is not None
    assert 4 * MB < bound < 12 * MB
    again, still = asyncio.run(run(0))
    assert (again, still) == (bound, after + 1), "it does not grow with each start"
    assert asyncio.run(run(0, retain_bytes=3 * MB))[0] == 3 * MB


def test_a_store_that_had_the_default_from_the_start_gets_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds_module, "DEFAULT_BYTES", MB)

    async def run() -> int | None:
        async with serve(options(tmp_path)) as server:
            await publish(server, 3 * MB)
            assert server.keeper is not None
            return server.keeper.bounds.store

    assert [asyncio.run(run()) for _ in range(3)] == [MB, MB, MB]


def test_the_oldest_files_of_the_archive_go_and_those_of_others_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds_module, "DEFAULT_BYTES", 4 * MB)
    monkeypatch.setattr(keeper_module, "RETAIN_SECONDS", 0.1)
    root = tmp_path / "archive"

    async def other() -> None:
        paris = Options("paris", port=0, data=tmp_path / "paris", archive=ArchiveOptions(root, roll_after=0.2))
        async with serve(paris) as server:
            await publish(server, MB // 10)
            await until(lambda: server.keeper is not None and server.keeper.rows == 11)

    async def run() -> None:
        async with serve(options(tmp_path, ArchiveOptions(root, roll_after=0.3))) as server:
            keeper = server.keeper
            assert keeper is not None
            assert keeper.bounds == (MB, 3 * MB, True)
            for _ in range(12):
                await publish(server, MB // 2)
                await asyncio.sleep(0.4)
            await until(lambda: keeper.removed > 0 and archive_bytes(root, "berlin") <= 3 * MB)
            async with tidings.connect(f"tidings://127.0.0.1:{server.port}") as client:
                store = (await client.status()).store
                assert store is not None
                assert store["archive_removed"] == keeper.removed
            assert server.store is not None
            await until(lambda: store_bytes(server.store.path) <= MB)

    asyncio.run(other())
    theirs = archive_bytes(root, "paris")
    asyncio.run(run())
    assert archive_bytes(root, "paris") == theirs > 0
    found = [one.identity for one in ArchiveReader(root, origin="berlin").query()]
    assert 100 < len(found) < 600
    assert [one.seq for one in found] == list(range(found[0].seq, found[-1].seq + 1)), "the newest, without a hole"
    assert not verify(root).problems


def test_a_store_that_grows_fast_is_archived_before_its_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeper_module, "RETAIN_SECONDS", 0.1)
    archive = ArchiveOptions(tmp_path / "archive", roll_after=3_600)

    async def run() -> None:
        async with serve(options(tmp_path, archive, retain_bytes=4 * MB)) as server:
            started = time.monotonic()
            await publish(server, 3 * MB)
            assert server.keeper is not None
            await until(lambda: server.keeper.rows > 0)  # type: ignore[union-attr]
            assert time.monotonic() - started < 60

    asyncio.run(run())


def test_the_size_of_a_store_is_its_file_and_its_log(tmp_path: Path) -> None:
    with Store.open(tmp_path, post=lambda call: call()) as store:
        store.put("t", "k", bytes(MB))
        while store.statistics().synced < 1:
            time.sleep(0.01)
        sizes = [path.stat().st_size for path in tmp_path.glob("store.sqlite*") if not path.name.endswith("-shm")]
        assert len(sizes) == 2
        assert store_bytes(store.path) == sum(sizes) > MB
