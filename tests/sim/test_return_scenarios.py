"""Random runs in which a broker comes back with clients that are full of what they could not publish.

`make replay SEED=r...` shows one of them.
"""

from __future__ import annotations

import pytest
from soaking import spread_seeds

from tidings.broker import Link
from tidings.broker._delivery import Delivery
from tidings.broker._table import advertises
from tidings.model import Notification
from tidings.sim import Promises, Scenario

PROMISES = Promises.load()
CHUNK = 10


def run(seed: int) -> None:
    result = Scenario.of_return(seed).run(PROMISES)
    assert not result.violations, result.report()


@pytest.mark.parametrize("first", range(0, 6 * CHUNK, CHUNK))
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
    assert any("everything that was published there was stored" in text for text in found(0, 30))


@pytest.mark.soak
@pytest.mark.parametrize("part", range(8))
def test_thousands_of_seeds(part: int) -> None:
    """Fresh seeds until the time is used up; the parts are spread over the processes."""
    for seed in spread_seeds(part):
        run(seed)
