"""The subscriptions of one client: what they need of it, and what the service says about them."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from tidings.broker import Cause, LocalBroker
from tidings.model import Identity, Matches, Notification, Position, TidingsError
from tidings.wire import GROUPS, WORK, Gap, HistoryReport, Past

from ._callbacks import Callbacks
from ._durable import Durables
from ._jobs import Acks, Job, Jobs
from ._questions import Questions
from ._requests import Request
from ._subscription import Subscription
from ._terms import Terms
from ._uplink import Uplink

_T = TypeVar("_T")

log = logging.getLogger("tidings.client")

ACK_TIMEOUT = 5.0
"""Seconds to wait, when a client closes, until its broker has answered acknowledgements."""


class Subscriptions:
    """All that have not ended, by id."""

    def __init__(self, local: LocalBroker, link: Uplink, questions: Questions) -> None:
        self._local = local
        self._link = link
        self._by_id: dict[str, Subscription[Any]] = {}
        self._behind: set[Subscription[Any]] = set()
        """Those whose application does not keep up."""
        self._calls: set[Callbacks[Any]] = set()
        """Callbacks that are awaited, until nothing more is called."""
        self.durables = Durables(questions)
        self.answer: Callable[[Cause | None, Mapping[str, object]], Awaitable[None]]
        """Replies to a request; the client says how."""
        self.gaps = 0
        """How many times something was lost."""

    def add(self, terms: Terms[_T]) -> Subscription[_T]:
        """One begins now; a durable one, once the broker has said where it goes on."""
        if terms.durable is not None:
            self.durables.check(terms.durable)
        features, needed = self._link.features, GROUPS if terms.acks is None else WORK
        if terms.group is not None and features is not None and needed not in features:
            raise TidingsError(
                f"broker '{self._link.broker}' knows nothing of groups, so it cannot let this client into "
                f"'{terms.group}'; it runs an older version: upgrade it"
            )
        subscription = Subscription(self, self._local, terms, self._local.new_id())
        if terms.durable is not None:
            self.durables.add(subscription, terms.durable)
        elif terms.group is not None and terms.acks is not None:
            self._enlist(subscription, terms.group, terms.acks)
        elif terms.group is not None:
            self._local.join(terms.group, terms.filter, subscription.notify, id=subscription.id)
        else:
            self._announce(subscription, past=subscription.past)
        self._by_id[subscription.id] = subscription
        return subscription

    def _enlist(self, subscription: Subscription[Any], group: str, acks: Acks) -> None:
        local, id = self._local, subscription.id
        subscription.jobs = Jobs(group, functools.partial(local.ack, id), functools.partial(local.nack, id))
        local.enlist(
            group,
            subscription.filter,
            subscription.notify,
            work=acks.work,
            max_in_flight=acks.max_in_flight,
            answered=subscription.jobs.answered,
            id=id,
        )

    async def drain(self) -> None:
        """Wait until callbacks that are awaited have handled everything that has come so far."""
        for calls in list(self._calls):  # in this task: one of them may be waiting here itself
            await calls.drain()

    async def leave_work(self) -> None:
        """Wait until acknowledgements are answered, for a while; then give back all jobs."""
        for subscription in list(self._by_id.values()):
            if subscription.jobs is not None:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(ACK_TIMEOUT):
                        await subscription.jobs.drain()
                self._local.quit(subscription.id)

    async def end_callbacks(self) -> None:
        """No callback is awaited any more."""
        for calls in list(self._calls):
            await calls.cancel()

    def finish(self, error: TidingsError | None) -> None:
        """The client has ended; with an error, if that was not its own wish."""
        for subscription in list(self._by_id.values()):
            subscription.finish(error)

    # --- what a subscription calls --------------------------------------------------------------------

    def begin(self, subscription: Subscription[Any], after: dict[str, Position] | None) -> None:
        """A durable one goes on after these positions; None: it has none yet."""
        self._announce(subscription, after=after)

    def check(self, filter: Matches) -> None:
        """Raise `FilterError` for a filter that means nothing here."""
        self._local.here(filter)

    def change(self, subscription: Subscription[Any]) -> None:
        """One has another filter."""
        if subscription.id in self._local.subscriptions:  # a durable one may still have to begin, and will with this
            self._announce(subscription)

    def _announce(
        self,
        subscription: Subscription[Any],
        *,
        after: dict[str, Position] | None = None,
        past: Past | None = None,
    ) -> None:
        self._local.subscribe(
            subscription.filter,
            subscription.notify,
            id=subscription.id,
            receive_own=subscription.receive_own,
            after=after,
            duplicates=subscription.duplicates,
            past=past,
            many=subscription.notify_many if subscription.takes_many else None,
        )

    def end(self, subscription: Subscription[Any]) -> None:
        """Nothing more is wanted for one."""
        if subscription.durable is not None:
            subscription.durable.unsubscribed()
        self._local.unsubscribe(subscription.id)
        self._local.leave(subscription.id)
        self._local.quit(subscription.id)
        self._by_id.pop(subscription.id, None)

    def position(self, subscription: Subscription[Any]) -> dict[str, Position] | None:
        """How far one has seen each origin; None if it has ended."""
        return self._local.position(subscription.id)

    @property
    def delivering(self) -> Identity:
        """Who published what is being handed over, and where."""
        assert self._local.delivering is not None
        return self._local.delivering

    def job_of(self, jobs: Jobs, notification: Notification) -> Job:
        """What is being handed over, as a job."""
        assert self._local.delivering_job is not None
        return Job.given(jobs, notification, self.delivering, *self._local.delivering_job)

    @property
    def delivering_past(self) -> bool:
        """Whether what is being handed over comes from the past."""
        return self._local.delivering_past

    def request_of(self, notification: Notification, cause: Cause) -> Notification:
        """A request as an application gets it: it can be replied to."""
        return Request.of(notification, lambda reply: self.answer(cause, reply))

    def calls(self, callbacks: Callbacks[Any]) -> None:
        """A callback is awaited from now on."""
        self._calls.add(callbacks)
        callbacks.when_done(self._calls.discard)

    def falls_behind(self, subscription: Subscription[Any]) -> None:
        """The application does not keep up: stop reading."""
        self._behind.add(subscription)
        self._link.traffic.pause()

    def keeps_up(self, subscription: Subscription[Any]) -> None:
        """The application keeps up again."""
        self._behind.discard(subscription)
        if not self._behind:
            self._link.traffic.resume()

    # --- what the service says ------------------------------------------------------------------------

    def settled(self, id: str) -> None:
        """The network knows one."""
        if (subscription := self._by_id.get(id)) is not None:
            subscription.has_settled()

    def refused(self, id: str, error: TidingsError) -> bool:
        """Something was refused; whether it was one of these."""
        subscription = self._by_id.pop(id, None)
        if subscription is not None:
            self._local.unsubscribe(id)
            self._local.leave(id)
            self._local.quit(id)
            subscription.finish(error)
        return subscription is not None

    def remembered(self, report: HistoryReport) -> None:
        """The past of one has come."""
        if (subscription := self._by_id.get(report.id)) is not None:
            subscription.remembered(report)

    def gap(self, gap: Gap) -> None:
        """Something was lost for some."""
        self.gaps += 1
        told = [self._by_id[id].lost(gap) for id in gap.subscriptions if id in self._by_id]
        if not all(told):
            last = "an unknown end" if gap.last is None else gap.last
            log.warning("lost: numbers %s to %s of broker %s, epoch %s", gap.first, last, gap.origin, gap.epoch)
