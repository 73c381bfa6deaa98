"""Following: durable subscriptions go where their client goes.

Theory of operation
-------------------
What a broker keeps of a durable subscription, its *record*, has a stamp: the epoch of the client under which it was
kept (`_hosts`), and the time. Of two records the one with the newer stamp counts. Everything follows from that; no
message has to arrive.

- *Recall*: before a broker says what it keeps, it asks all others, by a wave. The newest record comes here: it is on
  this broker's disk, under the present epoch of its client, before anybody else is told.
- *Moves*: then everybody is told that it is kept here, as whenever a client that lives keeps a position for the first
  time at a broker. Brokers note it as a *pointer*, and who has an older record deletes it.
- *Forget*: a pointer that names no broker. It outlives the record, so that an older one at a broker that could not be
  reached does not come back.

A pointer tells what is missing. If the newest one names a broker that does not answer, or that has no record any more,
the client is told which broker that is, and asks again; what is found meanwhile it uses only after a while
(`client._durable`). If the wave was incomplete and nothing is known of the subscription, those are missing that have
not answered.

A question, a record and a pointer carry the identity of the client. A broker gives nothing to another identity than the
one that it keeps a record for, and says so in its log. All this comes from brokers only: clients cannot start waves.
"""

from __future__ import annotations

import functools
from collections import Counter, deque
from collections.abc import Callable, Mapping
from typing import NamedTuple

import msgspec

from tidings.broker import DurableRecord, Durables, Feature, Link, WaveKind
from tidings.model import Position, TidingsError
from tidings.wire import pack

from ._whereabouts import (
    MAX_KEYS,
    NEVER,
    Copy,
    Find,
    Found,
    Key,
    Moves,
    PassedBack,
    PassedOn,
    Pointer,
    Whereabouts,
    combined,
    read_find,
    read_found,
    read_moves,
    read_passed,
)

FIND_TIME = 2_000_000
"""Microseconds within which brokers say what they keep."""
MAX_MOVES = 500
"""The most moves in one message."""
MAX_WAVES = 32
"""The waves of one broker that are under way at a time; more questions wait and go together."""
MAX_WAITING = 100_000
"""The most questions that wait at one broker; more are refused."""
MAX_OPEN = 200
"""The most of one client."""
MAX_REASON = 1_000
"""The most characters of what another broker says about a record."""
MAX_MISSING = 16
"""The most missing brokers that a client is told of."""


class _Question(NamedTuple):
    key: Key
    link: Link
    done: Callable[[tuple[str, ...]], None]


