"""Names that would forge a line of a log, or command a terminal: they are shown, and do nothing."""

from __future__ import annotations

import io
import json
import logging
import socket
import sys

import pytest
from cli.test_processes import Commands, commands  # noqa: F401 - a fixture

import tidings.sync
from tidings.cli._logs import JsonFormatter, LineFormatter
from tidings.cli._printable import printable, printable_json, printable_lines
from tidings.wire import Hello, Part, PeerRole, encode_words, part

EVIL = "eve\n12:00:00 ERROR   broker bob has failed\r\x1b[2J\x1b]0;owned\x07\x9b31m\u2028\u202e"
"""A new line, a cleared screen, a new title, colours twice (the second in one byte), a line, a direction."""
LOOKS = "status", "status --json", "top --once", "scope tree", "scope show market", "scope log", "scope log --json"
HARMFUL = set(EVIL) - set(filter(str.isprintable, EVIL))


def harmless(text: str) -> bool:
    return not (HARMFUL - {"\n"}) & set(text) and "\n12:00:00 ERROR" not in text


def records() -> list[logging.LogRecord]:
    try:
        raise ValueError(EVIL)
    except ValueError:
        failed = logging.LogRecord("tidings.net", logging.ERROR, "", 1, "%s failed", (EVIL,), sys.exc_info())
    return [logging.LogRecord("tidings.net", logging.INFO, "", 1, "client %s connected", (EVIL,), None), failed]


def test_a_record_is_one_line_and_what_follows_it_looks_like_no_record() -> None:
    plain, failed = (LineFormatter("%(levelname)s %(message)s").format(one) for one in records())
    assert plain == f"INFO client {printable(EVIL)} connected"
    first, *trace = failed.split("\n")
    assert first == f"ERROR {printable(EVIL)} failed"
    assert len(trace) > 2
    assert all(line.startswith("    ") for line in trace)
    assert harmless(failed)


def test_a_record_in_json_is_one_line_and_says_what_it_said() -> None:
    for record in records():
        line = JsonFormatter("b").format(record)
        assert "\n" not in line
        assert harmless(line)
        assert json.loads(line)["message"] == record.getMessage()


@pytest.mark.parametrize("text", ["", "plain", "Zürich 東京 🙂", EVIL, "a\tb", "\ud800", "\U000e0001"])
def test_whatever_it_is_it_can_be_printed_and_json_stays_what_it_was(text: str) -> None:
    assert printable(text).isprintable()
    assert all(line.isprintable() for line in printable_lines(text).split("\n"))
    document = json.dumps({"x": text}, ensure_ascii=False)
    assert printable_json(document).isprintable()
    assert json.loads(printable_json(document)) == {"x": text}
    io.TextIOWrapper(io.BytesIO(), encoding="utf-8").write(printable_json(document))


@pytest.mark.parametrize("form", [pytest.param([], marks=pytest.mark.soak), ["--log-json"]], ids=["text", "json"])
def test_names_do_nothing_in_logs_and_in_what_commands_show(commands: Commands, form: list[str]) -> None:  # noqa: F811
    server, told = commands.serve("--no-store", "--log-level", "debug", *form)
    with socket.create_connection(("127.0.0.1", int(str(told["port"])))) as bad:
        bad.sendall(part(Part.HELLO, encode_words(Hello((1,), PeerRole.CLIENT, f"{EVIL}2"))))
        bad.sendall(part(Part.DATA, b"\xc1"))
        bad.recv(1_000)
    shown = []
    with tidings.sync.connect(str(told["url"]), name=EVIL) as client:
        client.admin.create_scope("market", attributes={"said": EVIL})
        with pytest.raises(tidings.ScopeError) as refused:
            client.admin.join(f"@{EVIL}", "market")
        assert harmless(str(refused.value))
        looks = LOOKS if not form else LOOKS[:1]  # what commands show does not depend on the log
        for command in looks:
            words = command.split()
            code, out, error = commands.start(*words, "--broker", str(told["url"])).end()
            assert code == 0, error
            shown.append(out)
        code, out, error = commands.start("pub", "--broker", str(told["url"]), "--client-name", EVIL, "n=1").end()
        assert code != 0
        assert not (HARMFUL - {"\n"}) & set(error)  # a message may have several lines
    server.signal(15)
    shown.append(server.end()[2])
    for command, text in zip((*looks, "serve"), shown, strict=True):
        assert "eve" in text or command == "scope tree"
        assert harmless(text)
