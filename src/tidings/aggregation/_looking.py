"""Looking: what a broker shows of its aggregates."""

from __future__ import annotations

from collections.abc import Iterator

from tidings.broker import Link

from ._catalogue import COUNTS
from ._engine import Engine
from ._measurements import QUESTION_VERSION
from ._riding import Counted
from ._state import State
from ._supplied import SUPPLIED
from .deploying import Registry, Tier
from .messages import Offered, Travelled, Watched

MAX_SHOWN = 1_000
"""The most subjects that a broker shows to whoever looks."""


def offered(registry: Registry) -> list[Offered]:
    """What can be asked for by name."""
    counts = (Offered(one.name, one.version, one.about) for one in COUNTS.values())
    supplied = (Offered(one.name, QUESTION_VERSION, one.about) for one in SUPPLIED.values())
    return [*counts, *supplied, *_deployed(registry)]


def _deployed(registry: Registry) -> Iterator[Offered]:
    for name in sorted({place.name for place in registry.places}):
        for place in registry.versions(name)[:1]:
            statement = registry.statement(place)
            assert statement is not None
            about = statement.source if statement.manifest.tier is Tier.EXPRESSION else "Python"
            yield Offered(*place, f"{about:.200}, deployed by {statement.signer}")


def watched(engine: Engine[Link]) -> tuple[list[Watched], int]:
    """What is asked for, and how much more there is of it than is shown."""
    states = list(engine.states.values())
    shown = [_shown(engine, state) for state in states[:MAX_SHOWN]]
    return shown, len(states) - len(shown)


def _shown(engine: Engine[Link], state: State[Link]) -> Watched:
    subject = state.subject
    value, error, whole, *_ = state.form.read(state.form.shown(None, state.total(), 0), state.root_bound)
    bound = state.root_bound if state.requests else None
    asking = sum(side.want is not None for side in state)
    return Watched(
        subject.aggregate,
        subject.version,
        subject.key,
        subject.scope,
        len(state.requests),
        bound,
        asking,
        value,
        error,
        whole and engine.is_complete(state),
        subject.away,
    )


def travelled(counted: Counted) -> list[Travelled]:
    """What was told, by aggregate and neighbour."""
    return [
        Travelled(aggregate, neighbour, one.sent, one.suppressed, one.ridden, one.alone)
        for aggregate, neighbour, one in counted.rows()
    ]