class Following(Feature):
    """Brings the records of durable subscriptions to where their clients are."""

    name = "following"

    def __init__(
        self, epoch_of: Callable[[str], int] = lambda client: 0, warn: Callable[[str], None] = lambda text: None
    ) -> None:
        """`epoch_of` says under which epoch a client is hosted here."""
        self._epoch_of = epoch_of
        self._warn = warn
        self._durables: Durables | None = None
        self._questions: deque[_Question] = deque()
        self._open: Counter[Link] = Counter()
        """How many questions of each client are not answered yet."""
        self._moves: deque[tuple[Key, Pointer]] = deque()
        self._passing: dict[int, Callable[[str], None]] = {}
        """What was passed on and not answered yet."""
        self._passed = 0
        self._waves = 0
        self._soon = False
        self.moved_here = 0
        """How many records have come from other brokers."""

    def start(self) -> None:
        """Read the pointers."""
        self.whereabouts = Whereabouts(self.context.log)

    def serve(self, durables: Durables) -> None:
        """From now on, these follow their clients."""
        self._durables = durables
        durables.epoch_of = self._epoch_of
        durables.gather = self.gather
        durables.kept = self.kept
        durables.forgotten = self.forgotten
        durables.pass_on = self.pass_on

    def in_use(self, client: str) -> list[Mapping[str, Position]]:
        """How far a client that is attached here has come in each durable subscription that it uses."""
        return self._durables.in_use(client) if self._durables is not None else []

    def wave_kinds(self) -> Mapping[str, WaveKind]:
        """What is kept is asked for, and where it is kept is told."""
        return {"find": _Finding(self), "moves": _Telling(self)}

    # --- what the durable subscriptions of this broker ask for ----------------------------------------

    def gather(self, link: Link, name: str, done: Callable[[tuple[str, ...]], None]) -> None:
        """Bring the newest record here, then call `done` with the brokers that may have a newer one."""
        if len(self._questions) >= MAX_WAITING or self._open[link] >= MAX_OPEN:
            raise TidingsError(
                f"'{name[:80]}': broker '{self.context.name}' looks for too many durable subscriptions; try again when "
                "those before were found"
            )
        self._open[link] += 1
        self._questions.append(_Question(Key(link.owner, link.name, name), link, done))
        self._go_soon()

    def kept(self, link: Link, name: str) -> None:
        """A record is on disk here; tell the others, if they think that it is elsewhere."""
        key = Key(link.owner, link.name, name)
        pointer = self.whereabouts.get(key)
        if pointer is None or pointer.broker != self.context.name:
            self._tell(key, Pointer(self._own_stamp(key), self.context.name))

    def forgotten(self, link: Link, name: str, stamp: tuple[int, int]) -> None:
        """A record is no more, here or anywhere."""
        self._tell(Key(link.owner, link.name, name), Pointer(stamp, ""))

    def _tell(self, key: Key, pointer: Pointer) -> None:
        self.whereabouts.note(key, pointer)
        self._moves.append((key, pointer))
        self._go_soon()

    def _own_stamp(self, key: Key) -> tuple[int, int]:
        copy = self.copy_of(key)
        return copy.stamp if copy is not None else NEVER

    def copy_of(self, key: Key) -> Copy | None:
        """What is kept here of a subscription, for its owner."""
        record = self._durables.record_of(key.client, key.name) if self._durables is not None else None
        if record is None:
            return None
        if record.owner and record.owner != key.owner:
            self._warn(
                f"the durable subscription '{key.name}' of client '{key.client}' belongs to '{record.owner}', and "
                f"'{key.owner}' asks for it; compare what `tidings config names FILE` prints for all brokers"
            )
            return None
        return Copy((record.epoch, record.at), self.context.name, record.filter, record.positions)

    # --- waves ----------------------------------------------------------------------------------------

    def _go_soon(self) -> None:
        """Let what comes in one turn go together."""
        if not self._soon:
            self._soon = True
            self.context.call_later(0, self._go)

    def _go(self) -> None:
        self._soon = False
        while self._moves and self._waves < MAX_WAVES:
            moves = [self._moves.popleft() for _ in range(min(len(self._moves), MAX_MOVES))]
            self._start("moves", pack(Moves(tuple(moves))), lambda answer, complete: None)
        while self._questions and self._waves < MAX_WAVES:
            asked = [self._questions.popleft() for _ in range(min(len(self._questions), MAX_KEYS))]
            body = pack(Find(tuple(one.key for one in asked)))
            self._start("find", body, functools.partial(self._found, asked))

    def _start(self, kind: str, body: bytes, heard: Callable[[bytes, bool], None]) -> None:
        self._waves += 1

        def done(answer: bytes, complete: bool) -> None:
            self._waves -= 1
            heard(answer, complete)
            self._go_soon()

        self.context.wave(kind, body, done, FIND_TIME)

    def _found(self, asked: list[_Question], answer: bytes, complete: bool) -> None:
        own = Found((self.context.name,), *self.own([one.key for one in asked]))
        try:
            found = combined([own, read_found(answer)]) if answer else own
        except (msgspec.MsgspecError, ValueError):
            self.context.refused()
            found, complete = own, False
        silent = tuple(sorted(self.context.tree.hops.keys() - set(found.brokers)))[:MAX_MISSING]
        for one, copy, pointer in zip(asked, found.copies, found.pointers, strict=True):
            self._open[one.link] -= 1
            if not self._open[one.link]:
                del self._open[one.link]
            if self.context.client(one.link.name) is one.link:
                self._settle(one, copy, pointer, () if complete else silent)

    def _settle(self, one: _Question, copy: Copy | None, pointer: Pointer | None, silent: tuple[str, ...]) -> None:
        """Bring a record here, if there is one elsewhere; then say which brokers may have a newer one."""
        durables, name = self._durables, one.key.name
        assert durables is not None
        if copy is not None and pointer is not None and not pointer.broker and pointer.stamp >= copy.stamp:
            durables.drop(one.key.client, name)
            copy = None
        missing: tuple[str, ...] = ()
        if pointer is not None:
            newer = copy is None or pointer.stamp[0] > copy.stamp[0]
            missing = (pointer.broker,) if pointer.broker and newer else ()
        elif copy is None:
            missing = silent
        if copy is None or copy.broker == self.context.name:
            one.done(missing)
            return

        if not durables.has_store:
            record = DurableRecord(copy.filter, copy.positions, copy.stamp[1], copy.stamp[0])
            durables.lend(one.link, name, copy.broker, record)
            one.done(missing)
            return

        def placed(on_disk: bool) -> None:
            if on_disk:
                self.moved_here += 1
                self.kept(one.link, name)
            one.done(missing if on_disk else (copy.broker,))

        # It was kept when it was kept: which origins have joined the network since then depends on it.
        durables.place(one.link, name, DurableRecord(copy.filter, copy.positions, copy.stamp[1]), placed)

    # --- records that stay where they are -------------------------------------------------------------

    def pass_on(
        self,
        broker: str,
        link: Link,
        name: str,
        record: DurableRecord,
        done: Callable[[Exception | None], None],
    ) -> None:
        """Have the broker that has a record keep what its client says here, where there is no store."""
        self._passed += 1
        number, key = self._passed, Key(link.owner, link.name, name)

        def told(error: str) -> None:
            if self._passing.pop(number, None) is not None:
                done(TidingsError(error) if error else None)

        self._passing[number] = told
        message = PassedOn(number, key, record.filter, dict(record.positions), (record.epoch, record.at))
        silent = f"broker '{broker}', which keeps durable subscription '{name}', does not answer; it is asked again"
        if self.context.send_to(broker, pack(message)):
            self.context.call_later(FIND_TIME, lambda: told(silent))
        else:
            told(silent)

    def on_routed(self, source: str, body: bytes) -> None:
        """A broker without a store passes something on, or the one that keeps it answers."""
        try:
            said = read_passed(body)
        except (msgspec.MsgspecError, ValueError):
            self.context.refused()
            return
        if isinstance(said, PassedBack):
            if (told := self._passing.get(said.number)) is not None:
                told(said.error[:MAX_REASON])
            return

        def answer(error: str) -> None:
            self.context.send_to(source, pack(PassedBack(said.number, error)))

        self._renew(said, answer)

    def _renew(self, passed: PassedOn, answer: Callable[[str], None]) -> None:
        key, copy = passed.key, self.copy_of(passed.key)
        if copy is None or self._durables is None or copy.stamp > passed.stamp:
            answer(f"broker '{self.context.name}' does not keep durable subscription '{key.name[:80]}' any more")
            return
        known = self._durables.record_of(key.client, key.name)
        owner = known.owner if known is not None else ""
        epoch, at = passed.stamp
        record = DurableRecord(passed.filter, passed.positions, at, epoch, owner)
        try:
            self._durables.renew(key.client, key.name, record, lambda: answer(""), lambda error: answer(str(error)))
        except TidingsError as error:
            answer(str(error))

    # --- what others ask and tell ---------------------------------------------------------------------

    def own(self, keys: list[Key]) -> tuple[tuple[Copy | None, ...], tuple[Pointer | None, ...]]:
        """What is kept here, and what is known here."""
        return tuple(self.copy_of(key) for key in keys), tuple(self.whereabouts.get(key) for key in keys)

    def heard(self, moves: Moves) -> None:
        """Records are elsewhere, or nowhere."""
        for key, pointer in moves.pointers:
            if pointer.broker == self.context.name:
                continue
            self.whereabouts.note(key, pointer)
            copy = self.copy_of(key)
            if copy is not None and copy.stamp <= pointer.stamp and self._durables is not None:
                self._durables.drop(key.client, key.name)


class _Finding:
    """The wave that asks what is kept."""

    def __init__(self, following: Following) -> None:
        self._following = following

    def visit(self, body: bytes, answer: Callable[[bytes | None], None]) -> None:
        try:
            keys = read_find(body).keys
        except (msgspec.MsgspecError, ValueError):
            answer(None)
            return
        if len(keys) > MAX_KEYS:
            answer(None)
            return
        following = self._following
        answer(pack(Found((following.context.name,), *following.own(list(keys)))))

    def combine(self, answers: list[bytes]) -> bytes:
        return pack(combined([read_found(answer) for answer in answers]))


class _Telling:
    """The wave that tells where records are."""

    def __init__(self, following: Following) -> None:
        self._following = following

    def visit(self, body: bytes, answer: Callable[[bytes | None], None]) -> None:
        try:
            self._following.heard(read_moves(body))
        except (msgspec.MsgspecError, ValueError):
            answer(None)
        else:
            answer(b"")

    def combine(self, answers: list[bytes]) -> bytes:
        return b""
