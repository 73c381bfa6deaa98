"""Adjacency: from links to a tree whose neighbours are ready to be told things.

Theory of operation
-------------------
When this broker's tree changes it forgets what neighbours said, starts a new *generation* and sends `Attach` with
it to every tree neighbour. On both sides of a tree edge:

    Attach(e, g, seen) from h, e being my own tree epoch (any other is stale and dropped):
      g is new to me       h has started anew: forget what it said, answer Attach(e, my generation, seen=g),
                           then tell it everything (the link is *open*)
      seen is my current   h answered my current generation: what follows is meant for it (the link is *accepting*)
        generation

Links are FIFO, so what a neighbour said to an earlier generation arrives before its answer to the current one and is
dropped, and what it says afterwards is complete. A broker that goes from one tree to another and back to the first
is understood although the tree epoch is the same as before: its generation is new.

Many links often come or go together, and every state of a link could be another tree. So a broker waits for further
states before it adopts a tree, for `ADOPT_QUIET` after the last one and `ADOPT_LONGEST` after the first, and joins its
own links that come up within `ADOPT_QUIET` into one state. Passing on the states of others never waits, and a
broker that has lost a link of its own adopts at once. This is safe:

- A neighbour opens a link only when it hears `Attach` of its own epoch. So nothing but `Attach` can be lost at a
  broker that adopts later, and its own `Attach`, which follows, starts the handshake again.
- Frames of the old tree flow on a path until the first broker on it leaves. What is dropped from there on is fetched
  (see `_recovery`), as if it had been under way.
- A tree that was left never comes back under its epoch, because losses are counted in it (see `_topology`).
"""

from __future__ import annotations

from tidings.broker._links import Link
from tidings.broker._runtime import Timer
from tidings.model import TopologyError
from tidings.wire import Attach, Hop, LinkState

from ._host import Host
from ._topology import Topology, Tree

DEFENCE_DELAY = 500_000
"""Microseconds before a wrong state of this broker's links is answered: two of one name must not flood the network."""


ADOPT_QUIET = 10_000
"""Microseconds without a new state of a link after which a tree is adopted."""
ADOPT_LONGEST = 200_000
"""Microseconds after the first new state after which a tree is adopted in any case."""


