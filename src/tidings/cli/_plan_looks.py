"""A plan as people and programs read it: the changes, and who will see what by them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from tidings.scopes import Outcome, Outlook, SightChange, described, encode_outlook, is_client
from tidings.scopes.language import OpenPoint

SHOWN_CHANGES = 50
"""The changes that a plan shows; more are counted. `--json` has all of them."""
SHOWN_SIGHTS = 200
"""The sights that a plan shows; more are counted."""
CHECKED_LATER = "rights, admission and trust are checked when it is applied"
"""What a plan does not foretell."""
_SIGNS = {Outcome.GAINED: "+", Outcome.LOST: "-", Outcome.CHANGED: "~"}


@dataclass(frozen=True)
class Planned:
    """What a command would do: the outlook of its changes, and what the script itself gave cause to say."""

    outlook: Outlook
    open: tuple[OpenPoint, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether nothing would change."""
        return not self.outlook.changes


def plan_words(planned: Planned) -> dict[str, Any]:
    """A plan for programs."""
    words = json.loads(encode_outlook(planned.outlook))
    words["open"] = [{"scope": one.scope, "superscope": one.superscope, "demand": one.demand} for one in planned.open]
    words["warnings"] = [*planned.warnings, *planned.outlook.warnings]
    return dict(words)


def plan_text(planned: Planned) -> str:
    """A plan for people."""
    outlook = planned.outlook
    if planned.is_empty:
        return "nothing would change" + "".join(f"\n{line}" for line in _remarks(planned))
    count = len(outlook.changes)
    lines = [f"on version {outlook.version} of the scope graph, {count} change{'' if count == 1 else 's'}:"]
    lines += _cut((f"  {described(change)}" for change in outlook.changes), SHOWN_CHANGES, "changes")
    quiet = "nobody will see anything else by it" + (", as far as you may see the graph" if outlook.partial else "")
    lines += _sights(outlook.sights, "who will see what of whom:") or ([] if outlook.redelivered else [quiet])
    if outlook.redelivered:
        lines += ["who will get other copies of what they see, or in another order:"]
        lines += _cut((f"  {one}" for one in outlook.redelivered), SHOWN_SIGHTS, "lines")
    if outlook.by_client:
        lines += _sights(outlook.clients, "what clients will see:")
    for doubt in (*outlook.perhaps, *outlook.clients_perhaps):
        lines.append(f"  ? {doubt}")
    lines += [*_remarks(planned), CHECKED_LATER]
    return "\n".join(lines)


def _sights(sights: Iterable[SightChange], title: str) -> list[str]:
    groups: dict[tuple[str, ...], list[SightChange]] = {}
    for one in sights:
        groups.setdefault(one.targets or (one.target,), []).append(one)
    listed: list[str] = []
    for targets, some in sorted(groups.items(), key=lambda group: (is_client(group[0][0]), group[0])):
        listed.append(f"  {_listed(tuple(map(_called, targets)))}")
        listed += [f"    {_SIGNS[one.outcome]} {_seen(one)}" for one in some]
    return [title, *_cut(iter(listed), SHOWN_SIGHTS, "lines")] if listed else []


def _seen(one: SightChange) -> str:
    """What becomes of what is seen of one source, by the target above it."""
    source = _listed(tuple(map(_called, one.sources or (one.source,))))
    example = ", ".join(f"{name}={value!r}" for name, value in one.witness.items()) or "no attributes"
    match one.outcome:
        case Outcome.GAINED:
            was = "" if one.before == "FALSE" else f" (was {one.before})"
            return f"of {source}: {one.after}{was}, for example {example}"
        case Outcome.LOST:
            left = "" if one.after == "FALSE" else f" (left: {one.after})"
            return f"of {source}: {one.before}{left}, for example {example}"
    forms = " and ".join(", ".join(f"{name}={value!r}" for name, value in form.items()) for form in one.becomes)
    return f"of {source}: {one.after}, for example {example} as {forms}"


def _called(node: str) -> str:
    return "clients of no scope" if node == "@" else node or "root"


def _cut(lines: Iterator[str], most: int, what: str) -> list[str]:
    found = list(lines)
    left = len(found) - most
    return found if left <= 0 else [*found[:most], f"  and {left} more {what}"]


def _remarks(planned: Planned) -> Iterator[str]:
    outlook = planned.outlook
    if outlook.partial:
        yield (
            "this was worked out on the part of the graph that you may see: hidden scopes, and what clients see and "
            "show as members of these, are left out"
        )
    if outlook.unexamined:
        yield (
            "too large to follow everywhere: it is shown what changes between members and their scopes, but not "
            f"everywhere else, of what is published in {_listed(outlook.unexamined)}; `tidings scope plan --thorough` "
            "shows all"
        )
    if outlook.leave_root:
        yield (
            f"leave the root scope, and hear and are heard only where they are members then: "
            f"{_listed(outlook.leave_root)}"
        )
    if outlook.isolated:
        yield f"are left without any scope, and neither hear nor are heard: {_listed(outlook.isolated)}"
    for carried in outlook.carried:
        trust = "" if carried.trusted else ", which it does not trust: the change would be refused"
        yield f"broker {carried.broker} comes to carry '{carried.scope}'{trust}"
    for point in planned.open:
        yield f"open: {point}"
    for warning in (*planned.warnings, *outlook.warnings):
        yield f"warning: {warning}"


def _listed(names: tuple[str, ...]) -> str:
    shown = ", ".join(name or "root" for name in names[:20])
    return shown if len(names) <= 20 else f"{shown} and {len(names) - 20} more"
