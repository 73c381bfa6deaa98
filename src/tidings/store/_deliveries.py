"""Deliveries in the journal: many in one record, as columns, because there are as many as notifications times readers.

What one turn of a broker sends to many clients is one row: the row names a *group* of clients, and the record lists
each group once. Numbers are kept as differences to the row before, so that they compress to next to nothing.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

import msgspec

from tidings.model import Route

_MASK = 2**63 - 1


class Group(NamedTuple):
    """Clients that got the same, for subscriptions of the same ids."""

    clients: tuple[str, ...]
    subscriptions: tuple[str, ...]
    past: bool = False
    """Whether it is what subscriptions get of the past, in an order of its own and at any time."""


class Sent(NamedTuple):
    """One notification that was handed to the links of a group of clients."""

    group: int
    source: int
    """Of which origin and epoch, by its place in the list of sources."""
    seq: int
    at: int
    """Microseconds since 1970 UTC, by the clock of the broker."""
    form: int
    """See `form_of`."""


class Deliveries(msgspec.Struct, frozen=True, array_like=True):
    """The body of a record of kind `DELIVER`."""

    groups: tuple[Group, ...]
    sources: tuple[tuple[str, int], ...]
    """Origins and epochs."""
    columns: tuple[bytes, bytes, bytes, bytes, bytes]
    """group, source, seq, at, form: integers of 64 bits, the lowest byte first; each but form less the one before."""

    @classmethod
    def of(cls, groups: Sequence[Group], sources: Sequence[tuple[str, int]], rows: Iterable[Sent]) -> Deliveries:
        """Pack some rows."""
        group, source, seq, at, form = zip(*rows, strict=True)
        return cls(
            tuple(groups),
            tuple(sources),
            (_packed(_differences(group)), _packed(_differences(source)), _packed(_differences(seq)),
             _packed(_differences(at)), _packed(form)),
        )  # fmt: skip

    def rows(self) -> Iterator[Sent]:
        """The rows, in the order in which they were sent."""
        group, source, seq, at = (accumulate(_unpacked(column)) for column in self.columns[:4])
        return map(Sent, group, source, seq, at, _unpacked(self.columns[4]))


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Deliveries).decode


def encode_deliveries(deliveries: Deliveries) -> bytes:
    """As the journal keeps them."""
    return _encode(deliveries)


def decode_deliveries(data: bytes) -> Deliveries:
    return _decode(data)


def form_of(route: Route) -> int:
    """What tells the forms of one event apart that a client gets, as one number; 0: as it was published."""
    if not route.path:
        return route.version
    return (route.version * 1_000_003 + int(route.path[0], 16)) & _MASK


def _differences(values: Sequence[int]) -> list[int]:
    return [values[0], *(later - earlier for earlier, later in pairwise(values))]


def _packed(values: Iterable[int]) -> bytes:
    numbers = array("q", values)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tobytes()


def _unpacked(data: bytes) -> array[int]:
    numbers = array("q")
    numbers.frombytes(data)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers
