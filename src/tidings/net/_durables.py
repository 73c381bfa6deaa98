"""Durable subscriptions: what a broker keeps on disk for clients that may die and come back.

Theory of operation
-------------------
A durable subscription is an ordinary one whose positions outlive its client. The client asks what is kept under a name
of its own (`Recall`), subscribes with these positions as any client does that was cut off, and then says how far the
application has come (`Keep`). Everything else, from fetching what was missed to reporting what nobody holds any
more, is the recovery that exists anyway; routing does not know that a subscription is durable.

An origin that has come into the network since the client was last heard of is in no position. All that it has published
in this incarnation is owed, so a `Recalled` names it with number 0. Epochs are times: that is how the two compare.

Positions are of origins that the broker has heard of, now or when it kept this subscription the last time. It has heard
of every origin that it tells a client of. A client that has come from another broker may know one that is cut off from
this one: its positions are refused until the broker hears of that one, and it asks again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import msgspec

from tidings.broker import Broker, Link, check_progress
from tidings.model import StoreError, TidingsError
from tidings.store import Store
from tidings.wire import Forget, Keep, Kept, Recall, Recalled, Refused

from ._names import Names

log = logging.getLogger("tidings.net")

MAX_DURABLE = 100
"""The most durable subscriptions of one client."""
MAX_DURABLE_IN_ALL = 100_000
"""The most durable subscriptions of all clients together."""
MAX_DURABLE_BYTES = 4_194_304
"""The most bytes that the durable subscriptions of one identity take, in memory and on disk."""
MAX_DURABLE_BYTES_IN_ALL = 67_108_864
"""The same for all clients together."""
MAX_DURABLE_NAME = 256
"""The most characters of the name of one."""
MAX_DURABLE_FILTER = 65_536
"""The most characters of its filter."""
MAX_SHOWN = 5
"""The most names in one line of the log."""

_TABLE = "durable"


class _Record(msgspec.Struct, frozen=True, array_like=True):
    """What is kept of one durable subscription."""

    filter: str
    positions: dict[str, tuple[int, int]]
    at: int
    """When the client said so, in microseconds since 1970 UTC."""


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Record).decode
_names = msgspec.json.Decoder(tuple[str, str]).decode


def _key(client: str, name: str) -> str:
    return msgspec.json.encode((client, name)).decode()


class Durables:
    """The durable subscriptions that one broker keeps."""

    def __init__(self, broker: Broker, store: Store | None) -> None:
        self._broker = broker
        self._store = store
        self._records: dict[str, dict[str, _Record]] = {}
        self.count = 0
        """How many are kept."""
        self.size = 0
        """The bytes that they take on disk."""
        self.refused = 0
        """How often there was no room for one."""
        self._sizes: dict[tuple[str, str], int] = {}
        self._owners: dict[str, str] = {}
        """The identities of clients; of one that has not been here since the start, what its name says."""
        self._owned: dict[str, int] = {}
        for key, value in (store.items(_TABLE) if store is not None else {}).items():
            try:
                (client, name), record = _names(key), _decode(value)
            except msgspec.MsgspecError as error:
                log.error("cannot read durable subscription %s, so it starts over: %s", key, error)
                continue
            self._records.setdefault(client, {})[name] = record
            self.count += 1
            self._owners.setdefault(client, client.partition("/")[0])
            self._resize(client, name, len(value))
        broker.on_client_message(Recall, self._recall)
        broker.on_client_message(Keep, self._keep)
        broker.on_client_message(Forget, self._forget)

    def warn_of_orphans(self, names: Names) -> None:
        """Tell the log whose subscriptions nobody can come back for, because no identity may use their name."""
        orphans = sorted(client for client in self._records if not names.is_owned(client))
        if orphans:
            shown = ", ".join(f"{client!r}" for client in orphans[:MAX_SHOWN])
            log.warning(
                "durable subscriptions are kept for %s%s, but no [[access]] entry may use that name; add it to the "
                "`names` of its owner's entry, see docs/upgrading.md",
                shown,
                f" and {len(orphans) - MAX_SHOWN} more" if len(orphans) > MAX_SHOWN else "",
            )

    def _recall(self, link: Link, message: Recall) -> None:
        self._check(message.name)
        record = self._records.get(link.name, {}).get(message.name)
        if record is None:
            self._check_room(link.name, message.name)
            self._broker.send(link, Recalled(message.id, found=False))
            return
        positions = dict(record.positions)
        for origin, (epoch, _) in self._broker.recovery.marks_of(()).items():
            if origin not in positions and epoch > record.at:
                positions[origin] = (epoch, 0)
        self._broker.send(link, Recalled(message.id, True, record.filter, positions))

    def _keep(self, link: Link, message: Keep) -> None:
        store = self._check(message.name)
        check_progress(message.positions)
        if len(message.filter) > MAX_DURABLE_FILTER:
            raise TidingsError(
                f"the filter of durable subscription '{message.name}' has {len(message.filter):,} characters; "
                f"at most {MAX_DURABLE_FILTER:,} can be kept: write a shorter one"
            )
        known = self._records.get(link.name, {}).get(message.name)
        self._check_origins(message, known)
        if known is None:
            self._check_room(link.name, message.name)
        record = _Record(message.filter, message.positions, self._broker.now())
        data = _encode(record)
        self._check_size(link, message.name, len(data))
        self._own(link)
        self.count += known is None
        self._records.setdefault(link.name, {})[message.name] = record
        self._resize(link.name, message.name, len(data))
        store.put(_TABLE, _key(link.name, message.name), data, *self._answers(link, message.id))

    def _forget(self, link: Link, message: Forget) -> None:
        store = self._check(message.name)
        records = self._records.get(link.name, {})
        if records.pop(message.name, None) is not None:
            self.count -= 1
            self._resize(link.name, message.name, 0)
        if not records:
            self._records.pop(link.name, None)
            self._owners.pop(link.name, None)
        store.delete(_TABLE, _key(link.name, message.name), *self._answers(link, message.id))

    def _answers(self, link: Link, id: str) -> tuple[Callable[[], None], Callable[[Exception], None]]:
        def failed(error: Exception) -> None:
            self._broker.send(link, Refused(type(error).__name__, str(error), id))

        return lambda: self._broker.send(link, Kept(id)), failed

    def _check(self, name: str) -> Store:
        if self._store is None:
            raise StoreError(
                f"broker '{self._broker.name}' has no store to keep '{name[:80]}' in; give it a data directory, "
                "or subscribe without `durable`"
            )
        if not 0 < len(name) <= MAX_DURABLE_NAME:
            raise TidingsError(
                f"'{name[:80]}' has {len(name):,} characters; the name of a durable subscription has "
                f"1 to {MAX_DURABLE_NAME}"
            )
        return self._store

    def _check_origins(self, message: Keep, known: _Record | None) -> None:
        for origin in message.positions:
            if not self._broker.recovery.heard_of(origin) and (known is None or origin not in known.positions):
                raise TidingsError(
                    f"{origin[:80]!r} in the position of durable subscription '{message.name}' is a broker that "
                    f"'{self._broker.name}' has never heard of; try again once that broker can be reached from here"
                )

    # --- how much they take ---------------------------------------------------------------------------

    def _own(self, link: Link) -> None:
        """Note whose records these are, now that it is known."""
        owner, known = link.owner, self._owners.get(link.name)
        if owner != known:
            held = sum(size for (client, _), size in self._sizes.items() if client == link.name)
            for one, size in ((known, -held), (owner, held)):
                if one is not None and size:
                    self._owned[one] = self._owned.get(one, 0) + size
            self._owners[link.name] = owner

    def _resize(self, client: str, name: str, size: int) -> None:
        grown = size - self._sizes.pop((client, name), 0)
        if size:
            self._sizes[client, name] = size
        owner = self._owners[client]
        self.size += grown
        self._owned[owner] = self._owned.get(owner, 0) + grown
        if not self._owned[owner]:
            del self._owned[owner]

    def _check_size(self, link: Link, name: str, size: int) -> None:
        grown = size - self._sizes.get((link.name, name), 0)
        owner = link.owner
        held = self._owned.get(owner, 0)
        if grown > 0 and held + grown > MAX_DURABLE_BYTES:
            self.refused += 1
            raise TidingsError(
                f"'{name}' needs {grown:,} more bytes, and the durable subscriptions of '{owner}' use {held:,} at "
                f"broker '{self._broker.name}'; at most {MAX_DURABLE_BYTES:,} are allowed: forget one that is not "
                "needed"
            )
        if grown > 0 and self.size + grown > MAX_DURABLE_BYTES_IN_ALL:
            self.refused += 1
            raise TidingsError(
                f"'{name}' needs {grown:,} more bytes, and broker '{self._broker.name}' keeps {self.size:,} for "
                f"durable subscriptions; at most {MAX_DURABLE_BYTES_IN_ALL:,} are allowed: forget some"
            )

    def _check_room(self, client: str, name: str) -> None:
        if len(self._records.get(client, ())) >= MAX_DURABLE:
            raise TidingsError(
                f"'{name}' is one durable subscription too many: client '{client}' has {MAX_DURABLE} at broker "
                f"'{self._broker.name}', the maximum; forget one that is no longer needed"
            )
        if self.count >= MAX_DURABLE_IN_ALL:
            raise TidingsError(
                f"broker '{self._broker.name}' keeps {self.count:,} durable subscriptions, the maximum, and has no "
                f"room for '{name}'; forget some that are no longer needed"
            )
