"""One filter, four engines: the broker's index, the plain predicate, Spark's column and the archive agree.

Many filters meet many notifications in one table, so that Spark is asked a few times only.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest
from archive_world import START, fill
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from strategies import NAMES, SOAK_SLOWLY, filters, notifications

from tidings.matching import make_index
from tidings.model import Filter, Location, Notification, UnsupportedFilter
from tidings.spark import column, read_archive
from tidings.store import Promoted
from tidings.store.archive import ArchiveReader, roll

EVERY_NAME = [Promoted.parse(text) for text in ("a:integer", "b", "c.d:float", "in:time", 'x "y":place')]
OTHERS = [Promoted.parse(text) for text in ("a:integer", "c.d:float")]


def archived(home: Path, content: Sequence[Notification]) -> Path:
    """An archive in two files; the second one has fewer promoted columns."""
    half = len(content) // 2
    for promoted, some in ((EVERY_NAME, content[:half]), (OTHERS, content[half:])):
        fill(home / "data", [(START + at, one) for at, one in enumerate(some)])
        roll(home / "data", home / "archive", promoted)
    return home / "archive"


def check_that_all_agree(spark: SparkSession, some: Sequence[Filter], content: Sequence[Notification]) -> None:
    with tempfile.TemporaryDirectory() as home:
        archive = archived(Path(home), content)
        keys = list(ArchiveReader(archive).query())
        places = {(one.identity.epoch, one.identity.seq): at for at, one in enumerate(keys)}
        assert [one.notification for one in keys] == list(content)
        index = make_index()
        for at, one in enumerate(some):
            index.add(one, at)
        expected = [[one.matches(notification) for notification in content] for one in some]
        for at, notification in enumerate(content):
            assert set(index.match(notification)) == {n for n in range(len(some)) if expected[n][at]}
        for one, wanted in zip(some, expected, strict=True):
            found = {(e.identity.epoch, e.identity.seq) for e in ArchiveReader(archive).query(one)}
            assert found == {key for key, at in places.items() if wanted[at]}, str(one)
        table = read_archive(spark, archive)
        plain = [column(one).alias(f"plain{n}") for n, one in enumerate(some)]
        quick = [column(one, table).alias(f"quick{n}") for n, one in enumerate(some)]
        for row in table.select("epoch", "seq", *plain, *quick).collect():
            at = places[row["epoch"], row["seq"]]
            for n, one in enumerate(some):
                told = (row[f"plain{n}"], row[f"quick{n}"])
                assert told == (expected[n][at],) * 2, f"{one}\n{content[at]}"
        for one, wanted in list(zip(some, expected, strict=True))[:2]:  # pushed down to the files
            rows = read_archive(spark, archive, one).select("epoch", "seq").collect()
            found_there = sorted(places[row["epoch"], row["seq"]] for row in rows)
            assert found_there == [n for n, hit in enumerate(wanted) if hit]


def cases(wild: bool) -> st.SearchStrategy[tuple[list[Filter], list[Notification]]]:
    return st.tuples(
        st.lists(filters(NAMES, wild=wild, max_conjunctions=2, max_size=3), min_size=12, max_size=12),
        st.lists(notifications(NAMES, wild=wild), min_size=60, max_size=60),
    )


SLOW = list(HealthCheck)
Case = tuple[list[Filter], list[Notification]]
QUICK = settings(max_examples=2, deadline=None, suppress_health_check=SLOW)


@QUICK
@given(cases(wild=False))
def test_all_engines_agree_on_values_that_meet(spark: SparkSession, case: Case) -> None:
    check_that_all_agree(spark, *case)


@QUICK
@given(cases(wild=True))
def test_all_engines_agree_on_all_values(spark: SparkSession, case: Case) -> None:
    check_that_all_agree(spark, *case)


@pytest.mark.soak
@settings(SOAK_SLOWLY, max_examples=max(5, SOAK_SLOWLY.max_examples // 100), suppress_health_check=SLOW)
@given(st.booleans().flatmap(cases))
def test_all_engines_agree_for_long(spark: SparkSession, case: Case) -> None:
    check_that_all_agree(spark, *case)


DAY = datetime(2026, 1, 2, 3, 4, 5, 678_901, tzinfo=UTC)
AWKWARD = (
    [
        Notification({name: value})
        for name, some in {
            "other": [1],
            "a": [-(2**63), 2**63 - 1, 0, 7, 7.5, [3, 7], [3.5], False],
            "b": ["", "ü", "𝄞", "a𝄞b", "\n", "x\ny", "\\", "'", '"', "%", "_", "\\E", "\x00", "ÿ", "\uffff", "SAP"],
            "c.d": [
                0.0,
                -0.0,
                0,
                2**53,
                2**53 + 1,
                float(2**53),
                2**63 - 1,
                9.3e18,
                -9.3e18,
                5e-324,
                1.7e308,
                True,
                "1",
            ],
            "in": [DAY, datetime(1, 1, 1, tzinfo=UTC), datetime.max.replace(tzinfo=UTC), [DAY]],
            'x "y"': [Location("/"), Location("/a"), Location("/ab"), Location("/a/b"), "/a"],
        }.items()
        for value in some
    ]
    + [Notification(b=value) for value in (b"", b"\xff", b"\x00a", ["SAP", "IBM"], [1, "SAP"], [])]
    + [Notification({"c.d": value}) for value in ([], [0], [0.5, 7], ["a", 3])]
)
ABOUT_THEM = r"""
"c.d" = 0
"c.d" <> 0
"c.d" >= 0
"c.d" > 0
"c.d" < 0
"c.d" <= 0
"c.d" IN (0, 0.5, 9007199254740993)
"c.d" > 9007199254740992
"c.d" >= 9007199254740993
"c.d" < 9007199254740993
"c.d" BETWEEN 9007199254740993 AND 9.3e18
"c.d" > 9223372036854775807
"c.d" < 1e19
"c.d" > 1e19
"c.d" IS NULL
"c.d" EXISTS
NOT "c.d" IN (0, 3)
b = '𝄞'
b LIKE '_'
b LIKE 'a_b'
b LIKE '%𝄞%'
b LIKE '_%_'
b LIKE 'x%y'
b LIKE '\\E'
b LIKE '!%' ESCAPE '!'
b NOT LIKE '%a%'
b > 'z'
b >= '𝄞'
b BETWEEN '' AND 'a'
b = X'FF'
b > X'00'
b <> 'SAP'
b IN ('SAP', 'x')
b = ''''
"in" = TIMESTAMP '2026-01-02T03:04:05.678901Z'
"in" < TIMESTAMP '1900-01-01T00:00:00Z'
"in" > TIMESTAMP '2026-01-02T03:04:05.6789Z'
PLACE WITHIN LOCATION '/a'
PLACE WITHIN LOCATION '/'
NOT PLACE WITHIN LOCATION '/a'
PLACE = LOCATION '/a'
a BETWEEN 4 AND 6
a > 7.2
a <= 7.5
a > -9223372036854775808
a = 7.0
a = TRUE
NOT a > 5
a <> 7 OR b EXISTS
TRUE
FALSE
"""


def test_all_engines_agree_on_awkward_values(spark: SparkSession) -> None:
    check_that_all_agree(
        spark, [Filter.parse(line.replace("PLACE", '"x ""y"""')) for line in ABOUT_THEM.splitlines() if line], AWKWARD
    )


def test_promoted_columns_reach_the_files(spark: SparkSession, tmp_path: Path) -> None:
    content = [Notification(a=n, b=f"S{n % 5}") for n in range(50)]
    fill(tmp_path / "data", [(START + n, one) for n, one in enumerate(content)])
    roll(tmp_path / "data", tmp_path / "archive", [Promoted.parse("a:integer"), Promoted.parse("b")])
    found = read_archive(spark, tmp_path / "archive", "a > 40 AND b = 'S3'").select("a")
    plan = found._jdf.queryExecution().executedPlan().toString()
    assert "GreaterThan(a,40)" in plan
    assert "EqualTo(b,S3)" in plan
    assert "exists(" not in plan  # complete columns say it all: the list is not even read
    assert sorted(row.a for row in found.collect()) == [43, 48]


def test_a_filter_that_speaks_of_myloc_is_refused() -> None:
    with pytest.raises(UnsupportedFilter, match="myloc, but a table has no place; name the place"):
        column("place WITHIN myloc")
