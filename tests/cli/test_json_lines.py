"""What `sub --json` prints is what `pub -` publishes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from serving import serving
from strategies import values

import tidings
from tidings import sync
from tidings.cli._json_lines import as_line, gap_as_line, read_line
from tidings.cli._stdin import MAX_LINE
from tidings.model import MAX_TEXT, Identity, Location, Notification, Value, ValueRefused
from tidings.net import Options
from tidings.wire import Gap, encode_body

IDENTITY = Identity("berlin", 1_782_900_000_000_000, 7, "feed", 3, 1_782_900_000_000_125)
TRICKY = ["$event", "$$event", "$gap", "$$$gap", "$time", "a.$bytes", "a", "a.b", "$", "", "\x1b[2J", "😀", 'q"\\']
NAMES = st.sampled_from([name for name in TRICKY if name]) | st.text(min_size=1, max_size=20)


def same(one: Notification, other: Notification) -> bool:
    """Equal on the wire, which tells types and signs: to Python, 1 is 1.0, and 0.0 is -0.0."""
    return encode_body(one) == encode_body(other)


EVERYTHING = Notification(
    {
        "bool": True,
        "int": 2**53 + 1,
        "least": -(2**63),
        "float": 1.0,
        "zero": -0.0,
        "huge": 1e308,
        "tiny": 5e-324,
        "text": 'it\'s "7"\n\x1b[2J\u2028😀',
        "number as text": "7",
        "null as text": "null",
        "bytes": b"\x00\xff",
        "no bytes": b"",
        "time": datetime(2026, 7, 1, 12, 0, 0, 125, tzinfo=UTC),
        "first": datetime(1, 1, 1, tzinfo=UTC),
        "place": Location("/berlin/campus"),
        "root": Location("/"),
        "list": [True, 1, 1.0, "1", b"1", datetime(2026, 7, 1, tzinfo=UTC), Location("/1")],
        "one": [1.0],
        "empty": [],
        "venue.city": "Rome",
        "$event": "an attribute",
        "$gap": 1,
    }
)


@given(st.dictionaries(NAMES, values(wild=True), max_size=6))
@example(dict(EVERYTHING))
def test_a_line_that_is_read_again_is_the_same_notification(attributes: dict[str, Value]) -> None:
    notification = Notification(attributes)
    line = as_line(notification, IDENTITY, past=False)
    assert line.isprintable()
    read = read_line(line.encode())
    assert read is not None
    assert same(read, notification)


def test_a_line_tells_where_a_notification_comes_from() -> None:
    assert json.loads(as_line(Notification(n=1), IDENTITY, past=True)) == {
        "n": 1,
        "$event": {
            "origin": "berlin",
            "epoch": 1_782_900_000_000_000,
            "seq": 7,
            "publisher": "feed",
            "published_at": "2026-07-01T10:00:00.000125Z",
            "past": True,
        },
    }


def test_the_form_is_the_documented_one() -> None:
    page = (Path(__file__).parents[2] / "docs" / "operations.md").read_text()
    (line,) = [line for line in page.splitlines() if line.startswith('{"symbol":"SAP"')]
    at = datetime(2026, 7, 1, 10, tzinfo=UTC)
    assert as_line(Notification(symbol="SAP", price=182.4, at=at), IDENTITY, past=False) == line


def test_the_largest_notification_fits_into_a_line() -> None:
    notification = Notification({"text": "\x00" * (MAX_TEXT - 100)})  # each becomes six characters
    assert len(encode_body(notification)) > 1_048_000
    line = as_line(notification, IDENTITY)
    assert len(line) < MAX_LINE
    assert read_line(line) == notification


def test_a_loss_is_no_notification() -> None:
    assert read_line(gap_as_line(Gap("b", 1, 3, None))) is None
    assert read_line('{"$gap": {"origin": "b", "epoch": 1, "first": 3, "last": 5}}') is None


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("nonsense", "not a JSON document: it begins with 'nonsense'"),
        ('{"a": 1, b: 2}', "'b: 2}' does not fit at byte 10"),
        ('{"a": "x', "it ends too early, after"),
        ('{"a": 1e999}', "a number is too large for a float"),
        ('{"a": 99999999999999999999}', "attribute 'a': a number of 67 bits"),
        ("[1, 2]", "[1,2] has no names; write a JSON object"),
        ('{"a": {"$bytes": "AP8"}}', "attribute 'a': \"AP8\" is not a value of $bytes; write base64"),
        (
            '{"a": [1, {"$time": "2026-07-01T10:00:00"}]}',
            "attribute 'a': \"2026-07-01T10:00:00\" is not a value of $time",
        ),
        ('{"a": {"b": {"$location": 5}}}', "attribute 'a.b': 5 is not a value of $location; write a path"),
        ('{"$event": 5}', "5 is not what `tidings sub --json` prints as '$event'; leave it out, or write '$$event'"),
        ('{"$gap": {"first": 1}, "n": 1}', "is not what `tidings sub --json` prints as '$gap'"),
    ],
)
def test_what_is_no_notification_is_refused_with_the_value(line: str, told: str) -> None:
    with pytest.raises(ValueRefused) as refusal:
        read_line(line)
    assert told in str(refusal.value)
    assert "msgspec" not in str(refusal.value)


def test_other_documents_are_taken_as_they_are() -> None:
    document = '{"order": {"items": [{"sku": "A7"}, {"sku": "B2"}], "note": null}, "$oid": "x"}'
    assert read_line(document) == Notification({"order.items.sku": ["A7", "B2"], "$oid": "x"})


# --- with real processes ------------------------------------------------------------------------------


@pytest.fixture
def two_brokers(tmp_path: Path) -> Iterator[tuple[str, str]]:
    with (
        serving(Options(name="berlin", port=0, data=tmp_path / "berlin")) as berlin,
        serving(Options(name="paris", port=0, data=tmp_path / "paris")) as paris,
    ):
        yield berlin, paris


def test_sub_piped_into_pub_is_the_identity(two_brokers: tuple[str, str]) -> None:
    berlin, paris = two_brokers
    published = [EVERYTHING, Notification(n=1), Notification(n=2.0), *(Notification(n=n) for n in range(100))]
    with sync.connect(berlin, name="feed") as client:
        client.publish_many(published, quality="stored")
    count = str(len(published))
    tidings_ = f"{sys.executable} -m tidings"
    pipe = f"{tidings_} sub TRUE --past 1h --json --count {count} --broker {berlin} | {tidings_} pub - --broker {paris}"
    with sync.connect(paris) as client:
        subscription = client.subscribe("TRUE", with_origin=True)
        done = subprocess.run(["bash", "-c", pipe], capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, done.stdout) == (0, f"published {count}\n"), done.stderr
        copies = [subscription.receive(timeout=30) for _ in published]
    for original, copy in zip(published, copies, strict=True):
        assert isinstance(copy, tidings.Traced)
        assert same(original, copy)
        assert copy.identity.origin == "paris", "the broker stamps what it takes"


def test_what_a_store_holds_can_be_published_again(two_brokers: tuple[str, str], tmp_path: Path) -> None:
    berlin, paris = two_brokers
    with sync.connect(berlin) as client:
        client.publish(EVERYTHING, quality="stored")
    tidings_ = f"{sys.executable} -m tidings"
    query = f"{tidings_} history query --json --data {tmp_path / 'berlin'}"
    with sync.connect(paris) as client:
        subscription = client.subscribe("TRUE")
        pipe = f"set -o pipefail; {query} | {tidings_} pub - --broker {paris}"
        done = subprocess.run(["bash", "-c", pipe], capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, done.stdout) == (0, "published 1\n"), done.stderr
        copy = subscription.receive(timeout=30)
    assert copy is not None
    assert same(EVERYTHING, copy)


def test_losses_in_the_input_are_told(two_brokers: tuple[str, str]) -> None:
    lines = f"{gap_as_line(Gap('b', 1, 3, 5))}\n{as_line(Notification(n=1), IDENTITY)}\n"
    command = [sys.executable, "-m", "tidings", "pub", "-", "--broker", two_brokers[1]]
    done = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "published 1\n")
    assert "skipped 1 lines that report losses" in done.stderr
