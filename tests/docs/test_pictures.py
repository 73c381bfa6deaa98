"""The pictures in the documentation are what `tidings scope tree --svg` draws now.

TIDINGS_DRAW=1 pytest tests/docs/test_pictures.py      # draws them anew
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidings
from tidings.cli._picture import MAX_WIDTH, picture
from tidings.client import Admin
from tidings.net import Options, serve
from tidings.scopes import CreateScope, DestroyScope, Graph, Interface, Join, Leave, SetInterface, SetSelective, apply

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "docs" / "pictures"
EXAMPLES = ROOT / "examples" / "stock_market"


async def _building(admin: Admin) -> None:
    await admin.create_scope("building", input="type = 'weather'", output="type = 'alarm'")
    await admin.create_scope("lab", within="building", output="type IN ('alarm', 'temperature')")
    for client, scope in (("@sensor", "building/lab"), ("@heating", "building/lab"), ("@porter", "building")):
        await admin.join(client, scope)


def _market(*files: str) -> Callable[[Admin], Awaitable[None]]:
    async def setup(admin: Admin) -> None:
        for file in files:
            await admin.execute((EXAMPLES / file).read_text(encoding="utf-8"), name=file)

    return setup


SETUPS = {
    "building": _building,
    "one-market": _market("market.scopes"),
    "two-markets": _market("market.scopes", "second_market.scopes"),
}


async def _graph(setup: Callable[[Admin], Awaitable[None]]) -> Graph:
    async with serve(Options(name="a", port=0)) as server:
        async with tidings.connect(f"tidings://127.0.0.1:{server.port}") as client:
            await setup(client.admin)
            return await client.admin.graph()


@pytest.mark.parametrize("name", SETUPS)
def test_a_picture_is_what_the_command_draws(name: str) -> None:
    drawn = picture(asyncio.run(_graph(SETUPS[name])))
    file = PICTURES / f"{name}.svg"
    if os.environ.get("TIDINGS_DRAW"):
        file.write_text(drawn, encoding="utf-8")
    assert drawn == file.read_text(encoding="utf-8")


def test_the_page_shows_every_picture() -> None:
    page = (ROOT / "docs" / "scopes.md").read_text(encoding="utf-8")
    assert set(re.findall(r"\(pictures/([a-z-]+)\.svg\)", page)) == {file.stem for file in PICTURES.glob("*.svg")}


Box = tuple[float, float, float, float]


def _boxes(svg: str) -> list[Box]:
    """The boxes of a picture; each must hold its texts."""
    space = "{http://www.w3.org/2000/svg}"
    found = []
    for group in ElementTree.fromstring(svg).iter(f"{space}g"):
        rect = group.find(f"{space}rect")
        if rect is None:
            continue
        x, y, width, height = (float(rect.attrib[key]) for key in ("x", "y", "width", "height"))
        for text in group.iter(f"{space}text"):
            assert float(text.attrib["x"]) + 7.8 * len(text.text or "") <= x + width
            assert y < float(text.attrib["y"]) < y + height
        found.append((x, y, x + width, y + height))
    return found


def _overlap(one: Box, two: Box) -> bool:
    return one[0] < two[2] and two[0] < one[2] and one[1] < two[3] and two[1] < one[3]


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=25), st.integers(0, 12))
def test_no_two_boxes_overlap_whatever_the_graph(pairs: list[tuple[int, int]], clients: int) -> None:
    names = [f"scope-{'x' * number}<&>" for number in range(10)]
    edges = {(names[max(pair)], names[min(pair)]) for pair in pairs if pair[0] != pair[1]}
    changes = [CreateScope(name) for name in names]
    changes += [Join(member, scope) for member, scope in sorted(edges)]
    changes += [Join(f"@client-{number}", names[number % 3]) for number in range(clients)]
    graph = apply(Graph(), tuple(changes))
    svg = picture(graph)
    boxes = _boxes(svg)
    assert len(boxes) == 10 + len({number % 3 for number in range(clients)})
    assert not any(_overlap(one, two) for at, one in enumerate(boxes) for two in boxes[:at])
    assert svg == picture(graph)


def test_a_picture_of_no_scopes_is_a_picture() -> None:
    assert _boxes(picture(Graph())) == []


def _states(svg: str) -> dict[str, list[str]]:
    """The titles of what has a state in a picture, the legend apart, by state."""
    space = "{http://www.w3.org/2000/svg}"
    found: dict[str, list[str]] = {}
    for group in ElementTree.fromstring(svg).iter(f"{space}g"):
        for state in {*group.attrib.get("class", "").split()} & {"gained", "lost", "altered"}:
            title = group.find(f"{space}title")
            if group.find(f"{space}text") is None or title is not None:
                found.setdefault(state, []).append("" if title is None else title.text or "")
    return found


def test_a_picture_of_a_difference_says_what_is_new_what_goes_and_what_becomes_another() -> None:
    first = (CreateScope("top"), CreateScope("old"), CreateScope("wide"), Join("old", "top"), Join("wide", "top"))
    before = apply(Graph(), (*first, Join("@a", "wide"), Join("@b", "old")))
    narrow = Interface.parse(input="n > 1")
    changes = (CreateScope("new"), Join("new", "top"), Leave("@b", "old"), Leave("old", "top"), DestroyScope("old"))
    after = apply(before, (*changes, SetInterface("wide", narrow), SetSelective("@a", "wide", narrow)))
    svg = picture(after, before)
    assert _states(svg) == {
        "gained": ["", "new\ninput: FALSE\noutput: FALSE"],
        "lost": ["", "", "old\ninput: FALSE\noutput: FALSE"],
        "altered": [
            "selective in n > 1\nselective out TRUE\nwas\nopen",
            "wide\ninput: n > 1\noutput: TRUE\nwas\nwide\ninput: FALSE\noutput: FALSE",
        ],
    }
    assert [line for line in svg.splitlines() if 'class="fine">' in line and "<path" in line] == svg.splitlines()[-4:-1]
    assert all(f">{words}</text>" in svg for words in ("new", "goes", "becomes another"))
    assert _states(picture(after)) == {}


def test_a_scope_and_its_superscope_may_change_places_in_a_picture() -> None:
    before = apply(Graph(), (CreateScope("a"), CreateScope("b"), Join("a", "b")))
    svg = picture(apply(before, (Leave("a", "b"), Join("b", "a"))), before)
    assert _states(svg) == {"gained": [""], "lost": [""]}
    boxes = _boxes(svg)
    assert len(boxes) == 2
    assert not _overlap(*boxes)


def test_a_picture_of_a_large_difference_shows_what_differs_and_stays_narrow() -> None:
    many = tuple(CreateScope(f"s{number}") for number in range(500))
    before = apply(Graph(), (*many, CreateScope("top"), Join("s7", "top")))
    svg = picture(apply(before, (CreateScope("new"), Join("new", "s7"))), before)
    assert [f">{name}</text>" in svg for name in ("new", "s7", "top", "s8")] == [True, True, True, False]
    assert "499 that stay as they are, left out" in svg
    wide = picture(before)
    (width,) = re.findall(r'<svg [^>]* width="(\d+)"', wide)
    assert int(width) <= MAX_WIDTH
    assert "viewBox" in wide
