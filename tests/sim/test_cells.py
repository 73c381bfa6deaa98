"""Every cell of docs/promises.md is read: for each there is a trace or a test that is judged otherwise without it."""

from __future__ import annotations

import client.test_durable
import mobility.test_promised_copies
import net.test_flow
import net.test_links
import pytest
import sim.test_aggregate_scenarios
import sim.test_deploying_scenarios
import sim.test_request_scenarios
import sim.test_rule_scenarios
from promised import READ
from sim.traces import BAD, GOOD, REACH, F, Writer

from tidings.model import ROOT_SCOPE, Notification, last
from tidings.scopes import (
    OPEN,
    SESSION_ID,
    CreateScope,
    Graph,
    Join,
    PolicyKind,
    PolicyUse,
    SetAttributes,
    SetPolicy,
    apply,
)
from tidings.sim import Op, Promises, _faults, check
from tidings.sim._work import MEMORY_LOST
from tidings.wire import Ending, Past, Quality

PROMISES = Promises.load()
Cell = tuple[str, str, str]
ELSEWHERE = (
    client.test_durable,
    mobility.test_promised_copies,
    net.test_flow,
    net.test_links,
    sim.test_aggregate_scenarios,
    sim.test_deploying_scenarios,
    sim.test_request_scenarios,
    sim.test_rule_scenarios,
)
"""The tests that read cells of other features: what happens there must be what the cell says."""


def unsafe(guarantee: str) -> Writer:
    """A trace that breaks what holds whatever happens."""
    match guarantee:
        case "matching-only":
            return Writer().sub().pub(1, BAD).notify(1, BAD)
        case "at-most-once":
            return Writer().sub().pub(1).notify(1).notify(1)
        case "publisher-order":
            return Writer().sub().pub(1).pub(2).notify(2).notify(1)
        case "one-member":
            return Writer().join().pub(1).share(1).share(1)
        case "of-the-group":
            return job(enlisted(Writer()).pub(1, BAD), BAD)
        case "one-chosen":
            return chosen(chosen(choosing().pub(1), 1), 1, "Z")
        case "policy-obeyed":
            return ruled(ruling().pub(1), 1, "Y Z", "Y")
        case "decided-once":
            writer = ruled(ruling().pub(1), 1, "Y Z", "Z")
            return ruled(writer.add(Op.PRESIDES, "b", detail=("s", (2, "b", 1), ((1, "a", 1),))), 2, "Y Z", "Z")
        case "fair-turns":
            writer = choosing().later(20)
            for number in (1, 2):
                chosen(writer.pub(number), number)
            return writer.quiesce()
        case "one-host":
            writer = Writer().add(Op.HOSTED, "Y", detail=("b", 1)).add(Op.HOSTED, "Y", detail=("c", 2))
            writer.add(Op.COURIER, "Y", detail=("b", 2)).later(20)
            return writer.add(Op.RELEASED, "Y", detail=("b", 1)).quiesce()
        case "in-session":
            return reaction_elsewhere()
        case "not-early":
            return delayed_and_early()
        case _:
            return Writer().sub().pub(1).unsub().notify(1)


def reaction_elsewhere() -> Writer:
    """X is in two session scopes, Z and Y in one each; X reacts to Z, and Y gets the reaction."""
    joined = [Join("@X", "s"), Join("@X", "t"), Join("@Z", "s"), Join("@Y", "t")]
    scopes = [CreateScope(name, attributes={SESSION_ID: name}) for name in ("s", "t")]
    graph = apply(Graph(), (*scopes, *joined))
    writer = Writer().add(Op.ATTACH, "Z", detail=("a", 1))
    writer.add(Op.ACTIVE, "a", detail=(1, graph)).add(Op.ACTIVE, "b", detail=(1, graph)).sub()
    writer.add(Op.SUB, "X", subscription="x", filter=F, detail=(True,)).pub(1, who="Z")
    cause = len(writer.records)
    got = ("a", 1, 1, 0, 1)
    writer.add(Op.NOTIFY, "X", subscription="x", publication=1, publisher="Z", notification=GOOD, detail=got)
    how = (Quality.ACCEPTED, cause)
    writer.add(Op.PUB, "X", publication=1, publisher="X", notification=GOOD, detail=how)
    got = ("a", 1, 2, 0, 1)
    return writer.add(Op.NOTIFY, "Y", subscription="s", publication=1, publisher="X", notification=GOOD, detail=got)


def delayed_and_early() -> Writer:
    """Y gets at once what a policy of the scope that it shares with X keeps back for an hour."""
    hour = SetPolicy("s", PolicyKind.INTERNAL, PolicyUse("delay", {"seconds": 3_600}))
    graph = apply(Graph(), (CreateScope("s"), Join("@X", "s"), Join("@Y", "s"), hour))
    writer = Writer().add(Op.ACTIVE, "a", detail=(1, graph)).add(Op.ACTIVE, "b", detail=(1, graph)).sub().pub(1)
    got = ("a", 1, 1, 0, 1)
    return writer.add(Op.NOTIFY, "Y", subscription="s", publication=1, publisher="X", notification=GOOD, detail=got)


