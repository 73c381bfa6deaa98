"""`tidings archive`: an archive is looked after, asked and checked from the command line."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from archive_world import HOUR, START, fill, quotes
from typer.testing import CliRunner, Result

from tidings.cli import app
from tidings.cli._errors import ExitCode
from tidings.store._layout import files_in
from tidings.store.archive import ArchiveReader, Promoted, roll
from tidings.store.archive import _directories as directories


def archive(*words: object, input: str | None = None) -> Result:
    return CliRunner().invoke(app, ["archive", *map(str, words)], input=input)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two hours and a half of quotes in files of 90."""
    monkeypatch.setattr("tidings.store.archive._roller.FILE_ROWS", 90)
    monkeypatch.setattr("tidings.store._packing.BATCH_COUNT", 90)
    monkeypatch.setattr(directories, "LISTING_SECONDS", 0.0)
    fill(tmp_path / "data", quotes(900, step=10_000_000))
    roll(tmp_path / "data", tmp_path / "archive", [Promoted("type")])
    return tmp_path / "archive"


def test_compact_says_what_it_would_do_and_does_it(home: Path) -> None:
    files = len(list(files_in(home)))
    would = json.loads(archive("compact", home, "--dry-run", "--json").stdout)
    assert (would["before"], would["after"], would["rows"], would["dry_run"]) == (files, 3, 900, True)
    assert "would make 3 files" in archive("stats", home).stdout
    done = archive("compact", home)
    assert done.exit_code == 0, done.output
    assert f"{files} files with 900 publications merged into 3" in done.stdout
    assert "Nothing to do" in archive("compact", home).stdout
    assert len(list(ArchiveReader(home).query())) == 900


def test_files_of_the_current_hour_are_merged_once_it_is_over(home: Path, tmp_path: Path) -> None:
    now = time.time_ns() // 1_000
    fill(tmp_path / "data", quotes(300, step=1, start=(now // HOUR + 2) * HOUR))  # so that no hour ends meanwhile
    archive("compact", home)
    roll(tmp_path / "data", home, [Promoted("type")])
    assert "4 files of the current hour can be merged once it is over" in archive("stats", home).stdout
    assert archive("compact", home).stdout == (
        "Nothing to do: 4 files of the current hour can be merged once it is over.\n"
    )
    tomorrow = datetime.fromtimestamp(now / 1e6 + 86_400, UTC).isoformat()
    assert "4 files with 300 publications merged into 1" in archive("compact", home, "--until", tomorrow).stdout


def test_sort_takes_columns_by_name_and_kind(home: Path) -> None:
    done = json.loads(archive("sort", home, "--by", "symbol", "--by", "price:float", "--json").stdout)
    assert done["before"] == done["after"] == len(list(files_in(home)))
    assert archive("verify", home).exit_code == 0
    wrong = archive("sort", home, "--by", "price:money")
    assert wrong.exit_code != 0
    assert "write name or name:kind" in wrong.output


def test_retain_asks_before_it_removes(home: Path) -> None:
    assert archive("retain", home, "--for", "1d", input="n\n").exit_code == 1
    assert len(list(ArchiveReader(home).query())) == 900
    assert json.loads(archive("retain", home, "--for", "1d", "--dry-run", "--json").stdout)["rows"] == 900
    assert "Nothing to do" in archive("retain", home, "--for", "5200w").stdout
    assert archive("retain", home, "--for", "1d", "--yes").exit_code == 0
    assert list(ArchiveReader(home).query()) == []
    wrong = archive("retain", home, "--for", "long")
    assert wrong.exit_code == ExitCode.USAGE
    assert "is not a duration" in wrong.output


def test_verify_tells_the_file_and_what_is_wrong_with_it(home: Path) -> None:
    sound = archive("verify", home)
    assert sound.exit_code == 0
    assert "900 publications" in sound.stdout
    assert "everything is in order" in sound.stdout
    path = min(files_in(home)).path
    path.write_bytes(path.read_bytes()[:500])
    found = archive("verify", home, "--json")
    assert found.exit_code == ExitCode.FAILED
    assert [one["path"] for one in json.loads(found.stdout)["problems"]] == [str(path)]
    assert str(path) in found.stderr


def test_stats_count_by_day_and_origin(home: Path) -> None:
    told = json.loads(archive("stats", home, "--json").stdout)
    (day,) = told["days"]
    assert (day["date"], day["origin"], day["publications"]) == ("2025-11-24", "berlin", 900)
    assert day["files"] == told["mergeable"]
    assert day["bytes"] == sum(path.stat().st_size for path in home.rglob("*.parquet"))


def test_a_query_finds_what_history_finds(home: Path) -> None:
    words = ["type = 'trade' AND n < 500", "--limit", 7, "--json"]
    found = archive("query", home, *words)
    assert found.exit_code == 0, found.output
    assert [json.loads(line)["n"] for line in found.stdout.splitlines()] == list(range(0, 70, 10))
    history = CliRunner().invoke(app, ["history", "query", *map(str, words), "--archive", str(home)])
    assert history.stdout == found.stdout
    late = archive("query", home, "--since", "2025-11-24T18:29:50Z", "--json")
    assert [json.loads(line)["n"] for line in late.stdout.splitlines()] == [899]
    assert ArchiveReader(home).extent().latest == HOUR * 2 + START + 1_790_000_000


@pytest.mark.parametrize("command", [["compact"], ["sort", "--by", "a"], ["verify"], ["stats"], ["query"]])
def test_what_is_no_archive_is_explained(tmp_path: Path, command: list[str]) -> None:
    done = archive(command[0], tmp_path / "nowhere", *command[1:])
    assert done.exit_code == ExitCode.CANNOT_RUN
    assert "there is no archive" in done.output
