"""Where code of tenants runs: one worker process for each tenant, started when it is first needed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from tidings.aggregation import AggregationOptions, Isolation
from tidings.aggregation.deploying import Place
from tidings.aggregation.workers import LAYERS, Answer, Code, Job, NoIsolation, machine
from tidings.model import AggregateError, printable

from .workers import Worker

log = logging.getLogger("tidings.net")


class CodeWorkers:
    """The workers of one broker: `tidings.aggregation.Workers`."""

    def __init__(
        self,
        options: AggregationOptions,
        *,
        turn: Callable[[Callable[[], None]], object],
        struck: Callable[[Place, str], None],
    ) -> None:
        """`turn` runs something in a turn of the broker; `struck` hears of code that has failed too often."""
        self._both = options.isolation is Isolation.BOTH
        self._max = options.max_workers
        self._seconds = options.batch_seconds
        self._turn = turn
        self._struck = struck
        self._workers: dict[str, Worker] = {}
        self._installed: dict[Place, Code] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False
        try:
            machine()
            self._unavailable = ""
        except NoIsolation as error:
            self._unavailable = str(error)

    @property
    def unavailable(self) -> str:
        """Why no code can be run here; "": it can, as far as is known."""
        return self._unavailable

    @property
    def layers(self) -> tuple[str, ...]:
        """What isolates the code, as the workers have said."""
        return next((one.supervisor.layers for one in self._workers.values() if one.supervisor.layers), ())

    def submit(
        self, place: Place, code: Code, jobs: Sequence[Job], done: Callable[[Sequence[Answer] | str], None]
    ) -> None:
        """Run jobs; in a later turn, call `done` with the answers, or with why there are none."""
        task = asyncio.ensure_future(self._run(place, code, jobs, done))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(
        self, place: Place, code: Code, jobs: Sequence[Job], done: Callable[[Sequence[Answer] | str], None]
    ) -> None:
        answers: Sequence[Answer] | str
        try:
            worker = self._worker(place, code)
            answers = await worker.submit(str(place), jobs)
        except AggregateError as error:
            answers = str(error)
        if not self._closed:
            self._turn(lambda: done(answers))

    def _worker(self, place: Place, code: Code) -> Worker:
        worker = self._workers.get(place.tenant)
        if worker is None:
            if len(self._workers) >= self._max:
                raise AggregateError(
                    f"code of {self._max} tenants runs here already; raise max_workers in [aggregation]"
                )
            worker = self._workers[place.tenant] = Worker(place.tenant, on_quarantine=self._quarantined)
            worker.supervisor.demands = LAYERS if self._both else ()
            worker.supervisor.batch_seconds = self._seconds
        if self._installed.get(place) != code:
            worker.install(str(place), code)
            self._installed[place] = code
        return worker

    def _quarantined(self, definition: str, reason: str) -> None:
        name, _, version = definition.rpartition(" ")
        self._turn(lambda: self._struck(Place(name, version), printable(reason)))

    def strikes(self, place: Place) -> int:
        """How often the code has failed lately."""
        worker = self._workers.get(place.tenant)
        return worker.supervisor.strikes(str(place)) if worker is not None else 0

    def forget(self, place: Place) -> None:
        """Run it no more; the process of a tenant that has nothing else ends."""
        if self._installed.pop(place, None) is None:
            return
        worker = self._workers[place.tenant]
        worker.remove(str(place))
        if all(one.tenant != place.tenant for one in self._installed):
            del self._workers[place.tenant]
            task = asyncio.ensure_future(worker.close())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """End all processes."""
        self._closed = True
        await asyncio.gather(*(worker.close() for worker in self._workers.values()))
        await asyncio.gather(*self._tasks, return_exceptions=True)
