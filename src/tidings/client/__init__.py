"""The library that an application imports: async first, with a blocking facade in `tidings.sync`."""

from tidings.model import guard_log

from ._address import ConnectionFailed, NotAdmitted
from ._admin import Admin, Changed
from ._client import MAX_UNACKNOWLEDGED, Client, ClientStatistics, connect
from ._receipt import Receipt, RefusedByService
from ._subscription import Subscription
from ._traced import Traced

__all__ = [
    "MAX_UNACKNOWLEDGED",
    "Admin",
    "Changed",
    "Client",
    "ClientStatistics",
    "ConnectionFailed",
    "NotAdmitted",
    "Receipt",
    "RefusedByService",
    "Subscription",
    "Traced",
    "connect",
]

guard_log("tidings.client")
