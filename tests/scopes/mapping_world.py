"""Random steps and mappings over the names and values of `strategies`, and how advertisements read lists."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from strategies import KINDS, NAMES, filters, scalars, values

from tidings.model import Filter, Notification
from tidings.scopes._convert import Convert
from tidings.scopes._mapping import AnyStep, Mapping
from tidings.scopes._steps import Add, Annotate, Drop, Keep, Only, Rename

names = st.sampled_from(NAMES)
pairs = st.lists(names, min_size=2, max_size=2, unique=True)
some_names = st.lists(names, min_size=1, max_size=3).map(tuple)


def factors(*, wild: bool) -> SearchStrategy[int | float]:
    few = st.sampled_from([1, -1, 2, -3, 0.5, 1.1, -0.01, 100])
    if not wild:
        return few
    every = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
    return (few | every).filter(lambda number: number != 0)


def converts(*, wild: bool = False) -> SearchStrategy[Convert]:
    offsets = st.sampled_from([0, 0, 1, -2, 0.5, 32]) | (factors(wild=True) if wild else st.nothing())
    return st.builds(Convert, names, factors(wild=wild), offsets, st.none() | names, st.booleans())


def steps(*, wild: bool = False) -> dict[str, SearchStrategy[AnyStep]]:
    """A strategy for each kind of step."""
    return {
        "Rename": pairs.map(lambda pair: Rename(*pair)),
        "Drop": some_names.map(Drop),
        "Keep": some_names.map(Keep),
        "Add": st.builds(Add, names, values(KINDS, wild=wild)),
        "Annotate": st.builds(Annotate, names, scalars(KINDS, wild=wild)),
        "Only": filters(wild=wild).map(Only),
        "Convert": converts(wild=wild),
    }


def mappings(*, wild: bool = False, max_size: int = 4) -> SearchStrategy[Mapping]:
    every = st.one_of(list(steps(wild=wild).values()))
    return st.lists(every, max_size=max_size).map(lambda some: Mapping(tuple(some)))


def scalarised(notification: Notification) -> Iterator[Notification]:
    """The notification with one element in place of each list, in every way."""
    choices = [
        [(name, item) for item in value] if isinstance(value, tuple) and value else [(name, value)]
        for name, value in notification.items()
    ]
    return (Notification(dict(chosen)) for chosen in itertools.product(*choices))


def promises(advertisement: Filter, notification: Notification) -> bool:
    """Whether the advertisement allows this to be published (see `tidings.model._overlap`)."""
    return all(map(advertisement.matches, scalarised(notification)))
