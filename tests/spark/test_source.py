"""`spark.read.format("tidings")`: archives and brokers' logs as tables."""

from __future__ import annotations

import importlib
import pkgutil
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from archive_world import HOUR, START, quotes
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType
from serving import serving
from spark_world import archive_of, archived, places

from tidings import sync
from tidings.model import Filter, Location, Notification, TidingsError
from tidings.net import Access, AccessEntry, Options
from tidings.spark import SourceError, SparkError, TidingsSource, column, explained, read_archive
from tidings.spark._files import read as read_piece
from tidings.spark._shape import TableShape
from tidings.spark._snapshot import pieces, taken
from tidings.store import Promoted
from tidings.store.archive import ArchiveReader, Query, compact, roll

NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)


def broker(data: Path, **more: object) -> Options:
    return Options(name="berlin", port=0, data=data, **more)  # type: ignore[arg-type]


def test_an_archive_is_a_table_both_ways(spark: SparkSession, tmp_path: Path) -> None:
    archive = archived(tmp_path, 300)
    known = list(ArchiveReader(archive).query())
    native = read_archive(spark, archive)
    own = spark.read.format("tidings").load(str(archive))
    assert native.columns == own.columns
    for table in (native, own):
        rows = sorted(table.collect(), key=lambda row: (row["epoch"], row["seq"]))
        assert [(row["origin"], row["epoch"], row["seq"]) for row in rows] == [
            (one.identity.origin, one.identity.epoch, one.identity.seq) for one in known
        ]
        for row, one in zip(rows, known, strict=True):
            micros = (row["published_at"].replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds()
            assert round(micros * 1e6) == one.identity.published_at
            assert (row["publisher"], row["publisher_seq"]) == (one.identity.publisher, one.identity.publisher_seq)
            assert (row["graph_epoch"], row["ttl"]) == (one.identity.graph_epoch, one.identity.ttl)
            assert (row["quality"], row["scope"]) == (one.quality, one.routes[0].scope)
            assert (row["type"], row["symbol"], row["price"]) == tuple(
                one.notification[name] for name in ("type", "symbol", "price")
            )
            entries = {entry["name"]: entry["as_int"] for entry in row["attributes"]}
            assert entries["n"] == one.notification["n"]


def test_filters_are_pushed_down_and_shown(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = archived(tmp_path, 300)

    def table() -> DataFrame:
        return spark.read.format("tidings").option("pushdown", "once").load(str(archive))

    chosen = table().where("symbol IN ('S07', 'S14') AND price > 20 AND NOT type = 'trade' AND length(symbol) = 3")
    chosen.explain("formatted")
    said = capsys.readouterr().out
    assert "PushedFilters: [" in said
    for one in ("In(symbol, [S07,S14])", "GreaterThan(price,20.0)", "Not(EqualTo(type,trade))"):
        assert one in said
    wanted = Filter.parse("symbol IN ('S07', 'S14') AND price > 20 AND type <> 'trade'")
    expected = [(e.identity.origin, e.identity.epoch, e.identity.seq) for e in ArchiveReader(archive).query(wanted)]
    assert expected
    assert places(chosen.collect()) == sorted(expected)
    assert places(table().where("startswith(symbol, 'S1') AND seq < 100").collect()) == places(
        table().where("substr(symbol, 1, 2) = 'S1' AND seq + 0 < 100").collect()
    )


def test_a_table_may_be_used_often(spark: SparkSession, tmp_path: Path) -> None:
    """Spark 4.3 would read every use of a table with the conditions of the last one, if it pushed them down."""
    table = spark.read.format("tidings").load(str(archived(tmp_path, 50)))
    one, two = table.where("symbol = 'S07'"), table.where("symbol = 'S14'")
    assert sorted(row["symbol"] for row in one.union(two).collect()) == ["S07", "S14"]
    assert (one.count(), table.count()) == (1, 50)


def test_columns_are_chosen_by_schema_or_by_option(spark: SparkSession, tmp_path: Path) -> None:
    content = [
        (START + at, Notification(value))
        for at, value in enumerate(
            [
                {
                    "n": 1,
                    "x": 1.5,
                    "ok": True,
                    "at": datetime(2026, 1, 1, tzinfo=UTC),
                    "raw": b"\x00",
                    "p": Location("/a"),
                },
                {"n": "text", "x": 2, "ok": 1},
                {"n": [1, 2], "x": 2**60, "p": "/a"},
                {},
            ]
        )
    ]
    archive = archive_of(tmp_path, content)
    reader = spark.read.format("tidings").schema("seq bigint, n bigint, x double, ok boolean, at timestamp, raw binary")
    rows = [tuple(row)[1:] for row in reader.load(str(archive)).orderBy("seq").collect()]
    assert rows == [
        (1, 1.5, True, datetime(2026, 1, 1), bytearray(b"\x00")),
        (None, 2.0, None, None, None),
        (None, None, None, None, None),
        (None, None, None, None, None),
    ]
    table = spark.read.format("tidings").option("promote", "n:integer, p:place").load(str(archive))
    assert [tuple(row) for row in table.orderBy("seq").select("n", "p").collect()] == [(1, "/a")] + [(None, None)] * 3
    pushing = spark.read.format("tidings").option("promote", "p:place").option("pushdown", "once").load(str(archive))
    assert [row["p"] for row in pushing.where("p = '/a'").collect()] == ["/a"]  # made late, filtered late


def test_the_filter_option_is_exact(spark: SparkSession, tmp_path: Path) -> None:
    content = [(START + n, Notification(n=n, tags=["a", "b"][: n % 3], symbol=f"S{n % 4}")) for n in range(60)]
    archive = archive_of(tmp_path, content, promoted=[Promoted.parse("symbol"), Promoted.parse("n:integer")])
    for text in (
        "n >= 20 AND symbol = 'S1'",
        "tags = 'b'",
        "tags <> 'b' AND n < 30",
        "symbol LIKE '%2' OR n = 5",
        "FALSE",
    ):
        table = spark.read.format("tidings").option("filter", text).load(str(archive))
        expected = [e.identity.seq for e in ArchiveReader(archive).query(Filter.parse(text))]
        assert sorted(row["seq"] for row in table.select("seq").collect()) == expected, text


def test_files_outside_the_time_are_not_opened(spark: SparkSession, tmp_path: Path) -> None:
    archive = archive_of(tmp_path, quotes(30, step=HOUR // 10))
    assert len(list(archive.rglob("*.parquet"))) == 3
    second = sorted(archive.rglob("*.parquet"))[1]
    second.write_bytes(b"not Parquet at all, and never read")
    table = spark.read.format("tidings").option("promote", "symbol").load(str(archive))
    pushing = spark.read.format("tidings").option("promote", "symbol").option("pushdown", "once").load(str(archive))
    early = pushing.where(f"published_at < timestamp_micros({START + HOUR})")
    assert early.count() == 10
    with pytest.raises(SparkError, match=r"cannot be read: .*; restore it from a copy, or move it out of the archive"):
        with explained():
            table.count()
    until = datetime.fromtimestamp((START + HOUR) / 1e6, UTC)
    assert read_archive(spark, archive, until=until).count() == 10
    with pytest.raises(SourceError, match=r"cannot be read: .*; restore it"):
        read_archive(spark, archive)


def test_large_files_are_shared_by_several_tasks(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = archive_of(tmp_path, quotes(30, step=HOUR // 10))
    monkeypatch.setattr("tidings.spark._source.SPLIT", 7)
    made = TidingsSource({"path": str(archive)})
    reader = made.reader(made.schema())
    read = [[row for batch in reader.read(one) for row in batch.to_pylist()] for one in reader.partitions()]
    assert len(read) > len(list(archive.rglob("*.parquet"))) == 3
    assert all(len(rows) <= 7 for rows in read)
    assert [row["seq"] for rows in read for row in rows] == list(range(2, 62, 2))


def test_a_file_with_a_fallen_bit_is_named_and_never_read_as_something_else(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The bit is in a number of a page, where neither Parquet nor the compression would notice."""
    archive = archived(tmp_path, 3_000)
    (file,) = archive.rglob("*.parquet")
    group = pq.read_metadata(file).row_group(0)
    (seq,) = (group.column(n) for n in range(group.num_columns) if group.column(n).path_in_schema == "seq")
    content = bytearray(file.read_bytes())
    content[seq.data_page_offset + 100] ^= 1
    file.write_bytes(content)
    with pytest.raises(SparkError, match=rf"{file.name}' cannot be read: .*checksum.*; restore it"), explained():
        spark.read.format("tidings").load(str(archive)).select("seq").collect()
    with pytest.raises(SparkError, match=rf"{file.name}.*`tidings archive verify` says which"), explained():
        read_archive(spark, archive).select("seq").collect()


def test_a_condition_on_an_attribute_without_a_column_is_explained(spark: SparkSession, tmp_path: Path) -> None:
    table = read_archive(spark, archived(tmp_path, 3))
    with (
        pytest.raises(SparkError, match=r"`colour` cannot be resolved.*of its own with .option\('promote'"),
        explained(),
    ):
        table.where("colour = 'red'").count()
    assert table.where(column("colour = 'red'")).count() == 0  # a filter knows no columns: it is missing everywhere
    assert table.where(column("colour IS NULL", table)).count() == 3


def test_the_log_of_a_broker_is_a_table(spark: SparkSession, tmp_path: Path) -> None:
    content = [{"type": "quote", "n": n, "price": n / 2, "tags": ["x", "y"]} for n in range(2_500)]
    with serving(broker(tmp_path)) as url:
        with sync.connect(url) as client:
            client.publish_many(content, quality="stored")
            client.publish(n=-1, quality="accepted")
        reader = spark.read.format("tidings").option("broker", url).option("promote", "n:integer, price:float")
        table = reader.option("pushdown", "once").load()
        rows = table.where("n < 1800 AND price >= 10").orderBy("n").select("origin", "n", "price").collect()
        assert [tuple(row) for row in rows] == [("berlin", n, n / 2) for n in range(20, 1_800)]
        some = spark.read.format("tidings").option("broker", url).option("filter", "tags = 'y' AND n > 2490").load()
        assert some.count() == 9


def test_archive_and_log_together_are_everything_once(spark: SparkSession, tmp_path: Path) -> None:
    """The archive ends somewhere in the log; together they are everything, once."""
    with serving(broker(tmp_path / "data")) as url:
        with sync.connect(url) as client:
            client.publish_many([{"n": n} for n in range(700)], quality="stored")
            roll(tmp_path / "data", tmp_path / "archive", [Promoted.parse("n:integer")])
            client.publish_many([{"n": n} for n in range(700, 1_000)], quality="stored")
        table = spark.read.format("tidings").option("broker", url).load(str(tmp_path / "archive"))
        assert sorted(row["n"] for row in table.select("n").collect()) == list(range(1_000))


def test_files_that_are_merged_while_they_are_read_are_found_again(spark: SparkSession, tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    with serving(broker(tmp_path / "data")) as url, sync.connect(url) as client:
        for _ in range(4):
            client.publish_many([{"n": n} for n in range(50)], quality="stored")
            roll(tmp_path / "data", archive, [Promoted.parse("n:integer")])
    before = pieces(archive)
    planned = spark.read.format("tidings").load(str(archive))
    assert len(before) > 1
    compact(archive)
    assert len(pieces(archive)) < len(before)
    shape = TableShape.of(planned.schema)
    for piece in before:
        rows = [row for batch in read_piece(archive, piece, shape, Query()) for row in batch.column("seq").to_pylist()]
        assert rows
        assert set(rows) <= set(range(piece.start, piece.end + 1))
    assert planned.count() == 200
    shutil.rmtree(next(archive.glob("date=*")))
    with pytest.raises(SourceError, match="was removed after the query had been planned; run it again"):
        list(read_piece(archive, before[0], shape, Query()))


def test_a_table_whose_files_are_gone_says_that_a_new_one_helps(spark: SparkSession, tmp_path: Path) -> None:
    archive = archived(tmp_path, 20)
    table = read_archive(spark, archive)
    (file,) = archive.rglob("*.parquet")
    file.rename(file.with_name(file.name.replace("berlin", "madrid")))
    with pytest.raises(SparkError, match="the archive has changed since the table was made: make a new one"):
        with explained():
            table.collect()
    assert read_archive(spark, archive).count() == 20


def test_overlapping_copies_are_read_once(spark: SparkSession, tmp_path: Path) -> None:
    archive = archived(tmp_path, 100)
    (file,) = archive.rglob("*.parquet")
    name = file.name.rsplit("-", 2)
    shutil.copy(file, file.with_name(f"{name[0]}-{int(name[1]):012d}-{int(name[2].split('.')[0]) + 5:012d}.parquet"))
    assert spark.read.format("tidings").load(str(archive)).count() == 100
    assert read_archive(spark, archive).count() == 100


def test_columns_whose_kind_has_changed_are_left_to_the_list(spark: SparkSession, tmp_path: Path) -> None:
    archive_of(tmp_path, quotes(5), promoted=[Promoted.parse("n:integer"), Promoted.parse("symbol")])
    archive = archive_of(
        tmp_path, quotes(5, start=START + HOUR), promoted=[Promoted.parse("n:float"), Promoted.parse("type")]
    )
    snapshot = taken(archive)
    assert (set(snapshot.columns), snapshot.uncertain) == ({"symbol", "type"}, {"n"})
    for table in (read_archive(spark, archive), spark.read.format("tidings").load(str(archive))):
        assert "n" not in table.columns
    assert read_archive(spark, archive, "n >= 3 AND symbol EXISTS").count() == 4
    own = spark.read.format("tidings").schema("n bigint, symbol string").load(str(archive))
    assert sorted(row["n"] for row in own.collect()) == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    assert None not in [row["symbol"] for row in own.collect()]  # where a file lacks the column, the list has it


def test_an_empty_archive_is_an_empty_table(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "archive").mkdir()
    assert read_archive(spark, tmp_path / "archive", "price > 5").count() == 0
    assert spark.read.format("tidings").load(str(tmp_path / "archive")).count() == 0


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({}, "no source is named"),
        ({"colour": "red", "path": "x"}, "option 'colour' is not known; the options are path, broker"),
        ({"path": "/nowhere/at/all"}, "there is no archive in '/nowhere/at/all'; name the directory"),
        ({"path": "s3a://bucket/archive"}, "is not in a file system of this machine; mount it"),
        ({"path": "x", "filter": "price =>"}, "=> is not an operator"),
        ({"path": "x", "promote": "price:money"}, "option promote: 'price:money' cannot be promoted"),
        ({"path": "x", "since": "tomorrow"}, "option since: 'tomorrow' is not a time"),
        ({"path": "x", "maxRowsPerTrigger": "inf"}, "option maxRowsPerTrigger: 'inf' is not a number from 0 to 1e+15"),
        ({"path": "x", "maxBytesPerTrigger": "nan"}, "option maxBytesPerTrigger: 'nan' is not a number"),
        ({"path": "x", "patience": "9" * 5_000}, "option patience: '9999"),
        ({"path": "x", "gaps": "ignore"}, "option gaps: 'ignore' is not known; use error or row"),
        ({"broker": "tidings://127.0.0.1:9", "patience": "0.1"}, "could not be reached for 0.1 seconds"),
        ({"broker": "tidings://192.0.2.1", "token": "secret"}, "connect to tidings+tls://192.0.2.1:7311, or say"),
        ({"broker": "http://x", "patience": "0"}, "'http://x' is not the address of a broker"),
    ],
)
def test_bad_options_are_explained(options: dict[str, str], complaint: str) -> None:
    source = TidingsSource(options)
    with pytest.raises(TidingsError) as caught:
        source.reader(source.schema()).partitions()
    assert complaint in str(caught.value)


def test_what_is_explained_arrives_through_spark(spark: SparkSession) -> None:
    with pytest.raises(SparkError) as caught, explained():
        spark.read.format("tidings").load("/nowhere/at/all")
    assert str(caught.value) == "there is no archive in '/nowhere/at/all'; name the directory that a broker archives to"


@pytest.mark.parametrize(
    ("schema", "complaint"),
    [
        ("seq string", "column 'seq' is bigint, not string; change the schema"),
        ("price decimal(10,2)", "column 'price' cannot be decimal(10,2); an attribute has one of the types string"),
        ("Origin string", "column 'Origin' would be one of the archive's own"),
    ],
)
@pytest.mark.usefixtures("spark")
def test_bad_schemas_are_explained(tmp_path: Path, schema: str, complaint: str) -> None:
    with pytest.raises(SourceError) as caught:
        TidingsSource({"path": str(tmp_path)}).reader(StructType.fromDDL(schema))
    assert complaint in str(caught.value)


def test_a_broker_shows_spark_what_it_may_see(spark: SparkSession, tmp_path: Path) -> None:
    token = "a-token-of-spark-1234"
    identity = AccessEntry("spark", subscribe=Filter.parse("type = 'quote'"))
    with serving(broker(tmp_path, access=Access(tokens={token: identity}))) as url:
        with sync.connect(url, token=token) as client:
            client.publish_many([{"type": "quote"}, {"type": "secret"}], quality="stored")
        table = spark.read.format("tidings").option("broker", url).option("token", token)
        assert table.option("filter", "type = 'quote'").load().count() == 1
        pushing = spark.read.format("tidings").option("broker", url).option("token", token).option("pushdown", "once")
        quotes_only = pushing.option("promote", "type").load().where("type = 'quote'")
        assert quotes_only.count() == 1  # the broker was asked for no more
        with pytest.raises(SparkError, match=r"refuses: .*may only subscribe within"), explained():
            table.option("filter", "TRUE").load().count()
        with pytest.raises(SparkError, match=r"refuses Spark: .*this token is not known here"), explained():
            table.option("token", "wrong").load().count()


def test_spark_finds_the_source_by_its_name() -> None:
    """As in a session that nobody has told of Tidings: Spark looks for modules whose names begin so."""
    names = {module.name for module in pkgutil.iter_modules() if module.name.startswith("pyspark_")}
    assert "pyspark_tidings" in names
    assert importlib.import_module("pyspark_tidings").DefaultSource.name() == "tidings"
