"""The members of groups at one broker: who is there, what they were handed, and what their point must know.

Theory of operation
-------------------
A broker says to the point of a group who is there (`Present`) whenever that changes and on every new tree, and says it
again until the point has answered (`Begun`). What the point assigns is handed to the member in the turn in which it
comes, and confirmed soon; what is for a member that has gone is given back.

For each term of which something was handed over, the broker remembers up to which number: that is how the next point
learns which of the notifications that were under way have reached somebody.

A group whose members here have all gone is forgotten when the point knows so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from tidings.broker import Link, Term, Timer
from tidings.model import TidingsError
from tidings.wire import AnyMessage, Deliver, Envelope, Gap, Settled

from ._limits import (
    CONFIRM_AFTER,
    CONFIRM_MANY,
    MAX_GROUPS,
    MAX_GROUPS_OF_OWNER,
    MAX_MEMBERS,
    MAX_TERMS,
    SAY_AGAIN,
)
from ._messages import Assign, Begun, Confirm, Lost, Member, Numbers, Present, Refuse, Said, Taken, Terms, conflict
from ._names import GroupName

_MAX_BACK = 10_000
"""The most numbers that one term gives back and remembers."""


class Host(Protocol):
    """The broker, as far as members need it."""

    @property
    def epoch(self) -> int:
        """Its incarnation."""
        ...

    def now(self) -> int:
        """Microseconds since 1970 UTC."""
        ...

    def call_later(self, delay: int, action: Callable[[], None]) -> Timer:
        """Call `action` in a turn of its own."""
        ...

    def say_to_point(self, key: str, said: Said) -> None:
        """Tell the point of a group something."""
        ...

    def tell_client(self, link: Link, message: AnyMessage) -> None:
        """Send a message to a client."""
        ...

    def refuse(self, link: Link, id: str, error: TidingsError) -> None:
        """Tell a client that it is no member."""
        ...

    def is_away(self, link: Link) -> bool:
        """Whether the connection of a client is lost."""
        ...


class _Joined:
    """One membership."""

    def __init__(self, link: Link, id: str, number: int) -> None:
        self.link = link
        self.id = id
        self.number = number
        self.told = False


class _Local:
    """A group, as far as its members are here."""

    def __init__(self, name: GroupName, terms: Terms, since: int) -> None:
        self.name = name
        self.terms = terms
        self.since = since
        self.members: dict[tuple[str, str], _Joined] = {}
        self.version = 0
        self.heard: Term | None = None
        self.answered = -1
        self.settled = False
        self.begun_with = 0
        """The version in which there were members again: what the point says of earlier ones is of an earlier group."""
        self.taken: dict[Term, Taken] = {}
        self.unconfirmed = 0
        self.back: list[int] = []
        self.confirming: Timer | None = None
        self.saying: Timer | None = None


class Members:
    """Who has joined which group at one broker."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._groups: dict[str, _Local] = {}
        self._versions = 0
        """Grows with each change of any group: one that is forgotten and comes again goes on counting."""
        self._of: dict[Link, dict[str, str]] = {}
        """For each client, the group of each id."""

    def __len__(self) -> int:
        return len(self._groups)

    @property
    def keys(self) -> list[str]:
        """The groups that have members here, or had until their point has heard otherwise."""
        return list(self._groups)

    def all(self) -> Iterator[tuple[GroupName, int]]:
        """Each group that has members here, and how many."""
        for group in self._groups.values():
            yield group.name, len(group.members)

    def joined(self) -> list[tuple[Link, str, Terms]]:
        """Each membership, with what its group is about."""
        return [(one.link, one.id, group.terms) for group in self._groups.values() for one in group.members.values()]

    # --- what clients say -----------------------------------------------------------------------------

    def join(self, link: Link, id: str, number: int, name: GroupName, terms: Terms) -> None:
        """A client joins; `TidingsError` if it wants something else than the members that are here, or too much."""
        key = name.key
        known = self._of.get(link, {}).get(id)
        if known is not None and known != key:
            self.leave(link, id)
        group = self._groups.get(key)
        others = group is not None and any(one != (link.name, id) for one in group.members)
        if group is not None and others and group.terms != terms:
            raise TidingsError(not_taken(name, link.name, conflict(terms, group.terms)))
        if group is None:
            self._check_room(name)
            group = self._groups[key] = _Local(name, terms, self._host.now())
        elif len(group.members) >= MAX_MEMBERS and (link.name, id) not in group.members:
            raise TidingsError(
                f"group '{name}' has {len(group.members):,} members at this broker, the maximum; connect to another one"
            )
        if not group.members:  # the point may end the group before it hears of this one
            group.terms, group.since = terms, self._host.now()
            group.settled, group.begun_with = False, self._versions + 1
        group.members[link.name, id] = joined = _Joined(link, id, number)
        self._of.setdefault(link, {})[id] = key
        if group.settled and group.answered >= 0:
            joined.told = True
            self._host.tell_client(link, Settled(id, number=number))
        self._changed(key, group)

    def _check_room(self, name: GroupName) -> None:
        if len(self._groups) >= MAX_GROUPS:
            raise TidingsError(
                f"this broker has members of {len(self._groups):,} groups, the maximum, and no room for '{name}'; "
                "connect to another one"
            )
        whose = (name.owner, name.scope)
        owned = sum((group.name.owner, group.name.scope) == whose for group in self._groups.values())
        if any(whose) and owned >= MAX_GROUPS_OF_OWNER:
            owner = f"scope '{name.scope}'" if name.scope else f"'{name.owner}'"
            raise TidingsError(
                f"'{name}' is one group too many: {owner} has {owned:,} at this broker, the maximum; leave one"
            )

    def leave(self, link: Link, id: str) -> None:
        """A client leaves; one that is no member does nothing."""
        key = self._of.get(link, {}).pop(id, None)
        if key is None:
            return
        if not self._of[link]:
            del self._of[link]
        group = self._groups[key]
        joined = group.members.get((link.name, id))
        if joined is not None and joined.link is link:
            del group.members[link.name, id]
            self._changed(key, group)

    def put_out(self, link: Link, id: str, reason: str) -> None:
        """A client cannot be a member any more: tell it why."""
        name = self._groups[self._of[link][id]].name
        self.leave(link, id)
        self._host.refuse(link, id, TidingsError(not_taken(name, link.name, reason)))

    def gone(self, link: Link) -> None:
        """A client has gone."""
        for id in list(self._of.get(link, ())):
            self.leave(link, id)

    def moved(self, link: Link) -> None:
        """A client is away, or back."""
        for key in set(self._of.get(link, {}).values()):
            self._changed(key, self._groups[key])

    # --- what the point is told -----------------------------------------------------------------------

    def present(self, key: str) -> Present | None:
        """Who is there."""
        group = self._groups.get(key)
        if group is None:
            return None
        members = tuple(
            Member(one.link.name, one.id, not self._host.is_away(one.link)) for one in group.members.values()
        )
        return Present(key, group.terms, members, group.since, group.version, self._host.epoch)

    def heard(self, key: str) -> Term | None:
        """The last term that was heard of."""
        group = self._groups.get(key)
        return group.heard if group is not None else None

    def taken(self, key: str) -> list[tuple[Term, Taken]]:
        """What was handed over under each term."""
        group = self._groups.get(key)
        return list(group.taken.items()) if group is not None else []

    def _changed(self, key: str, group: _Local) -> None:
        self._versions += 1
        group.version = self._versions
        self._say(key, group)

    def new_tree(self) -> None:
        """What was under way is lost; the point may be another one."""
        for key, group in list(self._groups.items()):
            group.answered = -1
            self._say(key, group)

    def reached(self, is_towards: Callable[[str], bool]) -> None:
        """Something may be said to the points in some direction that could not be said before."""
        for key, group in list(self._groups.items()):
            if group.answered < group.version and is_towards(key):
                self._say(key, group)

    def _say(self, key: str, group: _Local) -> None:
        """Say who is there, until the point has heard it."""
        self._confirm(key, group)
        present = self.present(key)
        assert present is not None
        if group.saying is None:
            group.saying = self._host.call_later(SAY_AGAIN, lambda: self._say_again(key, group))
        self._host.say_to_point(key, present)

    def _say_again(self, key: str, group: _Local) -> None:
        group.saying = None
        if self._groups.get(key) is group and group.answered < group.version:
            self._say(key, group)

    # --- what the point says --------------------------------------------------------------------------

    def begun(self, begun: Begun) -> None:
        """The point decides."""
        group = self._groups.get(begun.key)
        if group is None or (group.heard is not None and begun.term < group.heard):
            return
        group.heard = begun.term
        group.answered = max(begun.version, group.answered)
        group.settled = begun.settled and begun.version >= group.begun_with
        if group.settled:
            for one in group.members.values():
                if not one.told:
                    one.told = True
                    self._host.tell_client(one.link, Settled(one.id, number=one.number))
        if not group.members and group.answered >= group.version:
            self._drop(begun.key, group)

    def _drop(self, key: str, group: _Local) -> None:
        for timer in (group.confirming, group.saying):
            if timer is not None:
                timer.cancel()
        del self._groups[key]

    def hand(self, key: str, client: str, id: str, envelope: Envelope) -> bool:
        """Give a notification to a member; False: it has gone."""
        group = self._groups.get(key)
        joined = group.members.get((client, id)) if group is not None else None
        if joined is None:
            return False
        self._host.tell_client(joined.link, Deliver(envelope, (id,)))
        return True

    def assigned(self, assign: Assign) -> None:
        """The point has chosen a member here."""
        group = self._groups.get(assign.key)
        if group is None:
            self._host.say_to_point(assign.key, Confirm(assign.key, assign.term, assign.number, (assign.number,)))
            return
        taken = group.taken.get(assign.term)
        if taken is None:
            taken = Taken(0)
            while len(group.taken) >= MAX_TERMS:
                del group.taken[min(group.taken)]
        if assign.number <= taken.upto:
            return
        back: Numbers = taken.back
        if not self.hand(assign.key, assign.client, assign.id, assign.envelope):
            back = (*back[-_MAX_BACK:], assign.number)
            group.back.append(assign.number)
        if group.heard != assign.term:
            group.heard = max(assign.term, group.heard or assign.term)
        group.taken[assign.term] = Taken(assign.number, back)
        group.unconfirmed += 1
        if group.unconfirmed >= CONFIRM_MANY or group.back:
            self._confirm(assign.key, group)
        elif group.confirming is None:
            group.confirming = self._host.call_later(CONFIRM_AFTER, lambda: self._confirm(assign.key, group))

    def _confirm(self, key: str, group: _Local) -> None:
        """Say what was handed over."""
        if group.confirming is not None:
            group.confirming.cancel()
            group.confirming = None
        if group.unconfirmed and group.heard in group.taken:
            assert group.heard is not None
            upto = group.taken[group.heard].upto
            self._host.say_to_point(key, Confirm(key, group.heard, upto, tuple(group.back)))
        group.unconfirmed = 0
        group.back.clear()

    def lost(self, lost: Lost) -> None:
        """The group has lost something."""
        group = self._groups.get(lost.key)
        for joined in group.members.values() if group is not None else ():
            gap = lost.gap
            self._host.tell_client(joined.link, Gap(gap.origin, gap.epoch, gap.first, gap.last, (joined.id,)))

    def refused(self, refuse: Refuse) -> None:
        """The point does not take some members."""
        group = self._groups.get(refuse.key)
        if group is None:
            return
        for member in refuse.members:
            joined = group.members.get((member.client, member.id))
            if joined is not None:
                self.put_out(joined.link, joined.id, refuse.reason)


def not_taken(name: GroupName, client: str, reason: str) -> str:
    return f"group '{name}' does not take client '{client}': {reason}"
