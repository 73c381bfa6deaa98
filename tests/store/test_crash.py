"""kill -9 loses nothing that was acknowledged."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
from soaking import SOAK_SECONDS, soak_seeds
from store_world import Loop, numbers

HERE = Path(__file__).parent
KILLS = 10


def run_and_kill(directory: Path, rng: random.Random) -> tuple[int, list[int]]:
    """Let a child append for a while and kill it: its epoch, and the numbers it acknowledged.

    Two in three are killed in the moment in which an acknowledgement is heard: if it came too early, the commit is
    still under way then. The others are killed anywhere.
    """
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE.parent), *sys.path])}
    command = [sys.executable, str(HERE / "crash_child.py"), str(directory)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, bufsize=0) as child:
        assert child.stdout is not None
        epoch = int(child.stdout.readline())
        rest = b""
        if rng.random() < 2 / 3:
            for _ in range(rng.randrange(1, 40)):
                rest += os.read(child.stdout.fileno(), 65_536)
        else:
            time.sleep(rng.uniform(0, 0.25))
        child.kill()
        rest += child.stdout.read()
    whole = rest[: rest.rfind(b"\n") + 1]  # the last line may be cut
    return epoch, [int(line) for line in whole.split()]


def check(directory: Path, runs: list[tuple[int, list[int]]]) -> None:
    with Loop().open(directory) as store:
        window = store.publishers()
        state = store.items("last")
        journal = [(record.what["epoch"], record.what["seq"]) for record in store.journal()]
        for epoch, acknowledged in runs:
            found = numbers(store, epoch)
            assert found == list(range(1, len(found) + 1)), "a prefix, in order, no duplicate"
            assert acknowledged == list(range(1, len(acknowledged) + 1))
            assert len(found) >= len(acknowledged), "nothing that was acknowledged is lost"
            lines = [seq for at, seq in journal if at == epoch]
            assert lines == list(range(1, len(lines) + 1))
            assert int(state.get(str(epoch), b"0")) >= len(lines) >= len(found), "in the order of the calls"
            assert int(state.get(str(epoch), b"0")) <= len(found) + 1
            assert store.ended(epoch) == len(found), "all numbers were given to what was stored"
        assert (window.get("p") or [0])[-1] >= len(runs[-1][1])
        assert store.damage == ()


def crash(directory: Path, kills: int, seed: int) -> None:
    rng = random.Random(seed)
    runs = [run_and_kill(directory, rng) for _ in range(kills)]
    epochs = [epoch for epoch, _ in runs]
    assert epochs == sorted(set(epochs))
    assert sum(len(acknowledged) for _, acknowledged in runs) > 0
    check(directory, runs)


def test_nothing_acknowledged_is_lost_when_the_broker_is_killed(tmp_path: Path) -> None:
    crash(tmp_path, KILLS, seed=1)


def test_a_kill_while_the_store_is_being_made_leaves_a_usable_directory(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE.parent), *sys.path])}
    command = [sys.executable, str(HERE / "crash_child.py"), str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment) as child:
        while not (tmp_path / "store.sqlite").exists():
            time.sleep(0.0005)
        child.kill()
    with Loop().open(tmp_path) as store:
        assert store.items("anything") == {}


@pytest.mark.soak
def test_nothing_acknowledged_is_lost_over_hundreds_of_kills(tmp_path: Path) -> None:
    for seed in soak_seeds(min(300.0, SOAK_SECONDS / 3)):
        crash(tmp_path / str(seed), 20, seed)
