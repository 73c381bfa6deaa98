"""From the name of a strategy to the feature that a broker runs."""

from __future__ import annotations

from collections.abc import Callable

from tidings.broker import Feature, RoutingOptions
from tidings.model import FeatureError

from ._combinations import COMBINATIONS, check_combination
from ._options import HistoryOptions
from ._origin import PastStore
from ._strategy_options import StrategyOptions
from ._strict import Strict

STRATEGIES = ("strict", "off", *COMBINATIONS)
"""What can be chosen."""


def make_history(
    strategy: str,
    routing: RoutingOptions,
    *,
    strict: HistoryOptions | None = None,
    caching: StrategyOptions | None = None,
    archive: Callable[[], PastStore | None] = lambda: None,
    warn: Callable[[str], None] = lambda text: None,
) -> Feature | None:
    """The feature for a strategy; None: brokers have nothing to do for it. `FeatureError` if routing does not suit it.

    `warn` is told when a cache is full.

    >>> make_history("merging", RoutingOptions("covering")).name
    'history'
    >>> make_history("off", RoutingOptions()) is None
    True
    """
    if strategy == "strict":
        return Strict(strict or HistoryOptions(), archive)
    if strategy == "off":
        return None
    if strategy not in STRATEGIES:
        raise FeatureError(f"no history strategy is called '{strategy}'; choose one of {', '.join(STRATEGIES)}")
    options = caching or StrategyOptions()
    check_combination(strategy, routing, options.force_forwards)
    from .caching import CACHING  # noqa: PLC0415 - most brokers never need it

    make = CACHING.get(strategy)
    return make(options, warn=warn) if make is not None else None  # "local" is the client's own affair
