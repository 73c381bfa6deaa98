"""A runtime for brokers that are measured alone: it takes everything and does nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tidings.broker import Link
from tidings.wire import Frame, Written


class Idle:
    """What a broker says to it is lost, and no timer ever ends."""

    epoch, log = 1, None

    def now(self) -> int:
        """The time stands still."""
        return 0

    def send(self, link: Link, frame: Frame) -> None:
        """Nobody listens."""

    def send_all(self, links: Iterable[Link], frame: Frame) -> None:
        """Nobody listens."""

    def send_written(self, links: Iterable[Link], written: Written) -> None:
        """Nobody listens."""

    def open_local(self, link: Link, receive: Callable[[Frame], None]) -> None:
        """Nobody lives here."""

    def close_local(self, link: Link) -> None:
        """Nobody has to go."""

    def call_later(self, delay: int, action: Callable[[], None]) -> Idle:
        """It never calls."""
        return self

    def cancel(self) -> None:
        """There is nothing to cancel."""
