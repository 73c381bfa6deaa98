"""Whether an answer is one to the job: code may write its answers by itself, and is struck for what does not fit."""

from __future__ import annotations

import json
import math
from typing import Any

from tidings.aggregation.definitions import MAX_NESTING

from ._messages import (
    Answer,
    Check,
    Combine,
    Combined,
    Describe,
    Described,
    Failed,
    Fingerprint,
    Job,
    Lawful,
    Lift,
    Lifted,
    Present,
    Presented,
    Printed,
)

MAX_KEY = 256
"""The most characters of a key that code gives."""
MAX_BYTES = 65_536
"""The most bytes of a partial, whatever the manifest allows."""
_KINDS: dict[type, tuple[type, ...]] = {
    Lift: (Lifted, Combined),  # what runs once gives a value
    Combine: (Combined,),
    Present: (Presented,),
    Check: (Lawful,),
    Fingerprint: (Printed,),
    Describe: (Described,),
}


def misfit(job: Job, answer: Answer) -> str:
    """What is wrong with an answer; "": nothing, or it says itself that the code has failed."""
    if isinstance(answer, Failed):
        return ""
    if not isinstance(answer, _KINDS[type(job)]):
        return f"it answered {type(job).__name__.lower()} with {type(answer).__name__.lower()}"
    match job, answer:
        case Lift(rows), Lifted(partials) if len(partials) > len(rows):
            return f"it gave {len(partials):,} partials of {len(rows):,} records"
        case Lift(), Lifted(partials) if any(len(one) > MAX_BYTES for _, _, one in partials):
            return f"it gave a partial of more than {MAX_BYTES:,} bytes"
        case ((Lift() | Combine()), Combined(partials)) if any(len(one) > MAX_BYTES for one in partials):
            return f"it gave a partial of more than {MAX_BYTES:,} bytes"
        case Lift(), Lifted(partials) if any(len(key) > MAX_KEY for key, _, _ in partials):
            return f"it gave a key of more than {MAX_KEY} characters"
        case Combine(groups), Combined(partials) if len(groups) != len(partials):
            return f"it combined {len(groups)} groups into {len(partials)} partials"
        case Present(partials), Presented(values) if len(partials) != len(values):
            return f"it presented {len(partials)} partials as {len(values)} values"
        case Present(), Presented(values) if any(told(data, error) is None for data, error in values):
            return "it presented a value that cannot be told"
        case _:
            return ""


def told(data: bytes, error: float) -> tuple[Any, float] | None:
    """The value of some JSON, with its error; None if it cannot be told."""
    if not 0 <= error < math.inf:
        return None
    try:
        value = json.loads(data, parse_constant=_refuse)
        _check(value, 0)
    except (ValueError, RecursionError):
        return None
    return value, error


def _refuse(word: str) -> None:
    raise ValueError(word)


def _check(value: object, depth: int) -> None:
    """Raise `ValueError` for a value that cannot be told."""
    if depth > MAX_NESTING:
        raise ValueError(f"nested deeper than {MAX_NESTING} levels")
    if isinstance(value, str):
        value.encode()
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError("a number that is beyond all floats")
    elif isinstance(value, list):
        for one in value:
            _check(one, depth + 1)
    elif isinstance(value, dict):
        for name, one in value.items():
            _check(name, depth + 1)
            _check(one, depth + 1)
