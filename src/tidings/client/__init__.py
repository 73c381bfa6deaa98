"""The library that an application imports: async first, with a blocking facade in `tidings.sync`."""

from tidings.model import guard_log

from ._address import ClientNotOpen, ConnectionFailed, NotAdmitted
from ._admin import Admin, Changed
from ._client import Client, ClientStatistics
from ._connect import connect
from ._receipt import Receipt, RefusedByService
from ._settings import MAX_UNACKNOWLEDGED, OnDisconnect, OnReconnect
from ._state import State
from ._subscription import Subscription
from ._terms import AnyPast
from ._traced import Traced
from ._typed import Misfit

__all__ = [
    "MAX_UNACKNOWLEDGED",
    "Admin",
    "AnyPast",
    "Changed",
    "Client",
    "ClientNotOpen",
    "ClientStatistics",
    "ConnectionFailed",
    "Misfit",
    "NotAdmitted",
    "OnDisconnect",
    "OnReconnect",
    "Receipt",
    "RefusedByService",
    "State",
    "Subscription",
    "Traced",
    "connect",
]

guard_log("tidings.client")
