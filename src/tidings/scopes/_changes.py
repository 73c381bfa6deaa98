"""Changes: what may be done to a scope graph, as data.

So they can be sent to the authority, put into the journal and shown to people. `_applying` makes them happen.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from tidings.model import Duplicates

from ._attributes import NO_ATTRIBUTES, AnyAttributes, attributes_of
from ._graph import CLIENT, Placement, is_client
from ._interface import CLOSED, OPEN, Interface
from ._rules import Rule
from .mappings._mapping import EdgeMapping
from .policies._policy import PolicyKind, PolicyUse


class Change(msgspec.Struct, frozen=True, tag=True):
    """One step from a graph to the next."""


class CreateScope(Change, frozen=True):
    """A new scope, without members."""

    id: str
    interface: Interface = CLOSED
    imposed: Interface = OPEN
    abstract: bool = False
    attributes: AnyAttributes = NO_ATTRIBUTES
    administrators: tuple[str, ...] = ()
    hidden: bool = False
    trusted: tuple[str, ...] = ()
    admission: tuple[str, ...] = ()
    duplicates: Duplicates = Duplicates.DEFAULT
    ordered: bool = False
    roles: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "attributes", attributes_of(self.attributes))


class SetOrigin(Change, frozen=True):
    """What a scope was deployed from: its definition, and which components the labels in it stand for; None: as it
    is."""

    scope: str
    definition: str | None = None
    labels: dict[str, tuple[str, ...]] | None = None


class Define(Change, frozen=True):
    """A new definition. Nobody sees anything by it: scopes are deployed from it."""

    name: str
    text: str
    """A DEFINE SCOPE of the scope language, as `print_statement` writes it."""


class Redefine(Change, frozen=True):
    """Another text for a definition. Scopes that were deployed from it stay as they are."""

    name: str
    text: str


class Undefine(Change, frozen=True):
    """A definition ends. Scopes that were deployed from it stay."""

    name: str


class DestroyScope(Change, frozen=True):
    """A scope ends. With `cascade` its edges end with it; without, it must have none."""

    id: str
    cascade: bool = False


class Join(Change, frozen=True):
    """A client or a scope becomes a member of a scope."""

    member: str
    scope: str
    selective: Interface = OPEN
    imposed: Interface = OPEN
    mapping: EdgeMapping | None = None
    placement: Placement = Placement.ONCE
    gateway: str = ""


class Leave(Change, frozen=True):
    """A member is one no longer."""

    member: str
    scope: str


class Forget(Change, frozen=True):
    """A client that has left its last scope is in the root scope again, as if it had never been a member of any."""

    client: str


class SetInterface(Change, frozen=True):
    """What a scope lets in from its superscopes, and out to them."""

    scope: str
    interface: Interface


class Impose(Change, frozen=True):
    """What a scope lets its members get and publish; all of them, or one."""

    scope: str
    interface: Interface
    member: str | None = None


class SetSelective(Change, frozen=True):
    """What a member lets pass on one edge of its own."""

    member: str
    scope: str
    interface: Interface


class SetMapping(Change, frozen=True):
    """What notifications become on an edge; None: what they are."""

    member: str
    scope: str
    mapping: EdgeMapping | None = None


class SetPlacement(Change, frozen=True):
    """Where notifications cross an edge."""

    member: str
    scope: str
    placement: Placement
    gateway: str = ""


class SetDelivery(Change, frozen=True):
    """How the members of a scope get what reaches it: what counts as a second copy unless they say otherwise, and
    whether what one publisher publishes comes in its order also where that takes detours; None: as it is."""

    scope: str
    duplicates: Duplicates | None = None
    ordered: bool | None = None


class SetPolicy(Change, frozen=True):
    """Which of those that may get something do get it; None: all of them, at once."""

    node: str
    """A scope; or a client, which can have a publishing policy."""
    kind: PolicyKind
    policy: PolicyUse | None = None


class SetRules(Change, frozen=True):
    """The rules of a scope, in place of those that it had."""

    scope: str
    rules: tuple[Rule, ...] = ()


class SetAttributes(Change, frozen=True):
    """What is said about a scope or a client; a name without a value is removed."""

    node: str = msgspec.field(name="scope")  # once only scopes had attributes
    attributes: AnyAttributes = NO_ATTRIBUTES

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "attributes", attributes_of(self.attributes))


class SetRoles(Change, frozen=True):
    """The roles of a scope or a client, in place of those that it had."""

    node: str
    roles: tuple[str, ...]


class SetAdministration(Change, frozen=True):
    """Who may change a scope, what a new member must present, and which brokers may carry it; None: as it is."""

    scope: str
    administrators: tuple[str, ...] | None = None
    admission: tuple[str, ...] | None = None
    trusted: tuple[str, ...] | None = None


class Anchor(Change, frozen=True):
    """A broker is admitted to carry a scope."""

    scope: str
    broker: str
    stay: bool = False
    """Whether it is to carry it even without members of its own, until an administrator says otherwise."""


class Unanchor(Change, frozen=True):
    """A broker no longer needs to carry a scope for members of its own; with `stay`, not without them either."""

    scope: str
    broker: str
    stay: bool = False


AnyChange: TypeAlias = (
    CreateScope
    | DestroyScope
    | Join
    | Leave
    | Forget
    | SetInterface
    | Impose
    | SetSelective
    | SetMapping
    | SetPlacement
    | SetDelivery
    | SetPolicy
    | SetRules
    | SetAttributes
    | SetRoles
    | SetOrigin
    | Define
    | Redefine
    | Undefine
    | SetAdministration
    | Anchor
    | Unanchor
)


def moved(changes: tuple[AnyChange, ...]) -> frozenset[str] | None:
    """The clients whose memberships are all that these changes are about; None: they are about more."""
    members: set[str] = set()
    for change in changes:
        match change:
            case Join() | Leave() | SetSelective() | SetMapping() | Impose(member=str()) if is_client(
                change.member or ""
            ):
                members.add(change.member or "")
            case Forget():
                members.add(change.client)
            case SetPolicy() if is_client(change.node):
                members.add(change.node)
            case (
                SetAttributes()
                | SetRoles()
                | SetOrigin()
                | SetRules()
                | Define()
                | Redefine()
                | Undefine()
                | SetAdministration(trusted=None)
            ):
                pass
            case _:
                return None
    return frozenset(member.removeprefix(CLIENT) for member in members)
