"""Hosts: a client's name is attached at one broker of the network.

Theory of operation
-------------------
Each time a client begins a session, its broker gives it an *epoch*: the time, and more than the epoch that the client
shows. Clients repeat epochs and never make them. An epoch orders, and proves nothing: who may use a name is decided by
identities before anybody comes here, and every claim carries name and identity.

*A client with an epoch* is let in at once. It names the broker where it was last, which is told. If that one hosts it
under the very epoch that the client shows, it lets go, and there can be no third: the epoch was handed from one broker
to the next. In all other cases every broker is told by a wave. What a host still has to tell goes with the client: if
its own claim is open, or somebody was out of its reach whom the new host can reach, the new host tells everybody. A
client that comes back to a broker which has not noticed that it was gone shows whether it was elsewhere meanwhile: then
its epoch is newer than the one that this broker gave it, and the broker that gave that one is told.

*A client without an epoch* (a new process, or one that has lost its memory) has to wait: the host is asked, by a wave.
Whoever hosts the name pings that connection. If it is silent, away or out of reach, the newcomer is let in; if it
answers, the newcomer is refused, unless it takes over.

    _admission     what newcomers are told          _claiming      how claims reach others
    _questions     those who have to wait           _judging       what a host says to a claim: the table
    _hosted        a client that is attached        _departures    where clients have gone

A host whose claim is not granted ends its own connection: it was the stale one. Whatever is ceded ends with the reason
that it was taken over. A client that enters its next broker before it leaves the old one may ask for an *overlap*: its
old broker gives it away at once, as always, and ends the connection a little later. Until then it delivers to it as to
anybody. The client takes each notification from whichever comes first, so it sees no silence in between.

Brokers that cannot be reached hear nothing. A client without an epoch is let in then, and its claim is *fencing*: the
newer epoch wins. A claim that did not reach everybody is repeated, and again on every new tree. When brokers meet that
were cut off from each other, each side claims the clients that it has let in since, fencing. Of brokers that
have never met, the smaller group claims all its clients.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import msgspec

from tidings.broker import Advice, Feature, Joinpoint, Link, Tree, WaveKind
from tidings.wire import pack

from ._admission import Admitted, Newcomer, Verdict, denied, taken_over, too_early
from ._claiming import Answer, Claiming
from ._claims import (
    MAX_CLAIMS,
    MAX_UNREACHED,
    Claim,
    Claims,
    Copies,
    Held,
    Ruling,
    combined,
    read,
    read_claims,
    read_ruling,
)
from ._departures import Departures
from ._hosted import Hosted, HostedClient, Moved, Watcher
from ._judging import Judging
from ._questions import Questions

PARTING = 60_000_000
"""Microseconds that may pass before a broker notices that another one is out of reach."""
OVERLAP = 500_000
"""Microseconds for which a client that wants it gets everything from its old broker, too, when a new one hosts it."""
CLOCK_OFFSET = 60_000_000
"""Microseconds by which the epoch that a client shows may lie in the future."""


@dataclass(slots=True)
class _Said:
    """What this broker says to several claims."""

    left: int
    """How many are not judged yet."""
    held: list[Held] = field(default_factory=list)
    ceded: dict[str, int] = field(default_factory=dict)
    unsure: list[str] = field(default_factory=list)
    away: dict[str, int] = field(default_factory=dict)
    edges: dict[str, tuple[bool, int]] = field(default_factory=dict)
    copies: dict[str, Copies] = field(default_factory=dict)

    def ruling(self, unreached: tuple[str, ...]) -> Ruling:
        """All of it."""
        held, unsure = tuple(self.held), tuple(self.unsure)
        return Ruling(held, self.ceded, 0, unsure, unreached, self.away, self.edges, self.copies)


class Hosts(Feature):
    """Who is attached to this broker, under which epoch; and nowhere else."""

    name = "hosts"

    def __init__(self, warn: Callable[[str], None] = lambda text: None) -> None:
        self._warn = warn
        self._hosted: dict[str, Hosted] = {}
        self._claiming = Claiming(self)
        self._questions = Questions(self, self._claiming)
        self._departures = Departures()
        self._judging = Judging(self, self._questions, self._departures, warn)
        self._parted: dict[str, int] = {}
        """When each broker that is out of reach was last in reach."""
        self.end: Callable[[Link, str], None] = lambda link, reason: None
        """Set by the runtime: end the connection of a client after this turn, and tell it why; it was taken over."""
        self.ping: Callable[[Link], Callable[[], bool | None]] = lambda link: lambda: False
        """Set by the runtime: ping a client. What it returns says whether the client has answered, None: not yet."""
        self.told: Callable[[str, int, bool], None] = lambda name, epoch, hosted: None
        """Called when a client is hosted under an epoch, and when it is no longer."""
        self.watcher: Watcher | None = None
        self.unsettled: dict[str, Link] = {}
        """The clients here that another broker may host as well: their claims are under way."""
        self.settled: Callable[[Link], None] = lambda link: None
        """Called when that is no longer so for one of them."""
        self.ceded: Callable[[Link], None] = lambda link: None
        """Called when a client is given away, before anybody is told so."""
        self.on_move: list[Callable[[Moved], None]] = []
        """Called at both brokers when a client has moved from one to the other, and the old one has confirmed it."""
        self.edge_of: Callable[[Moved], tuple[bool, int]] = lambda moved: (False, 0)
        """Asked at the old broker after that: what `Moved` says at the new one."""
        self.taken_over = 0
        """How many clients were given away to other brokers, or to another process."""
        self.refused = 0
        """How many newcomers were refused because their name is in use."""

    def advice(self) -> Mapping[Joinpoint, Advice]:
        """Note who goes, who is away, and who can be reached."""
        return {
            Joinpoint.DETACH: self._on_detach,
            Joinpoint.AWAY: lambda proceed, link: self._on_absence(proceed, link, away=True),
            Joinpoint.BACK: lambda proceed, link: self._on_absence(proceed, link, away=False),
            Joinpoint.TREE: self._on_tree,
        }

    def wave_kinds(self) -> Mapping[str, WaveKind]:
        """Claims are told to everybody."""
        return {"claim": self}

    def __len__(self) -> int:
        return len(self._hosted)

    def has_left(self, link: Link) -> bool:
        """Whether a client was given away, and its connection here is about to end."""
        hosted = self._hosted.get(link.name)
        return hosted is not None and hosted.link is link and hosted.ended

    def epoch_of(self, name: str) -> int:
        """The epoch under which a client is hosted here; 0: it is not."""
        hosted = self._hosted.get(name)
        return hosted.epoch if hosted is not None else 0

    def attached(self, name: str) -> Hosted | None:
        """A client that is attached here."""
        return self._hosted.get(name)

    def hosted(self) -> list[HostedClient]:
        """Who is attached here, the earliest first."""
        return [
            HostedClient(name, one.epoch, one.at, one.away, one.last if one.last != self.context.name else "")
            for name, one in self._hosted.items()
        ]

    # --- coming ---------------------------------------------------------------------------------------

    def enter(self, newcomer: Newcomer, decide: Callable[[Verdict], None]) -> None:
        """Somebody wants to begin a session; `decide` is called once, now or within two seconds.

        If it is admitted, call `host` with its link, in the same turn.
        """
        now, here = self.context.now(), self._hosted.get(newcomer.name)
        if newcomer.fresh:
            decide(Admitted(now, sure=True))
        elif newcomer.epoch > now + CLOCK_OFFSET:
            decide(too_early(newcomer, now))
        elif here is not None:
            self._enter_again(newcomer, here, decide)
        elif newcomer.epoch:
            decide(Admitted(max(newcomer.epoch + 1, now), newcomer.epoch, newcomer.last))
        else:
            self._questions.ask(newcomer, decide)

    def _enter_again(self, newcomer: Newcomer, here: Hosted, decide: Callable[[Verdict], None]) -> None:
        """It is hosted here already."""

        def judge(alive: bool) -> None:
            if self._hosted.get(newcomer.name, here) is not here:
                self.enter(newcomer, decide)  # somebody else was faster
            elif alive:
                self.refuse(Held(newcomer.name, self.context.name, here.epoch, here.at), newcomer, decide)
            else:
                epoch = max(newcomer.epoch + 1, here.epoch + 1, self.context.now())
                sure = here.sure and not here.ended and newcomer.epoch <= here.epoch  # else it was elsewhere meanwhile
                decide(Admitted(epoch, newcomer.epoch, newcomer.last, sure=sure))

        if here.owner != newcomer.owner:
            judge(alive=True)
        elif newcomer.epoch >= here.epoch or newcomer.take_over or here.away:
            judge(alive=False)
        else:
            self._judging.probe(here, judge)

    def refuse(self, held: Held, newcomer: Newcomer, decide: Callable[[Verdict], None]) -> None:
        """The name is in use."""
        self.refused += 1
        decide(denied(held, newcomer))

    def host(self, link: Link, admitted: Admitted, *, overlap: bool = False) -> None:
        """A client that was admitted is being attached; `overlap`: it still takes what its old broker sends."""
        now = self.context.now()
        hosted = Hosted(link, link.owner, admitted.epoch, now, admitted.shown, admitted.last, admitted.sure)
        hosted.overlap = overlap
        self._hosted[link.name] = hosted
        self.told(link.name, hosted.epoch, True)
        if self.watcher is not None:
            hosted.wishes = self.watcher.arrived(link, admitted)
        if admitted.sure:
            return
        self.unsettled[link.name] = link
        self._claiming.tell(admitted.last, hosted.claim(self.context.name, fencing=admitted.fencing))

    # --- claims that are made -------------------------------------------------------------------------

    def stands(self, claim: Claim) -> bool:
        """Whether whoever the claim is for is still here, or still asks."""
        return self.epoch_of(claim.name) == claim.epoch if claim.epoch else self._questions.stands(claim)

    def answered(self, claim: Claim, answer: Answer) -> bool:
        """Everybody was told; whether the claim is to be repeated."""
        if not claim.epoch:
            self._questions.answered(claim, answer)
            return False
        self._came_from(self._hosted[claim.name].last, claim, answer.ruling)
        if answer.objection is not None:
            self._give_way(claim, answer.objection)
            return False
        self._hosted[claim.name].sure |= answer.complete
        if answer.complete or answer.final:
            self._settle(claim.name)
        return not answer.complete

    def _give_way(self, claim: Claim, objection: Held) -> None:
        """Another broker has this client, and it is that one's."""
        hosted = self._hosted[claim.name]
        if objection.stranger:
            self._warn(
                f"client '{claim.name}' of '{claim.owner}' is connected to broker '{objection.broker}' under another "
                "identity; compare what `tidings config names FILE` prints for both brokers"
            )
        self._end(hosted, taken_over(claim.name, objection.broker, objection.since))

    # --- claims of others -----------------------------------------------------------------------------

    def visit(self, body: bytes, answer: Callable[[bytes | None], None]) -> None:
        """A broker claims clients, and everybody is told."""
        claims = self._read(body)
        if claims is None:
            answer(None)
        else:
            self._rule(claims, lambda ruling: answer(pack(ruling)))

    def combine(self, answers: list[bytes]) -> bytes:
        """What several say."""
        return pack(combined([read_ruling(answer) for answer in answers]))

    def on_routed(self, source: str, body: bytes) -> None:
        """The next broker of a client, or the last one, says something."""
        try:
            said = read(body)
        except (msgspec.MsgspecError, ValueError):
            self.context.refused()
            return
        if isinstance(said, Ruling):
            self._last_answered(source, said)
        elif len(said.claims) <= MAX_CLAIMS:
            self._rule(said, lambda ruling: self._reply(source, said.number, ruling))

    def _reply(self, source: str, number: int, ruling: Ruling) -> None:
        self.context.send_to(source, pack(msgspec.structs.replace(ruling, number=number)))

    def _last_answered(self, source: str, ruling: Ruling) -> None:
        claim = self._claiming.told(ruling.number)
        if claim is None or self._hosted.get(claim.name) is None or self._hosted[claim.name].last != source:
            return
        self._claiming.forget(ruling.number)
        if not self.stands(claim):
            return
        self._came_from(source, claim, ruling)
        if ruling.held:
            self._give_way(claim, ruling.held[0])
        elif ruling.ceded.get(claim.name) == claim.before and not self._left_untold(claim, ruling):
            self._hosted[claim.name].sure = True
            self._settle(claim.name)
        else:
            self._claiming.tell_all(claim)  # it was not the host: somebody else may be

    def _came_from(self, old: str, claim: Claim, ruling: Ruling) -> None:
        """Whoever has let a client go under the epoch that it shows is the broker that gave it that epoch."""
        if old and ruling.ceded.get(claim.name) == claim.before and all(one.name != claim.name for one in ruling.held):
            edge = ruling.edges.get(claim.name, (False, 0))
            self._tell_move(Moved(*_way(claim, old), ruling.away.get(claim.name, 0), *edge))
        if self.watcher is not None:
            self.watcher.inherited(claim.name, ruling.copies.get(claim.name))

    def _tell_move(self, moved: Moved) -> None:
        for told in self.on_move:
            told(moved)

    def _left_untold(self, claim: Claim, ruling: Ruling) -> bool:
        """Whether the old host had not told everybody that this broker can reach."""
        return claim.name in ruling.unsure or not self.context.tree.hops.keys().isdisjoint(ruling.unreached)

    def _read(self, body: bytes) -> Claims | None:
        try:
            claims = read_claims(body)
        except (msgspec.MsgspecError, ValueError):
            claims = None
        if claims is None or len(claims.claims) > MAX_CLAIMS:
            self.context.refused()
            return None
        return claims

    def _rule(self, claims: Claims, done: Callable[[Ruling], None]) -> None:
        """Judge each claim, some after a ping; then say what came of it."""
        foreign = [claim for claim in claims.claims if claim.broker != self.context.name]
        said = _Said(len(foreign) + 1)

        def one_less() -> None:
            said.left -= 1
            if not said.left:
                unreached = tuple(sorted(self._parted))[:MAX_UNREACHED] if said.ceded else ()
                done(said.ruling(unreached))

        def judged(claim: Claim, objection: Held | None) -> None:
            if objection is not None:
                said.held.append(objection)
            else:
                self._let_go(claim, said)
            one_less()

        for claim in foreign:
            self._judging.judge(claim, lambda objection, claim=claim: judged(claim, objection))  # type: ignore[misc]
        one_less()

    def _let_go(self, claim: Claim, said: _Said) -> None:
        """Another broker hosts a client, or is about to: what there is here of it goes there."""
        if claim.epoch and self.watcher is not None:  # before an edge is learned: a copy would be sent along it
            copies = self.watcher.claimed(claim)
            if copies is not None:
                said.copies[claim.name] = copies
        if (hosted := self._hosted.get(claim.name)) is not None:
            self._cede(hosted, claim, said)

    def _cede(self, hosted: Hosted, claim: Claim, said: _Said) -> None:
        """Let a client go to the broker that claims it."""
        name, now = claim.name, self.context.now()
        said.ceded[name] = hosted.epoch
        if not hosted.sure or len(self._parted) > MAX_UNREACHED:
            said.unsure.append(name)
        said.away[name] = max(now - hosted.away_since, 0) if hosted.away else 0
        self.taken_over += 1
        self._departures.note(claim, now)
        if claim.epoch and claim.before == hosted.epoch and not hosted.ended:
            stayed = max(now - hosted.at - said.away[name], 0)
            moved = Moved(*_way(claim, self.context.name), said.away[name], stayed=stayed)
            self._tell_move(moved)
            said.edges[name] = self.edge_of(moved)
        overlaps = claim.overlap and claim.before == hosted.epoch and not hosted.away
        self._end(hosted, taken_over(name, claim.broker, claim.at), OVERLAP if overlaps else 0)

    def _settle(self, name: str) -> None:
        """Nobody else hosts a client, as far as anybody can be asked."""
        if (link := self.unsettled.pop(name, None)) is not None:
            self.settled(link)

    def _end(self, hosted: Hosted, reason: str, delay: int = 0) -> None:
        """A client is somebody else's: end its connection, now or a little later."""
        if hosted.ended:
            return
        hosted.ended = True
        self.ceded(hosted.link)
        if delay:
            self.context.call_later(delay, lambda: self.end(hosted.link, reason))
        else:
            self.end(hosted.link, reason)

    # --- clients and brokers that come and go ---------------------------------------------------------

    def _on_detach(self, proceed: Callable[..., None], link: Link) -> None:
        proceed(link)
        hosted = self._hosted.get(link.name)
        if hosted is not None and hosted.link is link:
            del self._hosted[link.name]
            self._claiming.settled(link.name)
            self.unsettled.pop(link.name, None)
            self.told(link.name, hosted.epoch, False)

    def _on_absence(self, proceed: Callable[..., None], link: Link, *, away: bool) -> None:
        proceed(link)
        hosted = self._hosted.get(link.name)
        if hosted is not None and hosted.link is link:
            hosted.away = away
            hosted.away_since = self.context.now()

    def _on_tree(self, proceed: Callable[..., None], old: Tree, new: Tree) -> None:
        proceed(old, new)
        now = self.context.now()
        joined = new.hops.keys() - old.hops.keys()
        parted = [self._parted.pop(broker) for broker in joined if broker in self._parted]
        for broker in old.hops.keys() - new.hops.keys():
            self._parted[broker] = now
        if len(joined) > len(parted) and len(joined) > len(old.hops):
            parted.append(0)  # strangers, and not fewer than those on this side
        claims: list[Claim] = []
        if parted:
            since = min(parted) - PARTING
            for hosted in self._hosted.values():
                if hosted.at >= since and not hosted.ended:
                    hosted.sure = False  # until those who came were told; the next host tells them if this one does not
                    claims.append(hosted.claim(self.context.name, fencing=True))
        self._claiming.new_tree(claims)


def _way(claim: Claim, old: str) -> tuple[str, str, str, str, int]:
    return claim.name, claim.owner, old, claim.broker, claim.epoch
