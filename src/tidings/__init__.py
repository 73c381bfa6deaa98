"""Tidings: content-based publish/subscribe that remembers, moves and knows its borders.

async with tidings.connect("tidings://localhost:7311") as client:
    await client.publish(type="quote", symbol="SAP", price=182.4)
    async for quote in client.subscribe("type = 'quote' AND price > 100", past=tidings.last(10)):
        print(quote["symbol"], quote["price"])
"""

from tidings.client import Client, ConnectionFailed, Receipt, Subscription, Traced, connect
from tidings.model import Bound, BoundError, Duplicates, Filter, Location, Notification, TidingsError, attr, last, since
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
