"""Keeping: the copies of clients at this broker, and the hand-over to a client that arrives.

See `_protocol` for the theory of operation, and for the table of copies that this module follows.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from tidings.broker import Context, Guard, Link, Registration
from tidings.model import ROOT_SCOPE, Position, TidingsError
from tidings.wire import Advertise, Deliver, Envelope, Frame, Subscribe, pack

from ._buffer import SharedBuffer
from ._controlling import SECOND, Woven
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
    Whose,
    portions,
    read_record,
)
from ._copy import ANCHOR, SUFFIX, Copy
from ._hosts import Hosts
from ._kept_copies import KeptCopies
from ._neighbour_graph import Outcome
from ._options import MobilityOptions
from ._protocol import Copied, Do, Heard, of_copy
from ._room import Room
from ._tombstones import Tombstones
from ._virtual import VirtualClients

MAX_COPIES = 50_000
"""The most copies at one broker; more are not taken."""
COPY_BYTES = 1_000
"""What a copy takes in memory beside its record."""
HANDING_TIME = 5_000_000
"""Microseconds after the arrival of a client within which it announces what it subscribes to."""
_NOWHERE = Position(0, 0)


@dataclass(slots=True, eq=False)
class _Handing:
    """A copy that hands over to a client that has arrived."""

    copy: Copy
    link: Link
    elsewhere: bool
    """Whether the client comes from another broker."""
    at: int
    """When the client arrived."""
    subscribed: dict[str, Registration] = field(default_factory=dict)
    advertised: dict[str, Registration] = field(default_factory=dict)
    taken: int = 0
    missed: int = 0
    taken_at: int = 0
    """When the last subscription was."""
    owed: bool = False
    """Whether an origin had to be asked."""


class Found(NamedTuple):
    """What a client found at the broker to which it has come."""

    outcome: Outcome
    missed: int = 0
    """How many notifications its copy handed over."""
    pause: int = 0
    """Microseconds from its arrival until everything was handed over."""


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
        """Of clients of other brokers."""
        self.homes: set[Copy] = set()
        """Of clients that are away from here."""
        self.handing: dict[str, _Handing] = {}
        self.served: set[Link] = set()
        """The clients here that have adopted something from a copy."""
        self.tombstones = Tombstones(feature, room, int(options.t_timeout * SECOND))
        self.buffer = SharedBuffer(options.buffer_bytes, room)
        self.virtual = VirtualClients(feature, options, room, guard_of=guard_of)
        self.outcomes = dict.fromkeys(Outcome, 0)
        self.found: Callable[[str, Found], None] = lambda client, found: None
        """Called with what a client has found that has come from another broker."""
        self.adopted: Callable[[Link], None] = lambda link: None
        """Called when a client has adopted a subscription."""
        self.refused = 0
        """How many copies were not taken, at a limit or because the client may not do here what it does elsewhere."""

    @property
    def _context(self) -> Context:
        return self._feature.context

    @property
    def listening(self) -> int:
        """How many copies listen, those of clients that are away from here among them."""
        return len(self.homes) + sum(one.inner is not None for one in self.copies.values())

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

    def hear(self, source: str, said: Propagate | Activate | Deactivate | Delete) -> None:
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
            if (newer or event is Heard.ACTIVATE) and (copy.whose, copy.controller) != (whose, source):
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
            case Do.LISTEN:
                assert isinstance(said, Activate)
                assert copy is not None
                if copy.version != said.version:
                    self._ask(source, whose)
                else:
                    self._listen(copy, said.positions)
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
            return
        self._expire_later(copy)
        copy.since = dict(positions)
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
        for whose, version, active in said.copies[:MAX_STANDING]:
            copy = self.copies.get(whose.name)
            if copy is not None and copy.whose == whose and copy.version == version and copy.controller == source:
                copy.restored = False
                self._expire_later(copy)
                if (copy.inner is not None) != active:
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
        """A copy that listens goes after a while without a word; one that rests only after a new tree."""
        if copy.expiry is not None:
            copy.expiry.cancel()
            copy.expiry = None
        if always or copy.inner is not None:
            delay = int(self._options.dummy_self_expiry * SECOND)
            copy.expiry = self._context.call_later(delay, lambda: self._expired(copy))

    def _expired(self, copy: Copy) -> None:
        if self.copies.get(copy.whose.name) is copy:
            self._drop(copy.whose)

    # --- the copy of a client that is away from here --------------------------------------------------

    def open_home(self, link: Link, whose: Whose) -> Copy | None:
        """Let a copy adopt what a client subscribes to; None: it cannot."""
        context = self._context
        self._finish(link.name)
        subscribed = [one for one in context.subscribed(link) if one.told and one not in context.holds]
        advertised = [one for one in context.advertised(link) if one.effective]
        copy = Copy(whose, context.name, self.buffer, lambda: None)
        try:
            copy.inner = context.open_client(link.name + SUFFIX, copy.receive, link.principal, link.guard)
        except TidingsError:
            self.refused += 1
            return None
        copy.since, copy.subscriptions = context.marks_of(subscribed), len(subscribed)
        copy.doubted = frozenset(context.ahead)
        copy.forms_missed = context.scoping.active.several or len(context.scoping.versions) > 1
        if context.is_owed(link):  # what was sent for one subscription on its way to the client is not held for it
            copy.later = {one.id: context.marks_of([one]) for one in subscribed}
        context.adopt(link, copy.inner.link, [*subscribed, *advertised])
        self.homes.add(copy)
        return copy

    def give_back(self, copy: Copy, link: Link) -> None:
        """A session goes on: hand over what its copy holds, behind everything that was sent to it before."""
        assert copy.inner is not None
        context = self._context
        registrations = {one.id: one for one in context.subscribed(copy.inner.link)}
        held = self.buffer.all_of(copy)
        late = {*copy.torn, *copy.overwritten}
        context.adopt(copy.inner.link, link)
        owing: dict[tuple[str, str], list[Envelope]] = {}
        for id in registrations:
            for origin in late:
                owing[id, origin] = []
        for envelope, ids in held:
            origin = envelope.identity.origin
            if origin in late or context.crowded(link):
                late.add(origin)
                for id in ids:
                    owing.setdefault((id, origin), []).append(envelope)
                continue
            if wanting := tuple(id for id in ids if id in registrations):
                context.tell(link, Deliver(envelope, wanting))  # it has passed DELIVER before
        for (id, origin), envelopes in owing.items():
            if id in registrations:
                lacks = origin in copy.torn or origin in copy.overwritten
                since = copy.begins(id).get(origin, _NOWHERE) if lacks else _before(envelopes[0])
                context.owe(registrations[id], origin, since, envelopes)
        self.drop_home(copy)

    def give_away(self, whose: Whose) -> Copy | None:
        """A copy that listens and that another part of a scheme takes over; None: there is none of an older epoch."""
        copy = self.copies.get(whose.name)
        if copy is None or copy.inner is None or copy.whose.owner != whose.owner or copy.whose.epoch >= whose.epoch:
            return None
        return self._remove(whose.name)

    def drop_home(self, copy: Copy) -> None:
        """The client is here, elsewhere, or has ended."""
        self.homes.discard(copy)
        copy.close()

    # --- handing over to a client that arrives --------------------------------------------------------

    def arrived(self, link: Link, epoch: int, home: Copy | None, *, elsewhere: bool) -> None:
        """A client has been attached; what it subscribes to follows."""
        name = link.name
        self._finish(name)
        self.virtual.arrived(link, epoch)
        copy = self._remove(name)
        if copy is not None and (copy.whose.owner != link.owner or copy.whose.epoch >= epoch):
            copy.close()
            copy = None
        self.tombstones.leave(name, link.owner, epoch - 1)
        if home is not None:
            self.homes.discard(home)
            if copy is not None:
                copy.close()
            copy = home
        if copy is None or copy.inner is None:
            if elsewhere:
                self.tell(name, Found(Outcome.MISS if copy is None else Outcome.EARLY))
            if copy is not None:
                copy.close()
            return
        if copy.expiry is not None:
            copy.expiry.cancel()
            copy.expiry = None
        handing = _Handing(copy, link, elsewhere, self._context.now())
        handing.subscribed = {one.id: one for one in self._context.subscribed(copy.inner.link)}
        handing.advertised = {one.id: one for one in self._context.advertised(copy.inner.link)}
        self.handing[name] = handing
        self._context.call_later(HANDING_TIME, lambda: self._time_is_up(handing))

    def _time_is_up(self, handing: _Handing) -> None:
        if self.handing.get(handing.link.name) is handing:
            self._finish(handing.link.name)

    def gone(self, link: Link) -> None:
        """A client goes: what its copy has not handed over yet is not wanted any more."""
        self.served.discard(link)
        self.virtual.gone(link)
        handing = self.handing.get(link.name)
        if handing is not None and handing.link is link:
            self._finish(link.name)

    def _finish(self, name: str) -> None:
        """Everything that the client wants was handed over."""
        handing = self.handing.pop(name, None)
        if handing is None:
            return
        if handing.elsewhere:
            ready = handing.taken and not handing.owed
            outcome = Outcome.HIT if ready else Outcome.EARLY
            self.tell(name, Found(outcome, handing.missed, max(handing.taken_at - handing.at, 0)))
        handing.copy.close()

    def tell(self, name: str, found: Found) -> None:
        """A client that has come from another broker has found this."""
        self.outcomes[found.outcome] += 1
        self.found(name, found)

    def stand_in(self, link: Link, message: Subscribe | Advertise) -> Registration | None:
        """A client that has arrived announces something that its copy may have; what it adopts."""
        handing = self.handing.get(link.name)
        if isinstance(message, Subscribe) and not message.after:  # it begins a new stretch here
            return self._begin_here(link, message, handing)
        if handing is None or handing.link is not link or handing.copy.inner is None:
            return None
        known = handing.advertised if isinstance(message, Advertise) else handing.subscribed
        registration = known.pop(message.id, None)
        if registration is None or not self._context.is_current(registration):
            return None
        if isinstance(message, Advertise):
            if registration.filter != message.filter:
                return None
            self._context.adopt(handing.copy.inner.link, link, [registration])
        else:
            same = (message.filter, message.receive_own, message.duplicates)
            if (registration.filter, registration.receive_own, registration.duplicates) != same:
                return None
            if not message.early or self._context.scoping.gateways or registration in self._context.holds:
                return None
            if not self._hand_over(handing, registration, message.after):
                return None
        handing.taken += 1
        self.served.add(link)
        handing.taken_at = self._context.now()
        if not handing.subscribed and not handing.advertised:
            self._context.call_later(0, lambda: self._time_is_up(handing))
        return registration

    def _begin_here(self, link: Link, message: Subscribe, handing: _Handing | None) -> Registration | None:
        """A client begins at this place what a virtual client may have begun before."""
        registration = self.virtual.stand_in(link, message)
        if registration is not None:
            self.served.add(link)
            if handing is not None and handing.link is link:
                handing.taken += 1
                handing.taken_at = self._context.now()
            self.adopted(link)
        return registration

    def _hand_over(self, handing: _Handing, registration: Registration, after: dict[str, Position]) -> bool:
        """Hand over what a copy holds behind the positions of the client, which adopts the subscription."""
        context, copy, link = self._context, handing.copy, handing.link
        assert copy.inner is not None
        owed = self._lacking(copy, registration, after)
        if owed and not context.may_owe(link, len(owed)):
            return False
        late: dict[str, list[Envelope]] = {origin: [] for origin in owed}
        held = self.buffer.of(copy, registration.id)
        self.buffer.release(copy, registration.id)
        context.adopt(copy.inner.link, link, [registration])
        for envelope in held:
            origin = envelope.identity.origin
            if origin not in late and context.crowded(link):
                late[origin] = []
            if origin in late:
                late[origin].append(envelope)
            elif _position(envelope) > after.get(origin, _NOWHERE):
                handing.missed += 1
                context.tell(link, Deliver(envelope, (registration.id,)))  # it has passed DELIVER before
        for origin, envelopes in late.items():
            since = owed[origin] if origin in owed else max(_before(envelopes[0]), after.get(origin, _NOWHERE))
            context.owe(registration, origin, since, envelopes)
        handing.owed = handing.owed or bool(context.owed(registration))
        self.adopted(link)
        return True

    def _lacking(self, copy: Copy, registration: Registration, after: dict[str, Position]) -> dict[str, Position]:
        """The origins of which the copy may lack something that the client has not seen, and from where on."""
        context = self._context
        lacking: dict[str, Position] = {}
        begins = copy.begins(registration.id)
        reached = context.marks_of([registration])  # behind that, what is owed to the copy is owed to the client
        for origin, position in after.items():
            complete = (
                origin not in copy.torn
                and origin not in copy.doubted
                and begins.get(origin, (position[0] + 1, 0)) <= position
                and not (copy.forms_missed and begins[origin] == position)
                and copy.overwritten.get(origin, _NOWHERE) <= position <= reached.get(origin, _NOWHERE)
            )
            if not complete:
                lacking[origin] = position
        for origin in {*copy.torn, *copy.overwritten, *copy.doubted} - after.keys():
            lacking[origin] = begins.get(origin, _NOWHERE)
        return lacking


def _event(said: Propagate | Activate | Deactivate | Delete, newer: bool) -> Heard:
    match said:
        case Propagate():
            return Heard.RENEW if newer else Heard.PROPAGATE
        case Activate():
            return Heard.ACTIVATE
        case Deactivate():
            return Heard.DEACTIVATE
        case Delete():
            return Heard.END if said.ended else Heard.DELETE


def _position(envelope: Envelope) -> Position:
    return Position(envelope.identity.epoch, envelope.identity.seq)


def _before(envelope: Envelope) -> Position:
    epoch, seq = _position(envelope)
    return Position(epoch, seq - 1)
