"""`tidings history`: what is stored and archived here, found and counted."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from archive_world import HOUR, START, fill, quotes
from typer.testing import CliRunner, Result

from tidings.cli import app
from tidings.cli._config import ConfigurationError, load
from tidings.cli._errors import ExitCode
from tidings.cli._times import duration, instant, size
from tidings.store.archive import Promoted, roll

NOW = datetime(2026, 11, 16, 3, tzinfo=UTC)


def history(*words: object) -> Result:
    return CliRunner().invoke(app, ["history", *map(str, words)])


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two hours and a half of quotes, stored and archived."""
    home = tmp_path_factory.mktemp("history")
    fill(home / "data", quotes(900, step=10_000_000))
    roll(home / "data", home / "archive", [Promoted("type")])
    return home


@pytest.mark.parametrize("tier", ["data", "archive"])
def test_a_query_finds_by_content_time_and_count(home: Path, tier: str) -> None:
    where = (f"--{tier}", home / tier)
    since = datetime.fromtimestamp((START + HOUR) / 1e6, UTC).isoformat()
    done = history("query", "type = 'trade' AND n < 500", "--since", since, "--json", *where)
    assert done.exit_code == 0, done.output
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["n"] for line in lines] == list(range(360, 500, 10))
    assert lines[0]["$event"]["published_at"] == since.replace("+00:00", "Z")
    assert lines[0]["$event"]["origin"] == "berlin"
    assert lines[0]["$event"]["seq"] == 2 * 361
    last = history("query", "--limit", 3, "--newest-first", "--json", *where)
    assert [json.loads(line)["n"] for line in last.stdout.splitlines()] == [899, 898, 897]


def test_a_query_is_readable(home: Path) -> None:
    done = history("query", "n = 7", "--data", home / "data")
    assert "type=quote" in done.stdout
    assert "2025-11-24" in done.stdout


def test_stats_tell_what_is_where(home: Path) -> None:
    done = history("stats", "--data", home / "data", "--archive", home / "archive", "--json")
    store, archive = json.loads(done.stdout)
    assert (store["tier"], archive["tier"]) == ("store", "archive")
    assert store["count"] == archive["count"] == 900
    assert store["earliest"] == archive["earliest"] == "2025-11-24T16:00:00Z"
    assert archive["bytes"] == sum(path.stat().st_size for path in (home / "archive").rglob("*.parquet"))
    shown = history("stats", "--archive", home / "archive").stdout
    assert "900" in shown
    assert "2025-11-24 16:00:00" in shown


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["query", "price >"], "price >"),
        (["query", "--since", "yesterday"], "write an instant like"),
        (["query", "--since", "5x"], "or a duration before now"),
        (["query", "--since", "1m", "--until", "2m"], "--since is not before --until"),
        (["query", "--data", "a", "--archive", "b"], "exclude each other"),
        (["query", "--limit", "-1"], "--limit"),
    ],
)
def test_what_cannot_be_asked_is_explained(words: list[str], told: str) -> None:
    done = history(*words)
    assert done.exit_code == ExitCode.USAGE
    assert told in done.output


def test_what_is_not_there_is_explained(tmp_path: Path) -> None:
    for tier, told in (("data", "there is no store"), ("archive", "there is no archive")):
        done = history("stats", f"--{tier}", tmp_path / "nowhere")
        assert done.exit_code == ExitCode.CANNOT_RUN
        assert told in done.output


def test_damage_is_told_and_the_rest_is_shown(tmp_path: Path) -> None:
    fill(tmp_path / "data", quotes(900, step=10_000_000))
    damaged = roll(tmp_path / "data", tmp_path / "archive").files[1]
    damaged.write_bytes(damaged.read_bytes()[:1_000])
    done = history("query", "--json", "--archive", tmp_path / "archive")
    assert done.exit_code == 0
    assert len(done.stdout.splitlines()) == 540
    assert f"{damaged} cannot be read and was skipped" in done.stderr


# --- how times and sizes are written ------------------------------------------------------------------


def test_durations_instants_and_sizes_are_understood() -> None:
    assert [duration(text) for text in ("90s", "5m", "2h", "1.5d", "1w", "1h30m", "20ms")] == [
        90, 300, 7_200, 129_600, 604_800, 5_400, 0.02,
    ]  # fmt: skip
    now = int(NOW.timestamp()) * 1_000_000
    assert instant("5m", NOW) == now - 300_000_000
    for text in ("2026-11-16T03:00Z", "2026-11-16T03:00", "2026-11-16 03:00:00.000000+00:00", "2026-11-16T04:00+01:00"):
        assert instant(text, NOW) == now
    assert instant("2026-11-16", NOW) == now - 3 * HOUR
    assert [size(text) for text in ("500MB", "10 GB", "4GiB", "1.5kB")] == [500_000_000, 10**10, 2**32, 1_500]
    for read in (duration, size):
        for text in ("", "5", "m", "-5m", "5 parsecs", "1e9s", "5m!"):
            with pytest.raises(ValueError, match="write a"):
                read(text)
    for text in ("", "now", "999999w", "2026-13-01", "1763262000"):
        with pytest.raises(ValueError, match="write an instant"):
            instant(text, NOW)


def test_the_configuration_of_store_and_archive(tmp_path: Path) -> None:
    file = tmp_path / "broker.toml"
    file.write_text(
        '[store]\nretain_for = "7d"\nretain_bytes = "10GB"\nindex = ["type", "symbol"]\njournal_for = "90d"\n'
        '[archive]\ndirectory = "archive"\nroll_after = "90s"\npromote = ["type", "price:float"]\n'
    )
    options = load(file).options
    assert (options.store.retain_for, options.store.retain_bytes) == (604_800, 10**10)
    assert options.store.index == ("type", "symbol")
    assert options.store.journal_for == 90 * 86_400
    assert options.archive is not None
    assert options.archive.directory == tmp_path / "archive"
    assert options.archive.roll_after == 90
    assert options.archive.promote == ("type", "price:float")
    shown = CliRunner().invoke(app, ["config", "show", str(file)])
    again = tmp_path / "again.toml"
    again.write_text(shown.stdout)
    assert load(again).options.archive == options.archive
    assert load(again).options.store == options.store


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('[store]\nretain_for = "long"', "is not a duration"),
        ("[store]\nretain_bytes = 5", "too little"),
        ('[store]\njournal_for = "ever"', "is not a duration"),
        ('[store]\njournal_for = "10s"', "out of range"),
        ("[store]\njournal_for = true", "write a duration"),
        ('[store]\nretain_bytes = "many"', "is not a size"),
        ('[store]\nindex = ["a", "a"]', "appears twice"),
        ("[archive]", "the directory is missing"),
        ('[archive]\ndirectory = "a"\nroll_after = "0s"', "out of range"),
        ('[archive]\ndirectory = "a"\npromote = ["seq"]', "cannot be promoted"),
        ('[archive]\ndirectory = "a"\npromote = ["a:money"]', "write name or name:kind"),
        ('[archive]\ndirectory = "a"\npromote = ["a", "a:float"]', "one column, of one kind"),
        ('data = "d"\n[archive]\ndirectory = "d"', "in the directory of the store"),
    ],
)
def test_a_wrong_configuration_is_explained(tmp_path: Path, text: str, told: str) -> None:
    file = tmp_path / "broker.toml"
    file.write_text(text)
    with pytest.raises(ConfigurationError, match=told):
        load(file)
