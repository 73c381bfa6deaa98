"""A store behaves like plain lists and dictionaries, in whatever order it is used, across restarts and crashes."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from hypothesis import settings, stateful
from hypothesis import strategies as st
from store_world import Loop, envelope, numbers

from tidings.store import Bounds, JournalKind, JournalRecord, Store

KEYS = st.sampled_from(["a", "b", "ü"])


class StoreMachine(stateful.RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.home = Path(tempfile.mkdtemp())
        self.generation = 0
        self.loop = Loop()
        self.seq = 0
        self.time = 0
        self.kept: dict[int, list[int]] = {}
        self.state: dict[str, bytes] = {}
        self.lines: list[JournalRecord] = []
        self.window: dict[str, int] = {}
        self.ends: dict[int, int | None] = {}
        self.store: Store
        self.open()

    def open(self) -> None:
        before = max(self.ends, default=0)
        self.store = self.loop.open(self.home / str(self.generation))
        assert self.store.epoch > before
        self.seq = 0
        self.unlogged = False
        self.kept[self.store.epoch] = []
        self.ends[self.store.epoch] = None

    def settle(self) -> None:
        """Wait until everything is answered, so that the writer rests."""
        answered: list[bool] = []
        self.store.put("barrier", "", b"", lambda: answered.append(True))
        while not answered:
            self.loop.turn()

    @stateful.rule(count=st.integers(1, 700), gap=st.integers(0, 2), publisher=KEYS)
    def append(self, count: int, gap: int, publisher: str) -> None:
        for _ in range(count):
            self.seq += 1 + gap
            self.store.append(envelope(self.store.epoch, self.seq, publisher), lambda: None)
            self.kept[self.store.epoch].append(self.seq)
        self.window[publisher] = max(self.window.get(publisher, 0), self.seq)

    @stateful.rule(key=KEYS, value=st.binary(max_size=5))
    def put(self, key: str, value: bytes) -> None:
        self.store.put("t", key, value)
        self.state[key] = value

    @stateful.rule(key=KEYS)
    def delete(self, key: str) -> None:
        self.store.delete("t", key)
        self.state.pop(key, None)

    @stateful.rule(step=st.integers(-2, 3))
    def record(self, step: int) -> None:
        self.time = max(0, self.time + step)
        self.lines.append(JournalRecord(JournalKind.ATTACH, self.time, "c"))
        self.store.record(self.lines[-1])

    @stateful.rule()
    def note_unlogged(self) -> None:
        self.store.note_unlogged(lambda: None)
        self.unlogged = True

    @property
    def end(self) -> int | None:
        """What is known of the end of this epoch, if it crashes now."""
        return None if self.unlogged else self.seq

    @stateful.rule(clean=st.booleans())
    def restart(self, clean: bool) -> None:
        self.ends[self.store.epoch] = self.seq + 1 if clean else self.end
        self.store.close(last_seq=self.seq + 1 if clean else None)
        self.open()

    @stateful.rule()
    def crash(self) -> None:
        """Go on with a copy of the files as they are while the store is open."""
        self.settle()
        before, self.generation = self.home / str(self.generation), self.generation + 1
        shutil.copytree(before, self.home / str(self.generation), ignore=shutil.ignore_patterns("*-shm", "*.lock"))
        self.ends[self.store.epoch] = self.end
        self.store.close(last_seq=self.seq)
        self.open()

    @stateful.invariant()
    def running_broker_sees_everything(self) -> None:
        assert self.store.items("t") == self.state
        for epoch, kept in self.kept.items():
            assert numbers(self.store, epoch) == kept
            middle = kept[len(kept) // 2] if kept else 0
            assert numbers(self.store, epoch, middle) == [seq for seq in kept if seq > middle]

    @stateful.rule(start=st.integers(0, 10), length=st.integers(0, 10))
    def synced_things_are_read_back(self, start: int, length: int) -> None:
        self.settle()
        latest = {publisher: numbers[-1] for publisher, numbers in self.store.publishers().items()}
        assert latest == self.window
        assert list(self.store.journal()) == self.lines
        inside = [line for line in self.lines if start <= line.at < start + length]
        assert list(self.store.journal(start, start + length)) == inside
        for epoch, kept in self.kept.items():
            assert self.store.bounds(epoch) == (Bounds(kept[0], kept[-1]) if kept else None)
            assert self.store.ended(epoch) == self.ends[epoch]
        assert self.store.epochs() == tuple(self.kept)

    def teardown(self) -> None:
        self.store.close()
        shutil.rmtree(self.home)


StoreMachine.TestCase.settings = settings(max_examples=15, stateful_step_count=15, deadline=None)
TestStoreMachine = StoreMachine.TestCase
