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
from tidings.model import ROOT_ROUTE, Identity, Notification
from tidings.scopes import Graph, client_node, is_client, sightings
from tidings.scopes import reach as everywhere_in
from tidings.spark import Visibility, read_archive
from tidings.store import Promoted
from tidings.store.archive import roll
from tidings.wire import Envelope, Quality, encode_body

STRANGER = "@stranger"
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
        found = [at for at in everywhere_in(graph, publisher, notification) if not is_client(at.node)]
        for client in clients_of(graph):
            found += sightings(graph, publisher, notification, client)
        told.update(
            {(seq, at.node, version_of(at.notification, notification), at.notification["a"]) for at in found}
        )
    return told


def told_by_spark(tables: Sequence[DataFrame]) -> Counter[tuple[int, str, int, float]]:
    value = "coalesce(attributes[0].as_int, attributes[0].as_float) AS a"
    rows = reduce(DataFrame.union, [one.selectExpr("seq", "node", "form", value) for one in tables]).collect()
    return Counter((row.seq, row.node, row.form, row.a) for row in rows)


def check(spark: SparkSession, home: Path, graphs: list[Graph]) -> None:
    content = [one for graph in graphs for one in everything(graph)]
    table = archived(spark, home, content)
    told = told_by_spark([Visibility(table, graph).everywhere(nodes_of(graph)) for graph in graphs])
    expected = told_by_the_oracle(graphs, content)
    assert set(expected.values()) == {1}
    assert told == expected, f"too much {list((told - expected).items())[:5]}, missing {list((expected - told).items())[:5]}"


@pytest.mark.req("ARC-081")
def test_the_views_show_what_the_oracle_shows(spark: SparkSession, tmp_path: Path) -> None:
    worlds = [random_world(seed, mappings=False, abstract=True) for seed in range(20)]
    check(spark, tmp_path, [world.graph().numbered(at) for at, world in enumerate(worlds, 1)])


@pytest.mark.req("ARC-081")
def test_the_views_show_what_mappings_make_of_it(spark: SparkSession, tmp_path: Path) -> None:
    worlds = [random_world(seed, scopes=4) for seed in range(8)]
    check(spark, tmp_path, [world.graph().numbered(at) for at, world in enumerate(worlds, 1)])
