"""The pytest plug-in, as somebody uses it who tests an application."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import tidings

EXAMPLE = Path(__file__).parents[2] / "examples" / "order_book"
SOURCE = str(Path(tidings.__file__).parents[1])


def pytest_run(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "pytest_tidings", "-p", "no:cacheprovider", "-q", *arguments],
        cwd=directory,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([SOURCE, str(EXAMPLE)]),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # others take half of the time
        },
        capture_output=True,
        text=True,
        check=False,
    )


def test_with(directory: Path, code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    (directory / "test_it.py").write_text(f"import asyncio, pytest, tidings\n{code}", encoding="utf-8")
    return pytest_run(directory, "test_it.py", *arguments)


test_with.__test__ = False  # type: ignore[attr-defined]


def test_the_example_passes(tmp_path: Path) -> None:
    code = (EXAMPLE / "test_book.py").read_text(encoding="utf-8").replace("seeds=200", "seeds=15")
    (tmp_path / "test_book.py").write_text(code, encoding="utf-8")
    told = pytest_run(tmp_path, "test_book.py")
    assert told.returncode == 0, told.stdout
    assert "1 passed" in told.stdout


def test_its_bug_is_found_and_told_with_the_one_fault_that_matters_and_the_command(tmp_path: Path) -> None:
    code = (EXAMPLE / "test_book.py").read_text(encoding="utf-8").replace("careful_book", "hasty_book")
    (tmp_path / "test_hasty.py").write_text(code, encoding="utf-8")
    told = pytest_run(tmp_path, "test_hasty.py")
    assert told.returncode == 1
    assert re.search(r"seed \d+ fails with 1 of its \d+ faults", told.stdout)
    assert re.search(r"s: crash book$", told.stdout, re.MULTILINE)
    command = re.search(r"repeat with: pytest (.*)$", told.stdout, re.MULTILINE)
    assert command is not None
    again = pytest_run(tmp_path, *shlex.split(command[1]))
    assert again.returncode == 1
    assert "AssertionError" in again.stdout
    without_faults = pytest_run(tmp_path, *shlex.split(command[1])[:-1], "")
    assert without_faults.returncode == 0, without_faults.stdout


def test_every_seed_is_another_world(tmp_path: Path) -> None:
    told = test_with(
        tmp_path,
        """
seeds = []
@pytest.mark.tidings_world(seeds=3)
async def test_one(world):
    seeds.append((world.seed, world.now))
@pytest.mark.tidings_world(seeds=[7, 9], brokers=["a", "b"])
async def test_two(world, tmp_path):
    assert tmp_path.is_dir()
    assert world.network.names == ["a", "b"]
    seeds.append((world.seed, world.now))
def test_three():
    assert seeds == [(0, 0), (1, 0), (2, 0), (7, 0), (9, 0)]
""",
    )
    assert told.returncode == 0, told.stdout


def test_a_broken_promise_fails_the_test(tmp_path: Path) -> None:
    told = test_with(
        tmp_path,
        """
@pytest.mark.tidings_world(seeds=1, faults=0)
async def test_one(world):
    async with tidings.connect(world.url("berlin"), name="a") as client:
        subscription = await client.subscribe("n = 1")
        await client.publish(n=1)
        await anext(subscription)
        world.trace.records.append(next(r for r in world.trace.records if r.op.value == "notify"))
        await world.check()
""",
    )
    assert told.returncode == 1
    assert "at-most-once: this was delivered before" in told.stdout


def test_a_test_may_skip_itself(tmp_path: Path) -> None:
    told = test_with(
        tmp_path,
        """
@pytest.mark.tidings_world(seeds=5)
async def test_one(world):
    if world.seed == 3:
        pytest.skip("not today")
""",
    )
    assert told.returncode == 0
    assert "1 skipped" in told.stdout


WRONG_MARKS = [
    ("async def test_it(world): pass", "needs the mark"),
    ("@pytest.mark.tidings_world(seeds=1)\ndef test_it(world): pass", "async def"),
    ("@pytest.mark.tidings_world(seeds=1)\nasync def test_it(): pass", "takes `world`"),
    ("@pytest.mark.tidings_world(200)\nasync def test_it(world): pass", "seeds=200"),
    *(
        (f"@pytest.mark.tidings_world({given})\nasync def test_it(world): pass", reason)
        for given, reason in (
            ("seeds=0", "seeds=0 in @pytest.mark.tidings_world would run nothing"),
            ("seeds=-3", "seeds=-3 in"),
            ("seeds='x'", "seeds='x' in"),
            ("seeds=[]", "seeds=[] in"),
            ("seeds=[1.5]", "seed=1.5; give a whole number"),
            ("kinds=['crsh']", "kinds=['crsh']; give one or more of Trouble.CUT"),
            ("kinds='crash'", "kinds='crash'; give one or more of Trouble.CUT"),
            ("kinds=[]", "kinds=[]; give one or more of Trouble.CUT"),
            ("faults=-5", "faults=-5; give seconds from 0"),
        )
    ),
]


def test_a_mark_in_the_wrong_place_says_what_would_be_right(tmp_path: Path) -> None:
    """All in one run, because a run takes two seconds."""
    code = "\n".join(one.replace("test_it", f"test_it_{n}_") for n, (one, _) in enumerate(WRONG_MARKS))
    told = test_with(tmp_path, code)
    reports = re.split(r"^_+ (?:ERROR at setup of )?test_it_(\d+)_ _+$", told.stdout, flags=re.MULTILINE)
    found = dict(zip(map(int, reports[1::2]), reports[2::2], strict=True))
    assert [n for n, (_, reason) in enumerate(WRONG_MARKS) if reason not in found.get(n, "")] == [], told.stdout


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--tidings-seed", "1", "--tidings-faults", "99"], "--tidings-faults has 99, but the plan of seed 1 has "),
        (["--tidings-faults", "2"], "give --tidings-seed, too"),
        (["--tidings-seed", "1", "--tidings-faults", "a"], "'a' names no faults"),
        (["--tidings-seed", "1", "--tidings-faults=-1"], "'-1' names no faults"),
    ],
)
def test_an_option_that_would_choose_nothing_is_refused(tmp_path: Path, arguments: list[str], reason: str) -> None:
    told = test_with(tmp_path, "@pytest.mark.tidings_world\nasync def test_it(world): pass", *arguments)
    assert told.returncode != 0
    assert reason in told.stdout + told.stderr


@pytest.mark.parametrize("faults", [0, 30])
def test_the_command_stands_once_in_a_report_and_repeats_it(tmp_path: Path, faults: int) -> None:
    told = test_with(
        tmp_path,
        f"""
@pytest.mark.parametrize("what", ["it's so"])
@pytest.mark.tidings_world(seeds=1, faults={faults}, limit=100)
async def test_one(world, what):
    await asyncio.Event().wait()
""",
    )
    assert told.returncode == 1
    commands = set(re.findall(r"repeat with: pytest (.*)$", told.stdout, re.MULTILINE))
    assert len(re.findall("repeat with: ", told.stdout.partition("short test summary")[0])) == 1, told.stdout
    again = pytest_run(tmp_path, *shlex.split(commands.pop()))
    assert again.returncode == 1
    assert "NeverEnds" in again.stdout
    assert "1 failed" in again.stdout
