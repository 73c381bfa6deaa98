"""How long a slow subscriber may hold others up: so many seconds of any minute, whatever it is called."""

from __future__ import annotations

import pytest

from tidings.net import _patience
from tidings.net._patience import IDENTITY_SHARE, Patience


def test_what_was_spent_comes_back_after_a_minute() -> None:
    patience = Patience(10.0)
    assert patience.left("i", "a", 0.0) == 10.0
    patience.spend("i", "a", 4.0, 5.0)
    patience.spend("i", "a", 6.0, 30.0)
    assert patience.left("i", "a", 30.0) == 0.0
    assert patience.left("i", "a", 66.5) == pytest.approx(4.0)
    assert patience.left("i", "a", 91.5) == pytest.approx(10.0)


def test_no_minute_holds_more_than_the_seconds() -> None:
    patience, now, blocked = Patience(10.0), 0.0, []
    while now < 400.0:
        left = min(patience.left("i", "a", now), 0.7)
        if left:
            patience.spend("i", "a", left, now + left)
            blocked.append((now, now + left))
        now += left + 0.3
    for end in range(60, 400):
        spent = sum(max(0.0, min(two, end) - max(one, end - 60)) for one, two in blocked)
        assert spent <= 10.0 + 1e-6
    assert sum(two - one for one, two in blocked) > 40.0


def test_each_name_has_its_own_seconds_and_an_identity_has_a_bound_for_all_of_its_names() -> None:
    patience = Patience(10.0)
    for number in range(IDENTITY_SHARE):
        assert patience.left("i", f"name-{number}", 1.0) == 10.0
        patience.spend("i", f"name-{number}", 10.0, 1.0)
    assert patience.left("i", "one more", 1.0) == 0.0
    assert patience.left("other", "one more", 1.0) == 10.0


def test_the_table_is_bounded_and_forgets_what_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_patience, "MAX_REMEMBERED", 100)
    patience = Patience(10.0)
    for number in range(100):
        if patience.left(f"i{number}", "a", 1.0):
            patience.spend(f"i{number}", "a", 1.0, 1.0)
    assert 100 <= len(patience._spent) <= 101
    assert patience.left("new", "a", 1.0) == 0.0
    assert patience.left("new", "a", 100.0) == 10.0
