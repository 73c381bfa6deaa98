"""The command as users run it: real processes, real signals."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import re
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

import tidings.sync
from tidings.store import StoreReader

ROOT = Path(__file__).parents[2]
PATIENCE = 30.0


class Process:
    """A command that runs."""

    def __init__(self, *words: str, cwd: Path, **env: str) -> None:
        ours = {"XDG_DATA_HOME": str(cwd), "PYTHONWARNINGS": "error", "PYTHONUNBUFFERED": "1", "COLUMNS": "200"}
        self._process = subprocess.Popen(
            [sys.executable, *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
            env={**os.environ, **ours, **env},
            cwd=cwd,
        )

        self._lines = {name: self._pump(name) for name in ("stdout", "stderr")}

    def _pump(self, name: str) -> tuple[queue.Queue[str], threading.Thread]:
        """Read a stream all the time: a pipe that nobody reads would stop the process."""
        lines: queue.Queue[str] = queue.Queue()

        def read() -> None:
            with getattr(self._process, name) as stream:
                for line in stream:
                    lines.put(line)

        thread = threading.Thread(target=read)
        thread.start()
        return lines, thread

    def line(self, stream: str = "stdout", patience: float = PATIENCE) -> str:
        """The next line, without waiting for ever; queue.Empty if none came."""
        return self._lines[stream][0].get(timeout=patience)

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def end(self) -> tuple[int, str, str]:
        """The exit code, the rest of stdout and of stderr."""
        code = self._process.wait(PATIENCE)
        rest = []
        for lines, thread in self._lines.values():
            thread.join()
            rest.append("".join(lines.queue))
        return code, rest[0], rest[1]

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self.end()


class Commands:
    """Starts commands, and ends what a test has left."""

    def __init__(self, cwd: Path) -> None:
        self.cwd = cwd
        self._running: list[Process] = []

    def start(self, *words: str, **env: str) -> Process:
        self._running.append(Process("-m", "tidings", *words, cwd=self.cwd, **env))
        return self._running[-1]

    def python(self, code: str) -> Process:
        self._running.append(Process("-c", code, cwd=self.cwd))
        return self._running[-1]

    def serve(self, *words: str) -> tuple[Process, dict[str, object]]:
        server = self.start("serve", "--port", "0", "--json", *words)
        return server, json.loads(server.line())

    def end(self) -> None:
        for process in self._running:
            process.kill()


@pytest.fixture
def commands(tmp_path: Path) -> Iterator[Commands]:
    found = Commands(tmp_path)
    yield found
    found.end()


def attributes(line: str) -> dict[str, object]:
    """What `sub --json` prints, without where it comes from."""
    return {name: value for name, value in json.loads(line).items() if name != "$event"}


def test_serve_pub_and_sub(commands: Commands) -> None:
    server, told = commands.serve("--data", "store", "--metrics-port", "0")
    assert told["data"] == "store"
    broker = ("--broker", str(told["url"]))
    subscriber = commands.start("sub", "price > 100", "--json", "--count", "1", *broker)
    assert "subscribed at broker" in subscriber.line("stderr")
    for price in ("12.5", "182.4"):
        publisher = commands.start("pub", *broker, "--quality", "stored", "symbol=SAP", f"price={price}")
        code, key, _ = publisher.end()
        assert code == 0
        assert re.fullmatch(r"broker/\d+/\d+\n", key)
    code, line, _ = subscriber.end()
    assert (code, attributes(line)) == (0, {"symbol": "SAP", "price": 182.4})
    with urllib.request.urlopen(f"http://127.0.0.1:{told['metrics_port']}/health") as page:
        assert json.load(page)["healthy"]
    server.signal(signal.SIGTERM)
    code, out, error = server.end()
    assert (code, out) == (0, "")
    assert "Traceback" not in error
    assert (commands.cwd / "store" / "store.sqlite").exists()


@pytest.mark.soak
def test_what_is_published_without_a_word_is_there_after_a_kill(commands: Commands) -> None:
    server, told = commands.serve("--data", "store", "--name", "a")
    for n in range(3):
        code, out, _ = commands.start("pub", "--broker", str(told["url"]), "--json", f"n={n}").end()
        assert (code, json.loads(out)["quality"]) == (0, "stored")
    server.signal(signal.SIGKILL)
    server.end()
    _, told = commands.serve("--data", "store", "--name", "a")
    arguments = ("--past", "10", "--json", "--count", "3", "--broker", str(told["url"]))
    code, out, _ = commands.start("sub", "n >= 0", *arguments).end()
    assert (code, [attributes(line) for line in out.splitlines()]) == (0, [{"n": 0}, {"n": 1}, {"n": 2}])


def test_a_broker_that_was_killed_serves_the_past_that_it_had_acknowledged_as_stored(commands: Commands) -> None:
    server, told = commands.serve("--data", "store", "--name", "a")
    with tidings.sync.connect(str(told["url"])) as client:
        for price in range(5):
            client.publish(price=price, quality="stored")
    server.signal(signal.SIGKILL)
    server.end()
    _, told = commands.serve("--data", "store", "--name", "a")
    beside = commands.cwd / "b.toml"
    beside.write_text(f'name = "b"\nport = 0\nneighbours = ["{told["url"]}"]\n')
    _, neighbour = commands.serve("--config", str(beside), "--no-store")
    with tidings.sync.connect(str(neighbour["url"])) as client:
        for _ in range(100):
            subscription = client.subscribe("price >= 0", past=tidings.last(3))
            report = subscription.history_report
            while report is None:  # it comes right behind what `subscribe` waits for
                time.sleep(0.01)
                report = subscription.history_report
            if report.brokers == 2:
                break
            subscription.unsubscribe()  # the link is not up yet
            time.sleep(0.05)
        assert report.found == {"store": 3}
        past = [subscription.receive(timeout=PATIENCE) for _ in range(3)]
        assert [one and one["price"] for one in past] == [2, 3, 4]


def test_a_server_for_eyes_says_what_to_do_next(commands: Commands) -> None:
    server = commands.start("serve", "--port", "0", "--log-json")
    first = server.line()
    address = re.search(r"tidings://127\.0\.0\.1:\d+", first)
    assert address is not None
    assert str(commands.cwd / "tidings" / "broker") in server.line()
    entry = json.loads(server.line("stderr"))
    assert entry["level"] == "info"
    assert entry["broker"] == "broker"
    subscriber = commands.start("sub", "TRUE", "--broker", address[0])
    subscriber.line("stderr")
    subscriber.signal(signal.SIGINT)
    assert subscriber.end()[0] == 0
    server.signal(signal.SIGINT)
    code, out, error = server.end()
    assert code == 0
    assert f"tidings pub type=quote symbol=SAP price=182.4 --broker {address[0]}" in out
    assert "Stopping" in error


def test_what_is_queued_goes_out_before_a_server_stops(commands: Commands) -> None:
    server, told = commands.serve("--no-store")
    broker = ("--broker", str(told["url"]))
    subscriber = commands.start("sub", "TRUE", "--json", "--count", "2000", *broker)
    subscriber.line("stderr")
    publisher = commands.python(
        "from tidings import sync\n"
        f"with sync.connect({told['url']!r}) as client:\n"
        "    print(client.publish_many({'n': n} for n in range(2000)), flush=True)\n"
    )
    publisher.line()
    server.signal(signal.SIGTERM)
    assert server.end()[0] == 0
    code, out, _ = subscriber.end()
    assert code == 0
    assert [json.loads(line)["n"] for line in out.splitlines()] == list(range(2000))


def test_a_second_signal_ends_a_server_at_once(commands: Commands) -> None:
    server, told = commands.serve("--no-store")
    stuck = commands.python(  # a subscriber that never reads, so that draining takes its time
        "import socket, time\n"
        "from tidings.wire import *\n"
        f"s = socket.create_connection(('127.0.0.1', {told['port']}))\n"
        "s.sendall(part(Part.HELLO, encode_words(Hello((1,), PeerRole.CLIENT, 'stuck'))))\n"
        "from tidings.model import Filter\n"
        "s.sendall(part(Part.DATA, encode(Frame(Subscribe('s', Filter.parse('TRUE'))))))\n"
        "time.sleep(0.5)\n"
        "print('there', flush=True)\n"
        "time.sleep(60)\n"
    )
    stuck.line()
    assert commands.start("pub", "--broker", str(told["url"]), "n=1").end()[0] == 0
    server.signal(signal.SIGTERM)
    time.sleep(0.5)
    start = time.monotonic()
    server.signal(signal.SIGTERM)
    assert server.end()[0] == 128 + signal.SIGTERM
    assert time.monotonic() - start < 5


def test_two_servers_cannot_share_a_port_or_a_store(commands: Commands) -> None:
    _, told = commands.serve("--data", "store")
    code, _, error = commands.start("serve", "--port", str(told["port"]), "--no-store").end()
    assert code == 5
    assert "Address already in use; choose another port" in error
    code, _, error = commands.start("serve", "--port", "0", "--data", "store").end()
    assert code == 5
    assert "another broker uses the store" in error
    (commands.cwd / "file").write_text("not a directory")
    code, _, error = commands.start("serve", "--port", "0", "--data", "file/x").end()
    assert code == 5
    assert "cannot be used" in error
    assert "Traceback" not in error


def test_brokers_started_from_files_make_a_network(commands: Commands) -> None:
    token = "a-token-that-is-long-enough"
    (commands.cwd / "token").write_text(token)
    (commands.cwd / "token").chmod(0o600)
    entry = '[[access]]\nname = "all"\ntoken_file = "token"\nadminister = true\nbroker = true\nnames = ["b"]\n'
    (commands.cwd / "a.toml").write_text(f'name = "a"\nport = 0\n{entry}')
    _, told = commands.serve("--config", "a.toml", "--no-store")
    neighbours = f'neighbours = ["{told["url"]}"]\nneighbour_token_file = "token"\n'
    (commands.cwd / "b.toml").write_text(f'name = "b"\nport = 0\n{neighbours}{entry}')
    _, other = commands.serve("--config", "b.toml", "--no-store")
    deadline = time.monotonic() + PATIENCE
    tree: list[list[str]] = []
    while not tree and time.monotonic() < deadline:
        asked = commands.start("topology", "--json", "--broker", str(other["url"]), TIDINGS_TOKEN=token)
        code, out, error = asked.end()
        assert code == 0, error
        tree = json.loads(out)["tree"]
    assert tree == [["a", "b"]]


def test_a_reader_that_has_seen_enough_is_no_error(commands: Commands) -> None:
    _, told = commands.serve("--no-store")
    command = f"{sys.executable} -m tidings status --json --broker {told['url']} | true"
    result = subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")


def test_the_first_example_of_the_readme_works(commands: Commands) -> None:
    readme = (ROOT / "README.md").read_text()
    (example,) = re.findall(r"^```python norun\n(.*?)^```", readme, flags=re.MULTILINE | re.DOTALL)
    _, told = commands.serve("--no-store")
    assert "tidings://localhost:7311" in example
    program = commands.python(example.replace("tidings://localhost:7311", str(told["url"])))
    deadline = time.monotonic() + PATIENCE
    out = ""
    while not out and time.monotonic() < deadline:
        commands.start("pub", "--broker", str(told["url"]), "type=quote", "symbol=SAP", "price=182.4").end()
        with contextlib.suppress(queue.Empty):
            out = program.line(patience=0.2)
    assert out == "SAP 182.4\n"


def test_the_second_broker_of_the_readme_joins_a_broker_that_has_scopes(commands: Commands) -> None:
    readme = (ROOT / "README.md").read_text()
    (command,) = re.findall(r"`tidings serve (--port 7312 [^`]*)`", readme)
    _, first = commands.serve()
    assert commands.start("scope", "create", "building", "-b", str(first["url"])).end()[0] == 0
    words = command.replace("7312", "0").replace("tidings://localhost:7311", str(first["url"])).split()
    _, second = commands.serve(*words)
    with tidings.sync.connect(str(second["url"])) as client:
        deadline = time.monotonic() + PATIENCE
        while "building" not in {scope.name for scope in client.admin.graph().scopes.values()}:
            assert time.monotonic() < deadline, "the brokers are not linked"
            time.sleep(0.1)


DURABLE = """
import asyncio, os, tidings

