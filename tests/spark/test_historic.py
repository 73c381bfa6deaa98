"""Over an archive, a definition gives what a tree of brokers gives over the same publications, byte for byte."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from archive_world import START, fill, quotes
from serving import serving
from typer.testing import CliRunner

from tidings import sync
from tidings.aggregation.definitions import JP as Joinpoint
from tidings.aggregation.definitions import (
    ActivePublishers,
    Aggregate,
    Count,
    Included,
    Record,
    Sliding,
    SubscriberCount,
    Tumbling,
    pseudonym,
)
from tidings.aggregation.expressions import compiled
from tidings.aggregation.workers import Code, loaded
from tidings.cli import app
from tidings.cli._errors import ExitCode
from tidings.model import AggregateError, DeploymentRefused
from tidings.net import Options
from tidings.spark import _historic, historic
from tidings.store.archive import ArchiveReader, Promoted, roll

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUESTION = "count(), p95(price), distinct(symbol), max(n / 3) BY type WINDOW 10m SLIDE 5m WHERE n < 380"
SOURCE = """
from tidings.aggregation.definitions import Aggregate, Sliding
class Spread(Aggregate):
    name, version = "acme.spread", "1"
    window = Sliding("20m", "10m")
    def zero(self): return [0, 0]
    def lift(self, r):
        n = r.attrs.get("n")
        return [n, n * n] if type(n) is int else None
    def combine(self, a, b): return [a[0] + b[0], a[1] + b[1]]
