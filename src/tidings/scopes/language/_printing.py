"""From the syntax tree to its text: one way to write each thing, so `parse` gives the same tree back.

A statement begins on a line of its own, and so does each clause in it. Names that the language would read as something
else are written as strings.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Iterable

from ._literals import quoted, written
from ._syntax import (
    All,
    AlterScope,
    And,
    Anyone,
    AnyRef,
    Architecture,
    Argument,
    Block,
    Body,
    Call,
    Cardinality,
    Clause,
    CodeClause,
    Comparison,
    Condition,
    Contents,
    Create,
    DefineScope,
    DeployScope,
    Event,
    Everything,
    Feature,
    FilterText,
    Host,
    Id,
    Interfaces,
    InterfaceTest,
    Likeness,
    MapClause,
    Members,
    Name,
    Not,
    Nothing,
    Or,
    Path,
    PolicyClause,
    Qualifier,
    Quoted,
    Roles,
    RoleTest,
    Script,
    Selection,
    Setting,
    Settings,
    Side,
    Statement,
    Top,
    Topics,
    Types,
    Update,
    Watched,
)
from ._tokens import BLANK, KEYWORDS

WIDTH = 100
"""The most characters of a line, where it can be broken."""
_INDENT = "    "
NAME = re.compile(r"[^\W\d]\w*(?:-\w+)*")
COMPONENT = re.compile(r"[^\W\d]\w*(?:-\w+)*(?:/\w+(?:-\w+)*)*|@\w+(?:-\w+)*(?:[./]\w+(?:-\w+)*)*")


def print_script(script: Script) -> str:
    """The text of a script, statement by statement.

    >>> from tidings.scopes.language import parse
    >>> print(print_script(parse("DEFINE SCOPE a AS FROM x,y WHERE b=1 AND(c=2 OR NOT d<3)")), end="")
    DEFINE SCOPE a AS
        ALL FROM x, y WHERE b = 1 AND (c = 2 OR NOT d < 3);
    """
    parts = [print_statement(statement) for statement in script.statements]
    if script.comments:
        parts.append("\n".join(_comment(line) for line in script.comments))
    return "\n\n".join(parts) + ("\n" if parts else "")


def print_statement(statement: Statement) -> str:
    """The text of one statement, with a semicolon."""
    lines = [_comment(line) for line in statement.comments]
    clauses: list[Clause] = [*statement.selections, *statement.features]
    if isinstance(statement, DeployScope):
        clauses.append(statement.architecture)
    head = _head(statement)
    end = "" if clauses else ";"
    lines.append(_noted(head + end, statement.note))
    for index, clause in enumerate(clauses):
        last = index + 1 == len(clauses)
        followed = not last and not isinstance(clauses[index + 1], Update)
        lines += [(_INDENT + _comment(line)).rstrip() for line in clause.comments]
        text = _clause(clause, followed) + (";" if last else "")
        lines.append(_noted(_INDENT + text, clause.note))
    return "\n".join(lines)


def without_comments(statement: DefineScope) -> DefineScope:
    """The same definition without its comments."""
    bare = functools.partial(dataclasses.replace, comments=(), note="")
    selections, features = tuple(map(bare, statement.selections)), tuple(map(bare, statement.features))
    return DefineScope(statement.name, selections, features, at=statement.at)


def _comment(line: str) -> str:
    return "" if line == BLANK else f"-- {line}".rstrip()


def _noted(text: str, note: str) -> str:
    return f"{text}  -- {note}" if note else text


def name(text: str) -> str:
    """A name, where one is expected; in quotes if it must be."""
    return text if NAME.fullmatch(text) and text not in KEYWORDS else quoted(text)


def component(text: str) -> str:
    """The name of a scope, a definition or a client."""
    return text if COMPONENT.fullmatch(text) and text not in KEYWORDS else quoted(text)


def ref(one: AnyRef) -> str:
    """What stands for a component, or for several."""
    match one:
        case Name():
            return one.name
        case Id():
            return quoted(one.id)
        case Members():
            return f"MEMBERS({ref(one.of)})"


def _head(statement: Statement) -> str:
    match statement:
        case DefineScope():
            return f"DEFINE SCOPE {component(statement.name)} AS"
        case DeployScope():
            named = f" AS {component(statement.name)}" if statement.name else ""
            return "DEPLOY SCOPE" + (f" {ref(statement.definition)}" if statement.definition else "") + named
        case AlterScope():
            return _altered(statement)


def _altered(one: AlterScope) -> str:
    return " ".join(filter(None, ["ALTER SCOPE", one.kind.value, ref(one.target), one.change.value]))


def _clause(clause: Clause, followed: bool) -> str:
    match clause:
        case Selection():
            return selection(clause)
        case Architecture():
            return clause.name + (_arguments(clause.arguments) if clause.arguments else "")
    return feature(clause, followed)  # type: ignore[arg-type]


def selection(one: Selection, indent: str = _INDENT) -> str:
    """A selection; a long list of names takes several lines."""
    words = [f"{one.label}:"] if one.label else []
    if one.superscope:
        words.append("SUPERSCOPE")
    sources = ["*"] if one.sources is None else [ref(source) for source in one.sources]
    head = " ".join([*words, qualifier(one.qualifier), "FROM "])
    text = head + _wrapped(sources, len(indent) + len(head), indent + _INDENT)
    more = [] if one.where is None else [f"WHERE {condition(one.where)}"]
    more += [] if one.block is None else [f": {_braces(one.block)}"]
    line = " ".join([text, *more])
    if "\n" not in text and len(indent) + len(line) <= WIDTH:
        return line
    return f"\n{indent}{_INDENT}".join([text, *more])


def _wrapped(items: list[str], column: int, indent: str) -> str:
    lines: list[str] = []
    line = ""
    for index, item in enumerate(items):
        piece = item + ("," if index + 1 < len(items) else "")
        if line and column + len(line) + 1 + len(piece) > WIDTH:
            lines.append(line)
            line, column = piece, len(indent)
        else:
            line = f"{line} {piece}" if line else piece
    return f"\n{indent}".join([*lines, line])


def qualifier(one: Qualifier) -> str:
    match one:
        case All():
            return "ALL"
        case Top():
            return f"TOP({_dotted(one.attribute)}, {one.count}{' ASC' if one.ascending else ''})"
        case Cardinality():
            bounds = ["" if bound is None else str(bound) for bound in (one.least, one.most)]
            return f"[{'..'.join(bounds)}]"
        case Call():
            return call(one)


def _dotted(path: str) -> str:
    return path


def _braces(properties: Iterable[Feature]) -> str:
    inside = " ".join(feature(one, followed=False) for one in properties)
    return f"{{ {inside} }}" if inside else "{ }"


# --- features -------------------------------------------------------------------------------------------


def feature(one: Feature, followed: bool) -> str:
    """A feature; `followed` says whether another one follows that a nested ALTER would take for its own."""
    match one:
        case Block():
            return f"{one.label or 'MEMBERS'}: {_braces(one.properties)}"
        case Interfaces():
            return f"INTERFACES {', '.join(map(side, one.sides))}"
        case Roles():
            return f"ROLES {', '.join(map(name, one.roles))}"
        case Settings():
            return f"SET {', '.join(map(_setting, one.settings))}"
        case MapClause():
            way = "OUTWARD" if one.outward else "INWARD"
            return f"MAP {way} {_code(one.code) if one.code else '{ ' + ', '.join(map(_step, one.steps)) + ' }'}"
        case PolicyClause():
            parameters = f" ({', '.join(map(_setting, one.parameters))})" if one.parameters else ""
            return f"POLICY {one.kind.value} {_code(one.code)}{parameters}"
        case CodeClause():
            return f"DO {_code(one.code)}"
        case Update():
            return _update(one, followed)


def _code(code: str) -> str:
    parts = code.split(".")
    plain = all(NAME.fullmatch(part) and part not in KEYWORDS for part in parts)
    return code if plain else quoted(code)


def _step(one: Setting | Call) -> str:
    return call(one) if isinstance(one, Call) else _setting(one)


def _setting(one: Setting) -> str:
    return f"{path(one.path)} = {_operand(one.value)}"


def _update(one: Update, followed: bool) -> str:
    when = "" if one.condition is None else f" IF {condition(one.condition)}"
    last = len(one.actions) - 1
    actions = [_action(action, followed or index < last) for index, action in enumerate(one.actions)]
    return f"UPDATE ON {_event(one.event)}{when} DO {', '.join(actions)}"


def _action(one: AlterScope | Create, followed: bool) -> str:
    if isinstance(one, Create):
        include = "" if one.include is None else " INCLUDE COMPONENT"
        named = f" {one.include}" if one.include not in (None, "trigger") else ""
        text = f"CREATE NOW{include}{named}"
        return f"({text})" if followed else text
    parts = [_altered(one), *(selection(part) for part in one.selections)]
    parts += [feature(part, followed=True) for part in one.features]
    rules = any(isinstance(part, Update) for part in one.features)
    text = " ".join(parts)
    return f"({text})" if followed or rules else text


def _event(one: Event) -> str:
    return f"{one.name}({', '.join(map(_event_part, one.parts))})"


def _event_part(part: object) -> str:
    match part:
        case Watched():
            return f"{part.name}: {side(part.side)}"
        case Side():
            return side(part)
        case Name():
            return part.name
        case Anyone():
            return "*"
    return written(part)


# --- interfaces and conditions --------------------------------------------------------------------------


def side(one: Side) -> str:
    return f"{'OUTPUT' if one.output else 'INPUT'}({_body(one.body)})"


def _body(body: Body) -> str:
    match body:
        case Everything():
            return "1"
        case Nothing():
            return "0"
        case FilterText():
            return "'" + body.text.replace("'", "''") + "'"
        case Types():
            return ", ".join(body.names)
        case Topics():
            return ", ".join(body.patterns)
        case Contents():
            return ", ".join(map(condition, body.conditions))


def condition(one: Condition) -> str:
    match one:
        case Or():
            return " OR ".join(map(condition, one.parts))
        case And():
            return " AND ".join(
                f"({condition(part)})" if isinstance(part, Or) else condition(part) for part in one.parts
            )
        case Not():
            text = condition(one.part)
            return f"NOT ({text})" if isinstance(one.part, And | Or) else f"NOT {text}"
        case RoleTest():
            return f"IS ROLE({name(one.role)})"
        case InterfaceTest():
            return f"HAS {side(one.side)}"
        case Comparison():
            return f"{path(one.path)} {one.operator} {_operand(one.operand)}"
        case Likeness():
            return f"{path(one.path)} {one.operator} {quoted(one.pattern)}"
        case Call():
            return call(one)


def path(one: Path | Quoted) -> str:
    return ".".join(one.parts) if isinstance(one, Path) else quoted(one.name)


def _operand(one: object) -> str:
    return path(one) if isinstance(one, Path | Quoted) else written(one)


def call(one: Call) -> str:
    return one.name + _arguments(one.arguments)


def _arguments(arguments: tuple[Argument, ...]) -> str:
    return f"({', '.join(map(_argument, arguments))})"


def _argument(one: Argument) -> str:
    match one.value:
        case Host():
            return f"{one.value.path}:{one.value.port}"
        case Path():
            return str(one.value)
    return f"{one.name} = {written(one.value)}" if one.name else written(one.value)
