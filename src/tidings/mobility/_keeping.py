"""Keeping: the copies at this broker of clients that others control.

See `_protocol` for the theory of operation, and for the table of copies that this module follows.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from tidings.broker import Context, Guard, Link
from tidings.model import ROOT_SCOPE, Position, TidingsError
from tidings.wire import Advertise, Frame, Subscribe, pack

from ._buffer import SharedBuffer
from ._copies import (
    MAX_STANDING,
    Activate,
    Announced,
    Deactivate,
    Delete,
    Missing,
    Propagate,
    Saying,
    Standing,
    Warm,
    Whose,
    portions,
    read_record,
)
from ._copy import ANCHOR, SUFFIX, Copy
from ._hosts import Hosts
from ._kept_copies import KeptCopies
from ._options import MobilityOptions
from ._protocol import Copied, Do, Heard, of_copy
from ._room import Room
from ._tombstones import Tombstones
from ._virtual import VirtualClients
from ._warm import WarmCopies
from ._woven import SECOND, Woven

MAX_COPIES = 50_000
"""The most copies at one broker; more are not taken."""
COPY_BYTES = 1_000
"""What a copy takes in memory beside its record."""


class Keeping:
    """The copies at one broker."""

    def __init__(
        self,
        feature: Woven,
        options: MobilityOptions,
        hosts: Hosts,
        room: Room,
        *,
        guard_of: Callable[[str], Guard | None],
        warn: Callable[[str], None],
    ) -> None:
        self._feature = feature
        self._options = options
        self._hosts = hosts
        self.room = room
        """What counts the bytes of all this."""
        self._guard_of = guard_of
        self._warn = warn
        self.copies: dict[str, Copy] = {}
        """By the name of their client."""
        self.tombstones = Tombstones(feature, room, int(options.t_timeout * SECOND))
        self.buffer = SharedBuffer(options.buffer_bytes, room)
        self.warm = WarmCopies(feature, options, room)
        self.virtual = VirtualClients(feature, options, room, guard_of=guard_of)
        self.refused = 0
        """How many copies were not taken, at a limit or because the client may not do here what it does elsewhere."""

    @property
    def _context(self) -> Context:
        return self._feature.context

    @property
    def listening(self) -> int:
        """How many copies listen whose clients are away."""
        return sum(one.state is Copied.ACTIVE for one in self.copies.values())

    def state_of(self, client: str) -> str:
        """In which state the copy of a client is that another broker controls; "": there is none."""
        copy = self.copies.get(client)
        return str(copy.state.value) if copy is not None else ""

    def start(self) -> None:
        """Take the records from disk: those that listened listen again, from the same positions."""
        self._kept = KeptCopies(self._context.log)
        for whose, controller, record, positions in self._kept.read():
            encoded = pack(record)
            if not self._has_room(whose.owner, len(encoded)):
                self.refused += 1
                self._kept.delete(whose.name)
                continue
            copy = self._add(whose, controller)
            self._write(copy, encoded, record)
            copy.restored = True
            self._expire_later(copy, always=True)
            self._context.call_later(0, functools.partial(self._listen_again, copy, positions, record))

    def _listen_again(self, copy: Copy, positions: dict[str, Position] | None, record: Propagate) -> None:
        if self.copies.get(copy.whose.name) is copy and copy.restored:
            self.virtual.follow(copy.whose, record.located)
            if positions is not None:
                self._listen(copy, positions)

    def _made(self, whose: Whose, controller: str) -> Copy:
        return Copy(whose, controller, self.buffer, lambda: self._was_refused(whose.name))

    # --- what controllers say -------------------------------------------------------------------------

    def hear(self, source: str, said: Propagate | Warm | Activate | Deactivate | Delete) -> None:
        """A broker speaks of a copy."""
        whose = said.whose
        copy = self.copies.get(whose.name)
        if self._is_stale(whose) or (copy is not None and not self._is_same(copy, whose, source)):
            return
        state = copy.state if copy is not None else Copied.NOTHING
        newer = copy is not None and whose.epoch > copy.whose.epoch
        event = _event(said, newer)
        row = of_copy(state, event, by_controller=copy is None or copy.controller == source or newer)
        if row is None:
            return
        if copy is not None:
            copy.restored = False
            if (newer or event in (Heard.WARM, Heard.ACTIVATE)) and (copy.whose, copy.controller) != (whose, source):
                copy.whose, copy.controller = whose, source
                self._kept.put(whose, source, copy.record)
        match row.action:
            case Do.STORE:
                assert isinstance(said, Propagate)
                self._store(source, said, copy)
            case Do.RENEW:
                assert isinstance(said, Propagate)
                assert copy is not None
                self._rest(copy)
                self._store(source, said, copy)
            case Do.LISTEN | Do.LISTEN_LATELY | Do.KEEP_LATELY | Do.KEEP_ALL:
                assert isinstance(said, Warm | Activate)
                assert copy is not None
                if copy.version != said.version:
                    self._ask(source, whose)
                elif isinstance(said, Warm):
                    self._listen_lately(copy, said.positions)
                else:
                    self._listen_to_all(copy, said.positions)
            case Do.ASK:
                self._ask(source, whose)
            case Do.REST:
                assert copy is not None
                self._rest(copy)
            case Do.DROP:
                self._drop(whose, ended=event is Heard.END)

    def _is_stale(self, whose: Whose) -> bool:
        """Whether this is of an epoch that has passed, or of a client that is here."""
        hosted = self._hosts.epoch_of(whose.name)
        copy = self.copies.get(whose.name)
        known = copy.whose.epoch if copy is not None else 0
        return whose.epoch <= max(hosted, self.tombstones.epoch_of(whose.name)) or whose.epoch < known

    def _is_same(self, copy: Copy, whose: Whose, source: str) -> bool:
        if copy.whose.owner == whose.owner:
            return True
        self._warn(
            f"broker '{source}' speaks of client '{whose.name}' of '{whose.owner}', but the copy here belongs to "
            f"'{copy.whose.owner}'; compare what `tidings config names FILE` prints for both brokers"
        )
        return False

    def _ask(self, source: str, whose: Whose) -> None:
        self._context.send_to(source, pack(Saying(Missing(whose))))

    def _store(self, source: str, said: Propagate, copy: Copy | None) -> None:
        record = pack(said)
        if not self._is_trusted(said.whose.name) or not self._has_room(said.whose.owner, len(record), copy):
            self.refused += 1
            if copy is not None:  # as it was it is of no use any more
                self._drop(copy.whose)
            return
        if copy is None:
            copy = self._add(said.whose, source)
        same = copy.version == said.version
        self._write(copy, record, said)
        self._kept.put(copy.whose, copy.controller, record)
        self._expire_later(copy)
        self.virtual.follow(copy.whose, said.located)
        if copy.inner is not None and not same:
            positions = dict(copy.since)
            copy.close()
            self._listen(copy, positions)

    def _has_room(self, owner: str, size: int, known: Copy | None = None) -> bool:
        """Whether there is room for a record, in the place of that of a copy."""
        if known is not None:
            return size <= len(known.record) or self.room.has_room(owner, size - len(known.record))
        return len(self.copies) < MAX_COPIES and self.room.has_room(owner, size + COPY_BYTES)

    def _add(self, whose: Whose, controller: str) -> Copy:
        copy = self.copies[whose.name] = self._made(whose, controller)
        self._count(copy, COPY_BYTES)
        self._anchor(copy)
        return copy

    def _remove(self, name: str) -> Copy | None:
        if (copy := self.copies.pop(name, None)) is not None:
            self._count(copy, -len(copy.record) - COPY_BYTES)
            self._kept.delete(name)
            self.warm.forget(copy)
            copy.weigh_anchor()
        return copy

    def _anchor(self, copy: Copy) -> None:
        """Have this broker carry the scopes of a client before it comes: somebody stands for it who wants nothing."""
        scoping, name = self._context.scoping, copy.whose.name
        if scoping.newest.memberships(name).keys() <= {ROOT_SCOPE}:
            copy.weigh_anchor()
        elif copy.anchor is None:
            try:
                guard = self._guard_of(copy.whose.owner)
                copy.anchor = self._context.open_client(name + ANCHOR, lambda frame: None, name, guard)
            except TidingsError:
                self.refused += 1

    def scopes_changed(self) -> None:
        """Clients may be members of other scopes than before, and scopes may trust other brokers."""
        for copy in list(self.copies.values()):
            if self._is_trusted(copy.whose.name):
                self._anchor(copy)
            else:
                self._drop(copy.whose)

    def _is_trusted(self, name: str) -> bool:
        """Whether this broker may know what a client wants."""
        scoping = self._context.scoping
        return not scoping.ready or scoping.newest.trusts(name, self._context.name)

    def _write(self, copy: Copy, record: bytes, said: Propagate) -> None:
        self._count(copy, len(record) - len(copy.record))
        copy.record, copy.version, copy.subscriptions = record, said.version, len(said.wanted)

    def _count(self, copy: Copy, size: int) -> None:
        self.room.count(copy.whose.owner, size, size)

    def _listen_lately(self, copy: Copy, positions: dict[str, Position]) -> None:
        """Let a copy listen although its client is connected."""
        if copy.warm:
            return
        if not self.warm.take(copy):
            self._rest(copy)
        elif copy.inner is None:
            self._listen(copy, positions)
        else:
            self._kept.rests(copy.whose.name)
            self._expire_later(copy)

    def _listen_to_all(self, copy: Copy, positions: dict[str, Position]) -> None:
        """Let a copy listen, and keep everything."""
        if copy.warm:
            self.warm.give(copy, self.buffer)
            self._kept.listens(copy.whose, positions)
            self._expire_later(copy)
        else:
            self._listen(copy, positions)

    def _listen(self, copy: Copy, positions: dict[str, Position]) -> None:
        """Let a copy listen, from these positions on."""
        if copy.inner is not None:
            self._expire_later(copy)
            return  # it listens, from earlier ones
        name = copy.whose.name
        try:
            guard = self._guard_of(copy.whose.owner)
            copy.inner = inner = self._context.open_client(name + SUFFIX, copy.receive, name, guard)
        except TidingsError:
            self.refused += 1
            if copy.warm:
                self.warm.give(copy, self.buffer)
            return
        self._expire_later(copy)
        copy.since = dict(positions)
        if not copy.warm:
            self._kept.listens(copy.whose, copy.since)
        record = read_record(copy.record)
        for number, offered in enumerate(record.offered, 1):
            inner.send(Frame(Advertise(offered.id, offered.filter, number=number)))
        for number, wanted in enumerate(record.wanted, 1):
            message = Subscribe(
                wanted.id,
                wanted.filter,
                receive_own=wanted.receive_own,
                meta=wanted.meta,
                after=dict(positions),
                number=number,
                duplicates=wanted.duplicates,
                early=True,
            )
            inner.send(Frame(message))

    def _was_refused(self, name: str) -> None:
        """The broker does not take what a copy subscribes to: it is none."""
        self.refused += 1
        if (copy := self.copies.get(name)) is not None:
            self._context.call_later(0, lambda: self._rest(copy))

    def _rest(self, copy: Copy) -> None:
        """A copy listens no longer, and holds nothing."""
        copy.close()
        if copy.warm:
            self.warm.give(copy, self.buffer)
        self._kept.rests(copy.whose.name)

    def _drop(self, whose: Whose, *, ended: bool = False) -> None:
        """Delete a copy. What is said late of earlier epochs, or of this one if it has ended, does not revive it."""
        if (copy := self._remove(whose.name)) is not None:
            copy.close()
        self.virtual.drop(whose.name)
        self.tombstones.leave(whose.name, whose.owner, whose.epoch if ended else whose.epoch - 1)

    # --- copies that nobody speaks for ----------------------------------------------------------------

    def standing(self, source: str, said: Standing) -> None:
        """After a new tree, a controller says which copies it wants."""
        warm = frozenset(said.warm)
        for number, (whose, version, active) in enumerate(said.copies[:MAX_STANDING]):
            copy = self.copies.get(whose.name)
            if copy is not None and copy.whose == whose and copy.version == version and copy.controller == source:
                copy.restored = False
                self._expire_later(copy)
                if copy.state is not (Copied.WARM if number in warm else Copied.ACTIVE if active else Copied.PASSIVE):
                    self._ask(source, whose)
            elif not self._is_stale(whose):
                self._ask(source, whose)

    def announce(self) -> None:
        """Say to the controllers of copies that come from the disk that they are here."""
        several: dict[str, list[tuple[Whose, int, bool]]] = {}
        for copy in self.copies.values():
            if copy.restored:
                several.setdefault(copy.controller, []).append((copy.whose, copy.version, copy.inner is not None))
        for controller in sorted(several):
            for some in portions(several[controller]):
                self._context.send_to(controller, pack(Saying(Announced(some))))

    def new_tree(self) -> None:
        """What is under way is lost: a copy for which nobody speaks within a while goes."""
        for copy in self.copies.values():
            self._expire_later(copy, always=True)

    def _expire_later(self, copy: Copy, *, always: bool = False) -> None:
        """A copy that listens to all goes after a while without a word; another one only after a new tree."""
        if copy.expiry is not None:
            copy.expiry.cancel()
            copy.expiry = None
        if always or copy.state is Copied.ACTIVE:
            delay = int(self._options.dummy_self_expiry * SECOND)
            copy.expiry = self._context.call_later(delay, lambda: self._expired(copy))

    def _expired(self, copy: Copy) -> None:
        if self.copies.get(copy.whose.name) is copy:
            self._drop(copy.whose)

    # --- copies that others take over -----------------------------------------------------------------

    def arrived(self, link: Link, epoch: int) -> Copy | None:
        """A client has been attached; the copy of it that was here, if it is of that client and of an older epoch."""
        copy = self._remove(link.name)
        if copy is not None and (copy.whose.owner != link.owner or copy.whose.epoch >= epoch):
            copy.close()
            copy = None
        self.tombstones.leave(link.name, link.owner, epoch - 1)
        return copy

    def give_away(self, whose: Whose) -> Copy | None:
        """A copy that listens and that another part of a scheme takes over; None: there is none of an older epoch."""
        copy = self.copies.get(whose.name)
        if copy is None or copy.inner is None or copy.whose.owner != whose.owner or copy.whose.epoch >= whose.epoch:
            return None
        return self._remove(whose.name)


def _event(said: Propagate | Warm | Activate | Deactivate | Delete, newer: bool) -> Heard:
    match said:
        case Propagate():
            return Heard.RENEW if newer else Heard.PROPAGATE
        case Warm():
            return Heard.WARM
        case Activate():
            return Heard.ACTIVATE
        case Deactivate():
            return Heard.DEACTIVATE
        case Delete():
            return Heard.END if said.ended else Heard.DELETE
