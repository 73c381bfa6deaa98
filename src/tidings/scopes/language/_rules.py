"""Rules: which of them can be carried out, how their events and conditions are read, and what an event binds.

    event                                             n             trigger
    pub(n: OUTPUT(f))   a member publishes            as it is in   the member through which it came: for what is
                                                      the scope     published deeper inside, the subscope
    pub(n: INPUT(f))    it comes from a superscope    the same      the superscope
    con(n: INPUT(f))    a client among the members    as the client the client
                        gets it                       gets it
    sub, unsub(INPUT(f))   such a client begins or    -             the client
                        ends to subscribe to some of f
    adv, unadv(OUTPUT(f))  the same for advertising   -             the client
    join(C, S), leave   a membership begins or ends   -             C

`self` is the scope that has the rule; in one that creates scopes, the new one.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tidings.model import Filter, ScopeError, Value
from tidings.scopes._components import Component
from tidings.scopes._graph import CLIENT, Graph
from tidings.scopes._rules import Rule

from ._extensions import Extensions
from ._filters import Reading
from ._mistakes import Misfit, Source
from ._parser import parsed
from ._printing import feature as printed
from ._printing import print_statement
from ._selections import satisfies
from ._syntax import (
    ROOT,
    SELF,
    TRIGGER,
    WORLD,
    AlterScope,
    And,
    Anyone,
    Block,
    Call,
    Comparison,
    Condition,
    Create,
    DeployScope,
    Event,
    Id,
    InterfaceTest,
    Likeness,
    Name,
    Node,
    Not,
    Or,
    Path,
    Quoted,
    RoleTest,
    Setting,
    Settings,
    Side,
    Update,
    Watched,
)

_SIDES = {"con": False, "sub": False, "unsub": False, "adv": True, "unadv": True}
"""The events that speak of one direction only; True: OUTPUT."""
EVENTS = frozenset({"pub", "join", "leave", *_SIDES})
"""What brokers watch for."""
SYSTEM = frozenset(
    {
        *("administrators", "trusted", "admission", "brokers", "abstract", "hidden", "ordered", "duplicates"),
        *("definition", "filter-model"),
    }
)


# --- what can be carried out ------------------------------------------------------------------------------


def check_rule(rule: Update, extensions: Extensions) -> None:
    """Raise `Misfit` for a rule that nobody could carry out."""
    event = rule.event
    if event.name not in EVENTS:
        raise Misfit(
            f"no broker watches for the event '{event.name}'",
            event.at,
            f"A definition may hold it; to deploy it, write one of {', '.join(sorted(EVENTS))}.",
        )
    bound = {SELF, TRIGGER}
    for part in event.parts:
        side = part.side if isinstance(part, Watched) else part
        if isinstance(side, Side) and side.output != _SIDES.get(event.name, side.output):
            word = "OUTPUT" if _SIDES[event.name] else "INPUT"
            raise Misfit(f"{event.name} is about {word}", side.at, f"Write {word} there.")
        if isinstance(part, Watched):
            if part.name in (SELF, TRIGGER, ROOT, WORLD):
                raise Misfit(f"'{part.name}' means something else in a rule", part.at, "Call the notification n.")
            bound.add(part.name)
    if rule.condition is not None:
        for test in _tests(rule.condition):
            _check_test(test, bound, extensions)
    for action in rule.actions:
        if isinstance(action, AlterScope):
            _check_action(action, bound)
        elif action.include not in (None, TRIGGER):
            raise Misfit(
                f"no event binds the component '{action.include}'", action.at, "Write INCLUDE COMPONENT alone."
            )


def _check_test(test: Condition, bound: set[str], extensions: Extensions) -> None:
    match test:
        case Comparison():
            _check_path(test.path, bound)
            if isinstance(test.operand, Path | Quoted):
                _check_path(test.operand, bound)
        case Likeness():
            _check_path(test.path, bound)
        case InterfaceTest():
            raise Misfit(
                "what a component covers is not known where rules are watched for",
                test.at,
                "Compare attributes of n, trigger or self, or write IS ROLE(r).",
            )
        case Call():
            if test.name not in Extensions().with_defaults().tests:
                raise Misfit(f"brokers do not know the test '{test.name}'", test.at, "Compare an attribute.")
            for argument in test.arguments:
                if isinstance(argument.value, Path):
                    _check_path(argument.value, bound)


def _check_path(path: Path | Quoted, bound: set[str]) -> None:
    if isinstance(path, Quoted) or len(path.parts) < 2 or path.parts[0] not in bound:
        attribute = ".".join(path.parts[1:]) if isinstance(path, Path) and len(path.parts) > 1 else path
        *names, last = [f"{name}.{attribute}" for name in sorted(bound)]
        remedy = f"Write {', '.join(names)} or {last}."
        raise Misfit(f"{path} is an attribute of nothing that the event binds", path.at, remedy)


def _check_action(action: AlterScope, bound: set[str]) -> None:
    for feature in action.features:
        if isinstance(feature, Update):
            raise Misfit("a rule cannot make rules", feature.at, "Give the rule to the scope itself.")
        if isinstance(feature, Settings):
            for one in feature.settings:
                if isinstance(one.value, Path | Quoted):
                    _check_path(one.value, bound)
                    if not isinstance(one.path, Quoted) and str(one.path) in SYSTEM:
                        raise Misfit(
                            f"{one.path} has a meaning to the system, and no event may say what it is",
                            one.at,
                            f'Write a constant, or "{one.path}" in quotes for a plain attribute.',
                        )
        if isinstance(feature, Block) and any(isinstance(one, Settings) for one in feature.properties):
            for path in _paths(feature):
                _check_path(path, bound)


def _tests(condition: Condition) -> Iterator[Condition]:
    match condition:
        case And() | Or():
            for part in condition.parts:
                yield from _tests(part)
        case Not():
            yield from _tests(condition.part)
        case _:
            yield condition


def _paths(node: object) -> Iterator[Path | Quoted]:
    """The attributes that something is set to, or compared with."""
    match node:
        case Setting() if isinstance(node.value, Path | Quoted):
            yield node.value
        case tuple():
            for one in node:
                yield from _paths(one)
        case Node():
            for field in dataclasses.fields(node):
                yield from _paths(getattr(node, field.name))


# --- how they are kept and read ---------------------------------------------------------------------------


def creates(rule: Update) -> bool:
    """Whether a rule makes scopes."""
    return any(isinstance(action, Create) for action in rule.actions)


def rule_of(rule: Update, deploys: DeployScope | None = None) -> Rule:
    """A rule as the graph keeps it."""
    text = printed(dataclasses.replace(rule, comments=(), note=""), followed=False)
    return Rule(text, "" if deploys is None else print_statement(deploys))


def update_of(text: str) -> Update:
    """The rule that the graph keeps as this text; `ScopeError` if it is none."""
    script, mistakes = parsed(Source(f"DEFINE SCOPE r AS {text}"))
    statement = script.statements[0] if len(script.statements) == 1 else None
    features = statement.features if statement is not None and not mistakes else ()
    if len(features) != 1 or not isinstance(features[0], Update) or (statement is not None and statement.selections):
        reason = f": {mistakes[0].problem}" if mistakes else ""
        raise ScopeError(f"'{text:.60}' is no rule{reason}; write UPDATE ON ... DO ...")
    return features[0]


def check_written(rule: Rule) -> None:
    """Raise `ScopeError` unless this is how the graph keeps a rule that can be carried out."""
    update = read_rule(rule.text).update
    deploys = deploys_of(rule.deploys) if rule.deploys else None
    kept = rule_of(update, deploys)
    if (kept.text, kept.deploys) != (rule.text, rule.deploys) or creates(update) != bool(rule.deploys):
        raise ScopeError(
            f"this text is not how the rule is printed; let `tidings.scopes.language` print it: {rule!s:.60}"
        )


def deploys_of(text: str) -> DeployScope:
    """The deployment that a rule carries out; `ScopeError` if it is none."""
    script, mistakes = parsed(Source(text))
    if mistakes or len(script.statements) != 1 or not isinstance(script.statements[0], DeployScope):
        reason = f": {mistakes[0].problem}" if mistakes else ""
        raise ScopeError(f"'{text:.60}' is no deployment{reason}; write DEPLOY SCOPE name ...")
    return script.statements[0]


@dataclass(frozen=True)
class ReadRule:
    """A rule, ready to be watched for."""

    update: Update
    filter: Filter | None
    """What its notification must pass, or its interface overlap; None: its event has neither."""
    output: bool
    """Whether that is an OUTPUT."""
    name: str
    """What its notification is called; "": it has none."""

    @property
    def event(self) -> str:
        """What it waits for."""
        return self.update.event.name

    def holds(self, binding: Binding) -> bool:
        """Whether its condition is true of what an event binds; an attribute that is missing makes a test false."""
        condition = self.update.condition
        if condition is None:
            return True
        try:
            return satisfies(condition, binding.component(self.name), lambda test: False, _KNOWN)
        except Misfit:  # values that do not compare
            return False

    def concerns(self, graph: Graph, scope: str, member: str, joined: str) -> bool:
        """Whether its event is that `member` joins or leaves the scope `joined`."""
        first, second = self.update.event.parts
        return _is_called(first, member, graph, scope) and _is_called(second, joined, graph, scope)


def _is_called(part: object, node: str, graph: Graph, scope: str) -> bool:
    if isinstance(part, Anyone):
        return True
    assert isinstance(part, Name)
    if part.name == SELF:
        return node == scope
    return node in (part.name, CLIENT + part.name) or (node in graph.scopes and graph.scopes[node].name == part.name)


@functools.lru_cache(maxsize=4_096)
def read_rule(text: str, model: object = "type") -> ReadRule:
    """A rule of a scope whose interfaces are read by this model; `ScopeError` if it cannot be read."""
    update = update_of(text)
    event: Event = update.event
    part = event.parts[0]
    side = part.side if isinstance(part, Watched) else part
    name = part.name if isinstance(part, Watched) else ""
    try:
        check_rule(update, _KNOWN)
        filter = Reading(_KNOWN, model).side(side) if isinstance(side, Side) else None
    except Misfit as misfit:
        raise misfit.as_error() from None
    return ReadRule(update, filter, isinstance(side, Side) and side.output, name)


_KNOWN = Extensions().with_defaults()


# --- what an event binds ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Binding:
    """What the names in a rule stand for."""

    graph: Graph
    self: str
    trigger: str
    notification: Mapping[str, Value]

    def component(self, name: str) -> Component:
        """Everything that is bound, as the attributes of one thing: `n.price`, `trigger.level`, `self.floor`."""
        known: dict[str, Value] = {}
        for word, attributes in (
            (name, self.notification),
            (TRIGGER, self._attributes(self.trigger)),
            (SELF, self._attributes(self.self)),
        ):
            known.update({f"{word}.{attribute}": value for attribute, value in attributes.items()})
        return Component(self.trigger, "", known, self._roles())

    def _attributes(self, node: str) -> Mapping[str, Any]:
        if not node.startswith(CLIENT) and node not in self.graph.scopes:
            return {}
        known: dict[str, Any] = dict(self.graph.attributes(node))
        known.setdefault("name", node.removeprefix(CLIENT).rpartition("/")[2] if node else ROOT)
        return known

    def _roles(self) -> tuple[str, ...]:
        known = self.trigger.startswith(CLIENT) or self.trigger in self.graph.scopes
        return self.graph.roles(self.trigger) if known else ()


def bound(action: AlterScope, name: str, binding: Binding) -> AlterScope:
    """An action with what an event binds in the place of names and attributes; `ScopeError` if one is missing."""
    values = binding.component(name).attributes
    names = {SELF: binding.self, TRIGGER: binding.trigger}

    def put(node: Any) -> Any:
        match node:
            case Name() if node.name in names:
                return reference(names[node.name], node.at)
            case Setting():
                return dataclasses.replace(node, value=value(node.value))
            case Comparison():
                return dataclasses.replace(node, operand=value(node.operand))
            case tuple():
                return tuple(map(put, node))
            case RoleTest() | Path() | Quoted():
                return node
            case Node():
                fields = {field.name: put(getattr(node, field.name)) for field in dataclasses.fields(node)}
                return dataclasses.replace(node, **fields)
        return node

    def value(operand: Any) -> Any:
        if not isinstance(operand, Path) or operand.parts[0] not in (name, *names):
            return operand
        if str(operand) not in values:
            raise ScopeError(f"there is no {operand} in this event; test for it by IF, or set a constant")
        return values[str(operand)]

    return put(action)  # type: ignore[no-any-return]


def reference(node: str, at: int = 0) -> Name | Id:
    """What stands for a node in a statement."""
    return Name(ROOT, at=at) if not node else Id(node, at=at)
