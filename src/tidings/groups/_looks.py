"""How a group looks at its deciding point, for those who ask."""

from __future__ import annotations

from tidings.wire import GroupStatus, MemberStatus

from ._jobs import JobState
from ._limits import MAX_LISTED
from ._names import GroupName
from ._point import Group
from ._work_queue import WorkQueue


def look_at_plain(group: Group, broker: str, *, members: bool) -> GroupStatus:
    """A plain group, with its members or without."""
    name, terms = GroupName.of_key(group.key), group.terms
    listed = (
        MemberStatus(client=member.client, broker=at, connected=member.ready)
        for at, member in group.places()
        if members
    )
    return GroupStatus(
        name=str(name),
        owner=name.owner,
        acknowledged=False,
        filter=terms.filter if terms is not None else "",
        decided_by=broker,
        members=group.members,
        waiting=group.waiting - group.open,
        held=group.open,
        behind=group.behind,
        taken=group.taken,
        handled=group.taken - group.waiting,
        losses=group.lost,
        listed=tuple(listed)[:MAX_LISTED],
    )


def look_at_work(queue: WorkQueue, broker: str, *, members: bool) -> GroupStatus:
    """An acknowledged group, with its members or without."""
    name, terms, jobs = GroupName.of_key(queue.key), queue.terms, queue.jobs
    work = terms.work if terms is not None else None
    held = jobs.count(JobState.HELD)
    published = (job.envelope.identity.published_at for job in jobs if job.envelope is not None)
    listed = (
        MemberStatus(
            client=member.client,
            broker=at,
            connected=member.ready,
            holds=jobs.held_by((member.client, member.id)),
            max_in_flight=member.most,
        )
        for at, member in queue.places()
        if members
    )
    return GroupStatus(
        name=str(name),
        owner=name.owner,
        acknowledged=True,
        filter=terms.filter if terms is not None else "",
        decided_by=broker,
        members=queue.members,
        waiting=len(jobs) - held,
        held=held,
        oldest=min(published, default=0),
        behind=queue.behind,
        taken=queue.taken,
        handled=queue.giving.done,
        redelivered=queue.giving.redelivered,
        dead_letters=queue.giving.dead,
        losses=queue.arrivals.lost,
        ack_within=work.ack_within if work is not None else 0,
        max_deliveries=work.max_deliveries if work is not None else 0,
        by=work.by if work is not None else "",
        listed=tuple(listed)[:MAX_LISTED],
    )
