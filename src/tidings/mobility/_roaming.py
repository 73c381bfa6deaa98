"""Roaming: the schemes `proactive` and `reactive`. Weaves the protocol of copies (`_protocol`) into a broker.

    _controlling    the clients of this broker           _keeping        the copies of clients of others
    _placing        where there are copies of them       _homes          those of clients that are away from here
    _patience       who goes and comes all the time      _handing_over   what a client gets that arrives

With `reactive` there are no copies but those at the broker that the client left; `_transfers` fetches what they hold
when the client arrives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import msgspec

from tidings.broker import Advice, Entry, Feature, Guard, Joinpoint, Link, Registration, Tree
from tidings.model import EventKey
from tidings.wire import Advertise, Subscribe

from ._admission import Admitted
from ._claims import Claim, Copies
from ._controlled import Controlled
from ._controlling import Controlling
from ._copies import Announced, Lent, Missing, Seek, Standing, Whose, read_saying
from ._fallback import Fallback
from ._handing_over import Found, HandingOver
from ._handoffs import seen
from ._homes import Homes
from ._hosted import Moved, Wishes
from ._hosts import Hosts
from ._keeping import Keeping
from ._neighbourhood import Neighbourhood
from ._options import MobilityOptions, Scheme
from ._placing import Placing
from ._room import OwnRoom, Room
from ._transfers import Transfers, read_transfer

SAY_AGAIN = (300_000, 3_000_000)
"""Microseconds after a new tree when controllers say which copies they want: twice, because some brokers on the way may
not be ready the first time."""
LOOK_DELAY = 500_000
"""Microseconds for which changes of the scope graph wait for others before copies are looked at."""
_CHANGES = (Joinpoint.SUB_ADD, Joinpoint.SUB_DEL, Joinpoint.AD_ADD, Joinpoint.AD_DEL)


class Roaming(Feature):
    """Copies of clients, at the brokers where they may go next."""

    name = "roaming"

    def __init__(
        self,
        options: MobilityOptions,
        hosts: Hosts,
        neighbourhood: Neighbourhood,
        *,
        room: Room | None = None,
        guard_of: Callable[[str], Guard | None] = lambda owner: None,
        warn: Callable[[str], None] = lambda text: None,
        locate: Callable[[str], Iterable[str] | None] | None = None,
    ) -> None:
        """`room` counts what is kept here for clients that are elsewhere.

        `guard_of` says what clients of an identity may do here, and raises `TidingsError` if there is none.

        `locate` is a location service: the brokers where a client may go next, the likeliest first, or None if it does
        not know; then the neighbour graph counts.
        """
        self._hosts = hosts
        self._scheme = options.scheme
        self._neighbourhood = neighbourhood
        self.keeping = Keeping(self, options, hosts, room or OwnRoom(), guard_of=guard_of, warn=warn)
        self.handing = HandingOver(self, self.keeping.virtual)
        self.homes = Homes(self, self.keeping.buffer, self.handing.finish)
        clients: dict[str, Controlled] = {}
        self.placing = Placing(self, options, neighbourhood, clients)
        self.placing.locate = locate
        self.controlling = Controlling(self, options, clients, self.placing, self.homes)
        self.transfers: Transfers | None = None
        if options.scheme is Scheme.REACTIVE:
            self.transfers = Transfers(self, self.homes, self.handing, merge_dedup=options.merge_dedup)
            self.controlling.left_behind = self.transfers.left_behind
        self.fallback: Fallback | None = None
        if options.scheme is Scheme.PROACTIVE:
            self.fallback = Fallback(self, self.keeping.buffer, self.keeping.copies, self.homes.drop)
            self.controlling.lends = self.fallback.left_behind
        self._woven = False
        self._looking = False
        self._moves: dict[str, Moved] = {}
        """Moves of clients to this broker, of which it is not known yet what these found."""
        self._found: dict[str, Found] = {}
        """What clients found of whom it is not known yet that they have moved."""
        hosts.watcher = self
        hosts.on_move.append(self._on_move)
        neighbourhood.reported = True
        neighbourhood.copy_of = self.keeping.state_of
        neighbourhood.on_change.append(lambda change: self._on_neighbours())
        self.handing.found = self._on_found
        self.handing.adopted = self.controlling.changed

    @property
    def listening(self) -> int:
        """How many copies listen here, those of clients that are away from here among them."""
        return len(self.homes) + self.keeping.listening

    @property
    def refused(self) -> int:
        """How many copies could not be taken or opened."""
        return self.homes.refused + self.keeping.refused

    @property
    def fetched(self) -> int:
        """How many notifications clients here got from brokers that had listened for them elsewhere."""
        several = self.transfers, self.fallback
        return sum(one.fetched for one in several if one is not None)

    def start(self) -> None:
        """From now on, hear of clients that come and go."""
        self.context.stand_in(self._stand_in)
        self.placing.started = self.context.now()
        self.keeping.start()
        self._weave()

    def advice(self) -> Mapping[Joinpoint, Advice]:
        """Steps that are rare; what every subscription passes is advised only while there are neighbours."""
        return {
            Joinpoint.AWAY: self._on_away,
            Joinpoint.BACK: self._on_back,
            Joinpoint.DETACH: self._on_detach,
            Joinpoint.TREE: self._on_tree,
            Joinpoint.GRAPH: self._on_graph,
            **({Joinpoint.SUBSCRIBE: self._on_subscribe} if self.transfers is not None else {}),
        }

    def _weave(self) -> None:
        """Follow what clients subscribe to and acknowledge, once there is somebody who wants to know."""
        proactive = self._scheme is Scheme.PROACTIVE
        known = self._neighbourhood.graph.neighbours(self.context.name)
        wanted = proactive and bool(known or self.placing.locate is not None)
        if wanted == self._woven:
            return
        self._woven = wanted
        if wanted:
            self.context.weave({**dict.fromkeys(_CHANGES, self._on_change), Joinpoint.ACK: self._on_ack})
        else:
            self.context.unweave(*_CHANGES, Joinpoint.ACK)

    # --- what happens at this broker ------------------------------------------------------------------

    def _on_away(self, proceed: Callable[..., None], link: Link) -> None:
        proceed(link)
        self.controlling.left(link)

    def _on_back(self, proceed: Callable[..., None], link: Link) -> None:
        proceed(link)
        self.controlling.returned(link)

    def _on_detach(self, proceed: Callable[..., None], link: Link) -> None:
        self.handing.gone(link)
        if self.transfers is not None:
            self.transfers.gone(link)
        if self.fallback is not None:
            self.fallback.gone(link)
        self._moves.pop(link.name, None)
        self._found.pop(link.name, None)
        proceed(link)
        self.controlling.detached(link)

    def _stand_in(self, link: Link, message: Subscribe | Advertise) -> Registration | None:
        if self.fallback is not None:
            self.fallback.announces(link)
        return self.handing.stand_in(link, message)

    def _on_subscribe(self, proceed: Callable[..., None], registration: Registration) -> None:
        proceed(registration)
        assert self.transfers is not None
        self.transfers.subscribed(registration)

    def _on_change(self, proceed: Callable[..., object], scope: str, entry: Entry) -> object:
        result = proceed(scope, entry)
        self.controlling.changed(entry.link)
        return result

    def _on_ack(self, proceed: Callable[..., None], link: Link, key: EventKey) -> None:
        proceed(link, key)
        self.controlling.acknowledged(link, key)

    def _on_tree(self, proceed: Callable[..., None], old: Tree, new: Tree) -> None:
        proceed(old, new)
        self.keeping.new_tree()
        for delay in SAY_AGAIN:
            self.context.call_later(delay, lambda: self._say_again(new))

    def _on_graph(self, proceed: Callable[..., None], old: int, new: int) -> None:
        proceed(old, new)
        if not self._looking and (self.keeping.copies or len(self.controlling)):
            self._looking = True
            self.context.call_later(LOOK_DELAY, self._look_at_scopes)

    def _look_at_scopes(self) -> None:
        """Scopes, or their members, are others than before: so are the brokers that may have copies."""
        self._looking = False
        self.keeping.scopes_changed()
        self.placing.scopes_changed()

    def _say_again(self, tree: Tree) -> None:
        if self.context.tree is tree:
            self.keeping.announce()
            self.placing.say_again()

    def dismissed(self, link: Link) -> None:
        """This broker sends a client away: it is not away."""
        self.controlling.dismissed(link)

    def scheme_of(self, link: Link) -> str:
        """How a client here has got what it had missed."""
        scheme = self._scheme if link in self.handing.served else Scheme.ORIGINS
        if self.fallback is not None and link in self.fallback.served:
            scheme = Scheme.REACTIVE
        return str(scheme.value)

    # --- what hosts say -------------------------------------------------------------------------------

    def arrived(self, link: Link, admitted: Admitted) -> Wishes:
        """A client has been attached here; where there may be copies of it."""
        elsewhere = bool(admitted.shown and admitted.last and admitted.last != self.context.name)
        home = self.controlling.arrived(link, admitted.epoch, elsewhere=elsewhere)
        if self.transfers is not None:
            home = home or self.transfers.take_back(link.name)
        if self.fallback is not None:
            home = home or self.fallback.take_back(link.name)
            if elsewhere and link.name not in self.keeping.copies:
                self.fallback.arrived(link, Whose(link.name, link.owner, admitted.epoch), admitted.last)
        fetches = elsewhere and self.transfers is not None
        copy = self.keeping.arrived(link, admitted.epoch)
        if home is not None:
            self.homes.take(home)
            if copy is not None:
                copy.close()
            copy = home
        self.handing.arrived(link, admitted.epoch, copy, elsewhere=elsewhere and not fetches)
        if self.transfers is not None and fetches:
            self.transfers.arrived(link, Whose(link.name, link.owner, admitted.epoch), admitted.last)
        return self.placing.wishes(link.name)

    def claimed(self, claim: Claim) -> Copies | None:
        """Another broker hosts a client."""
        whose = Whose(claim.name, claim.owner, claim.epoch)
        return self.controlling.moved(whose, claim.broker, Wishes(claim.neighbours, claim.warm))

    def inherited(self, name: str, copies: Copies | None) -> None:
        """The old broker of a client that has come here leaves copies to this one."""
        self.placing.inherited(name, copies)

    def _on_neighbours(self) -> None:
        """This broker has got or lost neighbours."""
        self._weave()
        self.placing.reconcile()

    def _on_move(self, moved: Moved) -> None:
        """A client has moved, and its old broker has confirmed it."""
        if moved.new == self.context.name:
            self._moves[moved.client] = moved
            self._report(moved.client)

    def _on_found(self, client: str, found: Found) -> None:
        """A client has come from elsewhere, and this is what it found."""
        self._found[client] = found
        self._report(client)

    def _report(self, client: str) -> None:
        """Report a hand-off when both are known: that it was one, and what came of it."""
        if client in self._moves and client in self._found:
            moved, found = self._moves.pop(client), self._found.pop(client)
            hand_off = seen(moved, self.context.now())
            self._neighbourhood.handed_off(
                hand_off._replace(outcome=found.outcome, missed=found.missed, pause=found.pause)
            )

    # --- what other brokers say -----------------------------------------------------------------------

    def on_routed(self, source: str, body: bytes) -> None:
        """A controller speaks of a copy here, or a broker that lacks one asks for it."""
        try:
            if self.transfers is not None:
                self.transfers.hear(source, read_transfer(body).said, self.controlling.moved)
                return
            said = read_saying(body).said
        except (msgspec.MsgspecError, ValueError):
            self.context.refused()
            return
        if isinstance(said, Missing):
            self.placing.missing(source, said.whose)
        elif isinstance(said, Standing):
            self.keeping.standing(source, said)
        elif isinstance(said, Announced):
            self.placing.announced(source, said)
        elif isinstance(said, Seek):
            if self.fallback is not None:
                self.fallback.asked(source, said)
        elif isinstance(said, Lent):
            if self.fallback is not None:
                self.fallback.heard(said)
        else:
            self.controlling.moved(said.whose, source)
            self.keeping.hear(source, said)
