"""Deciding points: where it is chosen who gets a notification, once and for all.

Theory of operation
-------------------
Some things cannot be decided where each candidate is: which *one* of several gets a notification, which three of them.
They are decided at one broker, the *deciding point*. What is decided about has a *key*: a group, a scope.

*Where.* Every broker works out the point of a key by the same rule from the same tree: a broker that is named, else the
smallest name among the candidates (`point_of`). Nobody is elected, and nothing is stored.

*When.* A broker decides about a key only after it has heard from *every* broker of the current tree what that knows
about it: who decided until now, what was decided (`_facts`), what is under way, who is there. It asks by a wave, which
travels behind all that was sent before it on the same links; a broker that is asked, and has decided itself until now,
stops before it answers. So on one tree at most one broker decides, it begins where the others have stopped, and what
they have decided it does not decide again. If the wave comes back incomplete, it is sent again; what arrives meanwhile
waits (that is up to who decides).

*Two halves* of a cut network are two trees, and have two points. Each decides what it gets. When they are one again,
their point hears from both what was decided, and what neither has decided it decides.

*What is lost.* Facts live in the memory of the point. Each decision belongs to a *term*: the point, its epoch, and a
number. Who has heard from a point remembers its term, and tells it when asked. A term that somebody has heard of, and
that is in no answer, is lost: its broker has died, or is cut off (`Lineage`). What has been decided under it is then
unknown. What to do is up to who decides: to begin with what is published from now on and tell a `Gap`, or to go on from
the last known position and perhaps decide twice.

The states of one key at one broker:

    before       event                                        after        what happens
    -            it is wanted, and the point is here          GATHERING    ask every broker
    GATHERING    every broker has answered                    DECIDING     `begin`, with all answers
    GATHERING    not every broker has answered                GATHERING    ask again, after a while
    either       new tree or version, and the point is here   GATHERING    `suspend`; ask every broker
    DECIDING     something may have been lost (`again`)       GATHERING    `suspend`; ask every broker
    either       new tree or version, and it is elsewhere     -            `cease`
    either       another broker asks                          -            `cease`, then `tell`
    either       it is not wanted any more                    -

What a broker knows may be out of date: who has asked it may have begun, have decided, and be cut off. So it tells who
has asked it (`askers`), and whoever gathers goes by what it knows only if those are there, too.

A broker that has ceased keeps what it knows until another has begun, or nobody wants it any more: answers may be lost.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, Protocol

import msgspec

from ._context import Context

ASK_AGAIN = 200_000
"""Microseconds after which every broker is asked again, if not all have answered."""
MAX_KEYS = 10_000
"""The most keys that one question names; further ones are asked about by another one."""
MAX_LINEAGE = 256
"""The most terms that one remembers to have gone before."""


def point_of(candidates: Iterable[str], named: str = "") -> str:
    """The deciding point: the named broker if it is a candidate, else the smallest name; "": there are none.

    >>> point_of({"hamburg", "berlin"}), point_of({"hamburg", "berlin"}, named="hamburg")
    ('berlin', 'hamburg')
    """
    candidates = set(candidates)
    return named if named in candidates else min(candidates, default="")


class Term(NamedTuple):
    """Under which a point decides."""

    number: int
    point: str
    epoch: int
    """Of the broker: what it knew of earlier ones is gone."""


class Lineage:
    """The terms whose decisions are known here, the latest first to last."""

    def __init__(self, terms: Iterable[Term] = ()) -> None:
        self.terms: tuple[Term, ...] = tuple(sorted(set(terms)))[-MAX_LINEAGE:]

    def lost(self, heard: Iterable[Term]) -> set[Term]:
        """Those among the terms that somebody has heard of whose decisions are not known here."""
        known = set(self.terms)
        forgotten = self.terms[0] if len(self.terms) >= MAX_LINEAGE else None
        return {one for one in heard if one not in known and (forgotten is None or one > forgotten)}

    def next(self, heard: Iterable[Term], point: str, epoch: int) -> tuple[Term, Lineage]:
        """The next term, with a larger number than any that was heard of; and the lineage with it."""
        term = Term(max((one.number for one in (*self.terms, *heard)), default=0) + 1, point, epoch)
        return term, Lineage({*self.terms, term})


class State(enum.Enum):
    """What a broker that is the point of a key does about it."""

    GATHERING = "gathering"
    DECIDING = "deciding"


class Decider(Protocol):
    """Who decides: a feature, at each broker. See above for when it is called."""

    def point(self, key: str) -> str:
        """The deciding point on the tree and version of now, worked out alike at every broker; see `point_of`."""
        ...

    def tell(self, key: str) -> bytes | None:
        """What this broker knows about a key, for the point; None: nothing."""
        ...

    def begin(self, key: str, told: Mapping[str, bytes]) -> None:
        """This broker decides from now on; what every broker has told, by its name, this one included."""
        ...

    def suspend(self, key: str) -> None:
        """This broker decides nothing until it may `begin` again; what comes waits.

        If it waits already, there is another tree before everybody was heard on the last one. What has come on that one
        may have been decided by somebody who is out of reach now: it must be forgotten, and be asked for again.
        """
        ...

    def cease(self, key: str) -> None:
        """This broker decides no longer; it keeps what it has to `tell`."""
        ...


class _Question(msgspec.Struct, frozen=True, array_like=True):
    asker: str
    epoch: int
    keys: tuple[str, ...]


_Answers = dict[str, dict[str, bytes]]
_encode = msgspec.msgpack.encode
_question = msgspec.msgpack.Decoder(_Question).decode
_answers = msgspec.msgpack.Decoder(_Answers).decode

POINT_WAVE = "point"
"""The kind of the wave. The feature that decides names it in `wave_kinds`: `{POINT_WAVE: points}`."""


class Points:
    """The keys that one broker is the deciding point of, for one feature. Answers its waves, too."""

    def __init__(self, context: Callable[[], Context], decider: Decider) -> None:
        """`context` gives that of the feature, which has none before the broker is built."""
        self._context = context
        self._decider = decider
        self._states: dict[str, State] = {}
        self._asking = 0
        """How often everybody was asked: an answer to an earlier question is not waited for."""
        self._waves = 0
        """How many questions were sent."""
        self._since: dict[str, int] = {}
        """For each key that is gathered for, how many questions were sent before: answers to them are out of date."""
        self._soon = False
        self._askers: dict[str, dict[str, int]] = {}

    def __len__(self) -> int:
        return len(self._states)

    def is_here(self, key: str) -> bool:
        """Whether this broker is the point on the tree and version of now."""
        return self._decider.point(key) == self._context().name

    def is_deciding(self, key: str) -> bool:
        """Whether this broker decides now."""
        return self._states.get(key) is State.DECIDING

    def wanted(self, key: str) -> None:
        """Something is to be decided. If the point is here, it will be; what is known already does no harm."""
        if key not in self._states and self.is_here(key):
            self._gather(key)
            self._ask_soon()

    def again(self, key: str) -> None:
        """Something may have been lost without a new tree: suspend, and ask every broker."""
        if self._states.get(key) is State.DECIDING:
            self._gather(key)
            self._decider.suspend(key)
            self._ask_soon()

    def _gather(self, key: str) -> None:
        self._states[key] = State.GATHERING
        self._since[key] = self._waves

    def __contains__(self, key: str) -> bool:
        """Whether this broker is the point of a key that is wanted."""
        return key in self._states

    def askers(self, key: str) -> list[tuple[str, int]]:
        """Who has asked this broker since it decided last, each with its epoch.

        Each of them may have begun with what this broker told, and have decided since. If one of them cannot be heard,
        what this broker knows may be out of date. So it is part of what a broker that has decided tells.
        """
        return sorted(self._askers.get(key, {}).items())

    def drop(self, key: str) -> None:
        """This broker has nothing to tell about a key any more."""
        self._askers.pop(key, None)

    def forget(self, key: str) -> None:
        """Nothing is to be decided any more."""
        self._states.pop(key, None)
        self._since.pop(key, None)

    def moved(self) -> None:
        """There is a new tree, or a new version of what the rule goes by. To be called once that is in place."""
        self._asking += 1
        for key in list(self._states):
            if not self.is_here(key):
                self.forget(key)
                self._decider.cease(key)
            else:
                self._gather(key)
                self._decider.suspend(key)
        if self._states:
            self._ask_soon()

    # --- asking ---------------------------------------------------------------------------------------

    def _ask_soon(self, delay: int = 0) -> None:
        if not self._soon:
            self._soon = True
            self._context().call_later(delay, self._ask)

    def _ask(self) -> None:
        self._soon = False
        keys = [key for key, state in self._states.items() if state is State.GATHERING]
        self._waves += 1
        wave, number = self._waves, self._asking
        for at in range(0, len(keys), MAX_KEYS):
            some = tuple(keys[at : at + MAX_KEYS])
            question = _encode(_Question(self._context().name, self._context().epoch, some))
            self._context().wave(
                POINT_WAVE,
                question,
                lambda answer, complete, some=some: self._answered(some, number, wave, answer, complete),  # type: ignore[misc]
            )

    def _answered(self, keys: tuple[str, ...], number: int, wave: int, answer: bytes, complete: bool) -> None:
        waiting = [key for key in keys if self._states.get(key) is State.GATHERING and self._since[key] < wave]
        if number != self._asking:
            return  # of an earlier tree: everybody is asked anew
        if not complete:
            if waiting:
                self._ask_soon(ASK_AGAIN)
            return
        told = _answers(answer) if answer else {}
        for key in waiting:
            if self.is_here(key):
                self._states[key] = State.DECIDING
                del self._since[key]
                self._askers.pop(key, None)
                self._decider.begin(key, {broker: known[key] for broker, known in told.items() if key in known})

    # --- answering ------------------------------------------------------------------------------------

    def visit(self, body: bytes, answer: Callable[[bytes | None], None]) -> None:
        """A point asks what is known here."""
        try:
            question = _question(body)
        except msgspec.MsgspecError:
            self._context().refused()
            answer(None)
            return
        context = self._context()
        known: dict[str, bytes] = {}
        for key in question.keys:
            if question.asker != context.name:
                asked = self._askers.setdefault(key, {})
                asked[question.asker] = question.epoch
                if key in self._states:
                    self.forget(key)
                    self._decider.cease(key)
            if (told := self._decider.tell(key)) is not None:
                known[key] = told
        answer(_encode({context.name: known} if known else {}))

    def combine(self, answers: list[bytes]) -> bytes:
        """What several brokers know."""
        together: _Answers = {}
        for one in answers:
            for broker, known in _answers(one).items():
                if broker in together:
                    raise ValueError(f"two answers are of broker '{broker}'")
                together[broker] = known
        return _encode(together)
