"""The durable log of one broker: publications, small state and a journal, synced in groups."""

from ._errors import StoreClosed, StoreCorrupt, StoreError, StoreFailed, StoreForeign, StoreFull, StoreLocked
from ._records import Bounds, Damage, JournalKind, JournalRecord, StoreStatistics
from ._store import Store

__all__ = [
    "Bounds",
    "Damage",
    "JournalKind",
    "JournalRecord",
    "Store",
    "StoreClosed",
    "StoreCorrupt",
    "StoreError",
    "StoreFailed",
    "StoreForeign",
    "StoreFull",
    "StoreLocked",
    "StoreStatistics",
]
