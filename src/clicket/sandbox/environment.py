"""The layer `environment`: a program gets variables made for it, and five descriptors. Nothing else of the host's process."""

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
"""All that a program is ever given."""

_HIGH = 64
"""The program's ends are opened from here up, so that moving them to 3 and 4 can never overwrite one of them."""
_COMMAND_BUFFER = 1 << 20
_MOST_THREADS = 4


def variables(*, home: str, binaries: str, scratch: str, inherit: bool = False) -> dict[str, str]:
    """The whole environment of a program; with `inherit` (the layer is switched off) on top of the host's own."""
    threads = str(min(_MOST_THREADS, os.cpu_count() or 1))
    own = {
        "HOME": home,
        "LANG": "C.UTF-8",
        "LOGNAME": "user",
        # More arenas make the address space, which is bounded, run out long before the memory does.
        "MALLOC_ARENA_MAX": "2",
        "MPLBACKEND": "agg",
        "MPLCONFIGDIR": f"{scratch}/matplotlib",
        # On a machine of many cores, one thread for each would be more than a cage may have.
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
    """What the interpreter is told to do first: bring the two pipes to their numbers, and start the boot code."""
    return (
        "import os,sys;"
        f"os.dup2({commands},3);os.dup2({answers},4);"
        f"sys.path.insert(0,{library!r});"
        "from clicket.sandbox.boot import main;main(3,4)"
    )


class Ends(msgspec.Struct, frozen=True, kw_only=True):
    """Four descriptors of one side."""

    commands: int
    answers: int
    stdout: int
    stderr: int


class Pipes:
    """The four pipes of a cage. The host's ends never block; the program's are closed here once it has them."""

    def __init__(self) -> None:
        self._open: set[int] = set()
        try:
            inside_commands, commands = self._pipe(high=True, host_reads=False)
            answers, inside_answers = self._pipe(high=True, host_reads=True)
            stdout, inside_stdout = self._pipe(high=False, host_reads=True)
            stderr, inside_stderr = self._pipe(high=False, host_reads=True)
        except OSError:
            self.close()
            raise
        self.host: Ends = Ends(commands=commands, answers=answers, stdout=stdout, stderr=stderr)
        self.inside: Ends = Ends(
            commands=inside_commands, answers=inside_answers, stdout=inside_stdout, stderr=inside_stderr
        )
        if hasattr(fcntl, "F_SETPIPE_SZ"):
            with contextlib.suppress(
                OSError
            ):  # this user's share of pipe memory is spent; the usual size serves as well
                fcntl.fcntl(commands, fcntl.F_SETPIPE_SZ, _COMMAND_BUFFER)

    def _pipe(self, *, high: bool, host_reads: bool) -> tuple[int, int]:
        ends = list(os.pipe())
        self._open.update(ends)
        theirs = 1 if host_reads else 0
        os.set_blocking(ends[1 - theirs], False)
        if high:
            moved = fcntl.fcntl(ends[theirs], fcntl.F_DUPFD_CLOEXEC, _HIGH)
            self._open.add(moved)
            self._close(ends[theirs])
            ends[theirs] = moved
        return ends[0], ends[1]

    def handed_over(self) -> None:
        """The program has its ends: ours of them go, so that its death is seen as the end of its pipes."""
        for fd in (self.inside.commands, self.inside.answers, self.inside.stdout, self.inside.stderr):
            self._close(fd)

    def close(self) -> None:
        for fd in list(self._open):
            self._close(fd)

    def _close(self, fd: int) -> None:
        if fd in self._open:
            self._open.discard(fd)
            os.close(fd)
