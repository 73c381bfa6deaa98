"""The reflective core: links, routing tables, routing algorithms, joinpoints, waves, progress, recovery."""

from ._book import Book, Entry
from ._broker import Broker, Role
from ._context import Context
from ._covering import Covering
from ._joinpoints import Advice, Feature, Joinpoint
from ._links import Guard, Link, LinkKind
from ._local import LocalBroker, Observer
from ._merging import Merging
from ._reduction import ALGORITHMS, Announcement, Delta, Reduction, RoutingOptions
from ._runtime import Log, Runtime, Timer
from ._statistics import Statistics
from ._topology import Tree, check_tree
from ._waves import WaveKind

__all__ = [
    "ALGORITHMS",
    "Advice",
    "Announcement",
    "Book",
    "Broker",
    "Context",
    "Covering",
    "Delta",
    "Entry",
    "Feature",
    "Guard",
    "Joinpoint",
    "Link",
    "LinkKind",
    "LocalBroker",
    "Log",
    "Merging",
    "Observer",
    "Reduction",
    "Role",
    "RoutingOptions",
    "Runtime",
    "Statistics",
    "Timer",
    "Tree",
    "WaveKind",
    "check_tree",
]
