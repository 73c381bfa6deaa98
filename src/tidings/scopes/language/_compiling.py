"""Compiling: from a script to the changes of the scope graph that it asks for.

Theory of operation
-------------------
Statements are carried out one after the other on a copy of the graph, each as a whole or not at all. What comes out is
compared with the graph as it is (`_difference`), and the difference is one transaction.

A *file* says how things shall be: a definition or a scope that it names is made, or brought to what the file says; its
statements must not contradict each other. A *command* (`execute`) says what shall be done: DEFINE and DEPLOY make
something new, and refuse to if it is there.

What a file says nothing of is left alone; with `prune` it is removed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from tidings.model import (
    ROOT_SCOPE,
    AlreadyDefined,
    AmbiguousName,
    ScopeError,
    TidingsError,
    UnknownName,
)
from tidings.scopes._applying import apply, kept_labels
from tidings.scopes._audit import described
from tidings.scopes._changes import AnyChange, Define, Redefine
from tidings.scopes._difference import difference
from tidings.scopes._graph import Graph, is_client
from tidings.scopes._rules import Rule

from ._altering import Alteration
from ._checking import check_statement, misfits_in
from ._coupling import OpenPoint, agrees, open_points
from ._definitions import altered, definition_of, text_of
from ._deploying import Deployment
from ._extensions import Extensions
from ._filters import Reading
from ._ledger import Ledger
from ._mistakes import Misfit, Mistake, ScriptError, Source
from ._own import Owns
from ._parser import parsed
from ._printing import selection as selection_text
from ._prune import Mentioned, pruned
from ._selections import Place, picked
from ._syntax import (
    AlterScope,
    Cardinality,
    DefineScope,
    DeployScope,
    Feature,
    Kind,
    Members,
    Name,
    Selection,
    Statement,
)
from ._terms import filter_model, misfit_of
from ._world import World, resolved


@dataclass(frozen=True)
class Compiled:
    """What a script comes to."""

    changes: tuple[AnyChange, ...]
    """One transaction; () if the graph is as the script says already."""
    graph: Graph
    """The graph as it would be."""
    warnings: tuple[str, ...] = ()
    open: tuple[OpenPoint, ...] = ()
    """The coupling points that stay open."""


def compile_script(
    sources: Sequence[Source],
    world: World,
    *,
    extensions: Extensions | None = None,
    command: bool = False,
    prune: bool = False,
    twice: bool = False,
) -> Compiled:
    """The changes that texts ask for; `ScriptError` with everything that is wrong with them.

    With `twice` there is a warning if the texts would change still more when they are applied again.
    """
    run = Run(world, (extensions or Extensions()).with_defaults(), command=command)
    if not run.carry_out_all(sources) and prune:
        run.warnings.append("there is no statement in the files, and --prune removes everything else")
    target = labelled(pruned(run.graph, run.mentioned) if prune else run.graph)
    try:
        changes = difference(world.graph, target)
        target = apply(world.graph, changes).numbered(world.graph.version)
    except ScopeError as error:
        raise ScriptError([sources[0].mistake(misfit_of(error, 0))]) from None
    run.warnings += run.owns.elsewhere(target, run.mentioned.edges)
    if twice and changes:
        run.warnings += _unsettled(sources, world.after(target), extensions, prune)
    return Compiled(changes, target, tuple(run.warnings), tuple(open_points(target, world, run.extensions)))


def _unsettled(sources: Sequence[Source], world: World, extensions: Extensions | None, prune: bool) -> Iterator[str]:
    """What would happen if texts were applied once more to what they have made."""
    try:
        again = compile_script(sources, world, extensions=extensions, prune=prune)
    except ScriptError as error:
        first = error.mistakes[0]
        yield f"applied again, the files would be refused: line {first.line}: {first.problem}"
        return
    if again.changes:
        count = len(again.changes)
        yield (
            f"applied again, the files would make {count} more change{'' if count == 1 else 's'}, the first of them "
            f"{described(again.changes[0])}: statements are worked out one after the other, so set attributes before "
            "you select by them"
        )


def labelled(graph: Graph) -> Graph:
    """The graph with labels as the authority keeps them: none for what has left, none for nothing."""
    for scope in graph.scopes.values():
        labels = kept_labels(graph, scope)
        if labels != scope.labels:
            graph = graph.with_scope(msgspec.structs.replace(scope, labels=labels))
    return graph


def check_script(sources: Sequence[Source], *, extensions: Extensions | None = None) -> Checked:
    """What can be known of texts without a graph; `ScriptError` with everything that is wrong with them."""
    run = Run(World(Graph()), (extensions or Extensions()).with_defaults(), lenient=True)
    count = run.carry_out_all(sources)
    return Checked(count, tuple(run.warnings))


class Checked(NamedTuple):
    """Texts without a mistake that could be found."""

    statements: int
    warnings: tuple[str, ...]


class Run:
    """A script on its way."""

    def __init__(self, world: World, extensions: Extensions, *, command: bool = False, lenient: bool = False) -> None:
        self.world = world
        self.graph = world.graph
        self.extensions = extensions
        self.command = command
        self.lenient = lenient
        self.ledger = Ledger(silent=command)
        self.mentioned = Mentioned()
        self.owns = Owns()
        self.told: dict[tuple[str, str], set[str]] = {}
        """For each edge the terms that blocks have said."""
        self.warnings: list[str] = []
        self._failed: set[str] = set()
        """What statements that cannot be carried out would have made: it is not missed a second time."""
        self.creating = False
        """Whether DEPLOY makes a scope also of a definition whose rules create scopes: a rule does so."""
        self.deployed: dict[str, int] = {}
        """How often each definition was deployed without a name for the scope."""

    def carry_out_all(self, sources: Sequence[Source]) -> int:
        """Carry out all statements, and tell how many there are; `ScriptError` with everything that is wrong."""
        mistakes: list[Mistake] = []
        count = 0
        for source in sources:
            script, found = parsed(source)
            mistakes += found
            count += len(script.statements)
            for statement in script.statements:
                mistakes += self.carry_out(statement, source)
        if not mistakes and not self.lenient:
            mistakes += [source.mistake(lost) for source, lost in self.owns.lost(self.graph, self.mentioned.edges)]
        if mistakes:
            raise ScriptError(mistakes)
        return count

    def carry_out(self, statement: Statement, source: Source) -> Iterator[Mistake]:
        """Carry out one statement, or say what is wrong with it."""
        before, self.ledger.source = self.graph, source
        misfits = self._misfits(statement)
        if misfits:
            self.graph = before
            if self.lenient and all(misfit.kind is UnknownName for misfit in misfits):
                return
            for misfit in misfits:
                if misfit.kind is not UnknownName or not any(f"'{name}'" in misfit.problem for name in self._failed):
                    yield source.mistake(misfit)
            self._failed |= _makes(statement)
        for selection in statement.selections:
            if selection.legacy:
                self.warn(selection.at, "INTERFACES after WHERE stands without braces; write : { INTERFACES ... }")

    def perform(self, statement: Statement) -> None:
        """Carry out a statement that stands in no text; `ScopeError` says what is wrong with it."""
        for misfit in self._misfits(statement):
            raise misfit.as_error()

    def _misfits(self, statement: Statement) -> list[Misfit]:
        """Carry out a statement in which nothing is wrong in itself; what is wrong."""
        try:
            found = list(misfits_in(statement, self.extensions))
            if not found:
                self._carry_out(statement)
        except Misfit as misfit:
            return [misfit]
        except TidingsError as error:  # a limit of what a clause stands for, as of the comparisons in a filter
            return [misfit_of(error, statement.at)]
        return found

    def _carry_out(self, statement: Statement) -> None:
        match statement:
            case DefineScope():
                self._define(statement)
            case DeployScope():
                Deployment(self, statement).carry_out()
            case AlterScope():
                self._alter(statement)

    def apply(self, at: int, *changes: AnyChange) -> None:
        """Make changes; what is wrong with them is shown at a place of the script."""
        try:
            self.graph = apply(self.graph, changes).numbered(self.graph.version)
        except ScopeError as error:
            raise misfit_of(error, at) from None

    # --- DEFINE ---------------------------------------------------------------------------------------

    def _define(self, statement: DefineScope) -> None:
        name, text = statement.name, text_of(statement)
        self.ledger.claim(("definition", name), text, statement.at, f"the definition of '{name}'")
        self.mentioned.definitions.add(name)
        if self.command and name in self.graph.definitions:
            raise Misfit(
                f"a definition '{name}' exists already",
                statement.at,
                "Choose another name, or ALTER SCOPE DEFINITION it.",
                AlreadyDefined,
            )
        self._put_definition(name, text, statement.at)

    def _put_definition(self, name: str, text: str, at: int) -> None:
        self.apply(at, Redefine(name, text) if name in self.graph.definitions else Define(name, text))

    # --- ALTER ----------------------------------------------------------------------------------------

    def _alter(self, statement: AlterScope) -> None:
        target = statement.target
        if isinstance(target, Members):
            place = self.place(ROOT_SCOPE)
            members = picked(Selection((target,), at=target.at), place)
            if statement.kind is Kind.DEFINITION:
                raise Misfit("a definition has no members", target.at, "Name a definition.")
            for member in members:
                if not is_client(member):
                    Alteration(self, statement, member).carry_out()
            return
        name = target.name if isinstance(target, Name) else target.id
        defined = name in self.graph.definitions and statement.kind is not Kind.INSTANCE
        node: str | None = None
        if statement.kind is not Kind.DEFINITION:
            try:
                node = resolved(self.world, self.graph, target)
            except Misfit:
                if not defined:
                    raise
        if defined and node is not None:
            raise Misfit(
                f"'{name}' is a definition and a scope",
                target.at,
                f"Write ALTER SCOPE DEFINITION {name}, or ALTER SCOPE INSTANCE {name}.",
                AmbiguousName,
            )
        if node is not None:
            Alteration(self, statement, node).carry_out()
        elif name in self.graph.definitions:
            self.mentioned.definitions.add(name)
            self._put_definition(name, text_of(self._altered(name, statement)), statement.at)
        else:
            known = ", ".join(sorted(self.graph.definitions)[:8]) or "none yet"
            raise Misfit(f"there is no definition '{name}'", target.at, f"Known definitions: {known}.", UnknownName)

    def _altered(self, name: str, statement: AlterScope) -> DefineScope:
        """A definition as an ALTER leaves it: it must be one that could be written down so."""
        definition = altered(definition_of(self.graph.definitions[name]), statement)
        try:
            check_statement(definition, self.extensions)
        except Misfit as misfit:
            raise Misfit(misfit.problem, statement.at, misfit.remedy, misfit.kind) from None
        return definition

    # --- what the statements share --------------------------------------------------------------------

    def place(self, id: str, superscopes: tuple[str, ...] = ()) -> Place:
        """From where the selections of a scope look."""
        prefix = id.rpartition("/")[0]
        near = superscopes or tuple(self.graph.superscopes(id)) or ((prefix,) if prefix in self.graph.scopes else ())
        return Place(
            self.world,
            self.graph,
            id,
            near,
            self.extensions,
            self.lenient,
            lambda node: agrees(self.graph, self.world, self.extensions, node, id),
        )

    def pick(
        self, selection: Selection, id: str, superscopes: tuple[str, ...], *, stays_open: bool = False
    ) -> list[str]:
        """The nodes that a selection of a scope picks; if there are none, and it does not stay open, with a warning."""
        place = self.place(id, superscopes)
        nodes = picked(selection, place)
        for ref in selection.sources or ():
            if isinstance(ref, Name) and ref.name == "world" and "world" not in self.graph.scopes:
                self.warn(ref.at, "world is no scope; it is read as MEMBERS(world)")
        self.mentioned.nodes.update(nodes)
        if not nodes and not stays_open and not self.lenient and not _asks_for_nothing(selection):
            self.warn(selection.at, f"nothing is picked for '{id}' by {selection_text(selection)}")
        return nodes

    def put_rules(self, id: str, rules: Iterable[Rule], *, instead: bool = False) -> None:
        """Give rules to a scope, with those that it has; `instead`: in place of those that create nothing."""
        scope = self.graph.scopes[id]
        known = {rule.key: rule for rule in scope.rules}
        given = {rule.key: known.get(rule.key, rule) for rule in rules}
        self.mentioned.rules.setdefault(id, set()).update(given)
        kept = {key: rule for key, rule in known.items() if key not in given and (rule.deploys or not instead)}
        listed = (*given.values(), *kept.values()) if instead else ({**known, **given}).values()
        self.graph = self.graph.with_scope(msgspec.structs.replace(scope, rules=tuple(listed)))

    def warn(self, at: int, text: str) -> None:
        """Say what is allowed, and should be written in another way."""
        source = self.ledger.source
        line, column = source.place(at)
        self.warnings.append(f"{source.name or 'line'}:{line}:{column}: {text}")

    def reading(self, id: str, features: Iterable[Feature]) -> Reading:
        """How the interfaces of a scope are read."""
        known = self.graph.attributes(id).get("filter-model", "type") if not is_client(id) else "type"
        return Reading(self.extensions, filter_model(features, known))


def _asks_for_nothing(selection: Selection) -> bool:
    return isinstance(selection.qualifier, Cardinality) and selection.qualifier.most == 0


def _makes(statement: Statement) -> set[str]:
    match statement:
        case DefineScope():
            return {statement.name}
        case DeployScope(name=name, definition=definition):
            return {name} if name else {definition.name} if isinstance(definition, Name) else set()
    return set()
