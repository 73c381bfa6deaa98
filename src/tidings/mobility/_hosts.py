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

What the host of a client says to a claim, the first row that fits:

| the claim                                                      | answer                               |
|----------------------------------------------------------------|--------------------------------------|
| is of another identity                                         | held, and said in the log            |
| shows the epoch of this host, or a newer one                   | ceded                                |
| is forced                                                      | ceded                                |
| is of a host with an older epoch                               | held                                 |
| is of a newer host, while the claim of this one is open        | ceded                                |
| is of a newer host, and fencing                                | ceded                                |
| is any other, and the client is away                           | ceded                                |
| is any other                                                   | held if the client answers a ping    |

Of two that ask at the same time the first one wins, or the last one if both force it; whoever asks while another broker
claims loses. A broker that has let a client go remembers for a while where to, because a question may have passed the
new host before the client was there. A host whose claim is not granted ends its own connection: it was the stale one.
Whatever is ceded ends with the reason that it was taken over.

Brokers that cannot be reached hear nothing. A client without an epoch is let in then, and its claim is *fencing*: the
newer epoch wins. A claim that did not reach everybody is repeated. When brokers meet that
were cut off from each other, each side claims the clients that it has let in since, fencing. Of brokers that
have never met, the smaller group claims all its clients.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple, Protocol, TypeAlias

import msgspec

from tidings.broker import Advice, Feature, Joinpoint, Link, Tree, WaveKind
from tidings.wire import TAKEN_OVER, pack

from ._claims import MAX_CLAIMS, MAX_UNREACHED, Claim, Claims, Held, Ruling, combined, read, read_claims, read_ruling

ASK_TIME = 2_000_000
"""Microseconds within which a client without an epoch is answered."""
SOON = 200_000
"""Microseconds after which the host is not asked again, if the answer was incomplete."""
AGAIN_SOON = 50_000
"""Microseconds after which it is asked again."""
PING_TIME = 1_000_000
"""Microseconds for which a host waits until the connection of its client answers a ping."""
PING_LOOK = 50_000
"""Microseconds between two looks whether it has."""
LAST_TIME = 1_000_000
"""Microseconds for which the last broker of a client is waited for, before everybody is told."""
AGAIN = 1_000_000
"""Microseconds after which a claim is repeated that did not reach everybody."""
MAX_REPEATS = 3
"""How often it is repeated; after that, when brokers join."""
MAX_WAVES = 4
"""The waves of one broker that are under way at a time; more claims wait and go together."""
MAX_ASKING = 10_000
"""The most clients without an epoch that wait at one broker; more are refused."""
PARTING = 60_000_000
"""Microseconds that may pass before a broker notices that another one is out of reach."""
MOVED_TIME = 10_000_000
"""Microseconds for which a broker remembers where a client has gone: longer than a question is under way."""
MAX_MOVED = 100_000
"""The most clients of which it does."""
CLOCK_OFFSET = 60_000_000
"""Microseconds by which the epoch that a client shows may lie in the future."""


class Newcomer(NamedTuple):
    """Who wants to begin a session."""

    name: str
    owner: str
    epoch: int = 0
    """The one it was given last; 0: it has none."""
    last: str = ""
    """The broker that gave it."""
    take_over: bool = False
    fresh: bool = False
    """Whether this broker has just made the name up, so that nobody else can have it."""


class Admitted(NamedTuple):
    """It may come in."""

    epoch: int
    """The one under which it is hosted."""
    shown: int = 0
    last: str = ""
    sure: bool = False
    """Whether nobody else can host it."""
    fencing: bool = False
    """Whether it is let in because somebody could not be asked."""


class Denied(NamedTuple):
    """It may not."""

    code: str
    reason: str


Verdict: TypeAlias = Admitted | Denied


class HostedClient(NamedTuple):
    """A client that is attached here, for those who look."""

    client: str
    epoch: int
    since: int
    away: bool
    last: str


class Moved(NamedTuple):
    """A client has gone from one broker to another; the old one hosted it under the epoch that the client showed."""

    client: str
    owner: str
    old: str
    new: str
    epoch: int
    """Under which the new broker hosts it."""
    away: int
    """Microseconds for which it was away, as far as its old broker had noticed."""
    edge_known: bool = False
    """At the new broker: whether the old one knows the edge now,"""
    learned_at: int = 0
    """and when the client made its last new edge; 0: not lately."""


