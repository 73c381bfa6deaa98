"""A run: publications of one client that came together and were taken together, kept as the bytes of their envelopes.

Their numbers are consecutive, the broker's as well as the publisher's, and they have one time and one quality. So the
identity of the first says all that others ask for, and the envelopes are decoded only when somebody wants to read them.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidings.model import Identity
from tidings.wire import Envelope, Quality, envelopes_in


class Run:
    """Publications that were taken together."""

    __slots__ = ("_sizes", "data", "first", "quality", "size")

    def __init__(self, first: Identity, quality: Quality, data: bytes, sizes: bytes, size: int) -> None:
        self.first = first
        """The identity of the first, but for its `ttl`."""
        self.quality = quality
        self.data = data
        """The envelopes, one after the other."""
        self._sizes = memoryview(sizes).cast("I")
        self.size = size
        """The bytes of all bodies."""

    def __len__(self) -> int:
        return len(self._sizes)

    @property
    def sizes(self) -> Sequence[int]:
        """The bytes of each body."""
        return self._sizes

    @property
    def last(self) -> int:
        """The broker's number of the last."""
        return self.first.seq + len(self) - 1

    @property
    def last_of_publisher(self) -> int:
        """The publisher's number of the last."""
        return self.first.publisher_seq + len(self) - 1

    def envelopes(self, skip: int = 0) -> list[Envelope]:
        """All of them, but for the first few."""
        found = envelopes_in(self.data, len(self))
        return found[skip:] if skip else found
