"""Placing: at which brokers there are copies of the clients of this one, and what these are told.

See `_protocol` for the theory of operation.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

from tidings.broker import Context
from tidings.wire import pack

from ._claims import Copies
from ._controlled import Controlled
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
from ._neighbourhood import Neighbourhood
from ._options import MobilityOptions, Scheme
from ._protocol import Hosting
from ._woven import SECOND, Woven

TELL_DELAY = 50_000
"""Microseconds for which changes of subscriptions wait for others, to go together."""
MAX_CONTEXT = 524_288
"""The most bytes of what one client subscribes to and advertises; who has more is not copied."""
MAX_PREDICTED = 64
"""The most brokers that a location service may name for one client."""
REPLY_TIME = 1_000_000
"""Microseconds for which the old broker of a client may take to say which copies it leaves."""
MAX_MOVED = 100_000
"""The most clients of which a broker remembers that they have moved."""


class Left(NamedTuple):
    """What becomes of the copies of a client that another broker hosts now."""

    copies: Copies | None
    """Those that its new host wants: which of them are up to date."""
    listening: tuple[str, ...]
    """The brokers whose copies listen."""
    let_go: Callable[[], None]
    """Puts these to rest, and deletes the others."""


class Placing:
    """Where there are copies of the clients of one broker."""

    def __init__(
        self,
        feature: Woven,
        options: MobilityOptions,
        neighbourhood: Neighbourhood,
        clients: Mapping[str, Controlled],
    ) -> None:
        """`clients` are those that are hosted here, or were last, by name."""
        self._feature = feature
        self._options = options
        self._neighbourhood = neighbourhood
        self._clients = clients
        self._moved: dict[str, int] = {}
        """When clients have come from elsewhere, the earliest first."""
        self.locate: Callable[[str], Iterable[str] | None] | None = None
        """A location service: the brokers where a client may go next, the likeliest first; None: it does not know."""
        self.started = 0
        """When this broker was."""
        self.sent = 0
        """How many messages were sent to other brokers."""
        self.too_large = 0
        """How many clients were not copied because they subscribe to too much."""

    @property
    def _context(self) -> Context:
        return self._feature.context

    def neighbours_of(self, name: str) -> tuple[str, ...]:
        """Where there may be copies of a client that has come."""
        return tuple(sorted(self._clients[name].told))

    def arrived(self, client: Controlled, known: Controlled | None, *, elsewhere: bool) -> None:
        """A client has come; `known` is what was known of it here before."""
        if elsewhere:
            self._note_move(client.whose.name)
        if known is not None:  # the copies elsewhere are its own, and hear of what it subscribes to now
            client.told, client.version, client.virtual = known.told, known.version, known.virtual
            if known.listened_for:
                self.let_rest(client)
        if elsewhere and (near := self._neighbours(client)):
            client.told = client.told | near  # whatever its old broker leaves there is this one's from now on
            client.expecting = True
            self._context.call_later(REPLY_TIME, lambda: self._expected(client, None))
        elif client.told:
            self.tell_soon(client)

    def inherited(self, name: str, copies: Copies | None) -> None:
        """The old broker of a client has answered, and leaves some of its copies to this one."""
        if (client := self._clients.get(name)) is not None:
            self._expected(client, copies)

    def _expected(self, client: Controlled, copies: Copies | None) -> None:
        if client.expecting and self._clients.get(client.whose.name) is client:
            client.expecting, client.inherits = False, copies
            self.tell_soon(client)

    def _note_move(self, name: str) -> None:
        now = self._context.now()
        self._moved.pop(name, None)
        self._moved[name] = now
        until = now - int(self._options.edge_timeout * SECOND)
        while self._moved and (len(self._moved) > MAX_MOVED or next(iter(self._moved.values())) < until):
            del self._moved[next(iter(self._moved))]

    # --- what copies are told -------------------------------------------------------------------------

    def activate(self, client: Controlled) -> None:
        """Let the copies of a client that is away listen."""
        self.settle(client)
        for broker in sorted(client.told):
            self._send(broker, self._activation(client))

    def let_rest(self, client: Controlled) -> None:
        """Let all copies of a client rest."""
        for broker in sorted(client.told):
            self._send(broker, Deactivate(client.whose))

    def delete(self, client: Controlled, *, ended: bool = False) -> None:
        """Delete all copies of a client."""
        for broker in sorted(client.told):
            self._send(broker, Delete(client.whose, ended=ended))

    def leave(self, client: Controlled, host: str, neighbours: Collection[str]) -> Left:
        """Leave the copies that its new host wants; the others are to be deleted."""
        left = client.told.intersection(neighbours) if not client.located else set()
        copies = Copies(tuple(sorted(left & client.current)), client.version, client.digest) if left else None
        listening = tuple(sorted(client.told - {host})) if client.listened_for else ()
        unwanted = sorted(client.told - left - {host})

        def let_go() -> None:
            for one in unwanted:
                self._send(one, Delete(client.whose))
            for one in listening:
                if one in left:
                    self._send(one, Deactivate(client.whose))

        return Left(copies, listening, let_go)

    # --- where they are -------------------------------------------------------------------------------

    def _neighbours(self, client: Controlled) -> set[str]:
        """Where there should be copies of a client: brokers that can be reached, and that its scopes trust."""
        context, name = self._context, client.whose.name
        if not context.scoping.ready:
            return client.told & context.tree.hops.keys()  # who may know of it will be known
        known, trusts = self._known_neighbours(client), context.scoping.newest.trusts
        return {one for one in known if one in context.tree.hops and trusts(name, one)}

    def _known_neighbours(self, client: Controlled) -> tuple[str, ...]:
        name = client.whose.name
        if self._options.scheme is not Scheme.PROACTIVE or not self._options.copies(name, moved=name in self._moved):
            return ()
        known = self.locate(name) if self.locate is not None else None
        if known is not None:
            return tuple(one for one in dict.fromkeys(known) if one != self._context.name)[:MAX_PREDICTED]
        return self._neighbourhood.graph.neighbours(self._context.name)

    def is_worth_it(self, client: Controlled) -> bool:
        """Whether a client that is away may come to a broker that listens; a location service may name this one."""
        known = self.locate(client.whose.name) if self.locate is not None else None
        return bool(self._known_neighbours(client)) or (known is not None and self._context.name in known)

    def relocated(self, name: str) -> None:
        """The location service knows something else of a client than before."""
        if (client := self._clients.get(name)) is not None:
            if client.state is Hosting.HERE:
                self.tell_soon(client)
            else:
                self._settle_and_bid(client)

    def tell_soon(self, client: Controlled) -> None:
        if not client.telling and not client.expecting and (client.told or self._neighbours(client)):
            client.telling = True
            self._context.call_later(TELL_DELAY, lambda: self._tell(client))

    def _tell(self, client: Controlled) -> None:
        client.telling = False
        if self._clients.get(client.whose.name) is client and client.state is Hosting.HERE:
            self.look(client)
            self.settle(client)

    def look(self, client: Controlled) -> None:
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
        if copies is not None and copies.digest == client.digest and not located:
            client.version = copies.version
            client.current |= client.told.intersection(copies.brokers)

    def settle(self, client: Controlled) -> None:
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

    def _ranked(self, client: Controlled, wanted: set[str]) -> list[str]:
        """Where the client is listened for all the time: the likeliest of its neighbours."""
        most = self._options.max_virtual_clients
        return [one for one in self._known_neighbours(client) if one in wanted][:most]

    def _propagation(self, client: Controlled, broker: str) -> Propagate:
        located = client.located if broker in client.virtual else ()
        return Propagate(client.whose, client.version, client.wanted, client.offered, located)

    def _settle_and_bid(self, client: Controlled) -> None:
        before = set(client.current)
        self.settle(client)
        for broker in sorted(client.current - before):
            self._send(broker, self._bidding(client))

    def reconcile(self) -> None:
        """The neighbour graph has changed."""
        for client in self._clients.values():
            if client.state is Hosting.HERE:
                self.tell_soon(client)
            else:
                self._settle_and_bid(client)

    def scopes_changed(self) -> None:
        """Scopes may trust other brokers than before."""
        for client in self._clients.values():
            if client.version and self._neighbours(client) != client.told:
                self.tell_soon(client) if client.state is Hosting.HERE else self._settle_and_bid(client)

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

    def _bidding(self, client: Controlled) -> Activate | Deactivate:
        """What a copy of a client is to do."""
        return self._activation(client) if client.listened_for else Deactivate(client.whose)

    def _activation(self, client: Controlled) -> Activate:
        return Activate(client.whose, client.version, client.positions)

    def _send(self, broker: str, said: Said) -> bool:
        body = pack(Saying(said))
        if len(body) > MAX_CONTEXT:
            self.too_large += 1
            return False
        self.sent += 1
        return self._context.send_to(broker, body)
