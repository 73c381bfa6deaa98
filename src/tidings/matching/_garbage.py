"""What a process with a large index does about Python's garbage collector.

Theory of operation
-------------------
An index of 100,000 filters is some millions of objects. Python's collector goes through all of them now and
then, looking for cycles, and stops the process for about 0.2 seconds. There is nothing to find: the index
drops what it removes by itself. So after every few hundred changes, `Calm` collects the young objects and
*freezes* the rest: the collector never looks at them again, and still they are freed when nobody refers to
them. A pause then depends on the changes since the last one, not on the size of the index.

The price: a cycle that was frozen is not collected when it dies. A server pays it back when it is idle
(at night, say) with `thorough`, which takes as long as it takes.
"""

from __future__ import annotations

import gc

CHANGES = 500
"""So many changes of the index between two freezes: about 15,000 objects, about a millisecond."""
YOUNG = 50_000
"""New objects before the collector starts by itself; more than `CHANGES` make."""


class Calm:
    """The collector's policy for a process that holds an index: `start` once, `changed` after every change."""

    def __init__(self) -> None:
        self._changes = 0

    def start(self) -> None:
        """Freeze what there is; let the collector start by itself only if others make much garbage."""
        gc.set_threshold(YOUNG, 20, 20)
        gc.collect()
        gc.freeze()

    def changed(self, weight: int = 1) -> None:
        """Count a change, as many ordinary ones if it is large; freeze now and then."""
        self._changes += weight
        if self._changes >= CHANGES:
            self._changes = 0
            gc.collect(1)
            gc.freeze()

    def thorough(self) -> None:
        """Collect everything, frozen or not. Pauses the process: for idle times."""
        gc.unfreeze()
        gc.collect()
        gc.freeze()
