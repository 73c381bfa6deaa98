"""Commands that find nothing say why, and tell nobody what it may not see."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from archive_world import HOUR, START, fill, quotes
from serving import serving
from store_world import Loop
from typer.testing import CliRunner, Result

from tidings import sync
from tidings.cli import app
from tidings.history._messages import Ask
from tidings.history._origin import Search
from tidings.model import EVERYTHING, Filter
from tidings.net import Access, AccessEntry, Options
from tidings.store.archive import Promoted, roll

NOTHING = "nothing from the past: "
KEPT = "nothing that you may see is kept, or nothing was ever published"


def sub(address: str, *words: str, **env: str) -> str:
    """What a subscription into the past that finds nothing says of it; what it prints besides is the rest."""
    done = CliRunner().invoke(app, ["sub", *words, "--timeout", "0.5", "--json", "--broker", address], env=env)
    assert (done.exit_code, done.stdout) == (0, ""), done.output
    told = [line for line in done.stderr.splitlines() if line.startswith(NOTHING)]
    return told[0].removeprefix(NOTHING) if told else ""


def fill_and_forget(directory: Path, forgetting: Path | None = None) -> None:
    """Two hours and a half of quotes; the first hour is forgotten, after it has been archived if that is wanted."""
    content = quotes(900, step=10_000_000)
    fill(directory, content[:360])
    fill(directory, content[360:])
    if forgetting is not None:
        roll(directory, forgetting, [Promoted("type")])
    loop = Loop()
    with loop.open(directory, owner="berlin") as store:
        store.retain(older_than=START + HOUR, synced=lambda: loop.synced.append(0))
        while not loop.synced:
            loop.turn()
        assert store.forgotten() == START + HOUR


def test_a_broker_without_a_store_says_so() -> None:
    with serving(Options(port=0)) as address:
        told = sub(address, "n > 1", "--past", "5")
    assert re.fullmatch(f"{KEPT}; the broker has no store, and forgot what was published before .* UTC", told)


def test_a_broker_at_which_nothing_was_published_says_no_more(tmp_path: Path) -> None:
    with serving(Options(port=0, data=tmp_path)) as address:
        assert sub(address, "TRUE", "--past", "5") == KEPT
        assert sub(address, "n > 1", "--past", "5m") == KEPT


def test_what_does_not_pass_the_filter_or_is_too_old_is_told_from_what_is_not_there(tmp_path: Path) -> None:
    with serving(Options(port=0, data=tmp_path)) as address:
        with sync.connect(address) as client:
            client.publish(n=1)
        assert sub(address, "n > 1", "--past", "5").startswith(
            "nothing that is kept passes the filter; the last of what"
        )
        assert "--past 1 shows it" in sub(address, "n = 1", "--past", "1ms")
        done = CliRunner().invoke(app, ["sub", "n = 1", "--past", "1", "--count", "1", "--broker", address])
        assert "n=1" in done.stdout
        assert NOTHING not in done.stderr


def test_what_was_forgotten_is_said_to_be(tmp_path: Path) -> None:
    fill_and_forget(tmp_path)
    with serving(Options(name="berlin", port=0, data=tmp_path)) as address:
        told = sub(address, "n = 7", "--past", "5")
    assert re.search(r"publications from before 2025-11-24 17:00:00.000 UTC are forgotten$", told)


def test_nobody_learns_of_what_a_scope_hides(tmp_path: Path) -> None:
    with serving(Options(port=0, data=tmp_path)) as address:
        with sync.connect(address, name="insider") as insider:
            insider.admin.create_scope("vault")
            insider.admin.join("@insider", "vault")
            insider.publish(n=1)
        assert sub(address, "n = 1", "--past", "5") == KEPT
        assert sub(address, "TRUE", "--past", "5m") == KEPT


@pytest.mark.parametrize(("open", "told"), [(True, START + HOUR), (False, 0)])
def test_where_there_are_scopes_no_broker_tells_when_something_was_forgotten(
    tmp_path: Path, open: bool, told: int
) -> None:
    fill_and_forget(tmp_path)
    with Loop().open(tmp_path, owner="berlin") as store:
        ask = Ask("paris", EVERYTHING, 5, None)
        search = Search(ask, {"berlin": (store.epoch, 0)}, [], lambda identity: False, START, open=open)
        found = [step for step in search.steps(store, lambda: None) if step is not None]
    assert [(one.envelopes, one.forgotten) for one in found] == [([], told)]


def test_nobody_learns_of_what_it_may_not_subscribe_to(tmp_path: Path) -> None:
    everything, little = "a-token-for-everything", "a-token-for-a-little"
    narrow = AccessEntry("narrow", subscribe=Filter.parse("type = 'quote'"))
    access = Access({everything: AccessEntry("wide"), little: narrow})
    with serving(Options(port=0, data=tmp_path, access=access)) as address:
        with sync.connect(address, token=everything) as client:
            client.publish(type="secret")
        assert sub(address, "type = 'quote'", "--past", "5", TIDINGS_TOKEN=little) == KEPT
        assert "passes the filter" in sub(address, "type = 'quote'", "--past", "5", TIDINGS_TOKEN=everything)


# --- stores and archives on this machine ----------------------------------------------------------------


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two hours and a half of quotes, of which the store has forgotten the first."""
    home = tmp_path_factory.mktemp("history")
    fill_and_forget(home / "data", home / "archive")
    fill(home / "empty", [])
    return home


def history(*words: object) -> Result:
    done = CliRunner().invoke(app, ["history", "query", *map(str, words)])
    assert (done.exit_code, done.stdout) == (0, ""), done.output
    return done


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["n = 100000"], r"publications are held, from 2025-11-24 .* UTC, but none passes the filter"),
        (["--since", "2026-01-01"], "and none in that time$"),
        (["n = 100000", "--since", "2025-11-24T18:00"], "but none of that time passes the filter"),
    ],
)
@pytest.mark.parametrize("tier", ["data", "archive"])
def test_a_query_that_finds_nothing_says_why(home: Path, tier: str, words: list[str], told: str) -> None:
    assert re.search(told, history(*words, f"--{tier}", home / tier).stderr.strip())


def test_a_query_says_what_was_forgotten_and_what_was_never_there(home: Path) -> None:
    forgotten = history("--until", "2025-11-24T16:30", "--data", home / "data").stderr
    assert "none in that time; older ones were forgotten" in forgotten
    assert "nothing is held here" in history("--data", home / "empty").stderr


def test_a_store_that_is_not_there_is_named(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["history", "query", "--data", str(tmp_path / "nowhere")])
    assert done.exit_code != 0
    assert "nowhere" in done.stderr
