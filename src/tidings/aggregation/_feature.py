"""Aggregation as a feature of a broker: its parts, and what happens in the broker around them.

Theory of operation
-------------------
The engine (`_engine`) works out what must be asked and told. Around it, each with its own theory:

    _watches       what clients watch, and are told
    _asks          what neighbours ask, and are told
    _admission     which asks are taken at all
    _tallies       the clients that count, for the counts
    _observing     what clients publish and subscribe to, for the questions
    _weaving       which steps of the broker are advised for that

    DETACH   the watches of the client end
    TREE     what was said on links is void; all is incomplete until it is said anew
    GRAPH    other brokers may carry a scope, and other members count in it

The tree and the scope graph are looked at before everything that comes, since a message may come before the advice on
TREE or GRAPH is woven.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from tidings.broker import Advice, Feature, Joinpoint, Link, Tree
from tidings.model import TidingsError

from ._admission import Admission
from ._asks import Asks
from ._deployed import Deployed
from ._deployments import Deployments
from ._engine import Engine
from ._exporting import Exports
from ._looking import offered, travelled, watched
from ._measurements import Measurements
from ._named import is_name, place_in
from ._observing import Observing
from ._options import AggregationOptions
from ._places import Places
from ._riding import Counted, Traffic
from ._rights import Rights
from ._secret import Secret
from ._shares import Below
from ._state import Request, State, Terms
from ._subject import Subject
from ._surroundings import surroundings
from ._tallies import RANGES, Hosting, Tallies
from ._watches import Watches
from ._weaving import Weaving
from ._windows import is_measured
from .deploying import EVERY, Registry
from .messages import FEATURE, Declined, Look, Seen, Tune, Unwatch, Watch, decode, encode

_COUNTERS = ("updates_sent", "updates_riding", "updates_alone", "results", "withheld", "partials_refused")
_DEFAULT_OPTIONS = AggregationOptions()


class Aggregation(Feature):
    """The aggregates of one broker."""

    name = FEATURE
    fail_stop = False

    def __init__(
        self,
        options: AggregationOptions = _DEFAULT_OPTIONS,
        deployments: Deployments | None = None,
        warn: Callable[[str], None] = lambda text: None,
        draw: Callable[[], bytes] | None = None,
    ) -> None:
        """`draw` gives bytes that nobody can guess; see `Secret`."""
        self.options = options
        self._deployments = deployments
        self._draw = draw
        self.secret_known: Callable[[bytes], None] = lambda value: None
        """Called with the secret under which clients have pseudonyms, whenever there is another one; to be set before
        the broker is built."""
        self._hosting: Hosting | None = None
        self.engine: Engine[Link] = Engine(self)
        self.counters: Counter[str] = Counter()
        """What has happened so far."""
        self._counted_terms = Terms(RANGES, options.share)
        self.exports = Exports(options.export, options.export_keys, warn)
        """What metrics show."""
        self.counted = Counted()
        """What was told, by aggregate and neighbour."""

    def serve(self, hosting: Hosting) -> None:
        """Know which clients may be at another broker as well: with them, a count is not complete. To be called before
        the broker is built."""
        self._hosting = hosting

    def start(self) -> None:
        """The broker is built."""
        context, deployments = self.context, self._deployments
        registry = deployments.registry if deployments is not None else Registry(lambda given: None)
        self._deployed = Deployed(context, registry, deployments.workers if deployments is not None else None)
        self._places = Places(context)
        self._rights = Rights(self.options, context.now)
        admission = Admission(
            context.name,
            context.routing,
            context.scoping,
            places=self._places,
            rights=self._rights,
            deployed=self._deployed,
            states=self.engine.states,
            max_keys=self.options.max_keys,
        )
        self._secret = Secret(context, self._draw)
        self._secret.known = self.secret_known
        self._asks = Asks(
            context,
            self.engine,
            self.options,
            secret=self._secret,
            admission=admission,
            deployed=self._deployed,
            counters=self.counters,
        )
        self._watches = Watches(
            context,
            self.engine,
            admission=admission,
            deployed=self._deployed,
            counters=self.counters,
            most=self.options.max_watches,
        )
        self._weaving = Weaving(context, self._wanted_steps, make_good=self._make_good, begin=self._begin)
        self._tallies = Tallies(context, self._hosting, lambda scope: self._places.of(scope).ways, self.engine.changed)
        self._measurements = Measurements(
            context.name,
            context.now,
            context.call_later,
            self.engine.changed,
            self._weaving.reweave,
            carries=lambda scope: bool(self._places.of(scope).ways),
            code=self._deployed.measuring,
            pseudonym=self._secret.pseudonym,
        )
        self._secret.tell, self._secret.changed = self._asks.tell_secret, self._measurements.renamed
        self._observing = Observing(
            context.scoping, self._places, self._measurements, lambda link: self._tallies.counts(link, away=True)
        )
        if self._hosting is not None:
            self._hosting.settled, self._hosting.ceded = self._tallies.settled, self._tallies.ceded
        if deployments is not None:
            deployments.changed = self._deployed_changed
            deployments.watches = self._watches.named.watching
        self._learn_tree()
        if self.exports:
            context.call_later(0, lambda: self.exports.open(context))

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
            return self._counted_terms
        form = self._measurements.form(subject, lambda: self._places.of(subject.scope).brokers)
        return Terms(form, self.options.share)

    def began(self, subject: Subject) -> None:
        """Somebody asks for a subject."""
        self._weaving.began(subject)

    def ended(self, state: State[Link]) -> None:
        """Nobody asks for a subject any more."""
        subject = state.subject
        self._weaving.ended(subject)
        if is_measured(subject.aggregate):
            self._measurements.linger(subject)
        elif state.source is not None:
            self._tallies.end(state.source)
        self._weaving.reweave()

    def ask(self, link: Link, number: int, subject: Subject, bound: float) -> None:
        """Ask a neighbour."""
        self._asks.ask(link, number, subject, bound)

    def rebound(self, link: Link, number: int, bound: float) -> None:
        """Change the bound of an ask."""
        self._asks.rebound(link, number, bound)

    def cancel(self, link: Link, number: int) -> None:
        """Ask no longer."""
        self._asks.cancel(link, number)

    def wake(self, link: Link) -> None:
        """There is something to tell a neighbour."""
        self._asks.wake(link)

    def traffic(self, subject: Subject, link: Link) -> Traffic:
        """Where to count what is told of a subject on a link."""
        return self.counted.of(subject.aggregate, link.name)

    def tell(self, request: Request[Link]) -> None:
        """There is something to tell a client."""
        self._watches.tell(request)

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
            steps |= self._tallies.advice()
        return steps | self._observing.advice()

    def _make_good(self) -> None:
        """Catch up with what happened before the steps were advised."""
        self._look_around()
        self._watches.end_of_gone()

    def _begin(self, subject: Subject) -> None:
        """Begin to count, or to measure, what is still asked for."""
        state = self.engine.states.get(subject)
        if state is None:
            return
        if is_measured(subject.aggregate):
            self._measurements.begin(subject)
        else:
            self._tallies.begin(state)

    def _on_detach(self, proceed: Callable[..., None], link: Link) -> None:
        proceed(link)
        self._watches.end_of(link)

    def _on_tree(self, proceed: Callable[..., None], old: Tree, new: Tree) -> None:
        proceed(old, new)
        self._look_around()

    def _on_graph(self, proceed: Callable[..., None], old: int, new: int) -> None:
        proceed(old, new)
        self._look_around()

    # --- the tree, the scope graph, and what is deployed ------------------------------------------------

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
            self._asks.forget()
        elif self.context.scoping.newest is not self._view:
            self._view = self.context.scoping.newest
            if not self._places.refresh():
                self._end_lost()
                return
        else:
            return
        begun = [one for one in self.engine.states if not self._weaving.is_waiting(one)]
        self._tallies.regraph(self.engine.states[one] for one in begun if not is_measured(one.aggregate))
        self.engine.links_changed()
        self._end_lost()

    def _end_lost(self) -> None:
        """End the watches in scopes that are no more, or in which nothing can be measured any more."""
        if self._places.lacking:
            self._watches.end_lost()

    def neighbour_ready(self, link: Link) -> None:
        """A neighbour is ready, and knows nothing of what it may have said or heard before."""
        self._look_around()
        self._places.forget()
        self.engine.forget([link])
        self._asks.forget_neighbour(link)
        self.engine.links_changed()

    def _deployed_changed(self, name: str) -> None:
        """What is deployed under a name may run no longer, or only now."""
        concerned = [one for one in self.engine.states if is_name(one.aggregate) and name in (EVERY, one.aggregate)]
        for subject in concerned:
            if not self._deployed.is_installed(place_in(subject)):
                self._measurements.stop(subject)
            if self._deployed.is_outdated(place_in(subject)):
                self.engine.let_go(subject)
        self._watches.named.changed(name)
        self._asks.deployed_changed()

    # --- messages -------------------------------------------------------------------------------------

    def on_message(self, link: Link, body: bytes) -> None:
        """A neighbour or a client says something."""
        self._look_around()
        if link.is_client:
            self._from_client(link, body)
        else:
            self._asks.came(link, body, riding=False)

    def on_attached(self, link: Link, data: bytes) -> None:
        """A neighbour says something along with another message."""
        self._look_around()
        self._asks.came(link, data, riding=True)

    def _from_client(self, link: Link, body: bytes) -> None:
        message = decode(body)
        try:
            match message:
                case Watch():
                    self._watches.watch(link, message)
                case Tune(id, bound):
                    self._watches.tune(link, id, bound)
                case Unwatch(id):
                    self._watches.unwatch(link, id)
                case Look(id):
                    self._rights.may_look(link)
                    self.context.send(link, encode(self.look(id)))
                case _:
                    raise TidingsError(f"a client may not send {type(message).__name__}")
        except TidingsError as error:
            self.context.refused()
            declined = Declined(getattr(message, "id", ""), type(error).__name__, str(error))
            self.context.send(link, encode(declined))

    # --- looking --------------------------------------------------------------------------------------

    @property
    def statistics(self) -> dict[str, int]:
        """What there is, and what has happened so far."""
        return {
            "keys": len(self.engine.states),
            "watches": len(self._watches),
            "woven": len(self._weaving),
            "late_notifications": self._measurements.late,
            "suppressed": self.engine.suppressed,
            "late": self.engine.late,
            **{name: self.counters[name] for name in _COUNTERS},
        }

    def kept(self) -> list[str]:
        """What is kept, by name: nothing, once nobody asks for anything."""
        held = {
            "subjects": not self.engine.is_empty,
            "requests": not self._watches.is_empty,
            "tallies": not self._tallies.is_empty,
            "measurements": bool(self._measurements),
            "advice": not self._weaving.is_empty or self._asks.waits,
        }
        return [what for what, there in held.items() if there]

    def look(self, id: str = "") -> Seen:
        """What is watched here, and what was told about it."""
        shown, left = watched(self.engine)
        traffic = travelled(self.counted)
        return Seen(id, self.context.name, offered(self._deployed.registry), shown, left, self.statistics, traffic)
