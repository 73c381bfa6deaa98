"""What the cache keeps, for whom, and what it gives back."""

from __future__ import annotations

import pytest
from history.history_world import EAST, FEED, WEST, envelope, f, numbers

from tidings.broker import Link, LinkKind
from tidings.history import CacheLimits
from tidings.history.caching import EventCache, HistoryProvider, ParallelRings, Question, SingleRing
from tidings.model import Notification, TidingsError
from tidings.wire import Envelope

SMALL = CacheLimits(max_global=31, max_filters=3, max_per_filter=10)


def filled(cache: EventCache, count: int = 5, **attributes: object) -> EventCache:
    for seq in range(1, count + 1):
        cache.append(envelope(seq, **attributes), EAST)
    return cache


@pytest.mark.req("HIS-041")
def test_there_must_be_more_cells_than_references() -> None:
    CacheLimits(max_global=151, max_filters=15, max_per_filter=10)
    with pytest.raises(TidingsError, match=r"max_global = 150 .* more than max_filters \* max_per_filter = 15 \* 10"):
        CacheLimits(max_global=150, max_filters=15, max_per_filter=10)
    with pytest.raises(TidingsError, match="max_filters = 0; a limit of a cache is at least 1"):
        CacheLimits(max_global=150, max_filters=0, max_per_filter=10)


@pytest.mark.req("HIS-049")
def test_what_nobody_wants_is_not_kept() -> None:
    cache = EventCache(SMALL)
    assert cache.append(envelope(1), EAST) == 0
    cache.retain(f("n = 2"))
    assert cache.append(envelope(1), EAST) == 0
    assert (cache.cells, cache.bytes) == (0, 0)
    assert cache.append(envelope(2), EAST) == 1
    assert cache.cells == 1


def test_vector_5_reference_counts() -> None:
    """X1 and X2 subscribe F, X3 subscribes G, n matches both; then X3, X1, X2 unsubscribe."""
    cache = EventCache(SMALL)
    x1, x2, x3 = cache.retain(f("n > 0")), cache.retain(f("n > 0")), cache.retain(f("n = 1"))
    assert x1 is x2
    assert x1 is not None
    assert x3 is not None
    assert (x1.refs, x3.refs) == (2, 1)
    cache.append(envelope(1), EAST)
    (cell,) = x1.cells
    assert cell.refs == 2
    assert x3.cells[0] is cell
    cache.release(x3)
    assert cell.refs == 1
    cache.release(x1)
    assert (cell.refs, x1.refs, cache.cells) == (1, 1, 1)
    cache.release(x2)
    assert (len(cache), cache.cells, cache.bytes) == (0, 0, 0)


@pytest.mark.req("HIS-045")
def test_two_ways_to_write_a_filter_are_one_entry() -> None:
    cache = EventCache(SMALL)
    assert cache.retain(f("n > 1 AND n < 9")) is cache.retain(f("n < 9 AND n > 1"))
    assert len(cache) == 1


@pytest.mark.req("HIS-046")
def test_a_new_entry_takes_from_covering_ones_only_what_matches_in_order_of_arrival() -> None:
    """The printed algorithm copies all that a covering filter holds, and orders by cells that are used again."""
    cache = EventCache(SMALL)
    cache.retain(f("kind = 'a'"))
    cache.retain(f("n > 2"))
    cache.retain(f("n < 5"))  # does not cover what follows, and is not looked at
    for seq in range(1, 8):
        cache.append(envelope(seq, kind="ab"[seq % 2]), (EAST, WEST)[seq % 2])
    cache.resize(CacheLimits(max_global=100, max_filters=9, max_per_filter=10))
    entry = cache.retain(f("kind = 'a' AND n > 2"))
    assert entry is not None
    assert numbers(entry.envelopes) == [4, 6]
    (four, _) = entry.cells
    assert four.refs == 4, "what two covering entries hold is taken once"


