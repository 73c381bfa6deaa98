"""Random runs of whole networks, each from one number. `make replay SEED=...` shows one of them."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from soaking import spread_seeds

from tidings.sim import Promises, Scenario, describe

PROMISES = Promises.load()
CHUNK = 10
"""Seeds per test: small enough to be shared among processes, large enough to cost little."""


def run(seed: int) -> None:
    result = Scenario.random(seed).run(PROMISES)
    assert not result.violations, result.report()


@pytest.mark.req("VIS-124", "VIS-125", "VIS-127", "VIS-129", "VIS-204", "VIS-205", "VIS-206", "VIS-207", "VIS-208")
@pytest.mark.req("VIS-209", "VIS-210", "ARC-005", "ARC-006", "ARC-008", "ARC-009", "ARC-010", "ARC-011", "ARC-012")
@pytest.mark.req("ARC-013", "ARC-014", "ARC-015", "ARC-016", "AGG-003", "AGG-024", "VIS-122")
@pytest.mark.parametrize("first", range(0, 2 * 2 * CHUNK, 2 * CHUNK))
def test_random_runs_keep_every_promise(first: int) -> None:
    for seed in range(first, first + 2 * CHUNK, 2):
        run(seed)


@pytest.mark.req("ARC-020", "VIS-214", "VIS-124", "VIS-125", "VIS-210")
@pytest.mark.parametrize("first", range(1, 2 * 2 * CHUNK, 2 * CHUNK))
def test_random_runs_with_faults_keep_every_promise(first: int) -> None:
    for seed in range(first, first + 2 * CHUNK, 2):
        run(seed)


ONCE_BROKEN = (
    *(3, 6, 8, 9, 10, 18, 45, 95, 112, 197, 859, 1025, 1735, 3_000_073),
    *(2177, 2429, 3023, 3329, 3469, 3491, 4081, 4221, 10_507, 10_733, 31_109, 60_079, 61, 157, 209),
)
"""Seeds that have found something: filters changed under one id, answers of before, refusals forgotten, advertisements
that overtook a wave, waiting without end, and mistakes of the checker itself."""


@pytest.mark.parametrize("seed", ONCE_BROKEN)
def test_what_was_broken_once_stays_mended(seed: int) -> None:
    run(seed)


def _fingerprint(seed: int) -> str:
    network = Scenario.random(seed).build()
    network.run()
    text = "\n".join(map(describe, network.trace.records))
    return f"{seed} {network.frames} {hashlib.sha256(text.encode()).hexdigest()}"


SEEDS = range(500, 512)


def test_a_seed_gives_the_same_run_twice() -> None:
    for seed in SEEDS:
        assert _fingerprint(seed) == _fingerprint(seed)


def test_a_seed_gives_the_same_run_in_another_process() -> None:
    here = [_fingerprint(seed) for seed in SEEDS]
    for hash_seed in ("0", "4711"):
        done = subprocess.run(
            [sys.executable, __file__, *map(str, SEEDS)],
            env={
                **os.environ,
                "PYTHONHASHSEED": hash_seed,
                "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1]), *sys.path]),
            },
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.split("\n")[:-1] == here


def test_a_failure_prints_the_command_that_reproduces_it() -> None:
    result = Scenario.random(4).run()
    result.violations.append("planted")
    assert "planted\nreproduce with: make replay SEED=4" in result.report()
    replay = [sys.executable, "-m", "tidings.sim", "replay", "4"]
    done = subprocess.run(replay, capture_output=True, text=True, check=True)
    assert "seed 4: 0 violations" in done.stdout
    assert "attach  c1" in done.stdout


@pytest.mark.soak
@pytest.mark.parametrize("part", range(8))
def test_thousands_of_seeds(part: int) -> None:
    """Fresh seeds until the time is used up; the parts are spread over the processes."""
    for seed in spread_seeds(part):
        run(seed)


if __name__ == "__main__":
    print("\n".join(_fingerprint(int(argument)) for argument in sys.argv[1:]))
