"""`LIKE '%abc%'`: the attribute is a text that contains this."""

from __future__ import annotations

from tidings.model._constraint import Constraint
from tidings.model._values import Scalar

from .like import ANY, Like


class Contains(Like):
    """`name LIKE '%text%'`; the text is not empty."""

    __slots__ = ("text",)

    def __init__(self, name: str, text: str) -> None:
        super().__init__(name, (ANY, text, ANY))
        self.text = text

    def holds(self, scalar: Scalar) -> bool:
        return type(scalar) is str and self.text in scalar

    def includes(self, other: Constraint) -> bool:
        """Whether every match of the other contains this."""
        if not isinstance(other, Like):
            return super().includes(other)
        return any(isinstance(token, str) and self.text in token for token in other.tokens)
