"""Mobility: clients that roam from broker to broker, each attached at one of them at a time."""

from ._following import Following
from ._graph_file import GraphFile, as_dot, as_json, edges_of, graph_file, read_graph
from ._hosts import Admitted, Denied, Hosts, Newcomer, Verdict
from ._neighbour_graph import Change, Edge, GraphMode, GraphOptions, NeighbourGraph, Outcome
from ._options import MobilityOptions, Scheme, Window

__all__ = [
    "Admitted",
    "Change",
    "Denied",
    "Edge",
    "Following",
    "GraphFile",
    "GraphMode",
    "GraphOptions",
    "Hosts",
    "MobilityOptions",
    "NeighbourGraph",
    "Newcomer",
    "Outcome",
    "Scheme",
    "Verdict",
    "Window",
    "as_dot",
    "as_json",
    "edges_of",
    "graph_file",
    "read_graph",
]
