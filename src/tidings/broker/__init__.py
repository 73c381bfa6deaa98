"""The reflective core: links, routing tables, routing algorithms, joinpoints, waves, progress, recovery."""

from tidings.model import guard_log

from ._bounds import MAX_COST, MAX_ID, MAX_NUMBER, MAX_TIMEOUT, check_filter, check_place, check_progress, is_located
from ._broker import Broker, Role
from ._causes import Cause, check_cause, climbs, current, during, enter, handled_here, leave, reaction, session_tag
from ._context import Context
from ._deciding import POINT_WAVE, Decider, Lineage, Points, Term, point_of
from ._durables import DurableRecord, Durables
from ._facts import END, Facts
from ._inside import InnerClient
from ._joinpoints import Advice, Feature, For, Joinpoint, Watch
from ._links import Guard, Link, LinkKind
from ._local import LocalBroker, Observer
from ._local_subscription import LocalSubscription
from ._reading import Reading
from ._runtime import Heard, Log, Runtime, Timer
from ._statistics import Statistics
from .forwarding import FROM_PAST, Decision, Owed, from_past, is_checked, owed, owed_when, version_of
from .interest import (
    ALGORITHMS,
    FLAT,
    OPEN_PASSAGE,
    SEAT,
    Announcement,
    Book,
    Border,
    Choice,
    Climbing,
    Covering,
    Delta,
    Entry,
    Foreseen,
    Gate,
    Merging,
    Passage,
    Plan,
    Reduction,
    Registration,
    RoutingOptions,
    Sighting,
    Table,
    Tap,
    View,
)
from .outlets import TABLES, Announcing, Debt, Delivering, Hold, Holder, announcing, debts, delivering
from .overlay import Tree, WaveKind, check_tree

__all__ = [
    "ALGORITHMS",
    "END",
    "FLAT",
    "FROM_PAST",
    "MAX_COST",
    "MAX_ID",
    "MAX_NUMBER",
    "MAX_TIMEOUT",
    "OPEN_PASSAGE",
    "POINT_WAVE",
    "SEAT",
    "TABLES",
    "Advice",
    "Announcement",
    "Announcing",
    "Book",
    "Border",
    "Broker",
    "Cause",
    "Choice",
    "Climbing",
    "Context",
    "Covering",
    "Debt",
    "Decider",
    "Decision",
    "Delivering",
    "Delta",
    "DurableRecord",
    "Durables",
    "Entry",
    "Facts",
    "Feature",
    "For",
    "Foreseen",
    "Gate",
    "Guard",
    "Heard",
    "Hold",
    "Holder",
    "InnerClient",
    "Joinpoint",
    "Lineage",
    "Link",
    "LinkKind",
    "LocalBroker",
    "LocalSubscription",
    "Log",
    "Merging",
    "Observer",
    "Owed",
    "Passage",
    "Plan",
    "Points",
    "Reading",
    "Reduction",
    "Registration",
    "Role",
    "RoutingOptions",
    "Runtime",
    "Sighting",
    "Statistics",
    "Table",
    "Tap",
    "Term",
    "Timer",
    "Tree",
    "View",
    "Watch",
    "WaveKind",
    "announcing",
    "check_cause",
    "check_filter",
    "check_place",
    "check_progress",
    "check_tree",
    "climbs",
    "current",
    "debts",
    "delivering",
    "during",
    "enter",
    "from_past",
    "handled_here",
    "is_checked",
    "is_located",
    "leave",
    "owed",
    "owed_when",
    "point_of",
    "reaction",
    "session_tag",
    "version_of",
]

guard_log("tidings.broker")
