"""Every row of the tables of a subscription's states, at one broker whose neighbour and clock are the test.

Broker 'a' has a client and one neighbour, 'o', which is the origin of what comes. Each test names the rows that it
shows; the last one looks whether any row was left out.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterable, Iterator

import pytest

from tidings.broker import (
    TABLES,
    Announcing,
    Broker,
    Debt,
    Delivering,
    Hold,
    Link,
    LinkKind,
    Registration,
)
from tidings.broker import announcing as announcing_of
from tidings.broker import debts as debts_of
from tidings.broker import delivering as delivering_of
from tidings.broker.outlets import _backlog, _recovery
from tidings.history import Strict
from tidings.model import EVERYTHING, ROOT_ROUTE, Filter, Identity, Notification, last
from tidings.wire import (
    AnyMessage,
    Attach,
    Deliver,
    Envelope,
    Fetch,
    Fetched,
    Frame,
    Gap,
    Hop,
    LinkState,
    Notify,
    Past,
    Quality,
    Settled,
    Subscribe,
    TreeMarks,
    TreeReady,
    Unsubscribe,
    encode_body,
)

PLACING, SETTLING, SETTLED = Announcing
OPEN, HELD = Delivering
WAITING, ASKED = Debt
ORIGIN = "o"


class _Timer:
    def __init__(self, action: Callable[[], None]) -> None:
        self.action: Callable[[], None] | None = action

    def cancel(self) -> None:
        self.action = None


class ByHand:
    """A runtime whose clock is turned by hand, and that keeps what was sent."""

    epoch, log = 1, None

    def __init__(self) -> None:
        self.time = 0
        self.sent: list[tuple[Link, AnyMessage]] = []
        self._timers: list[tuple[int, int, _Timer]] = []
        self._count = itertools.count()

    def now(self) -> int:
        return self.time

    def send(self, link: Link, frame: Frame) -> None:
        self.sent.append((link, frame.message))

    def send_all(self, links: Iterable[Link], frame: Frame) -> None:
        for link in links:
            self.send(link, frame)

    def open_local(self, link: Link, receive: Callable[[Frame], None]) -> None:
        raise NotImplementedError

    def close_local(self, link: Link) -> None:
        """Nobody lives here."""

    def call_later(self, delay: int, action: Callable[[], None]) -> _Timer:
        timer = _Timer(action)
        heapq.heappush(self._timers, (self.time + delay, next(self._count), timer))
        return timer

    def pass_time(self, microseconds: int) -> None:
        until = self.time + microseconds
        while self._timers and self._timers[0][0] <= until:
            self.time, _, timer = heapq.heappop(self._timers)
            if timer.action is not None:
                timer.action()
        self.time = until


class Holding:
    """A holder that does nothing by itself, and notes what it hears."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def turn_ended(self) -> None: ...

    def has_kept(self) -> None:
        self.heard.append("has kept")

    def restarted(self) -> None:
        self.heard.append("restarted")

    def ended(self) -> None:
        self.heard.append("ended")


