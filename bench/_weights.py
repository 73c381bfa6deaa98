"""The memory that filters take in an engine, in bytes: `python -m bench._weights Index stock 100000`.

It is measured in a process of its own, from what the system says: `tracemalloc` does not see what compiled code takes,
and in a process that has worked before, new objects find room among old ones.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from pathlib import Path

from tidings.matching import CompiledIndex, Index

from ._workloads import ranges, stock


def per_filter(engine: str, workload: str, many: int) -> float:
    """Bytes for each of so many filters, without the filters themselves."""
    words = [sys.executable, "-m", "bench._weights", engine, workload, str(many)]
    return float(subprocess.run(words, capture_output=True, text=True, check=True).stdout) / many


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main() -> None:
    """Print by how many bytes this process grows."""
    engine, workload, many = sys.argv[1:]
    source = stock(10_000) if workload == "stock" else ranges()
    filters = [source.filter() for _ in range(int(many))]
    gc.collect()
    index: Index[int] | CompiledIndex[int] = Index() if engine == "Index" else CompiledIndex()
    before = _resident()
    for key, filter in enumerate(filters):
        index.add(filter, key)
    print(_resident() - before)


if __name__ == "__main__":
    main()
