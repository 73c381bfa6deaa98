"""Handing over: what a client that arrives gets from the copy that has listened for it.

See `_protocol` for the theory of operation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from tidings.broker import Context, Link, Registration
from tidings.model import NOWHERE, Position
from tidings.wire import Advertise, Deliver, Envelope, Subscribe

from ._copy import Copy, before
from ._neighbour_graph import Outcome
from ._virtual import VirtualClients
from ._woven import Woven

HANDING_TIME = 5_000_000
"""Microseconds after the arrival of a client within which it announces what it subscribes to."""


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


class HandingOver:
    """The clients that have come to one broker and take over what copies hold."""

    def __init__(self, feature: Woven, virtual: VirtualClients) -> None:
        self._feature = feature
        self._virtual = virtual
        self._handing: dict[str, _Handing] = {}
        self.served: set[Link] = set()
        """The clients here that have adopted something from a copy."""
        self.outcomes = dict.fromkeys(Outcome, 0)
        self.found: Callable[[str, Found], None] = lambda client, found: None
        """Called with what a client has found that has come from another broker."""
        self.adopted: Callable[[Link], None] = lambda link: None
        """Called when a client has adopted a subscription."""

    def __len__(self) -> int:
        return len(self._handing)

    @property
    def _context(self) -> Context:
        return self._feature.context

    def arrived(self, link: Link, epoch: int, copy: Copy | None, *, elsewhere: bool) -> None:
        """A client has been attached; what it subscribes to follows, and this copy may have listened for it."""
        name = link.name
        self.finish(name)
        self._virtual.arrived(link, epoch)
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
        self._handing[name] = handing
        self._context.call_later(HANDING_TIME, lambda: self._time_is_up(handing))

    def _time_is_up(self, handing: _Handing) -> None:
        if self._handing.get(handing.link.name) is handing:
            self.finish(handing.link.name)

    def gone(self, link: Link) -> None:
        """A client goes: what its copy has not handed over yet is not wanted any more."""
        self.served.discard(link)
        self._virtual.gone(link)
        handing = self._handing.get(link.name)
        if handing is not None and handing.link is link:
            self.finish(link.name)

    def finish(self, name: str) -> None:
        """Everything that the client wants was handed over."""
        handing = self._handing.pop(name, None)
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
        handing = self._handing.get(link.name)
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
        registration = self._virtual.stand_in(link, message)
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
        held = copy.buffer.of(copy, registration.id)
        copy.buffer.release(copy, registration.id)
        context.adopt(copy.inner.link, link, [registration])
        for envelope in held:
            origin = envelope.identity.origin
            if origin not in late and context.crowded(link):
                late[origin] = []
            if origin in late:
                late[origin].append(envelope)
            elif envelope.identity.position > after.get(origin, NOWHERE):
                handing.missed += 1
                context.tell(link, Deliver(envelope, (registration.id,)))  # it has passed DELIVER before
        for origin, envelopes in late.items():
            since = owed[origin] if origin in owed else max(before(envelopes[0]), after.get(origin, NOWHERE))
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
                and copy.overwritten.get(origin, NOWHERE) <= position <= reached.get(origin, NOWHERE)
            )
            if not complete:
                lacking[origin] = position
        for origin in {*copy.torn, *copy.overwritten, *copy.doubted} - after.keys():
            lacking[origin] = begins.get(origin, NOWHERE)
        return lacking
