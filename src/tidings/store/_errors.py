"""The errors of a store. They are defined in `tidings.model`, because a broker answers its clients with them."""

from __future__ import annotations

from tidings.model import StoreClosed, StoreCorrupt, StoreError, StoreFailed, StoreForeign, StoreFull, StoreLocked

__all__ = ["StoreClosed", "StoreCorrupt", "StoreError", "StoreFailed", "StoreForeign", "StoreFull", "StoreLocked"]
