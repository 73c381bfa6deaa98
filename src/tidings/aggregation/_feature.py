"""Aggregation as a feature of a broker: who asks, what is told, and what is woven for it.

Theory of operation
-------------------
Nothing is woven until this broker is asked for something, by a client or a neighbour. The first ask weaves; as soon as
the steps are advised, the tables are looked at, and from then on changes are counted. The last ask that ends unweaves.

    SUB_ADD, SUB_DEL, AD_ADD, AD_DEL   a client's registration comes or goes: the counts that it touches change
    AWAY, BACK                         a client's connection is lost, or is there again: so does what counts of it
    ADOPT                              registrations become another client's, which may be a copy
    (ceded, settled)                   a client that roams is another broker's; one is certainly this broker's
    PUBLISHED                          questions measure what clients of this broker publish
    DETACH                             the requests of the client end
    TREE                               what was said on links is void; all is incomplete until it is said anew
    GRAPH                              other brokers may carry a scope, and other members count in it

What happened between an ask and its weaving is made good then: a client may have left, the tree may have changed.

What a neighbour must be told rides on the next message to it, whatever that is, and goes by itself if there is none
within a few milliseconds. It is worked out when it leaves, so `sent` is what the neighbour gets, in the order of the
link. Clients are told in a turn of its own, so that many changes at once are one result; and later, if so much waits
for a client that it should wait.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from tidings.broker import Advice, Delta, Entry, Feature, Joinpoint, Link, Registration, Tree
from tidings.model import (
    EVERYTHING,
    ROOT_SCOPE,
    AggregateError,
    ArgumentRefused,
    BudgetExceeded,
    Filter,
    Matches,
    Notification,
    PartialRefused,
    ScopeError,
    TidingsError,
)
from tidings.wire import Envelope, encode_body

from ._catalogue import COUNTS, Count, count_named
from ._code import CodeMeasuring, Submit
from ._counting import Counting, Tally, is_copy
from ._deployments import Deployments
from ._engine import Engine, Request, State, Terms
from ._exporting import Exports
from ._forms import Ranges, Read
from ._key import key_of, subject_of
from ._measurements import QUESTION_VERSION, Measurements
from ._named import NamedRequest, NamedWatch, NamedWatches, deployed_subject, is_name, place_in
from ._options import AggregationOptions
from ._places import Places, Way
from ._riding import Counted, Riding, Traffic
from ._rights import Rights, named, withheld
from ._shares import Below, check_bound
from ._subject import Subject
from ._supplied import SUPPLIED
from ._surroundings import surroundings
from ._windows import is_measured, is_question, tells_of_people, where_of
from .definitions import pseudonym
from .deploying import EVERY, Manifest, Phase, Place, Registry, Tier
from .messages import (
    FEATURE,
    AnyMessage,
    Ask,
    Cancel,
    Declined,
    Look,
    Offered,
    Rebound,
    Result,
    Seen,
    Told,
    Travelled,
    Tune,
    Unwatch,
    Watch,
    Watched,
    decode,
    encode,
)
from .workers import Code

ROOM = 48_000
"""About how many bytes of updates ride on one message."""
TELL_AGAIN = 100_000
"""Microseconds after which a client is told for whom too much waited."""
MAX_ID = 256
"""The most characters of the id of a watch."""
MAX_WAITING = 1_000
"""The most asks of one neighbour that wait for something to be deployed."""
MAX_SHOWN = 1_000
"""The most subjects that a broker shows to whoever looks."""

_COUNTERS = ("updates_sent", "updates_riding", "updates_alone", "results", "withheld", "partials_refused")
_RANGES = Ranges()
_DEFAULT_OPTIONS = AggregationOptions()


class Hosting(Protocol):
    """Who knows where clients are: `tidings.mobility.Hosts`."""

    @property
    def unsettled(self) -> Mapping[str, Link]:
        """The clients here that another broker may host as well, by name."""
        ...

    settled: Callable[[Link], None]
    """Called when that is no longer so for one of them."""
    ceded: Callable[[Link], None]
    """Called when a client was given away to another broker, before that one is told so."""

    def has_left(self, link: Link, /) -> bool:
        """Whether that has happened."""
        ...


class Aggregation(Feature):
    """The aggregates of one broker."""

    name = FEATURE
    fail_stop = False

    def __init__(
        self,
        options: AggregationOptions = _DEFAULT_OPTIONS,
        deployments: Deployments | None = None,
        warn: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.options = options
        self._deployments = deployments
        registry = deployments.registry if deployments is not None else Registry(lambda given: None)
        self._registry = registry
        self.named = NamedWatches(registry, self, functools.partial(deployed_subject, registry))
        """What clients watch by the name of something deployed."""
        if deployments is not None:
            deployments.changed = self._deployed_changed
            deployments.watches = self.named.watching
        self.engine: Engine[Link] = Engine(self)
        self.counters: Counter[str] = Counter()
        """What has happened so far."""
        self.exports = Exports(options.export, options.export_keys, warn)
        """What metrics show."""
        self.counted = Counted()
        """What was told, by aggregate and neighbour."""
        self._requests: dict[Link, dict[str, Request[Link]]] = {}
        self._hosting: Hosting | None = None
        self._watching: Counter[str] = Counter()
        """How many requests the clients of each identity have."""
        self._thresholds: dict[Request[Link], int] = {}
        """Of requests from which small numbers are withheld, below which."""
        self._silent: dict[Request[Link], bool] = {}
        """Of requests that were told last that their number is withheld, whether that was complete."""
        self._tallies: dict[Subject, Tally] = {}
        self._untold: dict[Request[Link], None] = {}
        self._telling = False
        self._advised: set[Joinpoint] = set()
        """The steps that are advised, or will be between this turn and the next."""
        self._weaves = 0
        """How often something is about to be woven."""
        self._unbegun: dict[Subject, None] = {}
        """What is asked for, and waits for its steps to be advised."""
        self._waiting: dict[Link, dict[int, Ask]] = {}
        """What neighbours ask about that is not deployed here yet, by the numbers of their asks."""

    def start(self) -> None:
        """The broker is built."""
        context = self.context
        self._places = Places(context)
        self._rights = Rights(self.options, context.now)
        self._subscriptions = Counting(
            lambda: (one for client in context.clients for one in context.subscribed(client)),
            context.is_current,
            lambda action: context.call_later(0, action),
            lambda scope: self._places.of(scope).ways,
            self._counts,
            changed=self._counted,
        )
        self._advertisements = Counting(
            lambda: (one for client in context.clients for one in context.advertised(client)),
            context.is_current,
            lambda action: context.call_later(0, action),
            lambda scope: self._places.of(scope).ways,
            self._counts,
            changed=self._counted,
            offered=True,
        )
        self._measurements = Measurements(
            context.name,
            context.now,
            context.call_later,
            self.engine.changed,
            self._reweave,
            carries=lambda scope: bool(self._places.of(scope).ways),
            code=self._measure_code,
            pseudonym=functools.partial(pseudonym, self.options.network.encode()),
        )
        self._learn_tree()
        if self.exports:
            context.call_later(0, lambda: self.exports.open(context))

    def serve(self, hosting: Hosting) -> None:
        """From now on, know which clients may be at another broker as well: with them, a count is not complete."""
        self._hosting = hosting
        hosting.settled, hosting.ceded = self._on_settled, self._on_ceded

    # --- what the engine asks of its broker -------------------------------------------------------------

    def neighbours(self, subject: Subject) -> Sequence[Link]:
        """The neighbours that are to be asked and are ready."""
        return self._places.of(subject.scope).links

    def all_ready(self, subject: Subject) -> bool:
        """Whether these are all that must be asked."""
        return self._places.of(subject.scope).whole

    def below(self, link: Link) -> Below:
        """What lies behind a neighbour."""
        return self._surroundings[link.name]

    def terms(self, subject: Subject) -> Terms:
        """How a subject is treated."""
        if not is_measured(subject.aggregate):
            return Terms(_RANGES, self.options.share)
        form = self._measurements.form(subject, lambda: self._places.of(subject.scope).brokers)
        return Terms(form, self.options.share)

    def began(self, subject: Subject) -> None:
        """Somebody asks for a subject."""
        self._unbegun[subject] = None
        self._reweave()
        if not self._weaves:
            self._begin_all()

    def ended(self, subject: Subject) -> None:
        """Nobody asks for a subject any more."""
        self._unbegun.pop(subject, None)
        if is_measured(subject.aggregate):
            self._measurements.linger(subject)
        elif (tally := self._tallies.pop(subject, None)) is not None:
            self._counting(count_named(subject.aggregate)).unwatch(tally)
        self._reweave()

    def ask(self, link: Link, number: int, subject: Subject, bound: float) -> None:
        """Ask a neighbour."""
        aggregate, version, key, probe, scope, away = subject
        self._send(link, Ask(number, aggregate, version, key, probe, scope, bound, away))

    def rebound(self, link: Link, number: int, bound: float) -> None:
        """Change the bound of an ask."""
        self._send(link, Rebound(number, bound))

    def cancel(self, link: Link, number: int) -> None:
        """Ask no longer."""
        self._send(link, Cancel(number))

    def wake(self, link: Link) -> None:
        """There is something to tell a neighbour."""
        if not self.context.is_open(link):
            return  # the tree is changing in this turn: what was said on its links is about to be void
        riding = self.options.ride_on
        if riding is Riding.NOTHING:
            for update in self.engine.produce(link, ROOM):
                self.counters["updates_sent"] += 1
                self._send(link, Told([update]))
            return
        within = 0 if riding is Riding.REGISTRATIONS else round(self.options.ride_within * 1_000_000)
        self.context.ride(link, functools.partial(self._produce, link), within, riding.carries)

    def traffic(self, subject: Subject, link: Link) -> Traffic:
        """Where to count what is told of a subject on a link."""
        return self.counted.of(subject.aggregate, link.name)

    def tell(self, request: Request[Link]) -> None:
        """There is something to tell a client."""
        self._untold[request] = None
        self._tell_in(0)

    # --- weaving --------------------------------------------------------------------------------------

    def _wanted_steps(self) -> dict[Joinpoint, Advice]:
        """What must be advised for what is asked now."""
        steps: dict[Joinpoint, Advice] = {}
        if self.engine.states:
            steps |= {
                Joinpoint.DETACH: self._on_detach,
                Joinpoint.TREE: self._on_tree,
                Joinpoint.GRAPH: self._on_graph,
            }
        if any(not is_measured(subject.aggregate) for subject in self.engine.states):
            steps |= {
                Joinpoint.SUB_ADD: self._on_sub_add,
                Joinpoint.SUB_DEL: self._on_sub_del,
                Joinpoint.AD_ADD: self._on_ad_add,
                Joinpoint.AD_DEL: self._on_ad_del,
                Joinpoint.ADOPT: self._on_adopt,
                Joinpoint.AWAY: self._on_away,
                Joinpoint.BACK: self._on_back,
            }
        if self._measurements.scopes:
            steps[Joinpoint.PUBLISHED] = self._on_published
        if self._measurements.subscribing:
            steps[Joinpoint.SUBSCRIBE] = self._on_subscribe
        return steps

    def _reweave(self) -> None:
        """Advise what must be advised, and nothing else."""
        wanted = self._wanted_steps()
        if gone := [step for step in self._advised if step not in wanted]:
            self._advised.difference_update(gone)
            self.context.unweave(*gone)
        if new := {step: advice for step, advice in wanted.items() if step not in self._advised}:
            self._advised.update(new)
            self._weaves += 1
            self.context.weave(new, self._woven)

    def _woven(self) -> None:
        """Steps are advised: if they all are, make good what has happened since the first ask, and begin."""
        self._weaves -= 1
        if self._weaves:
            return
        self._look_around()
        for link in [link for link in self._requests if self.context.client(link.name) is not link]:
            self._end_requests(link)
        self._begin_all()

    def _begin_all(self) -> None:
        """Begin to count, or to measure, whatever is asked for and was not begun."""
        unbegun, self._unbegun = self._unbegun, {}
        for subject in unbegun:
            if subject not in self.engine.states:
                continue
            if is_measured(subject.aggregate):
                self._measurements.begin(subject)
            else:
                self._count(subject)

    def _count(self, subject: Subject) -> None:
        count = count_named(subject.aggregate)
        if count.brokers:
            self.engine.changed(subject, _RANGES.of(bool(self._places.of(subject.scope).ways)))
            return
        tally = self._tallies[subject] = Tally(key_of(subject), subject)
        self._counting(count).watch(tally)

    def _counted(self, tally: Tally) -> None:
        """Something is counted, or another number."""
        count = count_named(tally.subject.aggregate)
        self.engine.changed(tally.subject, _RANGES.of(count.of(tally)), whole=self._is_whole(tally))

    def _is_whole(self, tally: Tally) -> bool:
        """Whether no client is counted that another broker may count as well."""
        doubtful = self._hosting.unsettled if self._hosting is not None else {}
        return not doubtful or tally.clients.keys().isdisjoint(doubtful.values())

    def _counts(self, link: Link, away: bool) -> bool:
        """Whether a client counts, for somebody who wants those that are away or does not."""
        if is_copy(link) or (self._hosting is not None and self._hosting.has_left(link)):
            return False
        return away or not self.context.is_away(link)

    def _on_ceded(self, link: Link) -> None:
        """A client is another broker's. What changes by that is told on the way there before the answer is, so whoever
        hears that it counts there has heard that it no longer counts here."""
        for counting, registrations in self._registered(link):
            for _, entry in _entries(registrations):
                counting.removed(entry)

    def _on_settled(self, link: Link) -> None:
        """A client is here, and nowhere else."""
        for counting, registrations in self._registered(link):
            for _, entry in _entries(registrations):
                counting.again(entry)

    def _counting(self, count: Count) -> Counting:
        return self._advertisements if count.advertisements else self._subscriptions

    def _on_sub_add(self, proceed: Callable[..., Any], scope: str, entry: Entry) -> dict[Link, Delta]:
        changes: dict[Link, Delta] = proceed(scope, entry)
        self._subscriptions.added(scope, entry)
        return changes

    def _on_sub_del(self, proceed: Callable[..., Any], scope: str, entry: Entry) -> dict[Link, Delta]:
        changes: dict[Link, Delta] = proceed(scope, entry)
        self._subscriptions.removed(entry)
        return changes

    def _on_ad_add(self, proceed: Callable[..., Any], scope: str, entry: Entry) -> dict[Link, Delta]:
        changes: dict[Link, Delta] = proceed(scope, entry)
        self._advertisements.added(scope, entry)
        return changes

    def _on_ad_del(self, proceed: Callable[..., Any], scope: str, entry: Entry) -> dict[Link, Delta]:
        changes: dict[Link, Delta] = proceed(scope, entry)
        self._advertisements.removed(entry)
        return changes

    def _on_published(self, envelope: Envelope, link: Link) -> None:
        scoping, at = self.context.scoping, envelope.identity.published_at
        if scoping.flat:
            self._measurements.published(ROOT_SCOPE, envelope.notification, at, link.principal)
            return
        for scope in self._measurements.scopes:
            for seen in self._seen_in(scope, envelope.notification, link):
                self._measurements.published(scope, seen, at, link.principal)

    def _on_subscribe(self, proceed: Callable[..., None], registration: Registration) -> None:
        proceed(registration)
        link = registration.link
        if not self._counts(link, True):
            return
        memberships = self.context.scoping.newest.memberships(link.principal)
        for subject in self._measurements.subscribing:
            wanted = [
                _through(registration.filter, (own, *way))
                for member, own in memberships.items()
                for way in self._places.of(subject.scope).ways.get(member, ())
            ]
            if (first := next(iter(wanted), None)) is not None:
                rest = [one for one in wanted[1:] if one != first]
                self._measurements.begun(subject, EVERYTHING if rest else first)

    def _seen_in(self, scope: str, notification: Notification, link: Link) -> Iterator[Notification]:
        """Each form in which something is visible in a scope that a client publishes."""
        paths = self._places.of(scope).paths
        forms: dict[bytes, None] = {}
        for member, own in self.context.scoping.active.memberships(link.principal).items():
            for path in paths.get(member, ()):
                seen: Notification | None = notification
                for passage in (own, *path):
                    seen = None if seen is None else passage.outward(seen)
                if seen is not None and (form := encode_body(seen)) not in forms:
                    forms[form] = None
                    yield seen

    def _on_away(self, proceed: Callable[..., None], link: Link) -> None:
        proceed(link)
        for counting, registrations in self._registered(link):
            for _, entry in _entries(registrations):
                counting.left(entry)

    def _on_back(self, proceed: Callable[..., None], link: Link) -> None:
        proceed(link)
        for counting, registrations in self._registered(link):
            for scope, entry in _entries(registrations):
                counting.added(scope, entry)

    def _registered(self, link: Link) -> list[tuple[Counting, Collection[Registration]]]:
        return [
            (self._subscriptions, self.context.subscribed(link)),
            (self._advertisements, self.context.advertised(link)),
        ]

    def _on_adopt(
        self, proceed: Callable[..., None], old: Link, new: Link, only: frozenset[Registration] | None
    ) -> None:
        moving = [
            (counting, list(_entries(one for one in registrations if only is None or one in only)))
            for counting, registrations in self._registered(old)
        ]
        for counting, entries in moving:
            for _, entry in entries:
                counting.removed(entry)
        proceed(old, new, only)
        for counting, entries in moving:
            for scope, entry in entries:
                counting.added(scope, entry)

    def _on_detach(self, proceed: Callable[..., None], link: Link) -> None:
        proceed(link)
        self._end_requests(link)

    def _on_tree(self, proceed: Callable[..., None], old: Tree, new: Tree) -> None:
        proceed(old, new)
        self._look_around()

    def _on_graph(self, proceed: Callable[..., None], old: int, new: int) -> None:
        proceed(old, new)
        self._look_around()

    # --- the tree and the scope graph -----------------------------------------------------------------

    def _learn_tree(self) -> None:
        tree = self.context.tree
        self._tree_epoch = tree.epoch
        self._surroundings = surroundings(self.context.name, tree)
        self._view = self.context.scoping.newest
        self._places.forget()

    def _look_around(self) -> None:
        """If the tree is another one than before, everything that was said on links is void; if the scope graph is,
        others may have to be asked."""
        if self.context.tree.epoch != self._tree_epoch:
            self._learn_tree()
            self.engine.forget(self.engine.spoken)
            self._waiting.clear()
        elif self.context.scoping.newest is not self._view:
            self._view = self.context.scoping.newest
            if not self._places.refresh():
                self._end_lost()
                return
        else:
            return
        self._subscriptions.regraph()
        self._advertisements.regraph()
        for subject in [subject for subject in self.engine.states if subject not in self._unbegun]:
            if not is_measured(subject.aggregate) and count_named(subject.aggregate).brokers:
                self._count(subject)
        self.engine.links_changed()
        self._end_lost()

    def _end_lost(self) -> None:
        """End the requests for scopes that are no more, or in which nothing can be measured any more."""
        if not self._places.lacking:
            return
        for link, requests in list(self._requests.items()):
            for id, request in list(requests.items()):
                try:
                    self._check_scope(request.state.subject)
                except TidingsError as error:
                    self._unwatch(link, id)
                    self._send(link, Declined(id, type(error).__name__, str(error)))

    def neighbour_ready(self, link: Link) -> None:
        """A neighbour is ready, and knows nothing of what it may have said or heard before."""
        self._look_around()
        self._places.forget()
        self.engine.forget([link])
        self._waiting.pop(link, None)
        self.engine.links_changed()

    # --- neighbours -----------------------------------------------------------------------------------

    def on_message(self, link: Link, body: bytes) -> None:
        """A neighbour or a client says something."""
        if link.is_client:
            self._from_client(link, body)
        else:
            self._from_neighbour(link, body)

    def on_attached(self, link: Link, data: bytes) -> None:
        """A neighbour says something along with another message."""
        self._from_neighbour(link, data, came="riding")

    def _from_neighbour(self, link: Link, body: bytes, came: str = "alone") -> None:
        self._look_around()
        try:
            message = decode(body)
            match message:
                case Ask():
                    self._asked(link, message)
                case Rebound(number, bound) if number in self._waiting.get(link, ()):
                    ask = self._waiting[link][number]
                    self._waiting[link][number] = msgspec.structs.replace(ask, bound=check_bound(bound))
                case Cancel(number) if number in self._waiting.get(link, ()):
                    del self._waiting[link][number]
                case Rebound(number, bound):
                    self.engine.rebound(link, number, check_bound(bound))
                case Cancel(number):
                    self.engine.cancelled(link, number)
                case Told(updates):
                    self.counters[f"updates_{came}"] += len(updates)
                    for update in updates:
                        self._told(link, update, riding=came == "riding")
                case _:
                    self.context.refused()
        except TidingsError:  # it is not of this version, or made up: nothing has changed, and this is incomplete there
            self.context.refused()

    def _told(self, link: Link, update: Any, *, riding: bool) -> None:
        try:
            self.engine.told(link, update, riding=riding)
        except PartialRefused:
            self.counters["partials_refused"] += 1
            self.context.refused()

    def _asked(self, link: Link, ask: Ask) -> None:
        if is_name(ask.aggregate):
            self._asked_for_code(link, ask)
            return
        subject = subject_of(ask.aggregate, ask.version, ask.key, ask.probe, ask.scope, away=ask.away)
        self._check(subject)
        self.engine.asked(link, ask.number, subject, check_bound(ask.bound))

    def _asked_for_code(self, link: Link, ask: Ask) -> None:
        """A neighbour asks for something deployed. What is not known here yet waits until it is."""
        subject = Subject(ask.aggregate, ask.version, "", b"", ask.scope)
        place = place_in(subject)
        if place not in self._registry:
            waiting = self._waiting.setdefault(link, {})
            if len(waiting) >= MAX_WAITING:
                raise BudgetExceeded(f"{MAX_WAITING} asks for what is not deployed here wait already")
            waiting[ask.number] = ask
        elif not self._is_outdated(place):
            self._check(subject)
            self.engine.asked(link, ask.number, subject, check_bound(ask.bound))

    def _is_outdated(self, place: Place) -> bool:
        """Whether nobody is to be told of a version any more: it has ended, or two newer ones run."""
        if self._registry.is_over(place):
            return True
        running = self._registry.judge(place).phase is Phase.INSTALLED
        return running and not self._registry.runs(place)

    def _manifest(self, subject: Subject) -> Manifest:
        """The manifest of code that may be asked for, or `AggregateError`."""
        place = place_in(subject)
        statement = self._registry.statement(place) if place in self._registry else None
        if statement is None or deployed_subject(self._registry, place, subject.scope) != subject:
            raise AggregateError(f"{place} is not deployed at broker '{self.context.name}' with this digest")
        return statement.manifest

    def _measure_code(self, subject: Subject, changed: Callable[[], None]) -> CodeMeasuring:
        """What measures a subject that is code."""
        place, manifest = place_in(subject), self._manifest(subject)
        statement = self._registry.statement(place)
        workers = self._deployments.workers if self._deployments is not None else None
        submit: Submit | None = None
        if statement is not None and workers is not None and self._registry.judge(place).phase is Phase.INSTALLED:
            submit = functools.partial(workers.submit, place, Code(statement.source, manifest.entry))
        context = self.context
        now = context.now() // 1_000
        return CodeMeasuring(manifest, context.name, now, submit=submit, call_later=context.call_later, changed=changed)

    def _deployed_changed(self, name: str) -> None:
        """What is deployed under a name may run no longer, or only now."""
        concerned = [one for one in self.engine.states if is_name(one.aggregate) and name in (EVERY, one.aggregate)]
        for subject in concerned:
            if self._registry.judge(place_in(subject)).phase is not Phase.INSTALLED:
                self._measurements.stop(subject)
            if self._is_outdated(place_in(subject)):
                self.engine.let_go(subject)
        self.named.changed(name)
        for link, asks in list(self._waiting.items()):
            for number, ask in list(asks.items()):
                if place_in(Subject(ask.aggregate, ask.version, "")) in self._registry:
                    del asks[number]
                    try:
                        self._asked_for_code(link, ask)
                    except TidingsError:
                        self.context.refused()
            if not asks:
                del self._waiting[link]

    def _check(self, subject: Subject) -> None:
        """Raise `TidingsError` for a subject that this broker cannot answer for."""
        advertised = self.context.routing.advertisements
        if is_question(subject.aggregate):
            if subject.version != QUESTION_VERSION:
                raise AggregateError(f"questions have version {QUESTION_VERSION} here, not {subject.version:.40}")
        elif is_name(subject.aggregate):
            self._manifest(subject)
        elif (count := count_named(subject.aggregate, subject.version)).brokers:
            if subject.probe or subject.key != str(EVERYTHING) or subject.away:
                raise AggregateError(f"{count.name} counts brokers, not clients; leave filter, probe and away out")
        elif count.advertisements and not advertised:
            raise AggregateError(
                f"{count.name} counts what clients advertise, and this network uses no advertisements; switch them on "
                "in [routing]"
            )
        if subject not in self.engine.states and len(self.engine.states) >= self.options.max_keys:
            raise BudgetExceeded(
                f"{self.options.max_keys:,} keys are watched at broker '{self.context.name}' already; "
                "try again later, or raise max_keys in [aggregation]"
            )

    def _check_scope(self, subject: Subject) -> None:
        """Raise `TidingsError` for a scope of which clients of this broker cannot be told anything."""
        scoping, scope = self.context.scoping, subject.scope
        if not scoping.ready and not scoping.newest.version:
            return  # the graph is still to come
        place = self._places.of(scope)
        if not place.known:
            raise ScopeError(f"there is no scope '{scope:.80}' to count in; `tidings scope tree` shows which there are")
        if place.detour and is_measured(subject.aggregate):
            raise ScopeError(
                f"what is published in scope '{place.detour}' comes to {named(scope)} over a gateway, where nothing is "
                f"measured; ask about '{place.detour}' itself"
            )

    def _produce(self, link: Link) -> bytes | None:
        """What a neighbour must be told, as a message to it leaves."""
        updates = self.engine.produce(link, ROOM)
        if self.engine.has_more(link):
            self.wake(link)
        self.counters["updates_sent"] += len(updates)
        return encode(Told(updates)) if updates else None

    def _send(self, link: Link, message: AnyMessage) -> None:
        self.context.send(link, encode(message))

    # --- clients --------------------------------------------------------------------------------------

    def _from_client(self, link: Link, body: bytes) -> None:
        self._look_around()
        message = decode(body)
        try:
            match message:
                case Watch():
                    self._watch(link, message)
                case Tune(id, bound):
                    if (request := self._requests.get(link, {}).get(id)) is not None:
                        self.engine.tune(request, check_bound(bound))
                case Unwatch(id):
                    self._unwatch(link, id)
                case Look(id):
                    self._rights.may_look(link)
                    self._send(link, self.look(id))
                case _:
                    raise TidingsError(f"a client may not send {type(message).__name__}")
        except TidingsError as error:
            self.context.refused()
            self._send(link, Declined(getattr(message, "id", ""), type(error).__name__, str(error)))

    def _watch(self, link: Link, watch: Watch) -> None:
        bound = check_bound(watch.max_error)
        if len(watch.id) > MAX_ID:
            raise ArgumentRefused(f"an id of {len(watch.id):,} characters; at most {MAX_ID} are allowed")
        if is_name(watch.aggregate):
            self._watch_named(link, watch)
            return
        if is_question(watch.aggregate):
            version = QUESTION_VERSION
            if bound:
                raise AggregateError(f"max_error={bound:g}: what a question measures is exact; leave max_error out")
        else:
            version = count_named(watch.aggregate).version
        subject = subject_of(watch.aggregate, version, watch.key, watch.probe, watch.scope, away=watch.away)
        threshold = self._check_watch(link, watch, subject)
        request: Request[Link] = Request(link, watch.id, bound)
        self._watches(link, request)
        if threshold:
            self._thresholds[request] = threshold
        self.engine.register(subject, request)

    def _watches(self, link: Link, request: Request[Link]) -> None:
        """A client has one more watch."""
        self._requests.setdefault(link, {})[request.id] = request
        self._watching[link.owner] += 1

    def _check_watch(self, link: Link, watch: Watch, subject: Subject) -> int:
        """Below which numbers are withheld; `TidingsError` unless the client may have one more watch, of this."""
        threshold = self._may_ask(link, subject)
        own = self._requests.get(link, {})
        if watch.id in own:
            raise AggregateError(f"there is a watch '{watch.id}' already; choose another id")
        if self._watching[link.owner] >= self.options.max_watches:
            raise BudgetExceeded(
                f"the clients of '{link.owner}' may watch at most {self.options.max_watches:,} values at a time; end "
                "some, or raise max_watches in [aggregation]"
            )
        self._check_scope(subject)
        self._check(subject)
        self._rights.take(link)
        return threshold

    def _watch_named(self, link: Link, watch: Watch) -> None:
        """A client watches something deployed, by its name."""
        if watch.key or watch.probe or watch.max_error or watch.away:
            raise AggregateError(
                f"{watch.aggregate} measures what its definition says, exactly; leave filter, probe, away and "
                "max_error out"
            )
        place = self.named.newest(watch.aggregate)
        self._check_watch(link, watch, deployed_subject(self._registry, place, watch.scope))
        self._watches(link, self.named.watch(link, watch.id, watch.aggregate, watch.scope))

    # --- what watches by name ask of their broker -----------------------------------------------------

    def register(self, subject: Subject, request: NamedRequest) -> None:
        """Ask for a subject, or raise `TidingsError` if the client may not: a new version may measure more."""
        self._may_ask(request.link, subject)
        self.engine.register(subject, request)

    def release(self, request: NamedRequest) -> None:
        """Ask no longer."""
        self._untold.pop(request, None)
        self.engine.cancel(request)

    def serves(self, request: NamedRequest) -> None:
        """From now on this request serves its watch."""
        self._requests[request.link][request.id] = request

    def finished(self, watch: NamedWatch, reason: str) -> None:
        """No version serves a watch any more."""
        self._forget_watch(watch.link, watch.id)
        self._send(watch.link, Declined(watch.id, "AggregateError", reason))

    def _may_ask(self, link: Link, subject: Subject) -> int:
        """Below which numbers are withheld from a client; `AccessDenied` if it may not ask at all."""
        view = self.context.scoping.newest
        if is_name(subject.aggregate):
            where = Filter.parse(self._manifest(subject).where or "TRUE")
            self._rights.may_measure(link, subject.scope, where, view)
            return 0
        if not is_question(subject.aggregate):
            return self._rights.threshold(link, subject.scope, view)
        if tells_of_people(subject.aggregate):
            self._rights.may_administer(link, subject.scope, view)
        else:
            self._rights.may_measure(link, subject.scope, where_of(subject.aggregate), view)
        return 0

    def _unwatch(self, link: Link, id: str) -> None:
        request = self._requests.get(link, {}).get(id)
        if request is None:
            return
        self._forget_watch(link, id)
        for kept in (self._untold, self._thresholds, self._silent):
            kept.pop(request, None)
        if isinstance(request, NamedRequest):
            self.named.unwatch(request.watch)
        else:
            self.engine.cancel(request)

    def _forget_watch(self, link: Link, id: str) -> None:
        own = self._requests[link]
        del own[id]
        if not own:
            del self._requests[link]
        self._watching[link.owner] -= 1
        if not self._watching[link.owner]:
            del self._watching[link.owner]

    def _end_requests(self, link: Link) -> None:
        for id in list(self._requests.get(link, ())):
            self._unwatch(link, id)

    def _tell_in(self, delay: int) -> None:
        if not self._telling:
            self._telling = True
            self.context.call_later(delay, self._tell_all)

    def _tell_all(self) -> None:
        self._telling = False
        untold, self._untold = self._untold, {}
        for request in untold:
            if self.context.crowded(request.link):
                self._untold[request] = None
            elif (found := self.engine.result(request)) is not None:
                self._tell(request, *found)
        if self._untold:
            self._tell_in(TELL_AGAIN)

    def _tell(self, request: Request[Link], read: Read, complete: bool) -> None:
        """Tell a client a value; or that there is one that is too small, and not how it changes."""
        value, error, _, window = read
        version, now = request.state.subject.version, self.context.now()
        if isinstance(request, NamedRequest):
            version = request.place.version
            if not self.named.told(request, complete):
                return
        threshold = self._thresholds.get(request, 0)
        if threshold and withheld(value - error, value + error, threshold):
            self.counters["withheld"] += 1
            if self._silent.get(request) is not complete:
                self._silent[request] = complete
                self._send(request.link, Result(request.id, None, 0, complete, version, now, window, withheld=True))
            return
        self._silent.pop(request, None)
        self.counters["results"] += 1
        self._send(request.link, Result(request.id, value, error, complete, version, now, window))

    # --- looking --------------------------------------------------------------------------------------

    @property
    def statistics(self) -> dict[str, int]:
        """What there is, and what has happened so far."""
        return {
            "keys": len(self.engine.states),
            "watches": sum(map(len, self._requests.values())),
            "woven": len(self._advised),
            "late_notifications": self._measurements.late,
            "suppressed": self.engine.suppressed,
            "late": self.engine.late,
            **{name: self.counters[name] for name in _COUNTERS},
        }

    def kept(self) -> list[str]:
        """What is kept, by name: nothing, once nobody asks for anything."""
        held = {
            "subjects": not self.engine.is_empty,
            "requests": bool(
                self._requests or self._watching or self._untold or self._thresholds or self._silent or len(self.named)
            ),
            "tallies": bool(self._tallies or len(self._subscriptions) or len(self._advertisements)),
            "measurements": bool(self._measurements),
            "advice": bool(self._advised or self._unbegun or any(self._waiting.values())),
        }
        return [what for what, there in held.items() if there]

    def look(self, id: str = "") -> Seen:
        """What is watched here, and what was told about it."""
        offered = [Offered(one.name, one.version, one.about) for one in COUNTS.values()]
        offered += [Offered(one.name, QUESTION_VERSION, one.about) for one in SUPPLIED.values()]
        offered += self._deployed()
        states = list(self.engine.states.values())
        shown = [self._shown(state) for state in states[:MAX_SHOWN]]
        traffic = [
            Travelled(aggregate, neighbour, one.sent, one.suppressed, one.ridden, one.alone)
            for aggregate, neighbour, one in self.counted.rows()
        ]
        return Seen(id, self.context.name, offered, shown, len(states) - len(shown), self.statistics, traffic)

    def _deployed(self) -> Iterator[Offered]:
        for name in sorted({place.name for place in self._registry.places}):
            for place in self._registry.versions(name)[:1]:
                statement = self._registry.statement(place)
                assert statement is not None
                about = statement.source if statement.manifest.tier is Tier.EXPRESSION else "Python"
                yield Offered(*place, f"{about:.200}, deployed by {statement.signer}")

    def _shown(self, state: State[Link]) -> Watched:
        subject = state.subject
        value, error, whole, _ = state.form.read(state.form.shown(None, state.total(), 0), state.root_bound)
        bound = state.root_bound if state.requests else None
        asking = sum(side.want is not None for side in state.sides.values())
        return Watched(
            subject.aggregate,
            subject.version,
            subject.key,
            subject.scope,
            len(state.requests),
            bound,
            asking,
            value,
            error,
            whole and self.engine.is_complete(state),
            subject.away,
        )


def _through(filter: Matches, way: Way) -> Matches:
    """What is wanted at the end of a way by whoever wants this at its start."""
    for passage in way:
        filter = passage.wanted(filter)
    return filter


def _entries(registrations: Iterable[Registration]) -> Iterator[tuple[str, Entry]]:
    for registration in registrations:
        yield from registration.entries.items()
