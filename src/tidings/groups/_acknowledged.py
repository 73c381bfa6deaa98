"""Acknowledged groups: several subscribers share the work, and each notification is handled by one that says so.

Theory of operation
-------------------
`_workers` is what every broker does for the members that are attached to it, `_work_queue` what one broker of the tree
does for the group, `_jobs` the states of one job, `_handled` what outlives all of them. This module lets them hear what
clients and other brokers say, and keeps what is handled for as long as the group may go on; `_sharing` does the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tidings.broker import InnerClient, Link, Log
from tidings.model import ROOT_SCOPE, Notification, TidingsError
from tidings.wire import (
    WORK,
    Ack,
    Enlist,
    Extension,
    Frame,
    Nack,
    Quit,
    ToWorker,
    Unread,
    WireError,
    Work,
    pack,
    read_from_worker,
)

from ._dead_letters import Undertaker, check_letters
from ._feature import Groups
from ._handled import HandledFacts
from ._limits import (
    MAX_ACK_WITHIN,
    MIN_ACK_WITHIN,
    MOST_DELIVERIES,
    MOST_IN_FLIGHT,
)
from ._messages import Begun, Lost, Present, Refuse, Terms
from ._positions import Positions
from ._sharing import UNREADABLE, Sharing, checked
from ._work_messages import (
    Claim,
    Done,
    Facts,
    Give,
    Return,
    Revoke,
    WorkKnown,
    WorkSaid,
    WorkSaying,
    read_work,
    read_work_known,
)
from ._work_queue import WorkQueue
from ._workers import Workers

_PUBLISHER = "/~dead-letters/"
"""Before the name and epoch of a broker: the client inside it that publishes dead letters."""


class Acknowledged(Sharing[WorkQueue, Workers, Enlist]):
    """The acknowledged groups of one broker: their members here, and those that it is the point of."""

    name = WORK
    strength = (
        "its members acknowledge what they get, and this client would not; subscribe with `ack=True`, on the command "
        "line --ack"
    )

    def __init__(self, plain: Groups) -> None:
        """`plain` are the plain groups of the same broker: a name is of one or the other."""
        super().__init__()
        self.members = Workers(self)
        self.undertaker = Undertaker(self)
        self._claims: dict[str, list[tuple[str, Claim]]] = {}
        """What members that have come since everybody was asked say that they hold."""
        self._resetting: dict[str, list[Callable[[int | None], None]]] = {}
        """Groups that are reset when everybody has been asked, and who waits for that."""
        self.positions = Positions(self)
        self.other, plain.other = plain, self

    def start(self) -> None:
        """Read what is on disk."""
        self.positions.read()

    @property
    def log(self) -> Log | None:
        """The disk, if there is one."""
        return self.context.log

    # --- what is said ---------------------------------------------------------------------------------

    def on_message(self, link: Link, body: bytes) -> None:
        """A client joins or leaves, or says what it has done."""
        try:
            said = read_from_worker(body)
        except WireError:
            self.context.refused()
            return
        if not link.is_client:
            self.context.refused()
            return
        match said:
            case Quit():
                self._unready.pop((link, said.id), None)
                self.members.leave(link, said.id)
            case Ack():
                self.members.ack(link, said)
            case Nack():
                self.members.nack(link, said)
            case Unread():
                self.members.unread(link, said)
            case Enlist():
                self._ask(link, said.id, said)

    def _join(self, link: Link, said: Enlist) -> None:
        try:
            filter = checked(said.filter, link)
            sees = self.sees(link.principal)
            check_work(said.work, said.max_in_flight, sees)
            name = self.name_of(link, said.group)
            if said.work.max_deliveries and link.guard is not None:
                check_letters(link.guard, name, said.work.max_deliveries)
            self.members.enlist(link, said, name, Terms(str(filter), sees, said.work))
        except TidingsError as error:
            self.refuse(link, said.id, error)

    def on_routed(self, source: str, body: bytes) -> None:
        """Another broker says something."""
        try:
            said = read_work(body).said
        except UNREADABLE:
            self.context.refused()
            return
        self._heard(source, said)

    def _heard(self, source: str, said: WorkSaid) -> None:
        group = self.groups.get(said.key)
        match said:
            case Present():
                self._present(source, said)
            case Begun():
                self.members.begun(said)
                self._succeeded(source, said)
            case Give():
                self.members.given(said)
            case Revoke():
                self.members.revoke(said)
            case Lost():
                self.members.lost(said)
            case Refuse():
                self.members.refused(said)
            case Done() if group is not None:
                group.acked(said)
            case Done():
                self.handled(said.key).note(said.job.event)
            case Return() if group is not None:
                group.returned(source, said)
            case Claim() if self.points.is_deciding(said.key) and group is not None:
                group.claimed(source, said)
            case Claim() if said.key in self.points:
                self._claims.setdefault(said.key, []).append((source, said))
            case Facts():
                self._learned(source, said, group)

    def _learned(self, source: str, said: Facts, group: WorkQueue | None) -> None:
        if self.points.is_deciding(said.key) and group is not None:
            if source != self.context.name:
                group.learned(source, said)
        else:
            self.learn(said.key, said)
        self.members.learned(said)

    # --- the point ------------------------------------------------------------------------------------

    def tell(self, key: str) -> bytes | None:
        """What this broker knows about a group."""
        group, facts = self.groups.get(key), self.positions.find(key)
        return pack(
            WorkKnown(
                self.context.epoch,
                self.members.present(key),
                self.members.heard(key),
                facts.told() if facts is not None else {},
                self.members.hands(key),
                group.tried() if group is not None else (),
                facts.told_lost() if facts is not None else {},
                group.terms if group is not None else None,
            )
        )

    def begin(self, key: str, told: Mapping[str, bytes]) -> None:
        """This broker decides for a group from now on."""
        known = {broker: read_work_known(body) for broker, body in told.items()}
        resetting = self._resetting.pop(key, ())
        if (group := self.groups.get(key)) is None:
            if resetting and not any(one.handled or one.present is not None for one in known.values()):
                self.points.forget(key)  # there is no such group
                for done in resetting:
                    done(None)
                return
            group = self.groups[key] = WorkQueue(self, key)
        self._keep(key)
        group.begin(known, reset=self.origins() if resetting else None)
        for broker, claim in self._claims.pop(key, ()):
            group.claimed(broker, claim)
        for done in resetting:
            done(group.dropped)
        self._has_begun(key, group)

    def reset(self, key: str, done: Callable[[int | None], None]) -> None:
        """Drop what waits for a group; here is its point. `done` hears how much that was; None: there is no such group.

        Everybody is asked first what is handled: whoever comes later may not know of more that is not.
        """
        self._resetting.setdefault(key, []).append(done)
        self.points.again(key)
        self.points.wanted(key)

    def cease(self, key: str) -> None:
        """Another broker decides."""
        self._claims.pop(key, None)
        self._resetting.pop(key, None)
        super().cease(key)

    def handled(self, key: str) -> HandledFacts:
        """What is known here to be handled."""
        return self.positions.of(key)

    def learn(self, key: str, facts: Facts) -> None:
        """Join what is said to be handled with what is known here; a point has to look at it."""
        if self.points.is_deciding(key) and (group := self.groups.get(key)) is not None:
            group.learned(self.context.name, facts)
        else:
            known = self.handled(key)
            known.join(facts.handled, facts.lost)
            known.take_news()

    # --- what the halves use --------------------------------------------------------------------------

    def say(self, broker: str, said: WorkSaid) -> None:
        """Tell a broker something; this one hears it at once."""
        if broker == self.context.name:
            self._heard(broker, said)
        else:
            self.context.send_to(broker, pack(WorkSaying(said)))

    def say_to_point(self, key: str, said: WorkSaid) -> None:
        """Tell the point of a group something."""
        self.say(self.point(key), said)

    say_of_work = say_to_point

    def tell_worker(self, link: Link, said: ToWorker) -> None:
        """Tell a member something."""
        self.context.tell(link, Extension(WORK, pack(said)))

    @property
    def advertises(self) -> bool:
        """Whether what is published must be advertised."""
        return self.context.routing.advertisements

    def bury(self, letter: Notification, buried: Callable[[bool], None]) -> None:
        """Publish a dead letter."""
        self.undertaker.bury(letter, buried)

    def open_publisher(self, receive: Callable[[Frame], None]) -> InnerClient:
        """Open the client that publishes dead letters."""
        return self.context.open_client(f"{_PUBLISHER}{self.context.name}/{self.context.epoch}", receive)


def check_work(work: Work, max_in_flight: int, sees: tuple[str, ...] = ()) -> None:
    """Raise `TidingsError` for what a group cannot work with."""
    if not MIN_ACK_WITHIN <= work.ack_within <= MAX_ACK_WITHIN:
        raise TidingsError(
            f"within={work.ack_within / 1_000_000:g}: give 0.01 to 86,400 seconds in which a member acknowledges"
        )
    if not 0 <= work.max_deliveries <= MOST_DELIVERIES:
        raise TidingsError(
            f"max_deliveries={work.max_deliveries}: give 1 to {MOST_DELIVERIES:,} times that a job is given to a "
            "member, or None for no limit"
        )
    if not 1 <= max_in_flight <= MOST_IN_FLIGHT:
        raise TidingsError(
            f"max_in_flight={max_in_flight}: give 1 to {MOST_IN_FLIGHT:,} jobs that a member holds at once"
        )
    if work.max_deliveries and (scope := next((one for one in sees if one != ROOT_SCOPE), "")):
        raise TidingsError(
            f"max_deliveries={work.max_deliveries}: this client is a member of the scope '{scope}', and a dead letter "
            "would show outside of it what was visible inside; give None, as in ack=tidings.Acks(max_deliveries=None) "
            "or --no-dead-letters, and look at `deliveries` of a job to find one that never succeeds"
        )
