"""The core: publications through one broker with and without advice, and changes of its filters.

With `TIDINGS_BASE=DIR`, a checkout of another revision, its publications are measured in turn with this one's, in
processes of their own: `git worktree add DIR REV; TIDINGS_BASE=DIR python -m bench core`.
"""

from __future__ import annotations

import gc
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from bench import Report
from bench._runtime import Idle
from tidings.broker import Advice, Broker, Feature, Joinpoint, Link, LinkKind
from tidings.history import Strict
from tidings.model import Filter, Notification, last
from tidings.wire import Frame, Past, Publish, Quality, Subscribe, encode_body

FAN_OUTS = (1, 10, 100)
REPEATS = 9
BASE = os.environ.get("TIDINGS_BASE")


class _Noop(Feature):
    name = "noop"

    def __init__(self, joinpoint: Joinpoint) -> None:
        self._joinpoint = joinpoint

    def advice(self) -> Mapping[Joinpoint, Advice]:
        if self._joinpoint.name == "PUBLISHED":
            return {self._joinpoint: lambda envelope, link: None}
        return {self._joinpoint: lambda proceed, *arguments: proceed()}


def _broker(fan_out: int, features: Iterable[Feature] = (), *, sets: int = 1, filters: int = 0) -> Broker:
    """A broker with so many subscribers to each kind of notification, and filters that nothing passes."""
    broker = Broker("a", Idle(), features=features)
    for kind in range(sets):
        for n in range(fan_out):
            _subscribe(broker, f"c{kind}-{n}", f"kind = {kind}")
    for n in range(filters):
        _subscribe(broker, f"f{n}", f"price > {200 + n}")
    return broker


def _subscribe(broker: Broker, client: str, filter: str, past: Past | None = None) -> None:
    link = Link(client, LinkKind.CLIENT)
    broker.attach(link)
    broker.receive(link, Frame(Subscribe("s", Filter.parse(filter), past=past)))


def _publications(broker: Broker, sets: int = 1, count: int = 2_000) -> Callable[[], float]:
    """Measures the processor time of one publication, in microseconds, whenever it is called."""
    link = Link("publisher", LinkKind.CLIENT)
    broker.attach(link)
    bodies = [encode_body(Notification(kind=kind, price=5, symbol="SAP")) for kind in range(sets)]
    sent = [0]

    def once() -> float:
        first = sent[0] + 1
        frames = [Frame(Publish(n, bodies[n % sets], Quality.ACCEPTED)) for n in range(first, first + count)]
        sent[0] += count
        gc.collect()
        gc.disable()
        start = time.process_time()
        for frame in frames:
            broker.receive(link, frame)
        elapsed = time.process_time() - start
        gc.enable()
        return elapsed / count * 1e6

    return once


def _plain() -> dict[str, Callable[[], float]]:
    """What every revision can do."""
    runs = {f"fan-out {n}": _publications(_broker(n)) for n in FAN_OUTS}
    runs |= {f"four sets of receivers, fan-out {n}": _publications(_broker(n, sets=4), sets=4) for n in FAN_OUTS}
    return runs | {"1,000 filters": _publications(_broker(1, filters=1_000))}


def _one_held(fan_out: int, kind: int = 0) -> Broker:
    """A broker of which one subscription more, to this kind of notification, waits for its past, for ever."""
    broker = _broker(fan_out, [Strict()])
    neighbour = Link("b", LinkKind.BROKER)
    broker.link_up(neighbour)
    _subscribe(broker, "late", f"kind = {kind}", Past(last(10)))
    broker.holds.begin(next(iter(broker.registrations.subscriptions(broker.clients[-1]).values())), _Nobody())
    return broker


class _ForOne(Feature):
    """Advises what is handed to one client, which gets nothing of what is published."""

    name = "for one"

    def advice(self) -> Mapping[Joinpoint, Advice]:
        from tidings.broker import For  # noqa: PLC0415 - earlier revisions are measured with this file, too

        one = {Link("one", LinkKind.CLIENT)}
        return {Joinpoint.DELIVER: For(one, lambda proceed, *arguments: proceed())}


class _Nobody:
    """A holder that lets nothing go."""

    def turn_ended(self) -> None: ...
    def has_kept(self) -> None: ...
    def restarted(self) -> None: ...
    def ended(self) -> None: ...


