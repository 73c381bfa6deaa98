"""The life of one tenant's worker, and of the definitions that it runs: all of it without a process, a pipe or a clock.

Theory of operation
-------------------
Batches wait in a line; one is with the worker at a time. A worker keeps nothing: partials stay in the broker, so a
worker that is lost costs only its batch, which is given to a new worker once more. A batch that is lost twice is
*given up*: the values that it was for are incomplete, and its definition has a *strike*. Three strikes are
*quarantine*: no batch of that definition is taken any more. Code that raises, or answers what does not fit its job,
has a strike at once; the worker goes on. A worker that ends or speaks while nobody asks it anything costs a start for
each batch: that is a strike for the definition that was asked last. A definition that answers 1,000 batches in a row is
forgiven one strike.

The states of a worker, and what happens to it:

    state     | submit          | ready           | reply        | lost             | late
    ----------|-----------------|-----------------|--------------|------------------|---------------------
    ABSENT    | start: STARTING |                 |              |                  |
    STARTING  | wait            | next, or READY  |              | again, or ABSENT | kill, then as lost
    READY     | send: BUSY      |                 | kill, lost   | strike: ABSENT   |
    BUSY      | wait            |                 | next, or READY | again: STARTING | kill, then as lost

A worker that does not even start is tried three times; then all batches that wait are given up, with the reason,
and the next batch tries again. What is to be done is returned as effects, in order; the deadline is an attribute.
Calls that a state does not know are ignored: they are about a worker that is gone.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from tidings.model import AggregateError

from ._fitting import misfit
from ._messages import Answer, Batch, Check, Code, Failed, Job, Reply, framed

STRIKES = 3
"""How many strikes are quarantine."""
FORGIVEN_AFTER = 1_000
"""After how many good batches in a row a strike is forgiven."""
MAX_WAITING = 256
"""The most batches that wait for a worker; more are given up at once."""
MAX_STARTS = 3
"""How often a worker is started before those who wait are told that it does not start."""
START_SECONDS = 20.0
"""How long a worker may take to start."""
BATCH_SECONDS = 0.5
"""How long a batch may take."""
CHECK_SECONDS = 10.0
"""How long a batch that tests laws may take: the test itself ends after two seconds."""


class State(enum.Enum):
    """Of a worker."""

    ABSENT = "absent"
    STARTING = "starting"
    READY = "ready"
    BUSY = "busy"


@dataclass(frozen=True, slots=True)
class Start:
    """Start a process."""


@dataclass(frozen=True, slots=True)
class Send:
    """Write a frame to it."""

    frame: bytes


@dataclass(frozen=True, slots=True)
class Kill:
    """End it; it is not heard any more."""

    reason: str


@dataclass(frozen=True, slots=True)
class Done:
    """A batch has been answered."""

    number: int
    answers: tuple[Answer, ...]


@dataclass(frozen=True, slots=True)
class GivenUp:
    """A batch will not be answered: what it was for is incomplete."""

    number: int
    reason: str


@dataclass(frozen=True, slots=True)
class Quarantined:
    """A definition is not run any more."""

    definition: str
    reason: str


Effect = Start | Send | Kill | Done | GivenUp | Quarantined


@dataclass(slots=True)
class _Definition:
    code: Code
    strikes: int = 0
    good: int = 0
    quarantined: str = ""


@dataclass(slots=True)
class _Waiting:
    number: int
    definition: str
    jobs: list[Job]
    seconds: float
    lost: int = 0


@dataclass(slots=True)
class Supervisor:
    """One worker of one tenant. Every call returns what is to be done, in order."""

    state: State = State.ABSENT
    deadline: float | None = None
    """When `late` is to be called, by the clock of whoever calls."""
    layers: tuple[str, ...] = ()
    """Which layers of isolation hold, as the worker said."""
    demands: tuple[str, ...] = ()
    """Layers without which no code is run."""
    restarts: int = 0
    batch_seconds: float = BATCH_SECONDS
    """How long each batch may take that is submitted from now on."""
    _definitions: dict[str, _Definition] = field(default_factory=dict)
    _line: deque[_Waiting] = field(default_factory=deque)
    _answered: str = ""
    """The definition that has answered last, in the life of this worker."""
    _loaded: set[str] = field(default_factory=set)
    _number: int = 0
    _starts: int = 0

    def install(self, definition: str, code: Code) -> None:
        """Take a definition; one of the same name is replaced, with its strikes."""
        self._definitions[definition] = _Definition(code)
        self._loaded.discard(definition)

    def remove(self, definition: str) -> list[Effect]:
        """Forget a definition; its batches are given up."""
        self._definitions.pop(definition, None)
        return self._given_up(definition, f"{definition} was removed")

    def strikes(self, definition: str) -> int:
        """How many strikes a definition has."""
        found = self._definitions.get(definition)
        return found.strikes if found else 0

    def quarantined(self, definition: str) -> str:
        """Why a definition is in quarantine; empty if it is not."""
        found = self._definitions.get(definition)
        return found.quarantined if found else ""

    def quarantine(self, definition: str, reason: str) -> list[Effect]:
        """Run a definition no more: by order of an operator, or after its strikes."""
        found = self._definitions.get(definition)
        if found is None or found.quarantined:
            return []
        found.quarantined = reason
        return [Quarantined(definition, reason), *self._given_up(definition, reason)]

    def submit(self, definition: str, jobs: Sequence[Job], now: float) -> tuple[int, list[Effect]]:
        """Give a batch to the worker; the number of the batch, which `Done` or `GivenUp` will name."""
        self._number += 1
        number = self._number
        found = self._definitions.get(definition)
        if found is None:
            raise AggregateError(f"{definition} is not installed here; deploy it first")
        if found.quarantined:
            return number, [GivenUp(number, f"{definition} is in quarantine: {found.quarantined}")]
        if len(self._line) >= MAX_WAITING:
            return number, [GivenUp(number, f"{MAX_WAITING} batches wait for the worker already")]
        tests = any(isinstance(job, Check) for job in jobs)
        waiting = _Waiting(number, definition, list(jobs), max(self.batch_seconds, CHECK_SECONDS * tests))
        framed(Batch(number, definition, waiting.jobs, found.code))  # refuses one that is too large before it waits
        self._line.append(waiting)
        if self.state is State.ABSENT:
            return number, self._start(now)
        return number, self._next(now) if self.state is State.READY else []

    def ready(self, layers: tuple[str, ...], now: float) -> list[Effect]:
        """The worker has said that it is ready."""
        if self.state is not State.STARTING:
            return []
        self.layers = layers
        if missing := [one for one in self.demands if one not in layers]:
            reason = (
                f'the system does not grant a namespace for {", ".join(missing)}; use isolation = "one" to do without'
            )
            return [Kill(reason), *self.lost(reason, now)]
        self._starts = 0
        self.state, self.deadline = State.READY, None
        return self._next(now)

    def reply(self, reply: Reply, now: float) -> list[Effect]:
        """The worker has answered; an answer that nobody waits for is as bad as none."""
        if self.state in (State.ABSENT, State.STARTING):
            return []
        if self.state is State.READY:
            return [Kill("it spoke without being asked"), *self.lost("it spoke without being asked", now)]
        batch = self._line[0]
        if reply.number != batch.number or len(reply.answers) != len(batch.jobs):
            reason = f"it answered batch {reply.number} with {len(reply.answers)} answers, not batch {batch.number}"
            return [Kill(reason), *self.lost(reason, now)]
        self._line.popleft()
        self.state, self.deadline = State.READY, None
        self._answered = batch.definition
        answers = [
            Failed(problem) if (problem := misfit(job, one)) else one
            for job, one in zip(batch.jobs, reply.answers, strict=True)
        ]
        effects: list[Effect] = [Done(batch.number, tuple(answers))]
        failures = [one.reason for one in answers if isinstance(one, Failed)]
        if not failures:  # else it may be the code that could not be loaded
            self._loaded.add(batch.definition)
        effects += self._struck(batch.definition, failures[0]) if failures else self._praised(batch.definition)
        return effects + self._next(now)

    def lost(self, reason: str, now: float) -> list[Effect]:
        """The worker has gone, or has been killed."""
        if self.state is State.ABSENT:
            return []
        before, self.state, self.deadline = self.state, State.ABSENT, None
        self._loaded.clear()
        effects: list[Effect] = []
        if before is State.BUSY:
            batch = self._line[0]
            batch.lost += 1
            if batch.lost > 1 or not self._runs(batch.definition):
                self._line.popleft()
                effects.append(GivenUp(batch.number, reason))
                effects += self._struck(batch.definition, reason)
        elif before is State.STARTING:
            if self._starts >= MAX_STARTS:
                self._starts = 0
                effects += [GivenUp(one.number, f"the worker does not start: {reason}") for one in self._line]
                self._line.clear()
        else:
            effects += self._struck(self._answered, reason)
        if self._line:
            self.restarts += 1
            effects += self._start(now)
        return effects

    def late(self, now: float) -> list[Effect]:
        """The deadline has passed."""
        if self.deadline is None or now < self.deadline:
            return []
        seconds = self._line[0].seconds if self.state is State.BUSY else START_SECONDS
        reason = f"it did not answer within {seconds:g} seconds"
        return [Kill(reason), *self.lost(reason, now)]

    def _start(self, now: float) -> list[Effect]:
        self.state, self.deadline, self._answered = State.STARTING, now + START_SECONDS, ""
        self._starts += 1
        return [Start()]

    def _next(self, now: float) -> list[Effect]:
        """Send the next batch, if there is one; with its code unless the worker has it."""
        if self.state is not State.READY or not self._line:
            return []
        batch = self._line[0]
        code = None if batch.definition in self._loaded else self._definitions[batch.definition].code
        self.state, self.deadline = State.BUSY, now + batch.seconds
        return [Send(framed(Batch(batch.number, batch.definition, batch.jobs, code)))]

    def _runs(self, definition: str) -> bool:
        found = self._definitions.get(definition)
        return found is not None and not found.quarantined

    def _struck(self, definition: str, reason: str) -> list[Effect]:
        found = self._definitions.get(definition)
        if found is None:
            return []
        found.strikes, found.good = found.strikes + 1, 0
        return self.quarantine(definition, reason) if found.strikes >= STRIKES else []

    def _praised(self, definition: str) -> list[Effect]:
        found = self._definitions.get(definition)
        if found is not None and found.strikes:
            found.good += 1
            if found.good >= FORGIVEN_AFTER:
                found.strikes, found.good = found.strikes - 1, 0
        return []

    def _given_up(self, definition: str, reason: str) -> list[Effect]:
        """Those that wait; the one that is with the worker is answered, or lost."""
        busy = self._line[0] if self.state is State.BUSY and self._line else None
        gone = [one for one in self._line if one.definition == definition and one is not busy]
        self._line = deque(one for one in self._line if one not in gone)
        return [GivenUp(one.number, reason) for one in gone]