def silent(guarantee: str, fault: str) -> Writer:
    """Something was published, one fault bears on it, and there is no answer, or no delivery and no gap."""
    answer = guarantee != "answered"
    quality = Quality[guarantee.rsplit(maxsplit=1)[-1].upper()] if answer else Quality.ACCEPTED
    writer = Writer().sub().settled().pub(1, quality=quality, ack=answer)
    if fault == _faults.MEMORY_EXCEEDED:
        writer.pub(2, BAD, quality=Quality.FIRE).pub(3, BAD, quality=Quality.FIRE)
    return afflict(writer, fault, publisher_stays=answer).quiesce()


def unshared(guarantee: str, fault: str) -> Writer:
    """Something was published for a group, one fault bears on it, and no member got it or was told."""
    quality = Quality[guarantee.rsplit(maxsplit=1)[-1].upper()]
    writer = Writer().join().joined().add(Op.JOIN, "Z", subscription="g", filter=F, detail=("g",))
    writer.pub(1, quality=quality)
    if fault == _faults.MEMORY_EXCEEDED:
        writer.pub(2, BAD, quality=Quality.FIRE).pub(3, BAD, quality=Quality.FIRE)
    if fault == _faults.MEMBER_LEAVES:
        writer.add(Op.LEAVE, "Z", subscription="g")
    return afflict(writer, fault).quiesce()


def enlisted(writer: Writer, who: str = "Y") -> Writer:
    """It is a member of an acknowledged group."""
    writer.add(Op.ENLIST, who, subscription="g", filter=F, detail=("g", 100))
    return writer.add(Op.ENLISTED, who, subscription="g", detail=(False, REACH))


def job(writer: Writer, notification: Notification) -> Writer:
    about = {"subscription": "g", "publication": 1, "publisher": "X", "notification": notification}
    return writer.add(Op.JOB, "Y", detail=("a", 1, 1), **about)


def unhandled(guarantee: str, fault: str) -> Writer:
    """Something was published for an acknowledged group, one fault bears on it, and nobody handled it or was told."""
    quality = Quality[guarantee.rsplit(maxsplit=1)[-1].upper()]
    if fault == MEMORY_LOST:
        writer = enlisted(Writer().add(Op.ATTACH, "Z", detail=("c", 1)), "Z").pub(1, quality=quality)
        writer.add(Op.QUIT, "Z", subscription="g").fault("crash", "c").fault("restart", "c")
        return enlisted(writer).quiesce()
    writer = enlisted(Writer()).pub(1, quality=quality)
    if fault == _faults.MEMORY_EXCEEDED:
        writer.pub(2, BAD, quality=Quality.FIRE).pub(3, BAD, quality=Quality.FIRE)
    return afflict(writer, fault).quiesce()


def choosing() -> Writer:
    """X publishes where a scope takes it up that gives it to one of its members, Y and Z, in turn."""
    policy = SetPolicy("s", PolicyKind.DELIVERY, PolicyUse("one-of-n"))
    members = (Join("s", ROOT_SCOPE), Join("@Y", "s"), Join("@Z", "s"))
    graph = apply(Graph(), (CreateScope("s", OPEN), *members, policy))
    writer = Writer().add(Op.ATTACH, "Z", detail=("b", 1))
    writer.add(Op.ACTIVE, "a", detail=(1, graph)).add(Op.ACTIVE, "b", detail=(1, graph))
    for who in ("Y", "Z"):
        writer.add(Op.SUB, who, subscription="s", filter=F, detail=(True,)).settled(who=who)
    return writer


def chosen(writer: Writer, number: int, who: str = "Y") -> Writer:
    about = {"subscription": "s", "publication": number, "publisher": "X", "notification": GOOD}
    return writer.add(Op.NOTIFY, who, detail=("a", 1, number, 0, 1), **about)


def ruling() -> Writer:
    """X publishes where a scope takes it up that gives it to the better one of its members, Y and Z, which is Z."""
    policy = SetPolicy("s", PolicyKind.DELIVERY, PolicyUse("top-k", {"k": 1, "attribute": "rank"}))
    members = (Join("s", ROOT_SCOPE), Join("@Y", "s"), Join("@Z", "s"), SetAttributes("@Z", {"rank": 1}))
    graph = apply(Graph(), (CreateScope("s", OPEN), *members, policy))
    writer = Writer().add(Op.ACTIVE, "a", detail=(1, graph)).add(Op.ACTIVE, "b", detail=(1, graph))
    return writer.add(Op.PRESIDES, "a", detail=("s", (1, "a", 1)))


def ruled(writer: Writer, term: int, candidates: str, chosen: str) -> Writer:
    """The deciding point of a term, a or b, says who gets what X has published first."""
    broker, names = "ab"[term - 1], (frozenset(candidates.split()), frozenset(chosen.split()))
    detail = ("s", (term, broker, 1), "a", 1, 1, 1, (ROOT_SCOPE, "s"), *names)
    return writer.add(Op.RULED, broker, publication=1, publisher="X", notification=GOOD, detail=detail)


