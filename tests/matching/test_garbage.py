"""The collector's policy: frozen objects are out of its sight, and are still freed."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from tidings.matching import Calm
from tidings.matching._garbage import CHANGES


@pytest.fixture(autouse=True)
def collector() -> Iterator[None]:
    thresholds = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*thresholds)


def test_changes_are_frozen_now_and_then() -> None:
    calm = Calm()
    calm.start()
    frozen = gc.get_freeze_count()
    kept = []
    for _ in range(CHANGES):
        kept.append([object()])
        calm.changed()
    assert gc.get_freeze_count() >= frozen + CHANGES
    assert not any(thing is kept[0] for thing in gc.get_objects())


def test_garbage_that_was_frozen_is_found_by_the_thorough_collection() -> None:
    class Cycle:
        alive = 0

        def __init__(self) -> None:
            type(self).alive += 1
            self.me = self

        def __del__(self) -> None:
            type(self).alive -= 1

    calm = Calm()
    cycle = Cycle()
    calm.start()
    del cycle
    gc.collect()
    assert Cycle.alive == 1
    calm.thorough()
    assert Cycle.alive == 0
