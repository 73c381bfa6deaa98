"""Whatever code of a tenant does, it does to itself. These tests are never skipped on Linux."""

from __future__ import annotations

import asyncio
import os
import sys
import textwrap
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tidings.aggregation.definitions import JP, Count, Record
from tidings.aggregation.workers import (
    Answer,
    Check,
    Code,
    Combine,
    Combined,
    Failed,
    Lawful,
    Lift,
    Lifted,
    Present,
    Presented,
    Row,
    _isolation,
)
from tidings.model import AggregateError
from tidings.net.workers import Worker

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="isolation is Linux's")

GOOD = """
from tidings.aggregation.definitions import Aggregate, JP, Sliding

class Loads(Aggregate):
    name, version = "acme.loads", "1.0.0"
    joinpoints = frozenset({JP.PUBLISHED})
    window = Sliding("10s", "5s")
    def key(self, r): return str(r.attrs.get("rack", ""))
    def zero(self): return [0, 0]
    def lift(self, r):
        x = r.attrs.get("load")
        return [x, 1] if type(x) is int else None
    def combine(self, a, b): return [a[0] + b[0], a[1] + b[1]]
    def present(self, p): return p[0] / p[1] if p[1] else None
"""


def hostile(body: str) -> Code:
    """A definition whose `lift` does something bad."""
    inside = textwrap.indent(textwrap.dedent(body).strip(), "        ")
    return Code(GOOD.replace("        x = r.attrs", f"{inside}\n        x = r.attrs"), "Loads")


def rows(*loads: int) -> list[Row]:
    record = [Record(ts_ms=1_000, broker="b1", jp=JP.PUBLISHED, attrs={"rack": "r1", "load": load}) for load in loads]
    return [Row.of(one) for one in record]


PATIENT = 60.0
"""A busy machine is not a bug: only what loops for ever meets a deadline."""


def run(work: Callable[[Worker], Awaitable[Any]], **options: Any) -> Any:
    async def main() -> Any:
        worker = Worker("acme", **options)
        worker.supervisor.batch_seconds = PATIENT
        try:
            return await asyncio.wait_for(work(worker), 300)
        finally:
            await worker.close()

    return asyncio.run(main())


def answers_of(code: Code, **options: Any) -> tuple[Answer, ...]:
    async def work(worker: Worker) -> tuple[Answer, ...]:
        worker.install("acme.loads", code)
        return await worker.submit("acme.loads", [Lift(rows(1, 2))])

    return run(work, **options)


def test_a_harmless_definition_is_lifted_combined_presented_and_tested() -> None:
    async def work(worker: Worker) -> None:
        worker.install("acme.loads", Code(GOOD, "Loads"))
        jobs = [Lift(rows(3, 5)), Combine([[b"[8,2]", b"[1,1]"], []]), Present([b"[9,3]"]), Check(0, 0.2)]
        lifted, combined, presented, lawful = await worker.submit("acme.loads", jobs)
        assert lifted == Lifted([("r1", 0, b"[8,2]")], 2)
        assert combined == Combined([b"[9,3]", b"[0,0]"])
        assert presented == Presented([(b"3.0", 0.0)])
        assert isinstance(lawful, Lawful)
        assert worker.supervisor.layers[0] == "seccomp"

    run(work)


REFUSED = {
    "files": "open('/etc/passwd')",
    "writing": "open('/tmp/x', 'w')",
    "network": "import socket; socket.socket()",
    "fork": "import os; os.fork()",
    "exec": "import os; os.execv('/bin/true', ['true'])",
    "kill": "import os; os.kill(os.getppid(), 9)",
    "shell": "import os; assert os.system('true') == 0",
    "threads": "import _thread; _thread.start_new_thread(print, ())",
    "environment": "import os; assert not os.environ, os.environ; 1 / 0",
    "import": "import http.client",
    "more privileges": "import ctypes; assert ctypes.CDLL(None).setuid(0) == 0",
    "ptrace": "import ctypes; assert ctypes.CDLL(None).ptrace(0, 0, 0, 0) == 0",
    "descriptors": "import os; os.dup(1)",
    "exception": "raise ValueError('no')",
    "wrong type": "return object()",
    "float": "return [0.5, 1]",
    "exit": "raise SystemExit(0)",
    "recursion": "(lambda f: f(f))(lambda f: f(f))",
    "huge partial": "return [10 ** 3_900, 10 ** 3_900]",
}


