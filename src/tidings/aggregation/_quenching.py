"""Quenching: a client that publishes nothing in vain. What nobody wants does not leave it.

Theory of operation
-------------------
A client that quenches knows what is wanted, as a neighbour of its broker does: by filters, reduced by the routing
algorithm. A *tap* (see `Context.make_tap`) makes it a neighbour in one more respect: no subscription settles anywhere
before the client has said that it knows what stands for it. So whatever it publishes once a subscription has settled,
and that one wants, it does not leave out.

    Ask      the client wants to leave something out    open its tap, tell what is wanted
    Wanted   more, or less, is wanted                   the client knows it, and says so: Heard
    Heard    what it was told is known                  confirm it at the tap; grant what was asked before
    Grant    the client may, for a lease from its Ask   it asks again before that is over

A client that does not answer holds up settling for the rest of its lease, and no longer: an Ask is granted only when
everything is known that was told before it came. Then its tap is closed, and by its own clock its lease has ended
before. What it knows is kept up for as long as it lingers, so that it may go on with it; unless something waited for
it, which may be so once in that time.

What is withdrawn is told `LINGER` later. So a subscription that ends at one broker and begins at another, because its
client moves or a broker has failed, is not forgotten in between. A new tree closes the tap, and what was wanted before
lingers; while the tap is closed nothing settles. It is opened when everything behind every neighbour is ready.

Durable subscriptions whose clients are away are in no table. A wave asks all brokers which ones they keep: before the
first grant to a client, and then more often than what is withdrawn lingers.

All this is about what is known here of the root scope. With other scopes, with advertisements and with flooding it is
not enough, and nothing is left out.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Set
from typing import NamedTuple

from tidings.broker import Feature, Joinpoint, Link, Tree, WaveKind, is_located
from tidings.model import AccessDenied, Filter, FilterError, Matches, TidingsError
from tidings.wire import UNREADABLE, pack, unpacker

from .quenching import FEATURE, LEASE, AnyMessage, Ask, Denied, End, Grant, Heard, Wanted, decode, encode

LINGER = 60_000_000
"""Microseconds for which what is no longer wanted counts as wanted."""
MAX_LEASE = int(LEASE * 1_100_000)
"""Microseconds after which the lease of a client has surely ended, by a clock that is a little slower."""
KEPT_INTERVAL = LINGER // 3
"""Microseconds between two waves that ask which durable subscriptions are kept."""
RETRY = 1_000_000
"""Microseconds after which such a wave is sent again, if not all have answered."""
TICK = 50_000
"""Microseconds between two looks at what is due."""
MAX_WANTED = 1_000
"""The most filters that a client is told; where there are more, everything is wanted."""
MAX_TEXT = 2_000
"""The most characters of a filter that a client is told."""
MAX_ASKS = 8
"""The most requests of a client that wait to be granted."""
ALL = "TRUE"

_read_texts: Callable[[bytes], list[str]] = unpacker(list[str])


class _Asked(NamedTuple):
    """A request that is to be granted once the client knows what it was told before."""

    number: int
    at: int
    serial: int


class _Publisher:
    """What one client has been told of what is wanted."""

    def __init__(self, quenching: Quenching, link: Link) -> None:
        self._quenching = quenching
        self._context = quenching.context
        self.link = link
        self.tap = self._context.make_tap(self._announced, self._withdrawn)
        self.is_open = self.is_asleep = False
        """Whether the tap is open; whether the lease has ended, and what was wanted lingers."""
        self.was_silent = False
        """Whether something waited for it when its lease ended."""
        self.since = self._context.now()
        """When its lease began."""
        self.expires = self.since + MAX_LEASE
        self._ids: dict[str, str] = {}
        """What the tap was told, as texts."""
        self._kept: dict[str, str] = {}
        """What is held for durable subscriptions."""
        self._held: Counter[str] = Counter()
        """How many reasons there are for each text."""
        self._all = False
        """Whether everything is wanted for good."""
        self._more: dict[str, None] = {}
        self._less: dict[str, None] = {}
        self._to_tell = True
        """Whether something is to be told at the end of this turn: at first, that this is the beginning."""
        self._told = self._heard = 0
        self._unconfirmed: deque[tuple[int, str, int]] = deque()
        """What the tap was told, by the number with which the client was."""
        self._asks: deque[_Asked] = deque()
        self._context.call_later(0, self._tell)

    # --- what is wanted -------------------------------------------------------------------------------

    def open(self) -> None:
        """Tell everything that is wanted now; what was before lingers."""
        self._forget()
        self.is_open = True
        self._context.open_tap(self.tap)
        self._tell_soon()
        self._asks = deque(asked._replace(serial=self._told + 1) for asked in self._asks)

    def _forget(self) -> None:
        for text in self._ids.values():
            self._linger(text)
        self._ids.clear()
        self._unconfirmed.clear()

    def sleep(self) -> None:
        """The lease has ended: let nothing wait for the client."""
        self._context.close_tap(self.tap)
        self.was_silent = bool(self._unconfirmed)
        self._forget()
        self._asks.clear()
        self.is_open, self.is_asleep = False, True

    def wake(self) -> None:
        """The client asks again."""
        self.is_asleep = False
        self.since = self._context.now()
        self.expires = self.since + MAX_LEASE

    def _announced(self, id: str, filter: Matches, number: int) -> None:
        if (before := self._ids.get(id)) is not None:
            self._linger(before)
        text = str(filter) if isinstance(filter, Filter) else ALL
        self._ids[id] = text = self._hold(text)
        self._unconfirmed.append((self._told + (text in self._more), id, number))
        self._context.call_later(0, self._confirm)

    def _withdrawn(self, id: str) -> None:
        self._linger(self._ids.pop(id))

    def _linger(self, text: str) -> None:
        self._context.call_later(LINGER, lambda: self._let_go(text))

    def keep(self, texts: Set[str]) -> None:
        """Durable subscriptions want this."""
        for text in sorted(texts - self._kept.keys()):
            self._kept[text] = self._hold(text)
        for text in sorted(self._kept.keys() - texts):
            self._linger(self._kept.pop(text))

    def give_up(self) -> None:
        """It is no longer known what is wanted: everything is."""
        if not self._all:
            self._all = True
            self._hold(ALL)

    def _hold(self, text: str) -> str:
        """One more reason to want this; what stands for it."""
        if len(text) > MAX_TEXT or (len(self._held) >= MAX_WANTED and text not in self._held):
            text = ALL
        self._held[text] += 1
        if self._held[text] == 1:
            if text in self._less:
                del self._less[text]
            else:
                self._more[text] = None
            self._tell_soon()
        return text

    def _let_go(self, text: str) -> None:
        """One reason less."""
        self._held[text] -= 1
        if not self._held[text]:
            del self._held[text]
            if text in self._more:
                del self._more[text]
            else:
                self._less[text] = None
            self._tell_soon()

    # --- what the client is told, and says ------------------------------------------------------------

    def _tell_soon(self) -> None:
        if not self._to_tell:
            self._to_tell = True
            self._context.call_later(0, self._tell)

    def _tell(self) -> None:
        if not self._quenching.is_current(self):
            return
        self._to_tell = False
        self._told += 1
        more, less = list(self._more), list(self._less)
        self._more.clear()
        self._less.clear()
        self._quenching.say(self.link, Wanted(self._told, more, less))

    def heard(self, serial: int) -> None:
        """The client knows what it was told."""
        if serial > self._told:
            raise TidingsError(f"number {serial} was not told yet, only {self._told} were")
        self._heard = max(self._heard, serial)
        self._confirm()
        self.grant()

    def _confirm(self) -> None:
        while self._unconfirmed and self._unconfirmed[0][0] <= self._heard:
            _, id, number = self._unconfirmed.popleft()
            self._context.confirm_tap(self.tap, id, number)

    def ask(self, number: int) -> None:
        """The client wants to leave something out."""
        if len(self._asks) >= MAX_ASKS:
            self._asks.popleft()
        self._asks.append(_Asked(number, self._context.now(), self._told + self._to_tell))
        self.grant()

    def grant(self) -> None:
        """Grant what may be granted."""
        if self._all or not self.is_open or not self._quenching.knows_kept(self.since):
            return
        while self._asks and self._asks[0].serial <= self._heard:
            asked = self._asks.popleft()
            self.expires = asked.at + MAX_LEASE
            self._quenching.say(self.link, Grant(asked.number, True, self._quenching.stores))


class Quenching(Feature):
    """Lets clients of one broker publish nothing in vain."""

    name = FEATURE
    fail_stop = False

    def __init__(self) -> None:
        self.kept_here: Callable[[], Iterable[str]] = list
        """The filters of the durable subscriptions that this broker keeps; to be set by whoever keeps them."""
        self._publishers: dict[Link, _Publisher] = {}
        self._kept: frozenset[str] = frozenset()
        """What all brokers keep, as they said last."""
        self._kept_at: int | None = None
        """When they were asked for that."""
        self._asked_at: int | None = None
        """When they were asked the last time."""

    def wave_kinds(self) -> Mapping[str, WaveKind]:
        """The wave that asks for what is kept."""
        return {"kept": self}

    @property
    def stores(self) -> bool:
        """Whether this broker has a store."""
        return self.context.log is not None

    @property
    def leaves_out(self) -> bool:
        """Whether what is wanted can be known, in this network as it is now."""
        context = self.context
        routing = context.routing
        return routing.algorithm != "flooding" and not routing.advertisements and context.scoping.flat

    def kept(self) -> list[str]:
        """What is kept, by name: nothing, once nobody quenches."""
        return ["publishers"] if self._publishers else []

    # --- messages -------------------------------------------------------------------------------------

    def on_message(self, link: Link, body: bytes) -> None:
        """A client says something."""
        if not link.is_client:
            self.context.refused()
            return
        try:
            match decode(body):
                case Ask(number):
                    self._ask(link, number)
                case Heard(serial):
                    if (publisher := self._publishers.get(link)) is not None:
                        publisher.heard(serial)
                case End():
                    self._end(link)
                case message:
                    raise TidingsError(f"a client may not send {type(message).__name__}")
        except TidingsError as error:
            self.context.refused()
            self.say(link, Denied(type(error).__name__, str(error)))

    def _ask(self, link: Link, number: int) -> None:
        if link.guard is not None and not link.guard.administer:
            raise AccessDenied(
                f"'{link.guard.name}' may not know what others subscribe to, as a client must that leaves out what "
                "nobody wants; publish without `quench`, or ask the administrator for `administer` for this identity"
            )
        if not self.leaves_out:
            self.say(link, Grant(number, False, self.stores))
            return
        publisher = self._publishers.get(link)
        if publisher is not None and publisher.is_asleep:
            if publisher.was_silent:
                self.say(link, Grant(number, False, self.stores))
                return
            publisher.wake()
            self._look_anew()
        elif publisher is None:
            if not self._publishers:
                self.context.weave({Joinpoint.TREE: self._on_tree, Joinpoint.GRAPH: self._on_graph})
                self.context.call_later(TICK, self._tick)
            publisher = self._publishers[link] = _Publisher(self, link)
            publisher.keep(self._kept)
            self._look_anew()
        publisher.ask(number)

    def _look_anew(self) -> None:
        """Open what is to be opened, and ask all brokers what they keep, at once."""
        self._asked_at = None
        self.context.call_later(0, self._look)

    def is_current(self, publisher: _Publisher) -> bool:
        """Whether a client still leaves something out by this."""
        return self._publishers.get(publisher.link) is publisher

    def say(self, link: Link, message: AnyMessage) -> None:
        """Tell a client something, if it is there."""
        if self.context.client(link.name) is link:
            self.context.send(link, encode(message))

    def _end(self, link: Link) -> None:
        """A client leaves nothing out any more."""
        if (publisher := self._publishers.pop(link, None)) is not None:
            self.context.close_tap(publisher.tap)
            if not self._publishers:
                self._kept, self._kept_at, self._asked_at = frozenset(), None, None
                self.context.unweave(Joinpoint.TREE, Joinpoint.GRAPH)

    # --- what is due ----------------------------------------------------------------------------------

    def _tick(self) -> None:
        self._look()
        if self._publishers:
            self.context.call_later(TICK, self._tick)

    def _look(self) -> None:
        now = self.context.now()
        for publisher in [one for one in self._publishers.values() if one.expires <= now]:
            if publisher.expires + LINGER <= now or self.context.client(publisher.link.name) is not publisher.link:
                self._end(publisher.link)
            elif not publisher.is_asleep:
                publisher.sleep()
        if not self.leaves_out:
            for publisher in self._publishers.values():
                publisher.give_up()
        if not self._publishers:
            return
        if self.context.knows_all:
            for publisher in self._publishers.values():
                if not publisher.is_open and not publisher.is_asleep:
                    publisher.open()
        due = KEPT_INTERVAL if self._kept_at == self._asked_at else RETRY
        if all(one.is_asleep for one in self._publishers.values()):
            return
        if self._asked_at is None or now - self._asked_at >= due:
            self._asked_at = now
            self.context.wave("kept", b"", lambda answer, complete: self._all_kept(now, answer, complete))

    def _on_tree(self, proceed: Callable[..., None], old: Tree, new: Tree) -> None:
        for publisher in self._publishers.values():
            publisher.is_open = False
        proceed(old, new)
        self.context.call_later(0, self._look)

    def _on_graph(self, proceed: Callable[..., None], old: int, new: int) -> None:
        proceed(old, new)
        self.context.call_later(0, self._look)

    # --- durable subscriptions ------------------------------------------------------------------------

    def knows_kept(self, since: int) -> bool:
        """Whether it is known what was kept at some time from this one on, and not too long ago."""
        at = self._kept_at
        return at is not None and at >= since and self.context.now() - at < LINGER // 2

    def _all_kept(self, at: int, answer: bytes, complete: bool) -> None:
        """All brokers have said what they keep, or some have."""
        if not complete or not self._publishers or (self._kept_at or 0) >= at:
            return
        self._kept, self._kept_at = frozenset(_read_texts(answer)), at
        for publisher in self._publishers.values():
            publisher.keep(self._kept)
            publisher.grant()

    def visit(self, body: bytes, answer: Callable[[bytes | None], None]) -> None:
        """Say which durable subscriptions are kept here."""
        answer(pack(_bounded(map(_told, self.kept_here()))))

    def combine(self, answers: list[bytes]) -> bytes:
        """The union."""
        try:
            return pack(_bounded(text for answer in answers for text in _read_texts(answer)))
        except UNREADABLE:
            return pack([ALL])


def _bounded(texts: Iterable[str]) -> list[str]:
    found = sorted(set(texts))
    return [ALL] if len(found) > MAX_WANTED else found


def _told(text: str) -> str:
    """The filter of a durable subscription, as clients are told."""
    try:
        filter = Filter.parse(text)
    except FilterError:
        return ALL
    return ALL if len(text) > MAX_TEXT or is_located(filter) else text
