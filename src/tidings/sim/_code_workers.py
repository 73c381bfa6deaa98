"""What stands for the processes that run code of tenants: the same answers, a millisecond later, without walls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tidings.aggregation.deploying import Place
from tidings.aggregation.workers import Answer, Batch, Check, Code, Job
from tidings.aggregation.workers._child import Definitions

if TYPE_CHECKING:
    from ._network import Network

CHECK_SECONDS = 0.02
"""How long the laws of a definition are tested: the time is real, and runs are many."""
WORK = 1_000
"""Microseconds until an answer comes."""


class SimWorkers:
    """The workers of one simulated broker."""

    unavailable = ""
    layers = ("none",)

    def __init__(self, network: Callable[[], Network], broker: str) -> None:
        """`network` is asked for when it is there: a broker is built before it is complete."""
        self._network = network
        self._broker = broker
        self._definitions = Definitions()
        self._number = 0

    def submit(
        self, place: Place, code: Code, jobs: Sequence[Job], done: Callable[[Sequence[Answer] | str], None]
    ) -> None:
        """Run jobs, now; their answers come later, unless the broker has died by then."""
        self._number += 1
        jobs = [Check(one.seed, CHECK_SECONDS) if isinstance(one, Check) else one for one in jobs]
        batch = Batch(self._number, f"{place} {hash(code.source)}", list(jobs), code)
        answers = self._definitions.answer(batch).answers
        self._network().runtime(self._broker).call_later(WORK, lambda: done(answers))

    def strikes(self, place: Place) -> int:
        """How often the code has failed: never."""
        return 0

    def forget(self, place: Place) -> None:
        """Run it no more."""
