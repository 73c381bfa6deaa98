"""The checker and the formulas tell good traces from bad ones; traces are written by hand here."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sim.traces import BAD, GOOD, OTHER, REACH, F, Writer, crashed

from tidings.model import Filter, Notification
from tidings.scopes import CreateScope, Graph, Join, apply
from tidings.sim import LIVENESS, SAFETY, Op, Promises, check, describe, satisfies
from tidings.sim import _temporal as t
from tidings.wire import Quality


@pytest.mark.req("VIS-126", "VIS-123")
def test_the_reference_traces_are_classified_as_the_document_states() -> None:
    s1 = Writer().sub().settled().pub(1).notify(9, BAD)
    s2 = Writer().pub(1).sub().unsub().notify(1)
    s3 = Writer().sub().settled().pub(1).pub(2).quiesce()
    for bad in (s1, s2):
        assert not satisfies(bad.records, SAFETY)
        assert set(bad.broken) & {"matching-only", "only-while-subscribed"}
    assert satisfies(s3.records, SAFETY)
    assert not satisfies(s3.records, LIVENESS)
    assert s3.broken == ["delivery of accepted", "delivery of accepted"]


def test_a_system_that_never_notifies_is_safe_but_not_live_and_one_that_tells_all_is_live_but_not_safe() -> None:
    silent = Writer().sub().settled().pub(1).quiesce()
    assert satisfies(silent.records, SAFETY)
    assert not satisfies(silent.records, LIVENESS)
    loud = Writer().sub().settled().pub(1).pub(2, BAD).notify(1).notify(2, BAD).quiesce()
    assert satisfies(loud.records, LIVENESS)
    assert not satisfies(loud.records, SAFETY)


GOOD_TRACES: dict[str, Callable[[], Writer]] = {
    "delivered": lambda: Writer().sub().settled().pub(1).notify(1).quiesce(),
    "not matching": lambda: Writer().sub().settled().pub(1, BAD).quiesce(),
    "published before it settled": lambda: Writer().sub().pub(1).settled().quiesce(),
    "unsubscribed later": lambda: Writer().sub().settled().pub(1).unsub().quiesce(),
    "detached later": lambda: Writer().sub().settled().pub(1).add(Op.DETACH, "Y").quiesce(),
    "settled towards others only": lambda: Writer().sub().settled(reach=frozenset("b")).pub(1).quiesce(),
    "filter changed to one that it does not pass": lambda: (
        Writer().sub().settled().pub(1).sub(Filter.parse("n > 5")).quiesce()
    ),
    "never acknowledged while its broker died": lambda: (
        Writer().sub().settled().pub(1, ack=False).fault("crash", "a").add(Op.LOST, "X").fault("restart", "a").quiesce()
    ),
    "a gap after the origin crashed": lambda: (
        Writer().sub().settled().pub(1).fault("crash", "a").fault("restart", "a").gap(1, None).quiesce()
    ),
    "stored, and the origin is gone": lambda: (
        Writer().sub().settled().pub(1, quality=Quality.STORED).fault("crash", "a").gap(1, None).quiesce()
    ),
    "an origin is gone twice, and was back in between": lambda: (
        Writer().sub().settled().pub(1).fault("crash", "a").gap(1, None).gap(2, None).quiesce()
    ),
    "an origin is gone again after something of it came": lambda: (
        Writer().sub().settled().fault("crash", "a").gap(1, None).pub(3).notify(3).gap(4, None).quiesce()
    ),
    "each epoch of an origin has a gap of its own": lambda: (
        crashed(Writer().sub().settled().pub(1))
        .gap(1, None)
        .pub(2, epoch=2)
        .then(crashed)
        .gap(2, None, epoch=2)
        .quiesce()
    ),
    "a default that the disk did not take": lambda: (
        crashed(Writer().sub().settled().pub(1, quality=Quality.DEFAULT, reached=Quality.ACCEPTED))
        .gap(1, None)
        .quiesce()
    ),
    "a default that was never answered, and the disk was full": lambda: (
        crashed(Writer().sub().settled().fault("fill", "a").pub(1, quality=Quality.DEFAULT, ack=False))
        .gap(1, None)
        .quiesce()
    ),
    "own publications not wanted": lambda: Writer().sub(receive_own=False).settled().pub(1, who="Y").quiesce(),
    "two subscriptions, one publication each": lambda: (
        Writer().sub().sub(id="z").settled().settled("z").pub(1).notify(1).notify(1, id="z").quiesce()
    ),
    "the order of two publishers is free": lambda: (
        Writer().sub().settled().pub(1).pub(2, who="Z").notify(2, who="Z").notify(1).quiesce()
    ),
}


@pytest.mark.parametrize("name", GOOD_TRACES)
def test_good_traces_pass(name: str) -> None:
    assert GOOD_TRACES[name]().broken == []


PLANTED: dict[str, tuple[str, Callable[[], Writer]]] = {
    "duplicate": ("at-most-once", lambda: Writer().sub().pub(1).notify(1).notify(1)),
    "reordered": ("publisher-order", lambda: Writer().sub().pub(1).pub(2).notify(2).notify(1)),
    "leak after unsubscribe": ("only-while-subscribed", lambda: Writer().sub().pub(1).unsub().notify(1)),
    "leak after detach": ("only-while-subscribed", lambda: Writer().sub().pub(1).add(Op.DETACH, "Y").notify(1)),
    "content changed": ("matching-only", lambda: Writer().sub().pub(1).notify(1, OTHER)),
    "never published": ("matching-only", lambda: Writer().sub().notify(1)),
    "notified before published": ("matching-only", lambda: Writer().sub().notify(1).pub(1)),
    "filter not passed": ("matching-only", lambda: Writer().sub().pub(1, BAD).notify(1, BAD)),
    "old filter passed": ("matching-only", lambda: Writer().sub().sub(Filter.parse("n > 5")).pub(1).notify(1)),
    "own although not wanted": (
        "matching-only",
        lambda: Writer().sub(receive_own=False).pub(1, who="Y").notify(1, who="Y"),
    ),
    "refused and yet delivered": (
        "matching-only",
        lambda: Writer().sub().pub(1, ack=False).add(Op.REFUSED, "X", detail=("NotAdvertised", "", "1")).notify(1),
    ),
    "missing": ("delivery of accepted", lambda: Writer().sub().settled().pub(1).quiesce()),
    "missing, fired": ("delivery of fire", lambda: Writer().sub().settled().pub(1, quality=Quality.FIRE).quiesce()),
    "missing, stored": (
        "delivery of stored",
        lambda: Writer().sub().settled().pub(1, quality=Quality.STORED).quiesce(),
    ),
    "missing after a change of filter that it passes": (
        "delivery of accepted",
        lambda: Writer().sub().settled().sub(Filter.parse("n >= 0")).pub(1).quiesce(),
    ),
    "missing after a cut": (
        "delivery of accepted",
        lambda: Writer().sub().settled().fault("cut", "a - b").pub(1).fault("heal", "a - b").quiesce(),
    ),
    "missing after moving": (
        "delivery of accepted",
        lambda: Writer().sub().settled().add(Op.DETACH, "Y").pub(1).add(Op.ATTACH, "Y", detail=("a", 1)).quiesce(),
    ),
    "gap without a fault": ("gap", lambda: Writer().sub().settled().pub(1).gap(1, 1).quiesce()),
    "gap where only a link was cut": (
        "gap",
        lambda: Writer().sub().settled().pub(1).fault("cut", "a - b").fault("heal", "a - b").gap(1, 1).quiesce(),
    ),
    "gap for what was stored, and the origin is back": (
        "delivery of stored",
        lambda: (
            Writer()
            .sub()
            .settled()
            .pub(1, quality=Quality.STORED)
            .fault("crash", "a")
            .fault("restart", "a")
            .gap(1, None)
            .quiesce()
        ),
    ),
    "gap that does not contain it": (
        "delivery of accepted",
        lambda: Writer().sub().settled().pub(1).fault("crash", "a").fault("restart", "a").gap(2, None).quiesce(),
    ),
    "gap of another epoch": (
        "delivery of accepted",
        lambda: (
            Writer().sub().settled().pub(1).fault("crash", "a").fault("restart", "a").gap(1, None, epoch=2).quiesce()
        ),
    ),
    "gap of a broker where everything was stored": (
        "gap",
        lambda: (
            Writer()
            .sub()
            .settled()
            .pub(1, quality=Quality.STORED)
            .notify(1)
            .fault("crash", "a")
            .fault("restart", "a")
            .gap(2, None)
            .quiesce()
        ),
    ),
    "gap told twice": (
        "gap",
        lambda: (
            Writer()
            .sub()
            .settled()
            .pub(1)
            .fault("crash", "a")
            .fault("restart", "a")
            .gap(1, None)
            .gap(1, None)
            .quiesce()
        ),
    ),
    "gap of an epoch where everything was stored, after one where not": (
        "gap",
        lambda: (
            crashed(Writer().sub().settled().pub(1))
            .gap(1, None)
            .pub(2, quality=Quality.STORED, epoch=2)
            .notify(2, epoch=2)
            .quiesce()
            .then(crashed)
            .gap(3, None, epoch=2)
            .quiesce()
        ),
    ),
    "gap of an epoch whose defaults had a disk": (
        "gap",
        lambda: (
            crashed(Writer().sub().settled().pub(1, quality=Quality.DEFAULT, reached=Quality.STORED).notify(1))
            .gap(2, None)
            .quiesce()
        ),
    ),
    "gap with an end where everything was stored, although the origin was gone": (
        "gap",
        lambda: (
            Writer()
            .sub()
            .settled()
            .pub(1, quality=Quality.STORED)
            .pub(2, quality=Quality.STORED)
            .fault("crash", "a")
            .gap(1, 1)
            .gap(2, None)
            .quiesce()
        ),
    ),
    "gap in an epoch that goes on": (
        "gap",
        lambda: crashed(Writer().sub().settled().pub(1)).gap(1, None).pub(2, epoch=2).gap(1, 2, epoch=2).quiesce(),
    ),
    "gaps that overlap": (
        "gap",
        lambda: crashed(Writer().sub().settled().pub(1).pub(2)).gap(2, None).gap(1, 2).quiesce(),
    ),
    "gap told twice of an origin that is gone": (
        "gap",
        lambda: Writer().sub().settled().pub(1).fault("crash", "a").gap(1, None).gap(1, None).quiesce(),
    ),
    "never answered": ("answered", lambda: Writer().pub(1, ack=False).quiesce()),
}


@pytest.mark.req("VIS-124", "VIS-125")
@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_violation_is_found(name: str) -> None:
    guarantee, trace = PLANTED[name]
    assert guarantee in trace().broken


def test_a_violation_says_what_and_where() -> None:
    violation = check(Writer().sub().pub(1).notify(1, OTHER).records)[0]
    assert "matching-only: what was published is Notification(n=1)" in str(violation)
    assert "notify  Y  s  X#1  Notification(n=2)" in describe(violation.record)


def test_what_was_acknowledged_is_owed_whether_or_not_its_advertisement_has_settled() -> None:
    def trace(reach: frozenset[str] | None, filter: Filter = F) -> list[str]:
        writer = Writer().add(Op.ADV, "X", subscription="adv", filter=filter).sub().settled()
        if reach is not None:
            writer.settled("adv", reach, "X", advertisement=True)
        return [v.guarantee for v in check(writer.pub(1).quiesce().records, advertisements=True)]

    assert trace(REACH) == trace(frozenset("a")) == trace(None) == ["delivery of accepted"]
    assert "answered" in trace(REACH, Filter.parse("n > 5")), "acknowledged without an advertisement"


def test_what_was_handed_over_again_is_owed_with_advertisements_too() -> None:
    writer = Writer().add(Op.ADV, "X", subscription="adv", filter=F).sub().settled()
    writer.pub(1, quality=Quality.STORED, ack=False).fault("crash", "a").add(Op.LOST, "X").fault("restart", "a")
    writer.add(Op.ATTACH, "X", detail=("a", 2)).add(Op.ACK, "X", publication=1, publisher="X", detail=("a", 2, 1))
    assert [v.guarantee for v in check(writer.quiesce().records, advertisements=True)] == ["delivery of stored"]


def test_a_refusal_needs_a_reason() -> None:
    writer = Writer().add(Op.ADV, "X", subscription="adv", filter=F).pub(1, ack=False)
    writer.add(Op.REFUSED, "X", detail=("NotAdvertised", "", "1")).quiesce()
    assert [v.guarantee for v in check(writer.records, advertisements=True)] == ["answered"]


REFUSALS = {
    "a default for want of room": (Quality.DEFAULT, True, True),
    "stored while the disk is full": (Quality.STORED, True, False),
    "stored, and the disk was full before": (Quality.STORED, False, True),
    "accepted": (Quality.ACCEPTED, True, True),
}
"""What was asked for, whether the disk is full at that time, and whether the refusal is a violation."""


@pytest.mark.parametrize("name", REFUSALS)
def test_a_refusal_needs_its_cause(name: str) -> None:
    quality, full, broken = REFUSALS[name]
    writer = Writer().fault("fill", "a")
    if not full:
        writer.fault("empty", "a")
    writer.pub(1, quality=quality, ack=False).add(Op.REFUSED, "X", detail=("TidingsError", "", "1")).quiesce()
    assert writer.broken == (["answered"] if broken else [])


def test_advertisements_count_as_they_were_when_something_was_handed_over() -> None:
    def trace(advertised: bool) -> list[str]:
        writer = Writer().pub(1, ack=False).add(Op.LOST, "X")
        if advertised:
            writer.add(Op.ADV, "X", subscription="adv", filter=F)
        writer.add(Op.ATTACH, "X", detail=("a", 1)).add(Op.ACK, "X", publication=1, publisher="X", detail=("a", 1, 1))
        return [violation.guarantee for violation in check(writer.quiesce().records, advertisements=True)]

    assert (trace(advertised=True), trace(advertised=False)) == ([], ["answered"])


def test_a_client_that_found_a_broker_again_is_owed_an_answer() -> None:
    writer = Writer().add(Op.LOST, "X").pub(1, ack=False).add(Op.ATTACH, "X", detail=("b", 1)).quiesce()
    assert writer.broken == ["answered"]


def test_a_crash_after_something_must_have_arrived_excuses_nothing() -> None:
    def trace(seconds: int) -> list[str]:
        writer = Writer().sub().settled().pub(1, quality=Quality.FIRE)
        writer.later(seconds).fault("crash", "a").fault("restart", "a").quiesce()
        return writer.broken

    assert (trace(seconds=5), trace(seconds=15)) == ([], ["delivery of fire"])


def test_an_outage_that_holds_something_up_lets_a_later_crash_excuse_it() -> None:
    writer = Writer().sub().settled().fault("cut", "a - b").pub(1, quality=Quality.FIRE).later(30)
    assert writer.fault("crash", "a").fault("restart", "a").fault("heal", "a - b").quiesce().broken == []


@pytest.mark.parametrize(("told", "epoch", "broken"), [("since", 1, False), ("since", 3, True), ("before", 1, True)])
def test_a_number_that_is_not_known_is_in_a_gap_of_its_origin_that_was_told_since(
    told: str, epoch: int, broken: bool
) -> None:
    writer = Writer().sub().settled().pub(5)
    if told == "before":
        writer.gap(5, None, epoch=epoch)
    writer.pub(1, ack=False).then(crashed)
    if told == "since":
        writer.gap(5, None, epoch=epoch)
    writer.add(Op.ACK, "X", publication=1, publisher="X", detail=("a", 2, 0)).quiesce()
    lost = [one.record.publication for one in check(writer.records) if one.guarantee == "delivery of accepted"]
    assert (1 in lost) is broken


def test_a_notification_is_judged_by_a_version_that_was_active_at_its_broker() -> None:
    def trace(version: int) -> list[str]:
        writer = Writer().add(Op.ACTIVE, "a", detail=(1, Graph())).add(Op.ACTIVE, "b", detail=(2, Graph()))
        writer.sub().settled().pub(1)
        detail = ("a", 1, 1, 0, version)
        return (
            writer.add(Op.NOTIFY, "Y", subscription="s", publication=1, publisher="X", notification=GOOD, detail=detail)
            .quiesce()
            .broken
        )

    assert trace(1) == []
    assert trace(2) == ["matching-only"]


@pytest.mark.parametrize(("version", "owed"), [(1, True), (2, False)])
def test_what_asks_for_no_answer_is_owed_as_the_version_shows_it_under_which_it_was_taken(
    version: int, owed: bool
) -> None:
    apart = apply(Graph(version=1), (CreateScope("s"), Join("@Y", "s")))
    writer = Writer().add(Op.ACTIVE, "a", detail=(1, Graph())).add(Op.ACTIVE, "b", detail=(1, Graph()))
    writer.sub().settled().pub(1, quality=Quality.FIRE)
    if version == 1:
        writer.add(Op.TAKEN, publication=1, publisher="X", detail=("a", 1, 1, 0, 1))
    writer.later(20).add(Op.ACTIVE, "a", detail=(2, apart)).add(Op.ACTIVE, "b", detail=(2, apart))
    if version == 2:
        writer.add(Op.TAKEN, publication=1, publisher="X", detail=("a", 1, 1, 0, 2))
    assert writer.later(20).quiesce().broken == ["delivery of fire"] * owed


@pytest.mark.parametrize(("seconds", "told", "owed"), [(1, True, False), (1, False, True), (20, True, True)])
def test_for_a_while_after_its_broker_came_back_something_may_be_in_a_gap_of_a_group(
    seconds: int, told: bool, owed: bool
) -> None:
    writer = Writer().join().joined().fault("crash", "a").fault("restart", "a").later(seconds)
    writer.pub(1, quality=Quality.STORED)
    if told:
        writer.add(Op.MISSED, "Y", subscription="g", detail=("a", 1, 1, None))
    assert writer.later(20).quiesce().broken == ["share of stored"] * owed


def test_a_weaker_promise_excuses_more() -> None:
    trace = Writer().sub().settled().pub(1).quiesce()
    table = "\n".join(
        "| " + " | ".join((*cell, "nothing" if cell[0].startswith("delivery") else outcome)) + " |"
        for cell, outcome in Promises.load().cells.items()
    )
    assert check(trace.records, Promises.read(table)) == []


# --- the formulas -------------------------------------------------------------------------------------


def _is(op: Op) -> t.Formula:
    return t.action(lambda record: record.op is op)


@pytest.mark.req("VIS-123")
def test_always_eventually_next_on_small_words() -> None:
    records = Writer().pub(1, ack=False).quiesce().records  # attach attach pub quiesce
    assert satisfies(records, _is(Op.ATTACH))
    assert satisfies(records, t.next_step(_is(Op.ATTACH)))
    assert not satisfies(records, t.next_step(t.next_step(_is(Op.ATTACH))))
    assert satisfies(records, t.eventually(_is(Op.PUB)))
    assert not satisfies(records, t.eventually(_is(Op.SUB)))
    assert satisfies(records, t.always(t.negation(_is(Op.SUB))))
    assert not satisfies(records, t.always(_is(Op.ATTACH)))
    assert satisfies(records, t.eventually(t.always(_is(Op.QUIESCE))))
    assert not satisfies(records, t.always(t.eventually(_is(Op.PUB))))
    assert satisfies([], t.always(_is(Op.PUB)))
    assert not satisfies([], t.eventually(_is(Op.PUB)))


@given(st.lists(st.booleans(), max_size=8))
def test_the_operators_are_dual(bits: list[bool]) -> None:
    writer = Writer()
    for bit in bits:
        writer.add(
            Op.PUB if bit else Op.SUB, "X", publication=1, publisher="X", notification=GOOD, filter=F, detail=(True,)
        )
    p = _is(Op.PUB)
    assert satisfies(writer.records, t.always(p)) == (not satisfies(writer.records, t.eventually(t.negation(p))))
    assert satisfies(writer.records, t.always(p)) == satisfies(
        writer.records, t.both(p, t.next_step(t.always(p))) if writer.records else t.always(p)
    )


STEPS = st.sampled_from(["sub", "unsub", "settled", "pub", "other", "bad", "notify", "wrong", "twice"])


@pytest.mark.req("VIS-123")
@given(st.lists(STEPS, max_size=12))
def test_the_checker_and_the_formulas_agree(steps: list[str]) -> None:
    writer = Writer()
    published: list[Notification] = []
    for step in steps:
        match step:
            case "sub":
                writer.sub()
            case "unsub":
                writer.unsub()
            case "settled" if any(r.op is Op.SUB for r in writer.records):
                writer.settled()
            case "pub" | "other" | "bad":
                published.append({"pub": GOOD, "other": OTHER, "bad": BAD}[step])
                writer.pub(len(published), published[-1])
            case "notify" if published:
                writer.notify(len(published), published[-1])
            case "twice" if len(published) > 1:
                writer.notify(1, published[0])
            case "wrong":
                writer.notify(len(published) + 1, GOOD)
    records = writer.quiesce().records
    broken = [v.guarantee for v in check(records)]
    safe = not any(guarantee in ("matching-only", "at-most-once", "only-while-subscribed") for guarantee in broken)
    assert safe == satisfies(records, SAFETY)
    if safe and all(r.op is not Op.UNSUB for r in records):  # begun again under one id: the formula is about the id
        assert any(g.startswith("delivery") for g in broken) == (not satisfies(records, LIVENESS))
