"""The promises: docs/promises.md as data."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from pathlib import Path

from tidings.model import TidingsError

HOLDS = "holds"
ANY = "any"


class PromiseError(TidingsError):
    """The table of promises cannot be read, or has no cell for what is asked."""


class Outcome(enum.IntEnum):
    """What a cell of the table promises about a publication, the weakest first."""

    NOTHING = 0
    REFUSED = 1
    GAP = 2
    DELIVERED = 3


class Promises:
    """The table of promises: guarantee x fault x feature.

    >>> promises = Promises.read("| delivery of stored | origin gone | core | gap |")
    >>> promises.outcome("delivery of stored", ["origin gone"])
    <Outcome.GAP: 2>
    """

    def __init__(self, cells: dict[tuple[str, str, str], str]) -> None:
        self._cells = cells

    @classmethod
    def load(cls, path: Path | None = None) -> Promises:
        """Read the table from a file, by default the one of this source tree, or of the installed package."""
        if path is None:
            in_tree = Path(__file__).parents[3] / "docs" / "promises.md"
            path = in_tree if in_tree.exists() else Path(__file__).with_name("promises.md")
        if not path.exists():
            raise PromiseError(f"there is no table of promises at {path}; name the file")
        return cls.read(path.read_text(encoding="utf-8"))

    @classmethod
    def read(cls, text: str) -> Promises:
        """Read the table from text: every row of four cells."""
        cells: dict[tuple[str, str, str], str] = {}
        for guarantee, fault, feature, outcome in _rows(text):
            if outcome != HOLDS and outcome.upper() not in Outcome.__members__:
                raise PromiseError(
                    f"'{outcome}' is not an outcome; use one of {', '.join(o.name.lower() for o in Outcome)}"
                )
            if (guarantee, fault, feature) in cells:
                raise PromiseError(f"{guarantee} x {fault} x {feature} is promised twice; keep one row")
            cells[guarantee, fault, feature] = outcome
        return cls(cells)

    def holds(self, guarantee: str, feature: str = "core") -> bool:
        """Whether a guarantee holds whatever happens."""
        return self._cells.get((guarantee, ANY, feature)) == HOLDS

    def outcome(self, guarantee: str, faults: Iterable[str], feature: str = "core") -> Outcome:
        """Return what is promised if all these faults happen: the weakest of their cells."""
        return min(self._cell(guarantee, fault, feature) for fault in faults)

    def _cell(self, guarantee: str, fault: str, feature: str) -> Outcome:
        for row in ((guarantee, fault, feature), (guarantee, ANY, feature)):
            if row in self._cells:
                return Outcome[self._cells[row].upper()]
        raise PromiseError(f"docs/promises.md has no cell for {guarantee} x {fault} x {feature}; add a row")

    @property
    def cells(self) -> dict[tuple[str, str, str], str]:
        """The outcome of each cell, by guarantee, fault and feature."""
        return dict(self._cells)


def _rows(text: str) -> Iterator[list[str]]:
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        heading = cells[0] == "guarantee" or set(cells[0]) <= {"-", ":"}
        if line.lstrip().startswith("|") and len(cells) == 4 and not heading:
            yield cells
