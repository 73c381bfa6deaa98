"""`tidings aggregate`: questions about the traffic on the command line."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from serving import serving
from typer.testing import CliRunner, Result

from tidings import sync
from tidings.aggregation.definitions import Included
from tidings.cli import app
from tidings.cli._aggregate import _Alarm, _as_json, _as_text, _notifications
from tidings.cli._errors import ExitCode
from tidings.client import AggregateValue
from tidings.net import Access, AccessEntry, Options

TOKEN = "a-token-for-the-tests"
NOW = datetime(2026, 11, 17, tzinfo=UTC)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with serving(Options(name="cli", port=0)) as url, sync.connect(url) as client:
        client.subscribe("type = 'quote'")
        client.subscribe("type = 'quote' AND price > 5")
        yield url


def aggregate(address: str, *words: str, env: dict[str, str] | None = None) -> Result:
    return CliRunner().invoke(app, ["aggregate", *words, "-b", address], env=env)


def test_aggregates_are_listed(address: str) -> None:
    assert "subscriber_count" in aggregate(address, "list").stdout
    found = json.loads(aggregate(address, "list", "--json").stdout)
    names = {one["name"] for one in found}
    assert names >= {"subscriber_count", "subscription_count", "publisher_count", "broker_count", "active_publishers"}


def test_a_value_is_printed_once(address: str) -> None:
    assert aggregate(address, "get", "subscriber_count", "type = 'quote'").stdout == "1\n"
    assert aggregate(address, "get", "subscription_count").stdout == "2\n"
    rough = aggregate(address, "get", "subscription_count", "--max-error", "1")
    assert rough.stdout == "2 ± 1\n"
    found = json.loads(aggregate(address, "get", "subscriber_count", "type = 'trade'", "--json").stdout)
    assert (found["value"], found["error"], found["complete"], found["version"]) == (0, 0, True, "1")


def test_a_value_is_watched(address: str) -> None:
    done = aggregate(address, "watch", "subscriber_count", "--count", "1")
    assert done.exit_code == 0
    assert done.stdout.split()[1:] == ["1"]
    lines = aggregate(address, "watch", "subscriber_count", "--count", "1", "--json").stdout.splitlines()
    assert json.loads(lines[-1])["value"] == 1
    late = aggregate(address, "watch", "subscriber_count", "--count", "5", "--timeout", "0.3")
    assert late.exit_code == ExitCode.FAILED
    assert "fewer than 5 complete values arrived" in late.stderr
    assert aggregate(address, "watch", "subscriber_count", "--timeout", "0.3").exit_code == 0


def test_what_is_watched_at_a_broker_is_shown(address: str) -> None:
    assert aggregate(address, "status").stdout == "nothing is watched at cli\n"
    with sync.connect(address) as client, client.aggregates.watch("subscriber_count", filter="n > 1") as watch:
        next(watch)
        shown = aggregate(address, "status").stdout
        assert "subscriber_count" in shown
        assert "1 within 0" in shown
        found = json.loads(aggregate(address, "status", "--json").stdout)
        assert found["broker"] == "cli"
        assert found["counters"]["watches"] == 1
        assert found["watched"][0]["key"] == "n > 1"


@pytest.mark.parametrize(
    ("words", "code", "complaint"),
    [
        (("get", "reach"), ExitCode.FAILED, "no aggregate is called 'reach'"),
        (("get", "subscriber_count", "price >"), ExitCode.USAGE, "column"),
        (("get", "subscriber_count", "--max-error", "-1"), ExitCode.USAGE, "--max-error -1: write a number"),
        (("watch", "subscriber_count", "--max-error", "few"), ExitCode.USAGE, "--max-error few: write a number"),
        (("get", "publisher_count"), ExitCode.FAILED, "uses no advertisements"),
    ],
)
def test_mistakes_are_explained(address: str, words: tuple[str, ...], code: ExitCode, complaint: str) -> None:
    done = aggregate(address, *words)
    assert done.exit_code == code
    assert complaint in done.stderr


def test_whoever_may_not_count_is_told_so() -> None:
    access = Access({TOKEN: AccessEntry("someone")})
    with serving(Options(name="closed", port=0, access=access)) as url:
        done = aggregate(url, "get", "subscriber_count", env={"TIDINGS_TOKEN": TOKEN})
    assert done.exit_code == ExitCode.FAILED
    assert "'someone' may not count" in done.stderr


def test_a_question_is_answered_by_windows(address: str) -> None:
    done = aggregate(address, "get", "count() WINDOW 100ms", "--json")
    found = json.loads(done.stdout)
    assert (found["value"], len(found["window"])) == (0, 2)
    assert aggregate(address, "get", "count() BY kind WINDOW 100ms").stdout == "0 groups\n"
    assert aggregate(address, "get", "count( WINDOW 1s").exit_code != 0
    value = AggregateValue({("a", 1): [2, 0.5]}, 0.25, False, "1", NOW, (NOW, NOW))
    assert _as_text(value) == "1 groups ± 0.25 (incomplete)\n  a, 1: 2, 0.5"
    assert json.loads(_as_json(value))["value"] == [{"group": ["a", 1], "value": [2, 0.5]}]
    assert "included" not in json.loads(_as_json(value))
    sure = dataclasses.replace(value, included=(Included("berlin", 1, 3, 9),))
    assert json.loads(_as_json(sure))["included"] == [{"origin": "berlin", "epoch": 1, "first": 3, "last": 9}]


def test_a_value_above_a_limit_ends_the_watch_with_a_code_of_its_own(address: str) -> None:
    loud = aggregate(address, "watch", "subscription_count", "--above", "1")
    assert (loud.exit_code, loud.stdout.split()[1:]) == (2, ["2"])
    assert "subscription_count is above 1" in loud.stderr
    lasting = aggregate(address, "watch", "subscription_count", "--above", "1", "--for", "200ms")
    assert lasting.exit_code == 2
    assert "above 1 for 0.2 seconds" in lasting.stderr
    quiet = aggregate(address, "watch", "subscription_count", "--above", "2", "--timeout", "0.3")
    assert quiet.exit_code == 0
    short = aggregate(address, "watch", "subscription_count", "--above", "1", "--for", "1h", "--timeout", "0.3")
    assert short.exit_code == 0


def test_the_alarm_rings_only_after_it_was_above_the_limit_all_the_time() -> None:
    def value(number: int, *, complete: bool = True) -> AggregateValue:
        return AggregateValue({("r1",): [number, 999]}, 0, complete, "1", NOW)

    alarm = _Alarm(90, 60)
    assert not alarm.rings(value(95), 0)
    assert alarm.wait(20) == 40
    assert not alarm.rings(value(85), 30)
    assert alarm.wait(40) is None
    assert not alarm.rings(value(95), 50)
    assert not alarm.rings(value(10, complete=False), 70)  # it misses brokers: nobody knows
    assert not alarm.rings(None, 109)
    assert alarm.rings(None, 110)


def test_values_are_published_as_notifications(address: str) -> None:
    with sync.connect(address) as client:
        heard = client.subscribe("type = 'health'")
        done = aggregate(address, "watch", "subscriber_count", "--count", "1", "--into", "type=health", "--into", "n=1")
        assert done.exit_code == 0
        one = heard.receive(timeout=20)
        assert one is not None
        assert {**one} == {
            "type": "health",
            "n": 1,
            "aggregate": "subscriber_count",
            "value": 2,
            "error": 0,
            "version": "1",
        }
    grouped = AggregateValue({("a", None): [2, 0.5]}, 0.25, True, "1", NOW, (NOW, NOW))
    assert list(_notifications("q", {"type": "t"}, grouped)) == [
        {
            "type": "t",
            "aggregate": "q",
            "error": 0.25,
            "version": "1",
            "window_end": NOW,
            "group1": "a",
            "value": 2,
            "value2": 0.5,
        }
    ]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--for", "1m"), "give the limit with --above"),
        (("--above", "much"), "--above much: write a number"),
        (("--above", "1", "--for", "long"), "--for 'long' is not a duration"),
        (("--into", "health"), "'health' is not of the form name=value"),
    ],
)
def test_rules_that_make_no_sense_are_explained(address: str, words: tuple[str, ...], complaint: str) -> None:
    done = aggregate(address, "watch", "subscriber_count", *words)
    assert done.exit_code == ExitCode.USAGE
    assert complaint in done.stderr


LAWFUL = """
from tidings.aggregation.definitions import Aggregate, Tumbling

