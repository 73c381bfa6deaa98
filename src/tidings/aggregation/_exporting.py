"""Exporting: values that a broker watches by itself, for whoever reads its metrics.

What is exported is named in the configuration: a name, a name and a filter, or a question. The broker watches them as a
client of its own would, from its start to its end. A value that is not complete is no value: it is told as incomplete.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from tidings.broker import Context
from tidings.model import AggregateError, Filter
from tidings.wire import Extension, Frame

from ._catalogue import count_named
from ._supplied import supplied_question
from ._windows import is_question, question_of
from .expressions import parse
from .messages import FEATURE, Declined, Result, Watch, decode, encode

CLIENT = "tidings.aggregates"
"""The name of the client inside the broker that watches what is exported."""


class Exported(NamedTuple):
    """What is exported under one entry of the configuration."""

    text: str
    aggregate: str
    key: str

    @classmethod
    def parse(cls, text: str) -> Exported:
        """A name, a name and a filter, or a question; `TidingsError` if it is none of these.

        >>> Exported.parse("subscriber_count type = 'alarm'")
        Exported(text="subscriber_count type = 'alarm'", aggregate='subscriber_count', key="type = 'alarm'")
        """
        if is_question(text):
            return cls(text, question_of(text).name, "")
        name, _, written = text.strip().partition(" ")
        filter = Filter.parse(written) if written.strip() else None
        if name == "distribution":
            raise AggregateError("distribution needs to know of what; write histogram(load, 50, 90) WINDOW 10s instead")
        if (question := supplied_question(name, filter)) is not None:
            return cls(text, question, "")
        count_named(name)
        return cls(text, name, "" if filter is None else str(filter))


class Sample(NamedTuple):
    """A number, as it is exported."""

    aggregate: str
    key: str
    """The filter of a count, the group of a question."""
    value: float | None
    """None: it is not complete, or there is none."""
    error: float
    complete: bool


class Exports:
    """What one broker exports."""

    def __init__(self, entries: tuple[str, ...], most: int, warn: Callable[[str], None] = lambda text: None) -> None:
        self._entries = {f"e{at}": Exported.parse(text) for at, text in enumerate(entries)}
        self._most = most
        self._warn = warn
        self._known: dict[str, Result] = {}

    def __bool__(self) -> bool:
        return bool(self._entries)

    def open(self, context: Context) -> None:
        """Begin to watch."""
        client = context.open_client(CLIENT, self._heard)
        for id, entry in self._entries.items():
            client.send(Frame(Extension(FEATURE, encode(Watch(id, entry.aggregate, entry.key)))))

    def _heard(self, frame: Frame) -> None:
        if isinstance(frame.message, Extension) and frame.message.feature == FEATURE:
            message = decode(frame.message.body)
            if isinstance(message, Result):
                self._known[message.id] = message
            elif isinstance(message, Declined):
                self._warn(f"'{self._entries[message.id].text}' is not exported: {message.reason}")

    @property
    def samples(self) -> tuple[list[Sample], int]:
        """What is known now, and how many samples more there are than may be exported."""
        found = [sample for id, entry in self._entries.items() for sample in self._of(entry, self._known.get(id))]
        return found[: self._most], max(len(found) - self._most, 0)

    def _of(self, entry: Exported, known: Result | None) -> Iterator[Sample]:
        names = [str(one) for one in parse(entry.aggregate).measures] if is_question(entry.aggregate) else []
        grouped = bool(names) and bool(parse(entry.aggregate).by)
        if known is None or not known.complete:
            yield from (Sample(name, entry.key, None, 0, False) for name in names or [entry.aggregate])
            return
        groups = known.value.items() if grouped else [(entry.key, known.value)]
        for group, value in groups:
            key = ", ".join(str(part) for part in json.loads(group)) if grouped and group else group
            values: list[Any] = value if len(names) > 1 else [value]
            for name, one in zip(names or [entry.aggregate], values, strict=True):
                if isinstance(one, int | float):
                    yield Sample(name, key, float(one), known.error, True)
