"""Groups: several subscribers share one stream, and each notification goes to one of them."""

from ._acknowledged import Acknowledged, check_work
from ._choosing import Choosing
from ._desk import Desk
from ._feature import Groups
from ._limits import MAX_ACK_WITHIN, MAX_DELAY, MIN_ACK_WITHIN, MOST_DELIVERIES, MOST_IN_FLIGHT
from ._names import GroupName, check_group
from ._point import Group
from ._work_queue import WorkQueue

__all__ = [
    "MAX_ACK_WITHIN",
    "MAX_DELAY",
    "MIN_ACK_WITHIN",
    "MOST_DELIVERIES",
    "MOST_IN_FLIGHT",
    "Acknowledged",
    "Choosing",
    "Desk",
    "Group",
    "GroupName",
    "Groups",
    "WorkQueue",
    "check_group",
    "check_work",
]