@pytest.mark.req("HIS-047")
def test_a_full_index_says_so_once_and_goes_on() -> None:
    warnings: list[str] = []
    cache = EventCache(CacheLimits(max_global=3, max_filters=1, max_per_filter=2), warn=warnings.append)
    entry = cache.retain(f("n > 0"))
    assert cache.retain(f("n > 1")) is None
    assert cache.retain(f("n > 2")) is None
    assert cache.rejected == 2
    (warning,) = warnings
    assert "is full with 1 filters; 'n > 1' is delivered but not remembered: raise max_filters" in warning
    cache.release(None)
    filled(cache, 3)
    assert numbers(cache.query(Question(filter=f("n > 0")))) == [2, 3]
    assert numbers(cache.query(Question(filter=f("n > 2")))) == [3], "what a covering entry holds can be had"
    cache.release(entry)
    assert cache.retain(f("n > 1")) is not None


def test_whoever_was_not_remembered_does_not_end_what_others_want() -> None:
    cache = EventCache(CacheLimits(max_global=3, max_filters=1, max_per_filter=2))
    first = cache.retain(f("n > 0"))
    rejected = cache.retain(f("n > 1"))
    cache.release(first)
    wanted = cache.retain(f("n > 1"))
    cache.release(rejected)
    assert list(cache.entries) == [wanted]


@pytest.mark.req("HIS-044")
def test_the_oldest_goes_first() -> None:
    cache = EventCache(SMALL)
    entry = cache.retain(f("n > 0"))
    filled(cache, 25)
    assert entry is not None
    assert numbers(entry.envelopes) == list(range(16, 26))
    assert cache.cells == 10


@pytest.mark.req("HIS-050", "HIS-054")
def test_what_comes_often_does_not_push_out_what_comes_seldom() -> None:
    """It does in a single ring."""
    cache, rings, ring = EventCache(SMALL), ParallelRings(3, 10), SingleRing(20)
    for memory in (cache, rings):
        memory.retain(f("kind = 'seldom'"))
        memory.retain(f("kind = 'often'"))
    for seq in range(1, 101):
        one = envelope(seq, kind="seldom" if seq == 1 else "often")
        for memory in (cache, rings, ring):
            memory.append(one, EAST)
    seldom = Question(filter=f("kind = 'seldom'"))
    assert (numbers(cache.query(seldom)), numbers(rings.query(seldom)), numbers(ring.query(seldom))) == ([1], [1], [])


@pytest.mark.req("HIS-054")
def test_parallel_rings_copy_and_lose_the_order_between_them() -> None:
    cache, rings = EventCache(SMALL), ParallelRings(3, 10)
    for memory in (cache, rings):
        memory.retain(f("n > 3"))
        memory.retain(f("n > 0"))
        for seq in (1, 4, 2, 5, 3):
            memory.append(envelope(seq), EAST)
    assert len(rings) == 7
    assert cache.cells == 5
    for memory in (cache, rings):
        memory.retain(f("n > 1"))
    asked = Question(filter=f("n > 1"))
    assert numbers(cache.query(asked)) == [4, 2, 5, 3]
    assert numbers(rings.query(asked)) == [4, 5, 2, 3]
    rings.release(f("n > 1"))
    assert rings.query(asked) == []
    assert rings.retain(f("n > 7"))
    assert not rings.retain(f("n > 8")), "there are three already"


@pytest.mark.req("HIS-052", "HIS-053")
def test_a_query_takes_the_newest_and_gives_them_oldest_first() -> None:
    cache = EventCache(SMALL)
    everything = f("n > 0")
    cache.retain(everything)
    for seq in range(1, 6):
        cache.append(envelope(seq, "eo"[seq % 2], at=100 + seq), (EAST, WEST)[seq % 2])

    def asked(**question: object) -> list[int]:
        return numbers(cache.query(Question(filter=everything, **question)))  # type: ignore[arg-type]

    assert asked() == [1, 2, 3, 4, 5]
    assert asked(limit=2) == [4, 5]
    assert asked(limit=0) == []
    assert asked(limit=9) == [1, 2, 3, 4, 5]
    assert asked(since=103) == [3, 4, 5], "as old as that is young enough"
    assert asked(since=102, limit=3) == [3, 4, 5]
    assert asked(exclude=WEST) == [2, 4]
    assert asked(have={"o": (1, 3)}) == [1, 2, 4]
    assert asked(have={"o": (1, 3), "e": (1, 2)}, limit=1) == [1]
    assert [(cell.link.name, cell.envelope.identity.seq) for cell in cache.find(Question(filter=everything, limit=2))]
    assert [cell.link for cell in cache.find(Question(filter=everything, limit=2))] == [EAST, WEST]


