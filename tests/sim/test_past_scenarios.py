"""Random runs in which subscriptions reach into the past, with and without scopes, while everything is under way.

`make replay SEED=h...` shows one of them, `SEED=hs...` one with scopes.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from soaking import spread_seeds

from tidings.history import _messages, _strict
from tidings.history._messages import Found
from tidings.history._origin import Search
from tidings.sim import Promises, Scenario

PROMISES = Promises.load()
CHUNK = 5
"""Seeds per test: small enough to be shared among processes, large enough to cost little."""


def run(name: str) -> None:
    result = Scenario.named(name).run(PROMISES)
    assert not result.violations, result.report()


@pytest.mark.req("HIS-006", "HIS-022", "HIS-023", "HIS-029")
@pytest.mark.parametrize("first", range(0, 2 * 2 * CHUNK, 2 * CHUNK))
def test_the_past_is_exactly_what_the_oracle_says(first: int) -> None:
    for seed in range(first, first + 2 * CHUNK, 2):
        run(f"h{seed}")


@pytest.mark.req("HIS-006", "HIS-023", "HIS-031", "HIS-032")
@pytest.mark.parametrize("first", range(1, 2 * 2 * CHUNK, 2 * CHUNK))
def test_faults_change_nothing_but_what_is_reported(first: int) -> None:
    for seed in range(first, first + 2 * CHUNK, 2):
        run(f"h{seed}")


@pytest.mark.req("HIS-006", "HIS-023")
@pytest.mark.parametrize("first", range(0, 3 * CHUNK, CHUNK))
def test_scopes_hold_for_the_past(first: int) -> None:
    for seed in range(first, first + CHUNK):
        run(f"hs{seed}")


ONCE_BROKEN = (
    *("h1000003", "h61", "h300029", "h38", "h64", "h98", "h113", "h142", "h150", "h180", "h20039", "h20218", "h20833"),
    *("hs10", "hs28", "hs30144", "h2000011", "hp8800016", "hm20000013", "thm9500198"),
)
"""Seeds that have found something: ids that are used again while something is under way, reports that a change of the
filter overtook, a broker that was alone and waited for nobody, publications that two brokers had taken, a wave for
marks that ended what it knew nothing of, ways through the scopes that are not the same any more, a
first scope that came to be between two answers, a question that was ahead of its filter because the advertisement was
late, publications that were judged by a version of the graph older than their own, copies that waited for their order
until the past had been handed over, or that were owed from before it."""


@pytest.mark.parametrize("name", ONCE_BROKEN)
def test_what_was_broken_once_stays_mended(name: str) -> None:
    run(name)


# --- the oracle notices -------------------------------------------------------------------------------


def _claims_too_much(found: Found) -> Found:
    reached = {origin: (epoch, seq + 1) for origin, (epoch, seq) in found.reached.items()}
    return Found(reached, found.envelopes, found.tiers, found.more, found.page)


def _claims_too_little(found: Found) -> Found:
    reached = {origin: (epoch, max(0, seq - 1)) for origin, (epoch, seq) in found.reached.items()}
    return Found(reached, found.envelopes[:-1], found.tiers, found.more, found.page)


def _forgets_one(found: Found) -> Found:
    return Found(found.reached, found.envelopes[:-1], found.tiers, found.more, found.page)


@pytest.mark.parametrize("mistake", [_claims_too_much, _claims_too_little, _forgets_one])
def test_the_oracle_notices_an_origin_that_is_wrong(
    mistake: Callable[[Found], Found], monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = Search.steps

    def wrong(self: Search, *tiers: object) -> object:
        return (found and mistake(found) for found in steps(self, *tiers))  # type: ignore[arg-type]

    monkeypatch.setattr(Search, "steps", wrong)
    assert any(Scenario.named(f"h{seed}").run(PROMISES).violations for seed in range(0, 40, 2))


@pytest.mark.parametrize("mistake", ["the oldest", "no hold", "for ever"])
def test_the_oracle_notices_an_access_broker_that_is_wrong(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    match mistake:
        case "the oldest":
            newest = _messages.newest
            monkeypatch.setattr(_messages, "newest", lambda envelopes, count, limit: newest(envelopes)[:count])
        case "no hold":
            monkeypatch.setattr("tidings.broker.outlets._holds.Hold.behind", lambda self, positions: iter(()))
        case "for ever":
            monkeypatch.setattr(_strict._Request, "_go_on", lambda self, ending: None)
    assert any(Scenario.named(f"h{seed}").run(PROMISES).violations for seed in range(0, 40, 2))


@pytest.mark.soak
@pytest.mark.parametrize("part", range(8))
def test_thousands_of_pasts(part: int) -> None:
    """Fresh seeds until the time is used up; the parts are spread over the processes."""
    for seed in spread_seeds(part):
        run(f"h{seed}")
        run(f"hs{seed}")
