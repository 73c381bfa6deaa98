"""The edges of the neighbour graph that a configuration names."""

from __future__ import annotations

import time

from tidings.mobility import Edge, GraphMode, edges_of, read_graph
from tidings.model import TidingsError

from ._options import Options


def configured_edges(options: Options) -> list[Edge]:
    """The edges in the file that the configuration names, or `TidingsError`."""
    file, graph = options.mobility.graph_file, options.mobility.graph
    if file is None:
        if graph.mode is not GraphMode.DYNAMIC:
            raise TidingsError(f'graph_mode = "{graph.mode.value}" in [mobility] needs edges; name a `graph_file`')
        return []
    try:
        text = file.read_bytes()
    except OSError as error:
        raise TidingsError(
            f"graph_file in [mobility]: '{file}' cannot be read: {error.strerror or error}; "
            "name a file that can be read"
        ) from None
    place = f"graph_file in [mobility], {file}"
    pinned = graph.mode is not GraphMode.DYNAMIC
    return edges_of(read_graph(text, place), graph, place, time.time_ns() // 1_000, pinned=pinned)
