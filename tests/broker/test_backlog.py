"""What is kept back: once for all who are owed the same, in order, and within a limit."""

from __future__ import annotations

import gc
import tracemalloc

import pytest

from tidings.broker import Link, LinkKind, Registration
from tidings.broker.outlets import _backlog
from tidings.broker.outlets._backlog import Backlog, Kept
from tidings.broker.outlets._holds import Hold
from tidings.model import EVERYTHING, ROOT_ROUTE, Identity
from tidings.wire import Envelope, Quality


def outlet(name: str) -> Registration:
    return Registration(Link(name, LinkKind.CLIENT), "s", EVERYTHING)


def notification(seq: int, origin: str = "o", size: int = 1) -> Envelope:
    return Envelope(Identity(origin, 1, seq, "p", seq, 0, 0), (ROOT_ROUTE,), b"x" * size, Quality.ACCEPTED)


def numbers(backlog: Backlog) -> list[int]:
    return [kept.envelope.identity.seq for kept in backlog]


def kept(count: int, size: int) -> list[int]:
    """The numbers of those that are still kept after so many of one size."""
    backlog = Backlog()
    for seq in range(1, count + 1):
        backlog.keep(notification(seq, size=size))
    return numbers(backlog)


def test_neither_more_notifications_nor_more_bytes_are_kept_than_the_limits_say(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_backlog, "MAX_KEPT", 5)
    monkeypatch.setattr(_backlog, "MAX_KEPT_BYTES", 100)
    assert kept(5, 20) == [1, 2, 3, 4, 5]
    assert kept(7, 1) == [3, 4, 5, 6, 7]
    assert kept(5, 40) == [4, 5]


def test_what_is_forgotten_is_known_by_origin_and_in_all_its_forms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_backlog, "MAX_KEPT", 3)
    backlog = Backlog()
    for envelope in (notification(1), notification(1), notification(2), notification(7, "other")):
        backlog.keep(envelope)
    assert numbers(backlog) == [2, 7]
    assert backlog.forgotten == {"o": (1, 1)}
    backlog.clear()
    assert len(backlog) == 0
    assert not backlog.forgotten
    monkeypatch.setattr(_backlog, "MAX_KEPT_BYTES", 3)
    for seq in (1, 2, 3):
        backlog.keep(notification(seq))
    assert numbers(backlog) == [1, 2, 3]  # what was cleared does not count


def test_the_outlets_of_a_notification_are_one_group_and_equal_groups_are_one() -> None:
    x, y, z = map(outlet, "xyz")
    backlog = Backlog()
    for seq in range(1, 5):
        envelope = notification(seq)
        for one in (x, y) if seq % 2 else (z,):
            backlog.keep(envelope, [one])
    assert [one.outlets for one in backlog] == [(x, y), (z,), (x, y), (z,)]
    assert len({id(one.outlets) for one in backlog}) == 2


def test_more_groups_than_are_recognised_are_kept_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_backlog, "MAX_GROUPS", 2)
    outlets = [outlet(f"c{n}") for n in range(5)]
    backlog = Backlog()
    for seq in range(20):
        backlog.keep(notification(seq), [outlets[seq % 5]])
    assert [one.outlets for one in backlog] == [(outlets[seq % 5],) for seq in range(20)]


def test_what_is_ready_is_taken_and_the_rest_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = map(outlet, "xy")
    backlog = Backlog()
    last = notification(4)
    for envelope in (notification(1), notification(2), notification(3), last):
        backlog.keep(envelope, [x])
    taken = backlog.take(lambda one: one.position in {(1, 1), (1, 3)})
    assert [(one.envelope.identity.seq, one.outlets) for one in taken] == [(1, (x,)), (3, (x,))]
    backlog.keep(last, [y])  # still the last one: it reaches another client
    assert list(backlog)[-1] == Kept(last, (x, y))
    assert numbers(backlog) == [2, 4]
    monkeypatch.setattr(_backlog, "MAX_KEPT_BYTES", 4)
    for seq in (5, 6):
        backlog.keep(notification(seq))
    assert numbers(backlog) == [2, 4, 5, 6]  # what was taken does not count
    assert len(backlog.take(lambda one: True)) == 4
    backlog.keep(notification(7), [y])
    assert [one.outlets for one in backlog] == [(y,)]


def test_one_outlet_takes_the_place_of_another() -> None:
    x, y, z = map(outlet, "xyz")
    backlog = Backlog()
    last = notification(3)
    for envelope in (notification(1), notification(2), last):
        backlog.keep(envelope, [x, y])
    backlog.replace(x, z)
    backlog.keep(last, [x])
    assert [one.outlets for one in backlog] == [(z, y), (z, y), (z, y, x)]


def test_a_burst_is_not_kept_once_for_each_outlet() -> None:
    outlets = [outlet(f"c{n}") for n in range(300)]
    envelopes = [notification(seq) for seq in range(300)]
    gc.collect()
    tracemalloc.start()
    try:
        backlog = Backlog()
        for envelope in envelopes:
            for one in outlets:
                backlog.keep(envelope, [one])
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(backlog) == 300
    assert used < 300 * 300  # below a byte for each notification and outlet


# --- a hold and its backlog -----------------------------------------------------------------------------


def held(*seqs: int) -> Hold:
    hold = Hold(outlet("x"), None)  # type: ignore[arg-type]
    for seq in seqs:
        hold.backlog.keep(notification(seq))
    return hold


def test_what_the_past_has_reached_is_not_handed_over_again() -> None:
    assert [one.identity.seq for one in held(3, 4, 5).behind({"o": (1, 3)})] == [4, 5]
    assert [one.identity.seq for one in held(3, 4, 5).behind({"other": (1, 3)})] == [3, 4, 5]


def test_an_origin_owes_what_was_forgotten_unless_the_past_has_reached_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_backlog, "MAX_KEPT", 2)
    hold = held(3, 4, 5)
    assert hold.incomplete({"o": (1, 2)}) == {"o": (1, 2)}
    assert not list(hold.behind({"o": (1, 2)}))  # all of it comes from the origin
    assert hold.incomplete({"o": (1, 3)}) == {}
    assert [one.identity.seq for one in hold.behind({"o": (1, 3)})] == [4, 5]
