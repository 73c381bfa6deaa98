"""The audit: who changed or tried to change what, when, and whose publications became visible to whom by it."""

from __future__ import annotations

import enum
import re

import msgspec

from tidings.model import Filter

from ._changes import AnyChange, SetMapping
from ._comparison import Comparison, Difference, Effect
from ._interface import Interface
from .mappings._constant import HeldValue
from .mappings._mapping import AnyStep, EdgeMapping, Mapping
from .policies._policy import PolicyUse

MAX_SIGHTS = 50
"""The most sights of each kind that one entry lists."""
MAX_TEXT = 500
"""The most characters of one change, filter or reason in an entry."""


class Sight(msgspec.Struct, frozen=True, array_like=True):
    """What is published in `source` and passes `filter` can be seen in `target`.

    A client is written "@name"; "@" alone stands for all clients that nobody ever made a member of anything.
    """

    source: str
    target: str
    filter: str
    """By all ways together, with the mappings on them; "" if nothing is claimed."""
    before: str = ""
    """What the filter was before the change, if something could be seen before and can be after it."""
    witness: str = ""
    """The attributes of a publication that can be seen since the change, or could be seen until then."""

    def __str__(self) -> str:
        what = f" ({self.filter}; was {self.before})" if self.before else f" ({self.filter})"
        return f"{self.source or 'root'} -> {self.target or 'root'}{'' if what in _SAYS_NOTHING else what}"


_SAYS_NOTHING = (" (TRUE)", " ()")


class AuditEntry(msgspec.Struct, frozen=True):
    """One change of the graph, or one that was refused. It never holds credentials."""

    at: int
    """Microseconds since 1970 UTC, by the clock of the authority."""
    who: str
    """The client that asked; "" if it was a broker."""
    changes: tuple[str, ...]
    version: int = 0
    """The version that it made; 0: none, it was refused."""
    error: str = ""
    reason: str = ""
    gained: tuple[Sight, ...] = ()
    """Where something became visible by it, and nothing was before."""
    lost: tuple[Sight, ...] = ()
    """Where nothing is visible any longer."""
    more: bool = False
    """Whether more than is listed may have changed: there was too much to list, or to work out."""
    wider: tuple[Sight, ...] = ()
    """Where something became visible, and something was before. It may be narrower, too."""
    narrower: tuple[Sight, ...] = ()
    """Where something is visible no longer, and something still is."""
    undecided: tuple[Sight, ...] = ()
    """Where it could not be told whether more became visible, or less, than is listed."""


_LINES = re.compile(r"\s*\n\s*")


def described(change: AnyChange) -> str:
    """A change as one line: its name, and what it says. Credentials are only counted.

    >>> from tidings.scopes import Join
    >>> described(Join("@alice", "market", selective=Interface.parse(output="type = 'order'")))
    "Join member=@alice scope=market selective=[input: TRUE, output: type = 'order']"
    >>> described(SetMapping("ward", "public"))
    'SetMapping member=ward scope=public mapping=none'
    """
    words = [type(change).__name__]
    for field in msgspec.structs.fields(change):
        value = getattr(change, field.name)
        made = field.default_factory is not msgspec.NODEFAULT and not value
        if (value == field.default or made) and not isinstance(change, SetMapping):
            continue
        # The name that it has in JSON, so that people and programs read the same.
        words.append(f"{field.encode_name}={_field_text(field.name, value)}")
    return _short(" ".join(words))


def _field_text(name: str, value: object) -> str:
    if name == "admission" and isinstance(value, tuple):
        return f"({len(value)})"
    return "none" if value == "" and name not in _NODES else value_text(value)


_NODES = frozenset({"id", "scope", "member", "node"})
"""Fields in which an empty text is the root scope."""


def value_text(value: object) -> str:
    """What a change says, for people."""
    match value:
        case Interface():
            return f"[input: {value.input}, output: {value.output}]"
        case EdgeMapping():
            return f"[outward: {_steps(value.outward)}, inward: {_steps(value.inward)}]"
        case PolicyUse():
            return str(value)
        case dict():
            return ", ".join(f"{name}: {value_text(one)}" for name, one in sorted(value.items())) or "none"
        case enum.IntEnum():
            return value.name.lower()
        case enum.Enum():
            return str(value.value)
        case tuple() | list() | frozenset():
            return ",".join(map(str, value)) or "none"
        case str():
            return _LINES.sub(" ", value) or "root"
        case None:
            return "none"
    return repr(value)


def _steps(mapping: Mapping) -> str:
    return " then ".join(map(_step, mapping.steps)) or "unchanged"


def _step(step: AnyStep) -> str:
    fields = ((field, getattr(step, field.name)) for field in msgspec.structs.fields(step))
    words = (f"{field.name}={_operand(value)}" for field, value in fields if value != field.default)
    return f"{type(step).__name__}({', '.join(words)})"


def _operand(value: object) -> str:
    match value:
        case HeldValue():
            return repr(value.value)
        case tuple():
            return repr(list(value))
        case Filter() | enum.Enum():
            return str(value.value if isinstance(value, enum.Enum) else value)
    return repr(value)


def _short(text: str) -> str:
    return text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 3] + "..."


def judged(entry: AuditEntry, comparison: Comparison) -> AuditEntry:
    """The entry with what its change made visible or invisible."""
    sights = {effect: list(map(_sight, comparison.of(effect))) for effect in Effect}
    cut = any(len(some) > MAX_SIGHTS for some in (*sights.values(), comparison.undecided))
    return msgspec.structs.replace(
        entry,
        gained=tuple(sights[Effect.GAINED][:MAX_SIGHTS]),
        lost=tuple(sights[Effect.LOST][:MAX_SIGHTS]),
        wider=tuple(sights[Effect.WIDER][:MAX_SIGHTS]),
        narrower=tuple(sights[Effect.NARROWER][:MAX_SIGHTS]),
        undecided=tuple(Sight(pair.source, pair.target, "") for pair in comparison.undecided[:MAX_SIGHTS]),
        more=cut or bool(comparison.unexamined),
    )


def _sight(difference: Difference) -> Sight:
    before, after = _short(str(difference.before)), _short(str(difference.after))
    witness = _short(", ".join(f"{name}={value!r}" for name, value in difference.witness.attributes.items()))
    match difference.effect:
        case Effect.GAINED:
            return Sight(*difference.pair, after, witness=witness)
        case Effect.LOST:
            return Sight(*difference.pair, before, witness=witness)
    return Sight(*difference.pair, after, before, witness)
