"""History: what brokers remember of the notifications that passed them, and how a new subscription gets at it."""

from ._cache import CacheEntry, EventCache
from ._cache_limits import DOCUMENT_LIMITS, CacheLimits
from ._order import in_origin_order, key_of
from ._provider import HistoryProvider, Question
from ._rings import ParallelRings, SingleRing

__all__ = [
    "DOCUMENT_LIMITS",
    "CacheEntry",
    "CacheLimits",
    "EventCache",
    "HistoryProvider",
    "ParallelRings",
    "Question",
    "SingleRing",
    "in_origin_order",
    "key_of",
]
