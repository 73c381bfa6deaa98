"""A window contains what was stamped within it, whatever the order in which it came."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.aggregation.definitions import Aggregate, Count, Max, Panes, Sliding, Tumbling
from tidings.model import AggregateError

MOST = 20_000
arrivals = st.lists(st.tuples(st.integers(0, MOST), st.integers(0, 9), st.integers(0, 900)), max_size=30)
"""When each was published, its value, and how long it took to arrive; less than the lateness."""


@pytest.mark.parametrize("make", [Count, lambda window: Max("x", window=window)], ids=["inverse", "none"])
@given(arrivals, st.sampled_from([(4_000, 1_000), (3_000, 3_000), (500, 250)]), st.lists(st.integers(0, 30_000)))
def test_each_closed_window_is_a_recount_of_what_was_stamped_in_it(
    make: Any, given: list[tuple[int, int, int]], shape: tuple[int, int], ticks: list[int]
) -> None:
    size, slide = shape
    window = Sliding(f"{size}ms", f"{slide}ms")
    aggregate: Aggregate[Any] = make(window=window)
    panes = Panes(aggregate, now_ms=0)
    counts = make is Count
    steps = sorted([(ts + delay, 0, ts, value) for ts, value, delay in given] + [(tick, 1, 0, 0) for tick in ticks])
    told: list[tuple[int, Any]] = []
    for now, closing, ts, value in [*steps, (MOST + size + 2_000, 1, 0, 0)]:
        if closing:
            told += panes.close(now)
        else:
            assert panes.add(ts, 1 if counts else value)
    expected = []
    for end in range(slide, MOST + size + slide, slide):
        inside = [value for ts, value, _ in given if end - size <= ts < end]
        if inside:
            expected.append((end // slide, len(inside) if counts else max(inside)))
    assert told == expected
    assert panes.empty


def test_what_comes_after_its_pane_has_closed_is_counted_and_left_to_history() -> None:
    panes = Panes(Count(window=Tumbling("5s")), now_ms=0)
    assert panes.add(4_999, 1)
    assert list(panes.close(5_999)) == []
    assert panes.add(4_999, 1)
    assert list(panes.close(6_000)) == [(1, 2)]
    assert not panes.add(4_999, 1)
    assert panes.late == 1
    assert panes.add(5_000, 1)
    assert panes.current() == 1


def test_a_clock_that_is_far_ahead_does_not_fill_the_memory() -> None:
    panes = Panes(Count(window=Sliding("10s", "5s")), now_ms=0)
    taken = [panes.add(5_000 * pane, 1) for pane in range(1_000)]
    assert sum(taken) < 20
    assert panes.early == taken.count(False)


@pytest.mark.parametrize(
    ("size", "slide", "said"),
    [
        ("60s", "7s", "a window of 1m is not a multiple of its slide, 7s; take 56s or 1m3s"),
        ("5s", "7s", "take 7s"),
        ("60s", "1ms", r"60,000 panes; at most 10,000 are kept: slide by 6ms or more"),
        ("0s", "0s", "from 1ms to 366d"),
        ("1000d", "1d", "from 1ms to 366d"),
        ("soon", "1s", "'soon' is not a duration"),
        (60, "1s", 'write it like "60s"'),
    ],
)
def test_a_window_that_cannot_be_is_refused_with_one_that_can(size: Any, slide: Any, said: str) -> None:
    with pytest.raises(AggregateError, match=said):
        Sliding(size, slide)
