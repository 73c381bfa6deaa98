"""History: what brokers remember of the notifications that passed them, and how a new subscription gets at it."""

from ._cache import CacheEntry, EventCache
from ._cache_limits import DOCUMENT_LIMITS, CacheLimits
from ._choice import newest
from ._options import HistoryOptions
from ._order import in_origin_order, key_of
from ._provider import HistoryProvider, Question
from ._rings import ParallelRings, SingleRing
from ._strict import Strict, StrictStatistics

__all__ = [
    "DOCUMENT_LIMITS",
    "CacheEntry",
    "CacheLimits",
    "EventCache",
    "HistoryOptions",
    "HistoryProvider",
    "ParallelRings",
    "Question",
    "SingleRing",
    "Strict",
    "StrictStatistics",
    "in_origin_order",
    "key_of",
    "newest",
]
