"""Mappings: what a notification becomes when it crosses the border of a scope, step by step, and what filters become.

One step is one module. Nothing here knows the graph. `tidings.scopes.steps` has the steps for applications.
"""

from ._constant import BoundedReading, dec_hook, enc_hook
from ._mapping import AnyStep, EdgeMapping, Mapping, edge_mapping, mapping
from ._mapping_file import read_mapping
from ._step import MappingFailed

__all__ = [
    "AnyStep",
    "BoundedReading",
    "EdgeMapping",
    "Mapping",
    "MappingFailed",
    "dec_hook",
    "edge_mapping",
    "enc_hook",
    "mapping",
    "read_mapping",
]
