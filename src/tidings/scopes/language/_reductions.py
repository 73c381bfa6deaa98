"""Where a rule of the grammar ends: the node of the syntax tree that it becomes.

The grammar is laxer than the language in places where only the whole rule tells what is meant; what is wrong then is
said here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tidings.model import Value

from ._literals import text_of, value_of
from ._mistakes import Misfit
from ._syntax import (
    All,
    AlterScope,
    And,
    Anyone,
    Architecture,
    Argument,
    Block,
    Call,
    Cardinality,
    Change,
    CodeClause,
    Comparison,
    Contents,
    Create,
    DefineScope,
    DeployScope,
    Event,
    Everything,
    FilterText,
    Host,
    Id,
    Interfaces,
    InterfaceTest,
    Kind,
    Likeness,
    MapClause,
    Members,
    Name,
    Not,
    Nothing,
    Or,
    Path,
    PolicyClause,
    PolicyKind,
    Quoted,
    Roles,
    RoleTest,
    Selection,
    Setting,
    Settings,
    Side,
    Top,
    Topics,
    Types,
    Update,
    Watched,
)
from ._tokens import Token

Children = list[Any]
_CALLED = frozenset({"NAME", "PATH", "CLIENT", "STRING", "TEXT"})
_STRINGS = frozenset({"STRING", "TEXT"})


def _types(children: Children) -> list[str]:
    return [child.type for child in children if isinstance(child, Token)]


def _nodes(children: Children, *kinds: type) -> tuple[Any, ...]:
    return tuple(child for child in children if isinstance(child, kinds))


def _called(token: Token) -> str:
    return text_of(token) if token.type in _STRINGS else token.text


def _names(children: Children) -> list[Token]:
    return [child for child in children if isinstance(child, Token) and child.type in _CALLED]


_FEATURES = (Block, Interfaces, Roles, Settings, MapClause, PolicyClause, CodeClause, Update)


def _first(children: Children, at: int) -> Any:
    return children[0]


# --- statements -----------------------------------------------------------------------------------------


def _define(children: Children, at: int) -> DefineScope:
    name = children[2]
    if name.type == "CLIENT" or _called(name).startswith("@") or not _called(name):
        raise Misfit(f"{name.text} cannot name a definition", name.at, "Write a name without @.")
    return DefineScope(_called(name), _nodes(children, Selection), _nodes(children, *_FEATURES), at=at)


def _deploy(children: Children, at: int) -> DeployScope:
    ref = next(iter(_nodes(children, Name, Id, Members)), None)
    names = _names(children)
    name = _called(names[0]) if names else ""
    if names and (not name or name.startswith("@")):
        raise Misfit(f"{names[0].text} cannot name a scope", names[0].at, "Write a name without @.")
    if isinstance(ref, Members):
        raise Misfit("DEPLOY takes one definition, not MEMBERS(...)", ref.at, "Deploy one definition after the other.")
    if ref is not None and _text(ref).startswith("@"):
        raise Misfit(f"'{_text(ref)}' is a client, and only definitions are deployed", ref.at, "Name a definition.")
    return DeployScope(ref, name, _nodes(children, Selection), _nodes(children, *_FEATURES), children[-1], at=at)


def _text(ref: Name | Id) -> str:
    return ref.name if isinstance(ref, Name) else ref.id


def _alter(children: Children, at: int) -> AlterScope:
    words = _types(children)
    kind = Kind.DEFINITION if "DEFINITION" in words else Kind.INSTANCE if "INSTANCE" in words else Kind.EITHER
    change = Change.ADD if "ADD" in words else Change.DEL if "DEL" in words else Change.REPLACE
    (target,) = _nodes(children, Name, Id, Members)
    return AlterScope(target, change, _nodes(children, Selection), _nodes(children, *_FEATURES), kind, at=at)


# --- selections -----------------------------------------------------------------------------------------


class _Where:
    def __init__(self, condition: Any, legacy: Interfaces | None) -> None:
        self.condition = condition
        self.legacy = legacy


class _Braces(tuple[Any, ...]):
    """What stands in a block."""


class _Sources(tuple[Any, ...]):
    """What stands after FROM."""

    everything = False


def _selection(children: Children, at: int) -> Selection:
    words = _types(children)
    label = children[0].text if words and words[0] == "LABEL" else ""
    (sources,) = _nodes(children, _Sources)
    where = next(iter(_nodes(children, _Where)), None)
    block = next(iter(_nodes(children, _Braces)), None)
    qualifier = next(iter(_nodes(children, All, Top, Cardinality, Call)), All())
    legacy = None if where is None else where.legacy
    return Selection(
        None if sources.everything else tuple(sources),
        None if where is None else where.condition,
        qualifier,
        (legacy,) if legacy is not None else None if block is None else tuple(block),
        label,
        "SUPERSCOPE" in words or "SUPERSCOPES" in words,
        legacy is not None,
        at=at,
    )


def _sources(children: Children, at: int) -> _Sources:
    found = _Sources(_nodes(children, Name, Id, Members))
    found.everything = not found
    return found


def _qualifier(children: Children, at: int) -> Any:
    return All(at=at) if isinstance(children[0], Token) else children[0]


def _top(children: Children, at: int) -> Top:
    count = _integer(children[4])
    if count < 1:
        raise Misfit(f"TOP takes at least 1, not {count}", children[4].at, "Leave the selection out to pick nothing.")
    return Top(str(children[2]), count, "ASC" in _types(children), at=at)


def _cardinality(children: Children, at: int) -> Cardinality:
    words = _types(children)
    dots = words.index("DOTS")
    least = _integer(children[1]) if dots == 2 else None
    most = _integer(children[dots + 1]) if words[dots + 1] == "INTEGER" else None
    for number in (least, most):
        if number is not None and number < 0:
            raise Misfit(f"a number of components is not negative, as {number} is", at, "Write [0..5], or [1..].")
    if least is not None and most is not None and least > most:
        raise Misfit(f"[{least}..{most}] asks for at least {least} and at most {most}", at, f"Write [{most}..{least}].")
    return Cardinality(least, most, at=at)


def _integer(token: Token) -> int:
    if len(token.text) > 18:
        raise Misfit(f"{token.text:.20}... is too large a number", token.at, "Write fewer digits.")
    return int(token.text)


def _where(children: Children, at: int) -> _Where:
    return _Where(children[1], children[2] if len(children) > 2 else None)


def _scope_ref(children: Children, at: int) -> Any:
    if children[0].type == "MEMBERS":
        return Members(children[2], at=at)
    token = children[0]
    return Id(text_of(token), at=at) if token.type in _STRINGS else Name(token.text, at=at)


# --- features -------------------------------------------------------------------------------------------


def _block(children: Children, at: int) -> _Braces:
    return _Braces(children[1:-1])


def _labelled(children: Children, at: int) -> Block:
    label = "" if children[0].type == "MEMBERS" else children[0].text
    return Block(label, tuple(children[2]), at=at)


def _interfaces(children: Children, at: int) -> Interfaces:
    return Interfaces(_nodes(children, Side), at=at)


def _interface(children: Children, at: int) -> Side:
    items = [child for child in children[2:-1] if not (isinstance(child, Token) and child.type == "COMMA")]
    return Side(children[0].type == "OUTPUT", _body(items, at), at=at)


def _body(items: Children, at: int) -> Any:
    kinds = {item.type if isinstance(item, Token) else "" for item in items}
    if not items:
        return Nothing(at=at)
    if len(kinds) > 1:
        raise Misfit(
            "these parts are of different kinds",
            at,
            "Write names of types, or topics, or conditions, or one filter in single quotes; only parts of one kind "
            "stand together.",
        )
    (kind,) = kinds
    if kind == "":
        return Contents(tuple(items), at=at)
    if kind == "NAME":
        return Types(tuple(item.text for item in items), at=at)
    if kind == "TOPIC":
        return Topics(tuple(map(_topic, items)), at=at)
    if len(items) > 1:
        remedy = "Join the filters by OR." if kind == "TEXT" else "Write 0 for nothing, or 1 for everything."
        raise Misfit("only one of these may stand here", items[1].at, remedy)
    if kind == "TEXT":
        return FilterText(text_of(items[0]), at=items[0].at)
    if items[0].text not in ("0", "1"):
        raise Misfit(f"{items[0].text} is no interface", items[0].at, "Write 0 for nothing, or 1 for everything.")
    return Everything(at=at) if items[0].text == "1" else Nothing(at=at)


def _topic(token: Token) -> str:
    if "**" in token.text.split("/")[1:-1]:
        raise Misfit(f"{token.text}: ** stands at the end only", token.at, "Write * for one level.")
    return token.text


def _roles(children: Children, at: int) -> Roles:
    return Roles(tuple(map(_called, _names(children))), at=at)


def _settings(children: Children, at: int) -> Settings:
    return Settings(_nodes(children, Setting), at=at)


def _setting(children: Children, at: int) -> Setting:
    return Setting(children[0], _operand(children[2]), at=at)


class _Held:
    """A value of a script. It has a place, and is never taken for a node."""

    def __init__(self, value: Value, at: int) -> None:
        self.value = value
        self.at = at


def _operand(child: Any) -> Any:
    return child.value if isinstance(child, _Held) else child


def _map(children: Children, at: int) -> MapClause:
    outward = children[1].type == "OUTWARD"
    if isinstance(children[2], Token) and children[2].type == "LBRACE":
        return MapClause(outward, _nodes(children, Setting, Call), at=at)
    return MapClause(outward, code=_code(children[2]), at=at)


def _code(child: Any) -> str:
    return text_of(child) if isinstance(child, Token) else str(child)


def _policy(children: Children, at: int) -> PolicyClause:
    words = _types(children)
    kind = PolicyKind.INTERNAL_DELIVERY if words[1] == "INTERNAL" else PolicyKind(words[1])
    code = children[3 if kind is PolicyKind.INTERNAL_DELIVERY else 2]
    return PolicyClause(kind, _code(code), _nodes(children, Setting), at=at)


def _code_clause(children: Children, at: int) -> CodeClause:
    return CodeClause(_code(children[1]), at=at)


# --- rules ----------------------------------------------------------------------------------------------

_NAMED, _FACING, _EDGES = frozenset({"pub", "con"}), frozenset({"sub", "unsub", "adv", "unadv"}), {"join", "leave"}


def _update(children: Children, at: int) -> Update:
    condition = None
    for index, child in enumerate(children):
        if isinstance(child, Token) and child.type == "IF":
            condition = children[index + 1]
    actions = _nodes(children, AlterScope, Create)
    for action in actions:
        if isinstance(action, AlterScope) and not action.selections and not action.features:
            raise Misfit(
                "an action must change something",
                action.at,
                "Write what it adds, takes away or sets: ADD ALL FROM trigger.",
            )
    return Update(children[2], actions, condition, at=at)


def _event(children: Children, at: int) -> Event:
    name = children[0].text
    parts = tuple(_part(child) for child in children[2:-1] if not (isinstance(child, Token) and child.type == "COMMA"))
    kinds = [type(part) for part in parts]
    fits = (
        kinds == [Watched]
        if name in _NAMED
        else kinds == [Side]
        if name in _FACING
        else len(kinds) == 2 and set(kinds) <= {Name, Anyone}
        if name in _EDGES
        else not {Watched, Side, Anyone, Name} & set(kinds)
    )
    if not fits:
        raise Misfit(
            f"this is not how the event {name} is written",
            at,
            "Write pub(n: OUTPUT(x)) or con(n: INPUT(x)); sub or unsub(INPUT(x)); adv or unadv(OUTPUT(x)); "
            "join(member, scope) or leave(*, scope); other events take values.",
        )
    return Event(name, parts, at=at)


def _part(child: Any) -> Any:
    if isinstance(child, Token):
        return Anyone(at=child.at) if child.type == "STAR" else Name(child.text, at=child.at)
    return _operand(child)


def _watched(children: Children, at: int) -> Watched:
    return Watched(children[0].text, children[2], at=at)


def _create(children: Children, at: int) -> Create:
    words = _types(children)
    include = children[4].text if len(words) > 4 else "trigger" if "INCLUDE" in words else None
    return Create(include, at=at)


# --- conditions -----------------------------------------------------------------------------------------


def _joined(kind: type[And] | type[Or]) -> Callable[[Children, int], Any]:
    def reduce(children: Children, at: int) -> Any:
        parts = tuple(child for child in children if not isinstance(child, Token))
        return parts[0] if len(parts) == 1 else kind(parts, at=at)

    return reduce


def _role_test(children: Children, at: int) -> RoleTest:
    return RoleTest(_called(children[3]), at=at)


def _comparison(children: Children, at: int) -> Comparison:
    operator = "<>" if children[1].text == "!=" else children[1].text
    return Comparison(children[0], operator, _operand(children[2]), at=at)


def _likeness(children: Children, at: int) -> Likeness:
    return Likeness(children[0], children[1].type, text_of(children[2]), at=at)


# --- architectures, calls, values -----------------------------------------------------------------------


def _architecture(children: Children, at: int) -> Architecture:
    if isinstance(children[0], Call):
        return Architecture(children[0].name, children[0].arguments, at=at)
    return Architecture(children[0].text, _nodes(children, Argument), at=at)


def _call(children: Children, at: int) -> Call:
    return Call(children[0].text, _nodes(children, Argument), at=at)


def _argument(children: Children, at: int) -> Argument:
    first = children[0]
    if len(children) == 1:
        return Argument(_operand(first), at=at)
    if children[1].type == "COLON":
        port = _integer(children[2])
        if not isinstance(first, Path) or not 0 < port < 65_536:
            raise Misfit("this is no host and port", at, "Write a host like example.org:7311, or in quotes.")
        return Argument(Host(str(first), port, at=at), at=at)
    return Argument(_operand(children[2]), str(first), at=at)


def _path(children: Children, at: int) -> Path | Quoted:
    if children[0].type == "QUOTED":
        return Quoted(text_of(children[0]), at=at)
    return Path(tuple(child.text for child in children[::2]), at=at)


def _value(children: Children, at: int) -> _Held:
    if children[0].type == "LBRACKET":
        items = tuple(_operand(child) for child in children if not isinstance(child, Token))
        if any(isinstance(item, tuple) for item in items):
            raise Misfit("a list in a list is no value", at, "Write the elements of one list.")
        return _Held(items, at)
    return _Held(value_of(children[0]), at)


REDUCTIONS: dict[str, Callable[[Children, int], Any]] = {
    "start": _first,
    "define": _define,
    "deploy": _deploy,
    "alter": _alter,
    "nested": _alter,
    "selection": _selection,
    "sources": _sources,
    "qualifier": _qualifier,
    "top": _top,
    "cardinality": _cardinality,
    "where": _where,
    "legacy": _interfaces,
    "scope_ref": _scope_ref,
    "feature": _first,
    "labelled": _labelled,
    "members_block": _labelled,
    "block": _block,
    "interfaces": _interfaces,
    "interface": _interface,
    "roles": _roles,
    "settings": _settings,
    "setting": _setting,
    "map": _map,
    "policy": _policy,
    "code_clause": _code_clause,
    "update": _update,
    "event": _event,
    "watched": _watched,
    "create": _create,
    "disjunction": _joined(Or),
    "conjunction": _joined(And),
    "negation": lambda children, at: Not(children[1], at=at),
    "group": lambda children, at: children[1],
    "role_test": _role_test,
    "interface_test": lambda children, at: InterfaceTest(children[-1], at=at),
    "comparison": _comparison,
    "likeness": _likeness,
    "architecture": _architecture,
    "call": _call,
    "argument": _argument,
    "path": _path,
    "value": _value,
}
"""What becomes of each rule; those whose names begin with an underscore have no node."""
