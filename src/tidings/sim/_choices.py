"""Whether scopes that choose some of their members keep their promises; the checker's own, from the definition.

It knows the trace and nothing of deciding points. What such a scope gives to one of its members is what the member
sees by no other way. Each form that a publication has *in the scope* is given to one member, or, by other policies, to
those whom the policy chooses (see `_decisions`), so:

    one-chosen    two members have not got the same form of the scope. Where a delivery may be of several forms or
                  scopes, each member must have one of its own
    fair-turns    of two members that might have got the same, in a stretch in which nothing has changed, none has got
                  more than one more than the other, if the policy chooses in turn
    choice of     a form that some member might have got that was there before the publication and stays, under every
                  version until it must have arrived, has reached some member, or each member whom the policy chose;
                  or these were told
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import combinations
from typing import NamedTuple, TypeAlias

from tidings.model import Notification
from tidings.wire import Quality

from ._decisions import FEATURE, DecisionJudge, Key, Ruling
from ._definition import Choice
from ._details import Missing, Notified, Unnoticed
from ._excuses import Excuse, Excuses
from ._faults import UNDER_WAY, Faults
from ._groups import UNNOTICED, handed_over_again, in_gap, shared_faults
from ._observer import Observer, Publication, Subscription, Violation
from ._promises import Outcome, Promises
from ._trace import Op, Record

ONE_CHOSEN = "one-chosen"
FAIR_TURNS = "fair-turns"
_DISTURBING = (Op.SUB, Op.UNSUB, Op.SETTLED, Op.ATTACH, Op.LOST, Op.DETACH, Op.ENDED, Op.CHANGE, Op.ACTIVE, Op.GAP)
"""After these, somebody else may be there to be chosen, or somewhere else to choose."""
_LEAVING = (Op.SUB, Op.UNSUB, Op.LOST, Op.DETACH, Op.ENDED)


_Where: TypeAlias = tuple[str, int, Record]
"""Where something was published, when it must have arrived, and now."""


class _Owed(NamedTuple):
    scope: str
    inside: Notification
    to_one: bool


class _Given(NamedTuple):
    record: Record
    broker: str
    keys: frozenset[Key]
    """What it may have been."""


class ChoiceJudge:
    """Follows who got what of what is given to one of several."""

    def __init__(self, observer: Observer, faults: Faults, promises: Promises, excuses: Excuses) -> None:
        self._observer = observer
        self._faults = faults
        self._promises = promises
        self._excuses = excuses
        self._one = promises.holds(ONE_CHOSEN, FEATURE)
        self._fair = promises.holds(FAIR_TURNS, FEATURE)
        self._given: dict[tuple[object, ...], dict[str, _Given]] = {}
        """By event, who got something of it."""
        self._reached: dict[tuple[str, int], set[Key]] = {}
        """By publication, what may have reached somebody."""
        self._got: dict[tuple[str, int], set[tuple[str, Key]]] = {}
        """By publication, who may have got what of it."""
        self._decisions = DecisionJudge(observer, faults, promises, excuses)
        self._departures: dict[str, list[tuple[int, int]]] = {}
        """For each client, from when to when something for it may have been under way when it left."""
        self._calm_since = 0

    def note(self, record: Record) -> Iterator[Violation]:
        """Take a record; what is wrong by it."""
        yield from self._decisions.note(record)
        if record.op is Op.NOTIFY:
            yield from self._judge_given(record)
        elif record.op is Op.QUIESCE and self._observer.visibility.chooses:
            yield from self._judge_rest(record)
            yield from self._judge_turns()
        if record.op in _DISTURBING or record.op is Op.FAULT:
            self._calm_since = record.time
        known = record.op is not Op.SUB or record.subscription in self._observer.client(record.component).subscriptions
        if record.op in _LEAVING and known:
            unnoticed = UNNOTICED if isinstance(record.detail, Unnoticed) else 0
            self._departures.setdefault(record.component, []).append((record.time - unnoticed, record.time))

    # --- safety ---------------------------------------------------------------------------------------

    def _judge_given(self, record: Record) -> Iterator[Violation]:
        published = self._observer.published.get((record.publisher, record.publication))
        assert isinstance(record.detail, Notified)
        client, version, visibility = record.component, record.detail.graph_epoch, self._observer.visibility
        if published is None or not visibility.chooses:
            return
        choices = visibility.choices(version, published.record, client)
        may_be = [one for one in choices if one.form == record.notification]
        keys = frozenset(Key(one.scope, one.inside) for one in may_be)
        if not keys:
            return
        self._reached.setdefault(published.identity, set()).update(keys)
        self._got.setdefault(published.identity, set()).update((client, key) for key in keys)
        if not all(one.to_one for one in may_be):
            return  # it may have been given to several
        if record.notification in visibility.forms(version, published.record, client, possible=False):
            return  # it may have come by another way
        again = handed_over_again(self._observer, published)
        given = self._given.setdefault(record.detail[:3] if again else published.identity, {})
        earlier = [one for name, one in given.items() if name != client and one.keys & keys]
        given[client] = _Given(record, self._observer.client(client).broker or "", keys)
        if _each_has_one([one.keys for one in given.values()]):
            return
        if all(self._faults.decided_apart(one.record, one.broker, record, anywhere=True) for one in earlier):
            self._excuses.grant(Excuse.DECIDED_APART, [record])
        elif self._one:
            names = ", ".join(f"{one.record.component} in record {one.record.seq}" for one in earlier)
            yield Violation(ONE_CHOSEN, record, f"it was given before, to {names}")

    # --- liveness -------------------------------------------------------------------------------------

    def _judge_rest(self, now: Record) -> Iterator[Violation]:
        for publication in self._observer.fresh:
            origin = publication.key[0] if publication.key is not None else publication.origin
            taken = publication.key is not None or publication.quality is Quality.FIRE
            if publication.refused or origin is None or not taken:
                continue
            until = self._faults.arrived_by(publication.since.time, (), now)
            reached = self._reached.get(publication.identity, set())
            for owed, members in self._owed(publication, origin, until).items():
                key, where = Key(owed.scope, owed.inside), (origin, until, now)
                if not owed.to_one:
                    yield from self._judge_several(publication, key, members, where)
                elif key not in reached:
                    yield from self._judge_missing(publication, key, [one for _, one in members], where)

    def _judge_missing(
        self, publication: Publication, key: Key, members: list[Subscription], where: _Where, alone: str = ""
    ) -> Iterator[Violation]:
        """Something has not come. `alone`: to this member, whose share the others leave alone."""
        is_member = self._observer.visibility.is_candidate
        members_ever = [name for name in self._departures if not alone and is_member(name, key.scope)]
        departures = [one for name in members_ever for one in self._departures[name]]
        faults = shared_faults(self._observer, self._faults, publication, where, departures)
        guarantee = f"choice of {publication.quality.name.lower()}"
        owed = self._promises.outcome(guarantee, faults, FEATURE)
        gaps = (gap.detail for one in members for gap in one.gaps if isinstance(gap.detail, Missing))
        if owed is Outcome.NOTHING or (owed is Outcome.GAP and in_gap(gaps, publication)):
            self._excuses.grant(Excuse.PROMISED_NOTHING, [key] if owed is Outcome.NOTHING else [])
            return
        after = ", ".join(sorted(faults))
        whom = f"{alone}, a member of" if alone else "any member of"
        yield Violation(guarantee, publication.record, f"it did not reach {whom} scope {key.scope}, after {after}")

    def _judge_several(
        self, publication: Publication, key: Key, members: list[tuple[str, Subscription]], where: _Where
    ) -> Iterator[Violation]:
        """Whether those that the policy has chosen got it, of those that were there and stayed."""
        rulings = self._decisions.rulings(publication.identity, key)
        decided = [one for one in rulings if not one.detail.waits]
        got = self._got.get(publication.identity, set())
        if not decided and rulings:
            if self._decisions.could_decide(rulings[-1]):
                for client, one in members:
                    yield from self._judge_missing(publication, key, [one], where, client)
            return
        for client, subscription in members:
            chosen = any(client in one.detail.chosen for one in decided)
            overlooked = not any(self._is_candidate(client, publication, key, one) for one in decided)
            if (chosen and (client, key) not in got) or overlooked:
                yield from self._judge_missing(publication, key, [subscription], where, client)

    def _is_candidate(self, client: str, publication: Publication, key: Key, ruling: Ruling) -> bool:
        """Whether a ruling was about a client, or need not have been: a later version does not show this to it."""
        visibility = self._observer.visibility
        versions = visibility.between(min(publication.judged, default=0), ruling.record.time)
        choices = (visibility.choices(version, publication.record, client) for version in versions)
        stays = all(any(Key(one.scope, one.inside) == key for one in each) for each in choices)
        return client in ruling.detail.candidates or not stays

    def _owed(self, publication: Publication, origin: str, until: int) -> dict[_Owed, list[tuple[str, Subscription]]]:
        """What must reach members, and the subscriptions that might have got it and stayed."""
        record, visibility = publication.record, self._observer.visibility
        versions = visibility.between(min(publication.judged, default=0), until + visibility.longest_delay)
        found: dict[_Owed, list[tuple[str, Subscription]]] = {}
        for name, client in self._observer.clients.items():
            if client.broker is None or not versions or client.interrupted > record.seq:
                continue
            choices = frozenset.intersection(*(visibility.choices(version, record, name) for version in versions))
            for subscription in client.subscriptions.values() if choices else ():
                if _was_there(subscription, max(client.interrupted, subscription.filters[-1][0]), record, origin):
                    for one in choices:
                        if subscription.filter.matches(one.form):
                            owed = _Owed(one.scope, one.inside, one.to_one)
                            found.setdefault(owed, []).append((name, subscription))
        return found

    # --- turns ----------------------------------------------------------------------------------------

    def _judge_turns(self) -> Iterator[Violation]:
        """Of those that might have got the same since nothing has changed, nobody has got much more than another."""
        stretch = [one for one in self._observer.fresh if one.record.time > self._calm_since + UNDER_WAY]
        candidates: dict[tuple[str, str], set[tuple[str, int]]] = {}
        counts: Counter[tuple[str, str]] = Counter()
        for publication in stretch:
            for scope, name in self._candidates(publication):
                candidates.setdefault((scope, name), set()).add(publication.identity)
            for name, given in self._given.get(publication.identity, {}).items():
                counts.update((key.scope, name) for key in given.keys)
        for one, two in combinations(sorted(candidates), 2):
            alike = one[0] == two[0] and candidates[one] == candidates[two]
            if alike and abs(counts[one] - counts[two]) > 1 and self._fair:
                text = f"of {len(candidates[one])}, {one[1]} got {counts[one]} and {two[1]} got {counts[two]}"
                yield Violation(FAIR_TURNS, stretch[0].record, f"in scope {one[0]}, {text}")

    def _candidates(self, publication: Publication) -> set[tuple[str, str]]:
        """The scopes that give something in turn by one choice for each publication, each with those to whom."""
        visibility, found = self._observer.visibility, set()
        for name, client in self._observer.clients.items():
            choices: set[Choice] = set()
            for version in publication.judged:
                choices |= visibility.choices(version, publication.record, name)
            wanted = [
                one for one in choices if any(each.filter.matches(one.form) for each in client.subscriptions.values())
            ]
            if len(choices) == 1 and wanted and wanted[0].in_turn and client.broker is not None:
                versions = publication.judged
                if wanted[0].form not in visibility.ever(versions, publication.record, name):  # else nobody can tell
                    found.add((wanted[0].scope, name))
        return found


def _was_there(subscription: Subscription, since: int, record: Record, origin: str) -> bool:
    """Whether a subscription had settled before something was published, after the last change of it or its client."""
    return any(since <= one.record.seq <= record.seq and origin in one.reach for one in subscription.settlings)


def _each_has_one(wanted: list[frozenset[Key]]) -> bool:
    """Whether each can have one of what it wants, and no two the same."""
    owner: dict[Key, int] = {}

    def find(at: int, tried: set[Key]) -> bool:
        for key in wanted[at] - tried:
            tried.add(key)
            if key not in owner or find(owner[key], tried):
                owner[key] = at
                return True
        return False

    return all(find(at, set()) for at in range(len(wanted)))
