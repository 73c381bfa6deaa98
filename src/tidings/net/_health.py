"""Health and readiness: is this broker alive, and should it get work?

*Healthy* means that the broker has not failed and that its disk takes what it is given. *Ready* means healthy, not
stopping, and connected to every neighbour that the configuration names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._status import Reporter, dial_status

if TYPE_CHECKING:
    from ._server import Server


class Health:
    """The reasons against a server, if there are any."""

    def __init__(self, server: Server, reporter: Reporter) -> None:
        self._server = server
        self._reporter = reporter
        self._failures = 0
        self._synced = 0
        self._disk_refuses = False

    def complaints(self) -> list[str]:
        """Why the server is not healthy."""
        reasons = []
        failed = self._server.failed
        if failed is not None and failed.done() and not failed.cancelled() and failed.exception() is not None:
            reasons.append("the broker has failed; its log says why")
        if self._refuses():
            reasons.append(
                "the disk refuses writes: is it full? publications of quality stored are refused, those without a "
                "quality are only accepted"
            )
        elif self._falls_behind():
            reasons.append(
                "the store falls behind: more waits for the disk than its queue holds. Publications of quality stored "
                "are refused, those without a quality are only accepted; slow down, or use a faster disk"
            )
        if self._server.host.broker.publications.unnoted:
            reasons.append(
                "the disk could not note that some publications are not stored: after a crash, subscribers would not "
                "be told that accepted ones are lost; free some space"
            )
        return reasons

    def _refuses(self) -> bool:
        """Whether the disk refused something since the last look, and has taken nothing after that."""
        store = self._reporter.store()
        if store is None:
            return False
        if store["failed"] > self._failures:
            self._disk_refuses = True
        elif store["synced"] > self._synced:
            self._disk_refuses = False
        self._failures, self._synced = store["failed"], store["synced"]
        return self._disk_refuses

    def _falls_behind(self) -> bool:
        """Whether the store lately did not take what it was given, and has not caught up."""
        store = self._reporter.store()
        return store is not None and bool(self._server.host.broker.remembering.trouble) and store["queued"] > 0

    def hindrances(self) -> list[str]:
        """Why the server is not ready."""
        reasons = self.complaints()
        if self._server.draining:
            reasons.append("the broker is stopping")
        for dialler in map(dial_status, self._server.diallers):
            if not dialler.connected:
                reasons.append(f"the neighbour {dialler.url} is not connected: {dialler.problem or 'not yet'}")
        return reasons
