"""MAP clauses and mappings: one becomes the other, in both directions, step by step."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Any, get_args

import msgspec

from tidings.model import NOTHING, Filter, IncompleteMapping, MappingError, TidingsError, json_problem
from tidings.scopes import steps
from tidings.scopes.mappings._constant import HeldValue, dec_hook
from tidings.scopes.mappings._documents import Form
from tidings.scopes.mappings._mapping import AnyStep, EdgeMapping, Mapping
from tidings.scopes.mappings._named import Named
from tidings.scopes.mappings._represent import How
from tidings.scopes.mappings._steps import Add

from ._mistakes import Misfit
from ._syntax import NOTIFICATION, Argument, Call, MapClause, Path, Setting

_STEPS: dict[str, type[AnyStep]] = {kind.__name__: kind for kind in get_args(AnyStep)}


def edge_mapping_of(clauses: Iterable[MapClause], blocked: dict[bool, Filter]) -> EdgeMapping | None:
    """The mapping of an edge; `blocked` is what an interface says of each direction, True for OUTPUT.

    A direction that is left out must be derivable, or blocked by the interface; else `Misfit` of `IncompleteMapping`.
    """
    ways: dict[bool, Mapping] = {}
    places: dict[bool, int] = {}
    for clause in clauses:
        if clause.outward in ways:
            raise Misfit("this direction has a mapping already", clause.at, "Join the two.")
        ways[clause.outward] = mapping_of(clause)
        places[clause.outward] = clause.at
    if not ways:
        return None
    if len(ways) == 1:
        ((outward, given),) = ways.items()
        if (inverse := given.inverse()) is not None:
            ways[not outward] = inverse
        elif blocked.get(not outward) == NOTHING:
            ways[not outward] = Mapping.BLOCK
        else:
            assert given.irreversible is not None
            word, side = ("INWARD", "INPUT(0)") if outward else ("OUTWARD", "OUTPUT(0)")
            raise Misfit(
                f"{_call_text(given.irreversible)} cannot be inverted, so the {word} mapping cannot be derived",
                places[outward],
                f"Write a MAP {word}, or block that direction with {side}.",
                IncompleteMapping,
            )
    return EdgeMapping(ways[True], ways[False])


def mapping_of(clause: MapClause) -> Mapping:
    """The mapping that one clause means."""
    if clause.code:
        named = Named(clause.code)
        if not named.is_known:
            raise Misfit(
                f"no function '{clause.code}' is registered here",
                clause.at,
                "Call register_mapping in this process and at the brokers, or write the steps in braces.",
                MappingError,
            )
        return Mapping((named,))
    found = tuple(_step(one) for one in clause.steps)
    try:
        return Mapping(found)
    except MappingError as error:
        raise Misfit(str(error), clause.at, kind=MappingError) from None


def _step(one: Setting | Call) -> AnyStep:
    try:
        return _assigned(one) if isinstance(one, Setting) else _called(one)
    except TidingsError as error:
        problem, _, remedy = str(error).rpartition("; ")
        raise Misfit(
            problem or remedy, one.at, f"{remedy[:1].upper()}{remedy[1:]}." if problem else "", MappingError
        ) from None


def _assigned(one: Setting) -> AnyStep:
    path = one.path
    if not isinstance(path, Path) or path.parts[0] != NOTIFICATION or len(path.parts) < 2:
        raise MappingError(f"'{path}' is no attribute of the notification; write {NOTIFICATION}.price = 5")
    name = ".".join(path.parts[1:])
    if isinstance(one.value, Path):
        source = ".".join(one.value.parts[1:])
        if one.value.parts[0] != NOTIFICATION or not source:
            raise MappingError(f"'{one.value}' is no attribute of the notification; write {NOTIFICATION}.price")
        return steps.Copy(source, name)
    return Add(name, one.value)


def _called(call: Call) -> AnyStep:
    kind = _STEPS.get(call.name)
    if kind is None:
        raise MappingError(f"there is no step '{call.name}'; known steps: {', '.join(sorted(_STEPS))}")
    fields = msgspec.structs.fields(kind)
    given: dict[str, Any] = {"step": call.name.lower()}
    for index, argument in enumerate(call.arguments):
        name = argument.name or (fields[index].name if index < len(fields) else "")
        field = next((one for one in fields if one.name == name), None)
        if field is None:
            raise MappingError(f"{call.name} has no argument '{argument.name or index + 1}'; it takes {_named(fields)}")
        given[name] = _plain(argument, field.type)
    try:
        return msgspec.convert(given, kind, dec_hook=dec_hook)
    except msgspec.ValidationError as error:
        problem = json_problem(msgspec.json.encode(given, enc_hook=str), error).partition("\n")[0]
        raise MappingError(f"{call.name}: {problem}; write it like {EXAMPLES.get(call.name, _named(fields))}") from None


EXAMPLES = {
    "Rename": 'Rename("old", "new")',
    "Copy": 'Copy("old", "new")',
    "Drop": 'Drop(["a", "b"])',
    "Keep": 'Keep(["a", "b"])',
    "Add": 'Add("market", "FRA")',
    "Annotate": 'Annotate("market", "FRA")',
    "Only": 'Only("price > 5")',
    "Convert": 'Convert("usd", 0.92, to = "eur")',
    "Compute": 'Compute("total", "price * size")',
    "Represent": f'Represent("name", "{next(iter(How)).value}")',
    "Pack": f'Pack("record", "{next(iter(Form)).value}")',
    "Unpack": f'Unpack("record", "{next(iter(Form)).value}")',
}


def _named(fields: tuple[msgspec.structs.FieldInfo, ...]) -> str:
    return ", ".join(field.name for field in fields)


def _plain(argument: Argument, kind: object) -> object:
    """An argument as msgspec reads it."""
    if kind is HeldValue:
        return HeldValue(argument.value).dump()
    return list(argument.value) if isinstance(argument.value, tuple) else argument.value


def clauses_of(mapping: EdgeMapping) -> tuple[MapClause, ...]:
    """The clauses that mean this mapping."""
    return tuple(
        MapClause(outward, tuple(map(_call, way.steps)))
        if way.steps != (Named(_code(way)),)
        else MapClause(outward, code=_code(way))
        for outward, way in ((True, mapping.outward), (False, mapping.inward))
    )


def _code(way: Mapping) -> str:
    return way.steps[0].function if len(way.steps) == 1 and isinstance(way.steps[0], Named) else ""


def _call(step: AnyStep) -> Call:
    arguments = []
    for field in msgspec.structs.fields(step):
        value = getattr(step, field.name)
        if value == field.default:
            continue
        match value:
            case HeldValue():
                value = value.value
            case Filter():
                value = str(value)
            case enum.Enum():
                value = value.value
        arguments.append(Argument(value, field.name))
    return Call(type(step).__name__, tuple(arguments))


def _call_text(step: AnyStep) -> str:
    from ._printing import call  # noqa: PLC0415 - only for a message

    return call(_call(step))
