"""In which states the subscriptions of random runs are: none that the tables do not know."""

from __future__ import annotations

import itertools

import pytest
from soaking import spread_seeds

from tidings.sim import Announcing, Census, Debt, Delivering, Scenario, State

LETTERS = ("", "s", "h", "hs", "p", "r")


def count(census: Census, name: str) -> None:
    network = Scenario.named(name).build()
    census.watch(network)
    network.run()


def check(census: Census) -> None:
    """HELD excludes debts, and an origin owes a subscription one thing at a time."""
    wrong = [str(state) for state in census.states if state.owed_twice or (_held(state) and state.debts)]
    assert wrong == []


def _held(state: State) -> bool:
    return state.delivering is Delivering.HELD


KNOWN = {
    State(announcing, delivering, frozenset(debts))
    for announcing, delivering in itertools.product(Announcing, Delivering)
    for debts in ((), (Debt.WAITING,), (Debt.ASKED,), tuple(Debt))
    if delivering is Delivering.OPEN or not debts
}


def test_random_runs_meet_many_states_and_no_others() -> None:
    census = Census()
    for seed, letter in itertools.product((1, 3), LETTERS):
        count(census, f"{letter}{seed}")
    check(census)
    assert set(census.states) <= KNOWN
    assert len(census.states) >= 10
    assert len(census.transitions) >= 30


@pytest.mark.soak
@pytest.mark.parametrize("part", range(8))
def test_no_other_state_is_met_in_thousands_of_runs(part: int) -> None:
    census = Census()
    for seed in spread_seeds(part):
        count(census, f"{LETTERS[seed % len(LETTERS)]}{seed}")
    check(census)
    assert set(census.states) <= KNOWN
