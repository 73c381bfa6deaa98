"""The overlay: which links the tree uses, who on them is ready, and what travels over all of them.

It knows nothing of filters and notifications. It is made with a `Host`, the broker as far as it is needed here; others
use it by what stands in this list.
"""

from ._adjacency import Adjacency
from ._host import Host
from ._progress import DETOUR_TIME, Progress, Sources
from ._topology import Topology, Tree, check_tree
from ._tree_marks import Gathering
from ._waves import WAVE_DEADLINE, WaveKind, Waves

__all__ = [
    "DETOUR_TIME",
    "WAVE_DEADLINE",
    "Adjacency",
    "Gathering",
    "Host",
    "Progress",
    "Sources",
    "Topology",
    "Tree",
    "WaveKind",
    "Waves",
    "check_tree",
]
