"""An outlook: what a planned change would do, as plain data that can be shown, kept in a file and read again."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import TypeVar

import msgspec

from tidings.model import Notification, ScopeError

from ._attributes import NO_ATTRIBUTES, AnyAttributes, Attributes
from ._changes import AnyChange
from ._exposure import Exposure
from ._graph import is_client
from .mappings._constant import dec_hook, enc_hook

MAX_TEXT = 2_000
"""The most characters of one filter in an outlook; longer ones are cut."""
MAX_NAMED = 5
"""The most clients of one entry that its text names."""


class Outcome(enum.Enum):
    """What becomes of what somebody sees."""

    GAINED = "gained"
    """Something is seen that was not seen before."""
    LOST = "lost"
    """Something that was seen is not seen any more."""
    CHANGED = "changed"
    """Something that was seen is seen in another form."""


class SightChange(msgspec.Struct, frozen=True):
    """What somebody sees of what is published somewhere, and will not see any more, or only then, or otherwise.

    A client is written "@name"; "@" alone stands for all clients that nobody ever made a member of anything.
    """

    source: str
    """Where it is published: a scope or a client."""
    target: str
    """Who sees it: a scope, and so its members on the terms of their edges, or a client."""
    outcome: Outcome
    before: str
    """What is seen now, of everything that is published in the source."""
    after: str
    """What will be."""
    witness: AnyAttributes = NO_ATTRIBUTES
    """A publication to which it happens."""
    was: tuple[AnyAttributes, ...] = ()
    """In which forms that publication is seen now."""
    becomes: tuple[AnyAttributes, ...] = ()
    """In which forms it will be."""
    sources: tuple[str, ...] = ()
    """The clients that this is true of, if it is of several: all have the same memberships."""
    targets: tuple[str, ...] = ()

    def between(self, sources: tuple[str, ...], targets: tuple[str, ...]) -> SightChange:
        """The same of several clients."""
        return _between(self, sources, targets)

    def __str__(self) -> str:
        source, target = _named(self.source, self.sources), _named(self.target, self.targets)
        example = ", ".join(f"{name}={value!r}" for name, value in self.witness.items()) or "no attributes"
        match self.outcome:
            case Outcome.GAINED:
                was = "" if self.before == "FALSE" else f" (was {self.before})"
                return f"{source} is seen in {target}: {self.after}{was}, for example {example}"
            case Outcome.LOST:
                left = "" if self.after == "FALSE" else f" (left: {self.after})"
                return f"{source} is no longer seen in {target}: {self.before}{left}, for example {example}"
        forms = " and ".join(str(dict(form)) for form in self.becomes)
        return f"{source} is seen in {target} in another form: {self.after}, for example {example} as {forms}"


class Doubt(msgspec.Struct, frozen=True):
    """What perhaps becomes of what somebody sees: it could not be worked out."""

    source: str
    target: str
    outcomes: tuple[Outcome, ...]
    """Of which it is not known whether they happen."""
    reason: str
    before: str
    after: str
    sources: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()

    def between(self, sources: tuple[str, ...], targets: tuple[str, ...]) -> Doubt:
        """The same of several clients."""
        return _between(self, sources, targets)

    def __str__(self) -> str:
        source, target = _named(self.source, self.sources), _named(self.target, self.targets)
        what = " or ".join(outcome.value for outcome in self.outcomes)
        return f"perhaps {what}: {source} in {target}, because {self.reason}"


class Carried(msgspec.Struct, frozen=True):
    """A broker that comes to carry a scope."""

    scope: str
    broker: str
    trusted: bool = True
    """Otherwise the scope does not trust it, and the change would be refused."""


class Redelivered(msgspec.Struct, frozen=True):
    """A scope whose members, or a client that, will get what they see in another way: other copies of it, or in another
    order."""

    node: str
    before: tuple[str, ...]
    """The rules of now, by which copies are dropped and put in order: "suppress", "event, ordered". A client has those
    of all its scopes."""
    after: tuple[str, ...]
    """Those that will be."""

    def __str__(self) -> str:
        who = f"'{self.node}'" if is_client(self.node) else f"the members of {_named(self.node, ())}"
        return f"{who}: duplicates {' or '.join(self.before)} becomes {' or '.join(self.after)}"


class Outlook(msgspec.Struct, frozen=True):
    """What a change of the graph would do."""

    version: int
    """The version of the graph that it was worked out on."""
    digest: str
    """What that graph says, in short: see `digest`."""
    changes: tuple[AnyChange, ...]
    sights: tuple[SightChange, ...] = ()
    """What scopes gain, lose and see in another form, and clients of which a membership changes."""
    perhaps: tuple[Doubt, ...] = ()
    clients: tuple[SightChange, ...] = ()
    """What clients do, if that was asked for."""
    clients_perhaps: tuple[Doubt, ...] = ()
    unexamined: tuple[str, ...] = ()
    """The sources for which the effort did not suffice: more may happen to what is published there, farther away."""
    leave_root: tuple[str, ...] = ()
    """The clients that leave the root scope: they neither hear nor are heard by those that stay there."""
    isolated: tuple[str, ...] = ()
    """The clients that are left without any scope: they hear nothing, and nobody hears them."""
    carried: tuple[Carried, ...] = ()
    """The brokers that come to carry a scope, if the tree was given."""
    warnings: tuple[str, ...] = ()
    redelivered: tuple[Redelivered, ...] = ()
    """Whose duplicates are dropped by another rule, or that get what they see in order, or no longer do."""
    by_client: bool = False
    partial: bool = False
    """Whether it was worked out on a part of the graph: what happens in the scopes that are hidden is not listed."""

    @property
    def is_complete(self) -> bool:
        """Whether nothing else happens than is listed."""
        return not self.partial and not self.perhaps and not self.clients_perhaps and not self.unexamined

    @property
    def is_quiet(self) -> bool:
        """Whether nobody gets anything else by it, for sure."""
        return self.is_complete and not self.sights and not self.clients and not self.redelivered

    def of(self, outcome: Outcome) -> list[SightChange]:
        """The entries of one kind, scopes and clients as they are listed."""
        return [one for one in (*self.sights, *self.clients) if one.outcome is outcome]

    def by_target(self) -> dict[str, list[SightChange]]:
        """What each scope, and each client whose membership changes, gains, loses and sees in another form."""
        found: dict[str, list[SightChange]] = {}
        for one in self.sights:
            found.setdefault(one.target, []).append(one)
        return dict(sorted(found.items()))


def encode_outlook(outlook: Outlook) -> bytes:
    """An outlook as JSON."""
    return msgspec.json.format(_encoder.encode(outlook), indent=2)


def decode_outlook(data: bytes) -> Outlook:
    """The outlook in these bytes, or `ScopeError`."""
    try:
        return _decoder.decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise ScopeError(f"not a plan of a change: {error}; make one with `tidings scope plan --out`") from None


_encoder = msgspec.json.Encoder(enc_hook=enc_hook)
_decoder = msgspec.json.Decoder(Outlook, dec_hook=dec_hook)


# --- how entries are made -------------------------------------------------------------------------------


def sight_change(outcome: Outcome, before: Exposure, after: Exposure, witness: Notification) -> SightChange:
    """An entry with its witness; `between` says whose it is."""
    return SightChange(
        "",
        "",
        outcome,
        _short(str(before)),
        _short(str(after)),
        Attributes(witness.attributes),
        tuple(_forms(before, witness)),
        tuple(_forms(after, witness)),
    )


def doubt(outcomes: tuple[Outcome, ...], before: Exposure, after: Exposure) -> Doubt:
    """An entry of what could not be worked out, with the reason."""
    return Doubt("", "", outcomes, _reason(before, after), _short(str(before)), _short(str(after)))


def _forms(exposure: Exposure, witness: Notification) -> Iterator[Attributes]:
    for form in dict.fromkeys(exposure.shown(witness)):
        yield Attributes(form.attributes)


def _reason(before: Exposure, after: Exposure) -> str:
    if not before.whole or not after.whole:
        return "the filters on the way, taken together, are too large"
    strands = (*before.strands, *after.strands)
    unknown = sorted({name for strand in strands for mapping in strand.mappings for name in mapping.unknown})
    if unknown:
        return f"a mapping uses the function '{unknown[0]}', which is not registered here"
    if any(strand.crossings for strand in strands):
        return "the mappings on the way could not be compared"
    return "the filters on the way could not be compared"


def _short(text: str) -> str:
    return text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 3] + "..."


def _named(node: str, nodes: tuple[str, ...]) -> str:
    if len(nodes) > 1:
        more = f" and {len(nodes) - MAX_NAMED} more" if len(nodes) > MAX_NAMED else ""
        return ", ".join(f"'{one}'" for one in nodes[:MAX_NAMED]) + more
    return f"'{node}'" if node else "the root scope"


_Entry = TypeVar("_Entry", SightChange, Doubt)


def _between(entry: _Entry, sources: tuple[str, ...], targets: tuple[str, ...]) -> _Entry:
    return msgspec.structs.replace(
        entry,
        source=sources[0],
        target=targets[0],
        sources=sources if len(sources) > 1 else (),
        targets=targets if len(targets) > 1 else (),
    )
