"""Code that runs once on each broker, when it is installed there: there is nothing to combine, and nothing to watch.

A broker that starts anew runs it again. What it has computed stays at the broker; whoever asks what is deployed is told
it, by broker. Code that fails has a reason instead, and is not tried again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Protocol

from tidings.broker import Timer
from tidings.model import PartialRefused, printable, shortened

from .definitions import JP, plain
from .deploying import Phase, Place, Registry
from .workers import Answer, Code, Combined, Failed, Job, Lift, Row

KEPT = 10_000_000
"""Microseconds for which a worker is kept after it has run something once: more may come."""
_EMPTY_BODY = b"\x80"


class Runs(Protocol):
    """Where code runs: `Workers`."""

    def submit(
        self, place: Place, code: Code, jobs: Sequence[Job], done: Callable[[Sequence[Answer] | str], None]
    ) -> None:
        """Run jobs; in a later turn, call `done` with the answers, or with why there are none."""
        ...

    def forget(self, place: Place) -> None:
        """Run it no more."""
        ...


class RunsOnce:
    """What has run once at one broker."""

    def __init__(
        self, broker: str, registry: Registry, workers: Runs, call_later: Callable[[int, Callable[[], None]], Timer]
    ) -> None:
        self._broker = broker
        self._registry = registry
        self._workers = workers
        self._call_later = call_later
        self._results: dict[Place, tuple[str, str]] = {}
        """The value as JSON, or why there is none; both empty: it has not answered yet."""

    def result(self, place: Place) -> tuple[str, str]:
        """What it has computed, and why it has not; a version that has ended has computed nothing."""
        return self._results.get(place, ("", ""))

    def look(self, place: Place) -> None:
        """Run a version that is installed and was not run; forget one that has ended."""
        statement = self._registry.statement(place)
        if statement is None or self._registry.judge(place).phase is not Phase.INSTALLED:
            self._results.pop(place, None)
            return
        manifest = statement.manifest
        if not manifest.once or place in self._results:
            return
        self._results[place] = "", ""
        asked = Row(0, self._broker, JP.PUBLISHED.value, "", "", True, 0, "", _EMPTY_BODY)
        code = Code(statement.source, manifest.entry)

        def done(answers: Sequence[Answer] | str) -> None:
            if place in self._results:
                self._results[place] = _result(answers, manifest.max_bytes)
                self._call_later(KEPT, lambda: self._workers.forget(place))

        self._call_later(0, lambda: self._workers.submit(place, code, [Lift([asked])], done))


def _result(answers: Sequence[Answer] | str, most: int) -> tuple[str, str]:
    """The value as JSON, or why there is none: what a worker says is not trusted."""
    if isinstance(answers, str):
        return "", shortened(printable(answers), 200)
    match list(answers):
        case [Combined([data])] if len(data) <= most:
            try:
                return json.dumps(plain(data), ensure_ascii=False), ""
            except PartialRefused as error:
                return "", str(error)
        case [Failed(reason)]:
            return "", shortened(printable(reason), 200)
        case _:
            return "", "its worker gave no value, or one that is too large"
