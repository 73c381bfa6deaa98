"""Which of these many filters match this notification."""

from tidings import _native

from ._compiled import CompiledIndex
from ._garbage import Calm
from ._index import Index
from ._matcher import Checks, Fed, Group, K, Matcher, PassedOn, Plan, Plane
from ._points import Points

__all__ = [
    "Calm",
    "Checks",
    "CompiledIndex",
    "Fed",
    "Group",
    "Index",
    "Matcher",
    "PassedOn",
    "Plan",
    "Plane",
    "Points",
    "make_index",
]


def make_index() -> Matcher[K]:
    """The engine that a broker uses unless it is told otherwise: the compiled one, where there is one.

    >>> from tidings.model import EVERYTHING, Notification
    >>> index = make_index()
    >>> index.add(EVERYTHING, "alice")
    >>> index.match(Notification(price=7))
    ['alice']
    """
    return Index() if _native.engine is None else CompiledIndex()
