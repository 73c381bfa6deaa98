"""Notifications as instances of a class: what `subscribe(..., as_=Quote)` yields.

`publish(Quote(...))` flattens a dataclass or Struct to dotted names; this is the way back. A class is looked at once,
when somebody subscribes, and becomes a plan: which attribute goes into which field, and what stands below it.

    price: float                  the attribute "price"
    venue: Venue                  the attributes "venue.city", "venue.country", ...
    items: list[Item]             the lists "items.sku", "items.qty", ..., one element of each for one item
    limits: dict[str, float]      all attributes that begin with "limits."

An attribute that no field is for is left out. A field that may be None and has no attribute is None.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

import msgspec
from msgspec import inspect

from tidings.model import ArgumentRefused, Notification

_T = TypeVar("_T")


class Misfit(NamedTuple):
    """A notification that passed the filter and is no instance of the class that was asked for."""

    notification: Notification
    problem: str
    """What does not fit, and where."""


class _NoFit(Exception):
    """Lists that cannot be one list of objects."""


@dataclasses.dataclass(slots=True)
class _Object:
    """The fields of a class."""

    fields: list[_Field] = dataclasses.field(default_factory=list)
    tag: tuple[str, str | int] | None = None


class _Leaf(NamedTuple):
    """One attribute."""


class _Objects(NamedTuple):
    """Several objects, as lists of their fields."""

    each: _Object


class _Entries(NamedTuple):
    """Whatever stands below a name."""

    each: _Node


_Node: TypeAlias = _Object | _Leaf | _Objects | _Entries
_LEAF = _Leaf()


class _Field(NamedTuple):
    name: str
    """In the notification."""
    key: str
    """In what the class is made from."""
    node: _Node
    nullable: bool
    """Whether it is None if nothing is there."""
    required: bool


class Typed(Generic[_T]):
    """Makes instances of one class."""

    def __init__(self, kind: type[_T]) -> None:
        given: object = kind
        if not isinstance(given, type) or not (dataclasses.is_dataclass(given) or issubclass(given, msgspec.Struct)):
            raise ArgumentRefused(f"as_={kind!r:.60}; give a dataclass or a msgspec.Struct")
        self.kind: type[_T] = kind
        try:
            looked_at = inspect.type_info(kind)
        except (TypeError, NameError) as error:
            raise ArgumentRefused(f"as_={kind.__name__}: its fields cannot be read: {error}") from None
        self._plan = _object(looked_at, kind.__name__, {})
        self._flat = all(
            one.node is _LEAF and one.name == one.key and not (one.nullable and one.required)
            for one in self._plan.fields
        ) and not (self._plan.tag or getattr(looked_at, "forbid_unknown_fields", False))

    def of(self, notification: Notification) -> _T | Misfit:
        """The instance, or why there is none."""
        attributes = notification.attributes
        try:
            data = attributes if self._flat else _gathered(self._plan, attributes, "")
            return msgspec.convert(data, self.kind)
        except (_NoFit, ValueError, TypeError) as error:  # what is invalid is a ValueError
            return Misfit(notification, f"no {self.kind.__name__}: {error}")
        except Exception as error:  # the class may raise anything in `__post_init__`, for content that others publish
            return Misfit(notification, f"no {self.kind.__name__}: {type(error).__name__}: {error}")


# --- the plan -----------------------------------------------------------------------------------------


def _object(kind: inspect.Type, place: str, known: dict[type, _Object]) -> _Object:
    assert isinstance(kind, inspect.StructType | inspect.DataclassType)
    if kind.cls in known:
        return known[kind.cls]
    if isinstance(kind, inspect.StructType) and kind.array_like:
        raise ArgumentRefused(f"as_: {place} is a Struct without names (array_like); use one with names")
    found = known[kind.cls] = _Object()
    if isinstance(kind, inspect.StructType) and kind.tag_field is not None and kind.tag is not None:
        found.tag = (kind.tag_field, kind.tag)
    for field in kind.fields:
        node, nullable = _node(field.type, f"{place}.{field.name}", known)
        found.fields.append(_Field(field.name, field.encode_name, node, nullable, field.required))
    return found


def _node(kind: inspect.Type, place: str, known: dict[type, _Object]) -> tuple[_Node, bool]:
    """What stands below a name, and whether it may be None."""
    match kind:
        case inspect.Metadata():
            return _node(kind.type, place, known)
        case inspect.UnionType():
            nodes = [_node(one, place, known)[0] for one in kind.types if not isinstance(one, inspect.NoneType)]
            if len(nodes) > 1 and any(node is not _LEAF for node in nodes):
                raise ArgumentRefused(
                    f"as_: {place} may be one of several classes, and nothing in a notification says which; use one"
                )
            return nodes[0], kind.includes_none
        case inspect.StructType() | inspect.DataclassType():
            return _object(kind, place, known), False
        case inspect.DictType():
            return _Entries(_node(kind.value_type, place, known)[0]), False
        case inspect.ListType() | inspect.VarTupleType():
            each, _ = _node(kind.item_type, place, known)
            return (_Objects(each) if isinstance(each, _Object) else _LEAF), False
        case _:
            return _LEAF, isinstance(kind, inspect.NoneType)


# --- the way back -------------------------------------------------------------------------------------


def _gathered(plan: _Object, attributes: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """What an instance is made from."""
    found: dict[str, Any] = {} if plan.tag is None else dict([plan.tag])
    for field in plan.fields:
        value = _value(field.node, attributes, prefix + field.name)
        if value is not None:
            found[field.key] = value
        elif field.required and field.nullable:
            found[field.key] = None
        elif field.required and isinstance(field.node, _Object):
            found[field.key] = _gathered(field.node, {}, "")  # all of its fields may have defaults
        elif field.required and isinstance(field.node, _Entries):
            found[field.key] = {}
    return found


def _value(node: _Node, attributes: Mapping[str, Any], name: str) -> Any:
    """What stands under a name; None: nothing does."""
    if isinstance(node, _Leaf):
        return attributes.get(name)
    if isinstance(node, _Objects) and name in attributes:
        return attributes[name]  # an empty list
    below = {one: value for one, value in attributes.items() if one.startswith(f"{name}.")}
    if not below:
        return None
    match node:
        case _Object():
            return _gathered(node, below, f"{name}.")
        case _Objects():
            return [_gathered(node.each, row, f"{name}.") for row in _rows(below, name)]
        case _Entries():
            start = len(name) + 1
            if isinstance(node.each, _Leaf):
                return {one[start:]: value for one, value in below.items()}
            keys = dict.fromkeys(one[start:].partition(".")[0] for one in below)
            return {key: _value(node.each, below, f"{name}.{key}") for key in keys}


def _rows(columns: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """Lists side by side as one list of what stands beside each other."""
    lists = {one: value for one, value in columns.items() if isinstance(value, tuple)}
    if len(lists) < len(columns) or len(set(map(len, lists.values()))) != 1:
        raise _NoFit(f"the lists below '{name}' do not have one element for each object")
    return [dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=True)]
