"""ALTER on a scope or a client that is there: what it adds, takes away or replaces."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from tidings.model import EVERYTHING, NOTHING, ROOT_SCOPE, Filter
from tidings.scopes._attributes import attributes_of
from tidings.scopes._changes import Leave
from tidings.scopes._graph import Client, Membership, Scope, is_client
from tidings.scopes._interface import Interface
from tidings.scopes.mappings._mapping import EdgeMapping
from tidings.scopes.policies._policy import PUBLISHING

from ._edges import put_edge, said_of
from ._maps import edge_mapping_of
from ._mistakes import Misfit
from ._rules import creates, rule_of
from ._syntax import AlterScope, Block, Change, PolicyClause, PolicyKind, Roles, Selection, Settings
from ._terms import EdgeTerms, ScopeTerms, block_of, edge_terms, scope_terms

if TYPE_CHECKING:
    from ._compiling import Run


class Alteration:
    """One ALTER of one component."""

    def __init__(self, run: Run, statement: AlterScope, node: str) -> None:
        self._run = run
        self._statement = statement
        self._node = node
        self._change = statement.change

    def carry_out(self) -> None:
        """Alter it."""
        run, statement = self._run, self._statement
        known = run.graph.attributes(self._node).get("filter-model", "type")
        terms = scope_terms(statement.features, run.extensions, known)
        run.mentioned.nodes.add(self._node)
        self._attributes(terms)
        self._roles(terms)
        if is_client(self._node):
            self._check_client()
            self._publishing(terms)
        else:
            self._interfaces(terms)
            self._system(terms)
            self._own(terms)
            self._rules(terms)
        for superscope in (True, False):
            self._selections([one for one in statement.selections if one.superscope == superscope], superscope)
        if not is_client(self._node):
            self._blocks()
            self._maps(terms)

    def _check_client(self) -> None:
        for one in (*self._statement.selections, *self._statement.features):
            if isinstance(one, Settings | Roles) or (isinstance(one, Selection) and one.superscope):
                continue
            if isinstance(one, PolicyClause) and one.kind is PolicyKind.PUBLISH:
                continue
            raise Misfit(
                f"'{self._node}' is a client: it has attributes, roles, superscopes and a publishing policy, and "
                "nothing else",
                one.at,
                "Write SET, ROLES, SUPERSCOPE or POLICY PUBLISH.",
            )

    # --- what is said of the component itself -----------------------------------------------------------

    def _attributes(self, terms: ScopeTerms) -> None:
        if not terms.attributes:
            return
        run, removed = self._run, self._change is Change.DEL
        said = dict.fromkeys(terms.attributes) if removed else terms.attributes
        run.ledger.claim_settings(self._node, "attribute", said, self._statement.at)
        run.mentioned.attributes.setdefault(self._node, set()).update(terms.attributes)
        described = run.graph.described(self._node)
        self._describe(described, attributes=attributes_of(described.attributes).merged(said))

    def _roles(self, terms: ScopeTerms) -> None:
        if terms.roles is None:
            return
        described = self._run.graph.described(self._node)
        self._run.mentioned.attributes.setdefault(self._node, set())
        self._run.mentioned.roles.add(self._node)
        whole, has = self._change is Change.REPLACE, self._change is not Change.DEL
        self._run.ledger.claim_roles(self._node, terms.roles, self._statement.at, whole=whole, has=has)
        match self._change:
            case Change.ADD:
                roles = (*described.roles, *(role for role in terms.roles if role not in described.roles))
            case Change.DEL:
                roles = tuple(role for role in described.roles if role not in terms.roles)
            case Change.REPLACE:
                roles = terms.roles
        self._describe(described, roles=roles)

    def _describe(self, described: Scope | Client, **fields: object) -> None:
        said = msgspec.structs.replace(described, **fields)
        graph = self._run.graph
        self._run.graph = graph.with_scope(said) if isinstance(said, Scope) else graph.with_client(self._node, said)

    def _interfaces(self, terms: ScopeTerms) -> None:
        scope = self._run.graph.scopes[self._node]
        whole, passes = self._change is Change.REPLACE, self._change is not Change.DEL
        at = self._statement.at
        if terms.sides:
            self._run.ledger.claim_interface(self._node, terms.sides, at, whole=whole, passes=passes)
            interface = self._sides(scope.interface, terms.sides, NOTHING)
            self._describe(scope, interface=interface)
        if terms.imposed.sides:
            imposed = terms.imposed.sides
            self._run.ledger.claim_interface(self._node, imposed, at, whole=whole, passes=passes, members=True)
            scope = self._run.graph.scopes[self._node]
            self._describe(scope, imposed=self._sides(scope.imposed, terms.imposed.sides, EVERYTHING))

    def _sides(self, interface: Interface, sides: dict[bool, Filter], nothing_said: Filter) -> Interface:
        """An interface with these sides added, taken away or in place of its own."""
        found = {False: interface.input, True: interface.output}
        for output, filter in sides.items():
            match self._change:
                case Change.ADD:
                    found[output] = found[output] | filter
                case Change.DEL:
                    found[output] = self._without(found[output], filter, nothing_said)
                case Change.REPLACE:
                    found[output] = filter
        return Interface(found[False], found[True])

    def _without(self, known: Filter, gone: Filter, nothing_said: Filter) -> Filter:
        if gone == known:
            return nothing_said
        left = [one for one in known.conjunctions if one not in gone.conjunctions]
        if len(left) == len(known.conjunctions):
            raise Misfit(
                f"'{self._node}' does not let '{gone}' pass by a filter of its own, so it cannot be taken away",
                self._statement.at,
                f"It is '{known}': write what it shall be without DEL.",
            )
        return Filter(left)

    def _system(self, terms: ScopeTerms) -> None:
        if not terms.system:
            return
        scope = self._run.graph.scopes[self._node]
        fresh = Scope(self._node)
        self._run.mentioned.settings.setdefault(self._node, set()).update(terms.system)
        removed = self._change is Change.DEL
        said = dict.fromkeys(terms.system) if removed else terms.system
        self._run.ledger.claim_settings(self._node, "setting", said, self._statement.at)
        fields = {}
        for word, value in terms.system.items():
            fields[word] = getattr(fresh, word) if removed else value
            if word == "policies":  # each kind by itself
                kept = {kind: use for kind, use in scope.policies.items() if kind not in value}
                fields[word] = kept if removed else {**kept, **value}
            if word == "brokers":
                fields[word] = frozenset(fields[word])
            if word in ("abstract", "hidden") and fields[word] != getattr(scope, word):
                raise Misfit(
                    f"'{self._node}' cannot become {word} or cease to be", self._statement.at, "Deploy another scope."
                )
        self._describe(scope, **fields)

    def _rules(self, terms: ScopeTerms) -> None:
        if not terms.rules:
            return
        run, scope = self._run, self._run.graph.scopes[self._node]
        if self._change is Change.DEL:
            texts = [rule_of(rule).text for rule in terms.rules]
            for rule, text in zip(terms.rules, texts, strict=True):
                if run.command and all(known.text != text for known in scope.rules):
                    raise Misfit(f"'{self._node or 'root'}' has no such rule", rule.at, "Write it as `export` does.")
            self._describe(scope, rules=tuple(rule for rule in scope.rules if rule.text not in texts))
            return
        for rule in terms.rules:
            if creates(rule):
                raise Misfit(
                    "CREATE NOW makes a scope of the definition that the rule is in, and this is none",
                    rule.at,
                    "DEFINE SCOPE with this rule, then DEPLOY the definition.",
                )
        run.put_rules(self._node, map(rule_of, terms.rules), instead=self._change is Change.REPLACE)

    def _publishing(self, terms: ScopeTerms) -> None:
        """The publishing policy of a client."""
        use = terms.system.get("policies", {}).get(PUBLISHING)
        if use is None:
            return
        said = None if self._change is Change.DEL else use
        self._run.ledger.claim_settings(self._node, "setting", {"policies": said}, self._statement.at)
        self._run.mentioned.attributes.setdefault(self._node, set())
        self._describe(self._run.graph.described(self._node), publishing=said)

    # --- edges ------------------------------------------------------------------------------------------

    def _selections(self, selections: list[Selection], superscope: bool) -> None:
        if not selections:
            return
        run, node = self._run, self._node
        labels = dict(run.graph.scopes[node].labels) if node in run.graph.scopes else {}
        picked: dict[int, list[str]] = {id(one): run.pick(one, node, ()) for one in selections}
        if self._change is Change.REPLACE:
            if is_client(node) and not any(picked.values()):
                run.graph = run.graph.without_edge(
                    node, ROOT_SCOPE
                )  # a member of nothing, also if it was of nothing yet
            kept = {other for nodes in picked.values() for other in nodes}
            for other in self._replaced(selections, superscope, labels) - kept:
                self._leave(other, superscope)
        for one in selections:
            nodes = picked[id(one)]
            known = labels.get(one.label, ())
            if self._change is Change.DEL:
                for other in nodes:
                    self._leave(other, superscope, one)
                labels = {label: tuple(n for n in some if n not in nodes) for label, some in labels.items()}
                continue
            self._join(one, nodes)
            if one.label:
                before = known if self._change is Change.ADD else ()
                labels[one.label] = tuple(sorted({*before, *nodes}))
        if node in run.graph.scopes:
            self._describe(run.graph.scopes[node], labels={label: some for label, some in labels.items() if some})

    def _replaced(self, selections: list[Selection], superscope: bool, labels: dict[str, tuple[str, ...]]) -> set[str]:
        graph = self._run.graph
        others = set(graph.superscopes(self._node) if superscope else graph.members(self._node))
        if any(not one.label for one in selections):
            return others
        return {node for one in selections for node in labels.get(one.label, ())} & others

    def _edge(self, other: str, superscope: bool) -> tuple[str, str]:
        return (self._node, other) if superscope else (other, self._node)

    def _leave(self, other: str, superscope: bool, selection: Selection | None = None) -> None:
        run = self._run
        member, scope = self._edge(other, superscope)
        at = self._statement.at if selection is None else selection.at
        run.ledger.claim(("edge", member, scope), False, at, f"the membership of '{member}' in '{scope or 'root'}'")
        if scope in run.graph.superscopes(member):
            run.apply(at, Leave(member, scope))
        elif run.command:
            raise Misfit(f"'{member}' is not a member of '{scope or 'root'}'", at, "Leave it out.")

    def _join(self, selection: Selection, nodes: list[str]) -> None:
        run = self._run
        given = edge_terms(block_of(selection, ()), run.reading(self._node, ()), run.extensions)
        for other in nodes:
            member, scope = self._edge(other, selection.superscope)
            put_edge(run, selection.at, member, scope, said=said_of(given, selection, member))

    def _blocks(self) -> None:
        """Property blocks of labels: the edges that the label has picked."""
        run, scope = self._run, self._run.graph.scopes[self._node]
        for block in self._statement.features:
            if not isinstance(block, Block) or not block.label:
                continue
            nodes = scope.labels.get(block.label)
            if nodes is None:
                known = ", ".join(sorted(scope.labels)) or "none"
                raise Misfit(f"'{self._node}' has no label '{block.label}'", block.at, f"Known labels: {known}.")
            given = edge_terms(block.properties, run.reading(self._node, ()), run.extensions)
            for other in nodes:
                self._alter_edge(other, given)

    def _alter_edge(self, other: str, given: EdgeTerms) -> None:
        graph = self._run.graph
        if (edge := graph.superscopes(self._node).get(other)) is not None:
            fields: dict[str, object] = {"selective": self._sides(edge.selective, given.sides, EVERYTHING)}
        elif (edge := graph.superscopes(other).get(self._node)) is not None:
            fields = {"imposed": self._sides(edge.imposed, given.sides, EVERYTHING)}
        else:
            return  # it has left since
        if given.mapping is not None:
            fields["mapping"] = None if self._change is Change.DEL else given.mapping
        self._put(edge, fields)

    def _put(self, edge: Membership, fields: dict[str, object]) -> None:
        self._run.graph = self._run.graph.with_edge(msgspec.structs.replace(edge, **fields))

    def _own(self, terms: ScopeTerms) -> None:
        """What is said of all edges to superscopes: those that follow get it, too."""
        if terms.maps:
            run = self._run
            run.owns.note_mapping(self._node, self._mapping(terms), run.ledger.source, terms.maps[0].at)

    def _mapping(self, terms: ScopeTerms) -> EdgeMapping | None:
        interface = self._run.graph.scopes[self._node].interface
        mapping = edge_mapping_of(terms.maps, {False: interface.input, True: interface.output})
        return None if self._change is Change.DEL else mapping

    def _maps(self, terms: ScopeTerms) -> None:
        if not terms.maps:
            return
        mapping = self._mapping(terms)
        for edge in list(self._run.graph.superscopes(self._node).values()):
            self._put(edge, {"mapping": mapping})
