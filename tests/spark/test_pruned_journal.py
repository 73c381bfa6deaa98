"""A journal that has forgotten tells an audit of a later time what the whole one tells."""

from __future__ import annotations

import asyncio
import json
import random
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from spark.audit_world import FOR_EVER, Planted, World, damage_journal, found, publish, rows_of_journal
from store_world import Loop
from typer.testing import CliRunner

from tidings.cli import app
from tidings.net import _housekeeping as keeper_module
from tidings.spark import AuditError
from tidings.spark import _audit as audit_module
from tidings.spark._chronicle import Chronicle, Timeliness
from tidings.store import (
    Carried,
    Deliveries,
    Group,
    JournalKind,
    JournalRecord,
    Sent,
    Store,
    StoreReader,
    _journal_retention,
    encode_deliveries,
)

SECOND = 1_000_000
ORIGINS = ("b", "c")
"""The first one is the broker whose journal it is."""


class Story:
    """A journal that somebody has made up, and what was published meanwhile."""

    def __init__(self, seed: int, steps: int = 400) -> None:
        self.rng = random.Random(seed)
        self.now = 1_000_000 * SECOND
        self.records: list[JournalRecord] = []
        self.events: list[tuple[str, int, int]] = []
        """Origin, number, time."""
        self.reached = dict.fromkeys(ORIGINS, 0)
        self.numbers = 0
        self.clients: dict[str, dict[str, dict[str, Any]]] = {}
        often = [self.publish, self.acknowledge] * 4 + [self.deliver, self.settle] * 2
        seldom = [self.change, self.enter, self.leave, self.unsubscribe, self.gap, self.attach]
        happenings = [*often * 2, *[self.subscribe] * 3, *seldom, self.change, self.attach]
        for _ in range(steps):
            self.now += self.rng.randrange(8 * SECOND)
            self.rng.choice(happenings)()
            if self.rng.random() < 0.01:
                self.rng.choice([self.detach, self.start, self.hole])()

    def note(self, kind: JournalKind, who: str, data: bytes = b"", **what: Any) -> None:
        self.records.append(JournalRecord(kind, self.now, who, what, data))

    def somebody(self) -> str:
        return self.rng.choice("pqrxyz")

    def something(self) -> tuple[str, dict[str, Any]] | None:
        known = [(client, one) for client, all_ in self.clients.items() for one in all_.values()]
        return self.rng.choice(known) if known else None

    def positions(self) -> str:
        chosen = self.rng.sample(ORIGINS, self.rng.randrange(3))
        return json.dumps({origin: (1, self.rng.randint(0, self.reached[origin])) for origin in chosen})

    def publish(self) -> None:
        origin = self.rng.choice(ORIGINS)
        self.reached[origin] += 1
        self.events.append((origin, self.reached[origin], self.now))

    def attach(self) -> None:
        client = self.somebody()
        if client not in self.clients:
            self.clients[client] = {}
            self.note(JournalKind.ATTACH, client)

    def detach(self) -> None:
        client = self.somebody()
        if self.clients.pop(client, None) is not None:
            self.note(JournalKind.DETACH, client)

    def start(self) -> None:
        self.clients.clear()
        self.note(JournalKind.START, "", epoch=1)

    def hole(self) -> None:
        self.note(JournalKind.HOLE, "", missed=1)

    def subscribe(self) -> None:
        if not self.clients:
            return
        client = self.rng.choice(list(self.clients))
        self.numbers += 1
        one = {"id": f"s{self.rng.randrange(4)}", "number": self.numbers, "filter": f"n > {self.numbers}", "scope": "/"}
        if one["id"] not in self.clients[client]:
            self.clients[client][one["id"]] = one
            self.note(JournalKind.SUBSCRIBE, client, **one, receive_own=True, duplicates=0, after=self.positions())

    def change(self) -> None:
        if (chosen := self.something()) is None:
            return
        client, one = chosen
        if self.rng.random() < 0.5:
            self.note(JournalKind.UNSUBSCRIBE, client, **one, ended=True)
        self.numbers += 1
        one |= {"number": self.numbers, "filter": f"n > {self.numbers}"}
        self.note(JournalKind.SUBSCRIBE, client, **one, receive_own=True, duplicates=0, after=None)

    def enter(self) -> None:
        if (chosen := self.something()) is not None:
            what = {**chosen[1], "scope": self.rng.choice("uvw")}
            self.note(JournalKind.SUBSCRIBE, chosen[0], **what, receive_own=True, duplicates=0, after=None)

    def leave(self) -> None:
        if (chosen := self.something()) is not None:
            self.note(JournalKind.UNSUBSCRIBE, chosen[0], **{**chosen[1], "scope": self.rng.choice("uvw")}, ended=False)

    def unsubscribe(self) -> None:
        if (chosen := self.something()) is not None:
            del self.clients[chosen[0]][chosen[1]["id"]]
            for scope in "/uvw":
                self.note(JournalKind.UNSUBSCRIBE, chosen[0], **{**chosen[1], "scope": scope}, ended=True)

    def settle(self) -> None:
        if (chosen := self.something()) is not None:
            client, one = chosen
            self.note(JournalKind.SETTLED, client, id=one["id"], number=one["number"], marks=self.positions())

    def acknowledge(self) -> None:
        origin = self.rng.choice(ORIGINS)
        seq = max(0, self.reached[origin] - self.rng.randrange(3))
        self.note(JournalKind.ACKNOWLEDGE, self.somebody(), origin=origin, epoch=1, seq=seq)

    def gap(self) -> None:
        if (chosen := self.something()) is not None:
            origin, ids = self.rng.choice(ORIGINS), json.dumps([chosen[1]["id"]])
            first = self.rng.randint(0, self.reached[origin])
            last = self.rng.choice([None, self.reached[origin], self.reached[origin]])
            self.note(JournalKind.GAP, chosen[0], origin=origin, epoch=1, first=first, last=last, ids=ids)

    def deliver(self) -> None:
        group = Group((self.somebody(), "x"), (f"s{self.rng.randrange(4)}",), self.rng.random() < 0.1)
        source = self.rng.randrange(2)
        seq = max(1, self.reached[ORIGINS[source]] - self.rng.randrange(2))
        data = Deliveries.of([group], [(origin, 1) for origin in ORIGINS], [Sent(0, source, seq, self.now, 0)])
        self.note(JournalKind.DELIVER, "", encode_deliveries(data))


