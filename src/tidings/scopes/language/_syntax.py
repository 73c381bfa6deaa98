"""The syntax tree: a script as data, and the form in which Python programs write definitions.

Two trees are equal if they mean the same text: where a node stands in it does not count. Nodes that nest themselves,
AND in AND, are flat, as they are in a text.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TypeAlias

from tidings.model import Value

WORLD = "world"
"""The name of everything: MEMBERS(world) are all components that there are."""
ROOT = "root"
"""The name of the root scope, whose id is the empty text."""
SELF = "self"
TRIGGER = "trigger"
NOTIFICATION = "n"
"""What an inline mapping calls the notification."""


class _Mode(enum.Enum):
    def __repr__(self) -> str:
        return f"{type(self).__name__}.{self.name}"


@dataclass(frozen=True)
class Node:
    """A piece of a script."""

    at: int = field(default=0, compare=False, repr=False, kw_only=True)
    """The first character of it in its text."""


# --- what names stand for -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Name(Node):
    """A component by its name, as it is seen from where the name is used; `@name` is a client."""

    name: str


@dataclass(frozen=True)
class Id(Node):
    """A component by its id, the same everywhere; written as a string."""

    id: str


@dataclass(frozen=True)
class Members(Node):
    """The direct members of what this stands for."""

    of: AnyRef


AnyRef: TypeAlias = Name | Id | Members


# --- conditions -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Path(Node):
    """An attribute: `price`, or of something with a name, `n.price`."""

    parts: tuple[str, ...]

    def __str__(self) -> str:
        return ".".join(self.parts)


@dataclass(frozen=True)
class Quoted(Node):
    """An attribute whose name is written as a string; it is never one with a meaning to the system."""

    name: str

    def __str__(self) -> str:
        return self.name


AnyPath: TypeAlias = Path | Quoted
Operand: TypeAlias = Value | Path | Quoted


@dataclass(frozen=True)
class Call(Node):
    """A name with arguments: a step of a mapping, or what an extension has registered."""

    name: str
    arguments: tuple[Argument, ...] = ()


@dataclass(frozen=True)
class Argument(Node):
    """One argument: a value, a host or path, or a value with a name."""

    value: Value | Path | Host
    name: str = ""


@dataclass(frozen=True)
class Host(Node):
    """`host.name:7311`."""

    path: str
    port: int


@dataclass(frozen=True)
class RoleTest(Node):
    """IS ROLE(r)."""

    role: str


@dataclass(frozen=True)
class InterfaceTest(Node):
    """HAS INPUT(x): the candidate's interface covers x."""

    side: Side


@dataclass(frozen=True)
class Comparison(Node):
    """An attribute compared with a value, or another attribute."""

    path: AnyPath
    operator: str
    operand: Operand


@dataclass(frozen=True)
class Likeness(Node):
    """An attribute against a pattern: LIKE with % and _, MATCHES with a regular expression."""

    path: AnyPath
    operator: str
    pattern: str


@dataclass(frozen=True)
class Not(Node):
    """The opposite of a condition."""

    part: Condition


@dataclass(frozen=True)
class _Several(Node):
    parts: tuple[Condition, ...]

    def __post_init__(self) -> None:
        flat: list[Condition] = []
        for part in self.parts:
            flat += part.parts if isinstance(part, type(self)) else [part]
        object.__setattr__(self, "parts", tuple(flat))


@dataclass(frozen=True)
class And(_Several):
    """All of these."""


@dataclass(frozen=True)
class Or(_Several):
    """At least one of these."""


Condition: TypeAlias = RoleTest | InterfaceTest | Comparison | Likeness | Call | Not | And | Or


# --- interfaces -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Everything(Node):
    """`1`."""


@dataclass(frozen=True)
class Nothing(Node):
    """`0`, or nothing between the parentheses."""


@dataclass(frozen=True)
class FilterText(Node):
    """A filter, as docs/filters.md has it."""

    text: str