def unchosen(guarantee: str, fault: str) -> Writer:
    """Something was published for one member of a scope, one fault bears on it, and nobody got it or was told."""
    quality = Quality[guarantee.rsplit(maxsplit=1)[-1].upper()]
    writer = choosing().pub(1, quality=quality)
    if fault == _faults.MEMORY_EXCEEDED:
        writer.pub(2, BAD, quality=Quality.FIRE).pub(3, BAD, quality=Quality.FIRE)
    if fault == _faults.MEMBER_LEAVES:
        writer.add(Op.UNSUB, "Z", subscription="s")
    return afflict(writer, fault).quiesce()


def afflict(writer: Writer, fault: str, *, publisher_stays: bool = True) -> Writer:
    """Let a fault happen to a at which X publishes, or to b at which Y listens; in the end, both have a broker."""
    match fault:
        case "link cut and healed" | "memory exceeded":
            writer.fault("cut", "a - b").fault("heal", "a - b")
        case "new tree":
            writer.fault("connect", "a - c")
        case "other broker crash":
            writer.fault("crash", "c").fault("restart", "c")
        case "origin crash and restart":
            writer.fault("crash", "a").fault("restart", "a")
        case "origin gone":
            writer.fault("crash", "a")
        case "own broker crash":
            writer.fault("crash", "b").add(Op.LOST, "Y").fault("restart", "b").add(Op.ATTACH, "Y", detail=("b", 2))
        case "client moves":
            writer.add(Op.DETACH, "Y").add(Op.ATTACH, "Y", detail=("c", 1))
        case "publisher leaves":
            writer.add(Op.DETACH, "X").add(Op.ATTACH, "X", detail=("c", 1))
    if not publisher_stays and fault.startswith("origin"):
        writer.add(Op.LOST, "X").add(Op.ATTACH, "X", detail=("c", 1))
    return writer


def past(fault: str, ending: Ending | None) -> Writer:
    """A subscription into the past, with a fault; it went on because of this, or nobody said anything."""
    writer = Writer().add(Op.SUB, "Y", subscription="s", filter=F, detail=(True, Past(last(5))))
    if fault == _faults.MEMORY_EXCEEDED:
        for number in (1, 2, 3):
            writer.pub(number, BAD)
    afflict(writer, fault).settled()
    if ending is not None:
        writer.add(Op.REMEMBERED, "Y", subscription="s", detail=(0, ending, False, 2))
    return writer.quiesce()


def trace(cell: Cell) -> Writer:
    guarantee, fault, feature = cell
    if fault == "any":
        return unsafe(guarantee)
    if guarantee.startswith("handled"):
        return unhandled(guarantee, fault)
    if feature == "choosing":
        return unchosen(guarantee, fault)
    if feature == "groups":
        return unshared(guarantee, fault)
    return past(fault, None) if feature == "history" else silent(guarantee, fault)


def turned(*cells: Cell, other: str = "") -> Promises:
    """The table with other values in some cells: nothing, or something instead of nothing."""
    changed = {cell: other or ("delivered" if PROMISES.cells[cell] == "nothing" else "nothing") for cell in cells}
    return Promises({**PROMISES.cells, **changed})


JUDGED = [cell for cell in PROMISES.cells if cell[2] in ("core", "history", "groups", "choosing")]


@pytest.mark.parametrize("cell", JUDGED, ids=" x ".join)
def test_the_checker_judges_otherwise_if_a_cell_says_otherwise(cell: Cell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_faults, "MEMORY", 2)
    records = trace(cell).records
    broken, otherwise = (
        {violation.guarantee for violation in check(records, table)} for table in (PROMISES, turned(cell))
    )
    promised = PROMISES.cells[cell] != "nothing"
    assert (cell[0] in broken, cell[0] in otherwise) == (promised, not promised)


HISTORY = [cell for cell in JUDGED if cell[2] == "history"]


@pytest.mark.parametrize("cell", HISTORY, ids=" x ".join)
def test_time_may_be_up_where_a_cell_says_so(cell: Cell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_faults, "MEMORY", 2)
    records = past(cell[1], Ending.TIMER).records
    broken = [violation.guarantee for violation in check(records, PROMISES)]
    assert broken == ([] if PROMISES.cells[cell] == "gap" else ["past complete"])
    assert "past complete" in [one.guarantee for one in check(records, turned(*HISTORY, other="delivered"))]


def test_every_cell_has_a_reader() -> None:
    assert all(vars(module) for module in ELSEWHERE)
    assert {*JUDGED, *READ} == set(PROMISES.cells)


def test_an_excuse_that_rests_on_the_table_goes_with_it() -> None:
    records = silent("delivery of fire", "origin gone").records
    assert check(records, PROMISES) == []
    assert check(records, turned(("delivery of fire", "origin gone", "core"))) != []
