"""Whether deciding points do as the policies of their scopes say: beside each of them stands an oracle with its state.

A trace says when a broker begins to decide for a scope, with the states of which points before it, and each time what
it asked the policy, whom that could choose, and what it said. From that, the oracle is told the same publications in
the same order (`_policy_states`), and everything else is worked out from the definition.

    policy-obeyed   whom the policy could choose might have got the publication; it chose some of these, and those that
                    the oracle says. What a client got because it was chosen, a policy had chosen it for
    decided-once    what was decided is not decided again, whoever decides by then
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import NamedTuple

from tidings.model import Notification
from tidings.scopes import PolicyUse, client_node

from ._choosing import compares, gives_to_one
from ._details import Notified, Presiding, Ruled, Taken, Term
from ._excuses import Excuse, Excuses
from ._faults import Faults
from ._observer import Observer, Publication, Violation
from ._policy_states import Asked, State, most, state_of
from ._promises import Promises
from ._trace import Op, Record

OBEYED = "policy-obeyed"
ONCE = "decided-once"
FEATURE = "choosing"


class Key(NamedTuple):
    """What a policy decides about: a publication as it is in a scope."""

    scope: str
    inside: Notification


class Ruling(NamedTuple):
    """What a policy said at one time."""

    record: Record
    detail: Ruled
    oracle: State | None


class DecisionJudge:
    """Follows deciding points."""

    def __init__(self, observer: Observer, faults: Faults, promises: Promises, excuses: Excuses) -> None:
        self._observer = observer
        self._faults = faults
        self._excuses = excuses
        self._obeyed = promises.holds(OBEYED, FEATURE)
        self._once = promises.holds(ONCE, FEATURE)
        self._states: dict[tuple[str, Term], dict[tuple[str, PolicyUse], State]] = {}
        self._published_at: dict[tuple[str, int, int], int] = {}
        self._rulings: dict[tuple[tuple[str, int], Key], list[Ruling]] = {}
        """By publication and key, in order."""
        self._decided: dict[tuple[tuple[str, int, int], Key], Record] = {}

    def rulings(self, publication: tuple[str, int], key: Key) -> list[Ruling]:
        """What policies said about a publication in a scope."""
        return self._rulings.get((publication, key), [])

    def note(self, record: Record) -> Iterator[Violation]:
        """Take a record; what is wrong by it."""
        match record.detail:
            case Taken(origin, epoch, number, published_at, _):
                self._published_at[origin, epoch, number] = published_at
            case Presiding():
                self._begin(record.detail)
            case Ruled():
                yield from self._judge(record, record.detail)
            case Notified() if record.op is Op.NOTIFY and self._observer.visibility.chooses:
                yield from self._judge_given(record, record.detail)

    def could_decide(self, ruling: Ruling) -> bool:
        """Whether what could not be decided could be by now."""
        if ruling.oracle is None:
            return False
        published = self._observer.published[ruling.record.publisher, ruling.record.publication]
        return copy.deepcopy(ruling.oracle).says(self._asked(ruling.record, ruling.detail, published)) is not None

    def _begin(self, presiding: Presiding) -> None:
        scope, term, before = presiding
        states = self._states[scope, term] = {}
        for one in before:
            for (kind, use), state in self._states.get((scope, one), {}).items():
                if (kind, use) not in states:
                    fresh = state_of(use)
                    assert fresh is not None
                    states[kind, use] = fresh
                states[kind, use].goes_on_with(state)

    def _judge(self, record: Record, ruled: Ruled) -> Iterator[Violation]:
        published = self._observer.published.get((record.publisher, record.publication))
        kind, use = self._observer.visibility.deciding(ruled.graph_epoch, ruled.path)
        if published is None or use is None or not compares(use):
            yield from self._disobeyed(record, "the scope has no policy that decides about this")
            return
        oracle = self._states.setdefault((ruled.scope, ruled.term), {}).get((kind, use)) or state_of(use)
        if oracle is not None:
            self._states[ruled.scope, ruled.term][kind, use] = oracle
        yield from self._judge_candidates(record, ruled, published)
        yield from self._judge_answer(record, ruled, use, oracle, published)
        assert record.notification is not None
        key = Key(ruled.scope, record.notification)
        if not ruled.waits:
            yield from self._judge_again(record, ruled, key, use)
        self._rulings.setdefault((published.identity, key), []).append(Ruling(record, ruled, oracle))

    def _judge_candidates(self, record: Record, ruled: Ruled, published: Publication) -> Iterator[Violation]:
        for client in sorted(ruled.candidates):
            choices = self._observer.visibility.choices(ruled.graph_epoch, published.record, client)
            if not any(one.scope == ruled.scope and one.inside == record.notification for one in choices):
                yield from self._disobeyed(record, f"{client} cannot get this, whatever the policy says")

    def _judge_answer(
        self, record: Record, ruled: Ruled, use: PolicyUse, oracle: State | None, published: Publication
    ) -> Iterator[Violation]:
        strangers = ruled.chosen - ruled.candidates
        if strangers:
            yield from self._disobeyed(record, f"it chose {_names(strangers)}, who could not be chosen")
        limit = most(use)
        if limit is not None and len(ruled.chosen) > limit:
            yield from self._disobeyed(record, f"it chose {_names(ruled.chosen)}, and may choose {limit} of them")
        assert record.notification is not None
        before = self.rulings(published.identity, Key(ruled.scope, record.notification))
        if ruled.waited and not any(one.detail.waits for one in before):
            yield from self._disobeyed(record, "it has never waited")
        if oracle is None:
            return
        expected = oracle.says(self._asked(record, ruled, published))
        said = None if ruled.waits else ruled.chosen
        if said != expected:
            yield from self._disobeyed(record, f"{use} says {_names(expected)}, and it said {_names(said)}")

    def _asked(self, record: Record, ruled: Ruled, published: Publication) -> Asked:
        assert record.notification is not None
        event = (ruled.origin, ruled.epoch, ruled.number)
        at = self._published_at.get(event, published.record.time)
        graph = self._observer.visibility.graphs[ruled.graph_epoch]
        return Asked(
            record.notification,
            record.publisher,
            event,
            at,
            ruled.candidates,
            lambda client: graph.attributes(client_node(client)),
            ruled.waited,
        )

    def _judge_again(self, record: Record, ruled: Ruled, key: Key, use: PolicyUse) -> Iterator[Violation]:
        first = self._decided.setdefault(((ruled.origin, ruled.epoch, ruled.number), key), record)
        if first is record or gives_to_one(use):
            return
        if self._faults.decided_apart(first, first.component, record, anywhere=True):
            self._excuses.grant(Excuse.DECIDED_APART, [record])
        elif self._once:
            yield Violation(ONCE, record, f"{first.component} decided it before, in record {first.seq}")

    def _judge_given(self, record: Record, given: Notified) -> Iterator[Violation]:
        published = self._observer.published.get((record.publisher, record.publication))
        visibility, client, version = self._observer.visibility, record.component, given.graph_epoch
        if published is None:
            return
        choices = visibility.choices(version, published.record, client)
        keys = {Key(one.scope, one.inside) for one in choices if one.form == record.notification}
        if not keys or record.notification in visibility.forms(version, published.record, client, possible=False):
            return
        said = [one for key in keys for one in self.rulings(published.identity, key)]
        if not any(client in one.detail.chosen for one in said):
            yield from self._disobeyed(record, "no policy has chosen this client for it")

    def _disobeyed(self, record: Record, reason: str) -> Iterator[Violation]:
        if self._obeyed:
            yield Violation(OBEYED, record, reason)


def _names(clients: frozenset[str] | None) -> str:
    return "that it waits" if clients is None else ", ".join(sorted(clients)) or "nobody"
