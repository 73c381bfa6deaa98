"""Promoted attributes of an archive: which they are, and of which kind; see `tidings.store.archive`."""

from __future__ import annotations

import enum
import re
from typing import NamedTuple, Self

from ._errors import StoreError

RESERVED = frozenset(
    [
        "origin",
        "epoch",
        "seq",
        "publisher",
        "publisher_seq",
        "published_at",
        "graph_epoch",
        "ttl",
        "quality",
        "scope",
        "routes",
        "attributes",
        "body",
        "date",
        "hour",
    ]
)
"""The names of columns that every archive has, and of its directories: no promoted attribute can have them."""


class PromotedKind(enum.Enum):
    """The type of a promoted column."""

    TEXT = "text"
    INTEGER = "integer"
    FLOAT = "float"
    BOOLEAN = "boolean"
    TIME = "time"
    PLACE = "place"
    BYTES = "bytes"


class Promoted(NamedTuple):
    """An attribute with a column of its own, which has its name."""

    name: str
    kind: PromotedKind = PromotedKind.TEXT

    @classmethod
    def parse(cls, text: str) -> Self:
        """From `name` (a text) or `name:kind`.

        >>> Promoted.parse("price:float")
        Promoted(name='price', kind=<PromotedKind.FLOAT: 'float'>)
        """
        found = re.fullmatch(r"(.+?)(?::(\w+))?", text, re.DOTALL)
        kinds = [kind.value for kind in PromotedKind]
        if found is None or (found[2] is not None and found[2] not in kinds):
            raise StoreError(f"{text!r} cannot be promoted; write name or name:kind, with one of {', '.join(kinds)}")
        if found[1] in RESERVED:
            raise StoreError(f"'{found[1]}' cannot be promoted: every archive has a column of that name; leave it out")
        return cls(found[1], PromotedKind(found[2] or "text"))
