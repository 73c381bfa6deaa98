"""The life of a worker, without a process: each way to go wrong costs what it should, and nothing waits for ever."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.aggregation.workers import (
    STRIKES,
    Check,
    Code,
    Combine,
    Combined,
    Described,
    Done,
    Failed,
    GivenUp,
    Kill,
    Lawful,
    Lift,
    Lifted,
    Present,
    Presented,
    Quarantined,
    Reply,
    Row,
    Send,
    Start,
    State,
    Supervisor,
    unframed,
)
from tidings.aggregation.workers._messages import HEADER, Batch
from tidings.aggregation.workers._supervision import (
    BATCH_SECONDS,
    CHECK_SECONDS,
    FORGIVEN_AFTER,
    MAX_STARTS,
    MAX_WAITING,
)
from tidings.model import AggregateError

ROW = Row(0, "b", "published", "", "", True, 0, "", b"\x80")
JOBS = [Combine([[b"1", b"2"]])]


def a_supervisor() -> Supervisor:
    supervisor = Supervisor()
    supervisor.install("acme.a", Code("source a", "A"))
    supervisor.install("acme.b", Code("source b", "B"))
    return supervisor


def sent(effects: list[Any]) -> Batch:
    (frame,) = [one.frame for one in effects if isinstance(one, Send)]
    return unframed(frame[HEADER:], Batch)


def good(batch: Batch) -> Reply:
    return Reply(batch.number, [Combined([b"3"])] * len(batch.jobs))


def test_a_batch_starts_a_worker_is_sent_with_its_code_and_answered() -> None:
    supervisor = a_supervisor()
    number, effects = supervisor.submit("acme.a", JOBS, 0.0)
    assert effects == [Start()]
    batch = sent(supervisor.ready(("seccomp",), 1.0))
    assert batch == Batch(number, "acme.a", JOBS, Code("source a", "A"))
    assert supervisor.deadline == 1.0 + BATCH_SECONDS
    assert supervisor.reply(good(batch), 1.1) == [Done(number, (Combined([b"3"]),))]
    assert (supervisor.state, supervisor.deadline, supervisor.layers) == (State.READY, None, ("seccomp",))
    _, effects = supervisor.submit("acme.a", JOBS, 2.0)
    assert sent(effects).code is None


def test_a_batch_that_is_lost_goes_to_a_new_worker_once_and_then_is_a_strike() -> None:
    supervisor = a_supervisor()
    number, _ = supervisor.submit("acme.a", JOBS, 0.0)
    supervisor.ready((), 0.0)
    assert supervisor.lost("crashed", 0.1) == [Start()]
    assert supervisor.strikes("acme.a") == 0
    assert sent(supervisor.ready((), 0.2)).code is not None
    assert supervisor.lost("crashed", 0.3) == [GivenUp(number, "crashed")]
    assert supervisor.strikes("acme.a") == 1
    assert supervisor.state is State.ABSENT


def test_a_batch_that_exceeds_its_deadline_is_killed_and_counts_as_lost() -> None:
    supervisor = a_supervisor()
    supervisor.submit("acme.a", JOBS, 0.0)
    supervisor.ready((), 0.0)
    assert supervisor.late(BATCH_SECONDS / 2) == []
    assert supervisor.late(BATCH_SECONDS) == [Kill("it did not answer within 0.5 seconds"), Start()]


def test_a_test_of_laws_has_more_time() -> None:
    supervisor = a_supervisor()
    supervisor.submit("acme.a", [Check(0, 2.0)], 0.0)
    batch = sent(supervisor.ready((), 0.0))
    assert supervisor.deadline == CHECK_SECONDS
    assert supervisor.reply(Reply(batch.number, [Lawful(1, 1)]), 0.0)


def test_three_strikes_are_quarantine_and_the_other_definitions_go_on() -> None:
    supervisor = a_supervisor()
    quarantined: list[Any] = []
    for at in range(STRIKES):
        supervisor.submit("acme.a", JOBS, at)
        batch = sent([*supervisor.ready((), at), *([] if at == 0 else _pending(supervisor))])
        effects = supervisor.reply(Reply(batch.number, [Failed("ValueError: no")]), at)
        quarantined += [one for one in effects if isinstance(one, Quarantined)]
    assert quarantined == [Quarantined("acme.a", "ValueError: no")]
    number, effects = supervisor.submit("acme.a", JOBS, 9)
    assert effects == [GivenUp(number, "acme.a is in quarantine: ValueError: no")]
    _, effects = supervisor.submit("acme.b", JOBS, 9)
    assert sent(effects).definition == "acme.b"


def _pending(supervisor: Supervisor) -> list[Any]:
    """What was sent when the batch was submitted: it is the one in front."""
    from tidings.aggregation.workers._messages import framed

    waiting = supervisor._line[0]
    return [Send(framed(Batch(waiting.number, waiting.definition, waiting.jobs)))]


def test_a_strike_is_forgiven_after_many_good_batches() -> None:
    supervisor = a_supervisor()
    supervisor.submit("acme.a", JOBS, 0)
    batch = sent(supervisor.ready((), 0))
    supervisor.reply(Reply(batch.number, [Failed("no")]), 0)
    for at in range(FORGIVEN_AFTER):
        assert supervisor.strikes("acme.a") == 1, at
        _, effects = supervisor.submit("acme.a", JOBS, 0)
        supervisor.reply(good(sent(effects)), 0)
    assert supervisor.strikes("acme.a") == 0


@pytest.mark.parametrize(
    "reply",
    [Reply(99, [Combined([])]), Reply(1, []), Reply(1, [Combined([]), Combined([])])],
    ids=["number", "few", "many"],
)
def test_an_answer_to_another_question_ends_the_worker(reply: Reply) -> None:
    supervisor = a_supervisor()
    supervisor.submit("acme.a", JOBS, 0)
    supervisor.ready((), 0)
    kill, start = supervisor.reply(reply, 0)
    assert isinstance(kill, Kill)
    assert start == Start()


def test_a_worker_that_speaks_unasked_is_ended() -> None:
    supervisor = a_supervisor()
    supervisor.submit("acme.a", JOBS, 0)
    supervisor.reply(good(sent(supervisor.ready((), 0))), 0)
    assert supervisor.reply(Reply(1, []), 0) == [Kill("it spoke without being asked")]
    assert supervisor.state is State.ABSENT


@pytest.mark.parametrize(
    ("job", "answer", "said"),
    [
        (JOBS[0], Lifted([], 0), "it answered combine with lifted"),
        (JOBS[0], Combined([b"1", b"2"]), "it combined 1 groups into 2 partials"),
        (Lift([]), Presented([]), "it answered lift with presented"),
        (Lift([ROW]), Lifted([("x" * 300, 0, b"1")], 1), "it gave a key of more than 256 characters"),
        (Lift([ROW]), Lifted([("x", 0, b"1"), ("y", 0, b"1")], 1), "it gave 2 partials of 1 records"),
        (Lift([ROW]), Lifted([("x", 0, b"1" * 65_537)], 1), "it gave a partial of more than 65,536 bytes"),
        (JOBS[0], Combined([b"1" * 65_537]), "it gave a partial of more than 65,536 bytes"),
        (Present([b"1"]), Presented([]), "it presented 1 partials as 0 values"),
        (Present([b"1"]), Presented([(b'"\\ud800"', 0.0)]), "it presented a value that cannot be told"),
        (Present([b"1"]), Presented([(b"[" * 900 + b"]" * 900, 0.0)]), "it presented a value that cannot be told"),
        (Present([b"1"]), Presented([(b"1", math.nan)]), "it presented a value that cannot be told"),
        (Check(0, 1.0), Described("a.b", "1", None, "", "once"), "it answered check with described"),
    ],
)
def test_answers_that_do_not_fit_are_strikes_and_end_in_quarantine(job: Any, answer: Any, said: str) -> None:
    supervisor = a_supervisor()
    effects: list[Any] = []
    for at in range(STRIKES):
        number, submitted = supervisor.submit("acme.a", [job], at)
        if not at:
            supervisor.ready((), at)
        effects = supervisor.reply(Reply(number, [answer]), at)
        assert effects[0] == Done(number, (Failed(said),))
        assert supervisor.strikes("acme.a") == at + 1
        assert submitted
    assert effects[1] == Quarantined("acme.a", said)


@pytest.mark.parametrize("speaks", [True, False])
def test_code_that_ends_its_worker_behind_each_answer_is_quarantined(speaks: bool) -> None:
    supervisor = a_supervisor()
    quarantined: list[Any] = []
    for at in range(STRIKES):
        assert quarantined == []
        supervisor.submit("acme.a", JOBS, at)
        supervisor.reply(good(sent(supervisor.ready((), at))), at)
        effects = supervisor.reply(Reply(1, []), at) if speaks else supervisor.lost("it ended", at)
        quarantined += [one for one in effects if isinstance(one, Quarantined)]
    assert [one.definition for one in quarantined] == ["acme.a"]
    assert supervisor.strikes("acme.b") == 0


def test_a_worker_that_does_not_start_is_told_to_all_who_wait_and_tried_again_later() -> None:
    supervisor = a_supervisor()
    one, _ = supervisor.submit("acme.a", JOBS, 0)
    two, _ = supervisor.submit("acme.b", JOBS, 0)
    for _ in range(MAX_STARTS - 1):
        assert supervisor.lost("no seccomp", 0) == [Start()]
    told = supervisor.lost("no seccomp", 0)
    assert told == [GivenUp(number, "the worker does not start: no seccomp") for number in (one, two)]
    assert supervisor.strikes("acme.a") == 0
    assert supervisor.submit("acme.a", JOBS, 0)[1] == [Start()]


def test_a_worker_without_the_layers_that_are_demanded_runs_nothing() -> None:
    supervisor = a_supervisor()
    supervisor.demands = ("network",)
    number, _ = supervisor.submit("acme.a", JOBS, 0)
    for _ in range(MAX_STARTS - 1):
        kill, start = supervisor.ready(("seccomp",), 0)
        assert isinstance(kill, Kill)
        assert start == Start()
    _, given_up = supervisor.ready(("seccomp",), 0)
    assert isinstance(given_up, GivenUp)
    assert given_up.number == number
    assert "does not grant a namespace for network" in given_up.reason
    supervisor.submit("acme.a", JOBS, 0)
    assert sent(supervisor.ready(("seccomp", "network"), 0)).definition == "acme.a"


def test_a_new_worker_is_sent_the_code_again() -> None:
    supervisor = a_supervisor()
    supervisor.submit("acme.a", JOBS, 0)
    supervisor.reply(good(sent(supervisor.ready((), 0))), 0)
    _, effects = supervisor.submit("acme.a", JOBS, 0)
    assert sent(effects).code is None
    supervisor.lost("crashed", 0)
    assert sent(supervisor.ready((), 0)).code is not None


def test_code_that_did_not_load_is_sent_again() -> None:
    supervisor = a_supervisor()
    supervisor.submit("acme.a", JOBS, 0)
    batch = sent(supervisor.ready((), 0))
    supervisor.reply(Reply(batch.number, [Failed("SyntaxError")]), 0)
    _, effects = supervisor.submit("acme.a", JOBS, 0)
    assert sent(effects).code is not None


def test_the_line_is_bounded() -> None:
    supervisor = a_supervisor()
    for _ in range(MAX_WAITING):
        supervisor.submit("acme.a", JOBS, 0)
    number, effects = supervisor.submit("acme.a", JOBS, 0)
    assert effects == [GivenUp(number, f"{MAX_WAITING} batches wait for the worker already")]


def test_what_is_removed_or_too_large_or_unknown_is_refused() -> None:
    supervisor = a_supervisor()
    number, _ = supervisor.submit("acme.a", JOBS, 0)
    assert supervisor.remove("acme.a") == [GivenUp(number, "acme.a was removed")]
    with pytest.raises(AggregateError, match=r"acme.a is not installed here; deploy it first"):
        supervisor.submit("acme.a", JOBS, 0)
    with pytest.raises(AggregateError, match="a batch of"):
        supervisor.submit("acme.b", [Combine([[b"x" * 9_000_000]])], 0)


steps = st.lists(
    st.sampled_from(["a", "b", "ready", "good", "failed", "wrong", "lost", "late", "remove", "install"]), max_size=60
)


@given(steps)
def test_every_batch_ends_once_whatever_happens(given: list[str]) -> None:
    supervisor = a_supervisor()
    open_batches: set[int] = set()
    with_worker: Batch | None = None
    now = 0.0

    def take(effects: list[Any]) -> None:
        nonlocal with_worker
        for effect in effects:
            if isinstance(effect, Send):
                assert with_worker is None, "one batch at a time"
                with_worker = unframed(effect.frame[HEADER:], Batch)
            elif isinstance(effect, Done | GivenUp):
                open_batches.remove(effect.number)  # raises for one that has ended before
            elif isinstance(effect, Kill):
                with_worker = None

    for step in [*given, *["ready", "lost", "late"] * 12, *["ready", "good"] * 80]:
        now += 100
        if step in "ab":
            name = f"acme.{step}"
            try:
                number, effects = supervisor.submit(name, JOBS, now)
            except AggregateError:
                continue
            open_batches.add(number)
            take(effects)
        elif step == "ready":
            take(supervisor.ready((), now))
        elif step == "lost":
            with_worker = None
            take(supervisor.lost("gone", now))
        elif step == "late":
            take(supervisor.late(now))
        elif step == "remove":
            take(supervisor.remove("acme.a"))
        elif step == "install":
            supervisor.install("acme.a", Code("a", "A"))
        elif with_worker is not None:
            answers: list[Any] = [Failed("no") if step == "failed" else Combined([])]
            reply = Reply(with_worker.number + (step == "wrong"), answers)
            with_worker = None
            take(supervisor.reply(reply, now))
        assert (supervisor.deadline is None) == (supervisor.state in (State.ABSENT, State.READY))
        assert (supervisor.state is State.BUSY) == (with_worker is not None)
    assert not open_batches
