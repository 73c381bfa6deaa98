"""The commands against a broker in the same process."""

from __future__ import annotations

import asyncio
import io
import json
import re
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import typer
from rich.console import Console
from serving import serving
from typer.testing import CliRunner, Result

import tidings
from tidings import model, sync
from tidings.broker import RoutingOptions
from tidings.cli import app
from tidings.cli._json_lines import gap_as_line
from tidings.cli._readable_lines import Lines, gap_as_text
from tidings.cli._status import tree_of
from tidings.cli._sub import _Printer
from tidings.cli._top import rates, silence
from tidings.cli._values import notification_of, value_of
from tidings.net import Access, AccessEntry, Options
from tidings.wire import Counters, Gap, Status, TreeStatus

TOKEN = "a-token-for-the-tests"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An open broker with a store, and one behind it that asks for tokens."""
    with serving(Options(name="cli", port=0, data=tmp_path_factory.mktemp("store"))) as url:
        yield url


@pytest.fixture(scope="module")
def closed() -> Iterator[str]:
    """A broker that asks for a token."""
    with serving(Options(name="closed", port=0, access=Access({TOKEN: AccessEntry("someone")}))) as url:
        yield url


def tidings_(*words: str, input: str | None = None, env: dict[str, str] | None = None) -> Result:
    return CliRunner().invoke(app, list(words), input=input, env=env)


# --- values -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("182.4", 182.4),
        ("-7", -7),
        ("1e3", 1000.0),
        ("true", True),
        ("True", "True"),
        ("SAP", "SAP"),
        ('"7"', "7"),
        ('"say \\"hi\\""', 'say "hi"'),
        ("01067", "01067"),
        ("", ""),
        ("a=b", "a=b"),
        ("[a,b]", ["a", "b"]),
        ('[1, 2.5, "c,d", true]', [1, 2.5, "c,d", True]),
        ("[]", []),
        ("[a", "[a"),
        ("1_000", "1_000"),
        ("2026-07-01", "2026-07-01"),
        ('"nan"', "nan"),
        ('"null"', "null"),
        ("Nan", "Nan"),
        ('{"b":1}', {"b": 1}),
        ('{"b": {"c": [1, 2.0]}}', {"b": {"c": [1, 2.0]}}),
        ('{"$bytes": "AP8="}', b"\x00\xff"),
        ('{"$location": "/rome"}', tidings.Location("/rome")),
        ('[{"b": 1}, {"b": 2}]', [{"b": 1}, {"b": 2}]),
        ("[[1, 2], [3]]", [[1, 2], [3]]),
        ('[01067, "7"]', ["01067", "7"]),
    ],
)
def test_the_form_of_a_value_tells_its_type(text: str, value: object) -> None:
    found = value_of(text)
    assert found == value
    assert type(found) is type(value)


def test_a_time_has_a_zone() -> None:
    notification = notification_of(["at=2026-07-01T12:00:00+02:00"])
    assert notification == tidings.Notification(at=datetime(2026, 7, 1, 10, tzinfo=UTC))


def test_json_on_the_command_line_means_what_json_means() -> None:
    words = ['venue={"city": "Rome", "floors": [1, 2]}', 'items=[{"sku": "A7"}, {"sku": "B2"}]', "n=[[1, 2], [3]]"]
    expected = {"venue.city": "Rome", "venue.floors": (1, 2), "items.sku": ("A7", "B2"), "n": (1, 2, 3)}
    assert notification_of(words) == tidings.Notification(expected)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["price"], "'price' is not of the form name=value"),
        (["=7"], "'=7' is not of the form name=value"),
        (["a=1", "a=2"], "'a' is given twice"),
        (['a={"b":1}', "a.b=2"], "attribute 'a.b' is given twice"),
        (['a=["x]'], 'a: ["x] is not a list'),
        (["n=99999999999999999999"], "attribute 'n': a number of 67 bits"),
        (["a=nan"], """a: nan cannot be compared; leave the attribute out, or write '"nan"' for the text"""),
        (["a=-Infinity"], "a: -Infinity cannot be compared"),
        (["a=1e999"], "attribute 'a': inf cannot be compared"),
        (["a=null"], """a: null is not a value; leave the attribute out, or write '"null"' for the text"""),
        (["a=[x,null]"], "a: null is not a value"),
        (['a={"b":null}'], 'a: null in {"b":null} is not a value'),
        (["a={b}"], "a: not a JSON document: 'b}' does not fit at byte 2"),
        (["a={}"], "a: {} holds no attribute"),
        (['a={"$time":"noon"}'], '"noon" is not a value of $time'),
    ],
)
def test_what_is_no_attribute_is_refused(words: list[str], told: str) -> None:
    with pytest.raises(tidings.TidingsError) as refusal:
        notification_of(words)
    assert told in str(refusal.value)


# --- lines --------------------------------------------------------------------------------------------


def test_lines_are_aligned_and_cannot_move_the_cursor() -> None:
    lines, at = Lines(), datetime(2026, 7, 1, 12)
    first = lines.line(tidings.Notification(symbol="LONGER", price=1), at).plain
    second = lines.line(tidings.Notification(symbol="A", price=2), at).plain
    assert first.index("price") == second.index("price")
    assert first.startswith("12:00:00.000  symbol=LONGER")
    nasty = lines.line(tidings.Notification(text="\x1b[2Jboo\r\n"), at).plain
    assert nasty.isprintable()
    shown = lines.line(tidings.Notification(a=True, b=b"\x01", c=tidings.Location("x/y"), d=[1, "z"]), at).plain
    assert shown.endswith("a=true  b=X'01'  c=/x/y  d=[1,z]")


def test_gaps_are_shown() -> None:
    assert "numbers 3 to 5 from broker b" in gap_as_text(Gap("b", 1, 3, 5)).plain
    assert "an unknown number" in gap_as_text(Gap("b", 1, 3, None)).plain
    assert json.loads(gap_as_line(Gap("b", 1, 3, None)))["$gap"]["first"] == 3


# --- pub and sub --------------------------------------------------------------------------------------


def test_publish_prints_the_key_of_the_event(address: str) -> None:
    plain = tidings_("pub", "--broker", address, "type=quote", "price=182.4")
    assert plain.exit_code == 0
    assert plain.stdout.startswith("cli/")
    stored = tidings_("pub", "--broker", address, "--quality", "stored", "--json", "n=1")
    assert json.loads(stored.stdout)["event"]["origin"] == "cli"
    counted = tidings_("pub", "--broker", address, "--count-receivers", "n=1")
    assert counted.stdout.splitlines()[1] == "received by 0 clients"
    said = json.loads(tidings_("pub", "--broker", address, "--count-receivers", "--json", "n=1").stdout)
    assert said["receivers"] == {"handled": 0, "unknown": 0, "complete": True, "withheld": False}
    fired = tidings_("pub", "--quality", "fire", "n=1", env={"TIDINGS_BROKER": address})
    assert fired.stdout == "sent\n"


def test_many_are_published_from_stdin(address: str) -> None:
    with sync.connect(address) as client:
        subscription = client.subscribe("EXISTS(line)")
        text = "".join(f'{{"line": {n}}}\n' for n in range(500)) + "\n"
        assert tidings_("pub", "-b", address, "-", input=text).stdout == "published 500\n"
        assert [next(subscription)["line"] for _ in range(500)] == list(range(500))
        assert json.loads(tidings_("pub", "-b", address, "--json", "-", input="").stdout) == {"published": 0}


def test_a_bad_line_is_named(address: str) -> None:
    result = tidings_("pub", "-b", address, "-", input='{"n": 1}\n\nnonsense\n{"n": 2}\n')
    assert result.exit_code == 2
    assert "line 3 of stdin" in result.stderr
    assert "The one before it was published" in result.stderr


def _publishing(address: str, stop: threading.Event) -> threading.Thread:
    """Somebody who publishes until the subscriber has seen enough."""

    def work() -> None:
        with sync.connect(address) as client:
            while not stop.wait(0.02):
                client.publish(type="quote", symbol="SAP", price=182.4)
                client.publish(type="quote", symbol="ABC", price=12.5)

    thread = threading.Thread(target=work)
    thread.start()
    return thread


def test_browse_prints_what_is_advertised(address: str) -> None:
    advertised = RoutingOptions("covering", advertisements=True)
    with serving(Options(name="shop", port=0, routing=advertised)) as shop, sync.connect(shop) as publisher:
        empty = tidings_("browse", "-b", shop)
        assert (empty.exit_code, empty.stdout) == (0, "")
        assert "nothing of this kind is advertised" in empty.stderr
        publisher.advertise("type = 'quote' AND price > 100")
        publisher.advertise("type = 'news'")
        assert tidings_("browse", "-b", shop).stdout == "price > 100 AND type = 'quote'\ntype = 'news'\n"
        narrow = tidings_("browse", "type = 'quote'", "-b", shop, "--json").stdout
        assert json.loads(narrow) == {"filter": "price > 100 AND type = 'quote'"}
    refused = tidings_("browse", "-b", address)
    assert refused.exit_code == 1
    assert "routes without advertisements" in refused.stderr


def test_what_is_advertised_can_be_published_from_the_command_line() -> None:
    advertised = RoutingOptions("covering", advertisements=True)
    with serving(Options(name="shop", port=0, routing=advertised)) as shop, sync.connect(shop) as client:
        subscription = client.subscribe("type = 'quote'")
        refused = tidings_("pub", "-b", shop, "type=quote", "n=1")
        assert refused.exit_code == 1
        assert "advertise" in refused.stderr
        announced = ("--advertise", "type = 'quote'")
        assert tidings_("pub", "-b", shop, *announced, "type=quote", "n=2").exit_code == 0
        lines = '{"type": "quote", "n": 3}\n{"type": "quote", "n": 4}\n'
        assert tidings_("pub", "-b", shop, *announced, "-", input=lines).stdout == "published 2\n"
        assert [subscription.receive(timeout=30)["n"] for _ in range(3)] == [2, 3, 4]  # type: ignore[index]
        beyond = tidings_("pub", "-b", shop, *announced, "type=news")
        assert beyond.exit_code == 1
        wrong = tidings_("pub", "-b", shop, "--advertise", "type =", "type=news")
        assert (wrong.exit_code, "column 7: " in wrong.stderr) == (2, True)


@pytest.mark.parametrize("as_json", [True, False])
def test_subscribe_prints_what_passes_the_filter(address: str, as_json: bool) -> None:
    stop = threading.Event()
    thread = _publishing(address, stop)
    result = tidings_("sub", "price > 100", "-b", address, "--count", "2", *(["--json"] if as_json else []))
    stop.set()
    thread.join()
    assert result.exit_code == 0
    assert "subscribed at cli to price > 100" in result.stderr
    lines = result.stdout.splitlines()
    assert len(lines) == 2
    if as_json:
        told = json.loads(lines[0])
        assert told.pop("$event")["origin"] == "cli"
        assert told == {"type": "quote", "symbol": "SAP", "price": 182.4}
    else:
        assert "symbol=SAP  price=182.4" in lines[0]


def test_subscribers_of_an_acknowledged_group_acknowledge_what_they_print(address: str) -> None:
    words = ("sub", "type = 'job'", "-b", address, "--group", "printers", "--ack", "--json", "--count", "1")
    words = (*words, "--no-dead-letters")
    endless = tidings.Acks(max_deliveries=None)
    with sync.connect(address) as client, client.subscribe("type = 'job'", group="printers", ack=endless):
        pass  # from now on, what is published waits for the group
    for n in (1, 2):
        assert tidings_("pub", "-b", address, "type=job", f"n={n}").exit_code == 0
    assert [json.loads(tidings_(*words).stdout)["n"] for _ in range(2)] == [1, 2]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--ack",), "--ack needs the name of a group; give one with --group"),
        (
            ("--group", "g", "--no-dead-letters"),
            "--no-dead-letters is about jobs that are acknowledged; give --ack, too",
        ),
    ],
)
def test_there_is_nothing_to_acknowledge_without_a_group(address: str, words: tuple[str, ...], reason: str) -> None:
    result = tidings_("sub", "TRUE", "-b", address, *words)
    assert (result.exit_code, reason in result.stderr) == (2, True)


@pytest.mark.parametrize(("bound", "expected"), [("2", [3, 4]), ("1h", [1, 2, 3, 4]), ("3,1h", [2, 3, 4])])
def test_subscribe_begins_with_the_past(address: str, bound: str, expected: list[int]) -> None:
    kind = f"past {bound}"
    for n in (1, 2, 3, 4):
        assert tidings_("pub", "-b", address, f"type={kind}", f"n={n}").exit_code == 0
    words = ("sub", f"type = '{kind}'", "-b", address, "--past", bound, "--json", "--count", str(len(expected)))
    result = tidings_(*words, "--timeout", "20")
    assert [json.loads(line)["n"] for line in result.stdout.splitlines()] == expected
    before = datetime.now()
    late = tidings_("sub", f"type = '{kind}'", "-b", address, "--past", "2020-01-01", "--best-effort", "--count", "4")
    lines = late.stdout.splitlines()
    assert len(lines) == 4
    assert all(line.startswith("past  ") for line in lines)
    assert all(line[6:18] < f"{before:%H:%M:%S.%f}" for line in lines), "the times are those of publication"


def test_lines_say_what_is_past_and_what_is_live_if_they_are_to_be_told_apart(
    capsys: pytest.CaptureFixture[str],
) -> None:
    identity = model.Identity("b", 1, 1, "feed", 1, published_at=round(datetime.now().timestamp() * 1e6))
    printer = _Printer(marked=True)
    for from_past in (True, False):
        printer.notification(tidings.Traced.of(tidings.Notification(n=1), identity, from_past))
    first, second = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"past  \d\d:\d\d:\d\d\.\d{3}  n=1", first)
    assert re.fullmatch(r"live  \d\d:\d\d:\d\d\.\d{3}  n=1", second)


def test_what_was_published_on_another_day_has_a_date(capsys: pytest.CaptureFixture[str]) -> None:
    at = datetime(2026, 1, 2, 3, 4, 5, 678_900).astimezone()
    old = model.Identity("b", 1, 1, "feed", 1, published_at=round(at.timestamp() * 1e6))
    new = model.Identity("b", 1, 1, "feed", 1, published_at=round(datetime.now().timestamp() * 1e6))
    printer = _Printer()
    printer.notification(tidings.Traced.of(tidings.Notification(n=1), old, True))
    printer.notification(tidings.Traced.of(tidings.Notification(n=2), new, False))
    first, second = capsys.readouterr().out.splitlines()
    assert first == "2026-01-02 03:04:05.678  n=1"
    assert re.fullmatch(r"\d\d:\d\d:\d\d\.\d{3}  n=2", second)


@pytest.mark.parametrize(
    ("bound", "words"),
    [
        ("-1", "--past -1: '-1' is neither a duration"),
        ("5 minutes", "'5 minutes' is neither a duration"),
        ("0s", "above 0"),
        ("x,5m", "'x' is not a number"),
        ("5,", "nothing follows the comma"),
        ("5,soon", "--past 5,soon: 'soon' is neither a duration nor an instant; write 10, 5m, or 10,5m\n"),
        ("soon", "--past soon: 'soon' is neither a duration nor an instant; write 10, 5m, or 10,5m\n"),
        ("99999999", "from 0 to 1,000,000"),
        ("2026-13-01", "'2026-13-01' is not an instant"),
        pytest.param("9" * 5_000, "--past 99999999999999999999...: 5,000 characters are too many", id="long count"),
        pytest.param(f"10,{'9' * 5_000}", "5,003 characters are too many", id="long duration"),
    ],
)
def test_a_bound_that_cannot_be_is_explained(address: str, bound: str, words: str) -> None:
    result = tidings_("sub", "TRUE", "-b", address, "--past", bound)
    assert result.exit_code == 2
    assert words in result.stderr
    assert "write 10, 5m, or 10,5m" in result.stderr
    assert len(result.stderr) < 300


def test_durable_and_past_exclude_each_other(address: str) -> None:
    result = tidings_("sub", "TRUE", "-b", address, "--past", "5", "--durable", "x", "--client", "c")
    assert result.exit_code == 2
    assert "choose one" in result.stderr


def test_subscribe_gives_up_after_a_while(address: str) -> None:
    result = tidings_("sub", "EXISTS(never)", "-b", address, "--count", "1", "--timeout", "0.1")
    assert result.exit_code == 1
    assert "fewer than 1 notifications" in result.stderr
    assert tidings_("sub", "EXISTS(never)", "-b", address, "--timeout", "0.1").exit_code == 0


# --- looking ------------------------------------------------------------------------------------------


def test_status_topology_and_top(address: str) -> None:
    status = tidings_("status", "-b", address, "--filters")
    assert status.exit_code == 0
    assert "cli (border)" in status.stdout
    assert json.loads(tidings_("status", "-b", address, "--json").stdout)["name"] == "cli"
    assert tidings_("topology", "-b", address).stdout == "cli\n"
    assert json.loads(tidings_("topology", "-b", address, "--json").stdout)["brokers"] == ["cli"]
    top = tidings_("top", "-b", address, "--once", "--interval", "0.1")
    assert "published" in top.stdout
    found = json.loads(tidings_("top", "-b", address, "--once", "--json", "--interval", "0.1").stdout)
    assert found["rates"]["messages_in"] > 0
    assert found["status"]["name"] == "cli"


def test_the_tree_is_drawn_from_the_broker_that_was_asked() -> None:
    edges = (("a", "b"), ("b", "c"), ("b", "d"))
    tree = TreeStatus(epoch=1, neighbours=("b",), hops={"b": "b", "c": "b", "d": "b"}, edges=edges, spare=())
    out = io.StringIO()
    Console(file=out, width=40).print(tree_of("a", tree))
    assert out.getvalue() == "a\n└── b\n    ├── c\n    └── d\n"


def test_a_broker_that_does_not_answer_is_told_from_one_that_is_idle() -> None:
    async def watch() -> list[float]:
        asked: asyncio.Future[Status] = asyncio.get_running_loop().create_future()
        told = []
        async for silent in silence(asked, 0.0):
            told.append(silent)
            asked.set_result(_status(1, 1.0, 0))
        return told

    (silent,) = asyncio.run(watch())
    assert silent >= 1.0


def _status(epoch: int, uptime: float, published: int) -> Status:
    counters = Counters(
        messages_in={"Publish": published}, messages_out={}, stale_frames=0, refused=0, repeated_publications=0, gaps=0
    )
    tree = TreeStatus(epoch=0, neighbours=(), hops={}, edges=(), spare=())
    return Status(
        name="b", epoch=epoch, role="border", version="0", uptime=uptime, host="", port=0, draining=False, clients=0,
        brokers=0, peers=(), peers_left_out=0, dialled=(), subscriptions=0, advertisements=0, counters=counters,
        tree=tree, suspended=(), routing={}, limits={}, store=None,
    )  # fmt: skip


def test_rates_are_differences_and_start_again_with_the_broker() -> None:
    assert rates(_status(1, 10, 100), _status(1, 12, 300))["published"] == 100
    assert rates(_status(1, 10, 100), _status(2, 4, 8))["published"] == 2


# --- errors -------------------------------------------------------------------------------------------


def test_errors_are_one_message_with_a_remedy_and_a_code(address: str, closed: str, tmp_path: Path) -> None:
    rubbish = tmp_path / "rubbish.pem"
    rubbish.write_text("rubbish")
    token = tmp_path / "token"
    token.write_text("a-token-that-is-long-enough")
    for words, code, told in [
        (["pub", "-b", "tidings://127.0.0.1:1", "n=1"], 3, "Is the server running?"),
        (
            ["pub", "-b", "tidings://nowhere.invalid", "n=1"],
            3,
            ":7311: this host name is not known; check its spelling",
        ),
        (["pub", "-b", "http://x", "n=1"], 2, "write tidings://host:port"),
        (["pub", "-b", "tidings://192.0.2.1", "--token-file", str(token), "n=1"], 4, "tidings+tls://192.0.2.1:7311"),
        (["sub", "TRUE", "-b", "tidings://192.0.2.1", "--token-file", str(token)], 4, "--insecure"),
        (["pub", "-b", address, "n"], 2, "not of the form name=value"),
        (["pub", "-b", address, f"n={'9' * 5_000}"], 2, "a number of 5,000 digits"),
        (["sub", "-b", address, "TRUE", "--past", f"{'9' * 90}h"], 2, "is too long; give a duration"),
        (["pub"], 2, "NAME=VALUE"),
        (["pub", "-b", address, "--quality", "best", "n=1"], 2, "accepted"),
        (["sub", "price >", "-b", address], 2, "column 8: "),
        (["sub", "TRUE", "-b", closed], 4, "neither a token nor a certificate"),
        (["status", "-b", address, "--token-file", str(tmp_path / "none")], 2, "--token-file"),
        (["status", "-b", address, "--ca", str(rubbish)], 2, "PEM"),
        (["status", "-b", address, "--cert", str(rubbish)], 2, "belong together"),
        (["serve", "--host", "0.0.0.0"], 5, "--insecure"),
        (["serve", "--neighbour", "http://paris"], 2, "tidings://host:port"),
        (["pub", "-b", "", "n=1"], 2, "--broker: '' is not the address of a broker; write tidings://host:port"),
        (["pub", "-b", "http://localhost", "n=1"], 2, "'http://localhost' is not the address of a broker"),
        (["sub", "TRUE", "-b", "localhost:0"], 2, "a port from 1 to 65535"),
        (["status", "-b", "tidings://token@localhost"], 2, "--token-file"),
        (["serve", "--log-level", "loud"], 2, "debug, info"),
        (["serve", "--data", "x", "--no-store"], 2, "choose one"),
        (["serve", "--port", "70000"], 2, "--port 70000: write a whole number, from 0 to 65,535"),
        (["serve", "--port", "x"], 2, "--port x: write a whole number, from 0 to 65,535"),
        (["serve", "--name", ""], 2, "--name '': a text of 0 characters; write 1 to 256 characters"),
        (["serve", "--host", ""], 2, "--host '': a text of 0 characters"),
        (["serve", "--role", "king"], 2, "--role king: choose one of border, inner"),
        (["serve", "--prot", "1"], 2, "there is no option --prot; did you mean --port? `tidings serve --help`"),
        (["serve", "--port"], 2, "--port needs a value"),
        (["serve", "--no-store=yes"], 2, "--no-store takes no value"),
        (["serve", "now"], 2, "'now' is one word too many"),
        (["sub", "type", "=", "'quote'"], 2, "put text with spaces in quotes"),
        (["sub", "quotes.>"], 2, "Write type = 'quotes'"),
        (["sub"], 2, "FILTER is missing; `tidings sub --help`"),
        (["--frobnicate"], 2, "there is no option --frobnicate; `tidings --help`"),
        (["scope", "creat", "x"], 2, "there is no command creat; did you mean create? `tidings scope --help`"),
        (["pub", "-b", address, "--ttl", "nan", "n=1"], 2, "--ttl nan: write a number of seconds, 0 or more"),
        (
            ["serve", "--config", str(tmp_path / "none.toml")],
            6,
            "none.toml: cannot be read: No such file or directory; name",
        ),
        (["serve", "--data", str(rubbish)], 5, f"the directory '{rubbish}' cannot be used: File exists; choose one"),
        (["frobnicate"], 2, "frobnicate"),
    ]:
        result = tidings_(*words)
        assert (result.exit_code, told in " ".join(result.stderr.split())) == (code, True), (words, result.stderr)
        assert "server running" not in result.stderr or "nothing listens" in result.stderr
        assert "Traceback" not in result.output


def test_a_token_may_come_from_a_file_or_the_environment(closed: str, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(TOKEN + "\n")
    assert tidings_("pub", "-b", closed, "--token-file", str(file), "n=1").exit_code == 0
    assert tidings_("pub", "-b", closed, "n=1", env={"TIDINGS_TOKEN": TOKEN}).exit_code == 0
    refused = tidings_("top", "-b", closed, "--once", env={"TIDINGS_TOKEN": TOKEN})
    assert refused.exit_code == 1
    assert "right to administer" in refused.stderr


def test_a_name_that_is_taken_is_told(address: str) -> None:
    with sync.connect(address, name="me"):
        result = tidings_("sub", "TRUE", "-b", address, "--client-name", "me")
        assert result.exit_code == 4
        assert "client 'me' is already connected" in result.stderr


def test_a_bug_is_told_without_a_traceback_unless_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: object, **kwargs: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr("tidings.cli._connection.connect", broken)
    result = tidings_("pub", "n=1")
    assert result.exit_code == 1
    assert "tidings --debug" in result.stderr
    assert isinstance(tidings_("--debug", "pub", "n=1").exception, RuntimeError)


def commands(group: Any, *names: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command below a group, with the words that lead to it."""
    for name, known in group.commands.items():
        command = known.load() if hasattr(known, "load") else known  # a stand-in has no options, and no commands
        yield from commands(command, *names, name) if hasattr(command, "commands") else [((*names, name), command)]