class Collected:
    """What was sent."""

    def __init__(self) -> None:
        self.sent: list[tuple[Any, ...]] = []
        self.strays: list[tuple[Any, ...]] = []

    def add(self, source: tuple[str, int], life: int, sent: Sent, timeliness: Timeliness) -> None:
        self.sent.append((source, life, sent, timeliness))

    def stray(self, *what: Any) -> None:
        self.strays.append(what)


def wait(loop: Loop, store: Store) -> None:
    answered: list[bool] = []
    store.put("barrier", "", b"", lambda: answered.append(True))
    while not answered:
        loop.turn()


def written(home: Path, story: Story) -> None:
    """The story in a store, in rows of a few records."""
    loop = Loop()
    with loop.open(home, owner="b") as store:
        left = list(story.records)
        while left:
            for record in left[: (count := story.rng.randint(1, 25))]:
                store.record(record)
            del left[:count]
            wait(loop, store)


def pruned(home: Path, cuts: list[int]) -> None:
    loop = Loop()
    for cut in cuts:
        with loop.open(home, owner="b") as store:
            store.retain(journal_before=cut)
            with StoreReader(home) as reader:
                before: Carried | None = None
                while (now := reader.carried()) != before or before is None:
                    before = now
                    wait(loop, store)
                    wait(loop, store)


def reading(home: Path, events: list[tuple[str, int, int]], since: int) -> dict[str, Any]:
    """Everything that an audit takes from a journal for what was published since."""
    collected = Collected()
    chronicle = Chronicle(collected)
    with StoreReader(home) as store, store.moment():
        chronicle.read("b", store.journal(holes=True), store.carried(), sent_from=since)
    lives = chronicle.lives
    owed = []
    for origin, seq, at in events:
        for life in lives if at >= since else ():
            gaps = sorted({gap.last is None for gap in life.gaps if gap.contains(origin, 1, seq)})
            owed += [
                (origin, seq, life.client, life.id, life.since, [life.filters[one] for one in window.filters], gaps)
                for window in life.windows.get(origin, ())
                if window.after < (1, seq) <= window.upto and ((1, seq) > window.sure or at >= window.settled_at)
            ]
    sent = [
        (source, lives[life].client, lives[life].id, lives[life].since, lives[life].filters[-1], one, how)
        for source, life, one, how in collected.sent
    ]
    return {"owed": sorted(owed), "sent": sent, "strays": collected.strays, "silent": chronicle.silent}


@pytest.fixture(scope="module", autouse=True)
def _small_slices() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_journal_retention, "SLICE_ROWS", 3)
        patch.setattr(_journal_retention, "SLICE_RECORDS", 30)
        yield


owed_after_the_cut = 0


@settings(max_examples=20, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10**6), part=st.floats(0.1, 0.9), times=st.integers(1, 3))
def check_one(seed: int, part: float, times: int) -> None:
    global owed_after_the_cut  # noqa: PLW0603
    story = Story(seed)
    begin = story.records[0].at if story.records else 0
    cuts = [begin + int((story.now - begin) * part * one / times) for one in range(1, times + 1)]
    with tempfile.TemporaryDirectory() as home:
        whole, some = Path(home, "whole"), Path(home, "some")
        written(whole, story)
        shutil.copytree(whole, some)
        pruned(some, cuts)
        with StoreReader(some) as reader:
            left, horizon = list(reader.journal()), reader.carried().horizon
        assert len(left) < len(story.records)
        assert left == story.records[-len(left) :] if left else True, "only the oldest go"
        assert horizon <= cuts[-1]
        expected = reading(whole, story.events, horizon)
        assert reading(some, story.events, horizon) == expected
        owed_after_the_cut += len(expected["owed"])


