"""Plans for links that carry bytes: many things in one read, and lanes that are armed and disarmed in between."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from tidings.broker import Advice as Advising
from tidings.broker import Feature, Joinpoint
from tidings.wire import Quality

from ._actions import Action, Verb
from ._network import Network
from ._workload import random_notification

MANY = 40
"""The most publications that are said at once."""


def with_bursts(rng: random.Random, steps: tuple[Action, ...]) -> tuple[Action, ...]:
    """The same steps, of which many happen in the same instant, and with more publications at once."""
    grid = rng.choice((1, 1, 50_000, 500_000))
    most = rng.choice((3, 8, MANY))
    together = [step._replace(at=step.at - step.at % grid) for step in steps]
    return tuple(one for step in together for one in _several(rng, step, most))


def _several(rng: random.Random, step: Action, most: int) -> Iterator[Action]:
    yield step
    if step.verb is not Verb.PUBLISH or rng.random() < 0.5:
        return
    quality = step.quality
    for _ in range(rng.randint(1, most)):
        if rng.random() < 0.1:
            quality = rng.choice((Quality.FIRE, Quality.ACCEPTED, Quality.STORED, Quality.DEFAULT))
        yield step._replace(notification=random_notification(rng), quality=quality)


class Flicker(Feature):
    """Advises PUB-SEND at times, and changes nothing by it, but that the lanes of its broker are disarmed."""

    name = "flicker"
    advises = False

    def change(self) -> None:
        """Advise it, or cease to."""
        self.advises = not self.advises
        if self.advises:
            self.context.weave({Joinpoint.PUB_SEND: _proceed})
        else:
            self.context.unweave(Joinpoint.PUB_SEND)


def _proceed(proceed: Advising, *arguments: Any) -> Any:
    return proceed(*arguments)


def flicker(network: Network, broker: str) -> None:
    """Let a broker that is there begin or cease to advise a step."""
    if broker in network.brokers:
        feature = network.brokers[broker].features["flicker"]
        assert isinstance(feature, Flicker)
        feature.change()
