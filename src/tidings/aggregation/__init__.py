"""Aggregation: questions about the traffic, answered inside the network.

Importing this package loads no broker, so that `definitions` can be used by Spark workers and sandboxes: what needs one
is loaded when it is asked for.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._deployments import Audited, Deployments, Workers
    from ._engine import Engine, Port, Update
    from ._exporting import Exported, Exports, Sample
    from ._feature import Aggregation
    from ._forms import Form, Points, Range, Ranges, Read
    from ._options import AggregationOptions, Isolation
    from ._quenching import Quenching
    from ._receivers import Receivers
    from ._riding import Riding
    from ._shares import Below, Policy, Split, check_bound, split
    from ._state import Request, State, Terms
    from ._subject import Subject
    from ._supplied import DEFAULT_WINDOW, SUPPLIED, supplied_question
    from ._windows import is_question, question_of

_MODULES = {
    "_deployments": ("Audited", "Deployments", "Workers"),
    "_engine": ("Engine", "Port", "Update"),
    "_exporting": ("Exported", "Exports", "Sample"),
    "_feature": ("Aggregation",),
    "_forms": ("Form", "Points", "Range", "Ranges", "Read"),
    "_options": ("AggregationOptions", "Isolation"),
    "_quenching": ("Quenching",),
    "_receivers": ("Receivers",),
    "_riding": ("Riding",),
    "_shares": ("Below", "Policy", "Split", "check_bound", "split"),
    "_state": ("Request", "State", "Terms"),
    "_subject": ("Subject",),
    "_supplied": ("DEFAULT_WINDOW", "SUPPLIED", "supplied_question"),
    "_windows": ("is_question", "question_of"),
}
_WHERE = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "DEFAULT_WINDOW",
    "SUPPLIED",
    "Aggregation",
    "AggregationOptions",
    "Audited",
    "Below",
    "Deployments",
    "Engine",
    "Exported",
    "Exports",
    "Form",
    "Isolation",
    "Points",
    "Policy",
    "Port",
    "Quenching",
    "Range",
    "Ranges",
    "Read",
    "Receivers",
    "Request",
    "Riding",
    "Sample",
    "Split",
    "State",
    "Subject",
    "Terms",
    "Update",
    "Workers",
    "check_bound",
    "is_question",
    "question_of",
    "split",
    "supplied_question",
]


def __getattr__(name: str) -> object:
    if name in _WHERE:
        return getattr(importlib.import_module(f"{__name__}.{_WHERE[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
