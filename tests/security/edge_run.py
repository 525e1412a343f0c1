"""`python edge_run.py`: programs that try to get around the sandbox's limits, run as the user who starts this. Prints
the outcome of each. None is timed: the sandbox refuses what it tries, or ends it."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))  # wherever clicket is installed from

from clicket.interpreter import Interpreter  # after sys.path is set
from clicket.sandbox import Limits

MIB = 1024 * 1024
LIMITS = Limits(memory=96 * MIB, processes=64, file_size=32 * MIB, disk=48 * MIB, files=1_000, scratch=8 * MIB)
AT_ONCE = 3

_FILE = """
import ctypes, os, shutil, socket, subprocess, time
def file(name):
    fd = os.open(name, os.O_RDWR | os.O_CREAT)
    for _ in range(30):
        os.write(fd, bytes(1 << 20))
    return fd
def steps():  # at once more than is allowed, then some more now and then: who else frees room on the disk covers up for us
    yield from range(4)
    for n in range(4, 20):
        time.sleep(2)
        yield n
    while True:
        time.sleep(0.05)
"""


class Edge(NamedTuple):
    name: str
    code: str
    outcome: tuple[str, str | None] = ("ok", None)
    """Status and reason."""
    says: str = ""


DISK, MEMORY = ("killed", "disk"), ("killed", "memory")


def held(name: str, body: str) -> Edge:
    """An attempt that must be refused."""
    inner = "\n".join(f"    {line}" for line in body.strip().splitlines())
    first = "import ctypes, fcntl, os\nlibc = ctypes.CDLL(None, use_errno=True)"
    last = "    print('through')\nexcept OSError as e:\n    print('refused')"
    return Edge(name, f"{first}\ntry:\n{inner}\n{last}", says="refused")


def call(number: int, *arguments: str) -> str:
    return f"if libc.syscall({number}, {', '.join(arguments)}) == -1: raise OSError(ctypes.get_errno(), 'no')"


_OPEN = "fd = os.open('f', os.O_RDWR | os.O_CREAT)\n"

EDGES = [
    Edge(
        "removed files, on their way through a socket",
        f"""{_FILE}
left, right = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
for n in steps():
    fd = file('f')
    os.unlink('f')
    socket.send_fds(left, [b'x'], [fd])
    os.close(fd)""",
        DISK,
    ),
    Edge(
        "removed files, of which a page of memory is left",
        f"""{_FILE}
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long)
for n in steps():
    fd = file('f')
    os.unlink('f')
    libc.mmap(None, 4096, 1, 1, fd, 0)
    os.close(fd)""",
        DISK,
    ),
    Edge(
        "removed files, open in a process that shows nothing",
        f"""{_FILE}
shutil.copy('/bin/cat', 'c')
os.chmod('c', 0o111)
for n in steps():
    fd = file('f')
    os.unlink('f')
    subprocess.Popen(['./c'], stdin=subprocess.PIPE, pass_fds=[fd])
    os.close(fd)""",
        DISK,
    ),
    Edge(
        "files in a folder that is shut",
        f"{_FILE}\nos.mkdir('d', 0o300)\nfor n in steps(): file(f'd/{{n}}')",
        DISK,
    ),
    Edge(
        "very many files in a folder that is shut",
        f"{_FILE}\nos.mkdir('d', 0o300)\nfor n in steps():\n    for m in range(800): open(f'd/{{n}}-{{m}}', 'w').close()",
        DISK,
    ),
    Edge(
        "empty files in memory",
        """
import os
for n in range(1_000_000):
    if n % 10_000 == 0:
        os.mkdir(folder := f'/tmp/{n}')
    open(f'{folder}/{n}', 'w').close()""",
        MEMORY,
    ),
    Edge(
        "full sockets that nobody reads",
        """
import os, socket, time
for n in range(8):
    if os.fork() == 0:
        pairs = [socket.socketpair() for _ in range(110)]
        for one in [one for pair in pairs for one in pair]:
            one.setblocking(False)
            try:
                while True:
                    one.send(bytes(32_000))
            except BlockingIOError:
                pass
        while True:
            time.sleep(0.05)
while True:
    time.sleep(0.05)""",
        MEMORY,
    ),
    Edge(
        "sockets with large buffers",
        """
import socket
left, right = socket.socketpair()
left.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_000_000)
left.setblocking(False)
held = 0
try:
    while True:
        held += left.send(bytes(32_000))
except BlockingIOError:
    print('usual' if held < 500_000 else held)""",
        says="usual",
    ),
    held("room on the disk in one call", _OPEN + call(285, "fd", "0", "0", "1 << 20")),
    Edge(
        "the same, as the C library does it",
        f"import os\n{_OPEN}os.posix_fallocate(fd, 0, 1 << 20)\nprint(os.fstat(fd).st_size)",
        says="1048576",
    ),
    held("a terminal", "os.open('/dev/ptmx', os.O_RDONLY | os.O_NOCTTY)"),
    held("a file beside the devices", "os.open('/dev/x', os.O_WRONLY | os.O_CREAT)"),
    held(
        "a clock that wakes who was stopped",
        "timer = ctypes.c_int()\n" + call(222, "1", "None", "ctypes.byref(timer)"),
    ),
    held("one of the few watchers that a user may have", "if libc.inotify_init1(0) == -1: raise OSError('no')"),
    held("another signal for what happens to a file", _OPEN + "fcntl.fcntl(fd, fcntl.F_SETSIG, 18)"),
    held("a lease that makes the host wait", _OPEN + "fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)"),
    Edge(
        "the first to go when the machine is out of memory",
        "print(open('/proc/self/oom_score_adj').read())",
        says="800",
    ),
    held("a better place in that order", "open('/proc/self/oom_score_adj', 'w').write('-1')"),
]

_LEFT_BEHIND = """
import gc, os, time
def late(order):
    open('go', 'w').close()
    time.sleep(600)
next(o for o in gc.get_objects() if type(o).__name__ == 'CommandLoop')._operations['check'] = late
if os.fork() == 0:
    os.setsid()
    while not os.path.exists('go'):
        time.sleep(0.01)
    for n in range(4):
        with open(f'f{n}', 'wb') as file:
            for _ in range(30):
                file.write(bytes(1 << 20))
    time.sleep(600)
"""
"""Leaves a process that fills the disk, and a worker that does not answer its next request."""


def interpreter() -> Interpreter:
    return Interpreter(timeout=60, grace=0.3, limits=LIMITS)


async def one(edge: Edge) -> dict[str, Any]:
    async with interpreter() as ci:
        r = await ci.run(edge.code)
        after = await ci.run("print('still here')")
        return {
            "name": edge.name,
            "outcome": [r.status, r.reason],
            "stdout": r.stdout[-500:],
            "error": None if r.error is None else f"{r.error.message[:300]} {r.error.traceback[-500:]}",
            "usable": after.stdout == "still here\n",
            "level": r.isolation.level,
        }


async def left_behind() -> list[str | None]:
    async with interpreter() as ci:
        assert (await ci.run(_LEFT_BEHIND)).status == "ok"
        r = await ci.run("```python\n1\n```\n```python\n2\n```")
        return [r.status, r.reason]


async def run() -> dict[str, Any]:
    gate = asyncio.Semaphore(AT_ONCE)

    async def gated(edge: Edge) -> dict[str, Any]:
        async with gate:
            return await one(edge)

    results = await asyncio.gather(*map(gated, EDGES))
    return {"results": results, "left_behind": await left_behind()}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(run())))
