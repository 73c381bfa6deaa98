"""What clients registered, from the journal of a broker: records of the type that a live `lift` sees.

Theory of operation
-------------------
A broker writes down each subscription and advertisement of its clients, with its filter, and when it started: whoever
was there before has gone then. What has been forgotten of the journal is carried on as what still stood. So who has
what is known at any moment, and each change of it is one record:

    SUBSCRIBE, ADVERTISE       sub_add, ad_add; if it replaces a filter of the same id, the old one ends behind it
    UNSUBSCRIBE, UNADVERTISE   sub_del, ad_del
    ATTACH, DETACH, START      whatever the client, or every client, still has ends

`edge` says whether it is the first of its client, or the last, of those that touch the key. Rows are written for the
clients of the broker itself, so `ingress` is always true. Copies of clients that roam are not in the journal, and a
client whose connection is lost stays in it as long as it is expected back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeGuard

from tidings.aggregation.definitions import JP, Record, touches
from tidings.model import EVERYTHING, ROOT_SCOPE, Constraint, Filter, FilterError
from tidings.model.operators import Equal
from tidings.store import Carried, JournalKind, JournalRecord

_BEGUN = {JournalKind.SUBSCRIBE: JP.SUB_ADD, JournalKind.ADVERTISE: JP.AD_ADD}
_ENDED = {JournalKind.UNSUBSCRIBE: JP.SUB_DEL, JournalKind.UNADVERTISE: JP.AD_DEL}
_END_OF = {JP.SUB_ADD: JP.SUB_DEL, JP.AD_ADD: JP.AD_DEL}

_Place = tuple[JP, str]
"""Where a client has something: whether it subscribes or advertises, and under which id."""


class Registered:
    """Who has registered what touches a key in one scope, as far as the journal of a broker has been read."""

    def __init__(
        self, broker: str, key: Filter, *, scope: str = ROOT_SCOPE, peer: Callable[[str], str] = lambda client: client
    ) -> None:
        """`peer`: by which records name a client."""
        self._broker = broker
        self._key = key
        self._scope = scope
        self._peer = peer
        self._clients: dict[str, dict[_Place, tuple[int, str]]] = {}
        """What clients have that touches the key: the number of the registration, and its filter."""
        self.unsure = False
        """Whether records are missing since the broker started."""

    def resume(self, carried: Carried) -> Iterator[Record]:
        """Begin with what stood when the journal begins."""
        self.unsure = carried.unsure
        for client, subscriptions in carried.clients.items():
            for one in subscriptions:
                if one.ended_at is None and self._scope in one.scopes:
                    what = {"id": one.life.id, "filter": one.life.filters[-1], "number": one.number}
                    yield from self._begun(JP.SUB_ADD, carried.horizon, client, what)

    def read(self, journal: Iterable[JournalRecord]) -> Iterator[Record]:
        """What a journal tells."""
        for row in journal:
            yield from self.take(row)

    def take(self, row: JournalRecord) -> Iterator[Record]:
        """What the next row tells."""
        match row.kind:
            case JournalKind.START:
                for client in list(self._clients):
                    yield from self._gone(row.at, client)
                self.unsure = False
            case JournalKind.HOLE:
                self.unsure = True
            case JournalKind.ATTACH | JournalKind.DETACH:
                yield from self._gone(row.at, row.who)
            case kind if kind in _BEGUN and row.what.get("scope") == self._scope:
                yield from self._begun(_BEGUN[kind], row.at, row.who, row.what)
            case kind if kind in _ENDED and row.what.get("scope") == self._scope:
                begun = JP.SUB_ADD if _ENDED[kind] is JP.SUB_DEL else JP.AD_ADD
                place = begun, str(row.what["id"])
                held = self._clients.get(row.who, {}).get(place)
                if held is not None and int(row.what.get("number") or 0) >= held[0]:
                    yield self._ended(row.at, row.who, place)
            case _:
                pass

    def _begun(self, jp: JP, at: int, client: str, what: Any) -> Iterator[Record]:
        place, number, text = (jp, str(what["id"])), int(what.get("number") or 0), str(what["filter"])
        held = self._clients.get(client, {}).get(place)
        if held is not None and number <= held[0]:
            return
        if touches(self._key, _filter(text)):
            first = not any(one is jp for one, _ in self._clients.get(client, ()))
            self._clients.setdefault(client, {})[place] = number, text
            yield self._record(at, jp, client, text, int(first))
            if held is not None:  # there are as many as before
                yield self._record(at, _END_OF[jp], client, held[1], 0)
        elif held is not None:
            yield self._ended(at, client, place)

    def _ended(self, at: int, client: str, place: _Place) -> Record:
        own = self._clients[client]
        _, text = own.pop(place)
        last = not any(one is place[0] for one, _ in own)
        if not own:
            del self._clients[client]
        return self._record(at, _END_OF[place[0]], client, text, -int(last))

    def _gone(self, at: int, client: str) -> Iterator[Record]:
        for place in list(self._clients.get(client, ())):
            yield self._ended(at, client, place)

    def _record(self, at: int, jp: JP, client: str, text: str, edge: int) -> Record:
        return Record(
            ts_ms=at // 1_000,
            broker=self._broker,
            jp=jp,
            topic=_topic(_filter(text)),
            peer=self._peer(client),
            ingress=True,
            edge=edge,
            filter=text,
        )


def _filter(text: str) -> Filter:
    """The filter of a row; one that this version cannot read may want anything."""
    try:
        return Filter.parse(text)
    except FilterError:
        return EVERYTHING


def _topic(filter: Filter) -> str:
    """The topic that a filter is about: what each of its alternatives says that `type` is; "": it is about several."""
    topics = {
        one.value for conjunction in filter.conjunctions for one in conjunction.by_name.get("type", ()) if _names(one)
    }
    named = all(any(map(_names, conjunction.by_name.get("type", ()))) for conjunction in filter.conjunctions)
    return str(topics.pop()) if named and len(topics) == 1 else ""


def _names(constraint: Constraint) -> TypeGuard[Equal]:
    return isinstance(constraint, Equal) and isinstance(constraint.value, str)
