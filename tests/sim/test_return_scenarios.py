"""Random runs in which a broker comes back with clients that are full of what they could not publish.

`make replay SEED=r...` shows one of them.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from soaking import spread_seeds

from tidings.broker import Link
from tidings.broker.forwarding._delivery import Delivery
from tidings.broker.interest._table import advertises
from tidings.model import Notification
from tidings.sim import Promises, Scenario, Verb
from tidings.sim._disk import SimDisk
from tidings.wire import Quality

PROMISES = Promises.load()
CHUNK = 10


def run(seed: int) -> None:
    result = Scenario.of_return(seed).run(PROMISES)
    assert not result.violations, result.report()


@pytest.mark.parametrize("first", range(0, 3 * CHUNK, CHUNK))
def test_what_clients_bring_along_is_not_lost(first: int) -> None:
    for seed in range(first, first + CHUNK):
        run(seed)


def test_a_name_leads_back_to_its_run() -> None:
    assert Scenario.named("r7") == Scenario.of_return(7)
    assert Scenario.of_return(7).name == "r7"


def found(first: int, last: int) -> list[str]:
    return [text for seed in range(first, last) for text in Scenario.of_return(seed).run(PROMISES).violations]


def test_a_broker_that_does_not_wait_for_advertisements_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def at_once(self: Delivery, link: Link, notification: Notification) -> bool:
        return advertises(self._broker.registrations.advertisements(link).values(), notification)

    monkeypatch.setattr(Delivery, "_is_announced", at_once)
    assert any(text.startswith("delivery of stored: it never reached") for text in found(0, 20))


def test_a_broker_that_forgets_how_an_epoch_ended_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidings.sim._disk.SimDisk.ended", lambda self, epoch: None)
    assert any("in epoch 1 was to be stored" in text for text in found(0, 30))


def test_a_broker_that_does_not_note_what_is_not_stored_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def not_noted(self: SimDisk, synced: Callable[[], None], failed: Callable[[Exception], None]) -> None:
        self._scheduler.after(0, synced)

    monkeypatch.setattr(SimDisk, "note_unlogged", not_noted)
    assert any(text.startswith("delivery of accepted: it never reached") for text in found(10, 30))


def test_disks_are_full_at_times_and_some_leave_the_quality_to_the_broker() -> None:
    steps = [step for seed in range(30) for step in Scenario.of_return(seed).steps]
    assert {step.quality for step in steps if step.verb is Verb.PUBLISH} == set(Quality)
    filled = [Scenario.of_return(seed) for seed in range(30)]
    assert 5 < sum(any(step.verb is Verb.FILL for step in one.steps) for one in filled) < 25


@pytest.mark.soak
@pytest.mark.parametrize("part", range(8))
def test_thousands_of_seeds(part: int) -> None:
    """Fresh seeds until the time is used up; the parts are spread over the processes."""
    for seed in spread_seeds(part):
        run(seed)
