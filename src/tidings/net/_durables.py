"""What the log of a server says about the durable subscriptions that it has found on its disk."""

from __future__ import annotations

import logging

from tidings.broker import Durables

from ._names import Names

log = logging.getLogger("tidings.net")

MAX_SHOWN = 5
"""The most names in one line of the log."""


def tell_of(durables: Durables, names: Names) -> None:
    """Tell the log what cannot be read, and whose subscriptions no identity may come back for."""
    for key, error in durables.unreadable.items():
        log.error("cannot read durable subscription %s, so it starts over: %s", key, error)
    orphans = sorted(client for client in durables.clients if not names.is_owned(client))
    if orphans:
        shown = ", ".join(f"{client!r}" for client in orphans[:MAX_SHOWN])
        log.warning(
            "durable subscriptions are kept for %s%s, but no [[access]] entry may use that name; add it to the "
            "`names` of its owner's entry, see docs/upgrading.md",
            shown,
            f" and {len(orphans) - MAX_SHOWN} more" if len(orphans) > MAX_SHOWN else "",
        )