@dataclass(slots=True, eq=False)
class _Hosted:
    """A client that is attached here."""

    link: Link
    owner: str
    epoch: int
    at: int
    shown: int
    last: str
    sure: bool
    """Whether nobody else hosts it, as far as brokers could be reached."""
    away: bool = False
    away_since: int = 0
    ended: bool = False
    """Whether its connection is about to end."""


@dataclass(slots=True, eq=False)
class _Asking:
    """A client that waits until the host was asked."""

    newcomer: Newcomer
    at: int
    decide: Callable[[Verdict], None]
    beaten: Held | None = None
    """Whoever asked at the same time, and wins."""
    again: bool = False
    """Whether it asks for the second time."""


class Watcher(Protocol):
    """Who wants to know where clients go."""

    def arrived(self, link: Link, admitted: Admitted) -> None:
        """A client has been attached here, and says nothing yet."""

    def claimed(self, claim: Claim) -> None:
        """Another broker hosts a client; this one may have hosted it."""


class Hosts(Feature):
    """Who is attached to this broker, under which epoch; and nowhere else."""

    name = "hosts"

    def __init__(self, warn: Callable[[str], None] = lambda text: None) -> None:
        self._warn = warn
        self._hosted: dict[str, _Hosted] = {}
        self._asking: dict[str, _Asking] = {}
        self._queue: deque[tuple[Claim, int]] = deque()
        """Claims that wait for a wave, each with how often it was repeated."""
        self._waves = 0
        self._number = 0
        self._told_last: dict[int, Claim] = {}
        """Claims that the last broker of a client was told, by number."""
        self._moved: dict[str, Held] = {}
        """Where clients have gone, and when, the earliest first."""
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
            decide(Denied("epoch", _from_the_future(newcomer, now)))
        elif here is not None:
            self._enter_again(newcomer, here, decide)
        elif newcomer.epoch:
            decide(Admitted(max(newcomer.epoch + 1, now), newcomer.epoch, newcomer.last))
        else:
            self._ask(newcomer, decide)

    def _enter_again(self, newcomer: Newcomer, here: _Hosted, decide: Callable[[Verdict], None]) -> None:
        """It is hosted here already."""

        def judge(alive: bool) -> None:
            if self._hosted.get(newcomer.name, here) is not here:
                self.enter(newcomer, decide)  # somebody else was faster
            elif alive:
                self.refused += 1
                held = Held(newcomer.name, self.context.name, here.epoch, here.at)
                decide(_denied(held, newcomer))
            else:
                epoch = max(newcomer.epoch + 1, here.epoch + 1, self.context.now())
                sure = here.sure and not here.ended and newcomer.epoch <= here.epoch  # else it was elsewhere meanwhile
                decide(Admitted(epoch, newcomer.epoch, newcomer.last, sure=sure))

        if here.owner != newcomer.owner:
            judge(alive=True)
        elif newcomer.epoch >= here.epoch or newcomer.take_over or here.away:
            judge(alive=False)
        else:
            self._probe(here, judge)

    def _ask(self, newcomer: Newcomer, decide: Callable[[Verdict], None]) -> None:
        other = self._asking.get(newcomer.name)
        if other is not None or len(self._asking) >= MAX_ASKING:
            what = f"client '{newcomer.name}' is being connected" if other else "many clients are being connected"
            decide(Denied("busy", f"{what} to broker '{self.context.name}'; try again"))
            return
        asking = _Asking(newcomer, self.context.now(), decide)
        self._asking[newcomer.name] = asking
        self._tell_all(self._question(asking))

    def _question(self, asking: _Asking) -> Claim:
        newcomer = asking.newcomer
        return Claim(newcomer.name, newcomer.owner, self.context.name, asking.at, forced=newcomer.take_over)

    def host(self, link: Link, admitted: Admitted) -> None:
        """A client that was admitted is being attached."""
        now = self.context.now()
        hosted = _Hosted(link, link.owner, admitted.epoch, now, admitted.shown, admitted.last, admitted.sure)
        self._hosted[link.name] = hosted
        self.told(link.name, hosted.epoch, True)
        if self.watcher is not None:
            self.watcher.arrived(link, admitted)
        if admitted.sure:
            return
        self.unsettled[link.name] = link
        claim = self._claim(hosted, fencing=admitted.fencing)
        last = admitted.last
        if last and last != self.context.name and len(self._told_last) < MAX_ASKING:
            self._number += 1
            number = self._number
            if self.context.send_to(last, pack(Claims((claim,), number))):
                self._told_last[number] = claim
                self.context.call_later(LAST_TIME, lambda: self._last_is_silent(number))
                return
        self._tell_all(claim)

    def _claim(self, hosted: _Hosted, *, fencing: bool = False) -> Claim:
        return Claim(
            hosted.link.name, hosted.owner, self.context.name, hosted.at, hosted.epoch, hosted.shown, fencing=fencing
        )

    def _last_is_silent(self, number: int) -> None:
        if (claim := self._told_last.pop(number, None)) is not None:
            self._tell_all(claim)

    # --- claims that are made -------------------------------------------------------------------------

    def _tell_all(self, claim: Claim, repeats: int = 0) -> None:
        self._queue.append((claim, repeats))
        self._start_wave()

    def _start_wave(self) -> None:
        while self._queue and self._waves < MAX_WAVES:
            sent = [self._queue.popleft() for _ in range(min(len(self._queue), MAX_CLAIMS))]
            sent = [one for one in sent if self._stands(one[0])]
            if not sent:
                continue
            self._waves += 1
            body = pack(Claims(tuple(claim for claim, _ in sent)))

            def done(answer: bytes, complete: bool, sent: list[tuple[Claim, int]] = sent) -> None:
                self._waves -= 1
                self._heard(sent, answer, complete)
                self._start_wave()

            self.context.wave("claim", body, done, ASK_TIME)

    def _stands(self, claim: Claim) -> bool:
        """Whether whoever the claim is for is still here, or still asks."""
        if claim.epoch:
            return self.epoch_of(claim.name) == claim.epoch
        asking = self._asking.get(claim.name)
        return asking is not None and asking.at == claim.at

    def _heard(self, sent: list[tuple[Claim, int]], answer: bytes, complete: bool) -> None:
        try:
            ruling = read_ruling(answer) if answer else Ruling()
        except (msgspec.MsgspecError, ValueError):
            self.context.refused()
            ruling, complete = Ruling(), False
        held = {one.name: one for one in ruling.held}
        for claim, repeats in sent:
            if not self._stands(claim):
                continue
            objection = held.get(claim.name)
            if not claim.epoch:
                self._answered(self._asking[claim.name], objection, ruling.ceded.get(claim.name, 0), complete)
                continue
            self._came_from(self._hosted[claim.name].last, claim, ruling)
            if objection is not None:
                self._give_way(claim, objection)
            elif complete:
                self._hosted[claim.name].sure = True
                self._settle(claim.name)
            elif repeats < MAX_REPEATS:
                self._repeat(claim, repeats + 1)
            else:
                self._settle(claim.name)

    def _repeat(self, claim: Claim, repeats: int) -> None:
        def again() -> None:
            if self._stands(claim):
                self._tell_all(claim, repeats)

        self.context.call_later(AGAIN, again)

    def _answered(self, asking: _Asking, objection: Held | None, ceded: int, complete: bool) -> None:
        """The host of a name was asked, if there is one."""
        newcomer, objection = asking.newcomer, objection or asking.beaten
        if objection is None and not complete and not asking.again and self.context.now() < asking.at + SOON:
            asking.again = True  # the tree has changed under it
            self.context.call_later(AGAIN_SOON, lambda: self._tell_all(self._question(asking)))
            return
        del self._asking[newcomer.name]
        if newcomer.name in self._hosted:
            self.enter(newcomer, asking.decide)  # somebody else was faster
        elif objection is not None:
            self.refused += 1
            asking.decide(_denied(objection, newcomer))
        else:
            asking.decide(Admitted(max(self.context.now(), ceded + 1), ceded, sure=complete, fencing=not complete))

    def _give_way(self, claim: Claim, objection: Held) -> None:
        """Another broker has this client, and it is that one's."""
        hosted = self._hosted[claim.name]
        if objection.stranger:
            self._warn(
                f"client '{claim.name}' of '{claim.owner}' is connected to broker '{objection.broker}' under another "
                "identity; compare what `tidings config names FILE` prints for both brokers"
            )
        self._end(hosted, _taken_over(claim.name, objection.broker, objection.since))

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
        claim = self._told_last.get(ruling.number)
        if claim is None or self._hosted.get(claim.name) is None or self._hosted[claim.name].last != source:
            return
        del self._told_last[ruling.number]
        if not self._stands(claim):
            return
        self._came_from(source, claim, ruling)
        if ruling.held:
            self._give_way(claim, ruling.held[0])
        elif ruling.ceded.get(claim.name) == claim.before and not self._left_untold(claim, ruling):
            self._hosted[claim.name].sure = True
            self._settle(claim.name)
        else:
            self._tell_all(claim)  # it was not the host: somebody else may be

    def _came_from(self, old: str, claim: Claim, ruling: Ruling) -> None:
        """Whoever has let a client go under the epoch that it shows is the broker that gave it that epoch."""
        if old and ruling.ceded.get(claim.name) == claim.before and all(one.name != claim.name for one in ruling.held):
            edge = ruling.edges.get(claim.name, (False, 0))
            self._tell_move(Moved(*_way(claim, old), ruling.away.get(claim.name, 0), *edge))

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
        held: list[Held] = []
        ceded: dict[str, int] = {}
        unsure: list[str] = []
        away: dict[str, int] = {}
        edges: dict[str, tuple[bool, int]] = {}
        foreign = [claim for claim in claims.claims if claim.broker != self.context.name]
        left = len(foreign) + 1

        def one_less() -> None:
            nonlocal left
            left -= 1
            if not left:
                unreached = tuple(sorted(self._parted))[:MAX_UNREACHED] if ceded else ()
                done(Ruling(tuple(held), ceded, unsure=tuple(unsure), unreached=unreached, away=away, edges=edges))

        def judged(claim: Claim, objection: Held | None) -> None:
            if objection is not None:
                held.append(objection)
            elif (hosted := self._hosted.get(claim.name)) is not None:
                ceded[claim.name] = hosted.epoch
                if not hosted.sure or len(self._parted) > MAX_UNREACHED:
                    unsure.append(claim.name)
                away[claim.name] = max(self.context.now() - hosted.away_since, 0) if hosted.away else 0
                self.taken_over += 1
                self._note_move(claim)
                if claim.epoch and claim.before == hosted.epoch and not hosted.ended:
                    moved = Moved(*_way(claim, self.context.name), away[claim.name])
                    self._tell_move(moved)
                    edges[claim.name] = self.edge_of(moved)
                self._end(hosted, _taken_over(claim.name, claim.broker, claim.at))
            if objection is None and claim.epoch and self.watcher is not None:
                self.watcher.claimed(claim)
            one_less()

        for claim in foreign:
            self._judge(claim, lambda objection, claim=claim: judged(claim, objection))  # type: ignore[misc]
        one_less()

    def _judge(self, claim: Claim, judged: Callable[[Held | None], None]) -> None:
        hosted = self._hosted.get(claim.name)
        if hosted is None or hosted.ended:
            judged(self._compete(claim))
            return
        mine = Held(claim.name, self.context.name, hosted.epoch, hosted.at)
        if hosted.owner != claim.owner:
            self._warn(
                f"broker '{claim.broker}' claims client '{claim.name}' for '{claim.owner}', but here it belongs to "
                f"'{hosted.owner}'; compare what `tidings config names FILE` prints for both brokers"
            )
            judged(msgspec.structs.replace(mine, stranger=True))
        elif claim.before >= hosted.epoch or claim.forced:
            judged(None)
        elif claim.epoch and (claim.epoch, claim.broker) < (hosted.epoch, self.context.name):
            judged(mine)
        elif claim.fencing or hosted.away or (claim.epoch and not hosted.sure):
            judged(None)
        else:
            self._probe(hosted, lambda alive: judged(mine if alive else None))

    def _compete(self, claim: Claim) -> Held | None:
        """Nobody hosts it here; but somebody may ask for the same name at the same time."""
        asking = self._asking.get(claim.name)
        if asking is None:
            return None if claim.epoch else self._moved_from(claim)
        mine, theirs = (asking.at, self.context.name), (claim.at, claim.broker)
        forced = asking.newcomer.take_over
        if forced and claim.forced:
            wins = mine > theirs
        elif forced != claim.forced:
            wins = forced
        else:
            wins = not claim.epoch and mine < theirs
        if wins:
            return Held(claim.name, self.context.name, 0, asking.at)
        asking.beaten = Held(claim.name, claim.broker, claim.epoch, claim.at)
        return None

    def _note_move(self, claim: Claim) -> None:
        """A client goes to another broker, which a question may have passed before."""
        now = self.context.now()
        while self._moved and (
            len(self._moved) >= MAX_MOVED or next(iter(self._moved.values())).since < now - MOVED_TIME
        ):
            del self._moved[next(iter(self._moved))]
        self._moved.pop(claim.name, None)
        self._moved[claim.name] = Held(claim.name, claim.broker, claim.epoch, now)

    def _moved_from(self, claim: Claim) -> Held | None:
        """Where a client is that somebody asks for, if it has just gone there from here."""
        moved = self._moved.get(claim.name)
        if moved is None or moved.broker == claim.broker or moved.since < self.context.now() - MOVED_TIME:
            return None
        return moved

    def _probe(self, hosted: _Hosted, judged: Callable[[bool], None]) -> None:
        """Find out whether a client that is attached is there."""
        answered = self.ping(hosted.link)
        until = self.context.now() + PING_TIME

        def look() -> None:
            alive = answered() if self._hosted.get(hosted.link.name) is hosted and not hosted.away else False
            if alive is None and self.context.now() < until:
                self.context.call_later(PING_LOOK, look)
            else:
                judged(bool(alive))

        self.context.call_later(0, look)

    def _settle(self, name: str) -> None:
        """Nobody else hosts a client, as far as anybody can be asked."""
        if (link := self.unsettled.pop(name, None)) is not None:
            self.settled(link)

    def _end(self, hosted: _Hosted, reason: str) -> None:
        if not hosted.ended:
            hosted.ended = True
            self.ceded(hosted.link)
            self.end(hosted.link, reason)

    # --- clients and brokers that come and go ---------------------------------------------------------

    def _on_detach(self, proceed: Callable[..., None], link: Link) -> None:
        proceed(link)
        hosted = self._hosted.get(link.name)
        if hosted is not None and hosted.link is link:
            del self._hosted[link.name]
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
        if not parted:
            return
        since = min(parted) - PARTING
        for hosted in self._hosted.values():
            if hosted.at >= since and not hosted.ended:
                hosted.sure = False  # until those who came were told; the next host tells them if this one does not
                self._queue.append((self._claim(hosted, fencing=True), 0))
        if self._queue:
            self.context.call_later(0, self._start_wave)  # the tree is being adopted