class Adjacency:
    """The links to neighbour brokers, the current tree, and how far each tree neighbour has come."""

    def __init__(self, host: Host, epoch: int, *, strict: bool) -> None:
        self._host = host
        self._strict = strict
        self.topology = Topology(host.name, epoch)
        self.tree: Tree = self.topology.tree()
        self.hop = Hop(self.tree.epoch)
        """The header of everything that belongs to the current tree."""
        self.generation = 0
        self.neighbours: dict[str, Link] = {}
        self._peers: dict[Link, int] = {}
        self._accepting: set[Link] = set()
        self._contested: LinkState | None = None
        self._untold: dict[str, None] = {}
        """Neighbours whose links have come up, and stand in no state yet."""
        self._quiet: Timer | None = None
        self._longest: Timer | None = None

    @property
    def tree_links(self) -> list[Link]:
        """The links that the tree uses, ready or not."""
        return [self.neighbours[name] for name in sorted(self.tree.neighbours) if name in self.neighbours]

    def is_open(self, link: Link) -> bool:
        """Whether the neighbour is ready to be told things."""
        return link in self._peers

    @property
    def open_links(self) -> list[Link]:
        """The tree neighbours that are ready to be told things."""
        return [link for link in self.tree_links if link in self._peers]

    def accepts(self, link: Link, tree_epoch: int) -> bool:
        """Whether a frame of this tree epoch from this neighbour is meant for the current generation."""
        return tree_epoch == self.tree.epoch and link in self._accepting

    def awaits(self, link: Link) -> bool:
        """Whether the tree uses this link, and the neighbour behind it has not finished its handshake."""
        return link.name in self.tree.neighbours and not (link in self._peers and link in self._accepting)

    def hop_towards(self, broker: str) -> Link | None:
        """The open link in whose direction a broker lies."""
        link = self.neighbours.get(self.tree.hops.get(broker, ""))
        return link if link is not None and self.is_open(link) else None

    # --- physical links -------------------------------------------------------------------------------

    def link_up(self, link: Link) -> None:
        """A link to a neighbour has come up."""
        neighbour = link.name
        if neighbour == self._host.name:
            raise TopologyError(f"broker '{neighbour}' cannot be its own neighbour; check the configured links")
        if neighbour in self.neighbours:
            raise TopologyError(f"there is a link to '{neighbour}' already; close it first")
        if self._strict and self.topology.reachable(neighbour, self._untold):
            raise TopologyError(
                f"a link to '{neighbour}' would close a cycle, and topology is \"strict\"; "
                'leave it out, or use topology = "tree"'
            )
        self.neighbours[neighbour] = link
        for state in self.topology.states():
            if state.neighbours:
                self._host.send(link, state)
        if not self._untold:
            self._host.call_later(ADOPT_QUIET, self._tell_links)
        self._untold[neighbour] = None

    def _tell_links(self) -> None:
        """Flood one state for all links that have come up meanwhile."""
        if self._untold:
            added, self._untold = self._untold, {}
            self._flood(self.topology.links_up(added), None)
            self._adopt_soon()

    def link_down(self, link: Link) -> None:
        """A link is lost, and with it everything that was under way on it."""
        del self.neighbours[link.name]
        if link.name in self._untold:
            del self._untold[link.name]
        else:
            self._flood(self.topology.link_down(link.name), None)
            self._adopt()

    def learn(self, link: Link, state: LinkState) -> None:
        """A state has come from a neighbour."""
        if self.topology.learn(state):
            self._flood(state, link)
            self._adopt_soon()
        elif self.topology.contests(state):
            if self._contested is None:
                self._host.call_later(DEFENCE_DELAY, self._defend)
            self._contested = state

    def _defend(self) -> None:
        contested, self._contested = self._contested, None
        if contested is not None and self.topology.contests(contested):
            self._flood(self.topology.defend(contested), None)
            self._adopt_soon()

    def _flood(self, state: LinkState, source: Link | None) -> None:
        for link in self.neighbours.values():
            if link is not source:
                self._host.send(link, state)

    # --- the tree -------------------------------------------------------------------------------------

    def _adopt_soon(self) -> None:
        """There is a new state, and others may follow: let them come first."""
        if self._quiet is not None:
            self._quiet.cancel()
        self._quiet = self._host.call_later(ADOPT_QUIET, self._adopt)
        if self._longest is None:
            self._longest = self._host.call_later(ADOPT_LONGEST, self._adopt)

    def _adopt(self) -> None:
        for timer in (self._quiet, self._longest):
            if timer is not None:
                timer.cancel()
        self._quiet = self._longest = None
        tree = self.topology.tree()
        if tree.epoch != self.tree.epoch:
            self._host.at_tree(self.tree, tree)

    def adopt(self, tree: Tree) -> None:
        """Start a new generation on a new tree."""
        self.tree = tree
        self.hop = Hop(tree.epoch)
        self.generation += 1
        self._peers.clear()
        self._accepting.clear()
        for link in self.tree_links:
            self._host.send(link, Attach(tree.epoch, self.generation))

    def attach(self, link: Link, message: Attach) -> None:
        """A tree neighbour has started anew, or answers."""
        if message.tree_epoch != self.tree.epoch or link.name not in self.tree.neighbours:
            self._host.statistics.stale_frames += 1
            return
        if self._peers.get(link) != message.generation:
            started_before = link in self._peers
            self._peers[link] = message.generation
            self._accepting.discard(link)
            self._host.send(link, Attach(self.tree.epoch, self.generation, message.generation))
            self._host.neighbour_ready(link, anew=started_before)
        if message.seen == self.generation:
            self._accepting.add(link)
