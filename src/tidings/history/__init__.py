"""History: what brokers remember of the notifications that passed them, and how a new subscription gets at it."""

from ._border_caching import BorderBrokerCaching
from ._cache import CacheEntry, EventCache
from ._cache_limits import DOCUMENT_LIMITS, CacheLimits
from ._choice import newest
from ._choosing import STRATEGIES, make_history
from ._combinations import COMBINATIONS, Combination, Requirement, check_combination
from ._gathering import Gathering, Item
from ._local_caching import RememberingLocalBroker
from ._merging_caching import MergingCaching
from ._options import HistoryOptions
from ._order import MergeOrder, in_origin_order, key_of
from ._origin import Shelf
from ._provider import HistoryProvider, Question
from ._replay import (
    BasicReplay,
    FullReplay,
    JunctionReplay,
    LargestReplay,
    MergedReplay,
    SequenceReplay,
    replay_strategy,
)
from ._rings import ParallelRings, SingleRing
from ._strategy import CachingStrategy
from ._strategy_options import Align, IndexScope, ReplayVariant, StrategyOptions, TimerScheme
from ._strict import Strict, StrictStatistics
from ._tracing import Tracing

__all__ = [
    "COMBINATIONS",
    "DOCUMENT_LIMITS",
    "STRATEGIES",
    "Align",
    "BasicReplay",
    "BorderBrokerCaching",
    "CacheEntry",
    "CacheLimits",
    "CachingStrategy",
    "Combination",
    "EventCache",
    "FullReplay",
    "Gathering",
    "HistoryOptions",
    "HistoryProvider",
    "IndexScope",
    "Item",
    "JunctionReplay",
    "LargestReplay",
    "MergeOrder",
    "MergedReplay",
    "MergingCaching",
    "ParallelRings",
    "Question",
    "RememberingLocalBroker",
    "ReplayVariant",
    "Requirement",
    "SequenceReplay",
    "Shelf",
    "SingleRing",
    "StrategyOptions",
    "Strict",
    "StrictStatistics",
    "TimerScheme",
    "Tracing",
    "check_combination",
    "in_origin_order",
    "key_of",
    "make_history",
    "newest",
    "replay_strategy",
]
