"""The catalogue: the aggregates that every broker has."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tidings.model import AggregateError

from ._counting import Tally


class Count(NamedTuple):
    """A number that is counted from what clients register."""

    name: str
    version: str
    about: str
    of: Callable[[Tally], int]
    advertisements: bool = False
    """Whether it counts advertisements, and not subscriptions."""
    each: bool = False
    """Whether one client may count several times, so that a large number may be about one client."""
    brokers: bool = False
    """Whether it counts brokers, whatever clients register."""


COUNTS = {
    count.name: count
    for count in (
        Count(
            "subscriber_count",
            "1",
            "clients with a subscription that something within the filter may pass",
            lambda tally: len(tally.clients),
        ),
        Count(
            "subscription_count",
            "1",
            "subscriptions that something within the filter may pass",
            lambda tally: tally.registrations,
            each=True,
        ),
        Count(
            "publisher_count",
            "1",
            "clients that advertise something within the filter; the network must use advertisements",
            lambda tally: len(tally.clients),
            advertisements=True,
        ),
        Count("broker_count", "1", "brokers that carry the scope", lambda tally: 1, brokers=True),
    )
}


def count_named(name: str, version: str = "") -> Count:
    """The aggregate of this name and, if one is given, version, or `AggregateError`."""
    count = COUNTS.get(name)
    if count is None:
        raise AggregateError(f"no aggregate is called '{name:.80}'; choose one of {', '.join(sorted(COUNTS))}")
    if version not in ("", count.version):
        raise AggregateError(
            f"aggregate '{name}' has version {count.version} here, not {version:.40}; upgrade the broker"
        )
    return count
