"""Nothing is let pass without a reason that is written down, and a run says what was."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tidings.sim import Excuse, Promises, Result, Scenario

ROOT = Path(__file__).parents[2]
PROMISES = Promises.load()
SAMPLE = ("r80001", "s80093", "p80026", "h80011", "h80035", "h80048", "hs80002")


def words(page: str) -> str:
    return " ".join((ROOT / page).read_text(encoding="utf-8").split())


@pytest.mark.parametrize("excuse", Excuse)
def test_every_excuse_quotes_what_it_rests_on(excuse: Excuse) -> None:
    assert len(excuse.value.words) > 30
    assert excuse.value.words in words(excuse.value.page)


def test_the_table_of_the_documentation_is_the_list() -> None:
    page = (ROOT / "docs" / "simulator.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| `") and line.count("|") == 4]
    assert rows == [f"| `{one.name.lower()}` | {one.value.what} | {one.value.why} |" for one in Excuse]


@pytest.fixture(scope="module")
def results() -> list[Result]:
    return [Scenario.named(name).run(PROMISES) for name in SAMPLE]


def test_random_runs_count_what_they_let_pass(results: list[Result]) -> None:
    assert not [result.report() for result in results if result.violations]
    used = {excuse for result in results for excuse in result.excuses}
    assert Excuse.NOT_TAKEN in used
    assert len(used) > 6
    assert all(count > 0 for result in results for count in result.excuses.values())


def test_a_report_says_what_was_let_pass(results: list[Result]) -> None:
    for result in results:
        assert f"excused: {result.excuses or 'nothing'}" in result.report()


def test_a_replay_prints_it_too(results: list[Result]) -> None:
    result = next(one for one in results if one.excuses)
    replay = [sys.executable, "-m", "tidings.sim", "replay", result.scenario.name, "--quiet"]
    done = subprocess.run(replay, capture_output=True, text=True, check=True)
    assert f"excused: {result.excuses}" in done.stdout
