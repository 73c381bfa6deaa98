"""A caching strategy: where brokers remember notifications, whom they ask, and how answers become one.

Theory of operation
-------------------
A strategy is a feature. It sees what the broker does at joinpoints and does its own beside it; routing does not know of
it, and its tables are the same with it as without. What all strategies share is here:

    SUB_ADD, SUB_DEL   a filter is remembered as long as there is a subscription to it (`index_scope` says whose)
    PUB_MATCH          a notification that passes is remembered
    ATTACH, AD_ADD     with `producer_history`, so are the publications of each client, wanted or not
    SUBSCRIBE          a subscription with a past is held (`_access`), and as soon as it is in the table (SUB_ADD) the
                       strategy is asked to find its past (`opened`)
    SUB_SEND           a request goes with the subscription that routing announces to a neighbour anyway
    UNSUB_SEND         a neighbour stops sending: what it has sent is forgotten, lest there be a hole behind it
    TREE               what neighbours have sent may have holes now, and what they were asked is lost

Turns are not split, so what a strategy finds and what it registers fit together without a hole.

These strategies serve networks without scopes. Where scopes are defined, a subscription gets no past by them: what a
cache holds has not been judged by the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from tidings.broker import Advice, Delta, Entry, Feature, Joinpoint, Link, Registration, Tree
from tidings.history._combinations import ABOVE_SIMPLE, Requirement, check_combination
from tidings.history._strategy_options import IndexScope, StrategyOptions
from tidings.model import EVERYTHING, ROOT_SCOPE, Filter, Route, TidingsError
from tidings.wire import Ending, Envelope, HistoryReport

from ._access import Access
from ._cache import CacheEntry, EventCache
from ._requests import AnyRequestMessage, Release, Replay, Request, RequestId, decode, encode

_DEFAULT_OPTIONS = StrategyOptions()

Changes = Mapping[Link, Delta]
"""What routing tells each neighbour because of a subscription."""


class CachingStrategy(Feature):
    """What all caching strategies share. A new one says where the past is (`opened`), and what neighbours get (`asked`,
    `heard`)."""

    name = "history"
    privileged = True
    priority = 50

    kind: ClassVar[str]
    """Its name in the configuration, and in the table of allowed combinations."""
    requirements: ClassVar[frozenset[Requirement]]
    index_scope: ClassVar[IndexScope] = IndexScope.ALL
    asks_further: ClassVar[bool] = True
    """Whether neighbours are asked to whom routing announces nothing, where it is above simple."""

    def __init__(self, options: StrategyOptions = _DEFAULT_OPTIONS, *, warn: Callable[[str], None] = lambda text: None):
        self.options = options
        self.cache = EventCache(options.limits, warn=warn)
        self.passing: tuple[Envelope, Link | None]
        """The notification of this turn, and the link over which it came."""
        self.late = 0
        """Messages about requests that were over."""
        self.endings = dict.fromkeys(Ending, 0)
        """How many subscriptions went on, and why."""
        self.delivered = 0
        """Notifications from the past that clients got."""
        self._taken = self._cancelled = 0
        self._number = 0
        self._remembered: dict[Entry, CacheEntry | None] = {}
        self._publishers: dict[Link | Entry, CacheEntry | None] = {}
        self._opening: dict[Registration, Access] = {}
        self._asked: dict[Registration, tuple[RequestId, list[Link]]] = {}
        """What has to be released when the subscription ends."""
        self._arrived: tuple[Link, Request] | None = None
        """What came with a subscription that a neighbour announces, until that is taken in."""
        self._bounded: dict[Link, Request] = {}
        """What goes with the next subscription that is announced to a neighbour in this turn."""

    def start(self) -> None:
        """The broker is built: does its routing suit this strategy?"""
        routing = self.context.routing
        check_combination(self.kind, routing, self.options.force_forwards)
        forwards = self.options.force_forwards
        above_simple = routing.algorithm in ABOVE_SIMPLE
        self.force_forwards = self.asks_further and (above_simple if forwards is None else forwards)
        self._scope = self.options.index_scope or self.index_scope

    @property
    def statistics(self) -> dict[str, int]:
        """What there is, and what has happened so far."""
        return {
            "asked": self._taken,
            "answered": self.endings[Ending.ANSWERED],
            "satisfied": self.endings[Ending.SATISFIED],
            "timed_out": self.endings[Ending.TIMER],
            "cancelled": self._cancelled,
            "delivered": self.delivered,
            "late": self.late,
            "cache_filters": len(self.cache),
            "cache_notifications": self.cache.cells,
            "cache_bytes": self.cache.bytes,
            "cache_rejected": self.cache.rejected,
        }

    # --- what a strategy does of its own --------------------------------------------------------------

    def opened(self, access: Access, changes: Changes) -> None:
        """A client of this broker subscribes into the past: find it, and call `access.finish`."""
        raise NotImplementedError

    def asked(self, link: Link, request: Request, changes: Changes, entry: Entry | None) -> None:
        """A neighbour asks, with a subscription that routing takes (`entry`) or without. Answer, if with nothing."""
        self.send(link, Replay(request.id, []))

    def heard(self, link: Link, message: AnyRequestMessage) -> None:
        """A neighbour says something else; nobody was asked."""
        self.late += 1

    def passed(self, envelope: Envelope, source: Link) -> None:
        """A notification passes; it has been remembered."""

    def interrupted(self, link: Link | None) -> None:
        """This neighbour has forgotten everything; None: there is a new tree, and all have. Requests are lost."""

    # --- subscriptions --------------------------------------------------------------------------------

    def advice(self) -> Mapping[Joinpoint, Advice]:
        """Where this feature looks in."""
        chosen: dict[Joinpoint, Advice] = {
            Joinpoint.SUBSCRIBE: self._on_subscribe,
            Joinpoint.SUB_ADD: self._on_sub_add,
            Joinpoint.SUB_DEL: self._on_sub_del,
            Joinpoint.SUB_SEND: self._on_sub_send,
            Joinpoint.UNSUB_SEND: self._on_unsub_send,
            Joinpoint.PUB_MATCH: self._on_pub_match,
            Joinpoint.TREE: self._on_tree,
        }
        if self.options.producer_history:
            chosen |= {
                Joinpoint.ATTACH: self._on_attach,
                Joinpoint.DETACH: self._on_detach,
                Joinpoint.AD_ADD: self._on_ad_add,
                Joinpoint.AD_DEL: self._on_ad_del,
            }
        return chosen

    @property
    def serves(self) -> bool:
        """Whether the past may be had: nobody has defined scopes."""
        return self.context.scoping.flat

    def _on_subscribe(self, proceed: Callable[..., None], registration: Registration) -> None:
        past = registration.past
        if past is None:
            proceed(registration)
            return
        if not isinstance(registration.filter, Filter):
            raise TidingsError(
                f"a filter of class {type(registration.filter).__name__} has no past here: it cannot be told from "
                "others; use the filter language, or subscribe without `past`"
            )
        self._taken += 1
        if not self.serves:
            self.endings[Ending.ANSWERED] += 1
            self.context.tell(
                registration.link, HistoryReport(registration.id, registration.number, 0, Ending.ANSWERED)
            )
            return
        bound = past.bound
        limit = min(self.options.max_answer, self.options.max_answer if bound.count is None else bound.count)
        access = Access(self, registration, registration.filter, self._next_id(), limit)
        access.hold = self.context.holds.begin(registration, access)
        access.timer = self.context.call_later(access.time, lambda: access.finish(Ending.TIMER))
        self._opening[registration] = access

    def _next_id(self) -> RequestId:
        self._number += 1
        return (self.context.name, self.context.epoch, self._number)

    def _on_sub_add(self, proceed: Callable[..., Any], scope: str, entry: Entry) -> dict[Link, Delta]:
        changes: dict[Link, Delta] = proceed(scope, entry)
        self._bounded.clear()
        wanted = entry.link.is_client or (self._scope is IndexScope.ALL and entry.link.is_broker)
        if wanted and self.serves:
            self._remembered[entry] = self.cache.retain(entry.filter, scope)
        if entry.registration is not None and (access := self._opening.pop(entry.registration, None)) is not None:
            if self.serves:
                self.opened(access, changes)
            else:  # its client was not in its place yet, and there turned out to be scopes
                access.finish(Ending.ANSWERED)
        elif self._arrived is not None and entry.link is self._arrived[0]:
            link, request = self._arrived
            self._arrived = None
            self.asked(link, request, changes, entry)
        return changes

    def _on_sub_del(self, proceed: Callable[..., Any], scope: str, entry: Entry) -> dict[Link, Delta]:
        changes: dict[Link, Delta] = proceed(scope, entry)
        self.cache.release(self._remembered.pop(entry, None))
        if entry.registration is not None:
            self._release(entry.registration)
        return changes

    def _on_sub_send(
        self, proceed: Callable[..., None], scope: str, announcement: object, source: Link, targets: list[Link]
    ) -> None:
        for link in targets:
            if (request := self._bounded.pop(link, None)) is not None:
                self.context.attach(link, encode(request))
        proceed(scope, announcement, source, targets)

    def _on_unsub_send(
        self, proceed: Callable[..., None], scope: str, id: str, source: Link, targets: list[Link]
    ) -> None:
        proceed(scope, id, source, targets)
        if scope == ROOT_SCOPE:
            for link in targets:
                self._stopped(link)

    def _stopped(self, link: Link) -> None:
        """A neighbour sends less from now on: where it sends nothing, what it has sent will soon not be the newest."""
        announced = self.context.scoping.root.subscriptions.told(link).values()
        told = [filter for filter in announced if isinstance(filter, Filter)]
        same = {filter.canonical() for filter in told}  # most entries are for what was told as it is
        for entry in self.cache.entries:
            if (
                entry.filter not in same
                and any(cell.link is link for cell in entry.cells)
                and not any(one.covers(entry.filter) for one in told)
            ):
                self.cache.interrupted(link, entry)

    # --- notifications --------------------------------------------------------------------------------

    def _on_pub_match(self, proceed: Callable[..., Any], route: Route, envelope: Envelope, source: Link) -> Any:
        if self.serves:
            self.passing = (envelope, source)
            self.cache.append(envelope, source)
            self.passed(envelope, source)
        return proceed(route, envelope, source)

    def _on_attach(self, proceed: Callable[..., None], link: Link) -> None:
        proceed(link)
        if not self.context.routing.advertisements:
            self._publishers[link] = self.cache.retain_producer(link, self.options.producer_history, EVERYTHING)

    def _on_detach(self, proceed: Callable[..., None], link: Link) -> None:
        proceed(link)
        self.cache.release(self._publishers.pop(link, None))

    def _on_ad_add(self, proceed: Callable[..., Any], scope: str, entry: Entry) -> Any:
        if entry.link.is_client and isinstance(entry.filter, Filter):
            kept = self.cache.retain_producer(entry.link, self.options.producer_history, entry.filter, scope)
            self._publishers[entry] = kept
        return proceed(scope, entry)

    def _on_ad_del(self, proceed: Callable[..., Any], scope: str, entry: Entry) -> Any:
        self.cache.release(self._publishers.pop(entry, None))
        return proceed(scope, entry)

    # --- neighbours -----------------------------------------------------------------------------------

    def on_message(self, link: Link, body: bytes) -> None:
        """A neighbour says something about the past."""
        if not link.is_broker:
            raise TidingsError("clients ask for the past with `past` in a subscription, not with messages of their own")
        message = self._read(body)
        if isinstance(message, Request):
            self.asked(link, message, {}, None)
        elif message is not None:
            self.heard(link, message)

    def on_attached(self, link: Link, data: bytes) -> None:
        """A neighbour asks with a subscription that it announces."""
        message = self._read(data)
        if isinstance(message, Request):
            self._arrived = arrived = (link, message)
            self.context.call_later(0, lambda: self._asked_again(arrived))

    def _asked_again(self, arrived: tuple[Link, Request]) -> None:
        """The subscription that it came with was known here already, so nothing was added by it."""
        if self._arrived is arrived:
            self._arrived = None
            self.asked(*arrived, {}, None)

    def _read(self, body: bytes) -> AnyRequestMessage | None:
        """A message of a neighbour; what cannot be read is counted, and stops nobody."""
        try:
            return decode(body)
        except TidingsError:
            self.context.refused()
            return None

    def send(self, link: Link, message: AnyRequestMessage) -> None:
        """Say something about the past to a neighbour."""
        self.context.send(link, encode(message))

    def targets(self, filter: Filter, source: Link | None, changes: Changes) -> list[Link]:
        """The neighbours that may know something: not who asks, and with advertisements those with publishers of it."""
        told = self.told(changes)
        table = self.context.scoping.root
        return [
            link
            for link in self.context.neighbours
            if link is not source
            and (self.force_forwards or link in told)
            and (not self.context.routing.advertisements or table.may_come(filter, link))
        ]

    @staticmethod
    def told(changes: Changes) -> set[Link]:
        """The neighbours to whom routing announces something now."""
        return {link for link, delta in changes.items() if link.is_broker and delta.announce}

    def ask(self, links: list[Link], request: Request, changes: Changes) -> None:
        """Ask neighbours: with the subscription where routing announces one now, by a message of its own elsewhere."""
        told = self.told(changes)
        for link in links:
            if link in told:
                self._bounded[link] = request
            else:
                self.send(link, request)

    # --- the life of a request of a client ------------------------------------------------------------

    def ask_again(self, access: Access) -> None:
        """After a new tree, everything is in place again: routing has announced what it had to."""
        access.id = self._next_id()
        forced, self.force_forwards = self.force_forwards, True
        self.opened(access, {})
        self.force_forwards = forced

    def closed(self, access: Access) -> None:
        """Answers to what it has asked so far are late from now on."""

    def finished(self, access: Access) -> None:
        """The subscription goes on; whom it has asked is remembered until it ends."""
        self.closed(access)
        self._opening.pop(access.registration, None)
        if access.asked:
            self._asked[access.registration] = (access.id, access.asked)

    def cancelled(self, access: Access) -> None:
        """The subscription has ended before its past was there."""
        self._cancelled += 1
        self.finished(access)

    def _release(self, registration: Registration) -> None:
        if (asked := self._asked.pop(registration, None)) is not None:
            self.release(*asked)

    def release(self, id: RequestId, links: list[Link]) -> None:
        """Tell those that were asked that they need not keep anything for it."""
        if self.keeps_for_requests:
            for link in links:
                self.send(link, Release(id))

    @property
    def keeps_for_requests(self) -> bool:
        """Whether neighbours may keep something for a request that no subscription keeps there: not under simple
        routing, where every broker hears of the end of every subscription by itself."""
        return self.context.routing.algorithm in ABOVE_SIMPLE

    def _on_tree(self, proceed: Callable[..., None], old: Tree, new: Tree) -> None:
        proceed(old, new)
        self._forget_neighbours()

    def neighbour_ready(self, link: Link) -> None:
        """It may have been ready before, and have forgotten everything."""
        for _, links in self._asked.values():
            if link in links:
                links.remove(link)
        self.interrupted(link)
        self.cache.interrupted(link)
        self._forget_the_gone()

    def _forget_neighbours(self) -> None:
        self._bounded.clear()
        self._asked.clear()
        self.interrupted(None)
        for link in dict.fromkeys(
            cell.link for entry in self.cache.entries for cell in entry.cells if cell.link.is_broker
        ):
            self.cache.interrupted(link)
        self._forget_the_gone()

    def _forget_the_gone(self) -> None:
        """What neighbours had subscribed to has gone without a word."""
        current = set(self.context.subscriptions)
        for entry in [entry for entry in self._remembered if entry not in current]:
            self.cache.release(self._remembered.pop(entry))
