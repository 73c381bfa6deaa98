"""What a queue drops is told by few gaps, for just the subscriptions that lost something."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidings.net._losses import Losses
from tidings.wire import Gap

LOST = st.lists(
    st.tuples(
        st.sampled_from(["a", "b"]),
        st.integers(1, 2),
        st.integers(1, 40),
        st.sets(st.sampled_from("stuvw"), min_size=1),
    ),
    max_size=40,
)


def told(losses: Losses, most: int) -> list[Gap]:
    return list(losses.gaps(most))


@given(LOST, st.integers(1, 6))
def test_every_loss_is_told_to_those_who_lost_it_and_to_nobody_who_lost_nothing(lost, most: int) -> None:
    losses = Losses()
    for origin, epoch, number, ids in lost:
        losses.add(Gap(origin, epoch, number, number, tuple(ids)))
    gaps = told(losses, most)
    for origin, epoch, number, ids in lost:
        for id in ids:
            within = [
                gap
                for gap in gaps
                if (gap.origin, gap.epoch) == (origin, epoch)
                and id in gap.subscriptions
                and gap.last is not None
                and gap.first <= number <= gap.last
            ]
            assert len(within) == 1
    for gap in gaps:
        for id in gap.subscriptions:
            assert any((gap.origin, gap.epoch) == one[:2] and id in one[3] for one in lost)
    assert len(gaps) <= most * len({one[:2] for one in lost})


def test_a_gap_without_an_end_stays_without() -> None:
    losses = Losses()
    losses.add(Gap("a", 1, 5, None, ("s",)))
    losses.add(Gap("a", 1, 3, 3, ("s",)))
    assert told(losses, 8) == [Gap("a", 1, 3, None, ("s",))]


def test_what_marks_do_not_speak_of_stays_so_for_those_whom_it_concerns() -> None:
    losses = Losses()
    losses.add(Gap("a", 1, 5, None, ("s",), unmarked=True))
    losses.add(Gap("a", 1, 3, 3, ("s", "t")))
    assert told(losses, 8) == [Gap("a", 1, 3, None, ("s",), unmarked=True), Gap("a", 1, 3, 3, ("t",))]
