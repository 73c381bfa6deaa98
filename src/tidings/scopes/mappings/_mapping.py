"""Mappings: what a notification becomes when it crosses the border between a member and its superscope.

A mapping is data: steps that are applied one after the other, stored and sent like a filter. Nothing that arrives is
ever executed; a function of one's own has to be registered, by its operator, where it is used (`Named`).
docs/mappings.md is the contract.
"""

from __future__ import annotations

from typing import ClassVar, TypeAlias, TypeVar

import msgspec

from tidings.model import NOTHING, Filter, MappingError, Notification, ValueRefused

from ._compute import Compute
from ._constant import dec_hook, enc_hook
from ._convert import Convert
from ._named import Named
from ._pack import Pack, Unpack
from ._represent import Represent
from ._step import MappingFailed
from ._steps import Add, Annotate, Copy, Drop, Keep, Only, Rename

AnyStep: TypeAlias = (
    Rename | Copy | Drop | Keep | Add | Annotate | Only | Convert | Compute | Represent | Pack | Unpack | Named
)

MAX_STEPS = 64
"""The most steps of one mapping."""


class Mapping(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Steps, applied in their order: one notification in, at most one out.

    >>> to_euro = mapping(Convert("usd", 0.5, to="eur"), Add("market", "FRA"))
    >>> to_euro.apply(Notification(symbol="IBM", usd=120))
    Notification(symbol='IBM', eur=60.0, market='FRA')
    >>> to_euro.wanted(Filter.parse("eur > 50 AND market = 'FRA'"))
    Filter.parse('usd >= 100.00000000000001 OR (eur > 50 AND usd IS NULL)')
    """

    steps: tuple[AnyStep, ...] = ()

    BLOCK: ClassVar[Mapping]
    """Nothing crosses."""
    IDENTITY: ClassVar[Mapping]
    """Everything crosses unchanged."""

    def __post_init__(self) -> None:
        if len(self.steps) > MAX_STEPS:
            raise MappingError(f"a mapping of {len(self.steps)} steps, at most {MAX_STEPS} are allowed; join some")

    def apply(self, notification: Notification) -> Notification | None:
        """What the notification becomes; None if it is blocked or cannot be mapped. Never raises for what is in it."""
        try:
            return self.run(notification)
        except MappingFailed:
            return None

    def run(self, notification: Notification) -> Notification | None:
        """As `apply`, but `MappingFailed` says why a notification cannot be mapped; None is blocked on purpose."""
        attributes = before = notification.attributes
        for step in self.steps:
            after = step.run(attributes)
            if after is None:
                return None
            attributes = after
        if attributes is before:
            return notification
        try:
            return Notification.decoded(attributes)
        except ValueRefused as error:
            raise MappingFailed(f"the result is not a notification: {error}") from None

    def wanted(self, filter: Filter) -> Filter:
        """What must come in: whatever `apply` makes pass `filter` passes this. It may pass more, never less."""
        for step in reversed(self.steps):
            filter = step.wanted(filter)
        return filter

    def offered(self, filter: Filter) -> Filter:
        """What may go out: whatever `apply` makes of what passes `filter` passes this. It may pass more."""
        for step in self.steps:
            filter = step.offered(filter)
        return filter

    def inverse(self) -> Mapping | None:
        """The mapping that takes this one back, if every step can be taken back."""
        if self.irreversible is not None:
            return None
        return Mapping(tuple(step.inverse() for step in reversed(self.steps)))  # type: ignore[misc]

    @property
    def irreversible(self) -> AnyStep | None:
        """The first step that cannot be taken back, alone or after those before it.

        To take a copy back is to drop it, so what was copied must not be overwritten after that; of a function of
        one's own nobody knows whether it does.

        >>> mapping(Copy("a", "b"), Add("a", 0)).irreversible
        Add(name='a', constant=0)
        """
        copied: set[str] = set()
        for step in self.steps:
            if step.inverse() is None or not copied.isdisjoint(_written(step)) or (copied and isinstance(step, Named)):
                return step
            copied = _names_after(step, copied)
        return None

    @property
    def unknown(self) -> tuple[str, ...]:
        """The functions that it names and that are not registered in this process."""
        return tuple(step.function for step in self.steps if isinstance(step, Named) and not step.is_known)

    @property
    def is_identity(self) -> bool:
        """Whether it says plainly that nothing changes."""
        return not self.steps

    @property
    def is_blocked(self) -> bool:
        """Whether it says plainly that nothing crosses."""
        return Only(NOTHING) in self.steps


Mapping.BLOCK = Mapping((Only(NOTHING),))
Mapping.IDENTITY = Mapping()


def _written(step: AnyStep) -> set[str]:
    """The names whose values of before are gone after this step."""
    match step:
        case Rename(new=name) | Copy(new=name) | Add(name=name):
            return {name}
        case Convert(source=source, target=target) if source != target:
            return {target}
    return set()


def _names_after(step: AnyStep, copied: set[str]) -> set[str]:
    """The names of what was copied, after this step."""
    match step:
        case Copy(old=name):
            return copied | {name}
        case Rename(old=old, new=new) | Convert(source=old, target=new) if old in copied:
            return copied - {old} | {new}
        case Pack(name=name, keep=keep) if copied:
            return copied.intersection(keep) | {name}
    return copied


def mapping(*steps: AnyStep | Filter) -> Mapping:
    """The mapping of these steps; a filter is a step, too."""
    return Mapping(tuple(Only(step) if isinstance(step, Filter) else step for step in steps))


class EdgeMapping(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What notifications become on an edge of the scope graph, in each direction. Make it with `edge_mapping`."""

    outward: Mapping = Mapping.IDENTITY
    """From the member to the superscope."""
    inward: Mapping = Mapping.IDENTITY
    """From the superscope to the member."""

    @property
    def is_identity(self) -> bool:
        """Whether it says plainly that nothing changes."""
        return self.outward.is_identity and self.inward.is_identity


def edge_mapping(outward: Mapping | None = None, inward: Mapping | None = None) -> EdgeMapping:
    """The mapping of an edge; a direction that is left out is the inverse of the other one.

    >>> edge_mapping(mapping(Rename("price", "preis"))).inward
    Mapping(steps=(Rename(old='preis', new='price'),))
    """
    if outward is None and inward is None:
        raise MappingError("the edge has a mapping in neither direction; give one, or leave the mapping out")
    for given in (outward, inward):
        if given is not None and given.unknown:
            raise MappingError(f"no mapping '{given.unknown[0]}' is registered here; call register_mapping first")
    if outward is not None and inward is not None:
        return EdgeMapping(outward, inward)
    if outward is not None:
        return EdgeMapping(outward, _inverse(outward, "inward"))
    assert inward is not None
    return EdgeMapping(_inverse(inward, "outward"), inward)


def _inverse(given: Mapping, missing: str) -> Mapping:
    inverse = given.inverse()
    if inverse is not None:
        return inverse
    raise MappingError(
        f"{given.irreversible!r:.100} cannot be inverted, so the {missing} mapping cannot be derived; "
        f"give it, or block that direction with {missing}=Mapping.BLOCK"
    )


_T = TypeVar("_T")


def encode(value: msgspec.Struct) -> bytes:
    """A mapping, an edge mapping or an interface as bytes."""
    return msgspec.msgpack.encode(value, enc_hook=enc_hook)


def decode(data: bytes, kind: type[_T]) -> _T:
    """The mapping, edge mapping or interface in these bytes, or `MappingError`.

    >>> decode(encode(Mapping.BLOCK), Mapping) == Mapping.BLOCK
    True
    """
    try:
        return msgspec.msgpack.decode(data, type=kind, dec_hook=dec_hook)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise MappingError(f"not a {kind.__name__}: {error}") from None
