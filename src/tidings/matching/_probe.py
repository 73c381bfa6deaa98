"""Probes: from the value of an attribute to the nodes that it leads to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

from tidings.model import Kind, Value

from ._atom import TYPES
from ._node import Node
from ._pivot import How, Pivot, scale

Table: TypeAlias = dict[Any, Node]


class Probe:
    """The pivots on one attribute, for values of one kind."""

    __slots__ = ("_cells", "_grams", "_heads", "_paths", "_sizes", "_tails", "equal", "more", "present")

    def __init__(self) -> None:
        self.equal: Table = {}
        self.present: Table = {}
        self._cells: dict[Any, Table] = {}
        self._heads: dict[Any, Table] = {}
        self._tails: dict[Any, Table] = {}
        self._grams: dict[Any, Table] = {}
        self._paths: dict[Any, Table] = {}
        self._sizes = {
            How.GRID: self._cells,
            How.PREFIX: self._heads,
            How.SUFFIX: self._tails,
            How.GRAM: self._grams,
            How.WITHIN: self._paths,
        }
        self.more = False
        """Whether `find` has anything to say."""

    def find(self, value: Any, hit: list[Node]) -> None:
        """Append the nodes that a scalar leads to, other than by equality."""
        if self.present:
            hit.append(self.present[None])
        if self._cells:
            number = value if type(value) is float else scale(value)
            for size, table in self._cells.items():
                if (node := table.get(number // size)) is not None:
                    hit.append(node)
        elif self._heads or self._tails or self._grams:
            for size, table in self._heads.items():
                if (node := table.get(value[:size])) is not None:
                    hit.append(node)
            for size, table in self._tails.items():
                if (node := table.get(value[-size:])) is not None:
                    hit.append(node)
            for size, table in self._grams.items():
                if len(value) - size < len(table):
                    grams = dict.fromkeys([value[at : at + size] for at in range(len(value) - size + 1)])
                    hit += [table[gram] for gram in grams if gram in table]  # in the same order in every process
                else:
                    hit += [node for gram, node in table.items() if gram in value]
        elif self._paths:
            for size, table in self._paths.items():
                if (node := table.get(value.parts[:size])) is not None:
                    hit.append(node)

    def cells(self) -> Iterator[Node]:
        """All nodes of the grid."""
        for table in self._cells.values():
            yield from table.values()

    def nodes(self, pivot: Pivot) -> tuple[Node, ...]:
        """The nodes of a pivot, made if need be."""
        self.more = self.more or pivot.how is not How.VALUE
        table = self._table(pivot)
        return tuple([table.get(key) or Node(table, key) for key in pivot.keys])

    def prune(self, pivot: Pivot) -> bool:
        """Drop the pivot's table if it is empty; True if the whole probe is."""
        sizes = self._sizes.get(pivot.how)
        if sizes is not None and not sizes.get(pivot.size, True):
            del sizes[pivot.size]
        self.more = bool(self.present or any(self._sizes.values()))
        return not (self.equal or self.more)

    def _table(self, pivot: Pivot) -> Table:
        match pivot.how:
            case How.VALUE:
                return self.equal
            case How.PRESENT:
                return self.present
            case how:
                return self._sizes[how].setdefault(pivot.size, {})


class Probes:
    """All probes, by the type of the value and the name of the attribute."""

    def __init__(self) -> None:
        tables: dict[Kind, dict[str, Probe]] = {kind: {} for kind in TYPES}
        self._by_kind = tables
        self.by_type = {type_: tables[kind] for kind, types in TYPES.items() for type_ in types}
        """For the reader in a hurry. There is no entry for lists."""

    def nodes(self, pivot: Pivot) -> tuple[Node, ...]:
        """The nodes of a pivot, made if need be."""
        probes = self._by_kind[pivot.kind]
        probe = probes.get(pivot.name)
        if probe is None:
            probe = probes[pivot.name] = Probe()
        return probe.nodes(pivot)

    def prune(self, pivot: Pivot) -> None:
        """Drop what is empty after a conjunction left its nodes."""
        probes = self._by_kind[pivot.kind]
        if probes[pivot.name].prune(pivot):
            del probes[pivot.name]

    def candidates(self, name: str, value: Value) -> list[Node]:
        """All nodes that an attribute may lead to; the value may be a list.

        On a list, the two bounds of a range may be passed by different elements, and a negated constraint
        by elements of any kind: a grid says nothing, and a list is present in every kind.
        """
        if type(value) is not tuple:
            return self._scalar(name, value)
        hit = [node for item in value for node in self._scalar(name, item)]
        for probes in self._by_kind.values():
            if (probe := probes.get(name)) is not None:
                hit += probe.present.values()
                hit += probe.cells()
        return hit

    def _scalar(self, name: str, value: Any) -> list[Node]:
        hit: list[Node] = []
        if (probe := self.by_type[type(value)].get(name)) is not None:
            if (node := probe.equal.get(value)) is not None:
                hit.append(node)
            if probe.more:
                probe.find(value, hit)
        return hit

    def __len__(self) -> int:
        return sum(map(len, self._by_kind.values()))
