"""What scenarios share: how long, how often, and the comparison of servers under one load."""

from __future__ import annotations

import functools
import statistics
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from bench import number

from ._dialect import Dialect, Interest, Item, connected
from ._load import Sample, Stalled, throughput
from ._processes import CannotRun, Running
from ._report import Report, Row

BATCH = 64
"""Publications that are written at once."""
WINDOW = 1_024
"""Publications that are written and not received yet, at most."""


T = TypeVar("T")


@dataclass
class Runs(Generic[T]):
    """What came of measuring one thing several times."""

    results: list[T] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def usable(self, ours: bool) -> bool:
        """Whether a median may be taken. Of a peer the runs that went well count; of ours all have to go well."""
        return bool(self.results) and not (ours and self.failures)

    @property
    def why(self) -> str:
        """What went wrong first."""
        return self.failures[0] if self.failures else ""

    @property
    def remark(self) -> str:
        """What a reader must know about the figure."""
        if not self.failures:
            return ""
        return f"; {len(self.failures)} of {len(self.failures) + len(self.results)} runs failed: {self.why}"


@dataclass
class Bench:
    """One run of the benchmark."""

    quick: bool = False
    report: Report = field(default_factory=Report)

    @property
    def repeats(self) -> int:
        """How often everything is measured; the median counts."""
        return 1 if self.quick else 3

    @property
    def seconds(self) -> float:
        """How long one measurement takes."""
        return 0.6 if self.quick else 2.0

    def compare(
        self,
        scenario: str,
        dialects: Sequence[Dialect],
        interests: Sequence[Interest],
        items: Sequence[Item],
        *,
        copies: int,
        targets: dict[str, float],
        window: int = WINDOW,
        prepare: Callable[[Dialect, Running], object] | None = None,
    ) -> dict[str, Sample]:
        """Put the same load on each server, ours first; `targets` says how much better than whom ours has to be."""

        def once(dialect: Dialect) -> Sample:
            batches = [dialect.batch(items[at : at + BATCH]) for at in range(0, len(items), BATCH)]
            with dialect.start() as server:
                kept = prepare(dialect, server) if prepare is not None else None
                with connected(dialect, server.port, interests) as (publisher, subscribers):
                    sample = throughput(
                        publisher,
                        subscribers,
                        batches,
                        lambda: (server.cpu(),),
                        copies=copies,
                        window=window,
                        seconds=self.seconds,
                    )
                del kept  # connections that had to stay open until now
            return sample

        runs = self.repeat({dialect.name: functools.partial(once, dialect) for dialect in dialects})
        ours = dialects[0].name
        medians = {name: median(found.results) for name, found in runs.items() if found.usable(name == ours)}
        for name, found in runs.items():
            target = targets.get(name)
            wanted = f">= {number(target)} x" if target is not None else ""
            if name not in medians:
                self.report.missing(scenario, name, found.why, target=wanted or ("no loss" if name == ours else ""))
                continue
            sample = medians[name]
            measured = f"{sample.rate:>9,.0f}/s {sample.total_cpu:6.2f} µs{found.remark}"
            row = Row(scenario, name, measured, target=wanted)
            if name != ours and ours in medians:
                cpu = sample.total_cpu / medians[ours].total_cpu
                row.cpu_ratio = f"{number(cpu)} x"
                row.rate_ratio = f"{number(medians[ours].rate / sample.rate)} x"
                if target is not None:
                    row.verdict = "ok" if cpu >= target else "MISSED"
            elif target is not None:
                row.verdict = "MISSED"  # there is nothing of ours to compare with
            self.report.add(row)
        return medians

    def repeat(self, works: Mapping[str, Callable[[], T]]) -> dict[str, Runs[T]]:
        """Do everything in turn, as often as it is wanted, so that a disturbance hits all alike."""
        runs: dict[str, Runs[T]] = {name: Runs() for name in works}
        for _ in range(self.repeats):
            for name, work in works.items():
                try:
                    runs[name].results.append(work())
                except (CannotRun, Stalled, OSError, subprocess.SubprocessError) as error:
                    runs[name].failures.append(str(error) or type(error).__name__)
        return runs


def median(samples: Sequence[Sample]) -> Sample:
    """The median of each figure."""
    return Sample(
        statistics.median(sample.rate for sample in samples),
        tuple(statistics.median(figures) for figures in zip(*(sample.cpu for sample in samples), strict=True)),
    )
