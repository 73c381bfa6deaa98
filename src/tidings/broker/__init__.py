"""The reflective core: links, routing tables, routing algorithms, joinpoints, waves, progress, recovery."""

from ._book import Book, Entry
from ._bounds import MAX_COST, MAX_ID, MAX_NUMBER, MAX_TIMEOUT, check_filter, check_place, check_progress
from ._broker import Broker, Role
from ._context import Context
from ._covering import Covering
from ._crossing import FROM_PAST, from_past, hand_over_late, version_of
from ._holds import Hold, Holder
from ._joinpoints import Advice, Feature, Joinpoint
from ._links import Guard, Link, LinkKind
from ._local import LocalBroker, Observer
from ._merging import Merging
from ._reduction import ALGORITHMS, Announcement, Delta, Reduction, RoutingOptions
from ._registration import Registration
from ._runtime import Heard, Log, Runtime, Timer
from ._statistics import Statistics
from ._table import Gate, Table
from ._topology import Tree, check_tree
from ._visibility import FLAT, OPEN_PASSAGE, Passage, Plan, Sighting, View
from ._waves import WaveKind

__all__ = [
    "ALGORITHMS",
    "FLAT",
    "FROM_PAST",
    "MAX_COST",
    "MAX_ID",
    "MAX_NUMBER",
    "MAX_TIMEOUT",
    "OPEN_PASSAGE",
    "Advice",
    "Announcement",
    "Book",
    "Broker",
    "Context",
    "Covering",
    "Delta",
    "Entry",
    "Feature",
    "Gate",
    "Guard",
    "Heard",
    "Hold",
    "Holder",
    "Joinpoint",
    "Link",
    "LinkKind",
    "LocalBroker",
    "Log",
    "Merging",
    "Observer",
    "Passage",
    "Plan",
    "Reduction",
    "Registration",
    "Role",
    "RoutingOptions",
    "Runtime",
    "Sighting",
    "Statistics",
    "Table",
    "Timer",
    "Tree",
    "View",
    "WaveKind",
    "check_filter",
    "check_place",
    "check_progress",
    "check_tree",
    "from_past",
    "hand_over_late",
    "version_of",
]
