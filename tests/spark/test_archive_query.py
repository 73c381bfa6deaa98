"""Spark answers a query of an archive as one process does."""

from __future__ import annotations

from pathlib import Path

import pytest
from archive_world import HOUR, START, fill, quotes
from typer.testing import CliRunner

from tidings.cli import app
from tidings.model import Filter, Location, Notification
from tidings.spark import query_archive
from tidings.store.archive import ArchiveReader, Promoted, roll

ODD = Notification(
    type="odd", many=[1, 2.5, "x"], none=[], raw=b"\x00\xff", place=Location("/berlin"), flag=True, large=2**62
)


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two origins, three hours, and values of every kind."""
    home = tmp_path_factory.mktemp("query")
    for number, origin in enumerate(("berlin", "paris")):
        content = quotes(400, step=25_000_000, start=START + number)
        fill(home / origin, [*content, (START + 3 * HOUR + number, ODD)], origin)
        roll(home / origin, home / "archive", [Promoted("type"), Promoted.parse("price:float")])
    return home / "archive"


def test_spark_finds_the_same_in_the_same_order(archive: Path, spark: object) -> None:
    reader = ArchiveReader(archive)
    for text, more in (
        ("type = 'trade'", {}),
        ("price > 50 AND n < 300", {"since": START + HOUR, "until": START + 2 * HOUR}),
        ("type = 'quote'", {"limit": 7, "newest_first": True}),
        ("type = 'odd'", {}),
        ("type = 'nothing'", {}),
    ):
        wanted = Filter.parse(text)
        expected = list(reader.query(wanted, **more))  # type: ignore[arg-type]
        assert list(query_archive(archive, wanted, **more)) == expected  # type: ignore[arg-type]
        assert expected or text == "type = 'nothing'"


def test_the_command_lets_spark_do_it(archive: Path, spark: object) -> None:
    words = ["archive", "query", str(archive), "type = 'trade' AND n < 100", "--limit", "5", "--json"]
    alone, shared = (CliRunner().invoke(app, [*words, *more]) for more in ([], ["--master", "local[2]"]))
    assert alone.exit_code == shared.exit_code == 0, shared.output
    assert shared.stdout == alone.stdout
    assert len(shared.stdout.splitlines()) == 5
