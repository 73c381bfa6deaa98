"""Performing: from a rule and what an event binds to the changes of the scope graph that it asks for.

All actions of a rule are one transaction. They are worked out as the statements of a file are: they say how things
shall be, so letting a member join that has joined changes nothing.
"""

from __future__ import annotations

import dataclasses
import hashlib
from typing import NamedTuple

from tidings.model import Value
from tidings.scopes._changes import AnyChange
from tidings.scopes._difference import difference
from tidings.scopes._graph import Graph
from tidings.scopes._rules import Rule

from ._compiling import Run, labelled
from ._definitions import definition_of, merged
from ._extensions import Extensions
from ._ledger import Ledger
from ._rules import Binding, bound, creates, deploys_of, read_rule, reference, rule_of
from ._syntax import AlterScope, DeployScope, Feature, Id, Name, Node, Path, Selection, Statement, Update
from ._world import World


class Firing(NamedTuple):
    """An event that a rule waits for."""

    scope: str
    """The scope that has the rule."""
    rule: Rule
    event: str
    """A name of the event, the same wherever it is noticed."""
    trigger: str
    notification: dict[str, Value]
    grows: str = ""
    """Of a rule that creates scopes: the rule of the new scope that is meant, for it is not there yet."""


def performed(graph: Graph, firing: Firing) -> tuple[AnyChange, ...]:
    """What a rule changes; () if all is as it asks already. `ScopeError` if it cannot be."""
    run = Run(World(graph), Extensions().with_defaults())
    run.ledger = Ledger(silent=True)
    run.creating = True
    for statement in _statements(graph, firing):
        run.perform(statement)
    for _, misfit in run.owns.lost(run.graph, run.mentioned.edges):
        raise misfit.as_error()
    return difference(graph, labelled(run.graph))


def _statements(graph: Graph, firing: Firing) -> list[Statement]:
    scope, rule = graph.scopes[firing.scope], firing.rule
    known = read_rule(firing.grows or rule.text, scope.attributes.get("filter-model", "type"))
    name = instance_of(rule, firing.event) if rule.deploys else firing.scope
    binding = Binding(graph, name, firing.trigger, firing.notification)
    statements: list[Statement] = []
    for action in known.update.actions:
        if isinstance(action, AlterScope):
            statements.append(bound(action, known.name, binding))
        else:
            statements.append(_deployment(rule, name, firing.trigger if action.include else ""))
    return statements


def _deployment(rule: Rule, name: str, include: str) -> DeployScope:
    deploys = deploys_of(rule.deploys)
    first = (Selection((reference(include),)),) if include else ()
    return dataclasses.replace(deploys, name=name, selections=(*deploys.selections, *first))


def instance_of(rule: Rule, event: str) -> str:
    """What a scope is called that a rule creates: by the event, so that each event makes one."""
    definition = _definition(deploys_of(rule.deploys))
    return f"{definition}-{hashlib.blake2b(event.encode(), digest_size=5).hexdigest()}"


def _definition(deploys: DeployScope) -> str:
    assert isinstance(deploys.definition, Name | Id)
    return deploys.definition.name if isinstance(deploys.definition, Name) else deploys.definition.id


def growing(graph: Graph, rule: Rule) -> list[Rule]:
    """The rules of the scopes that a rule creates which are about those who get what created them."""
    deploys = deploys_of(rule.deploys)
    text = graph.definitions.get(_definition(deploys))
    if text is None:
        return []
    definition = definition_of(text)
    features: tuple[Feature, ...]
    _, features = merged((definition.selections, definition.features), deploys.selections, deploys.features)
    updates = [one for one in features if isinstance(one, Update)]
    return [rule_of(one) for one in updates if one.event.name == "con" and not creates(one)]


def needed(rule: Rule, grows: str = "") -> set[str]:
    """The attributes of the notification that a rule looks at, when it is carried out."""
    known = read_rule(grows or rule.text)
    return {path.split(".", 1)[1] for path in _mentioned(known.update) if path.startswith(f"{known.name}.")}


def _mentioned(node: object) -> set[str]:
    match node:
        case Path():
            return {str(node)}
        case tuple():
            return set().union(*map(_mentioned, node)) if node else set()
        case Node():
            return set().union(set(), *(_mentioned(getattr(node, one.name)) for one in dataclasses.fields(node)))
    return set()