class Stage:
    """Broker 'a' with one client, and the neighbour 'o' in our hands."""

    def __init__(self) -> None:
        self.runtime = ByHand()
        self.broker = Broker("a", self.runtime, features=[Strict()])
        self.client = Link("client", LinkKind.CLIENT)
        self.broker.attach(self.client)
        self.link = Link(ORIGIN, LinkKind.BROKER)
        self._version = 0

    # --- the neighbour --------------------------------------------------------------------------------

    def connect(self) -> None:
        """A link to the neighbour, and a tree with it, of which neither filters nor marks are known."""
        self._version += 1
        self.broker.link_up(self.link)
        self.runtime.pass_time(20_000)
        self.broker.receive(self.link, Frame(LinkState(ORIGIN, 1, self._version, {"a": self._version})))
        self.runtime.pass_time(20_000)
        generation = self.broker.adjacency.generation
        self.broker.receive(self.link, Frame(Attach(self.broker.adjacency.tree.epoch, generation, generation)))

    def disconnect(self) -> None:
        self.broker.link_down(self.link)
        self._version += 1

    def says(self, message: AnyMessage) -> None:
        self.broker.receive(self.link, Frame(message, Hop(self.broker.adjacency.tree.epoch)))

    def confirms(self) -> None:
        """Whatever it was told of filters has settled."""
        for _, message in [one for one in self.runtime.sent if one[0] is self.link]:
            if isinstance(message, Subscribe):
                self.says(Settled(message.id, number=message.number))

    def marks(self, number: int) -> None:
        """It is ready, and has published so much."""
        self.says(TreeReady())
        self.says(TreeMarks({ORIGIN: (1, number)}))

    def join(self, number: int = 0) -> None:
        """Everything that a tree needs."""
        self.connect()
        self.confirms()
        self.marks(number)

    def notifies(self, number: int) -> None:
        self.says(Notify(published(number)))

    def answers(self, *numbers: int, upto: int, lost: tuple[int, int] | None = None, more: bool = False) -> None:
        (*_, fetch) = [message for message in self.said_to(self.link) if isinstance(message, Fetch)]
        gaps = () if lost is None else ((1, *lost),)
        envelopes = tuple(map(published, numbers))
        self.says(Fetched("a", fetch.number, envelopes, last=True, upto={1: upto}, lost=gaps, more=more))

    # --- the client -----------------------------------------------------------------------------------

    def subscribe(
        self, filter: Filter = EVERYTHING, *, number: int = 1, past: Past | None = None, after: int = -1
    ) -> Registration:
        positions = {ORIGIN: (1, after)} if after >= 0 else {}
        self.broker.receive(self.client, Frame(Subscribe("s", filter, number=number, past=past, after=positions)))
        return self.broker.registrations.subscriptions(self.client)["s"]

    def unsubscribe(self) -> None:
        self.broker.receive(self.client, Frame(Unsubscribe("s")))

    def said_to(self, link: Link) -> list[AnyMessage]:
        return [message for to, message in self.runtime.sent if to is link]

    @property
    def got(self) -> list[int]:
        """The numbers that the client got."""
        return [m.envelope.identity.seq for m in self.said_to(self.client) if isinstance(m, Deliver)]

    @property
    def told(self) -> int:
        """How often the client was told that its subscription has settled."""
        return sum(isinstance(message, Settled) for message in self.said_to(self.client))

    @property
    def gaps(self) -> list[tuple[int, int | None]]:
        return [(message.first, message.last) for message in self.said_to(self.client) if isinstance(message, Gap)]

    def carries(self, all_scopes: bool, monkeypatch: pytest.MonkeyPatch) -> None:
        """Whether the broker carries every scope of the client, from now on."""
        monkeypatch.setattr(self.broker.scoping, "places", lambda client: all_scopes)
        self.broker.registrations.place_clients([self.client])
        self.broker.settling.end_turn()

    # --- where the subscription stands ----------------------------------------------------------------

    def announcing(self, outlet: Registration) -> Announcing:
        return announcing_of(self.broker, outlet)

    def delivering(self, outlet: Registration) -> Delivering:
        return delivering_of(self.broker, outlet)

    def debt(self, outlet: Registration, origin: str = ORIGIN) -> Debt | None:
        return debts_of(self.broker, outlet).get(origin)


def published(number: int) -> Envelope:
    body = encode_body(Notification(n=number))
    return Envelope(Identity(ORIGIN, 1, number, "p", number, 0, 0), (ROOT_ROUTE,), body, Quality.ACCEPTED)


@pytest.fixture
def stage() -> Stage:
    return Stage()


SHOWN: dict[str, set[int]] = {name: set() for name in TABLES}


