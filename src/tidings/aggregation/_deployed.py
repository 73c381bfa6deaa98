"""Deployed: what a broker has of the code that it is asked for by name, and what measures it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Protocol

from tidings.broker import Timer
from tidings.model import AggregateError

from ._code import CodeMeasuring, Submit
from ._deployments import Workers
from ._named import deployed_subject, place_in
from ._subject import Subject
from .deploying import Manifest, Phase, Place, Registry
from .workers import Code


class Clock(Protocol):
    """What measuring needs of the broker: its name, and the time."""

    @property
    def name(self) -> str:
        """The broker's name."""
        ...

    def now(self) -> int:
        """Microseconds since 1970 UTC."""
        ...

    def call_later(self, delay: int, action: Callable[[], None], /) -> Timer:
        """Call `action` in a turn of its own."""
        ...


class Deployed:
    """What is deployed at one broker, for those who ask for it."""

    def __init__(self, clock: Clock, registry: Registry, workers: Workers | None) -> None:
        """Without `workers` this broker runs no code, and only passes on what others have measured."""
        self._clock = clock
        self.registry = registry
        self._workers = workers

    def __contains__(self, place: Place) -> bool:
        return place in self.registry

    def subject(self, place: Place, scope: str) -> Subject:
        """What is asked for in a scope if a version is."""
        return deployed_subject(self.registry, place, scope)

    def is_installed(self, place: Place) -> bool:
        """Whether a version may run here."""
        return self.registry.judge(place).phase is Phase.INSTALLED

    def is_outdated(self, place: Place) -> bool:
        """Whether nobody is to be told of a version any more: it has ended, or two others run instead."""
        return self.registry.is_over(place) or (self.is_installed(place) and not self.registry.runs(place))

    def manifest(self, subject: Subject) -> Manifest:
        """The manifest of code that may be asked for, or `AggregateError`."""
        place = place_in(subject)
        statement = self.registry.statement(place) if place in self.registry else None
        if statement is None or self.subject(place, subject.scope) != subject:
            raise AggregateError(f"{place} is not deployed at broker '{self._clock.name}' with this digest")
        if statement.manifest.once:
            raise AggregateError(
                f"{place} runs once on each broker, and has no value that changes; `tidings aggregate deployed` shows "
                "what it has computed"
            )
        return statement.manifest

    def measuring(self, subject: Subject, changed: Callable[[], None]) -> CodeMeasuring:
        """What measures a subject that is code."""
        place, manifest = place_in(subject), self.manifest(subject)
        statement = self.registry.statement(place)
        submit: Submit | None = None
        if statement is not None and self._workers is not None and self.is_installed(place):
            submit = functools.partial(self._workers.submit, place, Code(statement.source, manifest.entry))
        clock = self._clock
        now = clock.now() // 1_000
        return CodeMeasuring(manifest, clock.name, now, submit=submit, call_later=clock.call_later, changed=changed)
