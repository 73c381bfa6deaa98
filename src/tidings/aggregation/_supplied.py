"""Supplied: aggregates over a window that have a name, each of them a question with its blanks filled in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tidings.model import AggregateError, Filter

from .definitions import BROKER
from .expressions import parse, quoted

DEFAULT_WINDOW = "10s"


class Supplied(NamedTuple):
    """A question that has a name."""

    name: str
    about: str
    measure: str
    of_attribute: bool = False


SUPPLIED = {
    one.name: one
    for one in (
        Supplied("publication_rate", "notifications per second that pass the filter, over a window", "rate()"),
        Supplied(
            "subscription_rate",
            "subscriptions per second that begin and overlap the filter, over a window",
            "subscription_rate()",
        ),
        Supplied(
            "load",
            "notifications per second that the clients of each broker publish, over a window",
            f"rate() BY {BROKER}",
        ),
        Supplied("active_publishers", "about how many clients published within a window", "publishers()"),
        Supplied("distribution", "how the values of an attribute are distributed, over a window", "", True),
    )
}


def supplied_question(
    name: str,
    filter: Filter | None = None,
    *,
    window: str = DEFAULT_WINDOW,
    of: str = "",
    edges: Sequence[float] = (),
) -> str | None:
    """The question that a name stands for; None if it stands for none. `AggregateError` if blanks are left, or over.

    >>> supplied_question("active_publishers", Filter.parse("type = 'load'"), window="60s")
    "publishers() WINDOW 1m WHERE type = 'load'"
    >>> supplied_question("distribution", of="load", edges=(50, 90))
    'histogram(load, 50, 90) WINDOW 10s'
    """
    found = SUPPLIED.get(name)
    if found is None:
        return None
    if found.of_attribute != bool(of) or found.of_attribute != bool(edges):
        wanted = "give of='load' and edges=(50, 90)" if found.of_attribute else "leave out of and edges"
        raise AggregateError(f"{name}: of={of!r} and edges={tuple(edges)!r}; {wanted}")
    measure = found.measure or f"histogram({quoted(of)}, {', '.join(map(repr, edges))})"
    where = "" if filter is None else f" WHERE {filter}"
    return str(parse(f"{measure} WINDOW {window}{where}"))
