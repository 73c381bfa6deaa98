"""A read: the parts that came together on one connection, of which the broker takes as many as it can as bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tidings.wire import Parser, part_size

from ._links import Link

if TYPE_CHECKING:
    from ._broker import Broker


class Reading:
    """The parts of a read, one by one; before each, the broker takes as many messages as it can take as bytes."""

    def __init__(self, link: Link, data: bytes, broker: Broker, parser: Parser, is_over: Callable[[], bool]) -> None:
        """`Broker.feeds` has said yes to these bytes. `is_over`: whether enough was taken for one turn."""
        self._link = link
        self._data = data
        self._broker = broker
        self._parser = parser
        self._is_over = is_over
        self._at = 0
        self._plain = True
        self.taken = 0
        """How many DATA parts the broker has taken by itself."""
        self.late = False
        """Whether what is left has to wait, because enough was taken."""

    def __iter__(self) -> Reading:
        return self

    def __next__(self) -> tuple[int, bytes]:
        data, feed = self._data, self._broker.feed
        while self._plain and self._at < len(data):
            before = self._at
            self._at, count = feed(self._link, data, before)
            self.taken += count
            self._plain = count > 0
            if count and self._is_over():
                self.late = self._at < len(data)
                raise StopIteration
        if self._at >= len(data):
            raise StopIteration
        upto = min(len(data), self._at + part_size(data, self._at))
        parts = self._parser.feed(data[self._at : upto])
        self._at = upto
        self._plain = True
        if not parts:
            raise StopIteration  # the rest of it is yet to come
        return parts[0]

    def rest(self) -> bytes:
        """All that is left, for another reading."""
        data, self._data = self._data[self._at :], b""
        self._at = 0
        return data
