"""The blocking facade: the same client for programs without an event loop.

    with tidings.sync.connect("tidings://localhost:7311") as client:
        client.publish(type="quote", symbol="SAP", price=182.4)
        for quote in client.subscribe("type = 'quote' AND price > 100"):
            print(quote["symbol"], quote["price"])

An event loop runs in one background thread; every call is handed to it and waits for the result. Any number of threads
may share a client. Leaving the context manager ends the loop and the thread.
"""

from ._admin import Admin
from ._aggregates import Aggregates, AggregateWatch
from ._client import Client, connect
from ._jobs import Job
from ._receipt import Receipt
from ._requests import Request
from ._subscription import Subscription

__all__ = ["Admin", "AggregateWatch", "Aggregates", "Client", "Job", "Receipt", "Request", "Subscription", "connect"]
