"""Whether scopes that choose one of several members keep their promises; the checker's own, from the definition.

It knows the trace and nothing of deciding points. What such a scope gives to one of its members is what the member
sees by no other way. Each form that a publication has *in the scope* is given to one member, so:

    one-chosen    two members have not got the same form of the scope. Where a delivery may be of several forms or
                  scopes, each member must have one of its own
    fair-turns    of two members that might have got the same, in a stretch in which nothing has changed, none has got
                  more than one more than the other, if the policy chooses in turn
    choice of     a form that some member might have got that was there before the publication and stays, under every
                  version until it must have arrived, has reached some member; or these were told
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import combinations
from typing import NamedTuple

from tidings.model import Notification
from tidings.wire import Quality

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
FEATURE = "choosing"
_DISTURBING = (Op.SUB, Op.UNSUB, Op.SETTLED, Op.ATTACH, Op.LOST, Op.DETACH, Op.ENDED, Op.CHANGE, Op.ACTIVE, Op.GAP)
"""After these, somebody else may be there to be chosen, or somewhere else to choose."""
_LEAVING = (Op.SUB, Op.UNSUB, Op.LOST, Op.DETACH, Op.ENDED)


class _Key(NamedTuple):
    """What is given to one member."""

    scope: str
    inside: Notification


class _Given(NamedTuple):
    record: Record
    broker: str
    keys: frozenset[_Key]
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
        self._reached: dict[tuple[str, int], set[_Key]] = {}
        """By publication, what may have reached somebody."""
        self._departures: dict[str, list[tuple[int, int]]] = {}
        """For each client, from when to when something for it may have been under way when it left."""
        self._calm_since = 0

    def note(self, record: Record) -> Iterator[Violation]:
        """Take a record; what is wrong by it."""
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
        keys = frozenset(_Key(one.scope, one.inside) for one in choices if one.form == record.notification)
        if not keys:
            return
        self._reached.setdefault(published.identity, set()).update(keys)
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
            for key, members in self._owed(publication, origin, until).items():
                if key not in reached:
                    yield from self._judge_missing(publication, key, members, (origin, until, now))

    def _judge_missing(
        self, publication: Publication, key: _Key, members: list[Subscription], where: tuple[str, int, Record]
    ) -> Iterator[Violation]:
        visibility = self._observer.visibility
        members_ever = [name for name in self._departures if visibility.is_candidate(name, key.scope)]
        departures = [one for name in members_ever for one in self._departures[name]]
        faults = shared_faults(self._observer, self._faults, publication, where, departures)
        guarantee = f"choice of {publication.quality.name.lower()}"
        owed = self._promises.outcome(guarantee, faults, FEATURE)
        gaps = (gap.detail for one in members for gap in one.gaps if isinstance(gap.detail, Missing))
        if owed is Outcome.NOTHING or (owed is Outcome.GAP and in_gap(gaps, publication)):
            self._excuses.grant(Excuse.PROMISED_NOTHING, [key] if owed is Outcome.NOTHING else [])
            return
        after = ", ".join(sorted(faults))
        yield Violation(guarantee, publication.record, f"it reached no member of scope {key.scope}, after {after}")

    def _owed(self, publication: Publication, origin: str, until: int) -> dict[_Key, list[Subscription]]:
        """What must reach a member, and the subscriptions that might have got it and stayed."""
        record, visibility = publication.record, self._observer.visibility
        versions = visibility.between(min(publication.judged, default=0), until + visibility.longest_delay)
        found: dict[_Key, list[Subscription]] = {}
        for name, client in self._observer.clients.items():
            if client.broker is None or not versions or client.interrupted > record.seq:
                continue
            choices = frozenset.intersection(*(visibility.choices(version, record, name) for version in versions))
            for subscription in client.subscriptions.values() if choices else ():
                if _was_there(subscription, max(client.interrupted, subscription.filters[-1][0]), record, origin):
                    for one in choices:
                        if subscription.filter.matches(one.form):
                            found.setdefault(_Key(one.scope, one.inside), []).append(subscription)
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


def _each_has_one(wanted: list[frozenset[_Key]]) -> bool:
    """Whether each can have one of what it wants, and no two the same."""
    owner: dict[_Key, int] = {}

    def find(at: int, tried: set[_Key]) -> bool:
        for key in wanted[at] - tried:
            tried.add(key)
            if key not in owner or find(owner[key], tried):
                owner[key] = at
                return True
        return False

    return all(find(at, set()) for at in range(len(wanted)))
