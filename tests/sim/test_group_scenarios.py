"""Random runs in which clients join groups, with cuts, crashes and moves, and members that come and go.

`make replay SEED=g...` shows one of them; `gw` and `gr` have journeys and returns besides, `gs` has scopes.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from promised import PROMISES
from sim.traces import F, Writer
from soaking import long, spread_seeds

from tidings.broker import Facts
from tidings.groups import _copies
from tidings.sim import Op, Scenario

CHUNK = 4


def run(name: str) -> None:
    result = Scenario.named(name).run(PROMISES)
    assert not result.violations, result.report()


@pytest.mark.parametrize("part", range(4))
def test_what_a_group_gets_goes_to_one_member(part: int) -> None:
    for seed in range(part * CHUNK, (part + 1) * CHUNK):
        run(f"g{seed}")


@pytest.mark.parametrize(
    "name",
    [
        "g9",
        "g47",
        "g115",
        "g149",
        "g157",
        "g265",
        "g291",
        "g318",
        "g2075",
        "g2086",
        "g8000022",
        "gr11600004",
        "bg11000021",
    ],
)
def test_what_was_broken_once_stays_mended(name: str) -> None:
    run(name)


@pytest.mark.parametrize(
    "name",
    [
        *("gs9100000", "gs9100002", "gs9100010", "gs9100012", "gs9100016", "gs9301507", "gm9100003", "gs9100051"),
        *("gp9100006", long("gws11600035"), "gs11600038"),
    ],
)
def test_what_was_broken_once_in_scopes_stays_mended(name: str) -> None:
    run(name)


@pytest.mark.parametrize("name", ["g7", "gw7", "gr7", "gh7", "gs7"])
def test_a_name_leads_back_to_its_run(name: str) -> None:
    assert Scenario.named(name).name == name


def violations(seeds: range) -> Iterator[str]:
    return (text for seed in seeds for text in Scenario.named(f"g{seed}").run(PROMISES).violations)


def test_a_point_that_forgets_what_was_decided_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Facts, "__contains__", lambda self, key: False)
    monkeypatch.setattr(_copies, "MAX_RECENT", 0)
    assert any("one-member" in text for text in violations(range(1, 60, 2)))


def test_a_planted_second_delivery_is_found() -> None:
    trace = Writer().join().joined().add(Op.JOIN, "X", subscription="g", filter=F, detail=("g",)).pub(1).share(1)
    assert trace.broken == []
    trace.records.append(trace.records[-1]._replace(component="X", seq=len(trace.records)))
    assert trace.broken == ["one-member"]


def test_silence_is_found_and_a_gap_is_none() -> None:
    assert Writer().join().joined().pub(1).quiesce().broken == ["share of accepted"]
    cut = Writer().join().joined().pub(1).fault("cut", "a - b").fault("heal", "a - b")
    assert cut.add(Op.MISSED, "Y", subscription="g", detail=("a", 1, 1, 1)).quiesce().broken == []


@pytest.mark.soak
@pytest.mark.parametrize("part", range(8))
def test_many_runs(part: int) -> None:
    for seed in spread_seeds(part):
        if (name := f"{'g' if seed % 2 else 'gs'}{seed}") not in KNOWN_TO_BREAK:
            run(name)


KNOWN_TO_BREAK = ("gs2000016",)
"""docs/promises.md names them."""


@pytest.mark.xfail(strict=True, reason="what is published while the network comes together reaches no member")
@pytest.mark.parametrize("name", KNOWN_TO_BREAK)
def test_what_is_known_to_break_still_does(name: str) -> None:
    run(name)
