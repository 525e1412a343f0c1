"""The layer `environment`: a program gets its own variables and five descriptors, and inherits nothing else from the host."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Mapping

import msgspec

__all__ = ["NAMES", "Ends", "Pipes", "prelude", "variables"]

NAMES = frozenset(
    "HOME LANG LOGNAME MALLOC_ARENA_MAX MPLBACKEND MPLCONFIGDIR OMP_NUM_THREADS OPENBLAS_NUM_THREADS PATH "
    "PYTHONDONTWRITEBYTECODE TERM TMPDIR TZ USER".split()
)
"""All variables that a program can get."""

_MIN_FD = 64
"""The program's pipe ends have descriptors from here up, so that moving them to 3 and 4 cannot overwrite one of them."""
_COMMAND_BUFFER = 1 << 20
_MAX_THREADS = 4


def variables(*, home: str, binaries: str, scratch: str, inherit: bool = False) -> dict[str, str]:
    """The environment of a program. `inherit`, for when the layer is switched off, keeps the host's variables too."""
    threads = str(min(_MAX_THREADS, os.cpu_count() or 1))
    own = {
        "HOME": home,
        "LANG": "C.UTF-8",
        "LOGNAME": "user",
        # More arenas would exhaust the limited address space long before the memory.
        "MALLOC_ARENA_MAX": "2",
        "MPLBACKEND": "agg",
        "MPLCONFIGDIR": f"{scratch}/matplotlib",
        # On a machine with many cores, one thread per core would exceed the limit of processes.
        "OMP_NUM_THREADS": threads,
        "OPENBLAS_NUM_THREADS": threads,
        "PATH": f"{binaries}:/usr/local/bin:/usr/bin:/bin",
        "PYTHONDONTWRITEBYTECODE": "1",
        "TERM": "dumb",
        "TMPDIR": scratch,
        "TZ": os.environ.get("TZ", ""),
        "USER": "user",
    }
    given: Mapping[str, str] = os.environ if inherit else {}
    return {**given, **{name: value for name, value in own.items() if value}}


def prelude(library: str, commands: int, answers: int) -> str:
    """The first Python code in the child: move the two pipes to descriptors 3 and 4, and start `boot`."""
    return (
        "import os,sys;"
        f"os.dup2({commands},3);os.dup2({answers},4);"
        f"sys.path.insert(0,{library!r});"
        "from clicket.interpreter.sandbox.boot import main;main(3,4)"
    )


class Ends(msgspec.Struct, frozen=True, kw_only=True):
    """The four pipe ends of one side."""

    commands: int
    answers: int
    stdout: int
    stderr: int


class Pipes:
    """The four pipes between host and program. The host's ends do not block; the program's are closed here once it has them."""

    def __init__(self) -> None:
        self._open: set[int] = set()
        try:
            commands = self._pipe(high=True, host_reads=False)
            answers = self._pipe(high=True, host_reads=True)
            stdout, stderr = (self._pipe(high=False, host_reads=True) for _ in range(2))
        except OSError:
            self.close()
            raise
        self.host, self.inside = (
            Ends(commands=commands[side], answers=answers[side], stdout=stdout[side], stderr=stderr[side])
            for side in (0, 1)
        )
        if hasattr(fcntl, "F_SETPIPE_SZ"):
            with contextlib.suppress(OSError):  # the user's pipe memory is used up; the default size will do
                fcntl.fcntl(self.host.commands, fcntl.F_SETPIPE_SZ, _COMMAND_BUFFER)

    def _pipe(self, *, high: bool, host_reads: bool) -> tuple[int, int]:
        """The host's end and the program's end."""
        ends = list(os.pipe())
        self._open.update(ends)
        theirs = 1 if host_reads else 0
        os.set_blocking(ends[1 - theirs], False)
        if high:
            moved = fcntl.fcntl(ends[theirs], fcntl.F_DUPFD_CLOEXEC, _MIN_FD)
            self._open.add(moved)
            self._close(ends[theirs])
            ends[theirs] = moved
        return ends[1 - theirs], ends[theirs]

    def handed_over(self) -> None:
        """Close our copies of the program's ends, so that its exit shows as the end of its pipes."""
        for fd in msgspec.structs.astuple(self.inside):
            self._close(fd)

    def close(self) -> None:
        for fd in list(self._open):
            self._close(fd)

    def _close(self, fd: int) -> None:
        if fd in self._open:
            self._open.discard(fd)
            os.close(fd)
