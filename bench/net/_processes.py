"""Servers as processes: start, CPU time, memory, stop, install."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

START = 60.0
"""Seconds that a server may take to start."""


class CannotRun(Exception):
    """A server that is missing, or does not start."""


@dataclass
class Running:
    """A server that listens."""

    port: int
    process: subprocess.Popen[bytes]
    directory: Path
    _counted: list[int] = field(default_factory=list)

    def pids(self) -> list[int]:
        """The processes of the server: those of the session that it was started in."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal():
                try:
                    fields = (entry / "stat").read_text().rpartition(")")[2].split()
                except OSError:
                    continue
                if int(fields[3]) == self.process.pid:
                    found.append(int(entry.name))
        return found

    def cpu(self) -> float:
        """Seconds of CPU, user and system, of all its processes so far."""
        seconds = 0.0
        self._counted = self._counted or self.pids()
        for pid in self._counted:
            try:
                seconds += time.clock_gettime(_cpu_clock(pid))
            except OSError:
                continue
        return seconds

    def memory(self) -> int:
        """Resident bytes of the main process."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def connections(self) -> int:
        """Connections to its port that are established, as the system sees them."""
        count = 0
        for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
            fields = line.split()
            count += int(fields[1].rpartition(":")[2], 16) == self.port and fields[3] == "01"
        return count


def _cpu_clock(pid: int) -> int:
    """The clock of a process' CPU time, to the nanosecond, as clock_getcpuclockid(3) makes it; /proc counts ticks."""
    return ~pid << 3 | 2


def free_port() -> int:
    """A port that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def running(
    command: Sequence[str], port: int, *, directory: Path | None = None, environment: Mapping[str, str] | None = None
) -> Iterator[Running]:
    """Run a server from when it listens to the end of the block."""
    with tempfile.TemporaryDirectory(prefix="bench-net-", ignore_cleanup_errors=True) as made:
        directory = directory or Path(made)
        log = directory / "output.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                command,
                stdout=output,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env={**os.environ, **(environment or {})},
                cwd=os.getcwd(),
                start_new_session=True,
            )
        server = Running(port, process, directory)
        try:
            _await_port(process, port, log)
            yield server
        finally:
            _stop(server)


def _await_port(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + START
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.05)
    raise CannotRun(f"{process.args!r} does not listen on {port}:\n{log.read_text(errors='replace')[-2000:]}")


def _stop(server: Running) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        pids = server.pids()
        for pid in pids:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                continue
        try:
            server.process.wait(10)
        except subprocess.TimeoutExpired:
            continue
        if not server.pids():
            return


def on_path(program: str) -> str | None:
    """The path of a program, if it is there."""
    return shutil.which(program, path=os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/sbin")))


def find(program: str, package: str) -> str:
    """The path of a program, which is installed if it is missing and that can be done; `CannotRun` if not."""
    if found := on_path(program):
        return found
    as_root = [] if os.geteuid() == 0 else ["sudo", "-n"]
    if shutil.which("apt-get") and (not as_root or shutil.which("sudo")):
        print(f"  installing {package} ...", file=sys.stderr, flush=True)
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for arguments in (["update", "-qq"], ["install", "-y", "-qq", "--no-install-recommends", package]):
            subprocess.run([*as_root, "apt-get", *arguments], env=environment, capture_output=True, check=False)
    if found := on_path(program):
        return found
    raise CannotRun(f"{program} is missing and could not be installed; `apt-get install {package}` as root would do it")
