"""What brokers have told is found again on disk; and if it is not, the job says so."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from spark.audit_world import World
from typer.testing import CliRunner

from tidings.aggregation.definitions import Included
from tidings.aggregation.workers import Code
from tidings.cli import app
from tidings.cli._aggregate import _as_json
from tidings.cli._errors import ExitCode
from tidings.model import AggregateError
from tidings.spark import Agreement, Told, reconcile, reconcile_counts, told_in
from tidings.store.archive import Promoted, roll

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUESTION = "count(), p95(load), sum(load / 3) BY rack, tidings.broker WINDOW 400ms SLIDE 200ms WHERE type = 'load'"
LIKEWISE = """
from tidings.aggregation.definitions import Aggregate, Sliding
class Loads(Aggregate):
    name, version = "acme.loads", "1"
    window = Sliding("400ms", "200ms")
    where = "type = 'load'"
    def key(self, r): return str(r.attrs["rack"])
    def zero(self): return 0
    def lift(self, r): return r.attrs["load"] if r.attrs.get("type") == "load" else None
    def combine(self, a, b): return a + b
"""
KEY = "type = 'load'"


class Run:
    """Two brokers that measured and counted, what they told, and what they have left on disk."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.archive = home / "archive"
        self.windows: list[str] = []
        self.counts: list[str] = []
        asyncio.run(self._measure())
        for name in "ab":
            roll(home / name, self.archive, [Promoted("type")])

    async def _measure(self) -> None:
        async with (
            World(self.home).running() as world,
            world.client("one", "a") as one,
            world.client("two", "b") as two,
        ):
            async with (
                two.aggregates.watch(QUESTION) as watch,
                two.aggregates.watch("subscriber_count", filter=KEY, max_error=0) as count,
                asyncio.timeout(60),
            ):
                n = told = 0
                while told < 8:
                    for client in (one, two):
                        n += 1
                        await client.publish(type="load", rack=f"r{n % 3}", load=n, quality="stored")
                        await client.publish(type="other", rack="r1", load=n, quality="stored")
                    if n in (6, 12):
                        await one.subscribe(KEY if n == 6 else "load > 5")
                    value = await anext(watch)
                    self.windows.append(_as_json(value))
                    told += bool(value.complete and value.value)
                    if count.last is not None and count.last.complete:
                        self.counts.append(_as_json(count.last))
                while count.last is None or count.last.value != 1:
                    await asyncio.sleep(0.01)
                self.counts.append(_as_json(count.last))


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return Run(tmp_path_factory.mktemp("reconcile"))


def agreements(found: list[Any]) -> set[Agreement]:
    return {one.agreement for one in found}


def test_complete_values_are_what_the_archive_gives_and_others_are_found(measured: Run, spark: SparkSession) -> None:
    told = list(told_in(measured.windows))
    first, second, third, fourth, *_ = (one for one in told if one.complete and one.value)
    assert first.included is not None
    assert second.included is not None
    group = next(iter(first.value))
    less = second.included[0]._replace(first=second.included[0].first + 1)
    wrong = [
        first._replace(value={**first.value, group: [first.value[group][0] + 1, *first.value[group][1:]]}),
        second._replace(included=(less, *second.included[1:])),
        third._replace(value={**third.value, ("nowhere", "a"): [1, 1.0, 1]}),
        fourth._replace(value={}),
    ]
    later = first._replace(included=(first.included[0]._replace(last=10**6),))
    other = first._replace(included=(Included("c", 1, 1, 1),))
    found = reconcile(spark, QUESTION, measured.archive, [*wrong, later, other, *told])
    assert [one.agreement for one in found[:6]] == [Agreement.DIFFERS] * 4 + [Agreement.MISSING] * 2
    assert "the value is about" in found[4].reason
    assert "nothing of c is archived" in found[5].reason
    assert [one.agreement for one in found[6:]] == [
        Agreement.SAME if one.complete else Agreement.SKIPPED for one in told
    ]
    assert {group[1] for one in found if one.agreement is Agreement.SAME for group in one.told} == {"a", "b"}


