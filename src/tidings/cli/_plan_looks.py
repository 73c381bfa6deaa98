"""A plan as people and programs read it: first what it comes to, then the changes, and who will see what by them.

What is the same of several members, sources or readers is said once. What is longer than anybody reads is cut, and the
last line says how to see all of it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from tidings.scopes import AnyChange, Outcome, Outlook, SightChange, described, encode_outlook, is_client
from tidings.scopes.language import OpenPoint

SHOWN_CHANGES = 50
"""The changes that a plan shows; more are counted. `--all` and `--json` have all of them."""
SHOWN_LINES = 200
"""The lines about who sees what that a plan shows; more are counted."""
SHOWN_NAMES = 20
"""The names of one list that a plan shows; more are counted."""
CHECKED_LATER = "rights, admission and trust are checked when it is applied"
"""What a plan does not foretell."""
_SIGNS = {Outcome.GAINED: "+", Outcome.LOST: "-", Outcome.CHANGED: "~"}
_MEMBERS = "member", "client", "node"
"""The field of a change in which changes differ that are said together."""


@dataclass(frozen=True)
class Planned:
    """What a command would do: the outlook of its changes, and what the script itself gave cause to say."""

    outlook: Outlook
    open: tuple[OpenPoint, ...] = ()
    warnings: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()
    """The brokers that did not say which clients are connected there, though it matters."""
    absent: tuple[str, ...] = ()
    """The brokers that cannot be reached, though it matters which clients are connected there."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing would change."""
        return not self.outlook.changes


def plan_words(planned: Planned) -> dict[str, Any]:
    """A plan for programs."""
    words = json.loads(encode_outlook(planned.outlook))
    words["open"] = [{"scope": one.scope, "superscope": one.superscope, "demand": one.demand} for one in planned.open]
    words["warnings"] = [*planned.warnings, *planned.outlook.warnings]
    words["silent"], words["absent"] = list(planned.silent), list(planned.absent)
    return dict(words)


def plan_text(planned: Planned, *, all: bool = False) -> str:
    """A plan for people; with `all`, however long it is."""
    return "\n".join(_Text(planned, all).lines())


