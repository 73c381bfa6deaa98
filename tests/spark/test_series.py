"""What was counted over time, from the journals of brokers: the same as live. No Spark is needed for it."""

from __future__ import annotations

import asyncio
import itertools
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from spark.audit_world import World, damage_journal, rows_of_journal
from typer.testing import CliRunner

from tidings.aggregation import _windows
from tidings.aggregation.definitions import JP, Record, SubscriberCount, SubscriptionCount
from tidings.cli import app
from tidings.model import AggregateError, Filter
from tidings.net import Options, serve
from tidings.spark import AuditError, series, windows
from tidings.spark._registered import Registered
from tidings.store import JournalKind, JournalRecord

KEY = "type = 'quote' AND n > 5"


def rows(*what: tuple[JournalKind, str, dict[str, Any]]) -> list[JournalRecord]:
    return [JournalRecord(kind, at * 1_000, who, more) for at, (kind, who, more) in enumerate(what, start=1)]


def sub(id: str, filter: str, number: int = 1, scope: str = "") -> tuple[JournalKind, str, dict[str, Any]]:
    return JournalKind.SUBSCRIBE, "reader", {"id": id, "scope": scope, "filter": filter, "number": number}


def unsub(id: str, number: int = 1) -> tuple[JournalKind, str, dict[str, Any]]:
    return JournalKind.UNSUBSCRIBE, "reader", {"id": id, "scope": "", "number": number, "ended": True}


def read(*what: tuple[JournalKind, str, dict[str, Any]]) -> list[tuple[str, str, int]]:
    found = Registered("a", Filter.parse("type = 'quote'")).read(rows(*what))
    return [(record.jp.value, record.filter, record.edge) for record in found]


@pytest.mark.req("AGG-188")
def test_a_row_of_the_journal_is_a_record_as_a_live_lift_sees_it(monkeypatch: pytest.MonkeyPatch) -> None:
    (one,) = Registered("a", Filter.parse("type = 'quote'"), peer=str.upper).read(rows(sub("s", "type = 'quote'")))
    assert one == Record(
        ts_ms=1, broker="a", jp=JP.SUB_ADD, topic="quote", peer="READER", ingress=True, edge=1, filter="type = 'quote'"
    )
    seen: list[Record] = []
    live = _windows.Measuring("subscriptions() WINDOW 1s WHERE type = 'quote'", "a", 0)
    monkeypatch.setattr(live._measure, "lift", seen.append)
    live.begun(1)
    assert type(seen[0]) is type(one)
    assert (seen[0].ts_ms, seen[0].broker, seen[0].jp) == (one.ts_ms, one.broker, one.jp)


def test_the_first_and_the_last_subscription_of_a_client_are_edges() -> None:
    assert read(sub("s", "type = 'quote'"), sub("t", "n > 1"), sub("u", "type = 'trade'"), unsub("s"), unsub("t")) == [
        ("sub_add", "type = 'quote'", 1),
        ("sub_add", "n > 1", 0),
        ("sub_del", "type = 'quote'", 0),
        ("sub_del", "n > 1", -1),
    ]


def test_a_filter_that_is_changed_is_no_edge_unless_it_touches_the_key_no_more() -> None:
    assert read(sub("s", "n > 1"), sub("s", "n > 2", 2), unsub("s"), sub("s", "type = 'trade'", 3)) == [
        ("sub_add", "n > 1", 1),
        ("sub_add", "n > 2", 0),
        ("sub_del", "n > 1", 0),
        ("sub_del", "n > 2", -1),
    ]


def test_whoever_was_there_is_gone_when_the_client_or_the_broker_starts_anew() -> None:
    came = [("sub_add", "n > 1", 1)]
    assert read(sub("s", "n > 1"), (JournalKind.START, "", {})) == [*came, ("sub_del", "n > 1", -1)]
    assert read(sub("s", "n > 1"), (JournalKind.ATTACH, "reader", {})) == [*came, ("sub_del", "n > 1", -1)]
    assert read(sub("s", "n > 1"), (JournalKind.DETACH, "other", {})) == came
    assert read(sub("s", "n > 1", scope="inner")) == []


