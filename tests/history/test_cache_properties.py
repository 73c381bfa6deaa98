"""The cache against a model of it that is too slow to be wrong, over random histories."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from bench._naive_index import NaiveIndex
from history.history_world import EAST, FEED, WEST, envelope, f, numbers
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from strategies import SOAK_SLOWLY

from tidings.broker import Link
from tidings.history import CacheLimits
from tidings.history.caching import CacheEntry, EventCache, Question
from tidings.wire import Envelope

FILTERS = [
    f(text) for text in ("n >= 0", "n > 5", "k = 1", "k = 2", "k = 1 AND n > 5", "k IN (1, 2)", "n > 5 OR k = 3")
]
LINKS = [EAST, WEST, FEED]


@dataclass
class Remembered:
    """What an entry must hold: the numbers of its notifications, and how many want it."""

    refs: int
    held: list[int] = field(default_factory=list)
    handles: list[CacheEntry | None] = field(default_factory=list)
    since: int = 0


class CacheMachine(RuleBasedStateMachine):
    @initialize(filters=st.integers(1, 6), each=st.integers(1, 4), spare=st.integers(1, 5))
    def begin(self, filters: int, each: int, spare: int) -> None:
        self.limits = CacheLimits(max_global=filters * each + spare, max_filters=filters, max_per_filter=each)
        self.cache = EventCache(self.limits)
        self.passed: list[tuple[Envelope, Link]] = []
        self.entries: dict[int, Remembered] = {}
        self.rejected = 0

    @rule(kind=st.integers(1, 4), link=st.sampled_from(LINKS))
    def notification(self, kind: int, link: Link) -> None:
        one = envelope(len(self.passed) + 1, link.name, k=kind)
        self.passed.append((one, link))
        matching = [entry for at, entry in self.entries.items() if FILTERS[at].matches(one.notification)]
        assert self.cache.append(one, link) == len(matching)
        for entry in matching:
            entry.held = [*entry.held, len(self.passed)][-self.limits.max_per_filter :]

    @rule(at=st.integers(0, len(FILTERS) - 1))
    def subscription(self, at: int) -> None:
        handle = self.cache.retain(FILTERS[at])
        known = self.entries.get(at)
        if known is not None:
            known.refs += 1
        elif len(self.entries) == self.limits.max_filters:
            assert handle is None
            self.rejected += 1
            return
        else:
            covering = [entry for other, entry in self.entries.items() if FILTERS[other].covers(FILTERS[at])]
            held = {number for entry in covering for number in entry.held if self.matches(at, number)}
            known = self.entries[at] = Remembered(
                1, sorted(held)[-self.limits.max_per_filter :], since=len(self.passed)
            )
        assert handle is not None
        known.handles.append(handle)

    @rule(at=st.integers(0, len(FILTERS) - 1))
    def unsubscription(self, at: int) -> None:
        if (known := self.entries.get(at)) is not None:
            self.cache.release(known.handles.pop())
            known.refs -= 1
            if not known.refs:
                del self.entries[at]

    @rule(each=st.integers(1, 5))
    def resize(self, each: int) -> None:
        self.limits = CacheLimits(
            max_global=self.limits.max_filters * each + 1, max_filters=self.limits.max_filters, max_per_filter=each
        )
        self.cache.resize(self.limits)
        for entry in self.entries.values():
            entry.held = entry.held[-each:]

    @rule(at=st.integers(0, len(FILTERS) - 1), limit=st.integers(0, 5), link=st.sampled_from([*LINKS, None]))
    def query(self, at: int, limit: int, link: Link | None) -> None:
        known = self.entries.get(at)
        if known is not None:
            held = known.held
        else:
            covering = [entry for other, entry in self.entries.items() if FILTERS[other].covers(FILTERS[at])]
            held = sorted({number for entry in covering for number in entry.held if self.matches(at, number)})
        expected = [number for number in held if self.passed[number - 1][1] is not link]
        found = self.cache.query(Question(filter=FILTERS[at], limit=limit, exclude=link))
        assert numbers(found) == (expected[-limit:] if limit else [])

    def matches(self, at: int, number: int) -> bool:
        return FILTERS[at].matches(self.passed[number - 1][0].notification)

    # --- what always holds ----------------------------------------------------------------------------

    def of(self, at: int) -> CacheEntry:
        entry = self.cache.entry(FILTERS[at])
        assert entry is not None
        return entry

    @invariant()
    def entries_hold_what_the_model_holds(self) -> None:
        assert len(self.cache) == len(self.entries) <= self.limits.max_filters
        assert self.cache.rejected == self.rejected
        for at, known in self.entries.items():
            assert self.of(at).refs == known.refs
            assert numbers(self.of(at).envelopes) == known.held

    @invariant()
    def references_are_counted_and_nothing_is_kept_without_one(self) -> None:
        referenced: dict[int, int] = {}
        cells = {}
        for at in self.entries:
            for cell in self.of(at).cells:
                referenced[id(cell)] = referenced.get(id(cell), 0) + 1
                cells[id(cell)] = cell
        assert {key: cell.refs for key, cell in cells.items()} == referenced
        assert self.cache.cells == len(cells) <= self.limits.max_filters * self.limits.max_per_filter
        assert self.cache.cells < self.limits.max_global
        assert self.cache.bytes == sum(len(cell.envelope.body) for cell in cells.values())
        assert len({cell.arrival for cell in cells.values()}) == len(cells), "each notification is stored once"

    @invariant()
    def everything_matches_and_arrived_in_this_order(self) -> None:
        for at in self.entries:
            entry = self.of(at)
            assert all(FILTERS[at].matches(one.notification) for one in entry.envelopes)
            arrivals = [cell.arrival for cell in entry.cells]
            assert arrivals == sorted(set(arrivals))
            assert entry.bytes == sum(len(one.body) for one in entry.envelopes)

    @invariant()
    def an_entry_is_a_suffix_of_what_matched_since_it_began(self) -> None:
        for at, known in self.entries.items():
            matched = [number for number in range(1, len(self.passed) + 1) if self.matches(at, number)]
            held = numbers(self.of(at).envelopes)
            young = [number for number in matched if number > known.since]
            assert held == matched[len(matched) - len(held) :]
            assert held[-len(young) :] == young[-len(held) :] if held and young else True

    def teardown(self) -> None:
        for known in getattr(self, "entries", {}).values():
            for handle in known.handles:
                self.cache.release(handle)
        if hasattr(self, "cache"):
            assert (len(self.cache), self.cache.cells, self.cache.bytes) == (0, 0, 0)


@pytest.mark.req("HIS-040", "HIS-043", "HIS-044", "HIS-045", "HIS-046", "HIS-048")
class TestCache(CacheMachine.TestCase):
    settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


@pytest.mark.soak
class TestCacheForLong(CacheMachine.TestCase):
    settings = settings(SOAK_SLOWLY, stateful_step_count=60)


@pytest.mark.req("HIS-051")
def test_the_index_finds_the_entries_that_asking_all_would_find_with_fewer_comparisons(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What layers of mergers above the entries were for."""
    from tidings.model import Constraint, operators

    asked = 0
    count = 600

    def counting(passes: object) -> object:
        def counted(self: Constraint, value: object) -> bool:
            nonlocal asked
            asked += 1
            return passes(self, value)  # type: ignore[operator, no-any-return]

        return counted

    for kind in (operators.Equal, operators.Range):
        monkeypatch.setattr(kind, "passes", counting(kind.passes))
    cache = EventCache(CacheLimits(max_global=count * 10 + 1, max_filters=count, max_per_filter=10))
    naive: NaiveIndex[int] = NaiveIndex()
    for at in range(count):
        filter = f(f"k = {at // 3} AND n > {at % 3}")
        cache.retain(filter)
        naive.add(filter, at)
    passing = [envelope(seq % 5, k=seq % 100) for seq in range(200)]
    asked = 0
    by_asking = [len(naive.match(one.notification)) for one in passing]
    asked_naively, asked = asked, 0
    by_index = [cache.append(one, EAST) for one in passing]
    assert by_index == by_asking
    assert sum(by_index) > 100
    assert asked * 50 < asked_naively