def test_what_is_not_allowed_is_refused_and_the_worker_goes_on() -> None:
    async def work(worker: Worker) -> dict[str, tuple[Answer, ...]]:
        found = {}
        for name, body in REFUSED.items():
            worker.install(name, hostile(body))
            found[name] = await worker.submit(name, [Lift(rows(1))])
        worker.install("good", Code(GOOD, "Loads"))
        found["good"] = await worker.submit("good", [Lift(rows(1))])
        assert worker.supervisor.restarts == 0
        return found

    found = run(work)
    assert found.pop("good") == (Lifted([("r1", 0, b"[1,1]")], 1),)
    passed = {name: answers for name, answers in found.items() if not isinstance(answers[0], Failed)}
    assert not passed
    for name in ("files", "writing", "network", "fork", "exec", "kill", "descriptors"):
        assert "not permitted" in found[name][0].reason, name
    assert "division by zero" in found["environment"][0].reason


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("while True: pass", "did not answer within"),
        ("x = 9 ** 9 ** 9", "did not answer within"),
        ("x = bytearray(10 ** 9)", "no memory left"),
        ("x = []\nwhile True: x.append(' ' * 10 ** 6)", "no memory left"),
        ("import os; os._exit(3)", "ended with code 3"),
        ("import ctypes; ctypes.string_at(0)", "ended with code -?1"),
        ("import os; os.write(1, (1).to_bytes(4) + b'x')", "is not a reply"),
    ],
)
def test_what_loops_grows_or_dies_is_started_anew_and_is_a_strike(body: str, said: str) -> None:
    async def work(worker: Worker) -> None:
        worker.install("bad", hostile(body))
        worker.install("good", Code(GOOD, "Loads"))
        worker.supervisor.batch_seconds = 0.5 if "within" in said else PATIENT
        with pytest.raises(AggregateError, match=said):
            await worker.submit("bad", [Lift(rows(1))])
        worker.supervisor.batch_seconds = PATIENT
        assert worker.supervisor.strikes("bad") == 1
        assert worker.supervisor.restarts == 1
        assert await worker.submit("good", [Lift(rows(1))]) == (Lifted([("r1", 0, b"[1,1]")], 1),)
        assert worker.supervisor.strikes("good") == 0

    run(work)


def test_three_strikes_end_in_quarantine_and_the_other_definition_answers() -> None:
    async def work(worker: Worker) -> None:
        quarantined: list[tuple[str, str]] = []
        worker._on_quarantine = lambda *words: quarantined.append(words)
        worker.install("bad", hostile("import os; os._exit(3)"))
        worker.install("good", Code(GOOD, "Loads"))
        for _ in range(3):
            with pytest.raises(AggregateError, match="ended with code 3"):
                await worker.submit("bad", [Lift(rows(1))])
            assert await worker.submit("good", [Lift(rows(1))])
        assert quarantined == [("bad", "it ended with code 3")]
        with pytest.raises(AggregateError, match="bad is in quarantine"):
            await worker.submit("bad", [Lift(rows(1))])

    run(work)


def test_source_that_does_not_load_is_an_answer() -> None:
    for source, said in [("def", "SyntaxError"), ("x = 1", "has no class Loads"), ("1 / 0", "Zero")]:
        (answer,) = answers_of(Code(source, "Loads"))
        assert isinstance(answer, Failed)
        assert said in answer.reason


def test_what_runs_once_knows_its_broker() -> None:
    imports = "from tidings.aggregation.definitions import RunOnce"
    source = f"{imports}\nclass Once(RunOnce):\n    def run(self, b): return [b, 2**10]"
    assert answers_of(Code(source, "Once")) == (Combined([b'["b1",1024]']),)


def test_what_is_printed_goes_nowhere() -> None:
    (answer,) = answers_of(hostile("import sys; print('x' * 100_000); print('x', file=sys.stderr)"))
    assert answer == Lifted([("r1", 0, b"[3,2]")], 2)


def test_layer_one_holds_without_layer_two() -> None:
    (answer,) = answers_of(hostile("open('/etc/passwd')"), both=False)
    assert isinstance(answer, Failed)
    assert "not permitted" in answer.reason


def test_a_worker_ends_with_whoever_started_it(tmp_path: Path) -> None:
    async def work(worker: Worker) -> int:
        worker.install("good", Code(GOOD, "Loads"))
        await worker.submit("good", [Lift(rows(1))])
        process = worker._process
        assert process is not None
        assert process._process is not None
        return process._process.pid

    pid = run(work)
    assert not os.path.exists(f"/proc/{pid}") or "Z" in Path(f"/proc/{pid}/stat").read_text().split()[2]


def test_the_filter_of_each_machine_lets_the_same_calls_through() -> None:
    sizes = {name: len(_isolation.program(name)) for name in ("x86_64", "aarch64")}
    assert len(set(sizes.values())) == 1
    for _, numbers in _isolation._NUMBERS.values():
        assert len(numbers) == len(set(numbers)) == len(_isolation._CALLS)


def test_where_there_is_no_filter_no_code_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_isolation, "_NUMBERS", {})
    with pytest.raises(_isolation.NoIsolation, match="use Linux on x86-64 or ARM64"):
        _isolation.machine()


def test_a_row_gives_back_the_record() -> None:
    record = Record(
        ts_ms=5, broker="b", jp=JP.SUB_ADD, topic="t", peer="p", edge=-1, filter="a = 1", attrs={"x": (1, "a")}
    )
    again = Row.of(record).record()
    assert dict(again.attrs) == {"x": (1, "a")}
    assert Count().lift(again) == 1
    assert (again.ts_ms, again.jp, again.edge, again.filter) == (5, JP.SUB_ADD, -1, "a = 1")
