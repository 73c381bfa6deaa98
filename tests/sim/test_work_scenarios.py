"""Random runs in which clients join acknowledged groups, with cuts, crashes, moves, and members that leave and die.

`make replay SEED=q...` shows one of them; `qw` has journeys besides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from conftest import COUNTED
from promised import PROMISES
from sim.traces import GOOD, REACH, F, Writer
from soaking import fault_seeds, long

from tidings.broker import Term
from tidings.groups import Acknowledged, _giving, _handled, _jobs, _workers
from tidings.groups._roster import Place
from tidings.model import Position
from tidings.sim import Checker, Op, Result, Scenario

NEEDLESS = 0.01
"""The share of jobs that may be given to a second member though the first one had them in time, for no reason."""
APART = 0.03
"""The same, because brokers did not reach each other, or died."""


def run(name: str) -> Result:
    result = Scenario.named(name).run(PROMISES)
    assert not result.violations, result.report()
    return result


class Counted:
    """What several runs had to do with acknowledged groups."""

    def __init__(self) -> None:
        self.faults = self.given = self.apart = self.needless = 0

    def run(self, name: str) -> None:
        """Run it, and add what it counts. It loses nothing: that would be a violation."""
        work = run(name).work
        assert work is not None
        self.faults += work.faults
        self.given += work.given
        self.apart += work.apart
        self.needless += work.needless

    def judge(self, record: Callable[[str, object], None]) -> None:
        """Compare with the limits, and let the summary of the tests say it."""
        for name, count in zip(COUNTED, (self.faults, self.given, self.apart, self.needless, 0), strict=True):
            record(name, count)
        assert self.needless <= max(2, self.given * NEEDLESS)
        assert self.apart <= max(5, self.given * APART)


@pytest.mark.parametrize("part", range(6))
def test_what_a_group_gets_is_handled(part: int, record_property: Callable[[str, object], None]) -> None:
    counted = Counted()
    for seed in (8 * part, *range(8 * part + 1, 8 * part + 8, 2)):  # in odd ones, links and brokers fail
        counted.run(f"q{seed}")
    counted.judge(record_property)


IN_SCOPES = ("qs1", "qs5", "qs7", "qm1", "qp2", "qs84500007", long("qs130"), long("qs138"), long("qs236"))
"""In qs84500007, somebody came back where there are gateways and had been told no position of its own broker."""


@pytest.mark.parametrize("name", IN_SCOPES)
def test_what_a_group_gets_in_scopes_is_handled(name: str) -> None:
    run(name)


def test_a_member_that_stays_when_it_is_put_into_other_scopes_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def of_the_group(self: Acknowledged, envelope: object, client: str) -> tuple[str, ...]:
        terms = next((group.terms for group in self.groups.values()), None)
        return terms.sees if terms is not None else ()

    monkeypatch.setattr(Acknowledged, "saw", of_the_group)
    monkeypatch.setattr(_workers.Workers, "put_out", lambda self, link, id, reason: None)
    assert any("of-the-group" in text for text in Scenario.named("qs2").run(PROMISES).violations)


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
def test_many_runs_lose_nothing_and_repeat_little(part: int, record_property: Callable[[str, object], None]) -> None:
    counted = Counted()
    for seed in fault_seeds(part, lambda: counted.faults):
        counted.run(f"q{'s' * (seed % 8 == 7)}{seed}")
    counted.judge(record_property)