def test_values_of_code_are_compared_with_all_that_was_published_in_their_windows(
    measured: Run, spark: SparkSession
) -> None:
    told = [one for one in told_in(measured.windows) if one.complete and one.value]
    sums: list[Told] = []
    for one in told:
        racks: dict[tuple[Any, ...], int] = {}
        for (rack, _), (_, _, third) in one.value.items():
            racks[rack,] = racks.get((rack,), 0) + round(third * 3)
        sums.append(one._replace(value=racks, included=None))
    changed = sums[0]._replace(value={**sums[0].value, ("r1",): -1})
    one, *found = reconcile(spark, Code(LIKEWISE, "Loads"), measured.archive, [changed, *sums])
    assert agreements(found) == {Agreement.SAME}
    assert (one.agreement, "some may have come late" in one.reason) == (Agreement.DIFFERS, True)


def test_counts_are_what_the_journals_give_within_their_error(measured: Run) -> None:
    told = list(told_in(measured.counts))
    assert {one.value for one in told} >= {0, 1}
    data = [measured.home / "a", measured.home / "b"]
    assert agreements(reconcile_counts(data, "subscriber_count", told, KEY)) == {Agreement.SAME}
    last = told[-1]
    early = last._replace(as_of=last.as_of - timedelta(hours=1))
    wrong = [last._replace(value=5), last._replace(value=5, error=4), early, last._replace(complete=False)]
    found = reconcile_counts(data, "subscriber_count", wrong, KEY)
    assert [one.agreement.value for one in found] == ["differs", "same", "differs", "skipped"]
    assert reconcile_counts(data, "subscriber_count", [], KEY) == []


def test_what_cannot_be_compared_is_refused(measured: Run, spark: SparkSession) -> None:
    told = list(told_in(measured.windows))
    for definition, said in (
        ("frequent(rack) WINDOW 400ms SLIDE 200ms", "depends on how values were grouped"),
        ("count() WINDOW 1s", "was not told of this definition"),
    ):
        with pytest.raises(AggregateError, match=said):
            reconcile(spark, definition, measured.archive, told)
    at = datetime.now(UTC)
    with pytest.raises(AggregateError, match="has no window"):
        reconcile(spark, QUESTION, measured.archive, [Told(1, 0, True, at)])
    with pytest.raises(AggregateError, match="line 2 is no value"):
        list(told_in([measured.windows[0], '{"value": 3}']))


def test_the_command_says_how_many_values_agree(measured: Run, tmp_path: Path) -> None:
    words = ["aggregate", "reconcile", QUESTION, "-", "--archive", str(measured.archive)]
    complete = [one for one in told_in(measured.windows) if one.complete]
    wrong = [json.loads(line) for line in measured.windows]
    next(one for one in wrong if one["complete"] and one["value"])["value"][0]["value"][0] += 1
    done = CliRunner().invoke(app, words, input="\n".join(map(json.dumps, wrong)))
    assert done.exit_code == ExitCode.FAILED
    assert f"{len(complete) - 1} of {len(wrong)} values are what is on disk, 1 differs" in done.stdout
    assert "1 values differ" in done.stderr
    counts = tmp_path / "counts.jsonl"
    counts.write_text("\n".join(measured.counts))
    data = ["--filter", KEY, "--data", str(measured.home / "a"), "--data", str(measured.home / "b"), "--json"]
    done = CliRunner().invoke(app, ["aggregate", "reconcile", "subscriber_count", str(counts), *data])
    assert done.exit_code == 0, done.stderr
    assert {json.loads(line)["agreement"] for line in done.stdout.splitlines()} == {"same"}
    nothing = CliRunner().invoke(app, ["aggregate", "reconcile", QUESTION, "/nowhere", "--archive", "x"])
    assert nothing.exit_code == ExitCode.USAGE
    assert "/nowhere cannot be read: No such file" in nothing.stderr
