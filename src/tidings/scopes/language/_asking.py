"""What a script wants to know before it can be worked out: which components are connected, and what they cover."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tidings.model import Filter, ScopeError
from tidings.scopes._graph import Graph, is_client

from ._definitions import definition_of
from ._extensions import Extensions
from ._filters import FILTER_MODEL, Reading
from ._mistakes import Misfit, Source
from ._parser import parsed
from ._syntax import (
    AlterScope,
    And,
    AnyRef,
    Call,
    Comparison,
    Condition,
    DeployScope,
    InterfaceTest,
    Likeness,
    Members,
    Name,
    Not,
    Or,
    Path,
    Quoted,
    Selection,
    Statement,
    Top,
)
from ._world import Asked


def asks(sources: Sequence[Source], graph: Graph, extensions: Extensions | None = None) -> Asked | None:
    """What must be asked of the components that are connected; None: nothing, everything is in the graph."""
    statements = [statement for source in sources for statement in parsed(source)[0].statements]
    made = {one.name for one in statements if isinstance(one, DeployScope)} | {*graph.scopes, *graph.definitions}
    selections = [one for statement in statements for one in _selections(statement, graph, statements)]
    if not any(_looks_around(one, made) for one in selections):
        return None
    found: dict[bool, list[Filter]] = {False: [], True: []}
    reading = Reading((extensions or Extensions()).with_defaults())
    for selection in selections:
        for test in _tests(selection.where):
            if not isinstance(test, InterfaceTest):
                continue
            try:
                filter = reading.side(test.side)
            except Misfit:
                continue  # it is said when the script is worked out
            if filter not in found[test.side.output]:
                found[test.side.output].append(filter)
    return Asked(tuple(found[False]), tuple(found[True]), _attributes(selections))


def _attributes(selections: Sequence[Selection]) -> tuple[str, ...] | None:
    """The attributes that selections look at; None if an extension may look at any."""
    found: set[str] = set()
    for selection in selections:
        match selection.qualifier:
            case Top():
                found.add(selection.qualifier.attribute)
            case Call():
                return None
        for test in _tests(selection.where):
            match test:
                case Comparison() | Likeness():
                    operand = getattr(test, "operand", None)
                    found |= {str(path) for path in (test.path, operand) if isinstance(path, Path | Quoted)}
                case InterfaceTest():
                    found.add(FILTER_MODEL)
                case Call(name="within"):
                    found |= {str(one.value) for one in test.arguments if isinstance(one.value, Path)}
                case Call():
                    return None
    return tuple(sorted(found))


def _tests(condition: Condition | None) -> Iterator[Condition]:
    match condition:
        case None:
            return
        case And() | Or():
            for part in condition.parts:
                yield from _tests(part)
        case Not():
            yield from _tests(condition.part)
        case _:
            yield condition


def _selections(statement: Statement, graph: Graph, statements: list[Statement]) -> Iterator[Selection]:
    if isinstance(statement, AlterScope):
        yield from statement.selections
    elif isinstance(statement, DeployScope):
        yield from statement.selections
        name = statement.definition.name if isinstance(statement.definition, Name) else ""
        for other in statements:
            if getattr(other, "name", None) == name and not isinstance(other, DeployScope):
                yield from other.selections
        if name in graph.definitions:
            try:
                yield from definition_of(graph.definitions[name]).selections
            except ScopeError:
                return


def _looks_around(selection: Selection, made: set[str]) -> bool:
    """Whether a selection depends on what is connected."""
    if selection.sources is None or selection.where is not None:
        return True
    return any(_is_open(source, made) for source in selection.sources)


def _is_open(source: AnyRef, made: set[str]) -> bool:
    if isinstance(source, Members):
        return True
    return isinstance(source, Name) and not is_client(source.name) and source.name not in {*made, "root", "self"}
