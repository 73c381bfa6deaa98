"""Spark finds what a single process finds; on the command line, too."""

from __future__ import annotations

import json
from pathlib import Path
from unittest.mock import patch

import pytest
from spark.audit_world import World
from typer.testing import CliRunner, Result

from tidings.cli import app
from tidings.cli._errors import ExitCode


@pytest.fixture
def world(audited: World) -> World:
    """Two brokers, one of which loses numbers 7 and 33; half of it archived."""
    return audited


def command(world: World, *words: object) -> Result:
    where = [word for name in "ab" for word in ("--data", str(world.home / name))]
    return CliRunner().invoke(app, ["audit", "--from", "1h", "--clock-skew", "0s", *where, *map(str, words)])


def test_spark_and_one_process_find_the_same(world: World, spark: object) -> None:
    alone = world.audit(archive=world.home / "archive")
    assert alone.counts["loss"] == 3
    with patch("tidings.spark._audit.PIECE_NUMBERS", 7):
        shared = world.audit(archive=world.home / "archive", master="local[2]", work=world.home / "work")
        cut = world.audit(archive=world.home / "archive")
    for other in (shared, cut):
        assert other.findings == alone.findings
        assert other.counts == alone.counts
        assert (other.verdict.owed, other.verdict.sent) == (alone.verdict.owed, alone.verdict.sent)
        assert other.verdict.latencies == alone.verdict.latencies
    assert list((world.home / "work").iterdir()) == []


def test_the_command_tells_what_is_wrong_and_says_so_to_scripts(world: World) -> None:
    done = command(world, "--json")
    assert done.exit_code == ExitCode.FAILED
    told = json.loads(done.stdout)
    assert told["counts"]["loss"] == 3
    assert {(one["client"], one["seq"]) for one in told["findings"]} == {("bob", 7), ("bob", 33), ("carol", 33)}
    assert told["publications"] == 50
    assert 0 < told["latency"]["p50"] < 5
    shown = command(world, "--limit", 2).stdout
    assert "loss: a/" in shown
    assert "bob/s1 at b: it passes type = 'quote'" in shown
    assert "... and 1 more" in shown


def test_the_command_explains_what_it_cannot_do(world: World, tmp_path: Path) -> None:
    for words, code, told in (
        (["--to", "2h"], ExitCode.USAGE, "--from is not before --to"),
        (["--clock-skew", "much"], ExitCode.USAGE, "is not a duration"),
        (["--data", tmp_path / "nowhere"], ExitCode.CANNOT_RUN, "there is no store"),
        (["--archive", tmp_path / "nowhere"], ExitCode.CANNOT_RUN, "there is no archive"),
    ):
        done = command(world, *words)
        assert done.exit_code == code
        assert told in done.output