@settings(max_examples=10, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10**6), part=st.floats(0.1, 0.9))
def test_a_damaged_journal_that_has_forgotten_is_read_like_a_damaged_one_that_is_whole(seed: int, part: float) -> None:
    story = Story(seed)
    begin = story.records[0].at if story.records else 0
    with tempfile.TemporaryDirectory() as home:
        whole, some = Path(home, "whole"), Path(home, "some")
        written(whole, story)
        rows = rows_of_journal(whole)
        damage_journal(whole, *random.Random(seed).sample(rows, max(1, len(rows) // 10)))
        shutil.copytree(whole, some)
        pruned(some, [begin + int((story.now - begin) * part)])
        with StoreReader(some) as reader:
            horizon = reader.carried().horizon
        assert reading(some, story.events, horizon) == reading(whole, story.events, horizon)


def test_what_is_left_is_read_like_the_whole() -> None:
    check_one()
    assert owed_after_the_cut > 300, "stories in which nothing is owed prove nothing"


# --- with real brokers ----------------------------------------------------------------------------------


def forget_before(home: Path, instant: int) -> None:
    """Have the journal of a broker that has stopped forget, as its keeper would."""
    loop = Loop()
    with loop.open(home, owner=home.name) as store:
        store.retain(journal_before=instant)
        wait(loop, store)


def test_a_broker_forgets_what_is_old_and_an_audit_of_a_later_time_finds_what_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper_module, "RETAIN_SECONDS", 0.05)
    monkeypatch.setattr(audit_module, "EARLY_SECONDS", 0.5)
    world = World(tmp_path)
    began: list[int] = []

    def told() -> Carried:
        with StoreReader(tmp_path / "b") as reader:
            return reader.carried()

    async def main() -> None:
        async with (
            world.running("ab", {"b": Planted("loss", 25)}),
            world.client("alice", "a") as alice,
            world.client("bob", "b") as bob,
        ):
            async with world.client("carol", "b") as carol:
                await carol.subscribe("TRUE", callback=lambda n: None)
                await bob.subscribe("type = 'quote'", callback=lambda n: None)
                await publish(alice, *range(1, 21))
                await world.acknowledged()
            keeper = world.servers["b"].keeper
            assert keeper is not None
            options = keeper._options
            keeper._options = replace(options, store=replace(options.store, journal_for=0.3))
            async with asyncio.timeout(20):
                while list(told().clients) != ["bob"] or any(one.kind is JournalKind.DELIVER for one in kept()):
                    await asyncio.sleep(0.05)
            keeper._options = options
            await asyncio.sleep(1.0)
            began.append(time.time_ns() // 1_000)
            await publish(alice, *range(21, 41))
            await world.acknowledged()

    def kept() -> list[JournalRecord]:
        with StoreReader(tmp_path / "b") as reader:
            return list(reader.journal())

    asyncio.run(main())
    assert list(told().clients) == ["bob"], "carol has gone before, and bob is there"
    assert JournalKind.ATTACH not in {one.kind for one in kept()}
    with pytest.raises(AuditError, match=r"the journal of 'b' goes back to \d{4}-\d\d-\d\dT.*Z; choose --from"):
        world.audit()
    report = world.audit(since=began[0])
    assert found(report) == [("loss", "bob", 25)]
    assert (report.verdict.publications, report.verdict.owed, report.verdict.sent) == (20, 20, 19)
    assert report.silent == ()


def test_the_instant_that_is_told_can_be_used(tmp_path: Path) -> None:
    world = World(tmp_path)

    async def main() -> None:
        async with world.running("a"), world.client("bob", "a") as bob:
            await bob.subscribe("TRUE", callback=lambda n: None)
            await publish(bob, 1, 2, 3)

    asyncio.run(main())
    forget_before(tmp_path / "a", FOR_EVER)
    result = CliRunner().invoke(app, ["audit", "--from", "1h", "--data", str(tmp_path / "a")])
    assert result.exit_code != 0
    problem = str(result.exception) + result.output
    (instant,) = re.findall(r"goes back to (\S+);", problem)
    later = ["audit", "--from", instant, "--to", "2100-01-01", "--data", str(tmp_path / "a")]
    result = CliRunner().invoke(app, later)
    assert result.exit_code == 1, "nothing is left to judge"
    assert "goes back to" not in str(result.exception) + result.output
