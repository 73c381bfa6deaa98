"""The library that an application imports: async first, with a blocking facade in `tidings.sync`."""

from tidings.broker import Cause
from tidings.model import guard_log

from ._address import ClientNotOpen, ConnectionFailed, NotAdmitted, TakenOver
from ._admin import Admin
from ._admin_link import ADMIN_TIMEOUT, Changed
from ._admin_looks import Components, GraphKind, Readings
from ._aggregates import Aggregates, AggregateValue, AggregateWatch
from ._carried import AnyState
from ._client import Client, ClientStatistics
from ._connect import connect
from ._deploying import Deployment, Signing
from ._groups import GroupList, GroupReset, Groups
from ._jobs import Acknowledgement, Acks, Job
from ._moves import Move, Moves
from ._receipt import Receipt, ReceiverCount, RefusedByService
from ._receivers import COUNT_WITHIN, Identities
from ._requests import REQUEST_TIMEOUT, Replies, Request
from ._scripts import WorkedOut, work_out
from ._settings import MAX_UNACKNOWLEDGED, OnDisconnect, OnReconnect
from ._state import State
from ._subscription import Subscription
from ._terms import AnyPast
from ._traced import Traced
from ._typed import Misfit

__all__ = [
    "ADMIN_TIMEOUT",
    "COUNT_WITHIN",
    "MAX_UNACKNOWLEDGED",
    "REQUEST_TIMEOUT",
    "Acknowledgement",
    "Acks",
    "Admin",
    "AggregateValue",
    "AggregateWatch",
    "Aggregates",
    "AnyPast",
    "AnyState",
    "Cause",
    "Changed",
    "Client",
    "ClientNotOpen",
    "ClientStatistics",
    "Components",
    "ConnectionFailed",
    "Deployment",
    "GraphKind",
    "GroupList",
    "GroupReset",
    "Groups",
    "Identities",
    "Job",
    "Misfit",
    "Move",
    "Moves",
    "NotAdmitted",
    "OnDisconnect",
    "OnReconnect",
    "Readings",
    "Receipt",
    "ReceiverCount",
    "RefusedByService",
    "Replies",
    "Request",
    "Signing",
    "State",
    "Subscription",
    "TakenOver",
    "Traced",
    "WorkedOut",
    "connect",
    "work_out",
]

guard_log("tidings.client")
