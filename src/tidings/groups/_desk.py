"""The desk: answers clients that ask about groups, or reset one.

Theory of operation
-------------------
One broker decides for all groups of a network, so it is the one that knows them. A client asks its own broker. That
says who asks, which cannot be forged: an identity, the scopes that it is a member of, and whether it may administer.
The deciding broker answers what such a one may see, and the answer goes back the same way. A question or an answer is
lost with the tree that it travels on, so on a new tree what is open is asked again.

    a group of an identity       may be seen and reset by clients of that identity
    a group of a scope           by members of that scope
    any                          by those who may administer

That is who may join it. To anybody else a group looks as if it was not there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec

from tidings.broker import Advice, Feature, Joinpoint, Link
from tidings.model import TidingsError
from tidings.wire import (
    GROUP_LOOKS,
    Extension,
    GroupAnswer,
    GroupDeclined,
    GroupQuestion,
    GroupsShown,
    GroupStatus,
    ListGroups,
    ResetGroup,
    ShowGroup,
    WireError,
    pack,
    read_group_question,
    unpacker,
)

from ._acknowledged import Acknowledged
from ._feature import Groups
from ._limits import ASKED_FOR, MAX_ASKED, MAX_LISTED
from ._looks import look_at_plain, look_at_work
from ._names import GroupName, check_group
from ._sharing import UNREADABLE


class Asker(msgspec.Struct, frozen=True, array_like=True):
    """Who asks, as its broker says."""

    owner: str
    sees: tuple[str, ...]
    administer: bool

    def may_see(self, name: GroupName) -> bool:
        """Whether a group is there for it."""
        return self.administer or (name.scope in self.sees if name.scope else name.owner == self.owner)

    def meant(self, asked: ShowGroup | ResetGroup) -> GroupName:
        """The group that it means; `TidingsError` if it may not see such a one."""
        check_group(asked.group)
        scope, _, word = asked.group.rpartition("/")
        owner = self.owner if asked.owner is None else asked.owner
        name = GroupName("" if scope else owner, scope, word)
        if not self.may_see(name):
            raise unknown(asked.group)
        return name


class _Asked(msgspec.Struct, frozen=True, array_like=True, tag="asked"):
    number: int
    asker: Asker
    question: GroupQuestion


class _Told(msgspec.Struct, frozen=True, array_like=True, tag="told"):
    number: int
    answer: GroupAnswer


class _Saying(msgspec.Struct, frozen=True, array_like=True):
    said: _Asked | _Told


_read = unpacker(_Saying)


class _Open(NamedTuple):
    link: Link
    question: GroupQuestion
    until: int


class Desk(Feature):
    """Answers at one broker what clients ask about groups."""

    name = GROUP_LOOKS

    def __init__(self, plain: Groups, work: Acknowledged) -> None:
        self._plain = plain
        self._work = work
        self._open: dict[int, _Open] = {}
        self._number = 0

    def advice(self) -> dict[Joinpoint, Advice]:
        """What is open is asked again on a new tree, and forgotten with its client."""
        return {Joinpoint.TREE: self._new_tree, Joinpoint.DETACH: self._detached}

    def _new_tree(self, proceed: Callable[..., None], old: object, new: object) -> None:
        proceed(old, new)
        for number in list(self._open):
            self.context.call_later(0, lambda number=number: self._forward(number))  # type: ignore[misc]

    def _detached(self, proceed: Callable[[Link], None], link: Link) -> None:
        self._open = {number: one for number, one in self._open.items() if one.link is not link}
        proceed(link)

    def neighbour_ready(self, link: Link) -> None:
        """What could not be asked before may be asked now."""
        for number in list(self._open):
            self.context.call_later(0, lambda number=number: self._forward(number))  # type: ignore[misc]

    # --- the client's broker --------------------------------------------------------------------------

    def on_message(self, link: Link, body: bytes) -> None:
        """A client asks."""
        try:
            question = read_group_question(body)
        except WireError:
            self.context.refused()
            return
        if not link.is_client:
            self.context.refused()
            return
        now = self.context.now()
        self._open = {number: one for number, one in self._open.items() if one.until > now}
        if len(self._open) >= MAX_ASKED:
            waiting = f"{len(self._open):,} questions about groups wait for an answer, the maximum; ask again later"
            self._answer(link, _declined(question.id, TidingsError(waiting)))
            return
        self._number += 1
        self._open[self._number] = _Open(link, question, now + ASKED_FOR)
        self._forward(self._number)

    def _forward(self, number: int) -> None:
        open = self._open.get(number)
        if open is None:
            return
        point = self._work.point("")
        said = _Asked(number, self._asker(open.link), open.question)
        if point == self.context.name:
            self._asked(point, said)
        else:
            self.context.send_to(point, pack(_Saying(said)))

    def _asker(self, link: Link) -> Asker:
        owner = link.guard.name if link.guard is not None else ""
        plainly = self.context.scoping.newest.memberships(link.principal) if self.context.scoping.ready else {}
        return Asker(owner, tuple(sorted(plainly)), link.guard is None or link.guard.administer)

    def _answer(self, link: Link, answer: GroupAnswer) -> None:
        self.context.tell(link, Extension(GROUP_LOOKS, pack(answer)))

    def _told(self, told: _Told) -> None:
        open = self._open.pop(told.number, None)
        if open is not None and self.context.client(open.link.name) is open.link:
            self._answer(open.link, told.answer)

    # --- the deciding broker --------------------------------------------------------------------------

    def on_routed(self, source: str, body: bytes) -> None:
        """Another broker asks for its client, or answers."""
        try:
            said = _read(body).said
        except UNREADABLE:
            self.context.refused()
            return
        if isinstance(said, _Told):
            self._told(said)
        elif self._work.point("") == self.context.name:
            self._asked(source, said)

    def _say(self, broker: str, told: _Told) -> None:
        if broker == self.context.name:
            self._told(told)
        else:
            self.context.send_to(broker, pack(_Saying(told)))

    def _asked(self, source: str, said: _Asked) -> None:
        question, asker = said.question, said.asker
        try:
            match question:
                case ListGroups(id):
                    self._say(source, _Told(said.number, self._listed(id, asker)))
                case ShowGroup(id):
                    self._say(source, _Told(said.number, self._shown(id, asker.meant(question), question.group)))
                case ResetGroup(id):
                    self._reset(source, said.number, question, asker.meant(question))
        except TidingsError as error:
            self._say(source, _Told(said.number, _declined(question.id, error)))

    def _listed(self, id: str, asker: Asker) -> GroupsShown:
        found = [one for key, one in self._all() if asker.may_see(GroupName.of_key(key))]
        found.sort(key=lambda one: (one.owner, one.name))
        return GroupsShown(id, tuple(found[:MAX_LISTED]), max(0, len(found) - MAX_LISTED))

    def deciding(self) -> list[GroupStatus]:
        """The groups that this broker decides for now: acknowledged ones first, and those that it has for longest."""
        plain, work = self._plain.points, self._work.points
        found = [one for key, one in self._all() if plain.is_deciding(key) or work.is_deciding(key)]
        return sorted(found, key=lambda one: not one.acknowledged)

    def _all(self) -> Iterator[tuple[str, GroupStatus]]:
        for key, group in self._plain.groups.items():
            if group.members:
                yield key, look_at_plain(group, self.context.name, members=False)
        for key, queue in self._work.groups.items():
            if not self._plain.has(key):
                yield key, look_at_work(queue, self.context.name, members=False)

    def _shown(self, id: str, name: GroupName, asked: str) -> GroupsShown:
        group, queue = self._plain.groups.get(name.key), self._work.groups.get(name.key)
        if group is not None and group.members:
            found = look_at_plain(group, self.context.name, members=True)
        elif queue is not None:
            found = look_at_work(queue, self.context.name, members=True)
        else:
            raise unknown(asked)
        return GroupsShown(id, (found,), found.members - len(found.listed))

    def _reset(self, source: str, number: int, asked: ResetGroup, name: GroupName) -> None:
        if self._plain.has(name.key):
            raise TidingsError(
                f"group '{asked.group}' has no positions to reset: its members do not acknowledge what they get, and "
                "each of them begins with what is published from then on"
            )

        def done(dropped: int | None) -> None:
            if dropped is None:
                self._say(source, _Told(number, _declined(asked.id, unknown(asked.group))))
            else:
                shown = self._shown(asked.id, name, asked.group)
                self._say(source, _Told(number, GroupsShown(asked.id, shown.groups, shown.left_out, dropped)))

        self._work.reset(name.key, done)


def _declined(id: str, error: TidingsError) -> GroupDeclined:
    return GroupDeclined(id, type(error).__name__, str(error))


def unknown(name: str) -> TidingsError:
    """The error about a group that is not there, or that is somebody else's: nobody finds out which."""
    return TidingsError(
        f"there is no group '{name[:80]}' that you may see; see `tidings group list`, and name a group of a scope as "
        "'scope/name'"
    )
