"""Plans for places: brokers stand somewhere, things happen somewhere, and many want what happens where they are."""

from __future__ import annotations

import random

from tidings.model import Filter, Location, Notification

from ._actions import Action, Verb

PLACES = tuple(Location(path) for path in ("/x/1", "/x/2", "/y/1", "/y/1/a"))


def places(rng: random.Random, brokers: tuple[str, ...]) -> dict[str, Location]:
    """Where each broker stands; several may stand at one place."""
    return {broker: rng.choice(PLACES) for broker in brokers}


def located(rng: random.Random, steps: tuple[Action, ...]) -> tuple[Action, ...]:
    """The same steps, but publications speak of places, and most subscriptions of their own."""
    return tuple(_located(rng, step) for step in steps)


def _located(rng: random.Random, step: Action) -> Action:
    if step.notification is not None and rng.random() < 0.9:
        where = Notification({**step.notification, "place": rng.choice(PLACES)})
        return step._replace(notification=where)
    if step.verb is Verb.SUBSCRIBE and step.filter is not None and rng.random() < 0.7:
        near = Filter.parse(rng.choice(("place WITHIN myloc", "place WITHIN myloc(1)", "NOT place WITHIN myloc")))
        return step._replace(filter=near if rng.random() < 0.5 else near & step.filter)
    return step