@pytest.mark.req("AGG-188")
def test_the_course_of_a_count_is_what_a_watch_was_told(tmp_path: Path) -> None:
    told: dict[str, list[int]] = {}

    async def scenario() -> list[Path]:
        async with World(tmp_path).running() as world, world.client("one", "a") as one, world.client("two", "b") as two:
            async with (
                one.aggregates.watch("subscriber_count", filter=KEY) as clients,
                one.aggregates.watch("subscription_count", filter=KEY) as subscriptions,
            ):
                await _told(clients, told, "subscriber_count", 0)
                await _told(subscriptions, told, "subscription_count", 0)
                kept = []
                for client, filter, change in (
                    (two, "type = 'quote'", (1, 1)),
                    (two, "n = 7", (1, 2)),
                    (one, "n > 3", (2, 3)),
                    (one, "type = 'trade'", (2, 3)),
                ):
                    kept.append(await client.subscribe(filter).__aenter__())
                    await _told(clients, told, "subscriber_count", change[0])
                    await _told(subscriptions, told, "subscription_count", change[1])
                for at, change in ((0, (2, 2)), (1, (1, 1)), (2, (0, 0))):
                    await kept[at].__aexit__(None, None, None)
                    await _told(clients, told, "subscriber_count", change[0])
                    await _told(subscriptions, told, "subscription_count", change[1])
        return [tmp_path / name for name in "ab"]

    data = asyncio.run(scenario())
    for name, live in told.items():
        steps = series(data, name, KEY)
        assert [step.value for step in steps] == [value for value, _ in itertools.groupby(live)]
        assert all(step.complete for step in steps)
    later = series(data, "subscriber_count", KEY, since=datetime.now(UTC) + timedelta(hours=1))
    assert [step.value for step in later] == [0]
    assert [step.value for step in series(data[1:], "subscriber_count", KEY)] == [0, 1, 0]


async def _told(watch: Any, told: dict[str, list[int]], name: str, value: int) -> None:
    """Wait until a watch shows a value."""
    async with asyncio.timeout(20):
        while watch.last is None or not watch.last.complete or watch.last.value != value:
            await asyncio.sleep(0.01)
    told.setdefault(name, []).append(value)


def test_a_question_about_subscriptions_has_the_same_partials_in_history(tmp_path: Path) -> None:
    question = "subscriptions() WINDOW 500ms WHERE type = 'quote'"
    live: dict[datetime, int] = {}

    async def scenario() -> None:
        async with World(tmp_path).running("a") as world, world.client("one", "a") as one:
            async with one.aggregates.watch(question) as watch:
                kept = []
                for number in range(40):
                    kept.append(await one.subscribe(f"type = 'quote' AND n = {number}").__aenter__())
                    await asyncio.sleep(0.05)
                async with asyncio.timeout(20):
                    async for result in watch:
                        if result.complete:
                            live[result.window[1]] = result.value
                        if len(live) >= 3 and result.value == 0:
                            break

    asyncio.run(scenario())
    past = {one.ends_at: one for one in windows([tmp_path / "a"], question)}
    seen = [end for end, value in live.items() if value]
    assert seen
    for end in seen:
        assert past[end].value == live[end]
        assert past[end].partial == SubscriptionCount().encode(live[end])
        assert past[end].complete


def test_what_is_missing_in_a_journal_is_flagged_and_not_made_up(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with World(tmp_path).running("a") as world, world.client("one", "a") as one:
            async with one.subscribe("type = 'quote'"):
                await asyncio.sleep(0.3)

    asyncio.run(scenario())
    data = tmp_path / "a"
    assert [step.value for step in series([data], "subscriber_count", KEY)] == [0, 1, 0]
    shown = CliRunner().invoke(
        app, ["aggregate", "history", "subscriber_count", "--filter", KEY, "--data", str(data), "--json"]
    )
    assert [json.loads(line)["value"] for line in shown.stdout.splitlines()] == [0, 1, 0]
    damage_journal(data, rows_of_journal(data)[-1])
    steps = series([data], "subscriber_count", KEY)
    assert not steps[-1].complete
    assert steps[0].complete


def test_what_cannot_be_told_is_refused(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serve(Options("a", port=0, data=tmp_path)):
            pass

    asyncio.run(scenario())
    with pytest.raises(AggregateError, match="'broker_count' has no course in the journal; choose one of subscriber_c"):
        series([tmp_path], "broker_count")
    with pytest.raises(AggregateError, match="is not about subscriptions"):
        windows([tmp_path], "count() WINDOW 1s")
    with pytest.raises(AuditError, match="name their data directories"):
        series([], "subscriber_count")
    with pytest.raises(AuditError, match="two of the data directories belong to broker 'a'"):
        series([tmp_path, tmp_path], "subscriber_count")
    assert [step.value for step in series([tmp_path], SubscriberCount.name)] == [0]
