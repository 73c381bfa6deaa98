"""Schemes: neighbours compare by which scheme of `[mobility]` they serve clients that roam, and the log says so."""

from __future__ import annotations

import logging

from tidings.mobility import Scheme

log = logging.getLogger("tidings.net")

PREFIX = "roaming:"
"""What the word begins with by which a broker tells its scheme."""


class Schemes:
    """The scheme of this broker, and those of its neighbours that have another one."""

    def __init__(self, scheme: Scheme) -> None:
        self._own = scheme.value
        self.told = (PREFIX + scheme.value,)
        """What neighbours are told."""
        self._warned: dict[str, str] = {}
        """The schemes of neighbours that differ, as the log has been told."""

    def compare(self, neighbour: str, features: tuple[str, ...]) -> None:
        """A neighbour tells its features; one of an earlier version says nothing of its scheme."""
        scheme = next((one.removeprefix(PREFIX) for one in features if one.startswith(PREFIX)), self._own)
        if scheme == self._own:
            self._warned.pop(neighbour, None)
        elif self._warned.get(neighbour) != scheme:
            self._warned[neighbour] = scheme
            log.warning(
                "broker %s serves clients that roam by the scheme '%.20s', and this one by '%s': clients that move "
                "between them lose nothing and wait longer; give all brokers of a network the same `scheme` in "
                "[mobility]",
                neighbour,
                scheme,
                self._own,
            )
