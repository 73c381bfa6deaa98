"""From a source to a definition. It runs the source: in a worker, or where it is trusted."""

from __future__ import annotations

from typing import Any

from tidings.aggregation.definitions import Aggregate, RunOnce
from tidings.model import AggregateError


def loaded(source: str, entry: str) -> Aggregate[Any] | RunOnce:
    """The definition in a source: an instance of the class that is named, or `AggregateError`."""
    space: dict[str, Any] = {"__name__": "definition"}
    exec(compile(source, "<definition>", "exec", dont_inherit=True), space)  # noqa: S102 - that is what the walls are for
    found = space.get(entry)
    if not isinstance(found, type) or not issubclass(found, Aggregate | RunOnce):
        raise AggregateError(f"the source has no class {entry} that derives from Aggregate; name the one to use")
    return found()
