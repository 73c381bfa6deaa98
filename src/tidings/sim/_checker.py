"""The checker: was every promise kept in this run?

It knows the trace and docs/promises.md, nothing of brokers. Records are replayed in order; an observer's variables are
maintained (`_observer`): the active subscriptions of each client and what has been published. Safety is judged at every
NOTIFY, gaps when they are told (`_gaps`), liveness at every QUIESCE, when nothing is left to happen (`_liveness`).
"""

from __future__ import annotations

from collections.abc import Iterable

from tidings.model import Notification

from ._faults import Faults
from ._gaps import GapJudge
from ._liveness import Liveness
from ._observer import Client, Observer, Publication, Violation
from ._past import PastJudge
from ._promises import Promises
from ._trace import Op, Record, Trace

MATCHING = "matching-only"
ONCE = "at-most-once"
ORDER = "publisher-order"
SUBSCRIBED = "only-while-subscribed"


def check(
    trace: Trace | Iterable[Record], promises: Promises | None = None, *, advertisements: bool = False
) -> list[Violation]:
    """Return every broken promise, in the order of the trace. `advertisements` says whether the network uses them."""
    checker = Checker(promises, advertisements=advertisements)
    for record in trace.records if isinstance(trace, Trace) else trace:
        checker.step(record)
    return checker.violations


class Checker:
    """Judges the records of a trace one by one; `violations` collects the broken promises."""

    def __init__(self, promises: Promises | None = None, *, advertisements: bool = False) -> None:
        self.violations: list[Violation] = []
        self._promises = promises or Promises.load()
        self._kept = {guarantee: self._promises.holds(guarantee) for guarantee in (MATCHING, ONCE, ORDER, SUBSCRIBED)}
        self._faults = Faults()
        self._observer = Observer()
        self._gaps = GapJudge(self._observer, self._faults, self._promises)
        self._past = PastJudge(self._observer, self._faults, self._promises)
        self._liveness = Liveness(self._observer, self._faults, self._promises, advertisements)

    def step(self, record: Record) -> None:
        """Judge one record, then note it."""
        if record.op is Op.NOTIFY:
            self._judge(record)
        elif record.op is Op.FAULT:
            self._faults.record(record)
        elif record.op is Op.PUB:
            self._faults.published(self._observer.client(record.component).broker or "")
        elif record.op is Op.QUIESCE:
            self.violations += self._liveness.judge(record)
            self.violations += self._past.judge(record)
        self.violations += self._gaps.note(record)
        self.violations += self._past.note(record)
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
        elif record.notification not in self._visible(published, record):
            self._broken(MATCHING, record, f"what was published is {published.record.notification}")
        elif published.refused and not published.resent:  # the first broker took it, and the second refused it
            self._broken(MATCHING, record, "this publication was refused")

    def _visible(self, published: Publication, record: Record) -> frozenset[Notification]:
        """In which forms the client may see it, under the version of the graph that has judged it."""
        version = record.detail[4] if len(record.detail) > 4 else 0
        assert isinstance(version, int)
        return self._observer.visibility.forms(version, published.record, record.component)

    def _judge_repetition(self, client: Client, record: Record) -> None:
        if (record.subscription, record.publisher, record.publication, record.notification) in client.seen:
            self._broken(ONCE, record, "this was delivered before")
            return
        subscription = client.subscriptions.get(record.subscription)
        if subscription is None:
            return
        path = (record.publisher, *record.detail[:2])
        last = subscription.last.get(path, 0)
        if record.publication < last and self._observer.visibility.ordered:
            self._broken(ORDER, record, f"number {last} of this publisher was delivered first")
        subscription.last[path] = max(last, record.publication)

    def _broken(self, guarantee: str, record: Record, reason: str) -> None:
        if self._kept[guarantee]:
            self.violations.append(Violation(guarantee, record, reason))
