"""The views of a scope graph against the oracle: who may see what, straight from the definitions.

Many graphs are versions in one archive, and are asked in one job, so that Spark is asked a few times only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import reduce
from pathlib import Path

import pytest
from archive_world import START
from pyspark.sql import DataFrame, SparkSession
from scopes.graph_world import VALUES, note, random_world
from store_world import Loop

from tidings.broker import version_of
from tidings.model import ROOT_ROUTE, Identity, Notification, ScopeError
from tidings.scopes import (
    GRAPH_TABLE,
    CreateScope,
    Graph,
    Interface,
    Join,
    Snapshot,
    Transaction,
    apply,
    edge_mapping,
    encode,
    is_client,
    mapping,
    reach,
    sightings,
    steps,
)
from tidings.scopes.mappings._named import register_mapping
from tidings.spark import SourceError, Visibility, column, read_archive, scope_graph
from tidings.store import Promoted
from tidings.store.archive import roll
from tidings.wire import Envelope, Quality, encode_body

STRANGER = "@stranger"
VALUE = "coalesce(attributes[0].as_int, attributes[0].as_float) AS a"
Published = tuple[int, str, Notification]
"""The version of the graph, the publisher as a node, and what it published."""


def archived(spark: SparkSession, home: Path, content: Sequence[Published], *promoted: str) -> DataFrame:
    """A table of these publications; their numbers are their places, from 1."""
    with Loop().open(home / "data", owner="berlin") as store:
        for seq, (version, publisher, notification) in enumerate(content, 1):
            identity = Identity("berlin", store.epoch, seq, publisher[1:], seq, START + seq, version, None)
            store.append(Envelope(identity, (ROOT_ROUTE,), encode_body(notification), Quality.STORED), lambda: None)
    roll(home / "data", home / "archive", [Promoted.parse(one) for one in promoted])
    return read_archive(spark, home / "archive").coalesce(1)


def clients_of(graph: Graph) -> list[str]:
    return [*sorted(node for node in graph.nodes() if is_client(node)), STRANGER]


def nodes_of(graph: Graph) -> list[str]:
    return [*graph.scopes, *clients_of(graph)]


def everything(graph: Graph) -> Iterator[Published]:
    """Every client publishes every value."""
    for publisher in clients_of(graph):
        for a in VALUES:
            yield graph.version, publisher, note(a)


def told_by_the_oracle(graphs: Sequence[Graph], content: Sequence[Published]) -> Counter[tuple[int, str, int, float]]:
    """For each place in the content: at which nodes it is seen, in which forms, as which values; each once."""
    by_version = {graph.version: graph for graph in graphs}
    told: Counter[tuple[int, str, int, float]] = Counter()
    for seq, (version, publisher, notification) in enumerate(content, 1):
        graph = by_version[version]
        found = [at for at in reach(graph, publisher, notification) if not is_client(at.node)]
        for client in clients_of(graph):
            found += sightings(graph, publisher, notification, client)
        told.update({(seq, at.node, version_of(at.notification, notification), at.notification["a"]) for at in found})
    return told


def told_by_spark(tables: Sequence[DataFrame]) -> Counter[tuple[int, str, int, float]]:
    chosen = [one.selectExpr("seq", "node", "form", VALUE) for one in tables]
    rows = reduce(DataFrame.union, chosen).coalesce(1).collect()  # one task, so that few workers have to start
    return Counter((row.seq, row.node, row.form, row.a) for row in rows)


def check(spark: SparkSession, home: Path, graphs: list[Graph]) -> None:
    content = [one for graph in graphs for one in everything(graph)]
    table = archived(spark, home, content)
    told = told_by_spark([Visibility(table, graph).everywhere(nodes_of(graph)) for graph in graphs])
    expected = told_by_the_oracle(graphs, content)
    assert set(expected.values()) == {1}
    too_much, missing = list((told - expected).items()), list((expected - told).items())
    assert (too_much[:5], missing[:5]) == ([], [])


@pytest.fixture
def uncompiled(spark: SparkSession) -> Iterator[SparkSession]:
    """Spark compiles every plan. For many plans over few rows that takes much longer than running them."""
    settings = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
    for name, value in settings.items():
        spark.conf.set(name, value)
    yield spark
    for name in settings:
        spark.conf.unset(name)


@pytest.mark.req("ARC-081")
def test_the_views_show_what_the_oracle_shows(uncompiled: SparkSession, tmp_path: Path) -> None:
    worlds = [random_world(seed, mappings=False, abstract=True) for seed in range(12)]
    check(uncompiled, tmp_path, [world.graph().numbered(at) for at, world in enumerate(worlds, 1)])


@pytest.mark.req("ARC-081")
def test_the_views_show_what_mappings_make_of_it(uncompiled: SparkSession, tmp_path: Path) -> None:
    worlds = [random_world(seed, scopes=3) for seed in range(4)]
    check(uncompiled, tmp_path, [world.graph().numbered(at) for at, world in enumerate(worlds, 1)])


MARKET = (
    CreateScope("market"),
    CreateScope("market/desk", interface=Interface.parse(input="preis > 100", output="preis > 200")),
    Join("market/desk", "market", mapping=edge_mapping(mapping(steps.Rename("preis", "price")))),
    Join("@alice", "market"),
    Join("@bob", "market"),
    Join("@carol", "market/desk"),
)
PUBLISHED = [
    (1, "@alice", Notification(price=50)),
    (1, "@alice", Notification(price=150)),
    (1, "@carol", Notification(preis=150)),
    (1, "@carol", Notification(preis=250)),
    (1, "@stranger", Notification(price=300)),
    (2, "@alice", Notification(price=400)),
]


@pytest.fixture
def market(spark: SparkSession, tmp_path: Path) -> Visibility:
    return Visibility(archived(spark, tmp_path, PUBLISHED, "price:float"), apply(Graph(), MARKET))


def prices(table: DataFrame) -> list[tuple[int, float | None, bool]]:
    """Which publications, with which price, and whether as they were published."""
    return sorted((row.seq, row.price, row.form == 0) for row in table.select("seq", "price", "form").collect())


def test_each_scope_has_what_its_members_publish_and_offer_and_what_comes_down(market: Visibility) -> None:
    assert prices(market.published("market")) == [(1, 50, True), (2, 150, True)]
    assert prices(market.offered("market")) == [(1, 50, True), (2, 150, True), (4, 250, False)]
    assert prices(market.visible("market")) == [(1, 50, True), (2, 150, True), (4, 250, False)]
    assert prices(market.offered("market/desk")) == [(3, None, True), (4, None, True)]
    assert prices(market.visible("market/desk")) == [(2, None, False), (3, None, True), (4, None, True)]
    assert prices(market.visible("")) == [(5, 300, True)]


def test_a_client_gets_what_its_scopes_show_and_its_filter_wants(market: Visibility) -> None:
    assert prices(market.received("bob", "price > 100")) == [(2, 150, True), (4, 250, False)]
    assert prices(market.received("carol")) == [(2, None, False), (3, None, True), (4, None, True)]
    assert prices(market.received("carol", receive_own=False)) == [(2, None, False)]
    assert prices(market.received("nobody")) == [(5, 300, True)]


def test_filters_on_promoted_columns_are_right_for_what_was_mapped(market: Visibility) -> None:
    seen = market.visible("market")
    assert prices(seen.where(column("price > 200", seen))) == [(4, 250, False)]
    assert prices(seen.where(column("price IS NULL", seen))) == []
    desk = market.visible("market/desk")
    assert prices(desk.where(column("preis = 150 AND price IS NULL", desk))) == [(2, None, False), (3, None, True)]


def test_the_views_have_names_for_sql(market: Visibility, spark: SparkSession) -> None:
    names = market.create_views("seen in ")
    assert names == {"": "seen in root", "market": "seen in market", "market/desk": "seen in market/desk"}
    try:
        assert spark.sql("SELECT max(price) AS dearest FROM `seen in market`").first().dearest == 250
        assert spark.sql("SELECT * FROM `seen in market/desk`").count() == 3
    finally:
        for name in names.values():
            spark.catalog.dropTempView(name)


def test_an_event_that_two_ways_make_equal_is_there_once(spark: SparkSession, tmp_path: Path) -> None:
    half, third = mapping(steps.Convert("a", 0.5)), mapping(steps.Add("a", 1))
    changes = [CreateScope("S"), CreateScope("T"), Join("@p", "S", mapping=edge_mapping(half, mapping()))]
    changes += [Join("@p", "T", mapping=edge_mapping(third, mapping())), Join("@c", "S"), Join("@c", "T")]
    content = [(1, "@p", Notification(a=2)), (1, "@p", Notification(a=4)), (1, "@p", Notification(a=1))]
    seen = Visibility(archived(spark, tmp_path, content), apply(Graph(), tuple(changes))).received("c")
    forms = {(row.seq, row.form == 0, row.a) for row in seen.selectExpr("seq", "form", VALUE).collect()}
    assert forms == {(1, False, 1), (2, False, 2), (2, False, 1), (3, False, 0.5), (3, True, 1)}
    assert seen.count() == 5


def test_what_cannot_be_asked_is_refused(market: Visibility, spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(ScopeError, match="there is no scope 'desk'; known scopes: market, market/desk"):
        market.visible("desk")
    with pytest.raises(SourceError, match="no column 'graph_epoch'; take one of read_archive"):
        Visibility(spark.range(1), Graph())
    table = archived(spark, tmp_path / "more", PUBLISHED)
    with pytest.raises(SourceError, match="has a column 'form' already"):
        Visibility(table.withColumn("form", table.seq), Graph())
    register_mapping("of my own", lambda one: one)
    own = edge_mapping(mapping(steps.Named("of my own")), mapping())
    graph = apply(Graph(), (CreateScope("S"), Join("@p", "S", mapping=own)))
    with pytest.raises(SourceError, match="'of my own' is a function of your own, which Spark's workers do not have"):
        Visibility(table, graph).visible("S")
    two = apply(Graph(), (CreateScope("Shop"), CreateScope("shop")))
    with pytest.raises(SourceError, match="'Shop' and 'shop' would be one, as Spark ignores case"):
        Visibility(table, two).create_views()


def test_versions_of_the_graph_are_read_from_a_store(tmp_path: Path) -> None:
    changes = [CreateScope("S"), Join("@p", "S")]
    first = apply(Graph(), (changes[0],))
    with Loop().open(tmp_path, owner="berlin") as store:
        store.put(GRAPH_TABLE, "base", encode(Snapshot.of(first)), lambda: None)
    assert scope_graph(tmp_path) == first
    with Loop().open(tmp_path, owner="berlin") as store:
        store.put(GRAPH_TABLE, f"{2:015d}", encode(Transaction(2, (changes[1],), "alice", 0, "")), lambda: None)
    assert scope_graph(tmp_path) == apply(first, (changes[1],))
    assert scope_graph(tmp_path, 1) == first
    with pytest.raises(ScopeError, match="holds versions 1 to 2 of the scope graph, not 7; ask another broker"):
        scope_graph(tmp_path, 7)
