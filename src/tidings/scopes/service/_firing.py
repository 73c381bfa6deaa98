"""Firing: what the authority does about rules.

Theory of operation
-------------------
Brokers watch for the events of rules, and ask (`_watching`). The authority works out what the actions change on the
graph as it is when their turn has come, and carries that out as one transaction, in the name of whoever deployed the
rule: so the rights of that client are checked once more. What fails changes nothing; it is logged and counted.

*Once.* Whatever is asked has an id made of rule and event. The authority remembers how it answered each id, on its disk
if it has one: a transaction has the id of what asked for it, and is written first. So a crash leaves both, or the
transaction alone, from which the rest is known at the start; what was not carried out is asked again.

*Giving way.* A script is worked out on one version and refused if that is no longer the newest, so rules that fire all
the time would keep every script out. After such a refusal, brokers that ask are not answered for `GIVE_WAY`, at most
half of the time. They ask again, in the same order, so nothing is lost.

*Cascades.* Who joined and left is known here first: `join` and `leave` need no broker to watch for them. A transaction
remembers how many rules led to it; beyond `MAX_DEPTH` nothing is carried out. If the authority crashes behind a
transaction, it looks at who joined and left once more when it starts: the ids are the same.
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import msgspec

from tidings.model import NotAllowed, ScopeError, Value
from tidings.scopes._changes import AnyChange, DestroyScope, Join, Leave, SetRules
from tidings.scopes._graph import Graph, Membership, Scope
from tidings.scopes._messages import Answer, Ask, Review, Reviewed, RuleCount, Transaction
from tidings.scopes._rules import Rule
from tidings.scopes.language import Binding, Firing, instance_of, needed, performed, read_rule
from tidings.wire import decode_body, pack

from ._rights import administers, check_rights, shown_to
from ._rule_messages import PREFIX, Fire, Fired, Outcome, id_of, read_fired

if TYPE_CHECKING:
    from ._authority import Authority
    from ._service import Scopes

log = logging.getLogger("tidings.rules")

MAX_DEPTH = 16
"""The most rules that lead to each other by what they change."""
MAX_REMEMBERED = 10_000
"""Of how many events of rules it is remembered what became of them."""
MAX_CREATED = 60
"""The most scopes that one rule creates within `MINUTE`."""
MAX_SHOWN = 1_000
"""The most rules that one question is told about."""
MINUTE = 60_000_000
"""Microseconds."""
GIVE_WAY = 1_000_000
"""Microseconds for which brokers are not answered when a change was refused because rules had changed the graph."""
TABLE = "rules-fired"
"""Where it is in the store of the authority what became of events."""
_EXAMINED = "examined"
_SOMEBODY = "@somebody who has just joined"
"""The client that stands for whoever triggers a rule, when it is checked whether the rule may be."""


class Firings:
    """What rules have asked for."""

    def __init__(self, service: Scopes, authority: Authority) -> None:
        self._service = service
        self._authority = authority
        self._known: dict[str, Fired] = {}
        self._number = 0
        self._under_way: dict[str, Callable[[Fired], None]] = {}
        self._created: dict[tuple[str, str], deque[int]] = {}
        """When each rule created scopes lately."""
        self._gave_way = -2 * GIVE_WAY
        """When rules gave way last."""
        self._examined = 0
        """The version up to which it is known whether rules wait for who joined and left."""
        self.done: Counter[tuple[str, str]] = Counter()
        """How often each rule was carried out since the start, by scope and key."""
        self.failed: Counter[tuple[str, str]] = Counter()
        self.reasons: dict[tuple[str, str], str] = {}
        """Why each rule failed last."""

    # --- the start ------------------------------------------------------------------------------------

    def start(self) -> None:
        """Read what the disk holds."""
        disk = self._service.context.log
        kept = disk.items(TABLE) if disk is not None else {}
        newest = self._service.versions.newest
        self._examined = int(kept.pop(_EXAMINED, str(newest).encode()))
        found = [msgspec.msgpack.decode(value, type=tuple[int, bytes]) for value in kept.values()]
        for number, body in sorted(found):
            fired = read_fired(body)
            self._known[fired.id] = fired
            self._number = number
        for transaction in self._service.versions.since(0):
            if transaction.request.startswith(PREFIX) and transaction.request not in self._known:
                self._remember(Fired(transaction.request, Outcome.DONE))
        if self._examined < newest:
            self._service.context.call_later(0, self._examine_again)

    def _examine_again(self) -> None:
        versions = self._service.versions
        for version in range(max(self._examined, versions.base.version) + 1, versions.newest + 1):
            transaction = versions.transaction(version)
            if transaction is not None:
                self.changed(versions.plan(version - 1).graph, versions.plan(version).graph, transaction)

    @property
    def answered(self) -> frozenset[str]:
        """The ids of which it is remembered what became of them."""
        return frozenset(self._known)

    def _remember(self, fired: Fired) -> None:
        self._number += 1
        self._known[fired.id] = fired
        if len(self._known) > MAX_REMEMBERED:
            del self._known[next(iter(self._known))]
        key = f"{self._number % MAX_REMEMBERED:06d}"  # the oldest one is overwritten
        self._service.store(TABLE, key, msgspec.msgpack.encode((self._number, pack(fired))))

    # --- asking ---------------------------------------------------------------------------------------

    def asked(self, fire: Fire, reply: Callable[[Fired], None]) -> None:
        """A broker says that an event has happened that a rule waits for; without an answer it asks again."""
        if (known := self._known.get(fire.id)) is not None:
            reply(known)
        elif fire.id in self._under_way:
            self._under_way[fire.id] = reply
        elif not 0 <= self._service.context.now() - self._gave_way < GIVE_WAY:
            self._happened(fire, reply)

    def give_way(self) -> None:
        """A change was refused because rules had changed the graph; let the next attempt succeed."""
        now = self._service.context.now()
        if not 0 <= now - self._gave_way < 2 * GIVE_WAY:
            self._gave_way = now

    def _happened(self, fire: Fire, reply: Callable[[Fired], None]) -> None:
        if self._service.objection() or self._authority.is_full or self._is_early(fire):
            reply(Fired(fire.id, Outcome.LATER))
        else:
            self._under_way[fire.id] = reply
            if (reason := self._objection(fire)) is not None:
                self._end(fire, reason)
            else:
                rule = self._rule(self._service.graph, fire)
                who = "" if rule is None else rule.who
                self._authority.perform(
                    Ask(fire.id, (), who=who), lambda: self._worked_out(fire), lambda answer: self._ended(fire, answer)
                )

    def _rule(self, graph: Graph, fire: Fire) -> Rule | None:
        scope = graph.scopes.get(fire.scope)
        return None if scope is None else next((rule for rule in scope.rules if rule.key == fire.rule), None)

    def _is_early(self, fire: Fire) -> bool:
        """Whether the scope that an event is about may still be created."""
        rule = self._rule(self._service.graph, fire) if fire.grows else None
        if rule is None or instance_of(rule, fire.event) in self._service.graph.scopes:
            return False
        return id_of(fire.scope, fire.rule, fire.event) not in self._known

    def _objection(self, fire: Fire) -> str | None:
        """Why an event has no consequence."""
        graph = self._service.graph
        rule = self._rule(graph, fire)
        if rule is None:
            return "the scope has ended, or has this rule no longer"
        if fire.depth > MAX_DEPTH:
            return (
                f"{MAX_DEPTH} rules have led to each other by what they change, which is the most; let one of them ask "
                "by IF whether there is something to do"
            )
        if fire.grows:
            name = instance_of(rule, fire.event)
            return None if name in graph.scopes else f"the scope '{name}' was not created, or has ended"
        if rule.deploys:
            return self._too_many(fire)
        return None

    def _too_many(self, fire: Fire) -> str | None:
        now, times = self._service.context.now(), self._created.setdefault((fire.scope, fire.rule), deque())
        while times and times[0] <= now - MINUTE:
            times.popleft()
        if len(times) >= MAX_CREATED:
            return (
                f"it has created {MAX_CREATED} scopes within a minute, which is the most; let it ask by IF for what is "
                "rare, or publish less often what it waits for"
            )
        times.append(now)
        return None

    def _worked_out(self, fire: Fire) -> Ask:
        """What is to be done, on the graph of now; `ScopeError` if it cannot be."""
        graph = self._service.graph
        rule = self._rule(graph, fire)
        if rule is None:
            raise ScopeError("the scope has ended, or has this rule no longer")
        seen = shown_to(graph, rule.who, rule.everything)
        if fire.scope not in seen.scopes:
            raise ScopeError(
                f"'{rule.who}', who deployed it, no longer sees the scope; let somebody who does deploy it"
            )
        body: dict[str, Value] = dict(decode_body(fire.body).attributes) if fire.body else {}
        changes = performed(seen, Firing(fire.scope, rule, fire.event, fire.trigger, body, fire.grows))
        return Ask(fire.id, changes, who=rule.who, administrator=rule.everything, depth=fire.depth)

    def _ended(self, fire: Fire, answer: Answer) -> None:
        self._end(fire, answer.reason if answer.error else None)

    def _end(self, fire: Fire, reason: str | None) -> None:
        key = fire.scope, fire.rule
        if reason is None:
            self.done[key] += 1
        else:
            self.failed[key] += 1
            self.reasons[key] = reason
            log.warning("a rule of '%s' failed at %s: %s", fire.scope or "root", fire.event, reason)
        fired = Fired(fire.id, Outcome.DONE if reason is None else Outcome.REFUSED, reason or "")
        self._remember(fired)
        self._under_way.pop(fire.id)(fired)

    def counted(self, question: Review) -> Reviewed:
        """What the rules have done that somebody may know: those of scopes that it administers."""
        graph = self._service.graph
        found = [
            RuleCount(scope.id, rule, self.done[key], self.failed[key], self.reasons.get(key, ""))
            for scope in graph.ruled
            if question.administrator or administers(graph, question.who, scope.id)
            for rule in scope.rules
            for key in [(scope.id, rule.key)]
        ]
        return Reviewed(question.request, rules=tuple(found[:MAX_SHOWN]))

    # --- who joined and left --------------------------------------------------------------------------

    def changed(self, before: Graph, after: Graph, transaction: Transaction) -> None:
        """A version has taken effect everywhere: look for rules that wait for who joined and left by it.

        A rule that came with the same version waits for what follows.
        """
        self._examined = max(self._examined, transaction.version)
        if not before.ruled and not after.ruled:
            return
        if before.ruled != after.ruled:
            self._forget_rules(after)
        for scope in before.ruled:
            now = after.scopes.get(scope.id)
            if now is not None:
                for rule in scope.rules:
                    if rule in now.rules:
                        self._examine(scope, rule, before, after, transaction)
        self._service.store(TABLE, _EXAMINED, str(self._examined).encode())

    def _forget_rules(self, graph: Graph) -> None:
        """Forget what rules have done that are gone; how many scopes one created counts for its minute."""
        known = {(scope.id, rule.key) for scope in graph.ruled for rule in scope.rules}
        for counted in (self.done, self.failed, self.reasons):
            for key in counted.keys() - known:
                del counted[key]
        recent = self._service.context.now() - MINUTE
        for key, times in list(self._created.items()):
            if key not in known and (not times or times[-1] <= recent):
                del self._created[key]

    def _examine(self, scope: Scope, rule: Rule, before: Graph, after: Graph, transaction: Transaction) -> None:
        try:
            self._look(scope, rule, before, after, transaction)
        except Exception as error:  # a rule that cannot be read any more must not keep others from theirs
            key = scope.id, rule.key
            self.failed[key] += 1
            self.reasons[key] = f"it cannot be read: {error!r:.200}"
            log.warning("a rule of '%s' cannot be read: %r", scope.id or "root", error)

    def _look(self, scope: Scope, rule: Rule, before: Graph, after: Graph, transaction: Transaction) -> None:
        known = read_rule(rule.text, scope.attributes.get("filter-model", "type"))
        if known.event not in ("join", "leave"):
            return
        old, new = (before, after) if known.event == "join" else (after, before)
        for member, joined in _edges(before, transaction.changes):
            if scope.id not in (member, joined) or joined in old.superscopes(member):
                continue
            if joined not in new.superscopes(member) or not known.concerns(new, scope.id, member, joined):
                continue
            if known.holds(Binding(new, scope.id, member, {})):
                event = f"{known.event} {transaction.version} {member} {joined}"
                id = id_of(scope.id, rule.key, event)
                fire = Fire(id, scope.id, rule.key, event, member, depth=transaction.depth + 1)
                if id not in self._known and id not in self._under_way:
                    self._happened(fire, lambda fired: None)


def _edges(before: Graph, changes: tuple[AnyChange, ...]) -> dict[tuple[str, str], None]:
    """The edges that changes may have made or ended, in the order in which they speak of them."""
    found: dict[tuple[str, str], None] = {}
    for change in changes:
        match change:
            case Join() | Leave():
                found[change.member, change.scope] = None
            case DestroyScope() if change.id in before.scopes:
                edges: Iterator[Membership] = iter(
                    (*before.members(change.id).values(), *before.superscopes(change.id).values())
                )
                found.update({(edge.member, edge.scope): None for edge in edges})
    return found


# --- what may be deployed -----------------------------------------------------------------------------------


def signed(graph: Graph, change: AnyChange, ask: Ask) -> AnyChange:
    """A change of rules with the client in whose name they act: new ones in that of whoever asks."""
    if not isinstance(change, SetRules):
        return change
    scope = graph.scopes.get(change.scope)
    known = {rule.key: rule for rule in (() if scope is None else scope.rules)}
    new = (msgspec.structs.replace(rule, who=ask.who, everything=ask.administrator) for rule in change.rules)
    return SetRules(change.scope, tuple(known.get(rule.key, rule) for rule in new))


def unsigned(changes: tuple[AnyChange, ...]) -> tuple[AnyChange, ...]:
    """The same changes without the client in whose name rules act."""

    def plain(change: AnyChange) -> AnyChange:
        if not isinstance(change, SetRules):
            return change
        return SetRules(change.scope, tuple(Rule(rule.text, rule.deploys) for rule in change.rules))

    return tuple(map(plain, changes))


def check_rehearsed(graph: Graph, after: Graph, changes: tuple[AnyChange, ...], ask: Ask) -> None:
    """Raise `ScopeError` for a new rule whose actions cannot be, or need rights that whoever asks has not.

    They are tried on the graph as it would be, with a client as trigger that is a member of the scope alone.
    """
    for change in changes:
        if isinstance(change, SetRules):
            known = graph.scopes[change.scope].rules if change.scope in graph.scopes else ()
            for rule in change.rules:
                if rule not in known:
                    _rehearse(after, change.scope, rule, ask)


def _rehearse(after: Graph, scope: str, rule: Rule, ask: Ask) -> None:
    place = f"'{scope}'" if scope else "the root scope"
    seen = shown_to(after, ask.who, ask.administrator)
    if scope not in seen.scopes:
        raise ScopeError(f"there is no scope {place}; deploy it before its rules")
    seen = seen.with_edge(Membership(_SOMEBODY, scope))
    values: dict[str, Value] = dict.fromkeys(needed(rule), "something")
    try:
        changes = performed(seen, Firing(scope, rule, "rehearsal", _SOMEBODY, values))
        whole = after.with_edge(Membership(_SOMEBODY, scope))
        check_rights(whole, msgspec.structs.replace(ask, changes=changes))
    except NotAllowed as error:
        raise NotAllowed(f"a rule of {place} would do what its owner may not: {error}") from None
    except ScopeError as error:
        if _depends(rule):
            return  # what its trigger is, or its event says, decides whether it can be
        raise type(error)(f"a rule of {place} can never be carried out: {error}") from None


def _depends(rule: Rule) -> bool:
    """Whether an action says something of its trigger, or what its event says: a rehearsal cannot know these."""
    return bool(needed(rule)) or "trigger." in rule.text
