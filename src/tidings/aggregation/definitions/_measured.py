"""What the definitions of the catalogue share: which records, which value of each, and which group it belongs to.

A definition of the catalogue measures *values*. Its operand takes the value out of a record, `where` says which records
count, and `by` names the attributes whose values make the groups. The key of a group is the canonical text of these
values.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, Generic, TypeVar

from tidings.model import EVERYTHING, AggregateError, Filter, Location, Scalar, Value, literal

from ._aggregate import Aggregate
from ._numbers import number_of
from ._record import JP, Record
from ._windows import Sliding

P = TypeVar("P")

MAX_GROUPING = 8
"""The most attributes that groups are made of."""
BROKER = "tidings.broker"
"""As a name after BY: the broker at which something was published."""
MAX_ITEM = 256
"""The most bytes of a value as a member of a set or of a key; longer ones are known by their start and a digest."""
KEPT_START = 12
"""How many characters of a longer value are kept."""


@dataclass(frozen=True, slots=True)
class Attribute:
    """The value of an attribute, as an operand."""

    name: str

    def __call__(self, record: Record) -> Value | None:
        return record.attrs.get(self.name)


def peer(record: Record) -> Value | None:
    """Who published, subscribed or advertised, as an operand: a pseudonym."""
    return record.peer or None


class Measured(Aggregate[P], Generic[P]):
    """A definition of the catalogue: `measure` says what one value contributes."""

    needs_operand: ClassVar[bool] = True
    where: Filter

    def __init__(
        self,
        operand: str | Callable[[Record], Any] | None = None,
        *,
        by: Sequence[str] = (),
        where: Filter = EVERYTHING,
        window: Sliding | None = None,
        name: str = "",
        joinpoints: frozenset[JP] | None = None,
    ) -> None:
        if operand is None and self.needs_operand:
            raise AggregateError(f"{type(self).__name__} needs to know of what; give it an attribute, such as 'load'")
        if len(by) > MAX_GROUPING:
            raise AggregateError(f"groups by {len(by)} attributes, at most {MAX_GROUPING} are allowed")
        self.operand = Attribute(operand) if isinstance(operand, str) else operand
        self.by = tuple(by)
        self.where = where
        self.window = window
        self.name = name or type(self).__name__.lower()
        self.joinpoints = self.joinpoints if joinpoints is None else joinpoints
        self._everything = where == EVERYTHING

    def measure(self, value: Any) -> P | None:
        """What one value contributes; None if it is not of the kind that is measured."""
        raise NotImplementedError(f"{type(self).__name__} needs measure(value)")

    def concerns(self, record: Record) -> bool:
        """Whether the record counts: it entered at this broker, and passes the filter."""
        return record.ingress and (self._everything or self.where.matches(record.attrs))

    def lift(self, record: Record) -> P | None:
        """What the value of a record contributes."""
        return self.taken(record) if self.concerns(record) else None

    def taken(self, record: Record) -> P | None:
        """As `lift`, of a record that is known to count."""
        if self.operand is None:
            return self.measure(None)
        value = self.operand(record)
        return None if value is None else self.measure(value)

    def key(self, record: Record) -> str:
        """The group of the record."""
        if not self.by:
            return ""
        return group_key([record.broker if name == BROKER else record.attrs.get(name) for name in self.by])


def group_key(values: Sequence[Value | None]) -> str:
    """The key of a group.

    >>> group_key(["r1", 2.0, None])
    '["r1",2,null]'
    """
    return "[" + ",".join("null" if value is None else item(_single(value)) for value in values) + "]"


def group_of(key: str) -> tuple[Any, ...]:
    """The values of a group; those that JSON cannot hold as the filter language writes them.

    >>> group_of('["r1",2,null]'), group_of(group_key([b"x"]))
    (('r1', 2, None), ("X'78'",))
    """
    return tuple(_plain(value) for value in json.loads(key)) if key else ()


@functools.lru_cache(maxsize=10_000)
def is_group(key: str, size: int) -> bool:
    """Whether this is the key of a group by so many attributes: a neighbour may have made it up."""
    if not size:
        return key == ""
    try:
        values = json.loads(key)
        return type(values) is list and len(values) == size and "[" + ",".join(map(_as_item, values)) + "]" == key
    except (ValueError, RecursionError):
        return False


def _as_item(value: Any) -> str:
    text = "null" if value is None else _written(value)
    if value is not None:
        value_of(text)
    return text


def _plain(value: Any) -> Any:
    """A value as the filter language writes it, if JSON cannot hold it."""
    return value[""] if type(value) is dict and list(value) == [""] else value


def _single(value: Value) -> Scalar:
    """A group has one value: a list is known by its first element."""
    if not isinstance(value, tuple):
        return value
    return value[0] if value else ""


def items_of(value: Value, most: int = MAX_ITEM) -> list[str]:
    """The members that a value adds to a set: itself, or each of its elements."""
    return [item(one, most) for one in value] if isinstance(value, tuple) else [item(value, most)]


def item(value: Scalar, most: int = MAX_ITEM) -> str:
    """A scalar as canonical JSON: equal ones have equal texts, as numbers compare by value.

    >>> item("a"), item(2.0), item(True), item(b"x")[:5]
    ('"a"', '2', 'true', '{"":"')
    """
    if isinstance(value, bytes | datetime | Location):
        text = _written({"": literal(value)})
    elif isinstance(value, str):
        text = _written(value)
    else:
        return json.dumps(value if isinstance(value, bool) else number_of(value))
    return text if len(text) <= most // 4 or len(text.encode()) <= most else _cut(value, text)


def value_of(text: str) -> Any:
    """What a member of a set is presented as; `ValueError` if it is none.

    >>> value_of('"a"'), value_of('2'), value_of(item(b"x"))
    ('a', 2, "X'78'")
    """
    value = json.loads(text)
    presented = _plain(value)
    known = type(presented) is str or (presented is value and type(value) in (int, float, bool))
    if not known or _written(value) != text or (type(value) is float and not math.isfinite(value)):
        raise ValueError(text)
    return presented


def _written(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _cut(value: object, text: str) -> str:
    """A long value is known by how it begins, and by a digest."""
    digest = hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
    start = value[:KEPT_START] if isinstance(value, str) else type(value).__name__
    return _written(f"{start}…{digest}")
