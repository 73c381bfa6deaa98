"""Blocks: publications that have the same attributes, decoded together into columns.

Most publications of a broker look alike. A decoder that knows which names to expect is several times as fast as one
that does not, and gives columns where the other gives a dictionary for each. So the first body tells the names, all
that have just these names make a block, and so on with the rest; what is left after a few rounds is taken as it comes.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec

from tidings.model import Value
from tidings.wire import Envelope, decode_body, ext_hook

ROUNDS = 4
"""How many different sets of names are looked for among the rows that become columns together."""
ALIKE = 16
"""Fewer rows than this are not worth a block of their own."""
_AWKWARD = re.compile(r'["\\\x00-\x1f]')


class Block(NamedTuple):
    """Rows with the same names; one column of values for each name."""

    envelopes: Sequence[Envelope]
    names: Sequence[str]
    columns: Sequence[Sequence[Any]]

    def values(self, name: str) -> Sequence[Any]:
        """The values of one attribute, None where it is missing."""
        return self.columns[self.names.index(name)] if name in self.names else (None,) * len(self.envelopes)


class Mixed(NamedTuple):
    """Rows of any names."""

    envelopes: Sequence[Envelope]
    rows: Sequence[dict[str, Value]]

    def values(self, name: str) -> Sequence[Any]:
        """The values of one attribute, None where it is missing."""
        return [row.get(name) for row in self.rows]


def blocks(envelopes: Sequence[Envelope]) -> Iterator[Block | Mixed]:
    """The rows, sorted into blocks; the order is lost between blocks and kept within."""
    left = envelopes
    for _ in range(ROUNDS):
        if len(left) < ALIKE:
            break
        block, left = _alike(left)
        if block is not None:
            yield block
    if left:
        yield Mixed(left, [decode_body(envelope.body).attributes for envelope in left])


def _alike(envelopes: Sequence[Envelope]) -> tuple[Block | None, Sequence[Envelope]]:
    """The rows that look like the first one, and the others."""
    names = tuple(decode_body(envelopes[0].body).attributes)
    decode, values = _strict_decoder(names)
    rows, same, others = [], [], []
    for envelope in envelopes:
        try:
            rows.append(decode(envelope.body))
            same.append(envelope)
        except msgspec.ValidationError:
            others.append(envelope)
    columns = list(zip(*map(values, rows), strict=True))
    if not columns or any(list in set(map(type, column)) for column in columns):
        # Those with lists are taken one by one, and those without attributes; put last, they are not tried again.
        return None, [*others, *same]
    return Block(same, names, columns), others


@functools.lru_cache(maxsize=256)
def _strict_decoder(names: tuple[str, ...]) -> tuple[Callable[[bytes], Any], Callable[[Any], tuple[Any, ...]]]:
    """A decoder that takes these names and no others, and what makes a row of its result."""
    if not names or any(map(_AWKWARD.search, names)):
        return _nothing, tuple
    fields = [f"f{at}" for at in range(len(names))]
    renamed = dict(zip(fields, names, strict=True))
    row = msgspec.defstruct(
        "Row", [(field, Any) for field in fields], rename=renamed, forbid_unknown_fields=True, gc=False
    )
    get = attrgetter(*fields)
    decode = msgspec.msgpack.Decoder(row, ext_hook=ext_hook).decode
    return decode, get if len(fields) > 1 else lambda one: (get(one),)


def _nothing(body: bytes) -> Any:
    raise msgspec.ValidationError("no field can have such a name")
