"""The seccomp filter: interpreted in Python for both architectures, and applied to real processes on this one."""

from __future__ import annotations

import errno
import os
import re
import signal
import struct
import textwrap
from pathlib import Path
from typing import Any

import pytest
from tests.unit.interpreter.sandbox.bound import run, start

from clicket.interpreter.sandbox import seccomp
from clicket.interpreter.sandbox.libc import machine
from clicket.interpreter.sandbox.syscalls import AUDIT, FIRST_UNKNOWN, NUMBERS

HERE = machine() or ""
STRICT: dict[str, Any] = {"unix_sockets": False, "same_user": True, "signals": False}
ALWAYS = " ".join(seccomp.DENIED.values()).split()
MACHINES = sorted(NUMBERS)
CLONE_NEW = [1 << 17, *(1 << bit for bit in range(25, 31))]


def judge(code: bytes, number: int, *arguments: int, arch: int) -> int | str:
    """The kernel's verdict by this filter: `allow`, `kill`, or an error number."""
    filled = [*arguments, *[0] * (6 - len(arguments))]
    data = struct.pack("<iIQ6Q", number - (1 << 32) * (number >> 31), arch, 0, *(a & (2**64 - 1) for a in filled))
    steps = list(struct.iter_unpack("<HBBI", code))
    value, at = 0, 0
    while True:
        operation, then, otherwise, k = steps[at]
        at += 1
        if operation == 0x20:
            value = struct.unpack_from("<I", data, k)[0]
        elif operation == 0x54:
            value &= k
        elif operation in {0x15, 0x35, 0x45}:
            holds = {0x15: value == k, 0x35: value >= k, 0x45: bool(value & k)}[operation]
            at += then if holds else otherwise
        else:
            assert operation == 0x06
            return {0x7FFF: "allow", 0x8000: "kill"}.get(k >> 16, k & 0xFFFF)


def made(name: str, **options: Any) -> bytes:
    code = seccomp.make_filter(machine=name, **options)
    assert code is not None
    return code


# -- the filter as data ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("options", [{}, STRICT], ids=["apart", "strict"])
def test_exactly_the_named_calls_are_refused(name: str, options: dict[str, Any]) -> None:
    code, numbers = made(name, **options), NUMBERS[name]
    names = {number: call for call, number in numbers.items()}
    expected: dict[str, int] = dict.fromkeys(ALWAYS, errno.EPERM) | seccomp.INSTEAD
    checked = {
        "clone",
        "socket",
        "socketpair",
        "personality",
        "prctl",
        "prlimit64",
        "ioctl",
        "fcntl",
        "flock",
        "setsockopt",
    }
    if options:
        refused = f"{seccomp.NO_SOCKETS} {seccomp.SAME_USER} {seccomp.NO_SIGNALS}".split()
        expected |= dict.fromkeys(refused, errno.EPERM) | dict.fromkeys(seccomp.SILENT.split(), 0)
        checked |= {"kill", "tgkill", "setpriority", "ioprio_set"}
        checked |= {f"sched_set{what}" for what in ("affinity", "attr", "param", "scheduler")}
    for number in range(FIRST_UNKNOWN):
        if names.get(number) not in checked:
            outcome = judge(code, number, arch=AUDIT[name])
            assert outcome == expected.get(names.get(number, ""), "allow"), (number, names.get(number))
    assert set(expected) - set(numbers) <= {"chmod", "chown", "lchown", "utime", "utimes", "futimesat"} | {
        *"iopl ioperm modify_ldt inotify_init".split()
    }, "only calls that aarch64 never had may be missing"


