"""Requests: sessions that a client opens, and the replies that come back in them.

Theory of operation
-------------------
A request is a publication that opens a *session* at the border broker of its publisher. Its client knows the session by
an id that it made up. The broker makes a *key* of that id and a number of its own, and the notification carries the key
and the name of the broker in a tag. Whoever handles the request may send a reply, through its own border broker, to the
broker in the tag. There it is judged: the session must be open, and the scope graph must let the requester see what the
replier says, as if the replier had published it in reaction to the request. Then it goes to the requester, and to
nobody else. It is no publication: it has no number, and is not stored.

No two sessions have the same key. So whoever saw a request cannot open a session in its place when it has ended, and
get the replies that come late.

    OPEN     replies are taken
    ended    by the number of replies that was asked for, by the client, by too long a time without a reply, or with the
             connection of the client; and at once if this broker knows that nobody gets the request

Replies cannot be dropped on the way as notifications can, with a gap, so a full queue would end the connection of a
requester that does not read. While its queue is crowded, it is given the first reply of each session and no more.

A session is forgotten when it ends, so a reply that comes later is one to nothing. Whoever replied is told: each reply
has an *outcome*, which comes back the way the reply went, or after `LONGEST`.
"""

from __future__ import annotations

import hashlib
import itertools
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidings.broker import Feature, Link, check_cause, climbs, is_checked
from tidings.model import (
    AccessDenied,
    BudgetExceeded,
    NoResponder,
    NotAllowed,
    Notification,
    RequestEnded,
    TidingsError,
    TopologyError,
    ValueRefused,
)
from tidings.wire import (
    MAX_TO,
    REQUESTS,
    Carried,
    Carry,
    Close,
    Ended,
    Opening,
    Outcome,
    Replied,
    Reply,
    WireError,
    checked_body,
    encode_body,
    pack,
    read_request,
)

if TYPE_CHECKING:
    from tidings.wire import AnySaid

MAX_SESSIONS = 1_000
"""The most sessions that the clients of one identity have open at one broker."""
MAX_REPLIES = 10_000
"""The most replies in one session."""
MAX_UNANSWERED = 1_000
"""The most replies of one client whose outcome is not known."""
IDLE = 300_000_000
"""Microseconds without a reply after which a session ends, unless its client asks for less."""
LONGEST = 10_000_000
"""Microseconds after which a replier is told that a broker does not answer."""
LOOK = 1_000_000
"""Microseconds between two looks for sessions that have ended by themselves."""


@dataclass(slots=True)
class _Session:
    id: str
    """What its client calls it."""
    link: Link
    left: int
    """How many replies are still taken."""
    idle: int
    latest: int
    """When it was opened, or got a reply."""
    answered: bool = False
    """Whether it has got a reply."""


@dataclass(slots=True)
class _Sent:
    link: Link
    number: int
    broker: str
    until: int


