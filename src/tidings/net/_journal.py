"""The journal: a feature that writes down who came, what they wanted, and what they have got.

It observes; routing does not depend on it. Each record goes to the store with the next group of writes. A later audit
reads from it which subscription existed when, and compares what should have arrived with what was acknowledged.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from typing import Any

from tidings.aggregation import Audited
from tidings.broker import Advice, Entry, Feature, Joinpoint, Link, Registration
from tidings.mobility import HandOff, pseudonym
from tidings.model import EventKey
from tidings.scopes import AuditEntry
from tidings.store import JournalKind, JournalRecord, Plain, Store, StoreError

from ._ledger import Ledger

log = logging.getLogger("tidings.net")


class Journal(Feature):
    """Writes down what clients do. A disk that refuses costs records, which the store counts, never traffic."""

    name = "journal"
    priority = 100
    fail_stop = False

    ledger: Ledger

    def __init__(self, store: Store) -> None:
        self._store = store

    def start(self) -> None:
        """Everybody who was here before has gone."""
        context = self.context
        self._is_current = context.is_current
        self.ledger = Ledger(self._store, context.now, context.call_later)
        self.ledger.write(JournalKind.START, "", epoch=context.epoch)

    def advice(self) -> Mapping[Joinpoint, Advice]:
        """One piece of advice for each thing that is written down."""
        return {
            Joinpoint.SUB_ADD: self._entry(JournalKind.SUBSCRIBE),
            Joinpoint.SUB_DEL: self._entry(JournalKind.UNSUBSCRIBE),
            Joinpoint.AD_ADD: self._entry(JournalKind.ADVERTISE),
            Joinpoint.AD_DEL: self._entry(JournalKind.UNADVERTISE),
            Joinpoint.ATTACH: self._client(JournalKind.ATTACH),
            Joinpoint.DETACH: self._client(JournalKind.DETACH),
            Joinpoint.ADOPT: self._adopted,
            Joinpoint.ACK: self._acknowledged,
        }

    def _entry(self, kind: JournalKind) -> Advice:
        def advice(proceed: Callable[[], Any], scope: str, entry: Entry) -> Any:
            result = proceed()
            if entry.link.is_client and not _is_copy(entry.link):
                self.ledger.write(kind, entry.link.name, id=entry.id, scope=scope, **self._described(entry))
            return result

        return advice

    def _client(self, kind: JournalKind) -> Advice:
        def advice(proceed: Callable[[], Any], link: Link) -> Any:
            result = proceed()
            if not _is_copy(link):
                self.ledger.write(kind, link.name)
            return result

        return advice

    def _adopted(self, proceed: Callable[[], Any], old: Link, new: Link, only: frozenset[Registration] | None) -> Any:
        """For whoever reads the journal, one client has ended what another has begun; copies of clients are nobody."""
        kinds = (JournalKind.UNSUBSCRIBE, JournalKind.SUBSCRIBE), (JournalKind.UNADVERTISE, JournalKind.ADVERTISE)
        tables = self.context.scoping.tables.values()
        books = [(book, *kinds[book.advertisement]) for table in tables for book in table.books]
        moved = [(book.scope, entry, ended, begun) for book, ended, begun in books for entry in book.of(old)]
        moved = [one for one in moved if only is None or one[1].registration in only]
        result = proceed()
        for scope, entry, ended, begun in moved:
            described = self._described(entry)
            if not _is_copy(old):
                self.ledger.write(ended, old.name, id=entry.id, scope=scope, **{**described, "ended": True})
            if not _is_copy(new):
                self.ledger.write(begun, new.name, id=entry.id, scope=scope, **described)
        return result

    def _acknowledged(self, proceed: Callable[[], Any], link: Link, key: EventKey) -> Any:
        self.ledger.acknowledged(link, key)
        return proceed()

    def audited(self, entry: AuditEntry) -> None:
        """The authority of the scope graph has made or refused a change; for the journal it is plain text."""
        what: dict[str, Plain] = {
            "graph_epoch": entry.version,
            "change": "\n".join(entry.changes),
            "more": entry.more,
        }
        for name in ("gained", "wider", "narrower", "lost", "undecided"):
            what[name] = "\n".join(map(str, getattr(entry, name)))
        if entry.error:
            what |= {"error": entry.error, "reason": entry.reason}
        try:
            self._store.record(JournalRecord(JournalKind.SCOPE, entry.at, entry.who, what))
        except StoreError as error:  # the graph has a log of its own
            log.warning("cannot write a change of the scope graph to the journal: %s", error)

    def handed_off(self, hand_off: HandOff) -> None:
        """A client has come from another broker. The record is for mining, and has a pseudonym instead of its name."""
        self.ledger.write(
            JournalKind.HANDOFF,
            pseudonym(hand_off.owner, hand_off.client),
            old=hand_off.old,
            new=hand_off.new,
            away=hand_off.away,
            outcome=hand_off.outcome.value if hand_off.outcome is not None else None,
            missed=hand_off.missed,
            pause=hand_off.pause,
        )

    def deployed(self, audited: Audited) -> None:
        """Somebody has deployed or ended something, or was refused."""
        what: dict[str, Plain] = {name: value for name, value in audited._asdict().items() if name not in ("at", "who")}
        try:
            self._store.record(JournalRecord(JournalKind.DEPLOY, audited.at, audited.who, what))
        except StoreError as error:  # the statement has a place of its own on disk
            log.warning("cannot write a deployment to the journal: %s", error)

    def _described(self, entry: Entry) -> dict[str, Plain]:
        """What a client has asked for, as it did; what its scope makes of the filter follows from the graph."""
        registration = entry.registration
        if registration is None:
            return {"filter": str(entry.filter)}
        what: dict[str, Plain] = {"filter": str(registration.filter), "receive_own": registration.receive_own}
        what |= {"number": registration.number, "duplicates": int(registration.duplicates)}
        what |= {"after": None if registration.after is None else json.dumps(registration.after)}
        return {**what, "ended": not self._is_current(registration)}


def _is_copy(link: Link) -> bool:
    """Whether a client stands for another one."""
    return link.principal != link.name
