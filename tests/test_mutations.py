"""`make mutate` breaks the code as it says: each mutation is one change that can be compiled, drawn by a seed."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT))

from bench._mutations import draw, mutations  # noqa: E402
from bench.mutate import chosen  # noqa: E402

MODULE = """\
LIMIT = 3


def some(numbers: list[int], limit: int = 2) -> list[int]:
    \"\"\"A text with 1 number.\"\"\"
    found = []
    for number in numbers:
        if number <= limit and number:
            continue
        found.append(number + 1)
    log.warning("found %s", 7)
    return found


async def end(self) -> None:
    self.done = True
    await self.wait(5)
"""


def found(tmp_path: Path, text: str) -> list[str]:
    module = tmp_path / "module.py"
    module.write_text(text)
    return [f"{one.line} {one.kind}: {one.old} -> {one.new}" for one in mutations(tmp_path, module)]


def test_every_kind_of_change_is_made_where_it_may_matter_and_nowhere_else(tmp_path: Path) -> None:
    assert found(tmp_path, MODULE) == [
        "8 negate: number <= limit and number -> (not (number <= limit and number))",
        "8 connect: number <= limit and number -> (number <= limit or number)",
        "8 compare: number <= limit -> (number < limit)",
        "9 jump: continue -> break",
        "10 drop: found.append(number + 1) -> pass",
        "10 arithmetic: number + 1 -> (number - 1)",
        "10 constant: 1 -> 2",
        "12 forget: return found -> return None",
        "16 leave: self.done = True -> return",
        "16 drop: self.done = True -> pass",
        "16 constant: True -> False",
        "17 constant: 5 -> 6",
    ]


def test_a_character_of_several_bytes_moves_nothing(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text("def some():\n    return 'ä', 'ö', 1\n", encoding="utf-8")
    (last,) = [one for one in mutations(tmp_path, module) if one.kind == "constant"]
    assert last.apply(module.read_text("utf-8")) == "def some():\n    return 'ä', 'ö', 2\n"


def test_what_is_drawn_can_be_compiled_and_is_the_same_for_a_seed() -> None:
    folder = ["src/tidings/history"]
    drawn = draw(ROOT, folder, 7, 20)
    assert drawn[:10] == draw(ROOT, folder, 7, 10) != draw(ROOT, folder, 8, 10)
    for one in drawn:
        text = (ROOT / one.path).read_text("utf-8")
        assert ast.dump(ast.parse(one.apply(text))) != ast.dump(ast.parse(text)), one


def test_the_tests_of_a_module_come_first() -> None:
    assert chosen("src/tidings/history/caching/_cache.py")[:2] == [
        "tests/history/test_cache.py",
        "tests/history/test_cache_properties.py",
    ]
    assert "tests/scopes/test_comparison.py" in chosen("src/tidings/scopes/_flow.py")[:2]
