"""Mobility: clients that roam from broker to broker, each attached at one of them at a time."""

from ._following import Following
from ._hosts import Admitted, Denied, Hosts, Newcomer, Verdict
from ._options import GraphMode, MobilityOptions, Scheme, Window

__all__ = [
    "Admitted",
    "Denied",
    "Following",
    "GraphMode",
    "Hosts",
    "MobilityOptions",
    "Newcomer",
    "Scheme",
    "Verdict",
    "Window",
]
