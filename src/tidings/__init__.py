"""Tidings: content-based publish/subscribe that remembers and knows its borders.

async with tidings.connect("tidings://localhost:7311") as client:
    await client.publish(type="quote", symbol="SAP", price=182.4)
    async for quote in client.subscribe("type = 'quote' AND price > 100", past=tidings.last(10)):
        print(quote["symbol"], quote["price"])
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidings.client import Client, ConnectionFailed, Receipt, Subscription, Traced, connect
    from tidings.model import (
        Bound,
        BoundError,
        Duplicates,
        Filter,
        Location,
        Notification,
        TidingsError,
        attr,
        last,
        since,
    )
    from tidings.wire import Consistency, Gap, HistoryReport, Quality

    from . import sync

__version__ = "0.1.0.dev0"

__all__ = [
    "Bound",
    "BoundError",
    "Client",
    "ConnectionFailed",
    "Consistency",
    "Duplicates",
    "Filter",
    "Gap",
    "HistoryReport",
    "Location",
    "Notification",
    "Quality",
    "Receipt",
    "Subscription",
    "TidingsError",
    "Traced",
    "attr",
    "connect",
    "last",
    "since",
    "sync",
]

# A name is loaded when it is first used: `tidings --version`, a shell that completes a command line, and a program that
# needs one name of many do not wait for the rest.
_PACKAGES = ("model", "wire", "client", "scopes", "sync")
"""Where the names above come from, those that load fastest first; each is a name itself."""

if not TYPE_CHECKING:

    def __getattr__(name):
        if name in _PACKAGES:
            return importlib.import_module(f"tidings.{name}")
        for package in _PACKAGES if name in __all__ else ():
            if (found := getattr(importlib.import_module(f"tidings.{package}"), name, None)) is not None:
                globals()[name] = found
                return found
        raise AttributeError(f"module 'tidings' has no attribute '{name}'")

    def __dir__():
        return sorted({*globals(), *__all__, *_PACKAGES})
