"""What the extension offers. Its meaning is that of `bench._naive_index.NaiveIndex`."""

from collections.abc import Hashable, Sequence
from typing import Any

INTERFACE: int

Test = tuple[str, int, bool, int, int, tuple[object, ...]]
"""Name, operator, negated, kind, which bounds are open (1: the lower one, 2: the upper one), operands."""

class Engine:
    """Filters under numbers, and the question which of them match."""

    def __init__(self, location: type, stride: int, /) -> None:
        """`location` is the type of places; every `stride`-th match is sampled."""

    def add(self, key: Hashable, filter: object, conjunctions: Sequence[Sequence[Test]] | None, /) -> int:
        """Hold a filter, and give its number; without conjunctions, its `matches` is asked.

        `ValueError` if there is something in the operands that the engine cannot compare; then nothing has changed.
        """

    def remove(self, number: int, /) -> None:
        """Forget a filter."""

    def match(self, attributes: dict[str, Any], notification: object, /) -> list[Any] | None:
        """The keys whose filters match; None if there is something in the attributes that it cannot compare."""

    def match_body(self, body: bytes, /) -> list[Any] | None:
        """The same from an encoded notification, whose names and values it checks; None: it must be decoded."""

    def items(self) -> list[tuple[Any, Any]]:
        """All keys with their filters."""

    def review(self, most: int, /) -> int:
        """Look for better homes for some conjunctions that wait for it; the number that still wait."""

    def statistics(self) -> dict[str, int]:
        """How much there is of what."""
