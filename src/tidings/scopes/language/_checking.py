"""Checking: what can be known of a statement without any graph. Names are not resolved, nothing is picked."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from tidings.model import Filter, TidingsError

from ._extensions import Extensions
from ._filters import Reading, interfaces_in
from ._maps import mapping_of
from ._mistakes import Misfit
from ._selections import like_of, pattern_of
from ._syntax import (
    AlterScope,
    And,
    Block,
    Call,
    Comparison,
    Condition,
    DefineScope,
    Event,
    Feature,
    Interfaces,
    InterfaceTest,
    Likeness,
    MapClause,
    Not,
    Or,
    Path,
    Property,
    Quoted,
    Selection,
    Settings,
    Side,
    Statement,
    Update,
    Watched,
)
from ._terms import check_setting, filter_model

_EVENTS = frozenset({"pub", "con", "sub", "unsub", "adv", "unadv", "join", "leave"})


def check_statement(statement: Statement, extensions: Extensions) -> None:
    """Raise `Misfit` for what cannot be right, whatever the graph is; for the first of several."""
    for misfit in misfits_in(statement, extensions):
        raise misfit


def misfits_in(statement: Statement, extensions: Extensions) -> Iterator[Misfit]:
    """What cannot be right in a statement, whatever the graph is: one for each clause, and for each setting."""
    checker = _Checker(extensions, Reading(extensions, filter_model(statement.features)))
    checks: list[Callable[[], None]] = [functools.partial(checker.labels, statement)]
    checks += [functools.partial(checker.selection, selection) for selection in statement.selections]
    for feature in statement.features:
        parts = (
            [Settings((one,), at=one.at) for one in feature.settings] if isinstance(feature, Settings) else [feature]
        )
        checks += [functools.partial(checker.feature, part) for part in parts]
    for check in checks:
        try:
            check()
        except Misfit as misfit:
            yield misfit


class _Checker:
    def __init__(self, extensions: Extensions, reading: Reading) -> None:
        self._extensions = extensions
        self._reading = reading
        self._bound = False
        """Whether a rule binds names here."""

    def labels(self, statement: Statement) -> None:
        """Each label is given once, and a definition uses none that it does not give."""
        given = Counter(selection.label for selection in statement.selections if selection.label)
        for selection in statement.selections:
            if given[selection.label] > 1:
                raise Misfit(f"the label '{selection.label}' is given twice", selection.at, "Choose another one.")
        for feature in statement.features:
            unknown = isinstance(feature, Block) and feature.label and feature.label not in given
            if isinstance(statement, DefineScope) and isinstance(feature, Block) and unknown:
                known = ", ".join(given) or "none"
                raise Misfit(f"there is no label '{feature.label}'", feature.at, f"Labels of this scope: {known}.")

    def selection(self, selection: Selection) -> None:
        """What a selection says, without what it picks."""
        if selection.where is not None:
            self.condition(selection.where)
            if _is_impossible(selection.where, self._reading):
                raise Misfit(
                    "nothing can satisfy this WHERE", selection.where.at, "Its parts exclude each other: drop one."
                )
        if isinstance(selection.qualifier, Call) and selection.qualifier.name not in self._extensions.qualifiers:
            call = selection.qualifier
            raise Misfit(f"no qualifier '{call.name}' is known", call.at, "Write ALL, TOP(a, n) or [n..m].")
        self.properties(selection.block or ())

    def properties(self, properties: Iterable[Property]) -> None:
        """What stands in a block."""
        listed = list(properties)
        self._reading.sides(interfaces_in(listed))
        for one in listed:
            if isinstance(one, MapClause) and not one.code:
                mapping_of(one)

    def feature(self, feature: Feature) -> None:
        """What a feature says."""
        match feature:
            case Block():
                self.properties(feature.properties)
            case Interfaces():
                self._reading.sides([feature])
            case MapClause() if not feature.code:
                mapping_of(feature)
            case Settings() if not self._bound:
                for one in feature.settings:
                    check_setting(one)
            case Update():
                self._rule(feature)

    def _rule(self, rule: Update) -> None:
        self._event(rule.event)
        if rule.condition is not None:
            self.condition(rule.condition)
        bound, self._bound = self._bound, True
        for action in rule.actions:
            if isinstance(action, AlterScope):
                for selection in action.selections:
                    self.selection(selection)
                for feature in action.features:
                    self.feature(feature)
        self._bound = bound

    def _event(self, event: Event) -> None:
        if event.name not in _EVENTS | self._extensions.events:
            known = ", ".join(sorted(_EVENTS | self._extensions.events))
            raise Misfit(f"no event '{event.name}' is known", event.at, f"Known events: {known}.")
        for part in event.parts:
            side = part.side if isinstance(part, Watched) else part
            if isinstance(side, Side):
                self._reading.side(side)

    def condition(self, one: Condition) -> None:
        """What a condition says of candidates, or of what a rule binds."""
        match one:
            case And() | Or():
                for part in one.parts:
                    self.condition(part)
            case Not():
                self.condition(one.part)
            case InterfaceTest():
                self._reading.side(one.side)
            case Likeness():
                pattern_of(one) if one.operator == "MATCHES" else like_of(one)
            case Call() if one.name not in self._extensions.tests:
                known = ", ".join(sorted(self._extensions.tests))
                raise Misfit(f"no test '{one.name}' is known", one.at, f"Known tests: {known}.")


def _is_impossible(condition: Condition, reading: Reading) -> bool:
    try:
        filter = _as_filter(condition, reading)
        return filter is not None and not filter.canonical().conjunctions
    except TidingsError:  # more than a filter may have, and a condition on components may well have it
        return False


def _as_filter(condition: Condition, reading: Reading) -> Filter | None:
    """A condition on attributes alone, as a filter; None if it tests something else."""
    match condition:
        case And() | Or():
            if any(_as_filter(part, reading) is None for part in condition.parts):
                return None
        case Not():
            return None  # of a missing attribute it says something else than a filter does
        case Comparison():
            if isinstance(condition.operand, Path | Quoted | tuple):
                return None
        case Likeness(operator="LIKE"):
            pass
        case _:
            return None
    try:
        return reading.condition(condition)
    except Misfit:
        return None
