"""How much a broker's cache may hold."""

from __future__ import annotations

from dataclasses import dataclass

from tidings.model import TidingsError


@dataclass(frozen=True, slots=True)
class CacheLimits:
    """The limits of one cache.

    There is always a free cell for what comes next: at most `max_filters * max_per_filter` cells are referenced, and
    there are more than that.

    >>> CacheLimits(max_global=150, max_filters=15, max_per_filter=10)
    Traceback (most recent call last):
    tidings.model.TidingsError: max_global = 150 is too small: ...
    """

    max_global: int = 100_001
    """Notifications in the whole cache."""
    max_filters: int = 1_000
    """Filters that notifications are kept for."""
    max_per_filter: int = 100
    """Notifications for each filter; the oldest goes first."""
    max_bytes: int = 67_108_864
    """The bytes of all bodies. Beyond that, the filter that holds most gives up its oldest."""

    def __post_init__(self) -> None:
        for name in ("max_global", "max_filters", "max_per_filter", "max_bytes"):
            if getattr(self, name) < 1:
                raise TidingsError(f"{name} = {getattr(self, name)}; a limit of a cache is at least 1")
        referenced = self.max_filters * self.max_per_filter
        if self.max_global <= referenced:
            raise TidingsError(
                f"max_global = {self.max_global:,} is too small: it must be more than max_filters * max_per_filter = "
                f"{self.max_filters:,} * {self.max_per_filter:,} = {referenced:,}"
            )


DOCUMENT_LIMITS = CacheLimits(max_global=151, max_filters=15, max_per_filter=10)
"""Those of the published experiments."""
