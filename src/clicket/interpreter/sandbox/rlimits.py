"""The layer `rlimits`: the kernel's limits for each process on address space, file size, open files, processes, core dumps.

Address space is only a coarse upper limit on memory; the layers `cgroup` and `watch` count memory. Time is not limited here: a
program may wait for days for its next block, and the host times its blocks."""

from __future__ import annotations

import os
import sys

__all__ = ["apply", "rules", "tasks_of"]

_CORE_PATTERN = "/proc/sys/kernel/core_pattern"
_ADDRESS_SPACE = 4
"""Multiple of the memory limit: threads and libraries reserve far more than they use."""
_SIGNALS = 1024
"""Pending signals. The kernel counts them per user, and the host may run as the same user."""


def rules(
    *, memory: int, processes: int, file_size: int, open_files: int, alone: bool = True, uid: int | None = None
) -> dict[str, int]:
    """What to apply: name of the kernel's limit -> value.

    The kernel counts all processes of the program's user. If the user runs others too (`alone` is False), those that run now are
    added, and `uid` is that user. The kernel does not count root's processes, so for root no such limit is set.
    """
    found = {"CORE": core_size(), "FSIZE": file_size, "NOFILE": open_files}
    if sys.platform != "darwin":  # there, libraries alone reserve more than any reasonable limit
        found["AS"] = _ADDRESS_SPACE * memory
        found["SIGPENDING"] = _SIGNALS
    if alone:
        found["NPROC"] = processes
    elif uid:
        found["NPROC"] = processes + tasks_of(uid)
    return found


def core_size() -> int:
    """No core dumps. A kernel that pipes them to a program does so even at 0; there 1 disables them."""
    try:
        with open(_CORE_PATTERN, "rb") as pattern:
            return int(pattern.read(1) in {b"|", b"@"})
    except OSError:
        return 0


def apply(rules: dict[str, int]) -> None:
    """Sets hard and soft limits, so that the program cannot raise them. A stricter limit that is set already stays."""
    import resource

    for name, value in rules.items():
        number = getattr(resource, f"RLIMIT_{name}")
        _, hard = resource.getrlimit(number)
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)  # noqa: PLW2901 - the stricter of two
        resource.setrlimit(number, (value, value))


def tasks_of(uid: int) -> int:
    """The number of threads that a user runs now, as far as /proc shows them."""
    found = 0
    try:
        names = os.listdir("/proc")
    except OSError:
        return 0
    for name in names:
        if name.isdecimal():
            try:
                if os.stat(f"/proc/{name}").st_uid == uid:
                    found += os.stat(f"/proc/{name}/task").st_nlink - 2
            except OSError:
                continue  # it ended meanwhile
    return found