def rows(table: str, *numbers: int) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The rows of a table that a test shows, counted from 1."""
    SHOWN[table].update(numbers)
    return lambda test: test


# --- announcing -----------------------------------------------------------------------------------------


@rows("announcing", 2, 4)
def test_it_settles_when_all_who_must_know_it_do_and_the_marks_of_the_tree_are_known(stage: Stage) -> None:
    stage.connect()
    outlet = stage.subscribe()
    assert any(isinstance(message, Subscribe) for message in stage.said_to(stage.link))
    assert stage.announcing(outlet) is SETTLING
    stage.confirms()
    assert stage.announcing(outlet) is SETTLING
    assert not stage.told
    stage.marks(0)
    assert stage.announcing(outlet) is SETTLED
    assert stage.told == 1


@rows("announcing", 2, 4)
def test_marks_alone_do_not_settle_it(stage: Stage) -> None:
    stage.connect()
    outlet = stage.subscribe()
    stage.marks(0)
    assert (stage.announcing(outlet), stage.told) == (SETTLING, 0)
    stage.confirms()
    assert (stage.announcing(outlet), stage.told) == (SETTLED, 1)


@rows("announcing", 1, 3)
def test_it_waits_for_the_scopes_of_its_client(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    stage.join()
    monkeypatch.setattr(stage.broker.scoping, "places", lambda client: False)
    outlet = stage.subscribe()
    assert (stage.announcing(outlet), stage.told) == (PLACING, 0)
    stage.carries(True, monkeypatch)
    assert (stage.announcing(outlet), stage.told) == (SETTLING, 0)
    stage.confirms()
    assert (stage.announcing(outlet), stage.told) == (SETTLED, 1)


@rows("announcing", 5)
def test_what_has_not_been_told_is_owed_nothing_when_a_scope_is_lost(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.join()
    outlet = stage.subscribe()
    assert stage.announcing(outlet) is SETTLING
    stage.carries(False, monkeypatch)
    assert stage.announcing(outlet) is PLACING
    assert debts_of(stage.broker, outlet) == {}


@rows("announcing", 6)
@rows("debt of one origin", 1)
def test_every_origin_owes_what_follows_to_what_has_lost_a_scope(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    stage.join(7)
    outlet = stage.subscribe()
    stage.confirms()
    assert stage.announcing(outlet) is SETTLED
    stage.carries(False, monkeypatch)
    assert stage.announcing(outlet) is PLACING
    assert debts_of(stage.broker, outlet) == {ORIGIN: WAITING, "a": WAITING}  # this broker included
    assert stage.broker.recovery.seen.marks_of([outlet])[ORIGIN] == (1, 7)


@rows("announcing", 7)
def test_on_a_new_tree_it_settles_again_and_its_client_hears_nothing_before(stage: Stage) -> None:
    stage.join()
    outlet = stage.subscribe()
    stage.confirms()
    stage.disconnect()
    stage.connect()
    assert (stage.announcing(outlet), stage.told) == (SETTLING, 2)  # alone in between, it had settled
    stage.confirms()
    assert (stage.announcing(outlet), stage.told) == (SETTLING, 2)
    stage.marks(0)
    assert (stage.announcing(outlet), stage.told) == (SETTLED, 3)


@rows("announcing", 8)
def test_whoever_asks_again_is_told_again(stage: Stage) -> None:
    outlet = stage.subscribe()
    assert stage.subscribe(number=2) is outlet
    answers = [message.number for message in stage.said_to(stage.client) if isinstance(message, Settled)]
    assert answers == [1, 2]


@rows("announcing", 9, 10, 11)
@rows("delivering", 7)
@rows("debt of one origin", 8)
@pytest.mark.parametrize("state", [PLACING, SETTLING, SETTLED])
@pytest.mark.parametrize("how", ["unsubscribe", "detach"])
def test_nothing_is_left_of_what_has_ended(
    stage: Stage, state: Announcing, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.connect()
    outlet = stage.subscribe(after=3)
    if state is SETTLED:
        monkeypatch.setattr(stage.broker.delivery, "congested", lambda owed: True)  # it is not asked for
        stage.confirms()
        stage.marks(9)
    elif state is PLACING:
        stage.carries(False, monkeypatch)
    assert (stage.announcing(outlet), stage.delivering(outlet), stage.debt(outlet)) == (state, OPEN, WAITING)
    if how == "unsubscribe":
        stage.unsubscribe()
    else:
        stage.broker.detach(stage.client)
    assert not stage.broker.recovery.suspended
    assert not list(stage.broker.client_subscriptions())
    assert stage.debt(outlet) is None
    assert not len(stage.broker.scoping.root.subscriptions)
    stage.notifies(4)
    assert stage.got == []


# --- delivering -----------------------------------------------------------------------------------------


def hold(stage: Stage, outlet: Registration) -> tuple[Hold, Holding]:
    holding = Holding()
    return stage.broker.holds.begin(outlet, holding), holding


@rows("delivering", 1, 3)
def test_it_delivers_from_the_turn_that_places_it(stage: Stage) -> None:
    stage.connect()
    outlet = stage.subscribe()
    assert (stage.announcing(outlet), stage.delivering(outlet)) == (SETTLING, OPEN)
    stage.notifies(1)
    assert stage.got == [1]


@rows("delivering", 3)
def test_what_its_origin_owes_comes_before_what_follows(stage: Stage) -> None:
    stage.connect()
    outlet = stage.subscribe(after=3)
    stage.notifies(9)
    assert (stage.delivering(outlet), stage.got) == (OPEN, [])


@rows("delivering", 2)
def test_what_reaches_into_the_past_is_held(stage: Stage) -> None:
    stage.connect()
    outlet = stage.subscribe(past=Past(last(3)))
    assert stage.delivering(outlet) is HELD
    stage.confirms()
    stage.marks(0)
    assert (stage.announcing(outlet), stage.told) == (SETTLED, 0)  # its past comes first


@rows("delivering", 4, 6)
def test_what_is_held_is_kept_and_follows_when_it_is_released(stage: Stage) -> None:
    stage.join()
    outlet = stage.subscribe()
    one, holding = hold(stage, outlet)
    stage.confirms()
    for number in (1, 2, 3):
        stage.notifies(number)
    assert (stage.delivering(outlet), stage.got, stage.told) == (HELD, [], 0)
    assert holding.heard == ["has kept"] * 3
    stage.broker.holds.release(one, {ORIGIN: (1, 1)})
    assert (stage.delivering(outlet), stage.told) == (OPEN, 1)
    stage.broker.holds.hand_over(one, {ORIGIN: (1, 1)})
    assert stage.got == [2, 3]
    assert stage.debt(outlet) is None


@rows("delivering", 4, 6)
@rows("debt of one origin", 1)
def test_an_origin_owes_what_a_hold_had_no_room_for(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_backlog, "MAX_KEPT", 2)
    stage.join()
    outlet = stage.subscribe()
    one, _ = hold(stage, outlet)
    stage.confirms()
    for number in (1, 2, 3, 4):
        stage.notifies(number)
    stage.broker.holds.release(one, {ORIGIN: (1, 1)})
    stage.broker.holds.hand_over(one, {ORIGIN: (1, 1)})
    assert (stage.delivering(outlet), stage.got, stage.debt(outlet)) == (OPEN, [], ASKED)
    stage.answers(2, 3, 4, upto=4)
    assert stage.got == [2, 3, 4]


@rows("delivering", 5)
def test_a_new_tree_takes_with_it_what_was_kept(stage: Stage) -> None:
    stage.join()
    outlet = stage.subscribe()
    one, holding = hold(stage, outlet)
    stage.notifies(1)
    stage.disconnect()
    assert (stage.delivering(outlet), one.count) == (HELD, 0)
    assert holding.heard == ["has kept", "restarted"]
    assert debts_of(stage.broker, outlet) == {}  # what is held is owed nothing


@rows("delivering", 8)
def test_a_holder_hears_that_its_subscription_has_ended(stage: Stage) -> None:
    outlet = stage.subscribe()
    _, holding = hold(stage, outlet)
    stage.unsubscribe()
    assert holding.heard == ["ended"]
    assert outlet not in stage.broker.holds


# --- the debt of one origin -----------------------------------------------------------------------------


def owed(stage: Stage, since: int = 3, published: int = 9) -> Registration:
    """A subscription that goes on from a position, and whose origin has been asked."""
    stage.connect()
    outlet = stage.subscribe(after=since)
    stage.confirms()
    stage.marks(published)
    return outlet


@rows("debt of one origin", 1, 2)
def test_what_a_resume_is_owed_is_asked_for_when_it_has_settled(stage: Stage) -> None:
    stage.connect()
    outlet = stage.subscribe(after=3)
    assert stage.debt(outlet) is WAITING
    stage.marks(9)
    assert stage.debt(outlet) is WAITING
    stage.confirms()
    assert stage.debt(outlet) is ASKED
    (fetch,) = [message for message in stage.said_to(stage.link) if isinstance(message, Fetch)]
    assert fetch.after == {1: 3}


@rows("debt of one origin", 2)
def test_nothing_is_asked_for_as_long_as_there_is_no_room_at_the_client(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stage.broker.delivery, "congested", lambda owed: True)
    outlet = owed(stage)
    stage.runtime.pass_time(1_000_000)
    assert stage.debt(outlet) is WAITING
    monkeypatch.setattr(stage.broker.delivery, "congested", lambda owed: False)
    stage.runtime.pass_time(_recovery.CONTINUE_INTERVAL)
    assert stage.debt(outlet) is ASKED


def met(stage: Stage, number: int) -> Registration:
    """A subscription on a tree that it has left again, having seen so much of the origin."""
    stage.join(number)
    outlet = stage.subscribe()
    stage.confirms()
    stage.disconnect()
    assert stage.debt(outlet) is WAITING
    return outlet


@rows("debt of one origin", 1, 3)
def test_an_origin_that_is_where_it_was_owes_nothing(stage: Stage) -> None:
    outlet = met(stage, 7)
    stage.connect()
    stage.marks(7)
    assert stage.debt(outlet) is None
    assert not any(isinstance(message, Fetch) for message in stage.said_to(stage.link))


@rows("debt of one origin", 3)
def test_an_origin_that_may_not_have_known_the_filter_is_asked_though_it_is_where_it_was(stage: Stage) -> None:
    outlet = owed(stage, since=9, published=9)
    assert stage.debt(outlet) is ASKED


@rows("debt of one origin", 3)
def test_an_origin_of_which_something_was_kept_is_asked_though_it_says_that_it_is_where_it_was(stage: Stage) -> None:
    outlet = met(stage, 7)
    stage.connect()
    stage.confirms()
    stage.notifies(8)
    stage.marks(7)
    assert (stage.got, stage.debt(outlet)) == ([], ASKED)


@rows("debt of one origin", 1, 2)
def test_an_origin_that_has_moved_on_is_asked(stage: Stage) -> None:
    outlet = met(stage, 7)
    stage.join(8)
    assert stage.debt(outlet) is ASKED


@rows("debt of one origin", 5)
def test_an_answer_is_handed_over_with_what_was_kept_in_order_and_what_is_lost_is_told(stage: Stage) -> None:
    outlet = owed(stage)
    for number in (9, 10):
        stage.notifies(number)
    assert stage.got == []
    stage.answers(4, 7, 8, upto=10, lost=(5, 6))
    assert stage.got == [4, 7, 8, 9, 10]
    assert stage.gaps == [(5, 6)]
    assert stage.debt(outlet) is None
    stage.notifies(11)
    assert stage.got[-1] == 11


@rows("debt of one origin", 5)
def test_what_it_has_seen_is_not_handed_over_again(stage: Stage) -> None:
    owed(stage, since=3)
    stage.answers(2, 3, 4, upto=9)
    assert stage.got == [4]


@rows("debt of one origin", 4)
def test_if_there_is_more_the_debt_goes_on_from_there(stage: Stage) -> None:
    outlet = owed(stage)
    stage.notifies(9)
    stage.answers(4, 5, upto=5, more=True)
    assert (stage.got, stage.debt(outlet)) == ([4, 5], WAITING)
    stage.runtime.pass_time(1)
    assert stage.debt(outlet) is ASKED
    (*_, fetch) = [message for message in stage.said_to(stage.link) if isinstance(message, Fetch)]
    assert fetch.after == {1: 5}
    stage.answers(6, 7, 8, 9, upto=9)
    assert stage.got == [4, 5, 6, 7, 8, 9]


def fetches(stage: Stage) -> int:
    return sum(isinstance(message, Fetch) for message in stage.said_to(stage.link))


@rows("debt of one origin", 6)
def test_a_question_without_an_answer_is_asked_again_later_each_time(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    outlet = owed(stage)
    for asked, patience in ((1, 2), (2, 4), (3, 8)):
        assert fetches(stage) == asked
        stage.runtime.pass_time(patience * 1_000_000 - 1)
        assert fetches(stage) == asked
        stage.runtime.pass_time(1)
    monkeypatch.setattr(stage.broker.delivery, "congested", lambda owed: True)
    stage.runtime.pass_time(16_000_000)
    assert stage.debt(outlet) is WAITING


@rows("debt of one origin", 6)
def test_on_a_new_tree_an_answer_of_the_old_one_means_nothing(stage: Stage) -> None:
    outlet = owed(stage)
    stage.disconnect()
    assert stage.debt(outlet) is WAITING
    stage.connect()
    stage.answers(4, upto=9)
    assert (stage.got, stage.debt(outlet)) == ([], WAITING)


@rows("debt of one origin", 7)
def test_an_origin_is_waited_for_a_minute(stage: Stage) -> None:
    outlet = met(stage, 7)
    stage.runtime.pass_time(_recovery.ORIGIN_TIMEOUT - 1)
    assert (stage.debt(outlet), stage.gaps) == (WAITING, [])
    stage.runtime.pass_time(1)
    assert (stage.debt(outlet), stage.gaps) == (None, [(8, None)])


@rows("debt of one origin", 7)
def test_a_scope_is_waited_for_a_minute_and_what_was_kept_follows_the_gap(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.join(7)
    outlet = stage.subscribe()
    stage.confirms()
    stage.carries(False, monkeypatch)
    for number in (9, 10):
        stage.notifies(number)
    stage.runtime.pass_time(_recovery.ORIGIN_TIMEOUT)
    assert debts_of(stage.broker, outlet) == {}
    heard = [message for message in stage.said_to(stage.client) if not isinstance(message, Settled)]
    assert [type(one) for one in heard if getattr(one, "origin", ORIGIN) == ORIGIN] == [Gap, Deliver, Deliver]
    assert (stage.got, (8, None) in stage.gaps) == ([9, 10], True)


@rows("debt of one origin", 8, 9)
def test_what_has_ended_is_owed_nothing_though_its_origin_was_asked(stage: Stage) -> None:
    outlet = owed(stage)
    assert stage.debt(outlet) is ASKED
    stage.unsubscribe()
    assert stage.debt(outlet) is None
    stage.answers(4, 5, upto=9)
    assert stage.got == []


# --- always ---------------------------------------------------------------------------------------------


def test_an_origin_owes_a_subscription_one_thing_at_a_time(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    outlet = met(stage, 7)  # of the first tree
    stage.connect()
    stage.disconnect()  # another one
    stage.connect()
    stage.carries(False, monkeypatch)  # and a scope is lost
    assert len(stage.broker.recovery._debts.of(ORIGIN)) == 1
    assert stage.debt(outlet) is WAITING
    assert stage.broker.recovery.seen.marks_of([outlet])[ORIGIN] == (1, 7)


def test_what_is_held_is_owed_nothing_whatever_happens(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    stage.join(7)
    outlet = stage.subscribe()
    hold(stage, outlet)
    stage.confirms()
    stage.disconnect()
    stage.connect()
    outlet.told = True
    stage.carries(False, monkeypatch)
    assert debts_of(stage.broker, outlet) == {}


def _all_rows() -> Iterator[tuple[str, int]]:
    for name, table in TABLES.items():
        yield from ((name, number) for number, _ in enumerate(table, start=1))


def test_every_row_is_shown_by_a_test_of_this_module() -> None:
    assert [row for row in _all_rows() if row[1] not in SHOWN[row[0]]] == []
