"""File descriptors: every connection takes one, and a process may have only so many."""

from __future__ import annotations

import contextlib
import logging

try:
    import resource
except ImportError:  # not on every system
    resource = None  # type: ignore[assignment]

log = logging.getLogger("tidings.net")

RESERVE = 256
"""Descriptors for all but clients and neighbours: the store, the archive, metrics and management."""


def room_for(connections: int, *, chosen: bool) -> int:
    """How many of so many connections this process may have; the soft limit is raised as far as that needs it.

    Logs it if it cannot be raised far enough: as a warning if there are fewer descriptors than connections; else for
    operators who have chosen this number, and for those who look for it.
    """
    needed = connections + RESERVE
    allowed = _raised(needed)
    if allowed is None or allowed >= needed:
        return connections
    possible = max(allowed - RESERVE, allowed // 2)
    log.log(
        logging.WARNING if allowed < connections else logging.INFO if chosen else logging.DEBUG,
        "%s file descriptors suffice for %s connections, not for %s; allow %s with `ulimit -n` "
        "(LimitNOFILE= of systemd), or set `connections` in [limits]",
        allowed,
        possible,
        connections,
        needed,
    )
    return possible


def _raised(needed: int) -> int | None:
    """The soft limit that holds now; None: there is none."""
    if resource is None:
        return None
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < needed:
        wanted = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        with contextlib.suppress(OSError, ValueError):  # the system may have a bound of its own
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft
