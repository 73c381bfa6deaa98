"""Strategies that cache: brokers remember what passed them, and ask one another. Loaded when one of them is chosen."""

from collections.abc import Callable

from ._border import BorderBrokerCaching
from ._cache import CacheEntry, EventCache
from ._gathering import Gathering, Item
from ._local import RememberingLocalBroker
from ._merging import MergingCaching
from ._order import in_origin_order, key_of
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
from ._tracing import Tracing

CACHING: dict[str, Callable[..., CachingStrategy]] = {
    "border": BorderBrokerCaching,
    "merging": MergingCaching,
    "replay": replay_strategy,
}
"""The strategies that brokers run, by name. To add one, put it here and into `COMBINATIONS`."""

__all__ = [
    "CACHING",
    "BasicReplay",
    "BorderBrokerCaching",
    "CacheEntry",
    "CachingStrategy",
    "EventCache",
    "FullReplay",
    "Gathering",
    "HistoryProvider",
    "Item",
    "JunctionReplay",
    "LargestReplay",
    "MergedReplay",
    "MergingCaching",
    "ParallelRings",
    "Question",
    "RememberingLocalBroker",
    "SequenceReplay",
    "SingleRing",
    "Tracing",
    "in_origin_order",
    "key_of",
    "replay_strategy",
]
