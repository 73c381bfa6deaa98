"""Which strategy works with which routing, and which settings cannot be."""

from __future__ import annotations

import pytest
from history.history_world import network_of

from tidings.broker import RoutingOptions
from tidings.history import COMBINATIONS, StrategyOptions, check_combination
from tidings.history.caching import (
    BasicReplay,
    BorderBrokerCaching,
    FullReplay,
    JunctionReplay,
    MergingCaching,
    SequenceReplay,
)
from tidings.model import FeatureError, TidingsError

ROUTING = ["flooding", "simple", "identity", "covering", "merging", "imperfect-merging"]
ALLOWED = {
    "local": ["flooding", "simple"],
    "border": ["simple"],
    "merging": ["simple", "identity", "covering", "merging", "imperfect-merging"],
    "replay": ["simple", "identity", "covering", "merging", "imperfect-merging"],
}


@pytest.mark.req("HIS-079")
@pytest.mark.parametrize("routing", ROUTING)
@pytest.mark.parametrize("strategy", COMBINATIONS)
def test_which_strategy_works_with_which_routing(strategy: str, routing: str) -> None:
    if routing in ALLOWED[strategy]:
        check_combination(strategy, RoutingOptions(routing))
    else:
        with pytest.raises(FeatureError, match=f"'{strategy}' .* does not work with routing '{routing}': .* choose"):
            check_combination(strategy, RoutingOptions(routing))


@pytest.mark.req("HIS-079")
def test_a_broker_does_not_start_with_a_combination_that_does_not_work() -> None:
    with pytest.raises(FeatureError, match=r"'border' .* does not work with routing 'covering'"):
        network_of(lambda name: BorderBrokerCaching(), ["ab"], routing=RoutingOptions("covering"))
    with pytest.raises(FeatureError, match=r"'merging' .* needs force_forwards with routing 'identity'"):
        network_of(
            lambda name: MergingCaching(StrategyOptions(force_forwards=False)),
            ["ab"],
            routing=RoutingOptions("identity"),
        )
    with pytest.raises(FeatureError, match="no history strategy is called 'best'"):
        check_combination("best", RoutingOptions())
    with pytest.raises(FeatureError, match="does not work with advertisements"):
        check_combination("local", RoutingOptions("flooding", advertisements=True))


@pytest.mark.req("HIS-080")
def test_every_strategy_says_what_it_needs() -> None:
    kinds = [BorderBrokerCaching, MergingCaching, BasicReplay, JunctionReplay, SequenceReplay, FullReplay]
    assert all(kind.requirements for kind in kinds)
    assert BasicReplay.requirements < JunctionReplay.requirements < SequenceReplay.requirements


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"timer": 0}, "timer = 0 microseconds"),
        ({"max_depth": 0}, "max_depth = 0; 1 is the client's own level"),
        ({"producer_history": 101}, "producer_history = 101 is not within 0 and max_per_filter = 100"),
        ({"producer_history": -1}, "producer_history = -1 is not within"),
        ({"max_answer": 0}, "max_answer = 0; give at least 1"),
    ],
)
def test_settings_that_cannot_be(settings: dict[str, int], message: str) -> None:
    with pytest.raises(TidingsError, match=message):
        StrategyOptions(**settings)  # type: ignore[arg-type]