@pytest.mark.req("HIS-107")
def test_time_is_judged_for_each_notification_and_not_by_the_first_old_one() -> None:
    """Arrival order is not time order across origins: the printed search would stop at the old one in between."""
    cache = EventCache(SMALL)
    cache.retain(f("n > 0"))
    for seq, (origin, at) in enumerate([("a", 50), ("b", 10), ("a", 60)], start=1):
        cache.append(envelope(seq, origin, at=at), EAST)
    assert numbers(cache.query(Question(filter=f("n > 0"), since=40))) == [1, 3]


@pytest.mark.req("HIS-012", "HIS-010")
def test_what_is_kept_is_the_whole_envelope_and_cannot_be_changed() -> None:
    cache = EventCache(SMALL)
    cache.retain(f("n > 0"))
    published = envelope(1, price=7)
    cache.append(published, EAST)
    (kept,) = cache.query(Question(filter=f("n > 0")))
    assert kept == published
    assert kept.identity.published_at == published.identity.published_at
    with pytest.raises(AttributeError):
        kept.body = b""  # type: ignore[misc]
    with pytest.raises(TypeError):
        kept.notification["price"] = 8  # type: ignore[index]


def test_limits_change_at_run_time() -> None:
    cache = EventCache(CacheLimits(max_global=100, max_filters=5, max_per_filter=10))
    kept, dropped = cache.retain(f("n > 0")), cache.retain(f("n > 1"))
    filled(cache, 8)
    cache.resize(CacheLimits(max_global=4, max_filters=1, max_per_filter=3))
    assert list(cache.entries) == [kept]
    assert kept is not None
    assert numbers(kept.envelopes) == [6, 7, 8]
    assert cache.cells == 3
    cache.release(dropped)
    cache.resize(CacheLimits(max_global=100, max_filters=5, max_per_filter=5))
    cache.append(envelope(9), EAST)
    assert numbers(kept.envelopes) == [6, 7, 8, 9]


@pytest.mark.req("HIS-057")
def test_bytes_are_counted_and_bounded() -> None:
    size = len(envelope(1, text="x" * 1000).body)
    cache = EventCache(CacheLimits(max_global=31, max_filters=3, max_per_filter=10, max_bytes=4 * size))
    often, seldom = cache.retain(f("kind = 'often'")), cache.retain(f("kind = 'seldom'"))
    assert often is not None
    assert seldom is not None
    cache.append(envelope(1, kind="seldom"), EAST)
    for seq in range(2, 10):
        cache.append(envelope(seq, kind="often", text="x" * 1000), EAST)
        assert cache.bytes <= 4 * size
    assert cache.bytes == often.bytes + seldom.bytes == sum(len(one.body) for one in often.envelopes + seldom.envelopes)
    assert numbers(often.envelopes) == [7, 8, 9]
    assert numbers(seldom.envelopes) == [1], "the one that holds most gives up its oldest"
    cache.append(envelope(10, kind="often", text="x" * 5000), EAST)
    assert often.envelopes == [], "one that is too large leaves no hole: what was before it goes, too"
    cache.append(envelope(11, kind="often"), EAST)
    assert numbers(often.envelopes) == [11]


