"""Controlling: the copies that this broker wants elsewhere, of clients that it hosts or has hosted last.

See `_protocol` for the theory of operation, and for the table of clients that this module follows.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from tidings.broker import Context, Link, Timer
from tidings.model import EventKey, Position
from tidings.wire import pack

from ._claims import Copies
from ._copies import (
    MAX_STANDING,
    Activate,
    Announced,
    Deactivate,
    Delete,
    Offered,
    Propagate,
    Said,
    Saying,
    Standing,
    Wanted,
    Whose,
    portions,
)
from ._copy import Copy
from ._neighbourhood import Neighbourhood
from ._options import MobilityOptions, Scheme
from ._protocol import Do, Hosting, Noticed, of_client

SECOND = 1_000_000
TELL_DELAY = 50_000
"""Microseconds for which changes of subscriptions wait for others, to go together."""
MAX_CONTEXT = 524_288
"""The most bytes of what one client subscribes to and advertises; who has more is not copied."""
OFTEN = 10
"""How often a client may go in `OFTEN_TIME` before its copies are activated later."""
OFTEN_TIME = 60_000_000
"""Microseconds."""
MAX_PATIENCE = 30_000_000
"""Microseconds: the most by which they are."""
MAX_PREDICTED = 64
"""The most brokers that a location service may name for one client."""
REPLY_TIME = 1_000_000
"""Microseconds for which the old broker of a client may take to say which copies it leaves."""
MAX_MOVED = 100_000
"""The most clients of which a broker remembers that they have moved."""


class Woven(Protocol):
    """The feature that this is a part of."""

    @property
    def context(self) -> Context: ...


class HomeCopies(Protocol):
    """Who keeps copies here: those of clients that are away from here, too."""

    def open_home(self, link: Link, whose: Whose) -> Copy | None:
        """Let a copy adopt what a client subscribes to; None: it cannot."""
        ...

    def give_back(self, copy: Copy, link: Link) -> None:
        """Hand over what a copy holds to the client, which goes on as it was."""
        ...

    def drop_home(self, copy: Copy) -> None:
        """The client is elsewhere, or has ended."""
        ...


@dataclass(slots=True, eq=False)
class _Client:
    """A client that is hosted here, or was last."""

    whose: Whose
    link: Link | None
    state: Hosting = Hosting.HERE
    home: Copy | None = None
    """What listens while it is away."""
    told: set[str] = field(default_factory=set)
    """The brokers that have a copy of it."""
    current: set[str] = field(default_factory=set)
    """Those of them that have it as it is, under this epoch."""
    version: int = 0
    wanted: tuple[Wanted, ...] = ()
    offered: tuple[Offered, ...] = ()
    located: tuple[Wanted, ...] = ()
    """What it wants where it is."""
    virtual: set[str] = field(default_factory=set)
    """The brokers that were told of these."""
    acknowledged: dict[str, Position] = field(default_factory=dict)
    positions: dict[str, Position] = field(default_factory=dict)
    """From where on its copies listen."""
    timeout: Timer | None = None
    waking: Timer | None = None
    """While it is away, runs until its copies are told to listen."""
    telling: bool = False
    expecting: bool = False
    """Whether its old broker may say yet which copies it leaves."""
    inherits: Copies | None = None
    """These, until it is known what the client subscribes to here."""

    @property
    def listened_for(self) -> bool:
        """Whether its copies are to listen."""
        return self.state is Hosting.AWAY and self.waking is None


class Controlling:
    """The clients of one broker, and where there are copies of them."""

    def __init__(
        self, feature: Woven, options: MobilityOptions, neighbourhood: Neighbourhood, homes: HomeCopies
    ) -> None:
        self._feature = feature
        self._options = options
        self._neighbourhood = neighbourhood
        self._homes = homes
        self._clients: dict[str, _Client] = {}
        self._moved: dict[str, int] = {}
        """When clients have come from elsewhere, the earliest first."""
        self._departures: dict[str, deque[int]] = {}
        """When clients went lately; who went last stands at the end."""
        self.left_behind: Callable[[Whose, Copy], None] = lambda whose, home: homes.drop_home(home)
        """Takes the home copy of a client that is elsewhere now."""
        self.lends: Callable[[Whose, Copy, Collection[str], Callable[[], None]], None] | None = None
        """Takes the home copy of a client that is where it has no copy, the brokers with copies that listen, and what
        lets go of these; None: nobody is asked for what they have."""
        self.locate: Callable[[str], Iterable[str] | None] | None = None
        """A location service: the brokers where a client may go next, the likeliest first; None: it does not know."""
        self.started = 0
        """When this broker was."""
        self.sent = 0
        """How many messages were sent to other brokers."""
        self.too_large = 0
        """How many clients were not copied because they subscribe to too much."""

    def __len__(self) -> int:
        return len(self._clients)

    @property
    def _context(self) -> Context:
        return self._feature.context

    @property
    def away(self) -> int:
        """How many clients are away."""
        return sum(one.state is Hosting.AWAY for one in self._clients.values())

    # --- what happens to clients ----------------------------------------------------------------------

    def arrived(self, link: Link, epoch: int, *, elsewhere: bool) -> Copy | None:
        """A client has come; the home copy that it left behind when it was here last, if there is one."""
        known = self._clients.pop(link.name, None)
        home, listening = None, False
        if known is not None:
            home, known.home = known.home, None
            listening = known.listened_for
            self._stop(known)
        if elsewhere:
            self._note_move(link.name)
        client = _Client(Whose(link.name, link.owner, epoch), link)
        self._clients[link.name] = client
        if known is not None:  # the copies elsewhere are its own, and hear of what it subscribes to now
            client.told, client.version, client.virtual = known.told, known.version, known.virtual
            if listening:
                for broker in sorted(client.told):
                    self._send(broker, Deactivate(client.whose))
        if elsewhere and (near := self._neighbours(client)):
            client.told = client.told | near  # whatever its old broker leaves there is this one's from now on
            client.expecting = True
            self._context.call_later(REPLY_TIME, lambda: self._expected(client, None))
        elif client.told:
            self._tell_soon(client)
        return home

    def neighbours_of(self, name: str) -> tuple[str, ...]:
        """Where there may be copies of a client that has come."""
        return tuple(sorted(self._clients[name].told))

    def inherited(self, name: str, copies: Copies | None) -> None:
        """The old broker of a client has answered, and leaves some of its copies to this one."""
        if (client := self._clients.get(name)) is not None:
            self._expected(client, copies)

    def _expected(self, client: _Client, copies: Copies | None) -> None:
        if client.expecting and self._clients.get(client.whose.name) is client:
            client.expecting, client.inherits = False, copies
            self._tell_soon(client)

    def _note_move(self, name: str) -> None:
        now = self._context.now()
        self._moved.pop(name, None)
        self._moved[name] = now
        until = now - int(self._options.edge_timeout * SECOND)
        while self._moved and (len(self._moved) > MAX_MOVED or next(iter(self._moved.values())) < until):
            del self._moved[next(iter(self._moved))]

    def changed(self, link: Link) -> None:
        """A client may subscribe to, or advertise, something else than before."""
        client = self._clients.get(link.name)
        if client is not None and client.link is link and of_client(client.state, Noticed.CHANGES) is not None:
            self._tell_soon(client)

    def acknowledged(self, link: Link, key: EventKey) -> None:
        """What has reached the process of a client."""
        client = self._clients.get(link.name)
        if client is not None and client.link is link:
            client.acknowledged[key.origin] = Position(key.epoch, key.seq)

    def left(self, link: Link) -> None:
        """A client is away."""
        client = self._clients.get(link.name)
        if client is None or client.link is not link or of_client(client.state, Noticed.LEAVES) is None:
            return
        client.expecting, client.inherits = False, None
        self._look(client)
        if self._options.scheme is Scheme.PROACTIVE and not self._is_worth_it(client):
            return
        known = {**self._brought(link), **client.acknowledged}
        home = self._homes.open_home(link, client.whose)
        if home is None:
            return
        client.state, client.home = Hosting.AWAY, home
        client.positions = {origin: min(known.get(origin, mark), mark) for origin, mark in home.since.items()}
        delay = int(self._options.t_timeout * SECOND)
        client.timeout = self._context.call_later(delay, lambda: self._timed_out(client))
        if delay := self._patience(link.name):
            client.waking = self._context.call_later(delay, lambda: self._wake(client))
        else:
            self._wake(client)

    def _wake(self, client: _Client) -> None:
        """Let the copies of a client that is away listen."""
        client.waking = None
        self._settle_copies(client)
        for broker in sorted(client.told):
            self._send(broker, self._activation(client))

    def _patience(self, name: str) -> int:
        """How long to wait before copies are activated: who goes and comes all the time is mostly back before that."""
        now = self._context.now()
        times = self._departures.pop(name, None) or deque(maxlen=2 * OFTEN)
        times.append(now)
        while times[0] < now - OFTEN_TIME:
            times.popleft()
        self._departures[name] = times
        while len(self._departures) > MAX_MOVED or next(iter(self._departures.values()))[-1] < now - OFTEN_TIME:
            del self._departures[next(iter(self._departures))]
        return min(SECOND << (len(times) - OFTEN - 1), MAX_PATIENCE) if len(times) > OFTEN else 0

    def _brought(self, link: Link) -> dict[str, Position]:
        """The positions with which a client has come: it may have gone again before it acknowledged anything."""
        brought: dict[str, Position] = {}
        for registration in self._context.subscribed(link):
            for origin, position in (registration.after or {}).items():
                brought[origin] = min(position, brought.get(origin, position))
        return brought

    def returned(self, link: Link) -> None:
        """A client that was away is back, and its session goes on."""
        client = self._clients.get(link.name)
        if client is None or client.link is not link or of_client(client.state, Noticed.RETURNS) is None:
            return
        home, client.home = client.home, None
        assert home is not None
        listening = sorted(client.told) if client.waking is None else []
        self._stop(client)
        client.state = Hosting.HERE
        self._homes.give_back(home, link)
        for broker in listening:
            self._send(broker, Deactivate(client.whose))

    def detached(self, link: Link) -> None:
        """A client has gone; if it was away, it may still come back."""
        client = self._clients.get(link.name)
        if client is None or client.link is not link:
            return
        if of_client(client.state, Noticed.EXPIRES) is not None:
            client.link = None
        else:
            self._retract(client, Noticed.ENDS, ended=True)

    def dismissed(self, link: Link) -> None:
        """A client is sent away."""
        client = self._clients.get(link.name)
        if client is not None and client.link is link:
            self._retract(client, Noticed.ENDS, ended=True)

    def moved(self, whose: Whose, broker: str, neighbours: Collection[str] = ()) -> Copies | None:
        """Another broker hosts a client, or has hosted it last; it may have been here.

        Copies at `neighbours` of that broker are left to it: which of them are up to date.
        """
        client = self._clients.get(whose.name)
        if client is None or client.whose.owner != whose.owner or client.whose.epoch >= whose.epoch:
            return None
        if of_client(client.state, Noticed.MOVES) is None:
            return None
        left = client.told.intersection(neighbours) if not client.located else set()
        copies = Copies(tuple(sorted(left & client.current)), client.version, _digest(client)) if left else None
        resting = sorted(left - {broker}) if client.listened_for else []
        holders = sorted(client.told) if client.listened_for else []
        others = sorted(client.told - left - {broker})
        home, client.home = client.home, None
        del self._clients[client.whose.name]
        self._stop(client)

        def let_go() -> None:
            for one in others:
                self._send(one, Delete(client.whose))
            for one in resting:
                self._send(one, Deactivate(client.whose))

        if home is not None and self.lends is not None and broker not in client.told:
            self.lends(whose, home, holders, let_go)
        else:
            let_go()
            if home is not None:
                self.left_behind(whose, home)
        return copies

    def _timed_out(self, client: _Client) -> None:
        if self._clients.get(client.whose.name) is client:
            self._retract(client, Noticed.TIMES_OUT)

    def _retract(self, client: _Client, event: Noticed, *, ended: bool = False) -> None:
        """The copies of a client are not wanted any more."""
        row = of_client(client.state, event)
        if row is None or row.action is not Do.RETRACT:
            return
        del self._clients[client.whose.name]
        self._stop(client)
        for broker in sorted(client.told):
            self._send(broker, Delete(client.whose, ended=ended))
        if client.home is not None:
            home, client.home = client.home, None
            self._homes.drop_home(home)

    def _stop(self, client: _Client) -> None:
        if client.timeout is not None:
            client.timeout.cancel()
            client.timeout = None
        if client.waking is not None:
            client.waking.cancel()
            client.waking = None

    # --- copies ---------------------------------------------------------------------------------------

    def _neighbours(self, client: _Client) -> set[str]:
        """Where there should be copies of a client: brokers that can be reached, and that its scopes trust."""
        context, name = self._context, client.whose.name
        if not context.scoping.ready:
            return client.told & context.tree.hops.keys()  # who may know of it will be known
        known, trusts = self._known_neighbours(client), context.scoping.newest.trusts
        return {one for one in known if one in context.tree.hops and trusts(name, one)}

    def _known_neighbours(self, client: _Client) -> tuple[str, ...]:
        name = client.whose.name
        if self._options.scheme is not Scheme.PROACTIVE or not self._options.copies(name, moved=name in self._moved):
            return ()
        known = self.locate(name) if self.locate is not None else None
        if known is not None:
            return tuple(one for one in dict.fromkeys(known) if one != self._context.name)[:MAX_PREDICTED]
        return self._neighbourhood.graph.neighbours(self._context.name)

    def _is_worth_it(self, client: _Client) -> bool:
        """Whether a client that is away may come to a broker that listens; a location service may name this one."""
        known = self.locate(client.whose.name) if self.locate is not None else None
        return bool(self._known_neighbours(client)) or (known is not None and self._context.name in known)

    def relocated(self, name: str) -> None:
        """The location service knows something else of a client than before."""
        if (client := self._clients.get(name)) is not None:
            if client.state is Hosting.HERE:
                self._tell_soon(client)
            else:
                self._settle_and_bid(client)

    def _tell_soon(self, client: _Client) -> None:
        if not client.telling and not client.expecting and (client.told or self._neighbours(client)):
            client.telling = True
            self._context.call_later(TELL_DELAY, lambda: self._tell(client))

    def _tell(self, client: _Client) -> None:
        client.telling = False
        if self._clients.get(client.whose.name) is client and client.state is Hosting.HERE:
            self._look(client)
            self._settle_copies(client)

    def _look(self, client: _Client) -> None:
        """See what a client subscribes to; if it is something else than before, no copy is up to date."""
        if client.link is None:
            return
        context = self._context
        subscribed = context.subscribed(client.link)
        wanted = tuple(
            Wanted(one.id, one.filter, one.receive_own, one.duplicates, dict(one.meta))
            for one in subscribed
            if one.template is None  # at another place it would listen for what is here
        )
        located = tuple(
            Wanted(one.id, one.template, one.receive_own, one.duplicates, dict(one.meta))
            for one in subscribed
            if one.template is not None
        )
        offered = tuple(Offered(one.id, one.filter) for one in context.advertised(client.link))
        if (wanted, offered, located) != (client.wanted, client.offered, client.located) or not client.version:
            client.wanted, client.offered, client.located = wanted, offered, located
            client.version = max(client.version + 1, context.now())
            client.current.clear()
        copies, client.inherits = client.inherits, None
        if copies is not None and copies.digest == _digest(client) and not located:
            client.version = copies.version
            client.current |= client.told.intersection(copies.brokers)

    def _settle_copies(self, client: _Client) -> None:
        """Tell neighbours that have no copy, or not this one; delete those of brokers that are none any more."""
        wanted = self._neighbours(client) if client.version else set()
        for broker in sorted(client.told - wanted):
            self._send(broker, Delete(client.whose))
        client.told &= wanted
        client.current &= wanted
        virtual = set(self._ranked(client, wanted)) if client.located else set()
        client.current -= virtual ^ client.virtual
        client.virtual = virtual
        for broker in sorted(wanted - client.current):
            if self._send(broker, self._propagation(client, broker)):
                client.told.add(broker)
                client.current.add(broker)

    def _ranked(self, client: _Client, wanted: set[str]) -> list[str]:
        """Where the client is listened for all the time: the likeliest of its neighbours."""
        most = self._options.max_virtual_clients
        return [one for one in self._known_neighbours(client) if one in wanted][:most]

    def _propagation(self, client: _Client, broker: str) -> Propagate:
        located = client.located if broker in client.virtual else ()
        return Propagate(client.whose, client.version, client.wanted, client.offered, located)

    def _settle_and_bid(self, client: _Client) -> None:
        before = set(client.current)
        self._settle_copies(client)
        for broker in sorted(client.current - before):
            self._send(broker, self._bidding(client))

    def reconcile(self) -> None:
        """The neighbour graph has changed."""
        for client in self._clients.values():
            if client.state is Hosting.HERE:
                self._tell_soon(client)
            else:
                self._settle_and_bid(client)

    def scopes_changed(self) -> None:
        """Scopes may trust other brokers than before."""
        for client in self._clients.values():
            if client.version and self._neighbours(client) != client.told:
                self._tell_soon(client) if client.state is Hosting.HERE else self._settle_and_bid(client)

    def say_again(self) -> None:
        """There is a new tree, and what was under way is lost: say which copies are wanted."""
        standing: dict[str, list[tuple[Whose, int, bool]]] = {}
        for client in self._clients.values():
            client.told &= self._context.tree.hops.keys()  # who is no neighbour any more is told so, see `reconcile`
            client.current &= client.told
            for broker in client.current:
                standing.setdefault(broker, []).append((client.whose, client.version, client.listened_for))
        for broker in sorted(standing):
            for some in portions(standing[broker]):
                self._send(broker, Standing(some))
        self.reconcile()

    def missing(self, broker: str, whose: Whose) -> None:
        """A broker has no copy, or not this one."""
        client = self._clients.get(whose.name)
        if client is None or client.whose != whose or broker not in client.told:
            return
        if self._send(broker, self._propagation(client, broker)):
            self._send(broker, self._bidding(client))

    def announced(self, broker: str, said: Announced) -> None:
        """A broker has restarted, and says which copies it has from its disk: what becomes of each."""
        for whose, version, _ in said.copies[:MAX_STANDING]:
            client = self._clients.get(whose.name)
            if client is None:
                # Of clients that came before this broker was started itself it knows nothing: those copies expire.
                if whose.epoch >= self.started:
                    self._send(broker, Delete(whose))
            elif client.whose.owner != whose.owner or client.whose.epoch < whose.epoch:
                continue
            elif broker not in self._neighbours(client):
                self._send(broker, Delete(client.whose))
            else:
                client.told.add(broker)
                if client.whose == whose and client.version == version:
                    client.current.add(broker)
                    self._send(broker, self._bidding(client))
                else:
                    client.current.discard(broker)
                    self.missing(broker, client.whose)

    def _bidding(self, client: _Client) -> Activate | Deactivate:
        """What a copy of a client is to do."""
        return self._activation(client) if client.listened_for else Deactivate(client.whose)

    def _activation(self, client: _Client) -> Activate:
        return Activate(client.whose, client.version, client.positions)

    def _send(self, broker: str, said: Said) -> bool:
        body = pack(Saying(said))
        if len(body) > MAX_CONTEXT:
            self.too_large += 1
            return False
        self.sent += 1
        return self._context.send_to(broker, body)


def _digest(client: _Client) -> bytes:
    """Of what there are copies of, in whichever order it was announced."""
    wanted = tuple(sorted(client.wanted, key=lambda one: one.id))
    offered = tuple(sorted(client.offered, key=lambda one: one.id))
    return hashlib.blake2b(pack(Propagate(Whose("", "", 0), 0, wanted, offered)), digest_size=16).digest()
