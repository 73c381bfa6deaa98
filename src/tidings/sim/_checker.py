"""The checker: was every promise kept in this run?

It knows the trace and docs/promises.md, nothing of brokers. Records are replayed in order; an observer's variables are
maintained (`_observer`): the active subscriptions of each client and what has been published. Safety is judged at every
NOTIFY, gaps when they are told (`_gaps`), liveness at every QUIESCE, when nothing is left to happen (`_liveness`).
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ._choices import ChoiceJudge
from ._details import Notified
from ._excuses import Excuse, Excuses
from ._faults import Faults
from ._gaps import GapJudge
from ._groups import GroupJudge
from ._liveness import Liveness
from ._observer import Client, Observer, Publication, Violation
from ._one_host import ONE_HOST, OneHost
from ._past import PastJudge
from ._promises import Promises
from ._stretches import ONCE, Stretches
from ._trace import Op, Record, Trace, typed
from ._trace_file import read
from ._work import WorkJudge

MATCHING = "matching-only"
ORDER = "publisher-order"
SUBSCRIBED = "only-while-subscribed"
IN_SESSION = "in-session"
NOT_EARLY = "not-early"
GUARANTEES = (MATCHING, ONCE, ORDER, SUBSCRIBED, ONE_HOST, IN_SESSION, NOT_EARLY)
"""Those that hold in every run, or in none."""


def check(
    trace: Trace | Iterable[Record] | str | Path, promises: Promises | None = None, *, advertisements: bool = False
) -> list[Violation]:
    """Return every broken promise, in the order of the trace. `advertisements` says whether the network uses them.

    A path is that of a Parquet file that `Trace.write` has written.
    """
    checker = Checker(promises, advertisements=advertisements)
    if isinstance(trace, str | Path):
        trace = read(trace)
    for record in trace.records if isinstance(trace, Trace) else trace:
        checker.step(record)
    return checker.violations


class Checker:
    """Judges the records of a trace one by one; `violations` collects the broken promises."""

    def __init__(self, promises: Promises | None = None, *, advertisements: bool = False) -> None:
        self.violations: list[Violation] = []
        self.excuses = Excuses()
        """What was let pass, and why."""
        self._promises = promises or Promises.load()
        self._kept = {guarantee: self._promises.holds(guarantee) for guarantee in GUARANTEES}
        self._faults = Faults()
        self._observer = Observer()
        self._gaps = GapJudge(self._observer, self._faults, self._promises, self.excuses)
        self._stretches = Stretches()
        self._past = PastJudge(self._observer, self._faults, self._promises, self.excuses, self._stretches)
        self._one_host = OneHost(self._observer, self._faults)
        self._groups = GroupJudge(self._observer, self._faults, self._promises, self.excuses)
        self.work = WorkJudge(self._observer, self._faults, self._promises)
        """Follows the jobs of acknowledged groups."""
        self._choices = ChoiceJudge(self._observer, self._faults, self._promises, self.excuses)
        self._liveness = Liveness(self._observer, self._faults, self._promises, self.excuses, advertisements)

    def step(self, record: Record) -> None:
        """Judge one record, then note it."""
        record = typed(record)
        if record.op is Op.NOTIFY:
            self._judge(record)
        elif record.op is Op.FAULT:
            self._faults.record(record)
        elif record.op is Op.PUB:
            self._faults.published(self._observer.client(record.component).broker or "")
        elif record.op is Op.QUIESCE:
            self.violations += self._liveness.judge(record)
            self.violations += self._past.judge(record)
        self.violations += self._groups.note(record)
        self.violations += self.work.note(record)
        self.violations += self._choices.note(record)
        twice = list(self._stretches.note(record))
        self.violations += twice if self._kept[ONCE] else ()
        self.violations += self._gaps.note(record)
        self.violations += self._past.note(record)
        if self._kept[ONE_HOST]:
            self.violations += self._one_host.note(record)
        self._observer.note(record)

    def _judge(self, record: Record) -> None:
        client = self._observer.client(record.component)
        self._judge_subscription(client, record)
        self._judge_content(record)
        self._judge_repetition(client, record)

    def _judge_subscription(self, client: Client, record: Record) -> None:
        subscription = client.subscriptions.get(record.subscription)
        if subscription is None:
            self._broken(SUBSCRIBED, record, "the client has no such subscription any more")
        elif client.broker is None:
            self._broken(SUBSCRIBED, record, "the client is not attached")
        elif record.notification is None or not subscription.filter.matches(record.notification):
            self._broken(MATCHING, record, f"the filter is {subscription.filter}")
        elif record.publisher == record.component and not subscription.receive_own:
            self._broken(MATCHING, record, "the subscription does not want the client's own publications")

    def _judge_content(self, record: Record) -> None:
        published = self._observer.published.get((record.publisher, record.publication))
        if published is None:
            self._broken(MATCHING, record, "this was never published")
        elif not self._has_judged(version := _version(record), published):
            self._broken(MATCHING, record, f"version {version} of the graph was not active where it was published")
        elif record.notification not in self._observer.visibility.forms(version, published.record, record.component):
            if record.notification in self._observer.visibility.unconfined(version, published.record, record.component):
                self._broken(IN_SESSION, record, "it reacts to something that was in another session")
            else:
                self._broken(MATCHING, record, f"what was published is {published.record.notification}")
        elif record.time < published.record.time + self._delay(version, published, record):
            self._broken(NOT_EARLY, record, f"it was published {record.time - published.record.time} µs before")
        elif published.refused and published.resent:
            self.excuses.grant(Excuse.REFUSED_THE_SECOND_TIME, [record])
        elif published.refused:
            self._broken(MATCHING, record, "this publication was refused")

    def _delay(self, version: int, published: Publication, record: Record) -> int:
        assert record.notification is not None
        visibility = self._observer.visibility
        return visibility.delay(version, published.record, record.component, record.notification)

    def _has_judged(self, version: int, published: Publication) -> bool:
        return not self._observer.visibility.graphs or version in published.judged

    def _judge_repetition(self, client: Client, record: Record) -> None:
        event = (record.subscription, record.publisher, record.publication, record.notification)
        if event in client.seen:
            self._broken(ONCE, record, "this was delivered before")
            return
        if event in client.seen_before:
            self.excuses.grant(Excuse.ID_USED_AGAIN, [record])
        subscription = client.subscriptions.get(record.subscription)
        if subscription is None:
            return
        assert isinstance(record.detail, Notified)
        path = (record.publisher, record.detail.origin, record.detail.epoch)
        last = subscription.last.get(path, 0)
        if record.publication < last:
            if self._observer.visibility.ordered:
                self._broken(ORDER, record, f"number {last} of this publisher was delivered first")
            elif self._observer.visibility.longest_delay:
                self.excuses.grant(Excuse.ORDER_WITH_DELAYS, [record])
            elif self._observer.visibility.chooses:
                self.excuses.grant(Excuse.ORDER_WITH_CHOICES, [record])
            else:
                self.excuses.grant(Excuse.ORDER_AT_A_GATEWAY, [record])
        subscription.last[path] = max(last, record.publication)

    def _broken(self, guarantee: str, record: Record, reason: str) -> None:
        if self._kept[guarantee]:
            self.violations.append(Violation(guarantee, record, reason))


def _version(record: Record) -> int:
    """By which version of the scope graph a notification says that it was judged."""
    assert isinstance(record.detail, Notified)
    return record.detail.graph_epoch
