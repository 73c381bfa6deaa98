"""Watching: what every broker does about rules.

Theory of operation
-------------------
An event happens at one broker: where a publication gets its number, a client is given a notification, or subscribes.
That broker knows the version of the graph by which the event is judged, so it knows the rules of that version, which
of their scopes can see the event, and whether their conditions hold. If so, it asks the authority (`_firing`), which is
where everything is decided that changes the graph. Delivery goes on: nothing waits for a rule.

What is asked for stands in a queue, and on disk, if the broker has one, until the authority has answered:

    asked       one at a time, in the order of the events, and for one event in the order of the rules
    again       after `AGAIN`, if there is no answer: the authority knows ids that it has answered
    later       the authority cannot say yet: it goes to the end of the queue
    dropped     if it is older than `LONGEST`, or more than `MAX_WAITING` wait and its scope and trigger have the most
                of them: logged, and counted

A publication may be on disk, and not yet what rules make of it. So a broker that starts looks once more at what was
published last before it stopped; the authority knows what it has been asked already.

A broker without rules to watch for advises nothing, so its publications keep to their lane.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from tidings.broker import Advice, Feature, For, Joinpoint, Link, Log, Registration, climbs
from tidings.model import EVERYTHING, Filter, Notification, Route, TidingsError, Value
from tidings.scopes import _oracle
from tidings.scopes._graph import Graph, client_node
from tidings.scopes._rules import Rule
from tidings.scopes.language import Binding, ReadRule, growing, needed, read_rule
from tidings.wire import Envelope, WireError, encode_body, pack

from ._backlog import MAX_WAITING, Backlog, Waiting
from ._rule_messages import Fire, Fired, Outcome, id_of, read_fire, read_saying, saying
from ._service import Scopes
from ._view import Plan

log = logging.getLogger("tidings.rules")

LONGEST = 60_000_000
"""Microseconds for which an event waits for the authority; then it is dropped."""
AGAIN = 1_000_000
"""Microseconds after which the authority is asked again."""
SOON = 200_000
"""Microseconds after which it is asked again about what it could not say."""
LATEST = 5_000_000
"""The most microseconds until it is asked again about that; each time twice as long as before."""
MAX_TOLD = 1_000
"""How many drops are logged one by one; further ones are only counted."""
TABLE = "rules-waiting"
"""Where what waits is in the store of a broker."""
RULES = "rules"
OUTCOMES = (Outcome.DONE.value, Outcome.REFUSED.value, "dropped")
"""What becomes of events, in the end."""


class _Watched(NamedTuple):
    """One rule of one scope."""

    scope: str
    rule: Rule
    read: ReadRule
    grows: str = ""
    """The text of a rule of the scopes that this one creates, which is watched for here."""
    created: ReadRule | None = None
    """With it: the rule that creates them."""


def watched_in(graph: Graph) -> dict[str, list[_Watched]]:
    """The rules of a graph, by what they wait for, in the order in which they are carried out."""
    found: dict[str, list[_Watched]] = {}
    for scope in graph.ruled:
        model = scope.attributes.get("filter-model", "type")
        for rule in scope.rules:
            try:
                read = read_rule(rule.text, model)
                found.setdefault(read.event, []).append(_Watched(scope.id, rule, read))
                for grown in growing(graph, rule) if rule.deploys and read.event == "pub" else ():
                    inner = read_rule(grown.text, model)
                    found.setdefault(inner.event, []).append(_Watched(scope.id, rule, inner, grown.text, read))
            except TidingsError as error:  # one of another version of the language
                log.warning("a rule of '%s' cannot be read: %s", scope.id, error)
    return found


class Rules(Feature):
    """The rules that one broker watches for, and what waits for the authority."""

    name = RULES
    fail_stop = False

    def __init__(self, scopes: Scopes) -> None:
        self._scopes = scopes
        self._versions: dict[int, dict[str, list[_Watched]]] = {}
        self._woven: set[Joinpoint] = set()
        self._backlog = Backlog()
        self._asking: str | None = None
        self._attempt = 0
        self._events = 0
        self._consumers: set[Link] = set()
        self._advertised: set[Registration] = set()
        self.counted: Counter[str] = Counter()
        """How many events rules have waited for (`noticed`), and what became of them."""

    @property
    def waiting(self) -> int:
        """How many events wait for the authority."""
        return len(self._backlog)

    # --- weaving --------------------------------------------------------------------------------------

    def start(self) -> None:
        """Ask for what waited when the broker stopped, and watch."""
        self._scopes.on_retired = self._look
        disk = self.context.log
        for value in disk.items(TABLE).values() if disk is not None else ():
            self._backlog.add(Waiting(read_fire(value), self.context.now()))
        self._look()
        if disk is not None:
            for envelope in _latest(disk):
                self._happened(envelope, quietly=True)
        if self._backlog:
            self._ask_later(AGAIN)

    def advice(self) -> Mapping[Joinpoint, Advice]:
        """A version is prepared before it is judged by: there is time to weave what it needs."""
        return {Joinpoint.GRAPH: self._graph, Joinpoint.ATTACH: self._attached, Joinpoint.DETACH: self._detached}

    def _graph(self, proceed: Callable[..., None], old: object, new: object) -> None:
        proceed(old, new)
        self._look()

    def _look(self) -> None:
        """Advise what the rules of the versions need that something may be judged by, and nothing else."""
        versions = self._scopes.versions
        oldest = min(self.context.scoping.versions, default=0)
        self._versions = {version: known for version, known in self._versions.items() if version >= oldest}
        wanted: set[Joinpoint] = set()
        for version in {*self.context.scoping.versions, versions.newest}:
            for event in self._watched(version):
                wanted |= self._advice[event].keys() if event in self._advice else set()
        if "con" in {event for known in self._versions.values() for event in known}:
            self._consumers.update(link for link in self.context.clients if not link.is_inside)
        if new := wanted - self._woven:
            advice = {point: one for known in self._advice.values() for point, one in known.items() if point in new}
            self.context.weave(advice, self._woven_anew if Joinpoint.AD_ADD in new else lambda: None)
        if gone := self._woven - wanted:
            self.context.unweave(*gone)
            if Joinpoint.AD_ADD in gone:
                self._advertised = set()
        self._woven = wanted

    def _woven_anew(self) -> None:
        """What is advertised already does not begin when its client joins another scope."""
        clients = (link for link in self.context.clients if not link.is_inside)
        self._advertised = {one for link in clients for one in self.context.advertised(link)}

    @property
    def _advice(self) -> dict[str, dict[Joinpoint, Advice]]:
        return {
            "pub": {Joinpoint.PUBLISHED: self._published},
            "con": {Joinpoint.DELIVER: For(self._consumers, self._delivered)},
            "sub": {Joinpoint.SUBSCRIBE: self._subscribed},
            "unsub": {Joinpoint.SUB_DEL: self._unsubscribed},
            "adv": {Joinpoint.AD_ADD: self._advertises, Joinpoint.AD_DEL: self._unadvertised},
            "unadv": {Joinpoint.AD_DEL: self._unadvertised},
        }

    def _watched(self, version: int) -> dict[str, list[_Watched]]:
        if version not in self._versions:
            plan = self._scopes.versions.recall(version)
            self._versions[version] = watched_in(plan.graph) if plan is not None and plan.graph.ruled else {}
        return self._versions[version]

    def _attached(self, proceed: Callable[[Link], None], link: Link) -> None:
        proceed(link)
        if Joinpoint.DELIVER in self._woven and not link.is_inside:
            self._consumers.add(link)

    def _detached(self, proceed: Callable[[Link], None], link: Link) -> None:
        proceed(link)
        self._consumers.discard(link)

    # --- events ---------------------------------------------------------------------------------------

    def _published(self, envelope: Envelope, link: Link) -> None:
        self._happened(envelope)

    def _happened(self, envelope: Envelope, *, quietly: bool = False) -> None:
        """Something was published; `quietly`: perhaps long ago, and what follows from it has been asked for."""
        version = envelope.identity.graph_epoch
        rules = self._watched(version).get("pub", ())
        plan = self._scopes.versions.recall(version) if rules else None
        if plan is None:
            return
        notification = envelope.notification
        if not plan.several and not any(_passes(one.read, notification) for one in rules):
            return
        seen = self._seen(plan, envelope)
        identity = envelope.identity
        event = f"pub {identity.origin} {identity.epoch} {identity.seq}"
        for one in rules:
            for at in seen.get(one.scope, ()):
                trigger = at.path[-2]
                internal = trigger not in plan.graph.upward(one.scope)
                if internal is one.read.output and _passes(one.read, at.notification):
                    binding = Binding(plan.graph, one.scope, trigger, at.notification.attributes)
                    if one.read.holds(binding):
                        if not (quietly and id_of(one.scope, one.rule.key, event) in self._backlog):
                            self._notice(one, event, event, binding)
                        break

    def _seen(self, plan: Plan, envelope: Envelope) -> dict[str, list[_oracle.Sighting]]:
        """In which scopes a publication is visible, and how."""
        tags = envelope.routes[0].tags
        climbing = (lambda path, scope: climbs(path, scope, tags, plan)) if tags else None
        found: dict[str, list[_oracle.Sighting]] = {}
        publisher, identity = client_node(envelope.identity.publisher), envelope.identity
        reached = _oracle.reach(
            plan.graph, publisher, envelope.notification, clients=False, climbing=climbing, identity=identity
        )
        for at in reached:
            found.setdefault(at.node, []).append(at)
        return found

    def _delivered(
        self, proceed: Callable[..., None], route: Route, envelope: Envelope, link: Link, subscriptions: Any
    ) -> None:
        proceed(route, envelope, link, subscriptions)
        identity = envelope.identity
        plan = self._scopes.versions.recall(identity.graph_epoch)
        if plan is None or link.principal != link.name:
            return
        consumer, notification = client_node(link.principal), envelope.notification
        created = f"pub {identity.origin} {identity.epoch} {identity.seq}"
        event = f"con {identity.origin} {identity.epoch} {identity.seq} {consumer}"
        for one in self._watched(identity.graph_epoch).get("con", ()):
            if one.scope not in plan.graph.upward(consumer) or (route.scope and one.scope != route.scope):
                continue
            if not _passes(one.read, notification):
                continue
            if one.created is not None:
                publisher = Binding(plan.graph, one.scope, client_node(identity.publisher), notification.attributes)
                if not _passes(one.created, notification) or not one.created.holds(publisher):
                    continue
            binding = Binding(plan.graph, one.scope, consumer, notification.attributes)
            if one.read.holds(binding):
                self._notice(one, created if one.grows else event, event, binding)

    def _subscribed(self, proceed: Callable[..., None], registration: Registration) -> None:
        proceed(registration)
        self._faces("sub", registration)

    def _unsubscribed(self, proceed: Callable[..., Any], scope: str, entry: Any) -> Any:
        result = proceed(scope, entry)
        self._ended("unsub", entry.registration, scope)
        return result

    def _advertises(self, proceed: Callable[..., Any], scope: str, entry: Any) -> Any:
        result = proceed(scope, entry)
        registration = entry.registration
        if registration is not None and not registration.link.is_inside and registration not in self._advertised:
            self._advertised.add(registration)
            self._faces("adv", registration)
        return result

    def _unadvertised(self, proceed: Callable[..., Any], scope: str, entry: Any) -> Any:
        result = proceed(scope, entry)
        self._ended("unadv", entry.registration, scope)
        return result

    def _ended(self, event: str, registration: Registration | None, scope: str) -> None:
        """An entry has ended in one scope: look, when this turn is over, whether what it stood for has."""
        if registration is None or registration.link.is_inside:
            return

        def look() -> None:
            if not self.context.is_current(registration):
                self._advertised.discard(registration)
                self._faces(event, registration, scope)

        self.context.call_later(0, look)

    def _faces(self, event: str, registration: Registration, scope: str | None = None) -> None:
        """What a client subscribes to or advertises has changed."""
        link, filter = registration.link, registration.filter
        if link.is_inside or link.principal != link.name:
            return
        self._events += 1
        name = f"{event} {self.context.name} {self.context.epoch} {self._events}"
        view = self.context.scoping.active.version
        plan = self._scopes.versions.recall(view)
        client = client_node(link.principal)
        if plan is None:
            return
        scopes = plan.graph.upward(client)
        for one in self._watched(view).get(event, ()):
            if one.scope in scopes and scope in (None, one.scope) and _overlaps(one.read, filter):
                binding = Binding(plan.graph, one.scope, client, {})
                if one.read.holds(binding):
                    self._notice(one, name, name, binding)

    # --- asking ---------------------------------------------------------------------------------------

    def _notice(self, one: _Watched, event: str, happened: str, binding: Binding) -> None:
        """An event has happened that a rule waits for. `event` is what a new scope is called by."""
        self.counted["noticed"] += 1
        used: dict[str, Value] = {
            name: binding.notification[name]
            for name in needed(one.rule, one.grows)
            if binding.notification.get(name) is not None
        }
        grown = f"{hash_of(one.grows)}" if one.grows else ""
        id = id_of(one.scope, one.rule.key, happened, grown)
        body = encode_body(Notification(used)) if used else b""
        fire = Fire(id, one.scope, one.rule.key, event, binding.trigger, body, one.grows)
        waiting = Waiting(fire, self.context.now())
        self._backlog.add(waiting)
        if (excess := self._backlog.excess(self._asking)) is not None:
            self._drop(excess, f"{MAX_WAITING:,} others wait for the authority")
        if excess is not waiting:
            self._keep(fire)
        if self._asking is None:
            self._ask_later(0)  # also if others are to be asked about later

    def _ask_later(self, delay: int) -> None:
        self._attempt += 1
        attempt = self._attempt
        self.context.call_later(delay, lambda: self._ask() if attempt == self._attempt else None)

    def _ask(self) -> None:
        """Ask for what has waited longest."""
        now = self.context.now()
        for waited in [one for one in self._backlog if one.since <= now - LONGEST]:
            self._drop(waited, f"the authority has not answered for {LONGEST // 1_000_000} s")
        self._asking = None
        if not self._backlog:
            return
        if (waiting := self._backlog.next(now)) is None:
            self._ask_later(min(one.again for one in self._backlog) - now)
            return
        fire = waiting.fire
        self._asking = fire.id
        self._ask_later(AGAIN)
        if self._scopes.authority is not None:
            self._scopes.authority.firings.asked(fire, self._answered)
        elif self._scopes.authority_name:
            self.context.send_to(self._scopes.authority_name, saying(fire))

    def on_routed(self, source: str, body: bytes) -> None:
        """Another broker asks, or the authority answers."""
        try:
            said = read_saying(body).said
        except (WireError, ValueError, TidingsError):
            self.context.refused()
            return
        if isinstance(said, Fired):
            self._answered(said)
        elif self._scopes.authority is None:
            self.context.refused()
        else:
            self._scopes.authority.firings.asked(said, lambda fired: self._reply(source, fired))

    def _reply(self, source: str, fired: Fired) -> None:
        self.context.send_to(source, saying(fired))

    def _answered(self, fired: Fired) -> None:
        waited = self._backlog.find(fired.id)
        if waited is None or self._asking != fired.id:
            return  # it was asked twice, and has been answered
        self._backlog.remove(waited)
        if fired.outcome is Outcome.LATER:
            again = self.context.now() + min(SOON << waited.tries, LATEST)
            self._backlog.add(waited._replace(again=again, tries=waited.tries + 1))
            self._asking = None
            self._ask_later(0)  # others need not wait for it
            return
        self.counted[fired.outcome.value] += 1
        self._forget(waited.fire)
        self._asking = None
        self._ask_later(0)

    def _drop(self, waiting: Waiting, reason: str) -> None:
        self._backlog.remove(waiting)
        fire = waiting.fire
        self.counted["dropped"] += 1
        if self.counted["dropped"] <= MAX_TOLD:
            log.warning("a rule of '%s' is not carried out at %s: %s", fire.scope or "root", fire.event, reason)
        self._forget(fire)

    def _keep(self, fire: Fire) -> None:
        disk = self.context.log
        if disk is not None:
            try:
                disk.put(TABLE, fire.id, pack(fire))
            except TidingsError as error:
                log.warning("an event of a rule of '%s' cannot be kept on disk: %s", fire.scope or "root", error)

    def _forget(self, fire: Fire) -> None:
        disk = self.context.log
        if disk is not None:
            try:
                disk.delete(TABLE, fire.id)
            except TidingsError:  # it is asked for once more after a restart, and the authority knows it
                return


def _latest(disk: Log) -> Iterator[Envelope]:
    """What was published last before the broker stopped: its rules may not have been on disk yet."""
    found: list[Envelope] = []
    since = 0
    for some in disk.query_in_steps(EVERYTHING, newest_first=True):
        for envelope in some:
            since = since or envelope.identity.published_at - LONGEST
            if envelope.identity.published_at < since or len(found) >= MAX_WAITING:
                return iter(reversed(found))
            found.append(envelope)
    return iter(reversed(found))


def hash_of(text: str) -> str:
    """A short name of a rule that has no key of its own."""
    return Rule(text).key


def _passes(read: ReadRule, notification: Notification) -> bool:
    return read.filter is not None and read.filter.matches(notification)


def _overlaps(read: ReadRule, filter: object) -> bool:
    if read.filter is None or not isinstance(filter, Filter):
        return read.filter is not None
    return read.filter.overlaps(filter)
