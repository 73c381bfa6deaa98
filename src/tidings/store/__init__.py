"""The durable log of one broker: publications, small state and a journal, synced in groups."""

from ._deliveries import Deliveries, Group, Sent, decode_deliveries, encode_deliveries, form_of
from ._errors import StoreClosed, StoreCorrupt, StoreError, StoreFailed, StoreForeign, StoreFull, StoreLocked
from ._journal_retention import Carried
from ._layout import archive_bytes
from ._pages import LogExtent, LogPage
from ._position import ARCHIVED
from ._promoted import Promoted, PromotedKind
from ._queue import QUEUE_BYTES, QUEUE_COUNT
from ._records import Bounds, Damage, Extent, JournalKind, JournalRecord, Plain, StoreStatistics
from ._retention import limit_for
from ._rights import open_to_others
from ._shrinking import disk_bytes as store_bytes
from ._store import RESEND_WINDOW, Store
from ._store_reader import StoreReader
from ._subscription_lives import Life, Lives, Open
from ._summary import PROMOTED

__all__ = [
    "ARCHIVED",
    "PROMOTED",
    "QUEUE_BYTES",
    "QUEUE_COUNT",
    "RESEND_WINDOW",
    "Bounds",
    "Carried",
    "Damage",
    "Deliveries",
    "Extent",
    "Group",
    "JournalKind",
    "JournalRecord",
    "Life",
    "Lives",
    "LogExtent",
    "LogPage",
    "Open",
    "Plain",
    "Promoted",
    "PromotedKind",
    "Sent",
    "Store",
    "StoreClosed",
    "StoreCorrupt",
    "StoreError",
    "StoreFailed",
    "StoreForeign",
    "StoreFull",
    "StoreLocked",
    "StoreReader",
    "StoreStatistics",
    "archive_bytes",
    "decode_deliveries",
    "encode_deliveries",
    "form_of",
    "limit_for",
    "open_to_others",
    "store_bytes",
]
