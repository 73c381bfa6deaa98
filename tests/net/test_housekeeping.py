"""A broker looks after its disk: it archives what is new and forgets what is old, and delivery does not wait for it."""

from __future__ import annotations

import asyncio
import logging
import re
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

import tidings
from tidings.net import ArchiveOptions, Options, Server, StartError, StoreOptions, serve
from tidings.net import _housekeeping as keeper_module
from tidings.store import ARCHIVED, StoreReader
from tidings.store.archive import ArchiveReader
from tidings.wire import Quality


def options(home: Path, **store: object) -> Options:
    archive = ArchiveOptions(home / "archive", roll_after=0.3, promote=("type", "n:integer"))
    return Options("berlin", port=0, data=home / "data", archive=archive, store=StoreOptions(**store))  # type: ignore[arg-type]


async def publish(server: Server, *numbers: int) -> None:
    async with tidings.connect(f"tidings://127.0.0.1:{server.port}") as client:
        for n in numbers:
            await client.publish({"type": "quote", "n": n}, quality=Quality.STORED)


async def until(condition) -> None:  # type: ignore[no-untyped-def]
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.02)


def archived(home: Path) -> list[object]:
    if not (home / "archive").exists():
        return []
    return [found.notification["n"] for found in ArchiveReader(home / "archive").query()]


def test_a_broker_archives_what_is_stored_and_goes_on_after_a_restart(tmp_path: Path) -> None:
    async def run(*numbers: int) -> None:
        async with serve(options(tmp_path)) as server:
            await publish(server, *numbers)
            assert server.keeper is not None
            await until(lambda: server.keeper.rows == len(numbers))

    asyncio.run(run(1, 2, 3))
    asyncio.run(run(4, 5))
    assert archived(tmp_path) == [1, 2, 3, 4, 5]
    with StoreReader(tmp_path / "data") as log:
        assert ARCHIVED.read(log.items(ARCHIVED.table)).epoch == log.epochs()[-1]


def test_only_what_is_archived_is_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeper_module, "RETAIN_SECONDS", 0.05)

    async def run() -> None:
        wanted = options(tmp_path, retain_for=0.0)
        (tmp_path / "archive").write_text("in the way")
        async with serve(wanted) as server:
            await publish(server, 1, 2, 3)
            keeper, store = server.keeper, server.store
            assert keeper is not None
            assert store is not None
            await until(lambda: keeper.failures > 0)
            assert len(list(store.query())) == 3
            (tmp_path / "archive").unlink()
            await until(lambda: not list(store.query()))

    asyncio.run(run())
    assert archived(tmp_path) == [1, 2, 3]


def test_without_an_archive_the_limits_hold_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeper_module, "RETAIN_SECONDS", 0.05)

    async def run() -> None:
        async with serve(replace(options(tmp_path, retain_for=0.0), archive=None)) as server:
            await publish(server, 1, 2, 3)
            assert server.store is not None
            await until(lambda: not list(server.store.query()))

    asyncio.run(run())


def test_a_journal_that_cannot_forget_is_told_once_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(keeper_module, "RETAIN_SECONDS", 0.02)

    async def run() -> None:
        async with serve(replace(options(tmp_path, journal_for=0.0), archive=None)) as server:
            store = server.store
            assert store is not None
            await until(lambda: "horizon" in store.items("journal"))  # that it has started is forgotten
            store.put("lives", "bob", b"nonsense")
            async with tidings.connect(f"tidings://127.0.0.1:{server.port}", name="bob") as client:
                await until(lambda: store.statistics().forget_failures >= 3)
                assert (await client.status()).store["forget_failures"] >= 3  # type: ignore[index]
            assert list(store.journal())
            store.delete("lives", "bob")
            await until(lambda: not list(store.journal()))

    with caplog.at_level(logging.INFO, "tidings.net"):
        asyncio.run(run())
    told = [record.message for record in caplog.records if re.search("old data stays|old publications", record.message)]
    assert [message.partition(" in ")[0] for message in told] == [
        "old data stays",
        "the store forgets old publications again",
    ]
    assert "restore the store from a backup" in told[0]


def test_what_reads_archives_is_loaded_before_anybody_can_ask(tmp_path: Path) -> None:
    script = (
        "import asyncio, sys, pathlib\n"
        "from tidings.net import ArchiveOptions, Options, serve\n"
        "home = pathlib.Path(sys.argv[1])\n"
        "async def run(archive):\n"
        "    async with serve(Options('b', port=0, data=home / 'data', archive=archive)):\n"
        "        return 'tidings.store.archive._reader' in sys.modules\n"
        "print(asyncio.run(run(None)), asyncio.run(run(ArchiveOptions(home / 'archive'))))\n"
    )
    told = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=True)
    assert told.stdout.split() == ["False", "True"]


def test_a_failed_roll_is_told_and_tried_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        (tmp_path / "archive").write_text("in the way")
        async with serve(options(tmp_path)) as server:
            await publish(server, 1)
            await until(lambda: server.keeper.failures > 0)
            (tmp_path / "archive").unlink()
            await until(lambda: server.keeper.rows == 1)
            async with tidings.connect(f"tidings://127.0.0.1:{server.port}") as client:
                store = (await client.status()).store
            assert store is not None
            assert store["archived"] == 1
            assert store["archive_failures"] > 0

    with caplog.at_level(logging.ERROR, "tidings.net"):
        asyncio.run(run())
    assert "cannot archive the log" in caplog.text
    assert "tried again" in caplog.text
    assert archived(tmp_path) == [1]


def test_a_broker_stops_at_once_while_a_roll_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = tmp_path / "slow"
    slow.write_text("#!/bin/sh\nexec sleep 60\n")
    slow.chmod(0o755)
    monkeypatch.setattr(keeper_module.sys, "executable", str(slow))

    async def run() -> float:
        async with serve(options(tmp_path)) as server:
            await publish(server, 1)
            await asyncio.sleep(0.6)
            start = time.monotonic()
        return time.monotonic() - start

    assert asyncio.run(run()) < 5


@pytest.mark.parametrize("script", ["exit 3", "echo nonsense", "kill -9 $$"])
def test_a_roll_that_says_nothing_sensible_does_not_end_the_keeper(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str
) -> None:
    odd = tmp_path / "odd"
    odd.write_text(f"#!/bin/sh\n{script}\n")
    odd.chmod(0o755)
    monkeypatch.setattr(keeper_module.sys, "executable", str(odd))

    async def run() -> None:
        async with serve(options(tmp_path)) as server:
            await until(lambda: server.keeper.failures > 1)

    asyncio.run(run())


def test_an_archive_that_could_never_be_written_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StartError, match="written from the store"):
        Server(replace(options(tmp_path), data=None))
    monkeypatch.setattr("tidings.net._server.can_archive", lambda: False)
    with pytest.raises(StartError, match=r"pip install '\.\[archive\]'"):
        Server(options(tmp_path))


def test_what_was_wrong_with_the_store_and_the_archive_is_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        async with serve(options(tmp_path)) as server:
            await publish(server, 1)

    asyncio.run(run())
    (tmp_path / "archive").mkdir(exist_ok=True)
    for path, mode in (("archive", 0o755), ("data", 0o755), ("data/store.sqlite", 0o644)):
        (tmp_path / path).chmod(mode)
    with caplog.at_level(logging.WARNING, "tidings.net"):
        asyncio.run(run())
    for directory in ("data", "archive"):
        assert f"every user of this machine can look into '{tmp_path / directory}'" in caplog.text