"""


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("historic")
    for number, origin in enumerate(("berlin", "paris")):
        fill(home / origin, quotes(400, step=25_000_000, start=START + number * 7_001), origin)
        roll(home / origin, home / "archive", [Promoted("type")])
    return home / "archive"


def by_brokers(aggregate: Aggregate[Any], archive: Path, secret: bytes = b"") -> dict[tuple[str, int], bytes]:
    """What many brokers would find: partials of parts, combined in an order that is drawn."""
    assert aggregate.window is not None
    leaves: dict[tuple[str, int], list[Any]] = defaultdict(list)
    for envelope in ArchiveReader(archive).query(compiled("count() WINDOW 1s").where):  # type: ignore[attr-defined]
        identity, attrs = envelope.identity, envelope.notification
        record = Record(
            ts_ms=identity.published_at // 1_000,
            broker=identity.origin,
            jp=Joinpoint.PUBLISHED,
            topic=str(attrs.get("type", "")),
            peer=pseudonym(secret, aggregate.name, identity.publisher),
            attrs=attrs,
        )
        if (lifted := aggregate.lift(record)) is not None:
            for window in aggregate.window.windows(aggregate.window.pane(record.ts_ms)):
                leaves[aggregate.key(record), window].append(lifted)
    draw = random.Random(5)
    found = {}
    for place, parts in leaves.items():
        while len(parts) > 1:
            draw.shuffle(parts)
            parts = [aggregate.combine(one, two) for one, two in zip(parts[::2], parts[1::2], strict=False)] + parts[
                len(parts) // 2 * 2 :
            ]
        found[place] = aggregate.encode(parts[0])
    return found


def by_spark(spark: SparkSession, definition: Any, archive: Path, **more: Any) -> dict[tuple[str, int], bytes]:
    return {(row.key, row.window): bytes(row.partial) for row in historic(spark, definition, archive, **more).collect()}


@pytest.mark.parametrize(
    ("definition", "aggregate"),
    [
        (QUESTION, compiled(QUESTION)),
        (ActivePublishers(Tumbling("1h")), ActivePublishers(Tumbling("1h"))),
    ],
    ids=["question", "publishers"],
)
def test_history_is_what_brokers_find(definition: Any, aggregate: Any, archive: Path, spark: SparkSession) -> None:
    found = by_spark(spark, definition, archive, secret=b"s")
    assert len(found) > 3
    assert found == by_brokers(aggregate, archive, b"s")


def test_source_is_shipped_with_its_digest(archive: Path, spark: SparkSession) -> None:
    code = Code(SOURCE, "Spread")
    rows = historic(spark, code, archive).collect()
    space: dict[str, Any] = {}
    exec(SOURCE, space)
    expected = by_brokers(space["Spread"](), archive)
    assert {(row.key, row.window): bytes(row.partial) for row in rows} == expected
    assert all(json.loads(row.value) == json.loads(bytes(row.partial)) for row in rows)
    forged = _historic.Shipped(code=Code(SOURCE + "#", "Spread"), digest=_historic.shipped(code).digest)
    with pytest.raises(AggregateError, match="is not the one with the digest"):
        forged.arrived()


def test_the_native_way_gives_the_same_bytes_and_is_used_only_then(archive: Path, spark: SparkSession) -> None:
    count = Count(window=Sliding("10m", "5m"), where=compiled("count() WINDOW 1s WHERE type = 'quote'").where)  # type: ignore[attr-defined]
    quick = by_spark(spark, count, archive)
    assert _historic._proven[_historic.shipped(count).identity]
    assert quick == by_spark(spark, count, archive, native=False) == by_brokers(count, archive)


def test_a_native_way_that_is_wrong_is_not_used(
    archive: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyspark.sql import functions as f

    monkeypatch.setattr(Count, "spark_native", lambda self: (f.count(f.lit(1)) + 1).cast("string").cast("binary"))
    count = Count(window=Tumbling("7m"))
    assert by_spark(spark, count, archive) == by_brokers(count, archive)
    assert _historic._proven[_historic.shipped(count).identity] is False


def test_of_the_publications_that_a_value_names_its_window_is_the_same(archive: Path, spark: SparkSession) -> None:
    aggregate = compiled("count(), sum(n) WINDOW 20m")
    assert aggregate.window is not None
    everything = by_brokers(aggregate, archive)
    chosen = sorted(window for _, window in everything)[3]
    numbers: dict[tuple[str, int], list[int]] = defaultdict(list)
    for envelope in ArchiveReader(archive).query(compiled("count() WINDOW 1s").where):  # type: ignore[attr-defined]
        identity = envelope.identity
        if aggregate.window.pane(identity.published_at // 1_000) + 1 == chosen:
            numbers[identity.origin, identity.epoch].append(identity.seq)
    included = [Included(*of, min(some), max(some)) for of, some in numbers.items()]
    assert len(included) == 2
    assert by_spark(spark, aggregate.name, archive, included=included) == {("", chosen): everything["", chosen]}
    fewer = [included[0]._replace(last=included[0].last - 1), included[1]]
    assert by_spark(spark, aggregate.name, archive, included=fewer) != {("", chosen): everything["", chosen]}
    assert by_spark(spark, aggregate.name, archive, included=()) == {}


def test_a_window_that_is_cut_says_so(archive: Path, spark: SparkSession) -> None:
    since = datetime.fromtimestamp(START / 1e6, UTC) + timedelta(minutes=33)
    rows = historic(spark, "count() WINDOW 10m", archive, since=since, until=since + timedelta(hours=1)).collect()
    for row in rows:
        ends = row.ends_at.replace(tzinfo=UTC)
        assert row.complete == (ends - timedelta(minutes=10) >= since and ends <= since + timedelta(hours=1))
    assert {row.complete for row in rows} == {True, False}


class Own(Count):
    pass


@pytest.mark.parametrize(
    ("definition", "said"),
    [
        (SubscriberCount(), "the journals of brokers do: use series or windows"),
        (Count(), "has no window"),
        (Own(window=Tumbling("1m")), r"is a class of this program.*pass Code\("),
        ("count()", "there is no window"),
    ],
)
def test_what_the_archive_cannot_answer_is_refused(
    definition: Any, said: str, archive: Path, spark: SparkSession
) -> None:
    with pytest.raises(AggregateError, match=said):
        historic(spark, definition, archive)


@pytest.mark.req("AGG-180")
def test_history_and_backtest_on_the_command_line_give_what_brokers_give(archive: Path, tmp_path: Path) -> None:
    old, new = tmp_path / "spread.py", tmp_path / "newer.py"
    old.write_text(SOURCE)
    new.write_text(SOURCE.replace('"acme.spread", "1"', '"acme.spread", "2"').replace("n * n", "n * n * (n < 200)"))
    words = ["--archive", str(archive), "--json"]
    done = CliRunner().invoke(app, ["aggregate", "history", str(old), *words])
    assert done.exit_code == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    loaded_old = loaded(SOURCE, "Spread")
    assert isinstance(loaded_old, Aggregate)
    expected = by_brokers(loaded_old, archive)
    assert len(rows) == len(expected)
    live = sorted(loaded_old.decode(partial) for partial in expected.values())
    assert sorted(json.loads(row["value"]) for row in rows) == live
    same = CliRunner().invoke(app, ["aggregate", "backtest", str(old), str(old), *words])
    assert same.exit_code == 0, same.stderr
    assert all(json.loads(line)["same"] for line in same.stdout.splitlines())
    other = CliRunner().invoke(app, ["aggregate", "backtest", str(old), str(new), *words])
    assert other.exit_code == ExitCode.FAILED
    assert f"of {len(rows)} windows differ" in other.stderr
    nothing = CliRunner().invoke(app, ["aggregate", "history", "nothing.py", *words])
    assert "nothing.py is neither a question nor a file that can be read: No such file" in nothing.stderr


def test_an_upgrade_shows_what_it_would_have_changed_and_then_deploys_that_text(archive: Path) -> None:
    old, new = (f"count(), {what}(n) WINDOW 20m WHERE n < 380" for what in ("max", "min"))
    with serving(Options(port=0)) as url, sync.connect(url) as client:
        client.aggregates.deploy(old, name="acme.n", version="1")
        assert client.aggregates.fetch("acme.n").source == compiled(old).name
        with pytest.raises(DeploymentRefused, match=r"acme\.m is not installed"):
            client.aggregates.fetch("acme.m")
        words = ["aggregate", "upgrade", new, "--as", "acme.n", "--version", "2", "-b", url, "--archive", str(archive)]
        nothing = CliRunner().invoke(app, [*words, "--backtest", "1ms"])
        assert nothing.exit_code == ExitCode.USAGE
        assert "has nothing of that time, and nothing was deployed" in nothing.stderr
        half = CliRunner().invoke(app, words)
        assert "--backtest says how far to look back, and --archive where; give both" in half.stderr
        assert client.aggregates.newest_version("acme.n") == "1"
        done = CliRunner().invoke(app, [*words, "--backtest", "3650d"])
        assert done.exit_code == 0, done.stderr
        assert done.stdout == "acme.n 2: installed at 1 broker\n"
        windows = len(by_brokers(compiled(new), archive))
        assert f"{windows} of {windows} windows differ from acme.n 1" in done.stderr
        assert client.aggregates.newest_version("acme.n") == "2"
