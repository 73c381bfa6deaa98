"""What is held back for a subscription that is owed earlier notifications is bounded; the oldest is fetched again."""

from __future__ import annotations

import pytest

from tidings.broker import _suspension as limits
from tidings.broker._suspension import Suspension
from tidings.model import ROOT_ROUTE, Identity
from tidings.wire import Envelope, Quality


def held(count: int, size: int) -> list[int]:
    """The numbers of those that are still held after so many of one size."""
    suspension = Suspension("o", (1, 0), {}, 0)
    for seq in range(1, count + 1):
        identity = Identity("o", 1, seq, "p", seq, 0, 0)
        suspension.hold(Envelope(identity, (ROOT_ROUTE,), b"x" * size, Quality.ACCEPTED), [])
    assert suspension.held_bytes == size * len(suspension.held)
    return [seq for _, seq in suspension.held]


def test_neither_more_notifications_nor_more_bytes_are_held_than_the_limits_say(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "MAX_HELD", 5)
    monkeypatch.setattr(limits, "MAX_HELD_BYTES", 100)
    assert held(5, 20) == [1, 2, 3, 4, 5]
    assert held(7, 1) == [3, 4, 5, 6, 7]
    assert held(5, 40) == [4, 5]
