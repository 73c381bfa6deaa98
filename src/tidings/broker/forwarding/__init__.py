"""Forwarding: from a message that brings a notification to the frames that it becomes.

What is plain goes by the lane of its table; the rest goes the full path, through the steps that features may advise and
from scope to scope.
"""

from ._borders import Borders, is_checked
from ._crossing import DETOUR, FROM_PAST, ONE_OF_SEVERAL, Crossing, from_past, version_of
from ._decisions import Decision, Decisions
from ._delaying import Delaying
from ._delivery import Delivery, Opener
from ._following import Noting
from ._lane import NO_HOP, Lane
from ._ordering import Ordering
from ._owed import Owed, owed, owed_when
from ._publications import Publications
from ._remembering import Remembering
from ._targets import Targets

__all__ = [
    "DETOUR",
    "FROM_PAST",
    "NO_HOP",
    "ONE_OF_SEVERAL",
    "Borders",
    "Crossing",
    "Decision",
    "Decisions",
    "Delaying",
    "Delivery",
    "Lane",
    "Noting",
    "Opener",
    "Ordering",
    "Owed",
    "Publications",
    "Remembering",
    "Targets",
    "from_past",
    "is_checked",
    "owed",
    "owed_when",
    "version_of",
]
