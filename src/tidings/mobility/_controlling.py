"""Controlling: the copies that this broker wants elsewhere, of clients that it hosts or has hosted last.

See `_protocol` for the theory of operation, and for the table of clients that this module follows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Protocol

from tidings.broker import Context, Link
from tidings.model import EventKey, Position

from ._claims import Copies
from ._controlled import Controlled
from ._copies import Whose
from ._copy import Copy
from ._hosted import NO_WISHES, Wishes
from ._options import MobilityOptions, Scheme
from ._patience import Patience
from ._placing import Placing
from ._protocol import Do, Hosting, Noticed, of_client
from ._woven import SECOND, Woven


class HomeCopies(Protocol):
    """Who keeps copies here of clients that are away from here."""

    def open(self, link: Link, whose: Whose) -> Copy | None:
        """Let a copy adopt what a client subscribes to; None: it cannot."""
        ...

    def give_back(self, copy: Copy, link: Link) -> None:
        """Hand over what a copy holds to the client, which goes on as it was."""
        ...

    def drop(self, copy: Copy) -> None:
        """The client is elsewhere, or has ended."""
        ...


class Controlling:
    """The clients of one broker, and where there are copies of them."""

    def __init__(
        self,
        feature: Woven,
        options: MobilityOptions,
        clients: dict[str, Controlled],
        placing: Placing,
        homes: HomeCopies,
    ) -> None:
        """`clients` are those that are hosted here, or were last, by name."""
        self._feature = feature
        self._options = options
        self._clients = clients
        self._placing = placing
        self._homes = homes
        self._patience = Patience()
        self.in_use: Callable[[str], Iterable[Mapping[str, Position]]] = lambda client: ()
        """How far a client has come in each durable subscription that it uses, as it has said itself."""
        self.left_behind: Callable[[Whose, Copy], None] = lambda whose, home: homes.drop(home)
        """Takes the home copy of a client that is elsewhere now."""
        self.lends: Callable[[Whose, Copy, Collection[str], Callable[[], None]], None] | None = None
        """Takes the home copy of a client that is where it has no copy, the brokers with copies that listen, and what
        lets go of these; None: nobody is asked for what they have."""

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
        client = Controlled(Whose(link.name, link.owner, epoch), link, since=self._context.now())
        self._clients[link.name] = client
        self._placing.arrived(client, known, elsewhere=elsewhere)
        if known is None:
            return None
        self._stop(known)
        home, known.home = known.home, None
        return home

    def changed(self, link: Link) -> None:
        """A client may subscribe to, or advertise, something else than before."""
        client = self._clients.get(link.name)
        if client is not None and client.link is link and of_client(client.state, Noticed.CHANGES) is not None:
            self._placing.tell_soon(client)

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
        self._placing.look(client)
        if self._options.scheme is Scheme.PROACTIVE and not self._placing.is_worth_it(client):
            return
        known = self._consumed(client)
        home = self._homes.open(link, client.whose)
        if home is None:
            return
        client.state, client.home = Hosting.AWAY, home
        client.positions = {origin: min(known.get(origin, mark), mark) for origin, mark in home.since.items()}
        delay = int(self._options.t_timeout * SECOND)
        client.timeout = self._context.call_later(delay, lambda: self._timed_out(client))
        if delay := self._patience.with_one_that_goes(link.name, self._context.now()):
            client.waking = self._context.call_later(delay, lambda: self._wake(client))
        else:
            self._wake(client)

    def _wake(self, client: Controlled) -> None:
        """Let the copies of a client that is away listen."""
        client.waking = None
        self._placing.activate(client)

    def _consumed(self, client: Controlled) -> dict[str, Position]:
        """By origin, how far the client has come at least in each of its subscriptions.

        With a durable one its next process goes on from what it has kept, and with others from what has reached it. A
        client may have gone again before it acknowledged anything: then it is where it was when it came.
        """
        assert client.link is not None
        brought = [registration.after or {} for registration in self._context.subscribed(client.link)]
        consumed = {**_least(brought), **client.acknowledged}
        return _least([consumed, *self.in_use(client.whose.name)])

    def returned(self, link: Link) -> None:
        """A client that was away is back, and its session goes on."""
        client = self._clients.get(link.name)
        if client is None or client.link is not link or of_client(client.state, Noticed.RETURNS) is None:
            return
        home, client.home = client.home, None
        assert home is not None
        listening = client.listened_for
        self._stop(client)
        client.state = Hosting.HERE
        self._homes.give_back(home, link)
        if listening:
            self._placing.let_rest(client)

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

    def moved(self, whose: Whose, broker: str, wishes: Wishes = NO_WISHES) -> Copies | None:
        """Another broker hosts a client, or has hosted it last; it may have been here.

        Copies that this one wishes for are left to it: which of them are up to date.
        """
        client = self._clients.get(whose.name)
        if client is None or client.whose.owner != whose.owner or client.whose.epoch >= whose.epoch:
            return None
        if of_client(client.state, Noticed.MOVES) is None:
            return None
        found_one = broker in client.told
        left = self._placing.leave(client, broker, wishes)
        home, client.home = client.home, None
        self._forget(client)
        if home is not None and self.lends is not None and not found_one:
            self.lends(whose, home, left.listening, left.let_go)
        else:
            left.let_go()
            if home is not None:
                self.left_behind(whose, home)
        return left.copies

    def _timed_out(self, client: Controlled) -> None:
        if self._clients.get(client.whose.name) is client:
            self._retract(client, Noticed.TIMES_OUT)

    def _retract(self, client: Controlled, event: Noticed, *, ended: bool = False) -> None:
        """The copies of a client are not wanted any more."""
        row = of_client(client.state, event)
        if row is None or row.action is not Do.RETRACT:
            return
        self._placing.delete(client, ended=ended)
        self._forget(client)

    def _forget(self, client: Controlled) -> None:
        del self._clients[client.whose.name]
        self._stop(client)
        if client.home is not None:
            home, client.home = client.home, None
            self._homes.drop(home)

    def _stop(self, client: Controlled) -> None:
        if client.timeout is not None:
            client.timeout.cancel()
            client.timeout = None
        if client.waking is not None:
            client.waking.cancel()
            client.waking = None
        if client.warming is not None:
            client.warming.cancel()
            client.warming = None


def _least(several: Iterable[Mapping[str, Position]]) -> dict[str, Position]:
    least: dict[str, Position] = {}
    for positions in several:
        for origin, position in positions.items():
            least[origin] = min(position, least.get(origin, position))
    return least
