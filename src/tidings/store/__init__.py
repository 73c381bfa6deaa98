"""The durable log of one broker: publications, small state and a journal, synced in groups."""

from ._errors import StoreClosed, StoreCorrupt, StoreError, StoreFailed, StoreForeign, StoreFull, StoreLocked
from ._queue import QUEUE_BYTES, QUEUE_COUNT
from ._records import Bounds, Damage, JournalKind, JournalRecord, StoreStatistics
from ._store import RESEND_WINDOW, Store

__all__ = [
    "QUEUE_BYTES",
    "QUEUE_COUNT",
    "RESEND_WINDOW",
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
