"""What being ready before a client arrives is worth, and what it costs.

200 clients walk through the building of the documents, whose edges are links of brokers and ways of clients alike (see
`_walking`), with each scheme. Each wants one in five notifications, so that everything is wanted everywhere, and copies
attract no traffic that is not there anyway. Then what brokers need for copies in memory and, `--full`, what 10,000
clients at 50 brokers do.
"""

from __future__ import annotations

import statistics

from bench import Report
from bench import _copies as copies
from bench._walking import ROUND_TRIP, Walk, Walking, documents_plan
from tidings.mobility import MobilityOptions, Scheme

CLIENTS, SECONDS = 200, 120.0
FAR, NEAR = 25.0, 0.2
"""Milliseconds between brokers."""
ORIGINS = MobilityOptions()
REACTIVE = MobilityOptions(Scheme.REACTIVE, roamers=("all",))
PROACTIVE = MobilityOptions(Scheme.PROACTIVE, roamers=("all",))
WARM = MobilityOptions(Scheme.PROACTIVE, roamers=("all",), warm_copies=4)


def run(report: Report) -> None:
    """Measure moves, and what copies need."""
    plan = documents_plan(CLIENTS, SECONDS)
    origins, reactive = Walking(plan, ORIGINS, FAR).run(), Walking(plan, REACTIVE, FAR).run()
    ready, warm = Walking(plan, PROACTIVE, FAR).run(), Walking(plan, WARM, FAR).run()
    near = Walking(plan, PROACTIVE, NEAR).run()
    _ready(report, ready, near, origins, reactive)
    _warm(report, warm, origins, reactive)
    copies.run(report)


def _ready(report: Report, ready: Walk, near: Walk, origins: Walk, reactive: Walk) -> None:
    report.figure(f"hand-offs of {CLIENTS} clients", ready.handoffs, "")
    for outcome, count in ready.outcomes.items():
        report.figure(f"of these, {outcome.value}", count, "")
    hit = statistics.median(ready.hits)
    report.limit("pause of a hit, 25 ms links / client round trip", hit / ROUND_TRIP, "x", at_most=1.2)
    report.limit("the same / that at 0.2 ms links", hit / statistics.median(near.hits), "x", at_most=1.15)
    for name, other in (("origins", origins), ("reactive", reactive)):
        median = statistics.median(ready.pauses) / statistics.median(other.pauses)
        report.limit(f"median pause / {name}", median, "x", at_most=0.25)
        mean = statistics.mean(ready.pauses) / statistics.mean(other.pauses)
        report.limit(f"mean pause / {name}", mean, "x", at_most=0.6)
        report.figure(f"mean pause with {name}", statistics.mean(other.pauses), "ms")
    report.figure("mean pause", statistics.mean(ready.pauses), "ms")
    report.limit("frames between brokers / origins", ready.frames / origins.frames, "x", at_most=2.0)
    report.limit("bytes between brokers / origins", ready.bytes / origins.bytes, "x", at_most=1.4)
    report.figure("control messages / model of the documents", ready.messages / ready.expected, "x")


def _warm(report: Report, warm: Walk, origins: Walk, reactive: Walk) -> None:
    for outcome, count in warm.outcomes.items():
        report.figure(f"with warm copies, {outcome.value}", count, "")
    last = statistics.quantiles(warm.pauses, n=20)[-1]
    report.limit("with warm copies, 95th percentile of pauses / client round trip", last / ROUND_TRIP, "x", at_most=1.3)
    mean = statistics.mean(warm.pauses)
    report.limit("with warm copies, mean pause / reactive", mean / statistics.mean(reactive.pauses), "x", at_most=0.25)
    report.limit("with warm copies, bytes between brokers / origins", warm.bytes / origins.bytes, "x", at_most=2.0)
    report.figure("with warm copies, frames between brokers / origins", warm.frames / origins.frames, "x")
