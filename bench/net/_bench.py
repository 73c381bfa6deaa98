"""What scenarios share: how long, how often, and the comparison of servers under one load."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from bench import number

from ._dialect import Dialect, Interest, Item, connected
from ._load import Sample, Stalled, throughput
from ._processes import CannotRun, Running
from ._report import Report, Row

BATCH = 64
"""Publications that are written at once."""
WINDOW = 1_024
"""Publications that are written and not received yet, at most."""


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

        samples: dict[str, list[Sample]] = {dialect.name: [] for dialect in dialects}
        problems: dict[str, str] = {}
        for _ in range(self.repeats):
            for dialect in dialects:
                if dialect.name not in problems:
                    try:
                        samples[dialect.name].append(once(dialect))
                    except (CannotRun, Stalled, OSError) as error:
                        problems[dialect.name] = str(error)
        medians = {name: median(found) for name, found in samples.items() if name not in problems}
        ours = dialects[0].name
        for dialect in dialects:
            name = dialect.name
            target = targets.get(name)
            wanted = f">= {number(target)} x" if target is not None else ""
            if name in problems:
                self.report.missing(scenario, name, problems[name], target=wanted or (">= 1 run" * (name == ours)))
                continue
            sample = medians[name]
            row = Row(scenario, name, f"{sample.rate:>9,.0f}/s {sample.total_cpu:6.2f} µs", target=wanted)
            if name != ours and ours in medians:
                cpu = sample.total_cpu / medians[ours].total_cpu
                row.cpu_ratio = f"{number(cpu)} x"
                row.rate_ratio = f"{number(medians[ours].rate / sample.rate)} x"
                if target is not None:
                    row.verdict = "ok" if cpu >= target else "MISSED"
            self.report.add(row)
        return medians


def median(samples: Sequence[Sample]) -> Sample:
    """The median of each figure."""
    return Sample(
        statistics.median(sample.rate for sample in samples),
        tuple(statistics.median(figures) for figures in zip(*(sample.cpu for sample in samples), strict=True)),
    )
