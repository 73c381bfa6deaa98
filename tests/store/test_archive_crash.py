"""kill -9 of broker and roll, at any point, costs the archive nothing and leaves nothing there twice."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path

import pytest
from archive_world import child, kill_at_some_point
from soaking import SOAK_SECONDS, soak_seeds

from tidings.store import StoreReader
from tidings.store._layout import files_in
from tidings.store.archive import ArchiveReader, roll
from tidings.store.archive._manifest import listed
from tidings.store.archive._verification import missing_in

KILLS = 4


def crash(home: Path, kills: int, seed: int) -> None:
    rng = random.Random(seed)
    data, archive = home / "data", home / "archive"
    acknowledged = 0
    for _ in range(kills):
        with child("roll", "append", str(data)) as broker:
            assert broker.stdout is not None
            broker.stdout.readline()
            with child("roll", "roll", str(data), str(archive)) as roller:
                kill_at_some_point(roller, rng)
            said = kill_at_some_point(broker, rng)
        acknowledged += int(said[: said.rfind(b"\n")].rpartition(b"\n")[2])
        check(data, archive, complete=False)
    roll(data, archive)
    check(data, archive, complete=True)
    with StoreReader(data) as log:
        assert sum(1 for _ in log.query()) >= acknowledged > 0


def check(data: Path, archive: Path, *, complete: bool) -> None:
    """The archive is a prefix of the log; its files do not overlap."""
    reader = ArchiveReader(archive)
    archived = list(reader.query())
    assert reader.damage == ()
    with StoreReader(data) as log:
        stored = list(log.query())
    assert archived == stored[: len(archived)]
    assert not complete or len(archived) == len(stored)
    ranges = sorted((file.epoch, file.first, file.last) for file in files_in(archive))
    assert all(one[0] < two[0] or one[2] < two[1] for one, two in pairwise(ranges))
    assert missing_in(archive) == [], "the manifest lists nothing that is not there"
    assert not complete or set(listed(archive) or {}) == {file.path for file in files_in(archive)}


@pytest.mark.soak
def test_nothing_is_lost_and_nothing_is_twice_when_broker_and_roll_are_killed(tmp_path: Path) -> None:
    crash(tmp_path, KILLS, seed=1)


@pytest.mark.soak
def test_nothing_is_lost_and_nothing_is_twice_over_hundreds_of_kills(tmp_path: Path) -> None:
    for seed in soak_seeds(min(300.0, SOAK_SECONDS / 3)):
        crash(tmp_path / str(seed), 20, seed)