class _Text:
    """A plan as lines."""

    def __init__(self, planned: Planned, all: bool) -> None:
        self._planned = planned
        self._outlook = planned.outlook
        self._all = all

    def lines(self) -> Iterator[str]:
        outlook = self._outlook
        if self._planned.is_empty:
            yield "nothing would change"
            yield from self._remarks()
            return
        yield from self._summary()
        yield from self._remarks()
        yield "changes:"
        yield from self._cut((f"  {text}" for text in self._changes()), SHOWN_CHANGES, "changes")
        yield from self._sights(outlook.sights, "who will see what of whom:")
        if outlook.redelivered:
            yield "who will get other copies of what they see, or in another order:"
            yield from self._cut((f"  {one}" for one in outlook.redelivered), SHOWN_LINES, "lines")
        if outlook.by_client:
            yield from self._sights(outlook.clients, "what clients will see:")
        doubts = (f"  ? {doubt}" for doubt in (*outlook.perhaps, *outlook.clients_perhaps))
        yield from self._cut(doubts, SHOWN_LINES, "doubts")
        yield CHECKED_LATER

    # --- what it comes to -----------------------------------------------------------------------------

    def _summary(self) -> Iterator[str]:
        outlook = self._outlook
        kinds = Counter(type(change).__name__ for change in outlook.changes)
        counted = ", ".join(f"{count:,} {kind}" for kind, count in kinds.items())
        count = len(outlook.changes)
        yield f"{count:,} change{'' if count == 1 else 's'} on version {outlook.version} of the scope graph: {counted}"
        sights = (*outlook.sights, *outlook.clients)
        targets = {target for one in sights for target in one.targets or (one.target,)}
        if targets:
            clients = sum(map(is_client, targets))
            where = [f"in {_count(len(targets) - clients, 'scope')}"] * (len(targets) > clients)
            where += [f"by {_count(clients, 'client')}"] * bool(clients)
            found = Counter(one.outcome for one in sights)
            became = [f"{found[outcome]:,} {word}" for outcome, word in _BECAME.items() if found[outcome]]
            doubts = len(outlook.perhaps) + len(outlook.clients_perhaps)
            became += [f"{doubts:,} perhaps"] * bool(doubts)
            yield f"something else will be seen {' and '.join(where)}: {', '.join(became)}"
        elif not outlook.redelivered and not outlook.perhaps:
            part = ", as far as you may see the graph" if outlook.partial else ""
            yield f"nobody will see anything else by it{part}"

    def _remarks(self) -> Iterator[str]:
        outlook, planned = self._outlook, self._planned
        if planned.silent:
            yield (
                f"{_brokers(planned.silent)} did not say which clients are connected there: no selection picks them, "
                "unless the graph knows them"
            )
        if planned.absent:
            yield (
                f"{_brokers(planned.absent)} cannot be reached: clients that were connected there count as not "
                "connected, so selections may leave them out"
            )
        if outlook.partial:
            yield (
                "this was worked out on the part of the graph that you may see: hidden scopes, and what clients see "
                "and show as members of these, are left out"
            )
        if outlook.unexamined:
            yield (
                "too large to follow everywhere: it is shown what changes between members and their scopes, but not "
                f"everywhere else, of what is published in {self._listed(outlook.unexamined)}; `tidings scope plan "
                "--thorough` shows all"
            )
        if outlook.leave_root:
            yield (
                f"leave the root scope, and hear and are heard only where they are members then: "
                f"{self._listed(outlook.leave_root)}"
            )
        if outlook.isolated:
            yield f"are left without any scope, and neither hear nor are heard: {self._listed(outlook.isolated)}"
        carried: dict[tuple[str, bool], list[str]] = {}
        for one in outlook.carried:
            carried.setdefault((one.broker, one.trusted), []).append(f"'{one.scope}'")
        for (broker, trusted), scopes in carried.items():
            trust = "" if trusted else ", which it does not trust: the change would be refused"
            yield f"broker {broker} comes to carry {self._listed(scopes)}{trust}"
        for point in planned.open:
            yield f"open: {point}"
        warnings = (f"warning: {warning}" for warning in (*planned.warnings, *outlook.warnings))
        yield from self._cut(warnings, SHOWN_LINES, "warnings")

    # --- what is in it --------------------------------------------------------------------------------

    def _changes(self) -> Iterator[str]:
        """The changes, those together that differ in their member alone."""
        groups: dict[str, tuple[AnyChange, list[str]]] = {}
        for change in self._outlook.changes:
            field = _member_field(change)
            alike = change if field is None else msgspec.structs.replace(change, **{field: ""})
            group = groups.setdefault(repr(alike), (change, []))
            group[1].append("" if field is None else getattr(change, field))
        for change, members in groups.values():
            field = _member_field(change)
            if field is not None:
                change = msgspec.structs.replace(change, **{field: self._listed(members, ",")})
            yield described(change)

    def _sights(self, sights: Iterable[SightChange], title: str) -> Iterator[str]:
        by_target: dict[tuple[str, ...], dict[str, list[str]]] = {}
        for one in sights:
            lines = by_target.setdefault(one.targets or (one.target,), {})
            lines.setdefault(_seen(one), []).extend(one.sources or (one.source,))
        alike: dict[tuple[str, ...], list[str]] = {}
        """By what is seen: who sees it."""
        for targets, lines in sorted(by_target.items(), key=lambda group: (is_client(group[0][0]), group[0])):
            block = tuple(self._line(sources, seen) for seen, sources in lines.items())
            alike.setdefault(block, []).extend(targets)
        listed = [
            line
            for block, targets in alike.items()
            for line in (f"  {self._listed(map(_called, targets))}", *(f"    {text}" for text in block))
        ]
        if listed:
            yield title
            yield from self._cut(iter(listed), SHOWN_LINES, "lines")

    def _line(self, sources: list[str], seen: str) -> str:
        return seen.replace(_SOURCES, self._listed(map(_called, sources)), 1)

    # --- how long it gets -----------------------------------------------------------------------------

    def _cut(self, lines: Iterator[str], most: int, what: str) -> list[str]:
        found = list(lines)
        left = len(found) - most
        if left <= 0 or self._all:
            return found
        return [*found[:most], f"  and {left:,} more {what}; --all shows them"]

    def _listed(self, names: Iterable[str], comma: str = ", ") -> str:
        known = [name or "root" for name in names]
        if len(known) <= SHOWN_NAMES or self._all:
            return comma.join(known)
        return f"{comma.join(known[:SHOWN_NAMES])} and {len(known) - SHOWN_NAMES:,} more"


_BECAME = {Outcome.GAINED: "gained", Outcome.LOST: "lost", Outcome.CHANGED: "in another form"}
_SOURCES = "\0"
"""Where the sources stand in a line that several have in common."""


def _member_field(change: AnyChange) -> str | None:
    return next((field for field in _MEMBERS if isinstance(getattr(change, field, None), str)), None)


def _seen(one: SightChange) -> str:
    """What becomes of what is seen of some sources, by the target above it."""
    sign = _SIGNS[one.outcome]
    example = ", ".join(f"{name}={value!r}" for name, value in one.witness.items()) or "no attributes"
    match one.outcome:
        case Outcome.GAINED:
            was = "" if one.before == "FALSE" else f" (was {one.before})"
            return f"{sign} of {_SOURCES}: {one.after}{was}, for example {example}"
        case Outcome.LOST:
            left = "" if one.after == "FALSE" else f" (left: {one.after})"
            return f"{sign} of {_SOURCES}: {one.before}{left}, for example {example}"
    forms = " and ".join(", ".join(f"{name}={value!r}" for name, value in form.items()) for form in one.becomes)
    return f"{sign} of {_SOURCES}: {one.after}, for example {example} as {forms}"


def _called(node: str) -> str:
    return "clients of no scope" if node == "@" else node or "root"


def _count(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _brokers(names: tuple[str, ...]) -> str:
    return f"broker{'' if len(names) == 1 else 's'} {', '.join(names)}"
