"""A scope graph compiled to conditions and columns over a table of publications: what is visible where.

Theory of operation
-------------------
For each scope S there are three sets of rows:

    published P_S   what the members of S that are clients publish, as far as it may go out to S
    offered   U_S   P_S, and what the scopes in S let out of their own U: bottom-up
    visible   V_S   U_S, and what S lets in of the V of the scopes above it: top-down

U never reads V, so nothing that came down goes up. A client gets what its passages let in of the V of its scopes.

All of it is columns of one row, the publication: a *copy* is a form of it in a scope, with the condition under which it
is there. A passage that only filters adds to the condition; where two ways lead to the same copy, either is enough. So
an event is in a scope once in each form, by construction: there is no union, no join and no shuffle, and the table is
read once. A passage that maps makes another form: a column with what the mapping makes of the attributes where the
condition holds, and null elsewhere. What several mappings make equal is one form, as for brokers.

A round trip (up from S to T and down to S again) must not make another form in S. So where passages between scopes map,
copies also differ by the scopes they have climbed through, and do not come down into any of these. Where none of them
maps, what makes a round trip is in S already, and no path is needed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import msgspec
import pyarrow as pa

from tidings.broker import version_of
from tidings.model import ROOT_SCOPE, Filter, Notification, ScopeError
from tidings.scopes import (
    Graph,
    Membership,
    Terms,
    client_node,
    dec_hook,
    enc_hook,
    inward_terms,
    is_client,
    outward_terms,
    steps,
)
from tidings.scopes import Mapping as ScopeMapping
from tidings.store.archive import attributes_of, notifications_in

from ._errors import SourceError
from ._shape import entries_as
from ._sql import ATTRIBUTES, FALSE, Column, all_of, any_of, identifier, sql, text

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType

FORM = "form"
AS_PUBLISHED = 0
MAX_CELLS = 5_000
"""The most conditions and forms of one question; each is a column that Spark has to plan."""


class Copy(NamedTuple):
    """A form of an event on its way through the graph."""

    form: int
    climbed: tuple[str, ...] = ()
    """The scopes it has climbed through, where that matters."""


class Condition(NamedTuple):
    """A condition, and how many levels of other columns must be there before it can be asked."""

    sql: str
    level: int = 0
    tests: int = 1
    """How many filters it asks, with those of the columns that it reads."""


class What(NamedTuple):
    """A form, as expressions."""

    attributes: str
    version: str
    shown: str
    """The attributes, or null for those of the table."""
    level: int


Copies: TypeAlias = dict[Copy, Condition]


class ViewPlan:
    """The columns that are needed to answer a question, level by level: each reads those before it."""

    def __init__(self, graph: Graph, columns: Mapping[str, Column], attributes: DataType, prefix: str) -> None:
        self.prefix = prefix
        self.attributes_type = attributes.simpleString()
        self._type = attributes
        self._graph = graph
        self._columns = columns
        self._levels: list[dict[str, str | _Mapped]] = []
        self._cells = 0
        no_attributes = f"CAST(NULL AS {self.attributes_type})"
        self._forms = [What(ATTRIBUTES, "0L", no_attributes, 0)]
        self._tracks = any(_maps(edge) and not is_client(edge.member) for edge in graph.memberships())
        self._offered: dict[str, Copies] = {}
        self._visible: dict[str, Copies] = {}

    def what(self, form: int) -> What:
        """A form, as expressions."""
        return self._forms[form]

    def published(self, scope: str) -> Copies:
        """P: what clients publish in a scope."""
        found = _Gathered()
        climbed = (scope,) if self._tracks else ()
        for terms, publishers in self._publishers(scope):
            form, condition = self._crossed(AS_PUBLISHED, Condition(publishers), terms)
            found.add(Copy(form, climbed), condition)
        return self._settled(found)

    def offered(self, scope: str) -> Copies:
        """U: what is published in a scope, or comes up from below."""
        if scope not in self._offered:
            found = _Gathered(self.published(scope))
            for member in self._graph.subscopes(scope):
                if (edge := self._graph.upward(member).get(scope)) is None:
                    continue
                terms = outward_terms(self._graph, edge)
                for copy, condition in self.offered(member).items():
                    form, crossed = self._crossed(copy.form, condition, terms)
                    found.add(Copy(form, (*copy.climbed, scope) if self._tracks else ()), crossed)
            self._offered[scope] = self._settled(found)
        return self._offered[scope]

    def visible(self, scope: str) -> Copies:
        """V: what is offered in a scope, or comes down from above."""
        if scope not in self._visible:
            found = _Gathered(self.offered(scope))
            for above, edge in self._graph.upward(scope).items():
                terms = inward_terms(self._graph, edge)
                for copy, condition in self.visible(above).items():
                    if scope not in copy.climbed:
                        form, crossed = self._crossed(copy.form, condition, terms)
                        found.add(Copy(form, copy.climbed), crossed)
            self._visible[scope] = self._settled(found)
        return self._visible[scope]

    def received(self, client: str, filter: Filter, receive_own: bool) -> Copies:
        """What a client gets of the scopes that it is a member of, and of its own publications."""
        found = _Gathered()
        name = _name(client)
        for edge in self._graph.upward(client).values():
            outward, inward = outward_terms(self._graph, edge), inward_terms(self._graph, edge)
            for copy, condition in self.visible(edge.scope).items():
                others = condition._replace(sql=all_of([f"publisher <> {name}", condition.sql]))
                form, crossed = self._crossed(copy.form, others, inward)
                found.add(Copy(form), crossed)
            if receive_own:  # as it was published, if it may go out and would be let in again
                out = self._crossed(AS_PUBLISHED, Condition(f"publisher = {name}"), outward)
                found.add(Copy(AS_PUBLISHED), self._crossed(*out, inward)[1])
        wanted = _Gathered()
        for copy, condition in found.items():
            wanted.add(copy, self._passing(copy.form, condition, [filter]))
        return self._settled(wanted)

    def applied(self, table: DataFrame) -> DataFrame:
        """The table with all columns that were needed so far."""
        from pyspark.sql import functions as f  # noqa: PLC0415

        for level in self._levels:
            made = {
                name: f.expr(cell) if isinstance(cell, str) else cell.column(self._type) for name, cell in level.items()
            }
            table = table.withColumns(made)
        return table

    # --- passages -------------------------------------------------------------------------------------

    def _publishers(self, scope: str) -> list[tuple[Terms, str]]:
        """The terms on which clients publish in a scope, and a condition that says which clients."""
        groups: dict[Terms, list[str]] = defaultdict(list)
        clients = [node for node in self._graph.nodes() if is_client(node)]
        for client in sorted(clients):
            if (edge := self._graph.upward(client).get(scope)) is not None:
                groups[outward_terms(self._graph, edge)].append(_name(client))
        found = [(terms, f"publisher IN ({', '.join(names)})") for terms, names in groups.items()]
        if scope == ROOT_SCOPE:  # where everybody is who is nowhere else
            terms = outward_terms(self._graph, Membership(client_node(""), ROOT_SCOPE))
            known = ", ".join(map(_name, sorted(clients)))
            found.append((terms, f"publisher NOT IN ({known})" if known else "publisher IS NOT NULL"))
        return found

    def _crossed(self, form: int, condition: Condition, terms: Terms) -> tuple[int, Condition]:
        """The form on the other side of a passage, and when it is there."""
        before, after = ([stage.filter for stage in stages] for stages in (terms.before, terms.after))
        if terms.mapping is None:
            return form, self._passing(form, condition, before + after)
        let_in = self._passing(form, condition, before)
        if let_in.sql == FALSE:
            return form, let_in
        made = self._mapped(form, let_in, terms.mapping)
        what = self._forms[made]
        return made, self._passing(made, Condition(f"{what.attributes} IS NOT NULL", what.level), after)

    def _passing(self, form: int, condition: Condition, filters: Iterable[Filter]) -> Condition:
        what = self._forms[form]
        columns = self._columns if form == AS_PUBLISHED else None
        tests = [sql(one, columns, what.attributes) for one in filters]
        return Condition(
            all_of([condition.sql, *tests]), max(condition.level, what.level), condition.tests + len(tests)
        )

    def _mapped(self, form: int, condition: Condition, mapping: ScopeMapping) -> int:
        """Another form: what a mapping makes of one."""
        if own := [step for step in mapping.steps if isinstance(step, steps.Named)]:
            raise SourceError(
                f"the mapping '{own[0].function}' is a function of your own, which Spark's workers do not have; "
                "ask for scopes that need it with tidings.scopes.reach"
            )
        given = f"CASE WHEN {condition.sql} THEN {self._forms[form].attributes} END"
        data = msgspec.msgpack.encode(mapping, enc_hook=enc_hook)
        cell = identifier(self._cell(_Mapped(given, data), condition.level))
        self._forms.append(What(f"{cell}.attributes", f"{cell}.form", f"{cell}.attributes", condition.level + 1))
        return len(self._forms) - 1

    def _settled(self, found: _Gathered) -> Copies:
        """One condition for each copy, as a column, so that those who read it need not repeat it."""
        settled: Copies = {}
        for copy, condition in found.items():
            if condition.sql.startswith("`") or len(condition.sql) < 40:  # a column, or hardly more
                settled[copy] = condition
            else:
                cell = identifier(self._cell(condition.sql, condition.level))
                settled[copy] = Condition(cell, condition.level + 1, condition.tests)
        return settled

    def _cell(self, content: str | _Mapped, level: int) -> str:
        if self._cells >= MAX_CELLS:
            raise ScopeError(
                f"so many paths lead through this scope graph that a plan needs more than {MAX_CELLS} columns; "
                "ask for fewer scopes at a time, or for scopes with fewer paths between them"
            )
        name = f"{self.prefix}{self._cells}"
        self._cells += 1
        while len(self._levels) <= level:
            self._levels.append({})
        self._levels[level][name] = content
        return name


class _Gathered:
    """Copies, each with all the conditions that are enough for it."""

    def __init__(self, copies: Copies | None = None) -> None:
        self._ways: dict[Copy, list[Condition]] = {copy: [one] for copy, one in (copies or {}).items()}

    def add(self, copy: Copy, condition: Condition) -> None:
        if condition.sql != FALSE:
            self._ways.setdefault(copy, []).append(condition)

    def items(self) -> Iterable[tuple[Copy, Condition]]:
        for copy, ways in self._ways.items():
            joined = any_of([one.sql for one in ways])
            yield copy, Condition(joined, max(one.level for one in ways), sum(one.tests for one in ways))


def _name(client: str) -> str:
    return text(client.removeprefix(client_node("")))


def _maps(edge: Membership) -> bool:
    return edge.mapping is not None and not edge.mapping.is_identity


# --- mappings -------------------------------------------------------------------------------------------


class _Mapped(NamedTuple):
    """The column of a form: the attributes to be mapped, null where there are none, and the mapping."""

    given: str
    mapping: bytes

    def column(self, attributes: DataType) -> SparkColumn:
        from pyspark.sql import functions as f  # noqa: PLC0415
        from pyspark.sql import types as t  # noqa: PLC0415
        from pyspark.sql.pandas.functions import arrow_udf  # noqa: PLC0415

        kind = t.StructType([t.StructField(FORM, t.LongType()), t.StructField(ATTRIBUTES, attributes)])
        # Called deterministic, it would be repeated by Spark in every condition that reads the column.
        made = arrow_udf(_mapper(self.mapping), kind).asNondeterministic()  # type: ignore[call-overload]
        column: SparkColumn = made(f.expr(self.given), f.col(ATTRIBUTES))
        return column


def _mapper(data: bytes) -> Callable[[pa.Array, pa.Array], pa.Array]:
    def mapped(attributes: pa.Array, published: pa.Array) -> pa.Array:
        mapping = msgspec.msgpack.decode(data, type=ScopeMapping, dec_hook=dec_hook)
        there = attributes.is_valid()
        pairs = zip(notifications_in(attributes.filter(there)), notifications_in(published.filter(there)), strict=True)
        found: list[Notification] = []
        forms: list[int | None] = []
        places: list[int | None] = []
        for given in there.to_pylist():
            form = place = None
            if given:
                one, original = next(pairs)
                if (shown := mapping.apply(one)) is not None:
                    form, place = version_of(shown, original), len(found)
                    found.append(original if form == AS_PUBLISHED else shown)
            forms.append(form)
            places.append(place)
        made = entries_as(attributes_of(found), attributes.type).take(pa.array(places, pa.int32()))
        return pa.StructArray.from_arrays([pa.array(forms, pa.int64()), made], names=[FORM, ATTRIBUTES])

    return mapped
