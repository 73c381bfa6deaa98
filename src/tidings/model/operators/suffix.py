"""`LIKE '%abc'`: the attribute is a text that ends so."""

from __future__ import annotations

from tidings.model._constraint import Constraint
from tidings.model._values import Scalar

from .like import ANY, Like


class Suffix(Like):
    """`name LIKE '%text'`; the text is not empty."""

    __slots__ = ("text",)

    def __init__(self, name: str, text: str) -> None:
        super().__init__(name, (ANY, text))
        self.text = text

    def holds(self, scalar: Scalar) -> bool:
        return type(scalar) is str and scalar.endswith(self.text)

    def includes(self, other: Constraint) -> bool:
        """Whether every match of the other ends so."""
        if not isinstance(other, Like):
            return super().includes(other)
        return other.tail.endswith(self.text)