@pytest.mark.parametrize("name", MACHINES)
def test_calls_of_another_kind_are_not_let_through(name: str) -> None:
    code = made(name)
    i386, arm = 0x40000003, 0x40000028
    for foreign in (i386, arm, *(arch for other, arch in AUDIT.items() if other != name)):
        assert judge(code, 0, arch=foreign) == "kill"
    for young in (FIRST_UNKNOWN, FIRST_UNKNOWN + 1, 1000, 0x3FFFFFFF):
        assert judge(code, young, arch=AUDIT[name]) == errno.ENOSYS
    for x32 in (0x40000000, 0x40000001, 0x400001F4, 0x7FFFFFFF, 0xFFFFFFFF):
        assert judge(code, x32, arch=AUDIT[name]) == ("kill" if name == "x86_64" else errno.ENOSYS)


@pytest.mark.parametrize("name", MACHINES)
def test_arguments_at_their_borders(name: str) -> None:
    def outcome(call: str, *arguments: int, **options: Any) -> int | str:
        return judge(made(name, **options), NUMBERS[name][call], *arguments, arch=AUDIT[name])

    high = 0xABCD << 32  # the kernel ignores this half, so the filter must ignore it, too
    for flag in CLONE_NEW:
        assert outcome("clone", flag) == outcome("clone", flag | high | 0x11) == errno.EPERM
    for flags in (0, 0x11, 0x3D0F00, 0x01200011, high | 0x11, ~sum(CLONE_NEW) & 0xFFFFFFFF):  # thread, fork, vfork …
        assert outcome("clone", flags) == "allow"
    assert outcome("socket", 1) == outcome("socket", 1 | high) == "allow"
    for family in (0, 2, 10, 16, 17, 38, 40, 44, 2 | high, 0xFFFFFFFF):
        assert outcome("socket", family) == errno.EAFNOSUPPORT
        assert outcome("socketpair", family, 1) == errno.EAFNOSUPPORT
    assert outcome("socket", 1, unix_sockets=False) == errno.EAFNOSUPPORT

    for kind in (1, 5, 1 | 0o2000000, 1 | 0o4000 | high):
        assert outcome("socketpair", 1, kind) == outcome("socketpair", 1, kind, unix_sockets=False) == "allow"
    for kind in (2, 3, 2 | 0o2000000):
        assert outcome("socketpair", 1, kind) == "allow"
        assert outcome("socketpair", 1, kind, unix_sockets=False) == errno.EPROTONOSUPPORT
    for request in (0x5412, 0x541C, 0x5423, 0x5412 | high):
        assert outcome("ioctl", 0, request) == errno.EPERM
    for request in (0x5401, 0x5413, 0x8901, 0x8902):
        assert outcome("ioctl", 0, request) == "allow"
    assert outcome("ioctl", 0, 0x8902, signals=False) == outcome("ioctl", 0, 0x8901, signals=False) == errno.EPERM
    assert outcome("personality", 0) == outcome("personality", 0xFFFFFFFF) == "allow"
    assert outcome("personality", 0x0040000) == outcome("personality", 8) == errno.EPERM
    for command in (10, 1024, 10 | high):
        assert outcome("fcntl", 0, command) == outcome("fcntl", 0, command, signals=False) == errno.EPERM
    for command in (0, 1, 2, 3, 4, 6, 7, 8, 15, 1030, 1031):
        assert outcome("fcntl", 0, command) == "allow"
    assert outcome("fcntl", 0, 8, signals=False) == outcome("fcntl", 0, 15, signals=False) == errno.EPERM
    for option in (4, 35, 62, 0x59616D61, 4 | high):
        assert outcome("prctl", option) == errno.EPERM
    for option in (1, 3, 15, 22, 36, 38):
        assert outcome("prctl", option) == "allow"
    assert outcome("prlimit64", 0) == "allow"
    assert outcome("prlimit64", 1) == errno.EPERM


