"""The scope service, as it runs in every broker: all of them know the same graph, and one orders its changes."""

from ._kept_graph import TABLE as GRAPH_TABLE
from ._requests import Requests
from ._rights import Admission, Decision, credential, shown_to
from ._service import Scopes
from ._versions import Versions
from ._view import Plan, View
from ._watching import OUTCOMES, Rules

__all__ = [
    "GRAPH_TABLE",
    "OUTCOMES",
    "Admission",
    "Decision",
    "Plan",
    "Requests",
    "Rules",
    "Scopes",
    "Versions",
    "View",
    "credential",
    "shown_to",
]
