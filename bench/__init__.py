"""Benchmarks: ratios against a peer in the same run, so that they hold on any machine.

A benchmark is a module here with a function `run(report)`. It measures, and tells the report:

    report.ratio("stock, 10,000 filters", 213.4, at_least=150)     a target: missed means exit status 1
    report.limit("add, median", 21.5, "µs", at_most=50)            a target as well
    report.figure("match, 100,000 filters", 14.1, "µs")            a figure, no target

`python -m bench` runs all of them, `python -m bench matching` one.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass
class Line:
    """One row of the table."""

    bench: str
    what: str
    value: float
    unit: str
    target: str = ""
    passed: bool | None = None

    def cells(self) -> list[str]:
        """The row as text."""
        verdict = {None: "", True: "ok", False: "MISSED"}[self.passed]
        return [self.bench, self.what, number(self.value), self.unit, self.target, verdict]


@dataclass
class Report:
    """Collects what benchmarks measure."""

    full: bool = False
    """Whether the long curves are wanted too (`--full`)."""
    bench: str = ""
    lines: list[Line] = field(default_factory=list)

    def ratio(self, what: str, value: float, *, at_least: float) -> None:
        """So many times faster than the peer."""
        self._add(Line(self.bench, what, value, "x", f">= {number(at_least)}", value >= at_least))

    def limit(self, what: str, value: float, unit: str, *, at_most: float) -> None:
        """A quantity that must not be larger."""
        self._add(Line(self.bench, what, value, unit, f"<= {number(at_most)}", value <= at_most))

    def figure(self, what: str, value: float, unit: str) -> None:
        """A quantity to know."""
        self._add(Line(self.bench, what, value, unit))

    @property
    def missed(self) -> list[Line]:
        """Targets that were not met."""
        return [line for line in self.lines if line.passed is False]

    def _add(self, line: Line) -> None:
        self.lines.append(line)
        print("  " + "  ".join(filter(None, line.cells()[1:])), flush=True)

    def table(self) -> str:
        """Everything that was measured."""
        rows = [["bench", "what", "value", "unit", "target", ""], *(line.cells() for line in self.lines)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = []
        for row in rows:
            cells = [c.rjust(w) if at == 2 else c.ljust(w) for at, (c, w) in enumerate(zip(row, widths, strict=True))]
            lines.append("  ".join(cells).rstrip())
        return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])


def number(value: float) -> str:
    """Three digits that count, or all of a large number."""
    if value >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.3g}"


def median_seconds(work: Callable[[], object], *, repeats: int = 5) -> float:
    """The median time of one call."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times)
