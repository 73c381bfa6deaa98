"""An index of keys: which of many filters may overlap this one.

Theory of operation
-------------------
Each alternative of a key is kept under one attribute for which it names its values (`=` or `IN`): the one whose values
are shared by the fewest keys so far. A filter that names its values of that attribute, too, can only overlap the keys
that share one of them; one that does not may overlap all keys under that attribute. Keys that name no value are always
asked. What is found here *may* overlap: whoever asks compares.

A value is kept as (type, value), numbers as numbers, so that 1 and True are apart and 1 and 1.0 together.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Generic, TypeVar

from tidings.model import Constraint, Filter, Matches
from tidings.model.operators import Equal, Member

K = TypeVar("K", bound=Hashable)
_Value = tuple[str, object]

MAX_NAMED = 64
"""The most values of one attribute by which one alternative is kept."""


class KeyIndex(Generic[K]):
    """Keys by the values that they name."""

    def __init__(self) -> None:
        self._places: dict[K, list[tuple[str, _Value]]] = {}
        """Where each key is kept; nowhere: it is always asked."""
        self._by_value: dict[str, dict[_Value, dict[K, None]]] = {}
        self._always: dict[K, None] = {}

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[K]:
        return iter(self._places)

    def add(self, key: K, filter: Filter | None) -> None:
        """Keep a key; without a filter it is near everything."""
        places = self._choose(filter) if filter is not None else None
        self._places[key] = places or []
        if places is None:
            self._always[key] = None
            return
        for name, value in places:
            self._by_value.setdefault(name, {}).setdefault(value, {})[key] = None

    def remove(self, key: K) -> None:
        """Keep it no longer."""
        self._always.pop(key, None)
        for name, value in self._places.pop(key):
            values = self._by_value[name]
            values[value].pop(key, None)
            if not values[value]:
                del values[value]
            if not values:
                del self._by_value[name]

    def near(self, filter: Matches) -> Iterator[K]:
        """Every key that may overlap a filter, each once."""
        if not isinstance(filter, Filter):
            yield from list(self._places)
            return
        found: dict[K, None] = dict.fromkeys(self._always)
        for conjunction in filter.conjunctions:
            named = _named(conjunction.by_name)
            for attribute, values in self._by_value.items():
                wanted = named.get(attribute)
                if wanted is None:
                    for keys in values.values():
                        found.update(keys)
                else:
                    for value in wanted:
                        found.update(values.get(value, {}))
        yield from found

    def _choose(self, filter: Filter) -> list[tuple[str, _Value]] | None:
        """Under which values to keep a filter; None: one of its alternatives names none."""
        places: list[tuple[str, _Value]] = []
        for conjunction in filter.conjunctions:
            named = _named(conjunction.by_name)
            if not named:
                return None
            name = min(named, key=lambda one: (self._shared(one, named[one]), one))
            places += ((name, value) for value in named[name])
        return list(dict.fromkeys(places))

    def _shared(self, name: str, values: tuple[_Value, ...]) -> int:
        kept = self._by_value.get(name, {})
        return sum(len(kept.get(value, ())) for value in values)


def _named(by_name: Mapping[str, Sequence[Constraint]]) -> dict[str, tuple[_Value, ...]]:
    """The values that a conjunction names, by attribute: those of all its `=` and `IN`, of which a list may pass
    several."""
    named: dict[str, tuple[_Value, ...]] = {}
    for name, constraints in by_name.items():
        values = [value for one in constraints if isinstance(one, Equal | Member) for value in one.values]
        if 0 < len(values) <= MAX_NAMED:
            named[name] = tuple(map(_value, values))
    return named


def _value(scalar: object) -> _Value:
    kind = "number" if isinstance(scalar, int | float) and not isinstance(scalar, bool) else type(scalar).__name__
    return kind, scalar
