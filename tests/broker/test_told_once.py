"""A gap is told once: whoever tells it again knows less, or no more."""

from __future__ import annotations

import pytest

from tidings.broker._local_subscription import LocalSubscription
from tidings.model import EVERYTHING, Identity
from tidings.wire import Gap, Subscribe

A = "a"
"""The origin of these tests."""


def subscription() -> LocalSubscription:
    return LocalSubscription(Subscribe("s", EVERYTHING), lambda notification: None)


def gap(first: int, last: int | None, epoch: int = 1) -> Gap:
    return Gap(A, epoch, first, last)


def arrives(one: LocalSubscription, seq: int, epoch: int = 1) -> None:
    assert not one.has_passed(Identity(A, epoch, seq, "p", seq, 0), False)


@pytest.mark.parametrize("again", [gap(3, 3), gap(6, 8), gap(3, None), gap(9, None)])
def test_an_origin_that_was_gone_knows_more_when_it_is_back_but_no_news(again: Gap) -> None:
    one = subscription()
    assert not one.has_heard(gap(3, None))
    assert one.has_heard(again)


def test_a_broker_that_has_forgotten_how_far_one_had_come_tells_no_news() -> None:
    one = subscription()
    assert not one.has_heard(gap(6, None))
    assert one.has_heard(gap(3, None))
    assert not one.has_heard(gap(3, 4)), "this is another loss, and its end is known"


def test_a_gap_without_an_end_ends_with_what_comes_next() -> None:
    one = subscription()
    assert not one.has_heard(gap(3, None))
    arrives(one, 12)
    assert one.has_heard(gap(10, 11))
    assert not one.has_heard(gap(13, None))


def test_what_was_delivered_before_ends_no_gap() -> None:
    one = subscription()
    arrives(one, 9)
    assert not one.has_heard(gap(3, None)), "another filter may be owed what comes before"
    assert one.has_heard(gap(6, 8))


def test_behind_a_mark_nothing_is_told_again() -> None:
    one = subscription()
    assert not one.has_heard(gap(10, 10))
    one.mark({A: (1, 11)})
    assert one.gaps == {}, "nothing has to be remembered"
    assert one.has_heard(gap(10, 10))
    assert not one.has_heard(gap(12, 12))


def test_a_mark_of_the_same_epoch_ends_no_gap_without_an_end_and_one_of_the_next_does() -> None:
    one = subscription()
    assert not one.has_heard(gap(2, None))
    one.mark({A: (1, 4)})
    assert one.has_heard(gap(5, 5))
    one.mark({A: (2, 0)})
    assert one.has_heard(gap(1, None))
    assert not one.has_heard(gap(1, None, epoch=2))


def test_what_was_handed_over_is_no_news_of_a_gap_either() -> None:
    one = subscription()
    arrives(one, 2)
    assert not one.has_heard(gap(3, None))
    assert one.has_heard(gap(2, 3)), "a broker that knows less begins with what has come"


@pytest.mark.parametrize("mark", [1, 5, 9])
def test_what_marks_do_not_speak_of_is_news_if_it_begins_earlier(mark: int) -> None:
    one = subscription()
    one.mark({A: (1, mark)})
    assert not one.has_heard(gap(mark + 1, None))
    earlier = Gap(A, 1, 1, None, unmarked=True)
    assert not one.has_heard(earlier)
    assert one.has_heard(earlier)
    assert one.has_heard(Gap(A, 1, 2, None, unmarked=True))
    assert one.has_heard(gap(mark + 2, None))


def test_what_marks_do_not_speak_of_is_news_in_an_earlier_epoch_too() -> None:
    one = subscription()
    one.mark({A: (2, 3)})
    assert one.has_heard(gap(4, None))
    assert not one.has_heard(Gap(A, 1, 4, None, unmarked=True))
