"""A run: publications of one client that came together and were taken together, kept as the bytes of their envelopes.

Their numbers are consecutive, the broker's as well as the publisher's, and they have one time and one quality. So the
identity of the first says all that others ask for, and the envelopes are decoded only when somebody wants to read them.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tidings.model import Identity

from ._envelope import Envelope, Quality

MAX_RUN = 500
"""The most publications in a run."""

_decode_one = msgspec.msgpack.Decoder(Envelope).decode
_decode = msgspec.msgpack.Decoder(list[Envelope]).decode


class Run:
    """Publications that were taken together."""

    __slots__ = ("_places", "data", "first", "quality", "size")

    def __init__(self, first: Identity, quality: Quality, data: bytes, places: bytes, size: int) -> None:
        """`places`: for each, where its body begins and how long it is, 32 bits each, in the order of this machine."""
        self.first = first
        """The identity of the first, but for its `ttl`."""
        self.quality = quality
        self.data = data
        """The envelopes, one after the other."""
        self._places = memoryview(places).cast("I")
        self.size = size
        """The bytes of all bodies."""

    def __len__(self) -> int:
        return len(self._places) // 2

    def size_of(self, start: int, stop: int) -> int:
        """The bytes of some of the bodies."""
        return sum(self._places[2 * start + 1 : 2 * stop : 2])

    @property
    def last(self) -> int:
        """The broker's number of the last."""
        return self.first.seq + len(self) - 1

    @property
    def last_of_publisher(self) -> int:
        """The publisher's number of the last."""
        return self.first.publisher_seq + len(self) - 1

    def has(self, publisher: str, seq: int) -> bool:
        """Whether a publication of this publisher, with this number of its own, is among them."""
        return publisher == self.first.publisher and self.first.publisher_seq <= seq <= self.last_of_publisher

    def bodies(self) -> list[bytes]:
        """The bodies."""
        data, places = self.data, self._places
        return [data[at : at + size] for at, size in zip(places[::2], places[1::2], strict=True)]

    def envelopes(self, skip: int = 0) -> list[Envelope]:
        """All of them, but for the first few."""
        found = _decode(array_head(len(self)) + self.data)
        return found[skip:] if skip else found

    def some(self, places: Sequence[int]) -> list[Envelope]:
        """Those at these places, counted from 0."""
        data, bodies, found = self.data, self._places, []
        for place in places:
            start = bodies[2 * place - 2] + bodies[2 * place - 1] + 1 if place else 0  # behind a body is its quality
            found.append(_decode_one(data[start : bodies[2 * place] + bodies[2 * place + 1] + 1]))
        return found


def array_head(count: int) -> bytes:
    """What an array of so many items begins with.

    >>> array_head(3) == msgspec.msgpack.encode([1, 2, 3])[:1]
    True
    """
    if count < 16:
        return bytes([0x90 + count])
    return b"\xdc" + count.to_bytes(2, "big") if count < 65_536 else b"\xdd" + count.to_bytes(4, "big")
