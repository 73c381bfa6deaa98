"""An index of keys: which of many filters may overlap this one.

Theory of operation
-------------------
Each alternative of a key is kept under one attribute for which it names its values (`=` or `IN`): the one whose values
are shared by the fewest keys so far. A filter that names its values of that attribute, too, can only overlap the keys
that share one of them; one that does not may overlap all keys under that attribute. Keys that name no value are always
asked. What is found here *may* overlap: whoever asks compares.

A value is kept as itself, so that 1 and 1.0 are together; True and False are kept apart from 1 and 0. Where a key is
kept is not noted: whoever removes it has its filter, and it is looked for under all values that the filter names.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Generic, TypeVar

from tidings.model import Constraint, Filter, Matches
from tidings.model.operators import Equal, Member

K = TypeVar("K", bound=Hashable)

MAX_NAMED = 64
"""The most values of one attribute by which one alternative is kept."""


class _Several(dict[K, None]):
    """The keys under one value that several name."""


class KeyIndex(Generic[K]):
    """Keys by the values that they name."""

    def __init__(self) -> None:
        self._by_value: dict[str, dict[object, K | _Several[K]]] = {}
        """Under a value that one key names, which is what most do, stands the key itself."""
        self._always: dict[K, None] = {}
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[K]:
        found = dict.fromkeys(self._always)
        for values in self._by_value.values():
            for kept in values.values():
                found.update(_keys(kept))
        return iter(found)

    def add(self, key: K, filter: Filter | None) -> None:
        """Keep a key, which was not kept; without a filter it is near everything."""
        places = self._choose(filter) if filter is not None else None
        self._length += 1
        if places is None:
            self._always[key] = None
            return
        for name, value in places:
            values = self._by_value.setdefault(name, {})
            kept = values.get(value)
            if kept is None:
                values[value] = key
            elif isinstance(kept, _Several):
                kept[key] = None
            else:
                values[value] = _Several({kept: None, key: None})

    def remove(self, key: K, filter: Filter | None) -> None:
        """Keep it no longer; with the filter with which it was added."""
        self._length -= 1
        self._always.pop(key, None)
        for conjunction in filter.conjunctions if filter is not None else ():
            for name, wanted in _named(conjunction.by_name).items():
                self._remove(key, name, wanted)

    def _remove(self, key: K, name: str, wanted: tuple[object, ...]) -> None:
        """Remove it from under these values, if it is kept there."""
        values = self._by_value.get(name, {})
        for value in wanted:
            kept = values.get(value)
            if isinstance(kept, _Several):
                kept.pop(key, None)
                if not kept:
                    del values[value]
            elif kept is not None and kept == key:
                del values[value]
        if not values:
            self._by_value.pop(name, None)

    def near(self, filter: Matches) -> Iterator[K]:
        """Every key that may overlap a filter, each once."""
        if not isinstance(filter, Filter):
            yield from self
            return
        found: dict[K, None] = dict.fromkeys(self._always)
        for conjunction in filter.conjunctions:
            named = _named(conjunction.by_name)
            for attribute, values in self._by_value.items():
                wanted = named.get(attribute)
                if wanted is None:
                    for kept in values.values():
                        found.update(_keys(kept))
                else:
                    for value in wanted:
                        if (one := values.get(value)) is not None:
                            found.update(_keys(one))
        yield from found

    def _choose(self, filter: Filter) -> list[tuple[str, object]] | None:
        """Under which values to keep a filter; None: one of its alternatives names none, or it has none."""
        places: list[tuple[str, object]] = []
        for conjunction in filter.conjunctions:
            named = _named(conjunction.by_name)
            if not named:
                return None
            name = min(named, key=lambda one: (self._shared(one, named[one]), one))
            places += ((name, value) for value in named[name])
        return list(dict.fromkeys(places)) or None

    def _shared(self, name: str, values: tuple[object, ...]) -> int:
        by_value = self._by_value.get(name, {})
        return sum(len(_keys(by_value[value])) for value in values if value in by_value)


def _keys(kept: K | _Several[K]) -> Mapping[K, None]:
    """The keys under one value."""
    return kept if isinstance(kept, _Several) else {kept: None}


def _named(by_name: Mapping[str, Sequence[Constraint]]) -> dict[str, tuple[object, ...]]:
    """The values that a conjunction names, by attribute: those of all its `=` and `IN`, of which a list may pass
    several."""
    named: dict[str, tuple[object, ...]] = {}
    for name, constraints in by_name.items():
        values = [value for one in constraints if isinstance(one, Equal | Member) for value in one.values]
        if 0 < len(values) <= MAX_NAMED:
            named[name] = tuple(map(_value, values))
    return named


def _value(scalar: object) -> object:
    """What a value is kept as: True and 1 are equal in Python, and not in filters."""
    return (bool, scalar) if isinstance(scalar, bool) else scalar