@dataclass(frozen=True)
class Types(Node):
    """Names of types; or of channels, if the attribute `filter-model` says so."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class Topics(Node):
    """Patterns of subjects."""

    patterns: tuple[str, ...]


@dataclass(frozen=True)
class Contents(Node):
    """Conditions on the content, of which one must hold."""

    conditions: tuple[Condition, ...]


Body: TypeAlias = Everything | Nothing | FilterText | Types | Topics | Contents


@dataclass(frozen=True)
class Side(Node):
    """One side of an interface: what may come in to a member, or with `output`, go out from it."""

    output: bool
    body: Body


# --- selections -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class All(Node):
    """Everything that the condition leaves."""


@dataclass(frozen=True)
class Top(Node):
    """The first by an attribute, the largest values first."""

    attribute: str
    count: int
    ascending: bool = False


@dataclass(frozen=True)
class Cardinality(Node):
    """At least so many, and at most so many; None: any number."""

    least: int | None = None
    most: int | None = None


Qualifier: TypeAlias = All | Top | Cardinality | Call


@dataclass(frozen=True)
class Clause(Node):
    """A part of a statement that is printed on lines of its own."""

    comments: tuple[str, ...] = field(default=(), kw_only=True)
    """The lines of comment before it."""
    note: str = field(default="", kw_only=True)
    """The comment behind it."""
    span: tuple[int, int] = field(default=(0, 0), compare=False, repr=False, kw_only=True)
    """Its first and last token in its statement."""


@dataclass(frozen=True)
class Selection(Clause):
    """Which components become members, or superscopes. Without sources (`*`), what can be seen where it is used."""

    sources: tuple[AnyRef, ...] | None
    where: Condition | None = None
    qualifier: Qualifier = All()
    block: tuple[Property, ...] | None = None
    label: str = ""
    superscope: bool = False
    legacy: bool = field(default=False, compare=False)
    """Whether its block was written without braces."""


# --- features -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Interfaces(Clause):
    """INTERFACES: of the scope itself, or where it stands in a block, of edges."""

    sides: tuple[Side, ...]


@dataclass(frozen=True)
class Roles(Clause):
    """ROLES: which functions a component has."""

    roles: tuple[str, ...]


@dataclass(frozen=True)
class Setting(Node):
    """An attribute and its value."""

    path: AnyPath
    value: Operand


@dataclass(frozen=True)
class Settings(Clause):
    """SET: attributes."""

    settings: tuple[Setting, ...]


@dataclass(frozen=True)
class MapClause(Clause):
    """MAP: what notifications become, towards the superscope (OUTWARD) or towards the member."""

    outward: bool
    steps: tuple[Setting | Call, ...] = ()
    code: str = ""
    """The name under which a function is registered, in place of steps."""


class PolicyKind(_Mode):
    """What a policy decides."""

    PUBLISH = "PUBLISH"
    DELIVERY = "DELIVERY"
    INTERNAL_DELIVERY = "INTERNAL DELIVERY"
    TRAVERSE = "TRAVERSE"


@dataclass(frozen=True)
class PolicyClause(Clause):
    """POLICY: code that chooses receivers."""

    kind: PolicyKind
    code: str
    parameters: tuple[Setting, ...] = ()


@dataclass(frozen=True)
class CodeClause(Clause):
    """DO: code that runs on a scope; reserved."""

    code: str


Property: TypeAlias = Interfaces | Settings | MapClause | PolicyClause | CodeClause


@dataclass(frozen=True)
class Block(Clause):
    """Properties of the edges that a labelled selection made, or without a label, of those of all members."""

    label: str
    properties: tuple[Property, ...]


@dataclass(frozen=True)
class Watched(Node):
    """`n: OUTPUT(f)`: a notification with a name."""

    name: str
    side: Side


@dataclass(frozen=True)
class Anyone(Node):
    """`*`: any component."""


@dataclass(frozen=True)
class Event(Node):
    """What a rule waits for."""

    name: str
    parts: tuple[Watched | Side | Name | Anyone | Value, ...]


@dataclass(frozen=True)
class Create(Node):
    """CREATE NOW: a new instance of the definition that the rule is in."""

    include: str | None = None
    """The component that becomes its first member; None: none."""


@dataclass(frozen=True)
class Update(Clause):
    """UPDATE: a rule."""

    event: Event
    actions: tuple[AlterScope | Create, ...]
    condition: Condition | None = None


Feature: TypeAlias = Block | Interfaces | Roles | Settings | MapClause | PolicyClause | CodeClause | Update


# --- statements -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Architecture(Clause):
    """How a scope is carried."""

    name: str
    arguments: tuple[Argument, ...] = ()


@dataclass(frozen=True)
class DefineScope(Clause):
    """DEFINE SCOPE: a definition, from which scopes are deployed."""

    name: str
    selections: tuple[Selection, ...] = ()
    features: tuple[Feature, ...] = ()


@dataclass(frozen=True)
class DeployScope(Clause):
    """DEPLOY: a scope comes to be, from a definition or from this statement alone."""

    definition: AnyRef | None
    name: str = ""
    selections: tuple[Selection, ...] = ()
    features: tuple[Feature, ...] = ()
    architecture: Architecture = Architecture("INTEGRATED_ROUTING")


class Kind(_Mode):
    """What an ALTER is about."""

    EITHER = ""
    DEFINITION = "DEFINITION"
    INSTANCE = "INSTANCE"


class Change(_Mode):
    """How an ALTER changes it."""

    REPLACE = ""
    ADD = "ADD"
    DEL = "DEL"


@dataclass(frozen=True)
class AlterScope(Clause):
    """ALTER SCOPE: a definition or a scope is changed."""

    target: AnyRef
    change: Change = Change.REPLACE
    selections: tuple[Selection, ...] = ()
    features: tuple[Feature, ...] = ()
    kind: Kind = Kind.EITHER


Statement: TypeAlias = DefineScope | DeployScope | AlterScope


@dataclass(frozen=True)
class Script(Node):
    """Statements, in their order."""

    statements: tuple[Statement, ...]
    comments: tuple[str, ...] = ()
    """The comments behind the last statement."""
