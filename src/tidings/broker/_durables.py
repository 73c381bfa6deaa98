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

from collections.abc import Callable, Iterable, Mapping

import msgspec

from tidings.model import Position, StoreError, TidingsError
from tidings.wire import Forget, Keep, Kept, Recall, Recalled, Refused

from ._bounds import check_progress
from ._broker import Broker
from ._links import Link
from ._runtime import Log

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

_TABLE = "durable"


class DurableRecord(msgspec.Struct, frozen=True, array_like=True):
    """What is kept of one durable subscription."""

    filter: str
    positions: dict[str, Position]
    at: int
    """When the client said so, in microseconds since 1970 UTC."""
    epoch: int = 0
    """Under which epoch the client was attached then; 0: under none."""
    owner: str = ""
    """The identity of the client; "": there are none, or it was kept before that was noted."""


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(DurableRecord).decode
_names = msgspec.json.Decoder(tuple[str, str]).decode


def _key(client: str, name: str) -> str:
    return msgspec.json.encode((client, name)).decode()


def _identity(link: Link) -> str:
    """Whose client it is; "": names belong to nobody here."""
    return link.guard.name if link.guard is not None else ""


class Durables:
    """The durable subscriptions that one broker keeps."""

    def __init__(self, broker: Broker, store: Log | None) -> None:
        self._broker = broker
        self._store = store
        self._records: dict[str, dict[str, DurableRecord]] = {}
        self.count = 0
        """How many are kept."""
        self.size = 0
        """The bytes that they take on disk."""
        self.refused = 0
        """How often there was no room for one."""
        self.unreadable: dict[str, str] = {}
        """What is on disk and cannot be read, with the reason: these start over."""
        self._sizes: dict[tuple[str, str], int] = {}
        self._owners: dict[str, str] = {}
        """The identities of clients; of one that has not been here since the start, what its name says."""
        self._owned: dict[str, int] = {}
        self.epoch_of: Callable[[str], int] = lambda client: 0
        """Under which epoch a client is attached here. Set by whoever lets records follow their clients."""
        self.gather: Callable[[Link, str, Callable[[tuple[str, ...]], None]], None] | None = None
        """Set by the same: brings the newest record here, then says which brokers may have a newer one."""
        self.kept: Callable[[Link, str], None] = lambda link, name: None
        """Called when a record is on disk."""
        self.pass_on: Callable[[str, Link, str, DurableRecord, Callable[[Exception | None], None]], None] | None = None
        """Set by the same: has another broker keep a record."""
        self._in_use: dict[str, tuple[int, set[str]]] = {}
        """By client, the epoch under which it is attached, and those that it has asked for or kept since."""
        self._lent: dict[Link, dict[str, tuple[str, DurableRecord]]] = {}
        """At a broker without a store: what others keep for its clients, and who."""
        self.forgotten: Callable[[Link, str, tuple[int, int]], None] = lambda link, name, stamp: None
        """Called when one shall be nowhere any more, with the epoch and the time at which that was said."""
        for key, value in (store.items(_TABLE) if store is not None else {}).items():
            try:
                (client, name), record = _names(key), _decode(value)
            except msgspec.MsgspecError as error:
                self.unreadable[key] = str(error)
                continue
            self._records.setdefault(client, {})[name] = record
            self.count += 1
            self._owners.setdefault(client, client.partition("/")[0])
            self._resize(client, name, len(value))
        broker.on_client_message(Recall, self._recall)
        broker.on_client_message(Keep, self._keep)
        broker.on_client_message(Forget, self._forget)

    @property
    def clients(self) -> Iterable[str]:
        """Whose subscriptions these are."""
        return self._records.keys()

    @property
    def filters(self) -> list[str]:
        """What all of these want."""
        return [record.filter for records in self._records.values() for record in records.values()]

    def record_of(self, client: str, name: str) -> DurableRecord | None:
        """What is kept here of a durable subscription."""
        return self._records.get(client, {}).get(name)

    def in_use(self, client: str) -> list[Mapping[str, Position]]:
        """How far an attached client has come in each of those that it uses, as it has said itself."""
        epoch, names = self._in_use.get(client, (0, set[str]()))
        if epoch != self.epoch_of(client):
            return []
        return [record.positions for name in sorted(names) if (record := self.record_of(client, name)) is not None]

    def _use(self, client: str, name: str) -> None:
        epoch = self.epoch_of(client)
        known = self._in_use.get(client)
        if known is None or known[0] != epoch:
            known = self._in_use[client] = (epoch, set())
        known[1].add(name)

    def drop(self, client: str, name: str) -> None:
        """Keep a durable subscription no longer: it is kept elsewhere, or nowhere."""
        if self._store is not None:
            self._remove(client, name)
            self._store.delete(_TABLE, _key(client, name))

    def place(self, link: Link, name: str, record: DurableRecord, done: Callable[[bool], None]) -> None:
        """Keep what another broker kept for a client that is here now; call back when it is on disk, or cannot be."""
        record = msgspec.structs.replace(record, epoch=self.epoch_of(link.name), owner=_identity(link))
        try:
            self._put(link, name, record, lambda: done(True), lambda error: done(False))
        except TidingsError:
            done(False)

    @property
    def has_store(self) -> bool:
        """Whether anything can be kept here."""
        return self._store is not None

    def lend(self, link: Link, name: str, broker: str, record: DurableRecord) -> None:
        """Use what another broker keeps, because nothing can be kept here."""
        for gone in [one for one in self._lent if self._broker.client(one.name) is not one]:
            del self._lent[gone]
        self._lent.setdefault(link, {})[name] = (broker, record)

    def renew(
        self,
        client: str,
        name: str,
        record: DurableRecord,
        kept: Callable[[], None],
        failed: Callable[[Exception], None],
    ) -> None:
        """Keep what a client says at another broker, which cannot keep it; `TidingsError` if it is not kept here."""
        store, known = self._check(name), self.record_of(client, name)
        if known is None or len(record.filter) > MAX_DURABLE_FILTER:
            raise TidingsError(f"broker '{self._broker.name}' does not keep durable subscription '{name[:80]}'")
        check_progress(record.positions)
        self._check_origins(name, record.positions, known)
        data = _encode(record)
        self._check_size(self._owners[client], client, name, len(data))
        self._records[client][name] = record
        self._resize(client, name, len(data))
        store.put(_TABLE, _key(client, name), data, kept, failed)

    def _recall(self, link: Link, message: Recall) -> None:
        self._check_name(message.name)
        if self.gather is None or self.pass_on is None:
            self._check(message.name)
        if self.gather is None:
            self._answer(link, message)
        else:
            self.gather(link, message.name, lambda missing: self._answer_now(link, message, missing))

    def _answer_now(self, link: Link, message: Recall, missing: tuple[str, ...]) -> None:
        """Others have been asked; the client may have gone meanwhile."""
        if self._broker.client(link.name) is link:
            try:
                self._answer(link, message, missing)
            except TidingsError as error:
                self._broker.refuse(link, message, error)

    def _answer(self, link: Link, message: Recall, missing: tuple[str, ...] = ()) -> None:
        record = self.record_of(link.name, message.name)
        if self._store is None:
            if (lent := self._lent.get(link, {}).get(message.name)) is not None:
                record = lent[1]
            elif not missing:
                self._check(message.name)
        marks = self._broker.recovery.seen.marks_of(())
        if record is None:
            self._check_room(link.name, message.name)
            where = marks if missing else {}
            self._broker.send(link, Recalled(message.id, found=False, positions=where, missing=missing))
            return
        self._use(link.name, message.name)
        positions = dict(record.positions)
        for origin, (epoch, _) in marks.items():
            if origin not in positions and epoch > record.at:
                positions[origin] = Position(epoch, 0)
        self._broker.send(link, Recalled(message.id, True, record.filter, positions, missing))

    def _keep(self, link: Link, message: Keep) -> None:
        lent = self._lent.get(link, {}).get(message.name)
        if lent is None:
            self._check(message.name)
        check_progress(message.positions)
        if len(message.filter) > MAX_DURABLE_FILTER:
            raise TidingsError(
                f"the filter of durable subscription '{message.name}' has {len(message.filter):,} characters; "
                f"at most {MAX_DURABLE_FILTER:,} can be kept: write a shorter one"
            )
        known = self.record_of(link.name, message.name) if lent is None else lent[1]
        self._check_origins(message.name, message.positions, known)
        record = DurableRecord(
            message.filter, message.positions, self._broker.now(), self.epoch_of(link.name), _identity(link)
        )
        answer, failed = self._answers(link, message.id)

        def kept() -> None:
            self.kept(link, message.name)
            answer()

        self._use(link.name, message.name)
        if lent is None:
            self._put(link, message.name, record, kept, failed)
        elif self.pass_on is not None:
            self.pass_on(lent[0], link, message.name, record, lambda error: failed(error) if error else answer())

    def _put(
        self,
        link: Link,
        name: str,
        record: DurableRecord,
        kept: Callable[[], None],
        failed: Callable[[Exception], None],
    ) -> None:
        """Put a record on disk, if there is room; raise a `TidingsError` before anything changes if there is none."""
        store = self._check(name)
        known = self.record_of(link.name, name)
        if known is None:
            self._check_room(link.name, name)
        data = _encode(record)
        self._check_size(link.owner, link.name, name, len(data))
        self._own(link)
        self.count += known is None
        self._records.setdefault(link.name, {})[name] = record
        self._resize(link.name, name, len(data))
        store.put(_TABLE, _key(link.name, name), data, kept, failed)

    def _forget(self, link: Link, message: Forget) -> None:
        if self._store is None and self.pass_on is not None:
            self._check_name(message.name)
            self._lent.get(link, {}).pop(message.name, None)
            self.forgotten(link, message.name, (self.epoch_of(link.name), self._broker.now()))
            self._broker.send(link, Kept(message.id))
            return
        store = self._check(message.name)
        self._remove(link.name, message.name)
        self.forgotten(link, message.name, (self.epoch_of(link.name), self._broker.now()))
        store.delete(_TABLE, _key(link.name, message.name), *self._answers(link, message.id))

    def _remove(self, client: str, name: str) -> None:
        records = self._records.get(client, {})
        if records.pop(name, None) is not None:
            self.count -= 1
            self._resize(client, name, 0)
        if not records:
            self._records.pop(client, None)
            self._owners.pop(client, None)
            self._in_use.pop(client, None)

    def _answers(self, link: Link, id: str) -> tuple[Callable[[], None], Callable[[Exception], None]]:
        def failed(error: Exception) -> None:
            self._broker.send(link, Refused(type(error).__name__, str(error), id))

        return lambda: self._broker.send(link, Kept(id)), failed

    def _check(self, name: str) -> Log:
        if self._store is None:
            raise StoreError(
                f"broker '{self._broker.name}' has no store to keep '{name[:80]}' in; give it a data directory, "
                "or subscribe without `durable`"
            )
        self._check_name(name)
        return self._store

    def _check_name(self, name: str) -> None:
        if not 0 < len(name) <= MAX_DURABLE_NAME:
            raise TidingsError(
                f"'{name[:80]}' has {len(name):,} characters; the name of a durable subscription has "
                f"1 to {MAX_DURABLE_NAME}"
            )

    def _check_origins(self, name: str, positions: Mapping[str, Position], known: DurableRecord | None) -> None:
        for origin in positions:
            if not self._broker.recovery.seen.heard_of(origin) and (known is None or origin not in known.positions):
                raise TidingsError(
                    f"{origin[:80]!r} in the position of durable subscription '{name}' is a broker that "
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

    def _check_size(self, owner: str, client: str, name: str, size: int) -> None:
        grown = size - self._sizes.get((client, name), 0)
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
