"""The delivery audit: 10,000 subscriptions against millions of publications, judged by Spark on two cores.

The peer is what a cross join would do: ask every filter about every publication, by what that takes for a few of them.
Besides, what noting deliveries costs a broker. The run takes 500,000 publications, `--full` ten million.
"""

from __future__ import annotations

import random
import resource
import tempfile
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidings.broker import Link, LinkKind
from tidings.matching import Matcher, make_index
from tidings.model import ROOT_ROUTE, Filter, Identity
from tidings.net._ledger import FLUSH_ROWS, Ledger
from tidings.spark import audit, session
from tidings.store import Deliveries, Group, JournalKind, JournalRecord, Plain, Sent, Store, encode_deliveries
from tidings.store._layout import path_of
from tidings.store.archive import Promoted
from tidings.store.archive._file_writer import FileWriter
from tidings.store.archive._parquet import parquet_writer
from tidings.store.archive._stretch import Stretch
from tidings.wire import Deliver, Envelope, Quality

from . import Report
from ._quotes import quotes
from ._workloads import stock

COUNT, FULL_COUNT = 500_000, 10_000_000
FILE = 500_000
"""Publications of a file; all but the first are copies with other numbers."""
SUBSCRIPTIONS, CLIENTS = 10_000, 100
BODIES = 50_000
START = 1_760_000_400_000_000
EVERY = 300
"""Microseconds between two publications: a million in five minutes, so that each file lies within one hour."""
CORES = 2
ORIGIN = "b1"


def run(report: Report) -> None:
    """Make an archive and a journal that agree, and audit them."""
    count = FULL_COUNT if report.full else COUNT
    with tempfile.TemporaryDirectory() as home:
        archive, data = Path(home, "archive"), Path(home, "data")
        envelopes = quotes(BODIES)
        filters = _filters()
        with Store.open(data, post=lambda call: call(), owner=ORIGIN) as store:
            epoch = store.epoch
            owed = _journal(store, filters, envelopes, count)
        _archive(archive, envelopes, epoch, count)
        report.figure("publications", count, "")
        report.figure("deliveries owed", owed, "")
        spark = session(f"local[{CORES}]")
        spark.range(1).collect()
        start = time.perf_counter()
        found = audit([data], since=0, until=2**62, archive=archive, master=f"local[{CORES}]", work=home)
        seconds = time.perf_counter() - start
        spark.stop()
        assert found.clean, found.findings[:3]
        assert (found.verdict.publications, found.verdict.owed) == (count, owed)
        report.limit("audit, for 10 million", seconds * FULL_COUNT / count, "s", at_most=600)
        report.ratio("against asking every filter", _naive(filters, envelopes) * count / CORES / seconds, at_least=20)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    report.figure("memory of the driver's processes, without Python workers", peak / 1024, "MiB")
    _ledger(report, envelopes)


def _filters() -> list[Filter]:
    """Each wants one symbol at about one price; a publication passes about one of them."""
    rng = random.Random(1)
    source = stock(500)
    seen = [source.notification() for _ in range(SUBSCRIPTIONS)]
    prices = [(one["symbol"], float(str(one["price"])) * rng.uniform(0.97, 1.03)) for one in seen]
    return [Filter.parse(f"symbol = '{name}' AND price BETWEEN {at:.2f} AND {at * 1.004:.2f}") for name, at in prices]


def _naive(filters: list[Filter], envelopes: list[Envelope]) -> float:
    """Seconds to ask every filter about one publication."""
    notifications = [envelope.notification for envelope in envelopes[:20]]
    start = time.perf_counter()
    for notification in notifications:
        for filter in filters:
            filter.matches(notification)
    return (time.perf_counter() - start) / len(notifications)


