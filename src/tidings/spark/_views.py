"""What is visible where, as tables and views: how the plan of a scope graph (`_view_plan`) becomes rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from tidings.model import EVERYTHING, Filter
from tidings.scopes import Graph, client_node, is_client
from tidings.store import PromotedKind
from tidings.store.archive import EXACT_INTEGERS, VALUE_FIELDS

from ._columns import promoted_in, without_completeness
from ._errors import SourceError
from ._sql import ATTRIBUTES, FALSE, Column, any_of, identifier, text
from ._view_plan import AS_PUBLISHED, FORM, Copies, ViewPlan

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame

NODE = "node"
MAX_TESTS = 300
"""Where rows are chosen, Spark writes conditions out in full, which lets it skip files. Longer ones stay columns."""


class Visibility:
    """What a version of the scope graph makes visible of a table of publications.

    The table comes from `read_archive` or `format("tidings")`. Only rows that were published under this version of the
    graph (`graph_epoch`) are judged. All resulting tables have its columns, with the attributes as they are seen there,
    and a column `form`: 0 for a notification as it was published, else the number that brokers give to its form.
    """

    def __init__(self, table: DataFrame, graph: Graph) -> None:
        for name in ("graph_epoch", "publisher", ATTRIBUTES):
            if name not in table.columns:
                raise SourceError(f"the table has no column '{name}'; take one of read_archive or format('tidings')")
        if FORM in table.columns:
            raise SourceError(f"the table has a column '{FORM}' already; rename or drop it")
        self._table = table.where(f"graph_epoch = {graph.version}L")
        self._graph = graph
        self._columns = promoted_in(table.schema)

    def published(self, scope: str) -> DataFrame:
        """Return what the clients in a scope publish there."""
        plan = self._plan()
        return self._rows(plan, plan.published(self._known(scope)))

    def offered(self, scope: str) -> DataFrame:
        """Return what is visible in a scope because its members, or their members, publish it."""
        plan = self._plan()
        return self._rows(plan, plan.offered(self._known(scope)))

    def visible(self, scope: str) -> DataFrame:
        """Return everything that is visible in a scope."""
        plan = self._plan()
        return self._rows(plan, plan.visible(self._known(scope)))

    def received(self, client: str, filter: Filter | str = EVERYTHING, *, receive_own: bool = True) -> DataFrame:
        """Return what a client with this filter gets, each form of an event once."""
        plan = self._plan()
        wanted = Filter.parse(filter) if isinstance(filter, str) else filter
        return self._rows(plan, plan.received(client_node(client), wanted, receive_own))

    def everywhere(self, nodes: Iterable[str] | None = None) -> DataFrame:
        """Return a row for each scope in which an event is visible, and each form; the column `node` names the scope.

        `nodes` names the scopes of interest, and clients, written `"@name"`; by default all scopes. The table is read
        once for all of them.
        """
        if NODE in self._table.columns:
            raise SourceError(f"the table has a column '{NODE}' already; rename or drop it")
        plan = self._plan()
        found = {
            node: plan.received(node, EVERYTHING, True) if is_client(node) else plan.visible(self._known(node))
            for node in (self._graph.scopes if nodes is None else nodes)
        }
        return self._exploded(plan, found)

    def create_views(self, prefix: str = "") -> dict[str, str]:
        """Make `visible` of each scope a temporary view for SQL; return the names of the views, by scope.

        The name of a view is the prefix and the id of its scope, "root" for the root scope; in SQL, write it between
        backticks. Abstract scopes have no view. Views of the same names are replaced.
        """
        names = {id: prefix + (id or "root") for id, scope in self._graph.scopes.items() if not scope.abstract}
        taken: dict[str, str] = {}
        for name in names.values():
            if (other := taken.setdefault(name.lower(), name)) is not name:
                raise SourceError(f"views '{other}' and '{name}' would be one, as Spark ignores case; use visible()")
        for scope, name in names.items():
            self.visible(scope).createOrReplaceTempView(identifier(name))
        return names

    def _known(self, scope: str) -> str:
        return self._graph.scope(scope).id

    def _plan(self) -> ViewPlan:
        prefix = "_cell"
        while any(name.lower().startswith(prefix) for name in self._table.columns):
            prefix = "_" + prefix
        return ViewPlan(self._graph, self._columns, self._table.schema[ATTRIBUTES].dataType, prefix)

    def _rows(self, plan: ViewPlan, found: Copies) -> DataFrame:
        from pyspark.sql import functions as f  # noqa: PLC0415 - an extra, and slow to load

        mapped = any(copy.form != AS_PUBLISHED for copy in found)
        if mapped or sum(one.tests for one in found.values()) > MAX_TESTS:
            return self._exploded(plan, {"": found}).drop(NODE)
        condition = any_of([one.sql for one in found.values()])
        rows = plan.applied(self._table).where(condition)
        return rows.select(*map(identifier, self._table.columns), f.lit(AS_PUBLISHED).cast("long").alias(FORM))

    def _exploded(self, plan: ViewPlan, found: Mapping[str, Copies]) -> DataFrame:
        """A row for each node and form."""
        from pyspark.sql import functions as f  # noqa: PLC0415

        shown = [_shown(plan, node, copies) for node, copies in found.items() if copies]
        table = plan.applied(self._table)
        if not shown:
            table = table.where(FALSE)
            shown = [_shown(plan, "", {})]
        entry = identifier(plan.prefix)
        rows = table.withColumn(plan.prefix, f.explode(f.expr(f"concat({', '.join(shown)})")))
        columns: list[SparkColumn] = [f.expr(f"{entry}.node").alias(NODE)]
        mapped = any(copy.form for copies in found.values() for copy in copies)
        for field in self._table.schema:
            column = f.col(identifier(field.name))
            if mapped and field.name == ATTRIBUTES:
                column = f.expr(f"coalesce({entry}.attributes, attributes)").alias(ATTRIBUTES)
            elif mapped and field.name == "body":
                column = f.expr(f"CASE WHEN {entry}.form = 0 THEN body END").alias("body")
            elif mapped and (promoted := self._columns.get(field.name)) is not None:
                again = _again(promoted, f"{entry}.attributes")
                plain = f"CASE WHEN {entry}.form = 0 THEN {identifier(field.name)} ELSE {again} END"
                column = f.expr(plain).alias(field.name, metadata=without_completeness(field.metadata))
            columns.append(column)
        return rows.select(*columns, f.expr(f"{entry}.form").alias(FORM))


def _again(column: Column, attributes: str) -> str:
    """The promoted column of a form that a mapping has made."""
    name, kind = column.promoted
    scalar = f"get(filter({attributes}, x -> x.name = {text(name)} AND x.index IS NULL), 0)"
    if kind is not PromotedKind.FLOAT:
        return f"{scalar}.{VALUE_FIELDS[kind]}"
    exact = f"abs({scalar}.as_int) <= {EXACT_INTEGERS}L"
    return f"coalesce({scalar}.as_float, CASE WHEN {exact} THEN CAST({scalar}.as_int AS DOUBLE) END)"


def _shown(plan: ViewPlan, node: str, copies: Copies) -> str:
    """An array with the forms of a row that are seen at a node, each once."""
    empty = f"CAST(array() AS ARRAY<STRUCT<node: STRING, form: BIGINT, attributes: {plan.attributes_type}>>)"
    by_form: dict[int, list[str]] = defaultdict(list)
    for copy, condition in copies.items():
        by_form[copy.form].append(condition.sql)
    entries = []
    for form, conditions in sorted(by_form.items()):
        what = plan.what(form)
        shown = f"named_struct('node', {text(node)}, 'form', {what.version}, 'attributes', {what.shown})"
        entries.append(f"CASE WHEN {any_of(conditions)} THEN {shown} END")
    if not entries:
        return empty
    there = f"filter(array({', '.join(entries)}), x -> x IS NOT NULL)"
    if len(entries) == 1:
        return there
    first = "(kept, one) -> CASE WHEN exists(kept, x -> x.form = one.form) THEN kept ELSE array_append(kept, one) END"
    return f"aggregate({there}, {empty}, {first})"
