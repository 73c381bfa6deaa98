"""How the point of an acknowledged group begins: with what all brokers know of its jobs and members."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set

from tidings.model import EventKey

from ._handled import HandledFacts
from ._jobs import Holder, Job, Jobs, JobState
from ._limits import BACK_WITHIN
from ._messages import Terms
from ._work_messages import Tried, WorkKnown


def terms_told(told: Mapping[str, WorkKnown], known: Terms | None) -> Terms | None:
    """What the members of an earlier point had in common, if one of them is still there; `known` if nobody is."""
    there = [one.present.terms for one in told.values() if one.present is not None and one.present.members]
    if not there:
        return known
    earlier = (one.terms for one in told.values() if one.terms is not None)
    return next((terms for terms in earlier if terms in there), None)


def settle_jobs(
    jobs: Jobs,
    told: Mapping[str, WorkKnown],
    facts: HandledFacts,
    there: Set[tuple[str, str]],
    release: Callable[[Job, int], None],
    *,
    now: int,
    deadline: int,
) -> None:
    """Find out who holds what: members say it; what nobody holds, but for members that are nowhere, is released.

    `there`: the members that are anywhere. A job of which no deadline is known gets this one.
    """
    claimed = {
        key.event: (key, Holder(broker, hand.client, hand.id))
        for broker, known in told.items()
        for hand in known.hands
        for key in hand.jobs
    }
    tried = _latest(told)
    for key in (*(key for key, _ in claimed.values()), *(last.job for last in tried.values())):
        if key.event not in facts:
            jobs.expect(key)
    for job in jobs:
        event = job.key.event
        last, claim = tried.get(event), claimed.get(event)
        if event in facts and claim is None:
            jobs.finish(job)
            continue
        if last is not None:
            job.deliveries = max(job.deliveries, last.deliveries)
        if claim is not None:
            due = last.due if last is not None and last.client else deadline
            job.deliveries = max(job.deliveries, 1)
            jobs.hold(job, *claim, max(due, now + 1))
        elif last is not None and last.client and (last.client, last.id) not in there and last.due > now:
            if job.holder is None:
                jobs.hold(job, last.job, Holder("", last.client, last.id), last.due)
            if job.due > now + BACK_WITHIN:
                jobs.schedule(job, now + BACK_WITHIN)
        elif last is not None and not last.client and last.due > now:
            jobs.release(job, last.due)
        elif job.state in (JobState.HELD, JobState.DELAYED):
            release(job, 0)


def _latest(told: Mapping[str, WorkKnown]) -> dict[EventKey, Tried]:
    """What is known of jobs that were given to members, by who knows of the last time."""
    tried: dict[EventKey, Tried] = {}
    for one in (one for known in told.values() for one in known.tried):
        before = tried.get(one.job.event)
        if before is None or (one.deliveries, one.due) > (before.deliveries, before.due):
            tried[one.job.event] = one
    return tried