def _journal(store: Store, filters: list[Filter], envelopes: list[Envelope], count: int) -> int:
    """A journal in which everybody got what he should; the number of deliveries."""
    index: Matcher[int] = make_index()

    def write(kind: JournalKind, who: str, data: bytes = b"", **what: Plain) -> None:
        while store.full:
            time.sleep(0.001)
        store.record(JournalRecord(kind, START, who, what, data))

    write(JournalKind.START, "", epoch=store.epoch)
    for client in range(CLIENTS):
        write(JournalKind.ATTACH, f"c{client}")
    for number, filter in enumerate(filters):
        index.add(filter, number)
        who, id = f"c{number % CLIENTS}", f"s{number // CLIENTS}"
        write(JournalKind.SUBSCRIBE, who, id=id, scope="", filter=str(filter), receive_own=True, number=1, after="{}")
        write(JournalKind.SETTLED, who, id=id, number=1, marks=f'{{"{ORIGIN}": [{store.epoch}, 0]}}')
    groups = [Group((f"c{number % CLIENTS}",), (f"s{number // CLIENTS}",)) for number in range(len(filters))]
    matching = [index.match(envelope.notification) for envelope in envelopes]
    rows, owed = _sent(matching, count), 0
    while chunk := list(islice(rows, FLUSH_ROWS)):
        owed += len(chunk)
        known = {number: at for at, number in enumerate(dict.fromkeys(row.group for row in chunk))}
        packed = [row._replace(group=known[row.group]) for row in chunk]
        deliveries = Deliveries.of([groups[number] for number in known], [(ORIGIN, store.epoch)], packed)
        write(JournalKind.DELIVER, "", encode_deliveries(deliveries))
    for client in range(CLIENTS):
        write(JournalKind.ACKNOWLEDGE, f"c{client}", origin=ORIGIN, epoch=store.epoch, seq=count)
    return owed


def _sent(matching: list[list[int]], count: int) -> Iterator[Sent]:
    for seq in range(1, count + 1):
        for number in matching[seq % BODIES]:
            yield Sent(number, 0, seq, START + EVERY * seq + 700, 0)


def _archive(archive: Path, envelopes: list[Envelope], epoch: int, count: int) -> None:
    """One file as a roll writes it, and others with the same rows under other numbers."""
    promoted = [Promoted.parse(text) for text in ("type", "symbol", "price:float")]
    writer = FileWriter(archive, archive / ".bench.rolling", ORIGIN, promoted, with_body=False)
    archive.mkdir()
    for start in range(1, FILE + 1, 500):
        writer.add(Stretch.of([_numbered(envelopes, epoch, seq) for seq in range(start, start + 500)]))
    first = writer.commit()
    for number in range(1, count // FILE):
        _copied(first, archive, epoch, number * FILE, promoted)


def _numbered(envelopes: list[Envelope], epoch: int, seq: int) -> Envelope:
    identity = Identity(ORIGIN, epoch, seq, f"client-{seq % 50}", seq // 50, START + EVERY * seq)
    return Envelope(identity, (ROOT_ROUTE,), envelopes[seq % BODIES].body, Quality.STORED)


def _copied(first: Path, archive: Path, epoch: int, offset: int, promoted: list[Promoted]) -> None:
    later = (offset * EVERY // 3_600_000_000) * 3_600_000_000 + (offset * EVERY) % 3_600_000_000
    hour = (START + EVERY + later) // 3_600_000_000
    path = archive / path_of(ORIGIN, epoch, offset + 1, offset + FILE, hour)
    path.parent.mkdir(parents=True, exist_ok=True)
    writer = None
    with pq.ParquetFile(first) as source:
        for at in range(source.num_row_groups):
            table = source.read_row_group(at)
            for name, added in (("seq", pa.scalar(offset)), ("published_at", pa.scalar(later, pa.duration("us")))):
                place = table.column_names.index(name)
                table = table.set_column(place, table.schema.field(place), pc.add(table.column(name), added))
            writer = writer or parquet_writer(path, table, promoted)
            writer.write_table(table, row_group_size=len(table))
    assert writer is not None
    writer.close()


def _ledger(report: Report, envelopes: list[Envelope]) -> None:
    """What a broker pays for noting what it sends."""
    links = {Link(f"c{number}", LinkKind.CLIENT): None for number in range(100)}
    alone = next(iter(links))
    with tempfile.TemporaryDirectory() as home, Store.open(home, post=lambda call: call(), owner=ORIGIN) as store:
        for name, note in (("one client", False), ("100 clients", True)):
            ledger = Ledger(store, lambda: time.time_ns() // 1_000, lambda delay, action: None)
            messages = [Deliver(envelope, ("s1",)) for envelope in envelopes]
            start = time.thread_time()
            for message in messages:
                ledger.sent_to_all(links, message) if note else ledger.sent(alone, message)
            ledger.flush()
            each = (time.thread_time() - start) / len(messages)
            report.figure(f"noting a delivery to {name}", each * 1e6, "µs")
        while store.statistics().queued:
            time.sleep(0.01)
        report.figure("bytes in the journal for each", store.statistics().bytes / 2 / len(envelopes), "B")