def _advised() -> dict[str, Callable[[], float]]:
    runs = {}
    for n in FAN_OUTS:
        for joinpoint in (Joinpoint.PUB_MATCH, Joinpoint.PUB_SEND, Joinpoint.PUBLISHED):
            runs[f"{joinpoint.name}, fan-out {n}"] = _publications(_broker(n, [_Noop(joinpoint)]))
        runs[f"one held, fan-out {n}"] = _publications(_one_held(n))
        runs[f"the others while one is held, fan-out {n}"] = _publications(_one_held(n, kind=1))
        runs[f"the others while DELIVER is advised for one, fan-out {n}"] = _publications(_broker(n, [_ForOne()]))
    return runs


def _times(runs: Mapping[str, Callable[[], float]], repeats: int) -> dict[str, list[float]]:
    """All times of each, measured in turn."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(repeats):
        for name, once in runs.items():
            times[name].append(once())
    return times


def _medians(runs: Mapping[str, Callable[[], float]], repeats: int = REPEATS) -> dict[str, float]:
    return {name: statistics.median(values) for name, values in _times(runs, repeats).items()}


def _best(runs: Mapping[str, Callable[[], float]], repeats: int) -> dict[str, float]:
    """What a busy machine adds is not ours."""
    return {name: min(values) for name, values in _times(runs, repeats).items()}


def run(report: Report) -> None:
    """Measure the core."""
    own = _medians(_plain() | _advised())
    for name, value in own.items():
        report.figure(f"publication, {name}", value, "µs")
    for name, bars in ADVISED.items():
        for n, bar in zip(FAN_OUTS, bars, strict=True):
            ratio = own[f"fan-out {n}"] / own[f"{name}, fan-out {n}"]
            report.ratio(f"advice at {name} / plain, fan-out {n}", ratio, at_least=bar)
    for name in ("one is held", "DELIVER is advised for one"):
        for n in FAN_OUTS:
            ratio = own[f"fan-out {n}"] / own[f"the others while {name}, fan-out {n}"]
            report.ratio(f"the others while {name} / plain, fan-out {n}", ratio, at_least=0.98)
    if BASE:
        _against_base(report)
    _changes(report)


ADVISED = {"PUB_MATCH": (0.8, 0.85, 0.9), "PUB_SEND": (0.8, 0.85, 0.9), "PUBLISHED": (0.95,) * 3}
"""What an advised broker must reach of a plain one."""


def _against_base(report: Report) -> None:
    times: dict[str, dict[str, list[float]]] = {"here": {}, "base": {}}
    for _ in range(5):
        for side, root in (("here", Path(__file__).parents[1]), ("base", Path(str(BASE)))):
            for name, value in _measured_in(root).items():
                times[side].setdefault(name, []).append(value)
    here, base = ({name: min(values) for name, values in side.items()} for side in times.values())
    for name, value in base.items():
        report.ratio(f"{name}, against the base", value / here[name], at_least=1.0)


def _measured_in(root: Path) -> dict[str, float]:
    here = Path(__file__).parents[1]
    environment = {**os.environ, "PYTHONPATH": f"{root / 'src'}{os.pathsep}{here}"}
    command = [sys.executable, "-m", "bench.core"]
    found: Any = json.loads(subprocess.run(command, env=environment, cwd=here, capture_output=True, check=True).stdout)
    return {str(name): float(value) for name, value in found.items()}


def _changes(report: Report) -> None:
    """Filters are exchanged for others, in a table of 10,000: what 1,000 of them in a second take of a core."""
    broker, count = _broker(1, filters=10_000), 1_000
    link = Link("changing", LinkKind.CLIENT)
    broker.attach(link)
    times = []
    for turn in range(REPEATS):
        frames = [Frame(Subscribe(f"s{n % 100}", Filter.parse(f"price > {n + turn}"))) for n in range(count)]
        start = time.process_time()
        for frame in frames:
            broker.receive(link, frame)
        times.append(time.process_time() - start)
    report.limit("1,000 changes of filters a second, of 10,000", min(times), "cores", at_most=0.2)


if __name__ == "__main__":
    print(json.dumps(_best(_plain(), repeats=5)))
