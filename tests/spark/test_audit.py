"""The audit finds what was planted, each kind for itself, and nothing where nothing is wrong."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest
from spark.audit_world import Planted, World, damage_journal, found, publish, rows_of_journal
from typer.testing import CliRunner

from tidings.cli import app
from tidings.spark import AuditError, audit


async def two_readers(world: World, count: int = 20) -> None:
    """Alice publishes at a; bob reads all of it at b, carol half of it."""
    async with (
        world.client("alice", "a") as alice,
        world.client("bob", "b") as bob,
        world.client("carol", "b") as carol,
    ):
        await bob.subscribe("type = 'quote'", callback=lambda n: None)
        await carol.subscribe("n >= 11", callback=lambda n: None)
        await publish(alice, *range(1, count + 1))
        await world.acknowledged()


def run(world: World, fault: Planted | None = None) -> None:
    async def main() -> None:
        async with world.running("ab", {"b": fault} if fault is not None else {}):
            await two_readers(world)

    asyncio.run(main())


def test_a_run_without_faults_is_clean_and_counted(tmp_path: Path) -> None:
    world = World(tmp_path)
    run(world)
    report = world.audit()
    assert report.clean, report.findings
    assert report.silent == ()
    verdict = report.verdict
    assert (verdict.publications, verdict.owed, verdict.sent, verdict.told) == (20, 30, 30, 0)
    assert report.subscriptions == 2
    assert sum(verdict.latencies.values()) == 30
    median = verdict.percentile(0.5)
    assert median is not None
    assert 0 < median < 5


@pytest.mark.parametrize(
    ("fault", "numbers", "expected"),
    [
        ("loss", (7, 15), [("loss", "bob", 7), ("loss", "bob", 15), ("loss", "carol", 15)]),
        ("duplicate", (7,), [("duplicate", "bob", 7)]),
        ("order", (7,), [("order", "bob", 7)]),
        ("leak", (7,), [("mismatch", "carol", 7)]),
        ("stray", (7,), [("stray", "bob", 7)]),
    ],
)
def test_what_was_planted_is_found_and_nothing_else(
    tmp_path: Path, fault: str, numbers: tuple[int, ...], expected: list[tuple[str, str, int]]
) -> None:
    world = World(tmp_path)
    run(world, Planted(fault, *numbers))
    report = world.audit()
    assert sorted(found(report)) == expected
    for one in report.findings:
        assert one.origin == "a"
        assert one.broker == "b"
        assert one.at > 1_700_000_000_000_000
        assert one.why


def test_an_audit_needs_journals_and_each_once(tmp_path: Path) -> None:
    with pytest.raises(AuditError, match="name their data directories"):
        audit([], since=0, until=1)
    world = World(tmp_path)
    run(world)
    with pytest.raises(AuditError, match="belong to broker 'a'"):
        audit([tmp_path / "a", tmp_path / "a"], since=0, until=1)


def test_a_damaged_row_of_a_journal_is_told_and_nobody_is_accused(tmp_path: Path) -> None:
    world = World(tmp_path / "whole")
    run(world)
    rows = rows_of_journal(tmp_path / "whole" / "b")
    assert len(rows) > 3
    judged = []
    for row in rows:
        shutil.copytree(tmp_path / "whole", tmp_path / str(row))
        damage_journal(tmp_path / str(row) / "b", row)
        report = World(tmp_path / str(row)).audit()
        assert report.clean, (row, report.findings)
        assert report.damaged == {"b": 1}
        judged.append(report.verdict.owed)
    assert max(judged) > 0, "what has nothing to do with it is judged"
    said = CliRunner().invoke(app, ["audit", "--from", "1h", *_data(tmp_path / str(rows[0]))])
    assert said.exit_code == 0, said.output
    assert "1 rows of the journal of broker 'b' are damaged; what they describe is not judged" in said.stderr


def _data(home: Path) -> list[str]:
    return [word for name in "ab" for word in ("--data", str(home / name))]
