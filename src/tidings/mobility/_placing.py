"""Placing: at which brokers there are copies of the clients of this one, and what these are told.

See `_protocol` for the theory of operation.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

from tidings.broker import Context, Link
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
    Warm,
    Whose,
    portions,
)
from ._hosted import Wishes
from ._neighbourhood import Neighbourhood
from ._options import MobilityOptions, Scheme
from ._protocol import Hosting
from ._warming import Warming
from ._woven import SECOND, Woven

TELL_DELAY = 50_000
"""Microseconds for which changes of subscriptions wait for others, to go together."""
WARM_AGAIN = 500_000
"""Microseconds after which copies of a client are told to listen whose subscriptions had not begun; each time twice."""
MAX_ATTEMPTS = 8
"""How often that is tried; then the next change of what the client subscribes to, or the next tree, tries it again."""
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
        self._warming = Warming(feature, options, neighbourhood)
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

    def wishes(self, name: str) -> Wishes:
        """Where there may be copies of a client that has come, and which of them are to listen."""
        client = self._clients[name]
        warm = self._warming.chosen(client, self._likely(client, client.told)).brokers
        return Wishes(tuple(sorted(client.told)), tuple(sorted(warm)))

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
        """Let all copies of a client rest that need not listen while it is connected."""
        for broker in sorted(client.told):
            self._send(broker, self._bidding(client, broker))
        if self._options.warms(client.whose.name):
            self.tell_soon(client)

    def delete(self, client: Controlled, *, ended: bool = False) -> None:
        """Delete all copies of a client."""
        for broker in sorted(client.told):
            self._send(broker, Delete(client.whose, ended=ended))

    def leave(self, client: Controlled, host: str, wishes: Wishes) -> Left:
        """Leave the copies that its new host wants; the others are to be deleted."""
        left = client.told.intersection(wishes.neighbours) if not client.located else set()
        copies = Copies(tuple(sorted(left & client.current)), client.version, client.digest) if left else None
        unwanted = sorted(client.told - left - {host})
        listen = client.listened_for or self._options.warms(client.whose.name)
        resting = sorted(left - {host, *wishes.warm}) if listen else []

        def let_go() -> None:
            for one in unwanted:
                self._send(one, Delete(client.whose))
            for one in resting:
                self._send(one, Deactivate(client.whose))

        return Left(copies, tuple(sorted(client.told - {host})) if client.listened_for else (), let_go)

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
            client.attempts = 0
            self._warm(client)

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
        virtual = set(self._likely(client, wanted)[: self._options.max_virtual_clients]) if client.located else set()
        client.current -= virtual ^ client.virtual
        client.virtual = virtual
        for broker in sorted(wanted - client.current):
            if self._send(broker, self._propagation(client, broker)):
                client.told.add(broker)
                client.current.add(broker)
                client.warm.discard(broker)  # what listened was something else
        client.warm &= client.current

    def _likely(self, client: Controlled, wanted: Collection[str]) -> list[str]:
        """These brokers, as likely as the client goes there next."""
        return [one for one in self._known_neighbours(client) if one in wanted]

    def _warm(self, client: Controlled) -> None:
        """Let copies listen at the likeliest neighbours of a client that is here, and the others rest."""
        chosen = self._warming.chosen(client, self._likely(client, client.current))
        for broker in sorted(client.warm - chosen.brokers):
            self._send(broker, Deactivate(client.whose))
        client.warm &= chosen.brokers
        if new := chosen.brokers - client.warm:
            if client.link is None or not self._is_served(client.link):
                self._attempt_again(client)
                return
            client.attempts = 0
            client.warm |= new
            for broker in sorted(new):
                self._send(broker, self._bidding(client, broker))
        if chosen.again is not None:
            self._warm_later(client, chosen.again)

    def _attempt_again(self, client: Controlled) -> None:
        if client.attempts < MAX_ATTEMPTS:
            self._warm_later(client, WARM_AGAIN << client.attempts)
            client.attempts += 1

    def _warm_later(self, client: Controlled, delay: int) -> None:
        if client.warming is None:
            client.warming = self._context.call_later(delay, lambda: self._warm_again(client))

    def _warm_again(self, client: Controlled) -> None:
        client.warming = None
        if self._clients.get(client.whose.name) is client and client.state is Hosting.HERE and not client.telling:
            self._warm(client)

    def _is_served(self, link: Link) -> bool:
        """Whether everything that a client wants has begun: where a copy begins follows from it."""
        return all(one.told and one not in self._context.holds for one in self._context.subscribed(link))

    def _propagation(self, client: Controlled, broker: str) -> Propagate:
        located = client.located if broker in client.virtual else ()
        return Propagate(client.whose, client.version, client.wanted, client.offered, located)

    def _settle_and_bid(self, client: Controlled) -> None:
        before = set(client.current)
        self.settle(client)
        for broker in sorted(client.current - before):
            self._send(broker, self._bidding(client, broker))

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
            client.warm &= client.current
            for broker in client.current:
                standing.setdefault(broker, []).append((client.whose, client.version, client.listened_for))
        for broker in sorted(standing):
            for some in portions(standing[broker]):
                warm = tuple(at for at, (whose, *_) in enumerate(some) if self._is_warm(whose, broker))
                self._send(broker, Standing(some, warm))
        self.reconcile()

    def missing(self, broker: str, whose: Whose) -> None:
        """A broker has no copy, or not this one."""
        client = self._clients.get(whose.name)
        if client is None or client.whose != whose or broker not in client.told:
            return
        if self._send(broker, self._propagation(client, broker)):
            self._send(broker, self._bidding(client, broker))

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
                    self._send(broker, self._bidding(client, broker))
                else:
                    client.current.discard(broker)
                    self.missing(broker, client.whose)

    def _bidding(self, client: Controlled, broker: str) -> Activate | Warm | Deactivate:
        """What a copy of a client is to do."""
        if client.listened_for:
            return self._activation(client)
        if broker in client.warm:
            if client.link is not None and self._is_served(client.link):
                positions = self._context.marks_of(self._context.subscribed(client.link))
                return Warm(client.whose, client.version, positions)
            client.warm.discard(broker)
            self._attempt_again(client)
        return Deactivate(client.whose)

    def _is_warm(self, whose: Whose, broker: str) -> bool:
        client = self._clients[whose.name]
        return broker in client.warm and not client.listened_for

    def _activation(self, client: Controlled) -> Activate:
        return Activate(client.whose, client.version, client.positions)

    def _send(self, broker: str, said: Said) -> bool:
        body = pack(Saying(said))
        if len(body) > MAX_CONTEXT:
            self.too_large += 1
            return False
        self.sent += 1
        return self._context.send_to(broker, body)
