"""The steps that change which attributes there are: Rename, Copy, Drop, Keep, Add, Annotate, Only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from tidings.model import NOTHING, Conjunction, Constraint, Filter, MappingError, Negated, Value
from tidings.model.operators import Exists, IsNull
from tidings.scopes._interface import both

from ._constant import Constant, held
from ._step import Attributes, MappingFailed, Step, checked_names
from ._translate import Answer, absent, decided, described, is_marked, renamed, rewritten, within_limits, without

MAX_LIST = 1_024
"""The most elements of a list, as `tidings.model` has it."""


class Rename(Step, frozen=True):
    """What was called `old` is called `new`.

    The new name belongs to it alone: an attribute that was called `new` before is lost, whether or not `old` is
    there. Otherwise a filter on `new` would have to ask for either, and twice as much with every renaming.
    """

    old: str
    new: str

    def __post_init__(self) -> None:
        checked_names(self, self.old, self.new)
        if self.old == self.new:
            raise MappingError(f"Rename: '{self.old}' to itself changes nothing; leave the step out")

    def run(self, attributes: Attributes) -> Attributes:
        """The attributes, in their order, with the new name."""
        kept = {name: value for name, value in attributes.items() if name != self.new}
        return {self.new if name == self.old else name: value for name, value in kept.items()}

    def wanted(self, filter: Filter) -> Filter:
        """The filter, by the old name; exact."""
        return rewritten(filter, (self.old, self.new).__contains__, self._asked)

    def _asked(self, constraint: Constraint) -> Answer:
        return renamed(constraint, self.old) if constraint.name == self.new else absent(constraint)

    def offered(self, filter: Filter) -> Filter:
        """The filter, by the new name; nothing is called by the old one."""
        return rewritten(filter, (self.old, self.new).__contains__, self._said, [IsNull(self.old)])

    def _said(self, constraint: Constraint) -> Answer:
        return renamed(constraint, self.new) if constraint.name == self.old else True

    def inverse(self) -> Step:
        """The other way round."""
        return Rename(self.new, self.old)


class Copy(Step, frozen=True):
    """What is called `old` is called `new`, too; without it there is no `new`.

    The new name belongs to it alone, as that of `Rename` does.
    """

    old: str
    new: str

    def __post_init__(self) -> None:
        checked_names(self, self.old, self.new)
        if self.old == self.new:
            raise MappingError(f"Copy: '{self.old}' to itself changes nothing; leave the step out")

    def run(self, attributes: Attributes) -> Attributes:
        """The attributes, and the same value once more."""
        kept = {name: value for name, value in attributes.items() if name != self.new}
        return {**kept, self.new: attributes[self.old]} if self.old in attributes else kept

    def wanted(self, filter: Filter) -> Filter:
        """The filter, with the old name in place of the new one; exact."""
        return rewritten(filter, self.new.__eq__, lambda constraint: renamed(constraint, self.old))

    def offered(self, filter: Filter) -> Filter:
        """What the filter says of others; of the new name, what it says of the old one."""
        own = [[one for one in part if one.name == self.old] for part in filter.conjunctions]
        parts = (
            Conjunction((*(one for one in part if one.name != self.new), *(renamed(one, self.new) for one in said)))
            for part, said in zip(filter.conjunctions, own, strict=True)
        )
        return within_limits(parts, lambda: without(filter, self.new.__eq__))

    def inverse(self) -> Step:
        """Without the copy."""
        return Drop((self.new,))


class Drop(Step, frozen=True):
    """Without these attributes."""

    names: tuple[str, ...]

    def __post_init__(self) -> None:
        _check_list(self, self.names)

    def run(self, attributes: Attributes) -> Attributes:
        return {name: value for name, value in attributes.items() if name not in self.names}

    def wanted(self, filter: Filter) -> Filter:
        """What the filter says where these attributes are missing; exact."""
        return rewritten(filter, self.names.__contains__, absent)

    def offered(self, filter: Filter) -> Filter:
        """What the filter says of other attributes; these are missing."""
        return rewritten(filter, self.names.__contains__, _nothing_said, map(IsNull, self.names))


class Keep(Step, frozen=True):
    """These attributes and no others."""

    names: tuple[str, ...]

    def __post_init__(self) -> None:
        _check_list(self, self.names)

    def run(self, attributes: Attributes) -> Attributes:
        return {name: value for name, value in attributes.items() if name in self.names}

    def wanted(self, filter: Filter) -> Filter:
        """What the filter says where all others are missing; exact."""
        return rewritten(filter, self._is_dropped, absent)

    def offered(self, filter: Filter) -> Filter:
        """What the filter says of these attributes."""
        return rewritten(filter, self._is_dropped, _nothing_said)

    def _is_dropped(self, name: str) -> bool:
        return name not in self.names


class Add(Step, frozen=True):
    """With this attribute, always, in place of one that had the name before."""

    name: str
    constant: Constant

    def __post_init__(self) -> None:
        checked_names(self, self.name)
        msgspec.structs.force_setattr(self, "constant", held(self.constant))

    @property
    def value(self) -> Value:
        return self.constant.value  # type: ignore[no-any-return]

    def run(self, attributes: Attributes) -> Attributes:
        return {**attributes, self.name: self.value}

    def wanted(self, filter: Filter) -> Filter:
        """What the filter says of others, if this value passes; exact."""
        return rewritten(filter, self.name.__eq__, lambda constraint: decided(constraint, self.value))

    def offered(self, filter: Filter) -> Filter:
        """What the filter says of others, and this value."""
        return rewritten(filter, self.name.__eq__, _nothing_said, [described(self.name, self.value)])

    def inverse(self) -> Step:
        """Without the attribute."""
        return Drop((self.name,))


class Annotate(Step, frozen=True):
    """With this value at the end of a list; a single value becomes the first of the list.

    So every border on its way may leave its name in a notification, and copies that took different paths differ.
    """

    name: str
    constant: Constant

    def __post_init__(self) -> None:
        checked_names(self, self.name)
        msgspec.structs.force_setattr(self, "constant", held(self.constant))
        if type(self.value) is tuple:
            raise MappingError(f"Annotate: {self.value!r:.60} is a list; append its elements one by one")

    @property
    def value(self) -> Value:
        return self.constant.value  # type: ignore[no-any-return]

    def run(self, attributes: Attributes) -> Attributes:
        """The attributes with a longer list."""
        before = attributes.get(self.name, ())
        items = before if type(before) is tuple else (before,)
        if len(items) >= MAX_LIST:
            raise MappingFailed(f"Annotate: '{self.name}' has {len(items):,} elements already")
        return {**attributes, self.name: (*items, self.value)}

    def wanted(self, filter: Filter) -> Filter:
        """The filter, without the constraints that the new element answers."""
        return rewritten(filter, self.name.__eq__, self._asked)

    def _asked(self, constraint: Constraint) -> Answer:
        value: Any = self.value
        if is_marked(constraint):
            return True
        if isinstance(constraint, Negated):
            # Not the constraint itself: a single value that does not compare fails it, but passes it in a list.
            return not constraint.inner.holds(value)
        if absent(constraint):
            return False  # the list is there now
        left = [want for want in constraint.wants if not want.holds(value)]
        return constraint if len(left) > 1 else left[0] if left else True

    def offered(self, filter: Filter) -> Filter:
        """What the filter says of others; the list is there, with an element that the filter did not promise."""
        return rewritten(filter, self.name.__eq__, _nothing_said, [Exists(self.name)])


class Only(Step, frozen=True):
    """What passes a filter; all else is blocked. A filter is a mapping."""

    filter: Filter

    def __post_init__(self) -> None:
        if self.filter.has_marker:
            raise MappingError(f"Only: '{self.filter}' uses myloc, but a border has no place; name the place")

    def run(self, attributes: Attributes) -> Attributes | None:
        return attributes if any(one.passes(attributes) for one in self.filter.conjunctions) else None

    def wanted(self, filter: Filter) -> Filter:
        """Both filters."""
        return both(self.filter, filter)[0]

    def offered(self, filter: Filter) -> Filter:
        """The filter, and that the attributes are there which this one asks for.

        Not both filters: who passes `tags = 'a'` may have the tags a and b, and an advertisement `tags = 'a'` would
        promise that there is no b.
        """
        shapes = list(dict.fromkeys(Conjunction(_shape(one)) for one in self.filter.conjunctions))
        joint, exact = both(self.filter, filter)
        if exact and not joint.canonical().conjunctions and not filter.overlaps(self.filter):
            return NOTHING
        return within_limits((part & shape for part in filter.conjunctions for shape in shapes), lambda: filter)


def _shape(conjunction: Conjunction) -> Iterator[Constraint]:
    """Which attributes a conjunction needs, and which it must not have."""
    for constraint in conjunction:
        yield IsNull(constraint.name) if absent(constraint) else Exists(constraint.name)


def _nothing_said(constraint: Constraint) -> Answer:
    return True


def _check_list(step: Step, names: tuple[str, ...]) -> None:
    if isinstance(names, str):
        raise MappingError(f"{type(step).__name__}: '{names}' is one text; give a list of names: ['{names}']")
    msgspec.structs.force_setattr(step, "names", tuple(dict.fromkeys(names)))
    checked_names(step, *names)
