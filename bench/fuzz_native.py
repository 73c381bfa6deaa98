"""Odd bodies and changing filters for a compiled engine that was built with sanitizers: `make fuzz-native`.

A sanitizer ends the process at the first byte that is read where it must not be. Whatever is found goes into
`CORPUS` as a body in hexadecimal digits, and is tried first from then on.
"""

from __future__ import annotations

import importlib
import importlib.util
import random
import sys
import time
from pathlib import Path

from tidings import _native
from tidings.matching import CompiledIndex
from tidings.matching._atom import atom_of
from tidings.model import Filter, Matches
from tidings.wire import encode_body

CORPUS = [
    "81a161c70201fffe",  # a location that is no UTF-8
    "82a161cb7ff0000000000000a16101",
    "dfffffffff",
    "81a161dbffffffff",
    "81a161c9ffffffff01",
    "81a161d8ff00000000000000000000000000000000",
    "81a161dd00000400",
]


def load(folder: str) -> None:
    """Use the engine of this folder instead of the one in the package."""
    (path,) = Path(folder).glob("_engine*")
    spec = importlib.util.spec_from_file_location("tidings._native._engine", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.modules[spec.name] = module
    vars(_native).pop("_engine", None)
    importlib.reload(_native)
    assert _native.engine is module


def is_known(filter: Filter | Matches) -> bool:
    """Whether the engine can do without Python."""
    if type(filter) is not Filter:
        return False
    return all(atom_of(one).op != "ask" for conjunction in filter.conjunctions for one in conjunction)


def fuzz(seconds: float) -> None:
    """Add, remove and match, until the time is used up."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    world = importlib.import_module("matching_world")
    assert _native.engine is not None, _native.WHY_PURE
    deadline = time.monotonic() + seconds
    seed = time.time_ns()
    bodies = taken = 0
    while time.monotonic() < deadline:
        rng = random.Random(seed)
        index: CompiledIndex[int] = CompiledIndex()
        assert index.match_body is not None
        for known in map(bytes.fromhex, CORPUS):
            index.match_body(known)
        for key in range(300):
            filter = world.random_filter(rng)
            while seed % 4 and not is_known(filter):  # whatever must be asked hands every body to Python
                filter = world.random_filter(rng)
            index.add(filter, key)
            if key % 3 == 2:
                index.remove(rng.choice([key, key - 1]))
            whole = world.random_notification(rng, lists=0.4)
            index.match(whole)
            for _ in range(10):
                body: bytearray = bytearray(encode_body(whole))
                for _ in range(rng.randrange(5)):
                    body[rng.randrange(len(body))] = rng.randrange(256)
                bodies += 1
                taken += (
                    index.match_body(bytes(body[: rng.choice([len(body), rng.randrange(len(body) + 1)])])) is not None
                )
        seed += 1
    print(f"{bodies:,} bodies, of which {taken:,} were taken; no sanitizer spoke")


if __name__ == "__main__":
    load(sys.argv[1])
    fuzz(float(sys.argv[2]))
