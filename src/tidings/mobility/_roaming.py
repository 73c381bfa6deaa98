"""Roaming: the scheme `proactive`. Weaves the protocol of copies (`_protocol`) into a broker.

`_controlling` sends copies out for the clients of this broker; `_keeping` keeps those of others, and hands over what
they hold.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from tidings.broker import Advice, Entry, Feature, Guard, Joinpoint, Link, Tree
from tidings.model import EventKey

from ._claims import Claim
from ._controlling import Controlling
from ._copies import Missing, Standing, Whose, read_saying
from ._hosts import Admitted, Hosts
from ._keeping import Keeping
from ._neighbour_graph import NeighbourGraph
from ._options import MobilityOptions

_CHANGES = (Joinpoint.SUB_ADD, Joinpoint.SUB_DEL, Joinpoint.AD_ADD, Joinpoint.AD_DEL)


class Roaming(Feature):
    """Copies of clients, at the brokers where they may go next."""

    name = "roaming"

    def __init__(
        self,
        options: MobilityOptions,
        hosts: Hosts,
        graph: NeighbourGraph | None = None,
        *,
        guard_of: Callable[[str], Guard | None] = lambda owner: None,
        warn: Callable[[str], None] = lambda text: None,
    ) -> None:
        """`guard_of` says what clients of an identity may do here, and raises `TidingsError` if there is none."""
        self._hosts = hosts
        self._warn = warn
        self.graph = graph if graph is not None else NeighbourGraph(options.graph)
        self.keeping = Keeping(self, options, hosts, self.graph, guard_of=guard_of, warn=warn)
        self.controlling = Controlling(self, options, self.graph, self.keeping)
        self._woven = False

    def start(self) -> None:
        """From now on, hear of clients that come and go."""
        self._hosts.watcher = self
        self.context.stand_in(self.keeping.stand_in)
        self._weave()

    def advice(self) -> Mapping[Joinpoint, Advice]:
        """Steps that are rare; what every subscription passes is advised only while there are neighbours."""
        return {
            Joinpoint.AWAY: self._on_away,
            Joinpoint.BACK: self._on_back,
            Joinpoint.DETACH: self._on_detach,
            Joinpoint.TREE: self._on_tree,
        }

    def _weave(self) -> None:
        """Follow what clients subscribe to and acknowledge, once there is somebody who wants to know."""
        wanted = bool(self.graph.neighbours(self.context.name))
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
        self.keeping.gone(link)
        proceed(link)
        self.controlling.detached(link)

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
        self.context.call_later(0, self.controlling.say_again)

    # --- what hosts say -------------------------------------------------------------------------------

    def arrived(self, link: Link, admitted: Admitted) -> None:
        """A client has been attached here."""
        elsewhere = bool(admitted.shown and admitted.last and admitted.last != self.context.name)
        home = self.controlling.arrived(link, admitted.epoch, elsewhere=elsewhere)
        self.keeping.arrived(link, admitted.epoch, home, elsewhere=elsewhere)

    def claimed(self, claim: Claim) -> None:
        """Another broker hosts a client."""
        self.controlling.moved(Whose(claim.name, claim.owner, claim.epoch), claim.broker)

    def handed_over(self, claim: Claim) -> None:
        """A client has gone from here to another broker, which is a neighbour from now on."""
        self._learn(self.context.name, claim.broker, claim.name)

    def confirmed(self, client: str, old: str) -> None:
        """A client has come here from another broker, which is a neighbour from now on."""
        self._learn(old, self.context.name, client)

    def _learn(self, old: str, new: str, client: str) -> None:
        now = self.context.now()
        removed = self.graph.expire(now).removed
        learned = self.graph.learn(old, new, now, client=client)
        if removed or learned.added or learned.removed:
            self._weave()
            self.controlling.reconcile()

    # --- what other brokers say -----------------------------------------------------------------------

    def on_routed(self, source: str, body: bytes) -> None:
        """A controller speaks of a copy here, or a broker that lacks one asks for it."""
        try:
            said = read_saying(body).said
        except (msgspec.MsgspecError, ValueError):
            self.context.refused()
            return
        if isinstance(said, Missing):
            self.controlling.missing(source, said.whose)
        elif isinstance(said, Standing):
            self.keeping.standing(source, said)
        else:
            self.controlling.moved(said.whose, source)
            self.keeping.hear(source, said)