def _way(claim: Claim, old: str) -> tuple[str, str, str, str, int]:
    return claim.name, claim.owner, old, claim.broker, claim.epoch


def _from_the_future(newcomer: Newcomer, now: int) -> str:
    ahead = (newcomer.epoch - now) / 1_000_000
    return (
        f"client '{newcomer.name}' shows the epoch {newcomer.epoch}, which lies {ahead:,.0f} seconds in the future; "
        "compare the clocks of the brokers, or begin without the kept state"
    )


def _denied(held: Held, newcomer: Newcomer) -> Denied:
    """The name is in use. Who was attached before hears that it was taken over, and does not try again."""
    if newcomer.epoch and newcomer.epoch < held.epoch:
        return Denied(TAKEN_OVER, _taken_over(held.name, held.broker, held.since))
    return Denied("duplicate", _in_use(held, newcomer))


def _in_use(held: Held, newcomer: Newcomer) -> str:
    where = f"client '{held.name}' is already connected, to broker '{held.broker}' since {_time(held.since)}"
    if newcomer.take_over and not held.epoch:
        return f"{where}; it took the name over at the same time"
    return f"{where}; choose another name, disconnect that client, or take its place with take_over=True"


def _taken_over(name: str, broker: str, at: int) -> str:
    return f"client '{name}' was taken over: it has been connected to broker '{broker}' since {_time(at)}"


def _time(microseconds: int) -> str:
    try:
        return datetime.fromtimestamp(microseconds // 1_000_000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, ValueError, OSError):  # another broker says so
        return "a time that no clock shows"
