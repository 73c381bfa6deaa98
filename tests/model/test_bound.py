"""Bounds: what can be asked of the past, and what is refused with a reason."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

import tidings
from tidings.model import MAX_COUNT, Bound, BoundError, last, since

MINUTE = 60_000_000


@pytest.mark.req("HIS-020")
def test_a_bound_is_a_number_a_time_or_both() -> None:
    assert last(10) == Bound(10)
    assert since("5m") == since(300) == since(timedelta(minutes=5)) == Bound(None, 5 * MINUTE)
    assert last(10, since="5m") == Bound(10, 5 * MINUTE)
    assert tidings.last is last
    assert tidings.since is since


def test_an_instant_is_one_for_everybody() -> None:
    moment = datetime(2026, 1, 2, 3, tzinfo=UTC)
    assert since(moment) == since(moment.replace(tzinfo=None)) == Bound(None, None, 1_767_322_800_000_000)
    assert since(moment.astimezone(timezone(timedelta(hours=5)))) == since(moment)


@pytest.mark.req("HIS-106")
def test_a_duration_counts_from_when_the_subscription_came() -> None:
    assert since("5m").reference(1_000 * MINUTE) == 995 * MINUTE
    assert since(datetime(1970, 1, 1, 0, 7)).reference(1_000 * MINUTE) == 7 * MINUTE
    assert last(3).reference(1_000 * MINUTE) is None


def test_last_0_is_a_plain_subscription() -> None:
    assert last(0).asks_for_nothing
    assert not last(1).asks_for_nothing


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: last(-1), "last(-1): give a number from 0"),
        (lambda: last(MAX_COUNT + 1), f"from 0 to {MAX_COUNT:,}"),
        (lambda: last(2.5), "last(2.5): give a whole number"),
        (lambda: last(True), "last(True): give a whole number"),
        (lambda: last("5m"), "use since(...) for a time"),
        (lambda: since(0), "above 0"),
        (lambda: since(-3), "above 0"),
        (lambda: since("-5m"), "'-5m' is not a duration; write one like 90s"),
        (lambda: since("5 minutes"), "'5 minutes' is not a duration"),
        (lambda: since(""), "'' is not a duration"),
        (lambda: since(float("nan")), "nan is not a usable number of seconds"),
        (lambda: since(float("inf")), "inf is not a usable number of seconds"),
        (lambda: since("9999999w"), "of at most a century"),
        (lambda: since("9" * 400 + "h"), "of at most a century"),
        (lambda: since(None), "NoneType is neither a duration nor an instant"),
        (lambda: since(True), "bool is neither"),
        (lambda: last(1, since=-1), "above 0"),
        (lambda: Bound().check(), "use last(n) or since(...)"),
        (lambda: Bound(1, 2, 3).check(), "cannot have both a duration and an instant"),
        (lambda: Bound(None, None, 2**63).check(), "no such time exists"),
        (lambda: since(datetime(2030, 1, 1)).check(now=0), 'since("2030-01-01T00:00:00+00:00") lies in the future'),
    ],
)
def test_what_cannot_be_is_refused_with_a_reason(make, words: str) -> None:
    with pytest.raises(BoundError) as refused:
        make()
    assert words in str(refused.value)


def test_a_clock_may_be_a_little_ahead() -> None:
    Bound(None, None, 50_000_000).check(now=0)


@pytest.mark.parametrize("bound", [last(3), since("1h30m"), last(7, since="90s"), since(0.0015), since("8d1ms")])
def test_a_bound_is_shown_as_it_is_written(bound: Bound) -> None:
    assert eval(str(bound), {"last": last, "since": since}) == bound