def say(*words):
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())  # a whole line or none, also when killed

def told(gap):
    say("gap", gap.first, gap.last)

async def main():
    async with tidings.connect("{url}", name="alice") as client:
        subscription = await client.subscribe("EXISTS(n)", durable="quotes", on_gap=told)
        say("ready")
        async for notification in subscription:
            say("got", notification["n"])
            if notification["n"] % 5 == 0:
                await subscription.acknowledge()
                say("acknowledged", notification["n"])

asyncio.run(main())
"""


class _Reader:
    """A process with a durable subscription, and what it has printed."""

    def __init__(self, commands: Commands, url: str) -> None:
        self._process = commands.python(DURABLE.format(url=url))
        self.lines: list[str] = []
        self.until("ready")

    def until(self, line: str) -> None:
        while line not in self.lines:
            self.lines.append(self._process.line().strip())

    def kill(self) -> None:
        """kill -9; what it printed before is read to the end."""
        self._process.signal(signal.SIGKILL)
        self.lines += self._process.end()[1].splitlines()

    def numbers(self, what: str) -> list[int]:
        return [int(line.split()[1]) for line in self.lines if line.startswith(what)]


def test_a_durable_subscription_survives_kill_9_of_its_client_and_of_its_broker(commands: Commands) -> None:
    server, told = commands.serve("--data", "store")
    url = str(told["url"])
    again = ("--data", "store", "--port", url.rsplit(":", 1)[1])

    def publish(first: int, last: int) -> None:
        with tidings.sync.connect(url) as client:
            client.publish_many([{"n": n} for n in range(first, last + 1)], quality="stored")

    def restart() -> Process:
        server.kill()
        return commands.serve(*again)[0]

    first = _Reader(commands, url)
    publish(1, 20)
    first.until("acknowledged 10")
    first.kill()
    publish(21, 30)
    server = restart()
    publish(31, 40)
    second = _Reader(commands, url)
    second.until("acknowledged 25")
    server = restart()  # under the feet of the second
    publish(41, 50)
    second.until("got 48")
    second.kill()
    server = restart()
    publish(51, 55)
    third = _Reader(commands, url)
    third.until("acknowledged 55")
    third.kill()

    before = 0
    for reader in (first, second, third):
        got = reader.numbers("got")
        gaps = [line for line in reader.lines if line.startswith("gap")]
        assert all(line.endswith("None") for line in gaps), "a crash may have cost what was only accepted, and no more"
        assert got == list(range(got[0], got[-1] + 1)), "each once, in order, nothing left out"
        assert before < got[0], "nothing that was acknowledged came again"
        before = max(reader.numbers("acknowledged"))
    assert second.numbers("got")[0] <= max(first.numbers("got")) + 1
    assert third.numbers("got")[0] <= max(second.numbers("got")) + 1
    assert third.numbers("got")[-1] == 55


@pytest.mark.soak
def test_sub_goes_on_where_it_ended(commands: Commands) -> None:
    _, told = commands.serve("--data", "store")
    words = ("sub", "EXISTS(n)", "--durable", "mine", "--client", "alice", "--json", "--broker", str(told["url"]))
    for published, printed in (((1, 2, 3), (1, 2)), ((4, 5, 6), (3, 4))):
        subscriber = commands.start(*words, "--count", "2")
        subscriber.line("stderr")
        for n in published:
            commands.start("pub", "--broker", str(told["url"]), "--quality", "stored", f"n={n}").end()
        code, out, _ = subscriber.end()
        assert (code, [attributes(line) for line in out.splitlines()]) == (0, [{"n": n} for n in printed])
    code, _, error = commands.start("sub", "TRUE", "--durable", "mine", "--broker", str(told["url"])).end()
    assert code == 2
    assert "--client" in error


def test_a_broker_under_load_stops_quickly_and_keeps_what_it_acknowledged(commands: Commands) -> None:
    """Publishers that never pause, subscribers that take everything, and one that takes nothing."""
    server, told = commands.serve("--data", "store")
    stuck = commands.python(
        "import socket, time\n"
        "from tidings.wire import *\n"
        "from tidings.model import Filter\n"
        f"s = socket.create_connection(('127.0.0.1', {told['port']}))\n"
        "s.sendall(part(Part.HELLO, encode_words(Hello((1,), PeerRole.CLIENT, 'stuck'))))\n"
        "s.sendall(part(Part.DATA, encode(Frame(Subscribe('s', Filter.parse('TRUE'))))))\n"
        "print('there', flush=True)\n"
        "time.sleep(60)\n"
    )
    stuck.line()
    publishers = [
        commands.python(
            "import asyncio, tidings\n"
            "async def main():\n"
            f"    async with tidings.connect({told['url']!r}, name='p{number}') as client:\n"
            "        await client.subscribe('n = 0')\n"
            "        receipts = asyncio.Queue()\n"
            "        async def publish():\n"
            "            while True:\n"
            "                receipts.put_nowait(await client.publish(n=1, quality='stored'))\n"
            "        publishing = asyncio.create_task(publish())\n"
            "        while True:\n"
            "            print((await (await receipts.get())).seq, flush=True)\n"
            "asyncio.run(main())\n"
        )
        for number in range(2)
    ]
    heard = [int(publisher.line()) for publisher in publishers for _ in range(200)]
    start = time.monotonic()
    server.signal(signal.SIGTERM)
    code, _, error = server.end()
    took = time.monotonic() - start
    assert code == 0, error
    assert took < 5  # 3 for its peers and its disk, and what a busy machine needs to begin and to end
    for publisher in publishers:
        publisher.signal(signal.SIGKILL)
        heard += map(int, publisher.end()[1].split("\n")[:-1])
    with StoreReader(commands.cwd / "store") as reader:
        stored = [envelope.identity.seq for envelope in reader.query()]
    with contextlib.closing(sqlite3.connect(commands.cwd / "store" / "store.sqlite")) as store:
        ((ended,),) = store.execute("SELECT ended FROM epochs")
    assert set(heard) <= set(stored)
    assert ended == max(stored)
