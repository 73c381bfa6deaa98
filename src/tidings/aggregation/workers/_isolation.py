"""The walls around a worker, which it puts up itself, after its imports and before any code of a tenant.

Layer 1 holds on every Linux, for every user, in containers too. No privileges are gained any more, and a filter in
the kernel lets few system calls through: those that read and write what is open, ask for memory, and end. Opening
files, sockets, processes, signals to others and new programs are refused with EPERM, whatever Python code finds to
call them with. Limits hold for memory, files and core dumps; the worker is nice. Processor time is limited by the
deadline of each batch, which the parent keeps.

Layer 2 is namespaces of its own for users, network and processes, where the system grants them to this user. Many
do not; the worker says which layers hold.
"""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import struct
from collections.abc import Iterable

MEMORY = 128 * 1_048_576
"""How many bytes a worker may ask for beyond what it starts with."""
NICE = 10
"""How much a worker steps back behind the broker."""

LAYERS = ("user", "network", "pid")
"""The namespaces of layer 2."""

_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _PR_SET_DUMPABLE, _PR_SET_PDEATHSIG = 38, 22, 4, 1
_SECCOMP_MODE_FILTER = 2
_ALLOW, _EPERM, _KILL = 0x7FFF0000, 0x00050001, 0x80000000
_LOAD, _JUMP_EQUAL, _RETURN = 0x20, 0x15, 0x06
_OFFSET_NUMBER, _OFFSET_ARCHITECTURE = 0, 4
_CLONE_NEWUSER, _CLONE_NEWNET, _CLONE_NEWPID, _CLONE_NEWIPC = 0x10000000, 0x40000000, 0x20000000, 0x08000000
_SIGKILL = 9

_CALLS = (
    *("read", "write", "mmap", "munmap", "mremap", "mprotect", "madvise", "brk", "futex", "exit", "exit_group"),
    *("rt_sigreturn", "rt_sigprocmask", "sigaltstack", "clock_gettime", "restart_syscall"),
)
"""What is let through, besides nothing."""
_NUMBERS: dict[str, tuple[int, tuple[int, ...]]] = {
    "x86_64": (0xC000003E, (0, 1, 9, 11, 25, 10, 28, 12, 202, 60, 231, 15, 14, 131, 228, 219)),
    "aarch64": (0xC00000B7, (63, 64, 222, 215, 216, 226, 233, 214, 98, 93, 94, 139, 135, 132, 113, 128)),
}
"""For each machine how the kernel calls it, and its numbers of the calls above."""


class NoIsolation(Exception):
    """Layer 1 cannot be put up here, so no code of a tenant is run."""


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


def machine() -> str:
    """The machine, or `NoIsolation` if there is no filter for it."""
    found = platform.machine()
    if os.uname().sysname != "Linux" or found not in _NUMBERS:
        raise NoIsolation(
            f"no filter of system calls is known for {os.uname().sysname} on {found}; use Linux on x86-64 or ARM64"
        )
    return found


def program(name: str) -> bytes:
    """The filter for a machine, as the kernel reads it: eight bytes for each instruction."""
    architecture, numbers = _NUMBERS[name]
    allowed = len(numbers)
    lines = [
        (_LOAD, 0, 0, _OFFSET_ARCHITECTURE),
        (_JUMP_EQUAL, 1, 0, architecture),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _OFFSET_NUMBER),
    ]
    lines += [(_JUMP_EQUAL, allowed - at, 0, number) for at, number in enumerate(numbers)]
    lines += [(_RETURN, 0, 0, _EPERM), (_RETURN, 0, 0, _ALLOW)]
    return b"".join(struct.pack("HBBI", *line) for line in lines)


def namespaces() -> tuple[str, ...]:
    """Layer 2, as far as the system grants it; called before there are threads.

    A pid namespace begins with the next process, so this one goes on as a child of itself; the process that was
    started does nothing any more but wait for it, and ends as it ends.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNET | _CLONE_NEWPID | _CLONE_NEWIPC):
        return ()
    inner = os.fork()
    if inner:
        os.close(0)
        os.close(1)
        _, status = os.waitpid(inner, 0)
        os._exit(abs(os.waitstatus_to_exitcode(status)))
    return LAYERS


def limits(memory: int = MEMORY) -> None:
    """Memory beyond what is in use, no new files, no core dumps, and a place behind the broker."""
    with open("/proc/self/statm", encoding="ascii") as statm:
        used = int(statm.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    _lower(resource.RLIMIT_AS, used + memory)
    _lower(resource.RLIMIT_NOFILE, 3)
    _lower(resource.RLIMIT_FSIZE, 0)
    _lower(resource.RLIMIT_CORE, 0)
    _lower(resource.RLIMIT_NPROC, 0)
    os.nice(NICE)


def _lower(which: int, value: int) -> None:
    _, most = resource.getrlimit(which)
    value = value if most == resource.RLIM_INFINITY else min(value, most)
    resource.setrlimit(which, (value, value))


def seccomp() -> None:
    """Layer 1: from here on, what is not in the list is refused. `NoIsolation` if the kernel does not take it."""
    name = machine()
    libc = ctypes.CDLL(None, use_errno=True)
    code = ctypes.create_string_buffer(program(name))
    given = _Program(len(code) // 8, ctypes.addressof(code))
    for call, words in _steps(given):
        if libc.prctl(*words) != 0:
            raise NoIsolation(f"the kernel refuses {call}: {os.strerror(ctypes.get_errno())}; T2 is not possible here")


def _steps(given: _Program) -> Iterable[tuple[str, tuple[object, ...]]]:
    long = ctypes.c_ulong
    yield "PR_SET_PDEATHSIG", (_PR_SET_PDEATHSIG, long(_SIGKILL), long(0), long(0), long(0))
    yield "PR_SET_DUMPABLE", (_PR_SET_DUMPABLE, long(0), long(0), long(0), long(0))
    yield "PR_SET_NO_NEW_PRIVS", (_PR_SET_NO_NEW_PRIVS, long(1), long(0), long(0), long(0))
    yield "PR_SET_SECCOMP", (_PR_SET_SECCOMP, long(_SECCOMP_MODE_FILTER), ctypes.byref(given), long(0), long(0))
