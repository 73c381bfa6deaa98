"""Whether rules keep their promise: what an event makes them do is done once, and only if their scope can see it.

It knows what was published, delivered and changed, and the rules as they were drawn. Which scopes see a publication it
works out from the definition (`_definition`), as the checker does for clients. Of what the authority keeps it looks at
one thing: the answers that it remembers, for what has been done without a trace because nothing was to be changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from tidings.model import Notification
from tidings.scopes import Anchor, Graph, Rules, Scopes, SetAttributes, Transaction, Unanchor, client_node
from tidings.wire import Quality

from ._definition import Definition
from ._details import Acknowledged, Broken, Notified, Taken
from ._network import Network
from ._promises import Promises
from ._rule_plan import Drawn
from ._trace import Op, Record

FIRED_ONCE = "fired-once"


class _Publication(NamedTuple):
    taken: Taken
    record: Record
    """When its broker took it."""
    publisher: str
    notification: Notification


def broken_rules(
    network: Network, authority: str, drawn: Mapping[str, Drawn], promises: Promises | None = None
) -> list[str]:
    """Return everything that contradicts the promise about rules, once a network has come to rest."""
    if promises is not None and not promises.holds(FIRED_ONCE, "rules"):
        return []
    if authority not in network.brokers:
        return []  # what it decided is on its disk
    judge = _Judge(network, authority, drawn)
    return [f"{FIRED_ONCE}: {text}" for text in (*judge.twice(), *judge.unjustified(), *judge.forgotten())]


class _Judge:
    def __init__(self, network: Network, authority: str, drawn: Mapping[str, Drawn]) -> None:
        scopes = network.brokers[authority].features["scopes"]
        assert isinstance(scopes, Scopes)
        assert scopes.authority is not None
        self._network = network
        self._drawn = drawn
        self._records = network.trace.records
        self._versions = scopes.versions
        self._answered = scopes.authority.firings.answered
        self._fired = [one for one in self._versions.since(0) if one.depth and not _is_carrying(one)]
        self._definitions: dict[int, Definition] = {}
        self._expected = dict(self._of_publications())

    def _graph(self, version: int) -> Graph | None:
        plan = self._versions.recall(version)
        return None if plan is None else plan.graph

    # --- what should be -------------------------------------------------------------------------------

    def _publications(self) -> Iterator[_Publication]:
        published = {
            (record.publisher, record.publication): record.notification
            for record in self._records
            if record.op is Op.PUB
        }
        for record in self._records:
            if isinstance(record.detail, Taken) and record.op is Op.TAKEN:
                notification = published.get((record.publisher, record.publication))
                if notification is not None:
                    yield _Publication(record.detail, record, record.publisher, notification)

    def _of_publications(self) -> Iterator[tuple[str, tuple[_Publication, set[Notification], Drawn]]]:
        """Every id that a publication should have led to, with the forms in which the scope sees it."""
        for one in self._publications():
            version = one.taken.graph_epoch
            graph = self._graph(version)
            for scope in graph.ruled if graph is not None else ():
                for rule in scope.rules:
                    known = self._drawn[rule.text]
                    forms = {
                        form
                        for form in self._seen(version, one, scope.id, known.event)
                        if known.filter.matches(form) and _is_above(form, known.above)
                    }
                    if forms:
                        origin, epoch, number = one.taken[:3]
                        id = f"rule {scope.id!r} {rule.key} pub {origin} {epoch} {number}"
                        yield id, (one, forms, known)

    def _seen(self, version: int, one: _Publication, scope: str, event: str) -> Iterable[Notification]:
        if version not in self._definitions:
            graph = self._graph(version)
            assert graph is not None
            self._definitions[version] = Definition(graph)
        definition, publisher = self._definitions[version], client_node(one.publisher)
        if event in ("out", "create"):
            return definition.climbing_to(publisher, one.notification, scope)
        if event == "in":
            return definition.forms(publisher, one.notification, scope).values()
        return ()

    # --- what is --------------------------------------------------------------------------------------

    def twice(self) -> Iterator[str]:
        """Nothing is carried out a second time."""
        seen: dict[str, int] = {}
        for one in self._fired:
            if one.request in seen:
                yield f"{one.request} was carried out in versions {seen[one.request]} and {one.version}"
            seen[one.request] = one.version

    def unjustified(self) -> Iterator[str]:
        """Each is of an event that happened, that its scope could see, and that the rule waits for."""
        for one in self._fired:
            words = one.request.split()
            match words[3]:
                case "pub":
                    if one.request not in self._expected:
                        yield f"{one.request}, version {one.version}: no such event was visible to the scope"
                    else:
                        yield from self._other_effect(one)
                case "con":
                    if not self._was_delivered(words):
                        yield f"{one.request}, version {one.version}: no such notification was delivered"
                case "join" | "leave":
                    if not self._was_moved(words):
                        yield f"{one.request}, version {one.version}: nobody joined or left so"

    def _other_effect(self, one: Transaction) -> Iterator[str]:
        """What a rule that only marks its scope has changed must be that mark."""
        _, forms, known = self._expected[one.request]
        if known.mark:
            marks = [change.attributes for change in one.changes if isinstance(change, SetAttributes)]
            if len(one.changes) != 1 or not any(dict(marks[0]) == {known.mark: form.get("n")} for form in forms):
                yield f"{one.request}, version {one.version}: it should have set {known.mark}, and did {one.changes}"

    def _was_delivered(self, words: list[str]) -> bool:
        origin, epoch, number, consumer = words[4:8]
        event = origin, int(epoch), int(number)
        return any(
            isinstance(record.detail, Notified)
            and client_node(record.component) == consumer
            and record.detail[:3] == event
            for record in self._records
            if record.op is Op.NOTIFY
        ) or self._may_have_been_lost(consumer)

    def _may_have_been_lost(self, consumer: str) -> bool:
        """Whether a client may have been sent something that has not come: its connection broke."""
        name = consumer.removeprefix("@")
        return any(
            record.op in (Op.LOST, Op.DETACH, Op.UNSUB, Op.SUB) and record.component == name for record in self._records
        )

    def _was_moved(self, words: list[str]) -> bool:
        version, member, scope = int(words[4]), words[5], words[6]
        before, after = self._graph(version - 1), self._graph(version)
        if before is None or after is None:
            return True  # so long ago that nobody knows
        was, is_ = scope in before.superscopes(member), scope in after.superscopes(member)
        return (was, is_) == ((False, True) if words[3] == "join" else (True, False))

    def forgotten(self) -> Iterator[str]:
        """What should have been is done, or was refused, unless its broker had to drop it, or lost it."""
        done = {one.request for one in self._fired}
        for id, (one, _, known) in self._expected.items():
            if id not in done and id not in self._answered and not self._was_lost(one) and not self._was_dropped(one):
                yield f"{id}: it was published in record {one.record.seq}, and nothing came of {known.text}"

    @property
    def _any_dropped(self) -> bool:
        features = [broker.features["rules"] for broker in self._network.brokers.values()]
        return any(isinstance(one, Rules) and one.counted["dropped"] for one in features)

    def _was_dropped(self, one: _Publication) -> bool:
        """Whether its broker counts something that it has dropped, is gone with its count, or has begun anew."""
        origin = one.taken.origin
        if origin not in self._network.brokers:
            return True
        rules = self._network.brokers[origin].features["rules"]
        assert isinstance(rules, Rules)
        if rules.counted["dropped"] or rules.waiting:
            return True
        return self._crash(one) is not None and self._any_dropped

    def _crash(self, one: _Publication) -> int | None:
        """The first crash of its broker since then."""
        origin = one.taken.origin
        later = self._records[one.record.seq :]
        crashes = (one.seq for one in later if isinstance(one.detail, Broken) and one.detail == ("crash", origin))
        return next(crashes, None)

    def _was_lost(self, one: _Publication) -> bool:
        """Whether its broker died before it had said that the publication is stored."""
        crash = self._crash(one)
        if crash is None:
            return False
        return not any(
            isinstance(record.detail, Acknowledged)
            and record.detail.quality is Quality.STORED
            and record.component == one.publisher
            and record.publication == one.record.publication
            for record in self._records[:crash]
        )


def _is_carrying(transaction: Transaction) -> bool:
    """Whether it only lets brokers carry a scope, behind the change that a rule asked for."""
    return all(isinstance(change, Anchor | Unanchor) for change in transaction.changes)


def _is_above(form: Notification, above: int | None) -> bool:
    value = form.get("n")
    return above is None or (isinstance(value, int | float) and value > above)
