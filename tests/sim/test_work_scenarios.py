"""Random runs in which clients join acknowledged groups, with cuts, crashes, moves, and members that leave and die.

`make replay SEED=q...` shows one of them; `qw` has journeys besides.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from promised import PROMISES
from sim.traces import GOOD, REACH, F, Writer
from soaking import spread_seeds

from tidings.broker import Term
from tidings.groups import _giving, _handled, _jobs
from tidings.groups._roster import Place
from tidings.model import Position
from tidings.sim import Checker, Op, Result, Scenario

CHUNK = 4
NEEDLESS = 0.04
"""The share of jobs that may be given to a second member though the first one had them, in time."""


def run(name: str) -> Result:
    result = Scenario.named(name).run(PROMISES)
    assert not result.violations, result.report()
    return result


@pytest.mark.parametrize("part", range(6))
def test_what_a_group_gets_is_handled(part: int) -> None:
    for seed in range(part * CHUNK, (part + 1) * CHUNK):
        run(f"q{seed}")


@pytest.mark.parametrize(
    "name",
    ["q177", "q183", "q197", "q321", "q921", "q2153", "q2000018", "qw21", "qw131", "qw3000031", "qb64", "qg2000039"],
)
def test_what_was_broken_once_stays_mended(name: str) -> None:
    run(name)


@pytest.mark.parametrize("name", ["q7", "qw7", "qg7", "qh7"])
def test_a_name_leads_back_to_its_run(name: str) -> None:
    assert Scenario.named(name).name == name


def violations(seeds: range) -> Iterator[str]:
    return (text for seed in seeds for text in Scenario.named(f"q{seed}").run(PROMISES).violations)


def test_a_point_that_takes_for_handled_what_it_has_given_to_a_member_is_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    give = _giving.Giving._give

    def hasty(self: _giving.Giving, job: _jobs.Job, place: Place, term: Term) -> None:
        give(self, job, place, term)
        self._telling.facts.note(job.key.event)

    monkeypatch.setattr(_giving.Giving, "_give", hasty)
    assert any("handled of" in text for text in violations(range(1, 80, 2)))


def test_a_point_that_passes_over_what_is_not_handled_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def behind_all(self: _handled.HandledFacts) -> dict[str, Position]:
        """The last that is known of each origin, and not what precedes the first hole."""
        return {
            origin: max(Position(epoch, last) for epoch, spans in epochs.items() for _, last in spans)
            for origin, epochs in self.told().items()
        }

    monkeypatch.setattr(_handled.HandledFacts, "resume", behind_all)
    assert any("handled of" in text for text in violations(range(51, 80, 2)))


def written(*, within: int = 100) -> Writer:
    trace = Writer().add(Op.ENLIST, "Y", subscription="g", filter=F, detail=("g", within))
    return trace.add(Op.ENLISTED, "Y", subscription="g", detail=(False, REACH)).pub(1)


def job(trace: Writer, op: Op, who: str = "Y") -> Writer:
    about = {"subscription": "g", "publication": 1, "publisher": "X", "notification": GOOD}
    return trace.add(op, who, detail=("a", 1, 1), **about)


def test_what_nobody_handles_is_found() -> None:
    assert job(written(), Op.JOB).quiesce().broken == ["handled of accepted"]
    assert job(job(written(), Op.JOB), Op.DONE).quiesce().broken == []
    assert job(job(written(), Op.JOB), Op.BACK).quiesce().broken == ["handled of accepted"]


def needless(trace: Writer) -> int:
    checker = Checker(PROMISES)
    for record in trace.records:
        checker.step(record)
    return checker.work.needless


def test_what_two_members_do_at_once_is_counted() -> None:
    trace = job(written(), Op.JOB).add(Op.ENLIST, "X", subscription="g", filter=F, detail=("g", 100))
    assert needless(job(trace, Op.JOB, "X")) == 1
    assert needless(job(job(written(), Op.JOB).add(Op.DIED, "Y"), Op.JOB)) == 0
    assert needless(job(job(written(within=1), Op.JOB), Op.JOB)) == 0
    assert needless(job(job(job(written(), Op.JOB), Op.BACK), Op.JOB)) == 0
    assert needless(job(job(job(written(), Op.JOB), Op.DONE), Op.JOB)) == 1


@pytest.mark.soak
@pytest.mark.parametrize("part", range(8))
def test_many_runs_lose_nothing_and_repeat_little(part: int) -> None:
    given = again = 0
    for seed in spread_seeds(part):
        checker = Checker(PROMISES)
        for record in run(f"q{seed}").network.trace.records:
            checker.step(record)
        given, again = given + checker.work.given, again + checker.work.needless
    assert again <= max(5, given * NEEDLESS)
