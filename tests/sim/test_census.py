"""In which states the subscriptions of random runs are, and how they change: nothing that the tables do not know."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest
from soaking import spread_seeds

from tidings.broker import TABLES, Announcing, Debt, Delivering
from tidings.sim import Census, Scenario, State
from tidings.sim._census import Transition

LETTERS = ("", "s", "h", "hs", "p", "r", "w", "ws")
ARCHITECTURE = Path(__file__).parents[2] / "docs" / "architecture.md"


def count(census: Census, name: str) -> None:
    network = Scenario.named(name).build()
    census.watch(network)
    network.run()


def test_random_runs_meet_many_states_and_ways_and_no_others() -> None:
    census = Census()
    for seed, letter in itertools.product((1, 3), LETTERS):
        count(census, f"{letter}{seed}")
    assert census.strange == []
    assert len({state.kinds for state in census.states}) >= 10
    ways = {(step.table, step.before, step.after) for step in census.steps}
    rows = {(table, row.before, row.after) for table, all in TABLES.items() for row in all if row.before != row.after}
    assert len(rows & ways) >= len(rows) - 2  # most rows are met even in these few


@pytest.mark.soak
@pytest.mark.parametrize("part", range(8))
def test_no_other_state_is_met_in_thousands_of_runs(part: int) -> None:
    census = Census()
    for seed in spread_seeds(part):
        count(census, f"{LETTERS[seed % len(LETTERS)]}{seed}")
    assert census.strange == []


@pytest.mark.parametrize(
    "step",
    [
        Transition("announcing", None, Announcing.SETTLED),
        Transition("announcing", Announcing.PLACING, Announcing.SETTLED),
        Transition("debt of one origin", None, Debt.ASKED),
    ],
)
def test_two_rows_may_be_taken_in_one_turn(step: Transition) -> None:
    census = Census()
    census.steps[step] += 1
    assert census.strange == []


def test_what_no_rows_explain_is_strange() -> None:
    census = Census()
    census.steps[Transition("delivering", Delivering.OPEN, Delivering.HELD)] += 1
    census.states[State(Announcing.SETTLED, Delivering.HELD, frozenset({("b", Debt.WAITING)}))] += 1
    assert census.strange == ["settled, held, owed waiting", "delivering: open to held"]


def test_the_page_shows_these_tables() -> None:
    text = ARCHITECTURE.read_text()
    for name, rows in TABLES.items():
        shown = [
            f"| {row.before.value.upper() if row.before else '-'} | {row.event} "
            f"| {row.after.value.upper() if row.after else '-'} | {row.action} |"
            for row in rows
        ]
        (table,) = re.findall(
            rf"\| {name} \| event \| becomes \| action \|\n\|---\|---\|---\|---\|\n((?:\|.*\n)+)", text
        )
        assert table.splitlines() == shown
