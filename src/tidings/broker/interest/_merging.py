"""Merging: on top of covering, filters that are alike are announced as one broader filter.

Theory of operation
-------------------
Three stages, each fed with what the stage before it announces and withdraws:

    given filters --> CoverSet --> groups of maximal filters --> CoverSet over the mergers --> neighbour

A *group* is a set of maximal filters with one merger. A new filter joins a group if the two merge; groups are
found by what they have in common: filters that differ in one attribute only share a bucket. A perfect merger
accepts exactly what its group accepts, so it is computed anew when a filter leaves. An imperfect one may accept more,
down to a given precision, and is *lazy*: it stays as it is until a given share of its filters has gone, so most
changes under it are never propagated. A merger whose last filter goes is withdrawn.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping

from tidings.model import Filter, Matches

from ._covering import COMPARED_COST, CoverSet
from ._reduction import ALGORITHMS, Delta, Key, RoutingOptions, algebraic

MERGE_TRIES = 8
"""How many groups of a bucket a new filter tries to join."""


class _Group:
    """Maximal filters and the one filter that stands for them."""

    __slots__ = ("announced", "gone", "members", "merger")

    def __init__(self, id: str, filter: Filter) -> None:
        self.members = {id: filter}
        self.merger = filter
        self.announced: Filter | None = None
        """What the next stage knows of this group."""
        self.gone = 0


class Merging:
    """Tells mergers of the maximal filters."""

    def __init__(self, options: RoutingOptions, *, precision: float, slack: float) -> None:
        self._precision = precision
        self._slack = slack
        self._width = options.merge_width
        self._ids: dict[Key, str] = {}
        self._holders: dict[str, int] = {}
        self._base = CoverSet()
        self._groups: dict[str, _Group] = {}
        self._buckets: dict[Hashable, dict[_Group, None]] = {}
        self._mergers: dict[str, int] = {}
        self._top = CoverSet()

    @property
    def announced(self) -> Mapping[str, Matches]:
        """The maximal mergers."""
        return self._top.maximal

    def add(self, key: Key, id: str, filter: Matches) -> Delta:
        """Merge the filter into what is announced, unless something covers it."""
        canonical = algebraic(filter).canonical()
        self._ids[key] = canonical.id
        self._holders[canonical.id] = holders = self._holders.get(canonical.id, 0) + 1
        return Delta() if holders > 1 else self._regroup(self._base.add(canonical.id, canonical))

    def remove(self, key: Key) -> Delta:
        """Take the filter out of its merger."""
        id = self._ids.pop(key)
        self._holders[id] -= 1
        if self._holders[id]:
            return Delta()
        del self._holders[id]
        return self._regroup(self._base.remove(id))

    def representative(self, key: Key) -> str:
        """The announced merger that stands for this filter."""
        group = self._groups[self._base.cover_of(self._ids[key])]
        assert group.announced is not None
        return self._top.cover_of(group.announced.id)

    def _regroup(self, change: Delta) -> Delta:
        """Pass a change of the maximal filters on to the groups, then what that does to the mergers to the top."""
        touched: dict[_Group, None] = {}
        for id in change.withdraw:
            group = self._groups.pop(id)
            del group.members[id]
            group.gone += 1
            touched[group] = None
        joining = {id: algebraic(filter) for id, filter in change.announce.items()}
        for group in list(touched):
            if not group.members or group.gone > self._slack * (len(group.members) + group.gone):
                joining.update(group.members)
                self._forget(group)
                group.members.clear()
        for id, filter in joining.items():
            touched[self._join(id, filter)] = None
        return self._announce(touched)

    def _join(self, id: str, filter: Filter) -> _Group:
        for group in self._alike(filter):
            merger = group.merger.merge(filter, precision=self._precision)
            if merger is not None and len(merger.conjunctions) == 1 and merger.cost <= COMPARED_COST:
                group.members[id] = filter
                self._forget(group)
                group.merger = merger
                break
        else:
            group = _Group(id, filter)
        self._groups[id] = group
        self._enter(group)
        return group

    def _announce(self, touched: Iterable[_Group]) -> Delta:
        delta = Delta()
        gone: list[Filter] = []
        for group in touched:
            new = group.merger.canonical() if group.members else None
            old, group.announced = group.announced, new
            if new is not None and (old is None or new.id != old.id):
                self._mergers[new.id] = holders = self._mergers.get(new.id, 0) + 1
                if holders == 1:
                    delta.then(self._top.add(new.id, new))
            if old is not None and (new is None or new.id != old.id):
                gone.append(old)
        for old in gone:
            self._mergers[old.id] -= 1
            if not self._mergers[old.id]:
                del self._mergers[old.id]
                delta.then(self._top.remove(old.id))
        return delta

    def _alike(self, filter: Filter) -> Iterator[_Group]:
        seen: dict[_Group, None] = {}
        for bucket in self._keys(filter):
            for group in list(self._buckets.get(bucket, ()))[-MERGE_TRIES:]:
                if group not in seen and len(group.members) < self._width:
                    seen[group] = None
                    yield group

    def _keys(self, filter: Filter) -> Iterator[Hashable]:
        if len(filter.conjunctions) != 1 or filter.cost > COMPARED_COST:
            return
        by_name = filter.conjunctions[0].by_name
        for name in by_name:
            yield name, tuple(constraints for other, constraints in by_name.items() if other != name)
        if self._precision < 1:
            yield frozenset(by_name)

    def _enter(self, group: _Group) -> None:
        for bucket in self._keys(group.merger):
            self._buckets.setdefault(bucket, {})[group] = None

    def _forget(self, group: _Group) -> None:
        for bucket in self._keys(group.merger):
            groups = self._buckets[bucket]
            del groups[group]
            if not groups:
                del self._buckets[bucket]


ALGORITHMS["merging"] = lambda options: Merging(options, precision=1.0, slack=0.0)
ALGORITHMS["imperfect-merging"] = lambda options: Merging(options, precision=options.precision, slack=options.slack)
