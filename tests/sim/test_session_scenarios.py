"""Random runs with sessions: scopes become session scopes and cease to be, and clients react to what they get.

`make replay SEED=cs...` shows one of them; `hcs...` where subscriptions reach into the past, `cm...` with mappings that
undo each other, `cws...` with clients that roam.
"""

from __future__ import annotations

import pytest
from soaking import spread_seeds

from tidings.sim import Promises, Scenario
from tidings.sim._details import Published

PROMISES = Promises.load()


def run(name: str) -> int:
    """Run a scenario; how many reactions there were."""
    result = Scenario.named(name).run(PROMISES)
    assert not result.violations, result.report()
    details = (record.detail for record in result.network.trace.records)
    return sum(isinstance(detail, Published) and detail.cause is not None for detail in details)


@pytest.mark.req("VIS-704", "VIS-705")
@pytest.mark.parametrize("first", [0, 6])
def test_reactions_appear_in_the_sessions_of_their_causes_and_in_no_others(first: int) -> None:
    assert sum(run(f"cs{seed}") for seed in range(first, first + 6)) > 20


@pytest.mark.req("VIS-704")
@pytest.mark.parametrize("name", ["hcs1", "hcs4", "cm3", "cp2", "cws2", pytest.param("cws5", marks=pytest.mark.soak)])
def test_the_past_mappings_and_places_make_no_difference(name: str) -> None:
    run(name)


def test_a_run_is_replayed_by_its_name() -> None:
    scenario = Scenario.named("hcws7")
    assert scenario.name == "hcws7"
    assert scenario.steps == Scenario.named("hcws7").steps
    assert scenario.sessions
    assert scenario.history
    assert scenario.roaming


def test_a_reaction_to_what_came_down_from_the_root_scope_reaches_all_that_may_see_it() -> None:
    """What a member of nothing published counted as published in the session scope that it came down to."""
    run("hcs1000006")


def test_what_a_new_tree_took_from_the_end_of_a_change_is_told_again() -> None:
    """A broker came back between the word that older versions are over and its neighbours: they kept both for ever."""
    run("hcs9500271")


@pytest.mark.soak
@pytest.mark.parametrize("part", range(2))
def test_seeds_that_nobody_has_tried(part: int) -> None:
    for seed in spread_seeds(part):
        name = f"{('cs', 'cm', 'hcs', 'cws')[seed % 4]}{seed}"
        run(name)
