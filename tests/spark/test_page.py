"""What docs/spark.md shows, runs."""

from __future__ import annotations

import pytest
from docs.test_docs import SPARK
from pages import blocks, run_python


@pytest.mark.usefixtures("spark")
def test_the_python_blocks_of_the_page_run() -> None:
    namespace: dict[str, object] = {"__name__": "__docs__"}
    for block in blocks(SPARK):
        if block.kind == "python" and block.runs:
            run_python(block, namespace)
