"""One table: what each server did, how ours compares with it, what was wanted."""

from __future__ import annotations

from dataclasses import dataclass, field

from bench import number

HEAD = ("scenario", "server", "measured", "CPU", "rate", "target", "")


@dataclass
class Row:
    """A line of the table."""

    scenario: str
    server: str
    measured: str
    cpu_ratio: str = ""
    rate_ratio: str = ""
    target: str = ""
    verdict: str = ""

    def cells(self) -> tuple[str, ...]:
        """As text."""
        return (
            self.scenario,
            self.server,
            self.measured,
            self.cpu_ratio,
            self.rate_ratio,
            self.target,
            self.verdict,
        )


@dataclass
class Report:
    """Collects rows; prints each as it comes."""

    rows: list[Row] = field(default_factory=list)

    def add(self, row: Row) -> None:
        """One more row."""
        self.rows.append(row)
        print("  " + "  ".join(cell for cell in row.cells() if cell), flush=True)

    def figure(self, scenario: str, server: str, measured: str) -> None:
        """Something to know."""
        self.add(Row(scenario, server, measured))

    def limit(self, scenario: str, server: str, value: float, unit: str, *, at_most: float, more: str = "") -> None:
        """Something that must not be larger. Below zero the machine was too busy to tell, which is not a pass."""
        verdict = "NOISE" if value < 0 else "ok" if value <= at_most else "MISSED"
        shown = f"-{number(-value)}" if value < 0 else number(value)
        measured = f"{shown} {unit}{more}"
        self.add(Row(scenario, server, measured, target=f"<= {number(at_most)} {unit}", verdict=verdict))

    def floor(self, scenario: str, server: str, value: float, unit: str, *, at_least: float, more: str = "") -> None:
        """Something that must not be smaller."""
        verdict = "ok" if value >= at_least else "MISSED"
        measured = f"{number(value)} {unit}{more}"
        self.add(Row(scenario, server, measured, target=f">= {number(at_least)} {unit}", verdict=verdict))

    def missing(self, scenario: str, server: str, why: str, *, target: str) -> None:
        """A peer that could not be measured; if a target hangs on it, that is missed."""
        self.add(Row(scenario, server, f"missing: {why}", target=target, verdict="MISSED" if target else ""))

    @property
    def missed(self) -> list[Row]:
        """Rows whose target was not met, or could not be judged."""
        return [row for row in self.rows if row.verdict in ("MISSED", "NOISE")]

    def table(self) -> str:
        """Everything, in columns."""
        rows = [HEAD, *(row.cells() for row in self.rows)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])
