"""Interest: who wants what and who offers what, in which scope, and whether everybody knows.

It knows nothing of how notifications travel. It is made with a `Host`, the broker and the other rooms as far as they
are needed here; others use it by what stands in this list.
"""

from ._book import Book, Entry
from ._covering import COMPARED_COST, Covering
from ._entries import Entries
from ._host import Host
from ._merging import Merging
from ._reduction import ALGORITHMS, Announcement, Delta, Reduction, RoutingOptions
from ._registration import Foreseen, Registration
from ._registrations import LEAVING_COST, Registrations
from ._scoping import Scoping
from ._settling import Settling
from ._table import Gate, Table, Tap, advertises
from ._visibility import (
    DECIDED,
    FLAT,
    OPEN_PASSAGE,
    SEAT,
    Border,
    Choice,
    Climbing,
    Passage,
    Plan,
    Sighting,
    View,
    joint,
    same_passage,
)

__all__ = [
    "ALGORITHMS",
    "COMPARED_COST",
    "DECIDED",
    "FLAT",
    "LEAVING_COST",
    "OPEN_PASSAGE",
    "SEAT",
    "Announcement",
    "Book",
    "Border",
    "Choice",
    "Climbing",
    "Covering",
    "Delta",
    "Entries",
    "Entry",
    "Foreseen",
    "Gate",
    "Host",
    "Merging",
    "Passage",
    "Plan",
    "Reduction",
    "Registration",
    "Registrations",
    "RoutingOptions",
    "Scoping",
    "Settling",
    "Sighting",
    "Table",
    "Tap",
    "View",
    "advertises",
    "joint",
    "same_passage",
]
