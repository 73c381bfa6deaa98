"""Aggregation as a feature of a broker: who asks, what is told, and what is woven for it.

Theory of operation
-------------------
Nothing is woven until this broker is asked for something, by a client or a neighbour. The first ask weaves; as soon as
the steps are advised, the tables are looked at, and from then on changes are counted. The last ask that ends unweaves.

    SUB_ADD, SUB_DEL, AD_ADD, AD_DEL   a client's registration comes or goes: the counts that it touches change
    ADOPT                              registrations become another client's, which may be a copy
    PUBLISHED                          questions measure what clients of this broker publish
    DETACH                             the requests of the client end
    TREE                               what was said on links is void; all is incomplete until it is said anew

What happened between an ask and its weaving is made good then: a client may have left, the tree may have changed.

What a neighbour must be told rides on the next message to it, whatever that is, and goes by itself if there is none
within a few milliseconds. It is worked out when it leaves, so `sent` is what the neighbour gets, in the order of the
link. Clients are told in a turn of its own, so that many changes at once are one result; and later, if so much waits
for a client that it should wait.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from tidings.broker import Advice, Delta, Entry, Feature, Joinpoint, Link, Registration, Tree
from tidings.model import (
    ROOT_SCOPE,
    AccessDenied,
    AggregateError,
    ArgumentRefused,
    BudgetExceeded,
    PartialRefused,
    TidingsError,
)
from tidings.wire import Envelope

from ._catalogue import COUNTS, Count, count_named
from ._counting import Counting, Tally
from ._engine import Engine, Request, State, Terms
from ._forms import Ranges
from ._key import key_of, subject_of
from ._measurements import QUESTION_VERSION, Measurements
from ._options import AggregationOptions
from ._shares import Below, check_bound
from ._subject import Subject
from ._surroundings import surroundings
from ._windows import is_question
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
    Tune,
    Unwatch,
    Watch,
    Watched,
    decode,
    encode,
)

ROOM = 48_000
"""About how many bytes of updates ride on one message."""
TELL_AGAIN = 100_000
"""Microseconds after which a client is told for whom too much waited."""
MAX_ID = 256
"""The most characters of the id of a watch."""
MAX_SHOWN = 1_000
"""The most subjects that a broker shows to whoever looks."""

_COUNTERS = ("updates_sent", "updates_riding", "updates_alone", "results", "partials_refused")
_RANGES = Ranges()
_DEFAULT_OPTIONS = AggregationOptions()


class Aggregation(Feature):
    """The aggregates of one broker."""

    name = FEATURE
    fail_stop = False

    def __init__(self, options: AggregationOptions = _DEFAULT_OPTIONS) -> None:
        self.options = options
        self.engine: Engine[Link] = Engine(self)
        self.counters: Counter[str] = Counter()
        """What has happened so far."""
        self._requests: dict[Link, dict[str, Request[Link]]] = {}
        self._tallies: dict[Subject, Tally] = {}
        self._untold: dict[Request[Link], None] = {}
        self._telling = False
        self._advised: set[Joinpoint] = set()
        """The steps that are advised, or will be between this turn and the next."""
        self._weaves = 0
        """How often something is about to be woven."""
        self._unbegun: dict[Subject, None] = {}
        """What is asked for, and waits for its steps to be advised."""

    def start(self) -> None:
        """The broker is built."""
        context = self.context
        self._subscriptions = Counting(
            lambda: (one for client in context.clients for one in context.subscribed(client)),
            context.is_current,
            lambda action: context.call_later(0, action),
        )
        self._advertisements = Counting(
            lambda: (one for client in context.clients for one in context.advertised(client)),
            context.is_current,
            lambda action: context.call_later(0, action),
        )
        self._measurements = Measurements(
            context.name, context.now, context.call_later, self.engine.changed, self._reweave
        )
        self._learn_tree()

    # --- what the engine asks of its broker -------------------------------------------------------------

    @property
    def neighbours(self) -> Sequence[Link]:
        """The tree neighbours that are ready."""
        return self._links

    @property
    def all_ready(self) -> bool:
        """Whether all tree neighbours are ready."""
        return len(self._links) == len(self.context.tree.neighbours)

    def below(self, link: Link) -> Below:
        """What lies behind a neighbour."""
        return self._surroundings[link.name]

    def terms(self, subject: Subject) -> Terms:
        """How a subject is treated."""
        if not is_question(subject.aggregate):
            return Terms(_RANGES, self.options.share)
        return Terms(self._measurements.form(subject, lambda: len(self.context.tree.parents)), self.options.share)

    def began(self, subject: Subject) -> None:
        """Somebody asks for a subject."""
        self._unbegun[subject] = None
        self._reweave()
        if not self._weaves:
            self._begin_all()

    def ended(self, subject: Subject) -> None:
        """Nobody asks for a subject any more."""
        self._unbegun.pop(subject, None)
        if is_question(subject.aggregate):
            self._measurements.linger(subject)
        elif (tally := self._tallies.pop(subject, None)) is not None:
            self._counting(count_named(subject.aggregate)).unwatch(tally)
        self._reweave()

    def ask(self, link: Link, number: int, subject: Subject, bound: float) -> None:
        """Ask a neighbour."""
        aggregate, version, key, probe, scope = subject
        self._send(link, Ask(number, aggregate, version, key, probe, scope, bound))

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
        self.context.ride(link, functools.partial(self._produce, link), round(self.options.ride_within * 1_000_000))

    def tell(self, request: Request[Link]) -> None:
        """There is something to tell a client."""
        self._untold[request] = None
        self._tell_in(0)

    # --- weaving --------------------------------------------------------------------------------------

    def _wanted_steps(self) -> dict[Joinpoint, Advice]:
        """What must be advised for what is asked now."""
        steps: dict[Joinpoint, Advice] = {}
        if self.engine.states:
            steps |= {Joinpoint.DETACH: self._on_detach, Joinpoint.TREE: self._on_tree}
        if any(not is_question(subject.aggregate) for subject in self.engine.states):
            steps |= {
                Joinpoint.SUB_ADD: self._on_sub_add,
                Joinpoint.SUB_DEL: self._on_sub_del,
                Joinpoint.AD_ADD: self._on_ad_add,
                Joinpoint.AD_DEL: self._on_ad_del,
                Joinpoint.ADOPT: self._on_adopt,
            }
        if self._measurements:
            steps[Joinpoint.PUBLISHED] = self._on_published
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
        self._look_at_tree()
        for link in [link for link in self._requests if self.context.client(link.name) is not link]:
            self._end_requests(link)
        self._begin_all()

    def _begin_all(self) -> None:
        """Begin to count, or to measure, whatever is asked for and was not begun."""
        unbegun, self._unbegun = self._unbegun, {}
        for subject in unbegun:
            if subject not in self.engine.states:
                continue
            if is_question(subject.aggregate):
                self._measurements.begin(subject)
            else:
                self._count(subject)

    def _count(self, subject: Subject) -> None:
        count = count_named(subject.aggregate)
        tally = self._tallies[subject] = Tally(
            key_of(subject), subject.scope, lambda tally: self.engine.changed(subject, _RANGES.of(count.of(tally)))
        )
        self._counting(count).watch(tally)

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
        scoping = self.context.scoping
        if scoping.flat or ROOT_SCOPE in scoping.memberships(link.principal):
            self._measurements.published(envelope)

    def _on_adopt(
        self, proceed: Callable[..., None], old: Link, new: Link, only: frozenset[Registration] | None
    ) -> None:
        def chosen(registrations: Iterable[Registration]) -> list[tuple[str, Entry]]:
            return list(_entries(one for one in registrations if only is None or one in only))

        moving = [
            (self._subscriptions, chosen(self.context.subscribed(old))),
            (self._advertisements, chosen(self.context.advertised(old))),
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
        self._look_at_tree()

    # --- the tree -------------------------------------------------------------------------------------

    def _learn_tree(self) -> None:
        tree = self.context.tree
        self._tree_epoch = tree.epoch
        self._surroundings = surroundings(self.context.name, tree)
        self._links = self.context.neighbours

    def _look_at_tree(self) -> None:
        """If the tree is another one than before, everything that was said on links is void."""
        if self.context.tree.epoch != self._tree_epoch:
            self._learn_tree()
            self.engine.forget(self.engine.spoken)
            self.engine.links_changed()

    def neighbour_ready(self, link: Link) -> None:
        """A neighbour is ready, and knows nothing of what it may have said or heard before."""
        self._look_at_tree()
        self._links = self.context.neighbours
        self.engine.forget([link])
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
        self._look_at_tree()
        try:
            message = decode(body)
            match message:
                case Ask():
                    self._asked(link, message)
                case Rebound(number, bound):
                    self.engine.rebound(link, number, check_bound(bound))
                case Cancel(number):
                    self.engine.cancelled(link, number)
                case Told(updates):
                    self.counters[f"updates_{came}"] += len(updates)
                    for update in updates:
                        self._told(link, update)
                case _:
                    self.context.refused()
        except TidingsError:  # it is not of this version, or made up: nothing has changed, and this is incomplete there
            self.context.refused()

    def _told(self, link: Link, update: Any) -> None:
        try:
            self.engine.told(link, update)
        except PartialRefused:
            self.counters["partials_refused"] += 1
            self.context.refused()

    def _asked(self, link: Link, ask: Ask) -> None:
        subject = subject_of(ask.aggregate, ask.version, ask.key, ask.probe, ask.scope)
        self._check(subject)
        self.engine.asked(link, ask.number, subject, check_bound(ask.bound))

    def _check(self, subject: Subject) -> None:
        """Raise `TidingsError` for a subject that this broker cannot answer for."""
        advertised = self.context.routing.advertisements
        if is_question(subject.aggregate):
            if subject.version != QUESTION_VERSION:
                raise AggregateError(f"questions have version {QUESTION_VERSION} here, not {subject.version:.40}")
        elif (count := count_named(subject.aggregate, subject.version)).advertisements and not advertised:
            raise AggregateError(
                f"{count.name} counts what clients advertise, and this network uses no advertisements; switch them on "
                "in [routing]"
            )
        if subject not in self.engine.states and len(self.engine.states) >= self.options.max_keys:
            raise BudgetExceeded(
                f"{self.options.max_keys:,} keys are watched at broker '{self.context.name}' already; "
                "try again later, or raise max_keys in [aggregation]"
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
        self._look_at_tree()
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
                    self._may_look(link)
                    self._send(link, self._seen(id))
                case _:
                    raise TidingsError(f"a client may not send {type(message).__name__}")
        except TidingsError as error:
            self.context.refused()
            self._send(link, Declined(getattr(message, "id", ""), type(error).__name__, str(error)))

    def _watch(self, link: Link, watch: Watch) -> None:
        bound = check_bound(watch.max_error)
        if len(watch.id) > MAX_ID:
            raise ArgumentRefused(f"an id of {len(watch.id):,} characters; at most {MAX_ID} are allowed")
        if is_question(watch.aggregate):
            version = QUESTION_VERSION
            if bound:
                raise AggregateError(f"max_error={bound:g}: what a question measures is exact; leave max_error out")
        else:
            version = count_named(watch.aggregate).version
        subject = subject_of(watch.aggregate, version, watch.key, watch.probe, watch.scope)
        self._may_look(link)
        own = self._requests.get(link, {})
        if watch.id in own:
            raise AggregateError(f"there is a watch '{watch.id}' already; choose another id")
        if len(own) >= self.options.max_watches:
            raise BudgetExceeded(
                f"a client may watch at most {self.options.max_watches:,} values at a time; end some, or raise "
                "max_watches in [aggregation]"
            )
        self._check(subject)
        request: Request[Link] = Request(link, watch.id, bound)
        self._requests.setdefault(link, {})[watch.id] = request
        self.engine.register(subject, request)

    def _may_look(self, link: Link) -> None:
        if link.guard is not None and not link.guard.administer:
            raise AccessDenied(
                f"'{link.guard.name}' may not count: counts tell about other clients; ask the administrator for "
                "`administer` for this identity"
            )

    def _unwatch(self, link: Link, id: str) -> None:
        own = self._requests.get(link, {})
        if (request := own.pop(id, None)) is not None:
            if not own:
                del self._requests[link]
            self._untold.pop(request, None)
            self.engine.cancel(request)

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
                (value, error, _, window), complete = found
                self.counters["results"] += 1
                version, now = request.state.subject.version, self.context.now()
                self._send(request.link, Result(request.id, value, error, complete, version, now, window))
        if self._untold:
            self._tell_in(TELL_AGAIN)

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
            "requests": bool(self._requests or self._untold),
            "tallies": bool(self._tallies or len(self._subscriptions) or len(self._advertisements)),
            "measurements": bool(self._measurements),
            "advice": bool(self._advised or self._unbegun),
        }
        return [what for what, there in held.items() if there]

    def _seen(self, id: str) -> Seen:
        offered = [Offered(one.name, one.version, one.about) for one in COUNTS.values()]
        states = list(self.engine.states.values())
        shown = [self._shown(state) for state in states[:MAX_SHOWN]]
        return Seen(id, self.context.name, offered, shown, len(states) - len(shown), self.statistics)

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
        )


def _entries(registrations: Iterable[Registration]) -> Iterator[tuple[str, Entry]]:
    for registration in registrations:
        yield from registration.entries.items()
