"""`LIKE 'abc%'`: the attribute is a text that starts so."""

from __future__ import annotations

from tidings.model._constraint import Constraint
from tidings.model._values import Scalar

from .like import ANY, Like


class Prefix(Like):
    """`name LIKE 'text%'`; an empty text passes every string."""

    __slots__ = ("text",)

    def __init__(self, name: str, text: str) -> None:
        super().__init__(name, (text, ANY) if text else (ANY,))
        self.text = text

    def holds(self, scalar: Scalar) -> bool:
        return type(scalar) is str and scalar.startswith(self.text)

    def includes(self, other: Constraint) -> bool:
        """Whether every match of the other starts so."""
        if not isinstance(other, Like):
            return super().includes(other)
        return other.head.startswith(self.text)