@pytest.mark.req("HIS-055")
def test_the_last_of_every_local_publisher_are_kept_without_a_subscriber() -> None:
    other = Link("other", LinkKind.CLIENT)
    cache = EventCache(SMALL)
    entry = cache.retain_producer(FEED, 3)
    quotes = cache.retain_producer(other, 2, f("kind = 'quote'"))
    for seq in range(1, 6):
        assert cache.append(envelope(seq, "feed"), FEED) == 1
        cache.append(envelope(seq, "other", kind="quote" if seq % 2 else "news"), other)
        assert cache.append(envelope(seq, "far"), EAST) == 0
    found = cache.query(Question(filter=f("n > 3")))
    assert [(one.identity.origin, one.identity.seq) for one in found] == [("feed", 4), ("feed", 5), ("other", 5)]
    subscribed = cache.retain(f("n > 0"))
    assert subscribed is not None
    cache.append(envelope(6, "feed"), FEED)
    assert subscribed.cells[0].refs == 2, "kept once, for the publisher and for the subscriber"
    assert numbers(cache.query(Question(filter=f("n > 0"), limit=2))) == [5, 6]
    assert len(cache) == 3
    assert cache.retain(f("n > 1")) is None, "it counts as one of the filters"
    for one in (entry, quotes, subscribed):
        cache.release(one)
    assert (len(cache), cache.cells, cache.bytes) == (0, 0, 0)


@pytest.mark.req("HIS-056")
def test_cache_and_any_other_memory_answer_through_one_port() -> None:
    class Repository:
        """A memory somewhere else, which answers later."""

        def __init__(self, kept: list[Envelope]) -> None:
            self.kept = kept
            self.waiting: list[object] = []

        def ask(self, question: Question, answer: object) -> None:
            found = [one for one in self.kept if question.filter.matches(one.notification) and question.wants(one)]
            self.waiting.append(lambda: answer(found[-(question.limit or len(found)) :]))  # type: ignore[operator]

    cache = EventCache(SMALL)
    cache.retain(f("n > 0"))
    filled(cache)
    repository = Repository([envelope(seq) for seq in range(1, 6)])
    answers: list[list[int]] = []
    providers: list[HistoryProvider] = [cache, repository]
    for provider in providers:
        provider.ask(Question(filter=f("n < 5"), limit=2), lambda found: answers.append(numbers(found)))
    assert answers == [[]], "what no entry covers is not in a cache"
    cache.ask(Question(filter=f("n > 0"), limit=2), lambda found: answers.append(numbers(found)))
    repository.waiting.pop()()  # type: ignore[operator]
    assert answers == [[], [4, 5], [3, 4]]


def test_what_comes_over_an_interrupted_link_is_forgotten() -> None:
    cache = EventCache(SMALL)
    wide, narrow = cache.retain(f("n > 0")), cache.retain(f("n > 2"))
    assert wide is not None
    assert narrow is not None
    for seq in range(1, 6):
        cache.append(envelope(seq), (EAST, WEST)[seq % 2])
    cache.interrupted(EAST, narrow)
    assert (numbers(wide.envelopes), numbers(narrow.envelopes)) == ([1, 2, 3, 4, 5], [3, 5])
    cache.interrupted(EAST)
    assert (numbers(wide.envelopes), numbers(narrow.envelopes)) == ([1, 3, 5], [3, 5])
    assert cache.cells == 3
    assert cache.bytes == wide.bytes == sum(len(one.body) for one in wide.envelopes)


def test_scopes_are_remembered_apart() -> None:
    cache = EventCache(SMALL)
    cache.retain(f("n > 0"), "berlin")
    cache.append(envelope(1), EAST)
    cache.append(envelope(2), EAST, "berlin")
    assert cache.query(Question(filter=f("n > 0"))) == []
    assert numbers(cache.query(Question(filter=f("n > 0"), scope="berlin"))) == [2]


def test_a_filter_without_relations_is_not_remembered() -> None:
    class Odd:
        def matches(self, notification: Notification) -> bool:
            return bool(notification.attributes)

    assert EventCache(SMALL).retain(Odd()) is None
