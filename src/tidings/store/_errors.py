"""What can go wrong with a store. Every error names the file or directory and the remedy.

TidingsError
└── StoreError
    ├── StoreLocked     another broker uses the directory
    ├── StoreForeign    the file is not a store, not this broker's, or of another format
    ├── StoreCorrupt    the file is damaged beyond single batches
    ├── StoreFull       too much waits for the disk: refuse, or try again later
    ├── StoreFailed     the disk refused a write: full, gone, read-only
    └── StoreClosed     the store has been closed
"""

from __future__ import annotations

from tidings.model import TidingsError


class StoreError(TidingsError):
    """The root of what a store refuses."""


class StoreLocked(StoreError):
    """Another broker uses the directory."""


class StoreForeign(StoreError):
    """The file is not a store, not this broker's, or of another format."""


class StoreCorrupt(StoreError):
    """The file is damaged beyond single batches."""


class StoreFull(StoreError):
    """Too much waits for the disk."""


class StoreFailed(StoreError):
    """The disk refused a write. Nothing was promised about what was to be written; later writes may succeed."""


class StoreClosed(StoreError):
    """The store has been closed."""
