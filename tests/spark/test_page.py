"""What docs/spark.md shows, runs."""

from __future__ import annotations

import pytest
from docs.test_docs import SPARK, _blocks


@pytest.mark.usefixtures("spark")
def test_the_python_blocks_of_the_page_run() -> None:
    namespace: dict[str, object] = {"__name__": "__docs__"}
    for block in _blocks(SPARK):
        block.run(namespace)
