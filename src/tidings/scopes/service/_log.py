"""The log of the scope graph: the newest audit entries, at the authority, on its disk if it has one."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import msgspec

from tidings.scopes._applying import apply
from tidings.scopes._audit import MAX_TEXT, AuditEntry, described, judged
from tidings.scopes._changes import Anchor, AnyChange, Unanchor
from tidings.scopes._comparison import compare
from tidings.scopes._graph import Graph
from tidings.scopes._messages import Ask, Review, Reviewed, Transaction

if TYPE_CHECKING:
    from ._service import Scopes

log = logging.getLogger("tidings.scopes")

LOG_TABLE = "scope-log"
"""Where the log is in a broker's store."""
MAX_ENTRIES = 1_000
"""How many entries are kept; the journal of the store has the others."""
MAX_CHANGES = 50
"""The most changes of one transaction that an entry describes."""
MAX_REVIEW_BYTES = 1_000_000
"""The most bytes of entries that one review tells: it must fit into one message."""


class ScopeLog:
    """What was changed and what was refused. When it is full the oldest entries give way."""

    def __init__(self, service: Scopes) -> None:
        self._service = service
        self._entries: dict[int, AuditEntry] = {}

    def start(self) -> None:
        """Read what the disk holds; an entry that cannot be read is left out."""
        disk = self._service.context.log
        kept = disk.items(LOG_TABLE) if disk is not None else {}
        found = []
        for value in kept.values():
            try:
                found.append(msgspec.msgpack.decode(value, type=tuple[int, AuditEntry]))
            except msgspec.MsgspecError as error:
                log.warning("an entry of the log of the scope graph cannot be read: %s", error)
        self._entries = dict(sorted(found, key=lambda pair: pair[0]))

    def accepted(self, ask: Ask, transaction: Transaction) -> None:
        """A change is about to be made. What it makes visible is worked out in a later turn, so that it need not wait:
        with a disk, while that is busy with the change itself."""
        changes = transaction.changes
        if all(isinstance(change, Anchor | Unanchor) for change in changes):
            return  # a broker carries what its clients are members of: it makes nothing visible
        entry = AuditEntry(transaction.at, ask.who, _described(changes), transaction.version, more=True)
        number = self._put(entry)
        before = self._service.graph
        self._service.context.call_later(0, lambda: self._complete(number, entry, before, changes))

    def _complete(self, number: int, entry: AuditEntry, before: Graph, changes: tuple[AnyChange, ...]) -> None:
        try:
            entry = judged(entry, compare(before, apply(before, changes)))
        except Exception:  # what cannot be told must not stop the broker
            log.exception("could not work out what version %s makes visible", entry.version)
        self._put(entry, number)
        self._service.on_audit(entry)

    def refused(self, ask: Ask, error: str, reason: str) -> None:
        """A change was asked for and not made."""
        at = self._service.context.now()
        entry = AuditEntry(at, ask.who, _described(ask.changes), error=error, reason=reason[:MAX_TEXT])
        self._put(entry)
        self._service.on_audit(entry)

    def _put(self, entry: AuditEntry, number: int | None = None) -> int:
        """Keep an entry under its number; the next one, if it has none yet."""
        if number is None:
            number = next(reversed(self._entries), 0) + 1
        self._entries[number] = entry
        if len(self._entries) > MAX_ENTRIES:
            del self._entries[next(iter(self._entries))]
        key = f"{number % MAX_ENTRIES:06d}"  # the oldest one is overwritten
        self._service.store(LOG_TABLE, key, msgspec.msgpack.encode((number, entry)))
        return number

    def reviewed(self, question: Review) -> Reviewed:
        """The newest entries: all of them for those who may change everything, else what the client did itself."""
        chosen: list[AuditEntry] = []
        size = 0
        for entry in reversed(self._entries.values()):
            if question.administrator or entry.who == question.who:
                size += len(msgspec.msgpack.encode(entry))
                if len(chosen) >= question.limit or size > MAX_REVIEW_BYTES:
                    break
                chosen.append(entry)
        return Reviewed(question.request, tuple(reversed(chosen)))


def _described(changes: tuple[AnyChange, ...]) -> tuple[str, ...]:
    texts = tuple(described(change) for change in changes[:MAX_CHANGES])
    return texts if len(changes) <= MAX_CHANGES else (*texts, f"and {len(changes) - MAX_CHANGES} more")
