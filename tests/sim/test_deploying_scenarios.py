"""Random runs in which clients deploy, upgrade and end code while others watch it, with cuts, crashes and journeys.

`make replay SEED=d...` shows one of them; `dh`, `dw`, `dr` and `da` have a past, journeys, returns and counts besides.
"""

from __future__ import annotations

import pytest
from promised import PROMISES, holds
from soaking import spread_seeds

from tidings.aggregation import Aggregation, messages
from tidings.aggregation._named import NamedWatches
from tidings.aggregation.deploying import Registry
from tidings.sim import Promises, Scenario
from tidings.sim._actions import Verb
from tidings.sim._versions import Versions, broken_versions

HOLDS = holds("deployed-version", "aggregation")
LETTERS = ("d", "dh", "dw", "dr", "da")
QUICK = ("d4", "d8", "d24", "d31", "d32", "d49", "d54", "d57", "d66", "d70", "d74", "dw9", "dh5", "da3")
"""Runs that are short, and have upgrades, ends, cuts and, some of them, nothing that fails."""

ONCE_BROKEN = (
    "dw9300856",  # of three watches, the first asked for a third version before the others let go of one
    "d9500068",  # two upgrades of one version met, and neither had a value yet when that version ended
)


def violations(name: str) -> list[str]:
    return Scenario.named(name).run(PROMISES).violations


@pytest.mark.req("AGG-110", "AGG-160", "AGG-185")
@pytest.mark.parametrize("name", QUICK)
def test_versions_are_never_mixed_lost_or_left(name: str) -> None:
    assert HOLDS
    result = Scenario.named(name).run(PROMISES)
    assert not result.violations, result.report()


@pytest.mark.parametrize("name", ONCE_BROKEN)
def test_a_run_that_broke_once_holds(name: str) -> None:
    assert violations(name) == []


@pytest.mark.parametrize("name", ["d7", "dh7", "dw7", "dr7", "da7", "dahw7"])
def test_a_name_leads_back_to_its_run(name: str) -> None:
    assert Scenario.named(name).name == name


@pytest.mark.parametrize("name", ["dw2000027", "d7", "dh5"])
def test_every_watch_of_a_run_ends(name: str) -> None:
    """What is watched is told of every window: in dw2000027 one watch began after the last was ended, and went on."""
    steps = Scenario.named(name).steps
    for begun in (step for step in steps if step.verb is Verb.WATCH):
        assert any(
            step.verb is Verb.UNWATCH and (step.who, step.id) == (begun.who, begun.id) and step.at > begun.at
            for step in steps
        ), begun


@pytest.mark.soak
def test_a_long_run_with_deployments_comes_to_rest() -> None:
    assert violations("dw2000027") == []


def test_upgrades_are_among_these_runs() -> None:
    scenario = Scenario.named("d54")
    network = scenario.build()
    versions = Versions(network, calm=True)
    network.run()
    assert {version for _, version in versions.told} == {"1.0.0", "3.0.0"}
    assert broken_versions(network, versions, PROMISES) == []


def test_a_value_of_two_versions_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    made = messages.Result

    def mixed(id: str, value: object, *more: object, **others: object) -> messages.Result:
        value = value + 1009 if isinstance(value, int) and value else value
        return made(id, value, *more, **others)  # type: ignore[arg-type]

    monkeypatch.setattr("tidings.aggregation._watches.Result", mixed)
    assert any("U1" in text for name in ("d31", "d32", "d54") for text in violations(name))


def test_a_watch_that_goes_over_too_early_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    told = NamedWatches.told
    monkeypatch.setattr(NamedWatches, "told", lambda self, request, complete: told(self, request, True))
    assert any("U2" in text for name in ("d20", "d31", "d32", "d54", "d58", "d74") for text in violations(name))


def test_a_third_version_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidings.aggregation.deploying._registry.SIDE_BY_SIDE", 9)
    monkeypatch.setattr("tidings.aggregation._acceptance.SIDE_BY_SIDE", 9)
    names = ("d31", "d54", "d70", "d66", "d57", "d17", "d40")
    assert any("U3" in text for name in names for text in violations(name))


def test_what_is_told_of_a_version_that_has_ended_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Aggregation, "_deployed_changed", lambda self, name: None)
    found = [text for name in ("d4", "d49", "d57", "d66", "d70", "d8") for text in violations(name)]
    assert any("U4" in text for text in found)


def test_brokers_that_do_not_compare_what_they_know_are_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Registry, "lacking", lambda self, theirs: iter(()))
    assert any("different statements" in text for seed in range(1, 30, 2) for text in violations(f"d{seed}"))


def test_the_judge_follows_the_table_of_promises() -> None:
    network = Scenario.named("d4").build()
    versions = Versions(network, calm=False)
    versions.broken.append("something")
    other = Promises({**PROMISES.cells, ("deployed-version", "any", "aggregation"): "nothing"})
    assert broken_versions(network, versions, PROMISES) == ["deployed-version: something"]
    assert broken_versions(network, versions, other) == []


@pytest.mark.soak
@pytest.mark.parametrize("part", range(2))
def test_thousands_of_deployments(part: int) -> None:
    for seed in spread_seeds(part):
        name = f"{LETTERS[seed % len(LETTERS)]}{seed}"
        assert not (result := Scenario.named(name).run(PROMISES)).violations, result.report()