EVERY_COMMAND = pytest.mark.parametrize(
    ("words", "command"), [pytest.param(*one, id=" ".join(one[0])) for one in commands(typer.main.get_command(app))]
)


@EVERY_COMMAND
def test_help_shows_what_is_written_of_each_command_and_option(words: tuple[str, ...], command: Any) -> None:
    shown = tidings_(*words, "--help", env={"COLUMNS": "400"}).stdout
    for line in filter(None, map(str.strip, command.help.split("\n"))):
        assert line.replace("\\[", "[") in shown
    for option in command.params:
        assert option.help.replace("\\[", "[") in shown
        if isinstance(option.show_default, str):
            assert f"[default: ({option.show_default})]" in shown


@EVERY_COMMAND
def test_help_shows_no_types_of_python(words: tuple[str, ...], command: Any) -> None:
    for shown in (tidings_(*words, "--help"), tidings_(*words[:-1], "--help")):
        assert "<" not in shown.stdout, "no <bool>, <str>, <path>"
        assert "x>=" not in shown.stdout


@EVERY_COMMAND
def test_every_option_that_is_no_text_refuses_in_our_words(words: tuple[str, ...], command: Any) -> None:
    for option in command.params:
        annotation = str(option.type_descriptor.annotation)
        if option.param_type_name == "option" and not option.is_flag and not re.search("str|Path", annotation):
            result = tidings_(*words, option.opts[0], "rubbish")
            assert result.exit_code == (1 if words == ("scope", "plan") else 2), "2 says that something would change"
            assert re.match(rf"tidings: {max(option.opts, key=len)} '?rubbish'?.*(write|choose)", result.stderr), (
                result.stderr
            )


def test_help_and_version() -> None:
    assert "Exit codes" in tidings_("--help").stdout
    assert tidings_("--version").stdout.startswith("tidings 0.")
    for command in ("serve", "pub", "sub", "browse", "top", "status", "topology", "demo", "config"):
        assert command in tidings_("--help").stdout
        assert tidings_(command, "--help").exit_code == 0