@pytest.mark.parametrize("name", MACHINES)
def test_buffers_of_sockets_and_locks(name: str) -> None:
    def outcome(call: str, *arguments: int, **options: Any) -> int | str:
        return judge(made(name, **options), NUMBERS[name][call], *arguments, arch=AUDIT[name])

    for option in (7, 8, 32, 33):
        assert outcome("setsockopt", 0, 1, option) == 0, "the call does nothing, and returns success"

    for option in (2, 9, 20, 66):
        assert outcome("setsockopt", 0, 1, option) == "allow"
    for operation in (1, 2, 5, 6):
        assert outcome("flock", 0, operation) == errno.ENOSYS
    assert outcome("flock", 0, 8) == "allow"


def test_a_socket_holds_what_sockets_usually_do_and_no_file_is_locked_by_reading(library: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")
    code = f"""
        import fcntl, socket
        seccomp.apply({made(HERE).hex()!r})
        left, right = socket.socketpair()
        left.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_000_000)
        left.setblocking(False)
        held = 0
        try:
            while True: held += left.send(bytes(32_000))
        except BlockingIOError:
            pass
        file = open({str(tmp_path / "file")!r})
        locks = [tried(fcntl.flock, file, how) for how in (fcntl.LOCK_EX, fcntl.LOCK_SH | fcntl.LOCK_NB)]
        answer([held, locks, tried(fcntl.lockf, file, fcntl.LOCK_EX | fcntl.LOCK_NB)])
    """
    held, locks, exclusive = run(library, code)
    assert held < 500_000
    assert locks == [-errno.ENOSYS] * 2
    assert exclusive == -errno.EBADF


@pytest.mark.parametrize("name", MACHINES)
def test_what_descriptors_for_reading_could_change_of_the_same_users_files(name: str) -> None:
    def outcome(call: str, request: int, **options: Any) -> int | str:
        return judge(made(name, **options), NUMBERS[name][call], 0, request, arch=AUDIT[name])

    for request in (0x5401, 0x541B, 0x5421, 0x5451):
        assert outcome("ioctl", request, same_user=True) == "allow"
    for request in (0x40086602, 0x401C5820, 0x40806685, 0x5000940E, 0x40085401, 0xC0189436):  # flags, verity, snapshots
        assert outcome("ioctl", request, same_user=True) == errno.ENOTTY
        assert outcome("ioctl", request) == "allow"
    assert outcome("ioctl", 0x5412, same_user=True) == errno.EPERM
    for command in (1036, 1038):
        assert outcome("fcntl", command, same_user=True) == errno.EPERM


def test_one_process_for_itself_where_signals_could_leave() -> None:
    code = made(HERE, **STRICT)
    bound = seccomp.with_own_pid(code)
    numbers, arch = NUMBERS[HERE], AUDIT[HERE]
    assert judge(bound, numbers["kill"], os.getpid(), arch=arch) == "allow"
    assert judge(bound, numbers["tgkill"], os.getpid(), arch=arch) == "allow"
    for pid in (1, os.getppid(), 2**32 - 1, 2**32 - os.getpid()):
        assert judge(bound, numbers["kill"], pid, arch=arch) == errno.EPERM
        assert judge(bound, numbers["tgkill"], pid, arch=arch) == errno.EPERM
    assert judge(bound, numbers["kill"], 0, arch=arch) == "allow"


HEADERS = {
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),
}


