"""The log of the scope graph: the newest audit entries, at the authority, on its disk if it has one."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import msgspec

from ._audit import MAX_TEXT, AuditEntry, compared, described
from ._changes import Anchor, AnyChange, Unanchor, apply
from ._messages import Ask, Review, Reviewed, Transaction

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
        """Read what the disk holds."""
        disk = self._service.broker.runtime.log
        kept = disk.items(LOG_TABLE) if disk is not None else {}
        found = [msgspec.msgpack.decode(value, type=tuple[int, AuditEntry]) for value in kept.values()]
        self._entries = dict(sorted(found, key=lambda pair: pair[0]))

    def accepted(self, ask: Ask, transaction: Transaction) -> None:
        """A change is about to be made."""
        changes = transaction.changes
        if all(isinstance(change, Anchor | Unanchor) for change in changes):
            return  # a broker carries what its clients are members of: it makes nothing visible
        before = self._service.graph
        try:
            gained, lost, more = compared(before, apply(before, changes), changes)
        except Exception:  # what cannot be told must not keep a change from being made, or others from following
            log.exception("what version %s makes visible could not be worked out", transaction.version)
            gained, lost, more = [], [], True
        self._add(
            AuditEntry(
                transaction.at,
                ask.who,
                _described(changes),
                transaction.version,
                gained=tuple(gained),
                lost=tuple(lost),
                more=more,
            )
        )

    def refused(self, ask: Ask, error: str, reason: str) -> None:
        """A change was asked for and not made."""
        at = self._service.context.now()
        self._add(AuditEntry(at, ask.who, _described(ask.changes), error=error, reason=reason[:MAX_TEXT]))

    def _add(self, entry: AuditEntry) -> None:
        number = max(self._entries, default=0) + 1
        self._entries[number] = entry
        if len(self._entries) > MAX_ENTRIES:
            del self._entries[min(self._entries)]
        key = f"{number % MAX_ENTRIES:06d}"  # the oldest one is overwritten
        self._service.store(LOG_TABLE, key, msgspec.msgpack.encode((number, entry)))
        self._service.on_audit(entry)

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
