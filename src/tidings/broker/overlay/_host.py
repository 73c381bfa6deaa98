"""What the overlay needs of the broker that it belongs to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from tidings.broker._links import Link
from tidings.broker._runtime import Timer
from tidings.broker._statistics import Statistics
from tidings.wire import AnyMessage

from ._topology import Tree


class Host(Protocol):
    """A broker, as its overlay sees it."""

    @property
    def name(self) -> str:
        """The broker's name."""
        ...

    @property
    def epoch(self) -> int:
        """Its incarnation."""
        ...

    @property
    def statistics(self) -> Statistics:
        """What it counts."""
        ...

    def send(self, link: Link, message: AnyMessage) -> None:
        """Put a message on a link."""
        ...

    def call_later(self, delay: int, action: Callable[[], None]) -> Timer:
        """Call `action` in a turn of its own, `delay` microseconds from now."""
        ...

    def at_tree(self, old: Tree, new: Tree) -> None:
        """There is another tree: adopt it, and all that follows."""
        ...

    def neighbour_ready(self, link: Link, *, anew: bool) -> None:
        """A tree neighbour is ready to be told everything; `anew`: it was before, and has forgotten it."""
        ...
