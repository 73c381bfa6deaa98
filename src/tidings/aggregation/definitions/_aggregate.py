"""The interface of a definition: what an aggregate counts, and how two results become one.

Theory of operation
-------------------
A definition says four things. `key`: which of many values a record belongs to. `lift`: what one record contributes,
as a *partial*; None if it is irrelevant. `combine`: two partials as one. `zero`: the partial of nothing. Everything
else (trees, windows, bounds, riding on messages, Spark) is the engine's, which relies on laws:

    combine(combine(a, b), c) = combine(a, combine(b, c))        combine(a, b) = combine(b, a)
    combine(zero(), a) = a                                       decode(encode(a)) = a, byte for byte
    combine(a, invert(a)) = zero(), if there is an inverse       distance is a metric

`tidings aggregate check` tests them, as does the broker that takes a deployment. Definitions are pure: they do no
I/O, read no clock and no random numbers, and never change a partial that they were given.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from tidings.model import Filter, PartialRefused

from ._codec import MAX_PARTIAL, canonical, plain
from ._record import JP, Record
from ._windows import Sliding

P = TypeVar("P")


class Split(enum.Enum):
    """How a bound on the error is divided among those that contribute."""

    SUM = "sum"
    """Errors add: all shares together are at most the bound."""
    WHOLE = "whole"
    """The function is idempotent: each may use the whole bound."""
    NONE = "none"
    """A bound cannot be divided: every change is told."""


class Kind(enum.Enum):
    """When a definition has a value."""

    GAUGE = "gauge"
    """At any time: a sum over what is there."""
    WINDOW = "window"
    """For each window of time."""
    ONCE = "once"
    """Once on each broker, when it is installed."""


class Aggregate(Generic[P]):
    """A definition. Derive from it, and give it a `name`, a `version`, `lift`, `zero` and `combine`.

    >>> class Sizes(Aggregate[int]):
    ...     name, version = "acme.sizes", "1.0.0"
    ...     joinpoints = frozenset({JP.PUBLISHED})
    ...     def zero(self): return 0
    ...     def lift(self, record): return record.attrs.get("size")
    ...     def combine(self, a, b): return a + b
    >>> sizes = Sizes()
    >>> sizes.encode(sizes.combine(3, 4)), sizes.invertible, sizes.kind
    (b'7', False, <Kind.GAUGE: 'gauge'>)
    """

    name: str = ""
    """Of the form TENANT.NAME; names without a dot belong to Tidings."""
    version: str = "1"
    joinpoints: frozenset[JP] = frozenset({JP.PUBLISHED})
    """Where records come from."""
    window: Sliding | None = None
    where: Filter | str = ""
    """A filter: brokers hand only records that pass it to the definition, live; `lift` must give None for others, so
    that history agrees."""
    grouped: bool = True
    """Of what is deployed: whether there is a value for each key, or one value whatever the keys are."""
    capabilities: frozenset[str] = frozenset()
    """`identity`: records name their peer."""
    away: bool = False
    """Whether clients count that are away and keep a durable subscription."""
    split: Split = Split.NONE
    ranged: bool = False
    """Whether partials are integers that add, so that a range of them may travel instead of one value."""
    unit: float = 1
    """If `ranged`: how many units of a partial are 1 in what is presented."""
    integral: bool = False
    """Whether distances are integers, so that shares of a bound below 1 are of no use."""
    approximate: bool = False
    """Whether the laws hold within `error` only, and not byte for byte."""
    max_bytes: int = MAX_PARTIAL
    """The most bytes of an encoded partial."""

    def key(self, record: Record) -> str:
        """Which of many values the record belongs to; its topic, unless this is overridden."""
        return record.topic

    def zero(self) -> P:
        """The partial of nothing."""
        raise NotImplementedError(f"{type(self).__name__} needs zero()")

    def lift(self, record: Record) -> P | None:
        """What one record contributes; None if it is irrelevant."""
        raise NotImplementedError(f"{type(self).__name__} needs lift(record)")

    def combine(self, a: P, b: P) -> P:
        """Two partials as one."""
        raise NotImplementedError(f"{type(self).__name__} needs combine(a, b)")

    def present(self, partial: P) -> Any:
        """What a client sees; the partial itself, unless this is overridden."""
        return partial

    def error(self, partial: P) -> float:
        """By how much the presented value may be off by the definition's own doing; sketches override it."""
        return 0

    def distance(self, a: P, b: P) -> float:
        """How far two partials are apart, in presented units: a metric.

        Without a definition of one, different numbers are as far apart as their difference, and other partials
        infinitely far, so that every change is told.
        """
        if isinstance(a, int) and isinstance(b, int):
            return abs(a - b)
        return 0 if a == b else math.inf

    def agrees(self, a: P, b: P) -> bool:
        """Whether two partials may both be right about the same records; only where `approximate` may they differ."""
        return bool(a == b)

    def invert(self, partial: P) -> P:
        """The partial that takes another one away again. Overridden where there is one."""
        raise NotImplementedError(f"{self.name} has no inverse")

    def contributes(self, view: Mapping[str, Any], neighbour: str) -> bool:
        """Whether a neighbour, of which the broker tells `view`, can contribute; one that cannot is not asked."""
        return True

    def encode(self, partial: P) -> bytes:
        """A partial as bytes, each in one way only: canonical JSON of integers, texts, lists and dictionaries."""
        return canonical(partial)  # type: ignore[arg-type]

    def decode(self, data: bytes) -> P:
        """The partial of some bytes, or `PartialRefused`: they may have been made up by a neighbour."""
        return plain(data)  # type: ignore[no-any-return]

    def migrate_from(self, old_version: str, partial: Any) -> P:
        """The partial of an older version, as one of this version. Overridden where that can be said."""
        raise NotImplementedError(f"{self.name} {self.version} does not read partials of version {old_version}")

    def spark_native(self) -> Any:
        """A column of Spark that is the encoded partial of a pane. Overridden where there is one; it is used for
        speed only.
        """
        raise NotImplementedError(f"{self.name} has no expression in Spark")

    @property
    def kind(self) -> Kind:
        """When it has a value."""
        return Kind.GAUGE if self.window is None else Kind.WINDOW

    @property
    def invertible(self) -> bool:
        """Whether it has an inverse, so that one record more or less costs one step."""
        return type(self).invert is not Aggregate.invert

    @property
    def migrates(self) -> bool:
        """Whether it can read partials of an older version."""
        return type(self).migrate_from is not Aggregate.migrate_from

    @property
    def native(self) -> bool:
        """Whether Spark can compute it by itself."""
        return type(self).spark_native is not Aggregate.spark_native

    def bounded(self, data: bytes) -> bytes:
        """An encoded partial, or `PartialRefused` if it is too large to travel. Nothing is ever cut off."""
        if len(data) > self.max_bytes:
            raise PartialRefused(
                f"{self.name}: a partial of {len(data):,} bytes, at most {self.max_bytes:,} travel; "
                "use fewer groups, shorter texts or a sketch"
            )
        return data

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} {self.version}>"


class RunOnce:
    """A definition that is computed once on each broker, when it is installed. There is nothing to combine."""

    name: str = ""
    version: str = "1"
    joinpoints: frozenset[JP] = frozenset()
    kind = Kind.ONCE
    max_bytes: int = MAX_PARTIAL

    def run(self, broker: str) -> Any:
        """What this broker has computed: a value of integers, texts, lists and dictionaries."""
        raise NotImplementedError(f"{type(self).__name__} needs run(broker)")

    def encode(self, value: Any) -> bytes:
        """The value as bytes."""
        return canonical(value)

    def decode(self, data: bytes) -> Any:
        """The value of some bytes, or `PartialRefused`."""
        return plain(data)
