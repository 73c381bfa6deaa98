"""Which caching strategy works with which routing, and what each needs of the service underneath."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from tidings.broker import RoutingOptions
from tidings.model import FeatureError


class Requirement(enum.Enum):
    """Something that a strategy needs of the service underneath."""

    FILTER_IDENTITY = "equal filters can be recognised"
    EVERY_SUBSCRIPTION = "a border broker sees every subscription of its clients"
    ORIGINS = "a notification names the broker where it entered"
    SEQUENCE_NUMBERS = "notifications of one broker are numbered"
    CLOCKS = "the clocks of border brokers agree, for bounds in time"
    FIFO_LINKS = "links keep the order of messages"


ABOVE_SIMPLE = frozenset({"identity", "covering", "merging", "imperfect-merging"})
"""Routing that does not forward every subscription, so that neighbours have to be asked extra."""


@dataclass(frozen=True)
class Combination:
    """What one strategy works with."""

    label: str
    routing: frozenset[str]
    advertisements: bool
    """Whether it works with them."""
    why: str
    """Why not with other routing."""


COMBINATIONS = {
    "local": Combination(
        "local broker caching",
        frozenset({"flooding", "simple"}),
        False,
        "it never leaves the client, so it needs routing that hides nothing from the brokers in between",
    ),
    "border": Combination(
        "border broker caching",
        frozenset({"simple"}),
        True,
        "a border broker must see every subscription that its clients have, and only simple routing keeps them apart",
    ),
    "merging": Combination(
        "merging caching",
        ABOVE_SIMPLE | {"simple"},
        True,
        "under flooding brokers see no filters, so there is nothing that they could remember",
    ),
    "replay": Combination(
        "replay",
        ABOVE_SIMPLE | {"simple"},
        True,
        "under flooding brokers see no filters, so there is nothing that they could remember",
    ),
}
"""The strategies by name."""


def check_combination(strategy: str, routing: RoutingOptions, force_forwards: bool | None = None) -> None:
    """Raise `FeatureError` unless a strategy works with this routing.

    >>> check_combination("border", RoutingOptions("covering"))
    Traceback (most recent call last):
    tidings.model.FeatureError: history strategy 'border' ... does not work with routing 'covering': ...
    """
    if strategy not in COMBINATIONS:
        raise FeatureError(f"no history strategy is called '{strategy}'; choose one of {', '.join(COMBINATIONS)}")
    combination = COMBINATIONS[strategy]
    named = f"history strategy '{strategy}' ({combination.label})"
    if routing.algorithm not in combination.routing:
        raise FeatureError(
            f"{named} does not work with routing '{routing.algorithm}': {combination.why}; "
            f"choose routing {_either(combination.routing)}, or strategy {_either(_working_with(routing.algorithm))}"
        )
    if routing.advertisements and not combination.advertisements:
        raise FeatureError(f"{named} does not work with advertisements: {combination.why}; switch them off")
    if force_forwards is False and routing.algorithm in ABOVE_SIMPLE:
        raise FeatureError(
            f"{named} needs force_forwards with routing '{routing.algorithm}', which does not forward every "
            "subscription: leave force_forwards out, or choose routing 'simple'"
        )


def _working_with(algorithm: str) -> list[str]:
    return [name for name, combination in COMBINATIONS.items() if algorithm in combination.routing] + ["strict"]


def _either(names: frozenset[str] | list[str]) -> str:
    return " or ".join(f"'{name}'" for name in sorted(names))
