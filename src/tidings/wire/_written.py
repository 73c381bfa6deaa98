"""Frames that are written as bytes already, one part after the other, for everybody who gets the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Self

from ._codec import MSGPACK
from ._frame import Frame
from ._framing import HEADER


class Written(NamedTuple):
    """DATA parts that follow each other, in msgpack.

    >>> from tidings.wire import Mark, Part, encode, part
    >>> frame = Frame(Mark("b1", 1, 7))
    >>> data = part(Part.DATA, encode(frame))
    >>> Written(data + data, 2, len(data) - 4).frames() == [frame, frame]
    True
    """

    data: bytes
    length: int
    """How many parts."""
    largest: int
    """The size of the largest part, as peers count it."""
    numbers: bytes = b""
    """The numbers that the broker of their origin has given to the notifications in them, if they are of one origin and
    for the same subscriptions: 64 bits each, in the order of this machine."""

    @classmethod
    def joined(cls, written: Sequence[Self]) -> Self:
        """One for several."""
        if len(written) == 1:
            return written[0]
        data = b"".join([one.data for one in written])
        return cls(data, sum(one.length for one in written), max(one.largest for one in written))

    @property
    def first(self) -> Frame:
        """What is in the first of them."""
        return MSGPACK.decode(self.data[HEADER.size : 4 + HEADER.unpack_from(self.data, 0)[0]])

    def parts(self) -> list[bytes]:
        """Its parts, each with its header."""
        parts, at = [], 0
        for _ in range(self.length):
            upto = at + 4 + HEADER.unpack_from(self.data, at)[0]
            parts.append(self.data[at:upto])
            at = upto
        return parts

    def frames(self) -> list[Frame]:
        """What is in them."""
        return [MSGPACK.decode(one[HEADER.size :]) for one in self.parts()]
