"""DEPLOY: a scope comes to be, or is brought to what a file says of it.

What the statement says with INTERFACES and in blocks holds as it stands there: a direction that is left out is closed,
or in a block open. Attributes and settings that it does not name are left as they are, so that a file which knows
nothing of who may join a scope does not open it.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, TypeVar

import msgspec

from tidings.model import EVERYTHING, NOTHING, ScopeError, UnknownName
from tidings.scopes._attributes import attributes_of
from tidings.scopes._changes import CreateScope
from tidings.scopes._graph import Scope
from tidings.scopes._interface import Interface

from ._definitions import definition_of, merged
from ._edges import Edges
from ._extensions import carrying
from ._mistakes import Misfit
from ._rules import creates, rule_of
from ._syntax import ROOT, WORLD, DeployScope, Feature, Members, Name, Path, Selection, Setting, Settings
from ._terms import ScopeTerms, misfit_of, scope_terms
from ._world import resolved

if TYPE_CHECKING:
    from ._compiling import Run


ARM = "arm"
"""The attribute that names the scopes which watch for what creates scopes of a definition."""


class Deployment:
    """One DEPLOY."""

    def __init__(self, run: Run, statement: DeployScope) -> None:
        self._run = run
        self._statement = statement

    def carry_out(self) -> None:
        """Make the scope and its edges."""
        run, statement = self._run, self._statement
        definition, base = self._definition()
        selections, features = merged(base, statement.selections, statement.features)
        id = self._instance(definition)
        terms = scope_terms(features, run.extensions)
        if any(map(creates, terms.rules)) and not run.creating:
            self._arm(definition, selections, terms)
            return
        if run.creating:
            terms.attributes.pop(ARM, None)
        self._claim(id, terms)
        self._make(id, definition, terms)
        self._mention(id, terms)
        self._join(id, selections, self._edges(id, features, terms))
        if rules := [rule_of(rule) for rule in terms.rules if not creates(rule)]:
            run.put_rules(id, rules, instead=True)

    def _arm(self, definition: str, selections: tuple[Selection, ...], terms: ScopeTerms) -> None:
        """Let the scopes that the definition is to be in watch for what creates scopes of it; none is made now."""
        run, statement = self._run, self._statement
        if not definition:
            raise Misfit(
                "CREATE NOW makes a scope of a definition, and this has none",
                statement.at,
                "DEFINE SCOPE it with the rule, then DEPLOY the definition.",
            )
        if statement.name:
            raise Misfit(
                f"'{definition}' creates its scopes when its event happens, and they are called by themselves",
                statement.at,
                f"Leave out AS {statement.name}.",
            )
        for scope in self._armed_at(definition, selections, terms):
            named = Settings((Setting(Path((ARM,)), scope),))
            kept = (one for one in statement.features if not _is_arm(one))
            deploys = dataclasses.replace(statement, features=(*kept, named), comments=(), note="")
            run.put_rules(scope, [rule_of(rule, deploys) for rule in terms.rules if creates(rule)])

    def _armed_at(self, definition: str, selections: tuple[Selection, ...], terms: ScopeTerms) -> list[str]:
        run, at = self._run, self._statement.at
        named = terms.attributes.get(ARM)
        if named is not None:
            texts = named if isinstance(named, tuple) else (named,)
            scopes = [resolved(run.world, run.graph, Name(str(one), at=at)) for one in texts]
        else:
            above = [one for one in selections if one.superscope and one.sources is not None]
            scopes = [node for one in above for node in run.pick(one, definition, ())]
        if not scopes and not run.lenient:
            raise Misfit(
                f"no scope is named that would watch for what creates '{definition}'",
                at,
                f'Write SUPERSCOPE ALL FROM ..., or SET {ARM} = "the scope".',
            )
        return list(dict.fromkeys(scopes))

    def _definition(self) -> tuple[str, tuple[tuple[Selection, ...], tuple[Feature, ...]]]:
        run, ref = self._run, self._statement.definition
        if ref is None:
            return "", ((), ())
        assert not isinstance(ref, Members)
        name = ref.name if isinstance(ref, Name) else ref.id
        text = run.graph.definitions.get(name)
        if text is None and run.lenient:
            return name, ((), ())
        if text is None:
            known = ", ".join(sorted(run.graph.definitions)[:8]) or "none yet"
            raise Misfit(
                f"there is no definition '{name}'", ref.at, f"DEFINE SCOPE it first; known: {known}.", UnknownName
            )
        run.mentioned.definitions.add(name)
        found = definition_of(text)
        at = self._statement.at
        return name, (_moved(found.selections, at), _moved(found.features, at))

    def _instance(self, definition: str) -> str:
        """The id of the scope."""
        run, statement = self._run, self._statement
        id = statement.name or definition
        if not statement.name:
            run.deployed[id] = number = run.deployed.get(id, 0) + 1
            while run.command and (id if number == 1 else f"{id}-{number}") in run.graph.scopes:
                number += 1
            id = id if number == 1 else f"{id}-{number}"
        elif run.command and id in run.graph.scopes:
            raise Misfit(f"a scope '{id}' exists already", statement.at, "Choose another name, or ALTER it.")
        if id in (ROOT, WORLD):
            raise Misfit(f"'{id}' is a name of the language", statement.at, "Choose another name.")
        return id

    def _claim(self, id: str, terms: ScopeTerms) -> None:
        ledger, at = self._run.ledger, self._statement.at
        ledger.claim(("instance", id), self._statement, at, f"the scope '{id}'")
        ledger.claim_interface(id, terms.sides, at, whole=True, passes=True)
        ledger.claim_interface(id, terms.imposed.sides, at, whole=True, passes=True, members=True)
        ledger.claim_settings(id, "attribute", terms.attributes, at)
        ledger.claim_settings(id, "setting", terms.system, at)
        if terms.roles is not None:
            ledger.claim_roles(id, terms.roles, at, whole=True, has=True)

    def _mention(self, id: str, terms: ScopeTerms) -> None:
        mentioned = self._run.mentioned
        mentioned.scopes.add(id)
        mentioned.attributes.setdefault(id, set()).update(terms.attributes)
        mentioned.settings.setdefault(id, set()).update(terms.system)
        if terms.roles is not None:
            mentioned.roles.add(id)

    def _make(self, id: str, definition: str, terms: ScopeTerms) -> None:
        """The scope, made or brought to what the terms say."""
        run, at = self._run, self._statement.at
        system = dict(terms.system)
        if definition:
            system.setdefault("definition", definition)
        if "brokers" in system:
            system["brokers"] = frozenset(system["brokers"])
        fixed = {word: system.pop(word) for word in ("abstract", "hidden") if word in system}
        interface = Interface(terms.sides.get(False, NOTHING), terms.sides.get(True, NOTHING))
        imposed = Interface(terms.imposed.sides.get(False, EVERYTHING), terms.imposed.sides.get(True, EVERYTHING))
        if id not in run.graph.scopes:
            run.apply(at, CreateScope(id, **fixed))
        known = run.graph.scopes[id]
        for word, value in fixed.items():
            if getattr(known, word) != value:
                raise Misfit(
                    f"'{id}' cannot become {word} or cease to be", at, "Destroy it first, or choose another name."
                )
        self._set(
            known,
            interface=interface,
            imposed=imposed,
            attributes=attributes_of(known.attributes).merged(terms.attributes),
            roles=known.roles if terms.roles is None else terms.roles,
            **system,
        )

    def _set(self, scope: Scope, **fields: object) -> None:
        changed = msgspec.structs.replace(scope, **fields)
        if changed != scope:
            self._run.graph = self._run.graph.with_scope(changed)

    def _edges(self, id: str, features: tuple[Feature, ...], terms: ScopeTerms) -> Edges:
        run, architecture = self._run, self._statement.architecture
        carry = run.extensions.architectures.get(architecture.name)
        if carry is None:
            known = ", ".join(sorted(run.extensions.architectures))
            raise Misfit(
                f"no architecture {architecture.name} carries scopes in this network",
                architecture.at,
                f"Known here: {known}.",
            )
        try:
            crossing = carry(architecture.arguments)
            if crossing.placement is None:  # an annotation of the definition may say it
                crossing = carrying(terms.attributes)
        except ScopeError as error:
            raise misfit_of(error, architecture.at) from None
        return Edges(run, id, features, terms, crossing, at=self._statement.at)

    def _join(self, id: str, selections: tuple[Selection, ...], edges: Edges) -> None:
        """Superscopes first, those that are named before those that a star stands for; then members."""
        run = self._run
        labels: dict[str, tuple[str, ...]] = {}
        above: list[str] = []
        for one in sorted(selections, key=lambda one: (not one.superscope, one.superscope and one.sources is None)):
            demand = one.where is not None and all(one is not own for own in self._statement.selections)
            nodes = run.pick(one, id, tuple(above), stays_open=demand)
            if one.superscope:
                above += [node for node in nodes if node not in above]
                edges.join_superscopes(one, nodes)
            else:
                edges.join_members(one, nodes)
                self._warn_of_copies(one, id)
            if one.label:
                labels[one.label] = tuple(sorted(nodes))
        scope = run.graph.scopes[id]
        self._set(scope, labels={**scope.labels, **labels})

    def _warn_of_copies(self, selection: Selection, id: str) -> None:
        if selection.sources is None and self._run.graph.scopes[id].interface.output != NOTHING:
            self._run.warn(
                selection.at,
                f"the members that * picks for '{id}' are members of its superscopes, too: what they publish may reach "
                "these on two ways; close its OUTPUT, or name the members",
            )


def _is_arm(feature: Feature) -> bool:
    return isinstance(feature, Settings) and [str(one.path) for one in feature.settings] == [ARM]


_Clauses = TypeVar("_Clauses", bound=tuple[object, ...])


def _moved(clauses: _Clauses, at: int) -> _Clauses:
    """Clauses of a definition, which stand elsewhere: a mistake in them is shown at the statement that uses them."""
    for clause in clauses:
        _place(clause, at)
    return clauses


def _place(node: object, at: int) -> None:
    fields = getattr(node, "__dataclass_fields__", None)
    if fields is None:
        if isinstance(node, tuple):
            for one in node:
                _place(one, at)
        return
    object.__setattr__(node, "at", at)
    for name in fields:
        if name not in ("at", "span"):
            _place(getattr(node, name), at)
