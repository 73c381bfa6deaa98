"""History: how a new subscription gets at what was published before it. The strategies that cache are in `.caching`."""

from ._cache_limits import DOCUMENT_LIMITS, CacheLimits
from ._combinations import COMBINATIONS, Combination, Requirement, check_combination
from ._newest import newest
from ._options import HistoryOptions
from ._origin import PastStore
from ._strategies import STRATEGIES, make_history
from ._strategy_options import Align, IndexScope, MergeOrder, ReplayVariant, StrategyOptions, TimerScheme
from ._strict import Strict, StrictStatistics

__all__ = [
    "COMBINATIONS",
    "DOCUMENT_LIMITS",
    "STRATEGIES",
    "Align",
    "CacheLimits",
    "Combination",
    "HistoryOptions",
    "IndexScope",
    "MergeOrder",
    "PastStore",
    "ReplayVariant",
    "Requirement",
    "StrategyOptions",
    "Strict",
    "StrictStatistics",
    "TimerScheme",
    "check_combination",
    "make_history",
    "newest",
]
