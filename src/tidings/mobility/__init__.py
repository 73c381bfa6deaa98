"""Mobility: clients that roam from broker to broker, each attached at one of them at a time."""

from ._admission import Admitted, Denied, Newcomer, Verdict
from ._arrivals import Arrivals
from ._evacuation import Evacuation
from ._following import Following
from ._graph_file import EdgeLine, GraphFile, as_dot, as_json, edges_of, graph_file, read_graph
from ._handoffs import HandOff, pseudonym
from ._hosted import HostedClient, Moved
from ._hosts import Hosts
from ._neighbour_graph import Change, Edge, GraphMode, GraphOptions, NeighbourGraph, Outcome
from ._neighbourhood import Neighbourhood, Presence, Whole
from ._options import MobilityOptions, Scheme
from ._roaming import Roaming
from ._room import OwnRoom, Room

__all__ = [
    "Admitted",
    "Arrivals",
    "Change",
    "Denied",
    "Edge",
    "EdgeLine",
    "Evacuation",
    "Following",
    "GraphFile",
    "GraphMode",
    "GraphOptions",
    "HandOff",
    "HostedClient",
    "Hosts",
    "MobilityOptions",
    "Moved",
    "NeighbourGraph",
    "Neighbourhood",
    "Newcomer",
    "Outcome",
    "OwnRoom",
    "Presence",
    "Roaming",
    "Room",
    "Scheme",
    "Verdict",
    "Whole",
    "as_dot",
    "as_json",
    "edges_of",
    "graph_file",
    "pseudonym",
    "read_graph",
]