class Readings(Aggregate):
    name, version = "acme.readings", "1.0.0"
    window = Tumbling("1s")
    def key(self, record): return ""
    def zero(self): return 0
    def lift(self, record): return 1
    def combine(self, a, b): return a + b
"""


def test_a_key_is_made_once_and_read_by_its_owner_only(tmp_path: Path) -> None:
    file = tmp_path / "acme.key"
    made = CliRunner().invoke(app, ["aggregate", "keygen", str(file)])
    assert made.exit_code == 0, made.stderr
    assert made.stdout.startswith("tidings-public:")
    assert file.stat().st_mode & 0o777 == 0o600
    before = file.read_text()
    again = CliRunner().invoke(app, ["aggregate", "keygen", str(file)])
    assert again.exit_code == ExitCode.USAGE
    assert "exists, and a key is never overwritten; name another file" in again.stderr
    assert file.read_text() == before
    assert before.strip() not in made.stdout


@pytest.mark.req("AGG-181")
def test_check_shows_the_smallest_case_in_which_a_law_is_broken(tmp_path: Path) -> None:
    file = tmp_path / "readings.py"
    file.write_text(LAWFUL)
    good = CliRunner().invoke(app, ["aggregate", "check", str(file), "--json"])
    assert good.exit_code == 0, good.stderr
    found = json.loads(good.stdout)
    assert (found["class"], len(found["digest"])) == ("Readings", 64)
    assert "seccomp" in found["layers"]
    file.write_text(LAWFUL.replace("a + b", "a - b"))
    broken = CliRunner().invoke(app, ["aggregate", "check", str(file)])
    assert broken.exit_code == ExitCode.FAILED
    assert "acme.readings 1.0.0 breaks a law: " in broken.stderr
    assert "  a = " in broken.stderr
    assert "  c = nothing" in broken.stderr  # as little as possible
    file.write_text("import socket\n" + LAWFUL)
    refused = CliRunner().invoke(app, ["aggregate", "check", str(file)])
    assert f"{file}, line 1: socket cannot be imported by a worker; it has bisect" in refused.stderr


def test_what_is_counted_is_shown_live(address: str) -> None:
    runner = CliRunner()
    assert "nothing is watched" in runner.invoke(app, ["top", "--aggregates", "--once", "-b", address]).stdout
    with sync.connect(address) as client, client.aggregates.watch("subscriber_count", filter="type = 'quote'") as watch:
        assert next(iter(watch)) is not None
        shown = runner.invoke(app, ["top", "--aggregates", "--once", "-b", address]).stdout
        assert "subscriber_count" in shown
        assert "root" in shown
        found = json.loads(runner.invoke(app, ["top", "--aggregates", "--once", "--json", "-b", address]).stdout)
        assert found["watched"][0]["value"] == 1


def test_a_scope_and_a_window_are_chosen_by_options(address: str) -> None:
    assert aggregate(address, "get", "broker_count").stdout == "1\n"
    refused = aggregate(address, "get", "subscriber_count", "--scope", "moon")
    assert refused.exit_code == ExitCode.FAILED
    assert "there is no scope 'moon'" in refused.stderr
    rate = aggregate(address, "get", "publication_rate", "--window", "300ms")
    assert float(rate.stdout) >= 0
    spread = aggregate(address, "get", "distribution", "--of", "load", "--edge", "5", "--window", "300ms")
    assert spread.stdout == "0, 0\n"