class Requests(Feature):
    """The sessions of this broker's clients, and the replies of its clients that are under way."""

    name = REQUESTS

    def __init__(self) -> None:
        self._sessions: dict[str, _Session] = {}
        """By their keys."""
        self._keys: dict[str, str] = {}
        """By what clients call them."""
        self._opened = 0
        self._owned: Counter[str] = Counter()
        """How many sessions each identity has open."""
        self._sent: dict[int, _Sent] = {}
        self._unanswered: Counter[Link] = Counter()
        """How many replies of each client are under way."""
        self._numbers = itertools.count(1)
        self._looking = False

    def start(self) -> None:
        """Serve requests."""
        self.context.open_sessions(self)

    @property
    def open(self) -> int:
        """How many sessions are open."""
        return len(self._sessions)

    # --- sessions -------------------------------------------------------------------------------------

    def opening(self, link: Link, opening: Opening) -> Opening:
        """A client asks for a session, and gets one of another name: its key."""
        key = self._keys.get(opening.id)
        if key is not None and (known := self._sessions[key]).link is not link:
            if self._is_here(known.link):
                raise ValueRefused(
                    f"session id '{opening.id:.60}' belongs to somebody else; use one that nobody guesses"
                )
            self._forget(key)
            key = None
        if key is None and self._owned[link.owner] >= MAX_SESSIONS:
            raise BudgetExceeded(
                f"'{link.owner}' waits for replies to {MAX_SESSIONS:,} requests at this broker, which is the most; "
                "wait for some, or give them a shorter timeout"
            )
        most = min(opening.replies or MAX_REPLIES, MAX_REPLIES)
        idle = min(opening.idle or IDLE, IDLE)
        if key is None:
            key = self._keys[opening.id] = self._new_key(opening.id)
            self._owned[link.owner] += 1
        self._sessions[key] = _Session(opening.id, link, most, idle, self.context.now())
        self._look_later()
        return Opening(key, opening.replies, opening.idle)

    def _new_key(self, id: str) -> str:
        self._opened += 1
        text = f"{self.context.epoch}/{self._opened}/{id}"
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    def unheard(self, key: str) -> None:
        """Nobody gets a request, as far as this broker knows; if it knows everything, its client is told."""
        session = self._sessions.get(key)
        if session is not None and self.context.knows_all:
            self._end(key, session, NoResponder("nobody subscribes to what this request says; start a responder first"))

    def _end(self, key: str, session: _Session, error: TidingsError) -> None:
        self._forget(key)
        self.context.send(session.link, pack(Ended(session.id, type(error).__name__, str(error))))

    def _forget(self, key: str) -> None:
        session = self._sessions.pop(key)
        del self._keys[session.id]
        owner = session.link.owner
        self._owned[owner] -= 1
        if not self._owned[owner]:
            del self._owned[owner]

    def _look_later(self) -> None:
        if not self._looking:
            self._looking = True
            self.context.call_later(LOOK, self._look)

    def _look(self) -> None:
        """End what has lasted too long, or whose client is gone."""
        self._looking = False
        now = self.context.now()
        for key, session in list(self._sessions.items()):
            if not self._is_here(session.link):
                self._forget(key)
            elif now - session.latest >= session.idle:
                waited = session.idle / 1_000_000
                self._end(key, session, RequestEnded(f"no reply has come for {waited:g} s; ask again"))
        for number, sent in list(self._sent.items()):
            if now >= sent.until:
                self._tell(self._returned(number), _silent(sent.broker))
        if self._sessions or self._sent:
            self._look_later()

    def _is_here(self, link: Link) -> bool:
        return self.context.client(link.name) is link

    # --- replies --------------------------------------------------------------------------------------

    def on_message(self, link: Link, body: bytes) -> None:
        """A client replies, or wants no more replies."""
        said = self._read(body) if link.is_client else None
        if isinstance(said, Close):
            key = self._keys.get(said.id)
            if key is not None and self._sessions[key].link is link:
                self._forget(key)
        elif isinstance(said, Reply):
            try:
                self._reply(link, said)
            except TidingsError as error:
                self.context.send(link, pack(Outcome(said.number, type(error).__name__, str(error))))
        else:
            self.context.refused()

    def _reply(self, link: Link, said: Reply) -> None:
        notification = checked_body(said.body)
        check_cause(said.cause)
        if link.guard is not None:
            link.guard.check_publish(notification)
        broker, _, key = said.to.rpartition("/")
        if not broker or not key or len(said.to) > MAX_TO:
            raise ValueRefused(f"{said.to!r:.60} is no request; reply to what the request came with")
        carry = Carry(0, key, link.principal, said.body, said.cause)
        if broker == self.context.name:
            self._take(carry, notification)
            self.context.send(link, pack(Outcome(said.number)))
            return
        if self._unanswered[link] >= MAX_UNANSWERED:
            raise BudgetExceeded(f"the outcome of {MAX_UNANSWERED:,} replies is not known yet; await some of them")
        number = next(self._numbers)
        if not self.context.send_to(broker, pack(Carry(number, key, link.principal, said.body, said.cause))):
            raise _silent(broker)
        self._sent[number] = _Sent(link, said.number, broker, self.context.now() + LONGEST)
        self._unanswered[link] += 1
        self._look_later()

    def _returned(self, number: int) -> _Sent:
        """It is known what has become of a reply, or never will be."""
        sent = self._sent.pop(number)
        self._unanswered[sent.link] -= 1
        if not self._unanswered[sent.link]:
            del self._unanswered[sent.link]
        return sent

    def _take(self, carry: Carry, notification: Notification) -> None:
        """A reply has come to where its session is; `TidingsError` if it cannot go on."""
        session = self._sessions.get(carry.id)
        if session is None or not self._is_here(session.link):
            raise RequestEnded("no request waits for this reply: it has its replies, was given up, or never was")
        if session.answered and self.context.crowded(session.link):
            raise BudgetExceeded("the requester does not read the replies that it has; reply again later")
        shown = self._shown(carry, notification, session.link)
        session.answered = True
        session.left -= 1
        session.latest = self.context.now()
        if not session.left:
            self._forget(carry.id)
        self.context.send(session.link, pack(Replied(session.id, shown)))

    def _shown(self, carry: Carry, notification: Notification, requester: Link) -> bytes:
        """What the requester may see of a reply."""
        view, tags = self.context.scoping.active, carry.cause
        climbing = (lambda path, scope: climbs(path, scope, tags, view)) if tags else None
        found = list(view.sightings(carry.replier, notification, requester.principal, climbing))
        seen = next((one for one in found if not view.borders or not is_checked(one.path, view)), None)
        if found and seen is None:
            raise NotAllowed(
                f"'{found[0].path[-1]}' checks what comes in at its border, where no reply passes; publish it instead"
            )
        if seen is None:
            raise NotAllowed("no scope lets the requester see this reply; an administrator may change that")
        sees = getattr(requester.guard, "subscribe", None)
        if sees is not None and not sees.matches(seen.notification):
            raise AccessDenied("the requester may not see this reply; an operator may change that")
        return carry.body if seen.notification is notification else encode_body(seen.notification)

    def on_routed(self, source: str, body: bytes) -> None:
        """Another broker brings a reply, or says what has become of one."""
        said = self._read(body)
        if isinstance(said, Carry):
            try:
                self._take(said, checked_body(said.body))
                answer = Carried(said.number)
            except TidingsError as error:
                answer = Carried(said.number, type(error).__name__, str(error))
            self.context.send_to(source, pack(answer))
        elif isinstance(said, Carried):
            sent = self._returned(said.number) if said.number in self._sent else None
            if sent is not None and self._is_here(sent.link):
                self.context.send(sent.link, pack(Outcome(sent.number, said.error, said.reason)))
        else:
            self.context.refused()

    def _tell(self, sent: _Sent, error: TidingsError) -> None:
        if self._is_here(sent.link):
            self.context.send(sent.link, pack(Outcome(sent.number, type(error).__name__, str(error))))

    def _read(self, body: bytes) -> AnySaid | None:
        try:
            return read_request(body)
        except WireError:
            return None


def _silent(broker: str) -> TopologyError:
    return TopologyError(
        f"broker '{broker:.60}', where the requester is, does not answer; whether the reply arrived is not known"
    )
