"""Random runs in which clients watch aggregates, with cuts, crashes, journeys and a past.

`make replay SEED=a...` shows one of them; `ah`, `aw`, `ar` and `as` have a past, journeys, returns and scopes besides.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from promised import PROMISES, holds
from soaking import spread_seeds

from tidings.aggregation import Engine
from tidings.aggregation._forms import Range, Ranges
from tidings.sim import Promises, Scenario
from tidings.sim._aggregates import broken_aggregates

HOLDS = holds("watched-value", "aggregation")
LETTERS = ("a", "ah", "aw", "ar", "as", "am", "ap")
CHUNK = 4


def run(name: str) -> None:
    result = Scenario.named(name).run(PROMISES)
    assert not result.violations, result.report()


@pytest.mark.req("AGG-065", "AGG-074", "AGG-078", "AGG-080")
@pytest.mark.parametrize("letters", LETTERS)
def test_at_rest_every_watched_value_is_within_its_bound(letters: str) -> None:
    assert HOLDS
    for seed in range(CHUNK):
        run(f"{letters}{seed}")


@pytest.mark.parametrize("name", ["a16", "a45", "a73", "as427"])
def test_what_was_broken_once_stays_mended(name: str) -> None:
    """A bound that is no whole number: half of the width of a range of whole numbers was more than it.

    In the last one, a broker is cut off before it has heard of the scope graph.
    """
    run(name)


@pytest.mark.parametrize("name", ["a7", "ah7", "aw7", "ar7", "ahw7", "as7", "ahs7", "aws7"])
def test_a_name_leads_back_to_its_run(name: str) -> None:
    assert Scenario.named(name).name == name


def violations(*, promises: Promises = PROMISES) -> Iterator[str]:
    return (text for seed in range(8) for text in Scenario.named(f"a{seed}").run(promises).violations)


def test_a_broker_that_tells_back_what_it_was_told_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    from tidings.aggregation._state import State

    total = State.total
    monkeypatch.setattr(State, "total", lambda self, but=None: total(self))
    assert any("watched-value" in text or "told" in text for text in violations())


def test_a_range_that_is_never_narrowed_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Ranges, "is_stale", lambda self, told, total, slack, bound: not Range.holds(told, total))
    found = (text for seed in range(30) for text in Scenario.named(f"a{seed}").run(PROMISES).violations)
    assert any("watched-value" in text for text in found)


def test_a_key_that_outlives_its_watchers_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Engine, "_release", lambda self, state: False)
    assert any("of aggregates" in text for text in violations())


def test_the_judge_follows_the_table_of_promises(monkeypatch: pytest.MonkeyPatch) -> None:
    network = Scenario.named("a3").build()
    network.run()
    for client in network.clients.values():
        for watch in client.watches.values():
            watch.results.clear()
    other = Promises({**PROMISES.cells, ("watched-value", "any", "aggregation"): "nothing"})
    assert broken_aggregates(network, PROMISES)
    assert broken_aggregates(network, other) == []


@pytest.mark.soak
@pytest.mark.parametrize("part", range(4))
def test_thousands_of_watches(part: int) -> None:
    for seed in spread_seeds(part):
        run(f"{LETTERS[seed % len(LETTERS)]}{seed}")
