"""Facts: what has been decided is known exactly, however it came together, and a hole is where recovery goes on."""

import random

import pytest

from tidings.broker import Facts
from tidings.broker._facts import END, MAX_EPOCHS, MAX_RANGES
from tidings.model import EventKey, Position


@pytest.mark.parametrize("seed", range(60))
def test_ranges_know_what_a_set_of_numbers_knows(seed: int) -> None:
    rng = random.Random(seed)
    facts, numbers = Facts(), set()
    for _ in range(60):
        first = rng.randint(1, 60)
        last = first + rng.randint(0, 6)
        if rng.random() < 0.7:
            facts.add("b", 1, first, last)
            numbers |= set(range(first, last + 1))
        else:
            facts.remove(EventKey("b", 1, first))
            numbers.discard(first)
        if rng.random() < 0.1:
            facts = Facts(facts.told())
        assert {n for n in range(1, 80) if EventKey("b", 1, n) in facts} == numbers


@pytest.mark.parametrize("seed", range(60))
def test_who_goes_on_asks_for_everything_that_was_never_decided_or_taken_back(seed: int) -> None:
    rng = random.Random(seed)
    facts, taken_back = Facts(), set()
    begun = rng.randint(1, 10)
    reached = Position(1, begun - 1)
    facts.add("b", 1, begun, begun - 1)
    for _ in range(30):
        seq = reached.seq + rng.randint(1, 3)
        facts.take(EventKey("b", 1, seq), reached)
        reached = Position(1, seq)
    for seq in rng.sample(range(begun, reached.seq + 1), 5):
        facts.remove(EventKey("b", 1, seq))
        taken_back.add(seq)
    assert facts.resume() == {"b": Position(1, min(taken_back) - 1)}
    assert Facts(facts.told()).resume() == facts.resume()


def test_an_epoch_that_was_left_behind_is_decided_to_its_end() -> None:
    facts = Facts()
    facts.take(EventKey("b", 3, 7), Position(3, 4))
    facts.take(EventKey("b", 5, 2), Position(3, 7))
    assert EventKey("b", 3, END) in facts
    assert EventKey("b", 3, 4) not in facts
    assert EventKey("b", 5, 1) in facts
    assert facts.resume() == {"b": Position(5, 2)}


def test_the_facts_of_two_halves_leave_the_hole_between_them() -> None:
    one, other = Facts(), Facts()
    one.add("b", 1, 1, 10)
    other.add("b", 1, 13, 20)
    one.merge(other)
    assert one.resume() == {"b": Position(1, 10)}
    assert [n for n in range(8, 22) if EventKey("b", 1, n) not in one] == [11, 12, 21]


def test_too_many_ranges_give_the_oldest_hole_back_as_lost() -> None:
    facts = Facts()
    for number in range(MAX_RANGES + 1):
        facts.add("b", 1, 2 * number + 1, 2 * number + 1)
    assert facts.holes == [("b", 1, 2, 2)]
    assert EventKey("b", 1, 2) in facts
    assert EventKey("b", 1, 4) not in facts


def test_epochs_beyond_the_limit_count_as_decided() -> None:
    facts = Facts()
    for epoch in range(1, MAX_EPOCHS + 2):
        facts.add("b", epoch, 1, 5)
    assert EventKey("b", 1, 99) in facts
    assert EventKey("b", 2, 99) not in facts