@pytest.mark.parametrize("name", MACHINES)
def test_the_numbers_are_those_of_the_kernels_own_headers(name: str) -> None:
    if not HEADERS[name].exists():
        pytest.skip("the headers of the C library for development are not installed")
    found = dict(re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", HEADERS[name].read_text()))
    known = {call: number for call, number in NUMBERS[name].items() if call in found}
    assert known == {call: int(found[call]) for call in known}
    young = max(int(number) for number in found.values())  # headers may be older than our table
    assert all(number > young or number >= 450 for call, number in NUMBERS[name].items() if call not in known)


def test_a_machine_that_is_not_known_has_no_filter() -> None:
    assert seccomp.make_filter(machine="riscv64") is None
    assert seccomp.gap() is None


# -- the filter on a process -------------------------------------------------------------------------------------------
# All arguments are -1: an allowed call would fail on them, without harm.

_EACH = """
    before = {{name: tried(libc.syscall, number, *[-1] * 6) for name, number in {unbound}.items()}}
    seccomp.apply({filter!r})
    answer([before, {{name: tried(libc.syscall, number, *[-1] * 6) for name, number in {calls}.items()}}])
"""


@pytest.mark.parametrize("options", [{}, STRICT], ids=["apart", "strict"])
def test_each_denied_call_is_denied_by_number(library: Path, options: dict[str, Any]) -> None:
    names = ALWAYS if not options else f"{seccomp.NO_SOCKETS} {seccomp.SAME_USER} {seccomp.NO_SIGNALS}".split()
    calls = {name: NUMBERS[HERE][name] for name in names if name in NUMBERS[HERE]}
    some = {name: calls[name] for name in ("bpf", "setns", "mount", "connect", "setxattr") if name in calls}
    code = _EACH.format(filter=made(HERE, **options).hex(), calls=calls, unbound=some)
    before, after = run(library, code)
    assert -errno.EPERM not in before.values(), "a call that fails without the filter proves nothing"
    assert after == dict.fromkeys(calls, -errno.EPERM)


def test_new_namespaces_and_unknown_calls(library: Path) -> None:
    code = f"""
        seccomp.apply({made(HERE).hex()!r})
        flags = [tried(libc.syscall, {NUMBERS[HERE]["clone"]}, flag | 1 << 40 | 17, 0, 0, 0, 0) for flag in {CLONE_NEW}]
        child = libc.syscall({NUMBERS[HERE]["clone"]}, 17, 0, 0, 0, 0)
        if not child:
            os._exit(5)
        _, status = os.waitpid(child, 0)
        answer([flags, os.waitstatus_to_exitcode(status), tried(libc.syscall, {NUMBERS[HERE]["clone3"]}, 0, 0),
                tried(libc.syscall, {FIRST_UNKNOWN}), tried(os.unshare, 0) if hasattr(os, "unshare") else -1])
    """
    flags, forked, *unknown = run(library, code)
    assert flags == [-errno.EPERM] * len(CLONE_NEW)
    assert forked == 5
    assert unknown == [-errno.ENOSYS, -errno.ENOSYS, -errno.EPERM]


@pytest.mark.skipif(HERE != "x86_64", reason="x32 and int 0x80 are this machine's alone")
def test_calls_by_another_door_end_the_process(library: Path) -> None:
    bound = f"seccomp.apply({made(HERE).hex()!r})\n"
    assert start(library, bound + "libc.syscall(0x40000000 | 39)").returncode == -signal.SIGSYS
    old_call = """
        import ctypes, mmap
        page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        page.write(bytes.fromhex("b814000000cd80c3"))  # getpid, the way of 1995
        ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()
    """
    # A kernel without those calls needs no filter for them.
    assert start(library, bound + textwrap.dedent(old_call)).returncode in {-signal.SIGSYS, -signal.SIGSEGV}


def test_nothing_of_the_host_is_in_reach_of_the_same_user(library: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")
    (tmp_path / "file").chmod(0o640)
    code = f"""
        import fcntl, resource, shutil, socket
        os.chdir({str(tmp_path)!r})
        seccomp.apply({made(HERE, **STRICT).hex()!r})
        parent = os.getppid()
        refused = [tried(os.kill, parent, 0), tried(os.kill, -1, 0), tried(os.killpg, os.getpgid(parent), 0),
            tried(fcntl.fcntl, 0, fcntl.F_SETOWN, parent), tried(resource.prlimit, parent, resource.RLIMIT_NOFILE),
            tried(os.sched_setaffinity, parent, [0]), tried(os.setpriority, os.PRIO_PROCESS, parent, 0),
            tried(os.setpriority, os.PRIO_PGRP, 0, 0), tried(os.truncate, "file", 0),
            tried(os.setxattr, "file", "user.x", b"")]
        kept = [tried(os.kill, 0, 0), tried(os.kill, os.getpid(), 0), tried(signal.raise_signal, signal.SIGCHLD),
            tried(os.sched_setaffinity, 0, os.sched_getaffinity(0)), tried(os.setpriority, os.PRIO_PROCESS, 0, 0)]
        os.chmod("file", 0o777); os.utime("file", (1, 1))
        shutil.copy2("file", "copy")
        with open("file") as file:
            fd = file.fileno()
            refused += [tried(os.fchmod, fd, 0o4777), tried(os.fchown, fd, 0, 0), tried(os.setxattr, fd, "user.x", b""),
                tried(os.removexattr, fd, "user.x")]
            other = [tried(fcntl.ioctl, fd, 0x40086602, b"\\0" * 8), tried(fcntl.ioctl, fd, 0x401C5820, b"\\0" * 28)]
        pair = socket.socketpair()
        kept += [tried(os.set_blocking, pair[0].fileno(), False), tried(os.set_inheritable, pair[0].fileno(), True)]
        answer([refused, kept, other])
    """
    refused, kept, other = run(library, code)
    assert other == [-errno.ENOTTY] * len(other), "a descriptor can set file flags, too"
    assert refused == [-errno.EPERM] * len(refused)
    assert kept == [None] * len(kept)
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o640, "the call did nothing, and returned success"
    assert (tmp_path / "file").stat().st_mtime > 1
    assert (tmp_path / "copy").read_text() == "text"


_ORDINARY = """
    import asyncio, concurrent.futures, socket, subprocess, sys, threading
    seccomp.apply({filter!r})
    import ctypes, numpy
    compare = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int))
    numbers = (ctypes.c_int * 3)(3, 1, 2)
    ctypes.CDLL(None).qsort(numbers, 3, 4, compare(lambda a, b: a[0] - b[0]))
    assert list(numbers) == [1, 2, 3]
    found = {{"array": float((numpy.ones((200, 200)) @ numpy.ones((200, 200))).sum())}}
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        found["threads"] = sum(pool.map(lambda n: n * n, range(10)))
    found["command"] = subprocess.run(["sh", "-c", "echo $((6 * 7)) | cat"], capture_output=True, text=True).stdout
    async def loop():
        child = await asyncio.create_subprocess_exec("true")
        return [await asyncio.to_thread(lambda: 1), await child.wait()]
    found["loop"] = asyncio.run(loop())
    left, right = socket.socketpair()
    left.send(b"x"); found["pair"] = right.recv(1).decode()
    {more}
    answer(found)
"""
_POOL = """
    import multiprocessing
    with multiprocessing.get_context("fork").Pool(2) as pool:
        found["processes"] = pool.map(abs, [-1, -2])
"""


@pytest.mark.parametrize("options", [{}, STRICT], ids=["apart", "strict"])
def test_ordinary_programs_notice_nothing(library: Path, options: dict[str, Any]) -> None:
    # A pool ends its processes by signal: it cannot where the filter blocks signals.
    found = run(library, _ORDINARY.format(filter=made(HERE, **options).hex(), more="" if options else _POOL.strip()))
    expected = {"array": 200.0**3, "threads": 285, "command": "42\n", "loop": [1, 0], "pair": "x"}
    assert found == (expected if options else expected | {"processes": [1, 2]})


def test_an_ordinary_user_is_bound_as_well_and_for_good(library: Path) -> None:
    code = f"""
        os.setgroups([]); os.setresgid(54321, 54321, 54321); os.setresuid(54321, 54321, 54321)
        seccomp.apply({made(HERE).hex()!r})
        status = open("/proc/self/status").read()
        inner = subprocess.run(["unshare", "--user", "true"], capture_output=True, text=True)
        answer(["NoNewPrivs:\\t1" in status, "Seccomp:\\t2" in status, inner.returncode])
    """
    assert run(library, code) == [True, True, 1]
