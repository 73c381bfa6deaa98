"""Groups: several subscribers share one stream, and each notification goes to one of them.

Theory of operation
-------------------
`_members` is what every broker does for the members that are attached to it, `_point` what one broker of the tree does
for the group. This module lets the two hear what clients and other brokers say; `_sharing` does the rest.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidings.broker import Link
from tidings.model import TidingsError
from tidings.wire import GROUPS, Envelope, Join, Leave, WireError, pack, read_membership

from ._members import Members
from ._messages import (
    Assign,
    Begun,
    Confirm,
    Known,
    Lost,
    Present,
    Refuse,
    Said,
    Saying,
    Terms,
    read_known,
    read_saying,
)
from ._point import Group
from ._sharing import UNREADABLE, Sharing, checked


class Groups(Sharing[Group, Members, Join]):
    """The plain groups of one broker: their members that are attached to it, and those that it is the point of."""

    name = GROUPS
    strength = "its members do not acknowledge what they get, and this client would; subscribe without `ack`"

    def __init__(self) -> None:
        super().__init__()
        self.members = Members(self)

    def on_message(self, link: Link, body: bytes) -> None:
        """A client joins or leaves."""
        try:
            said = read_membership(body)
        except WireError:
            self.context.refused()
            return
        if not link.is_client:
            self.context.refused()
        elif isinstance(said, Leave):
            self._unready.pop((link, said.id), None)
            self.members.leave(link, said.id)
        else:
            self._ask(link, said.id, said)

    def _join(self, link: Link, said: Join) -> None:
        try:
            filter = checked(said.filter, link)
            name = self.name_of(link, said.group)
            self.members.join(link, said.id, said.number, name, Terms(str(filter), self.sees(link.principal)))
        except TidingsError as error:
            self.refuse(link, said.id, error)

    def on_routed(self, source: str, body: bytes) -> None:
        """Another broker says something."""
        try:
            said = read_saying(body).said
        except UNREADABLE:
            self.context.refused()
            return
        self._heard(source, said)

    def _heard(self, source: str, said: Said) -> None:
        match said:
            case Present():
                self._present(source, said)
            case Begun():
                self.members.begun(said)
                self._succeeded(source, said)
            case Assign():
                self.members.assigned(said)
            case Confirm():
                if (group := self.groups.get(said.key)) is not None:
                    group.confirmed(source, said)
            case Lost():
                self.members.lost(said)
            case Refuse():
                self.members.refused(said)

    def tell(self, key: str) -> bytes | None:
        """What this broker knows about a group."""
        present, group = self.members.present(key), self.groups.get(key)
        if present is None and group is None:
            return pack(Known(self.context.epoch))
        return pack(
            Known(
                self.context.epoch,
                present,
                self.members.heard(key),
                self.members.taken(key),
                group.decided(self.points.askers(key)) if group is not None else None,
            )
        )

    def begin(self, key: str, told: Mapping[str, bytes]) -> None:
        """This broker decides for a group from now on."""
        known = {broker: read_known(body) for broker, body in told.items()}
        if (group := self.groups.get(key)) is None:
            group = self.groups[key] = self._made(key)
        self._keep(key)
        group.begin(known)
        self._has_begun(key, group)

    def _made(self, key: str) -> Group:
        return Group(self, key)

    def say(self, broker: str, said: Said) -> None:
        """Tell a broker something; this one hears it at once."""
        if broker == self.context.name:
            self._heard(broker, said)
        else:
            self.context.send_to(broker, pack(Saying(said)))

    def say_to_point(self, key: str, said: Said) -> None:
        """Tell the point of a group something."""
        self.say(self.point(key), said)

    def hand(self, key: str, client: str, id: str, envelope: Envelope) -> bool:
        """Give a notification to a member that is attached here."""
        return self.members.hand(key, client, id, envelope)
