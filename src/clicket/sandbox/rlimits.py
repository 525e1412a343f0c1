"""The kernel's bounds for each process: address space, size of a file, open files, processes of its user, core dumps.

Address space is no measure of memory, only a fence far behind it; what counts memory is a layer of the host. Time is not
bounded here: a program may wait for its next block for days, and its blocks are timed from outside."""

from __future__ import annotations

import os
import sys

__all__ = ["apply", "rules", "tasks_of"]

_CORE_PATTERN = "/proc/sys/kernel/core_pattern"
_ADDRESS_SPACE = 4
"""Times the memory: threads and libraries reserve far more than they use."""
_SIGNALS = 1024
"""Signals that wait to be delivered. They are counted for a user, who may be the host's, too."""


def rules(
    *, memory: int, processes: int, file_size: int, open_files: int, alone: bool = True, uid: int | None = None
) -> dict[str, int]:
    """What to apply, by the kernel's names.

    `processes` are counted over all that the program's user runs. Where that is more than the cage (`alone` is False), those
    that run already are added, and `uid` is that user; for root nothing is counted, and none is set.
    """
    found = {"CORE": _core(), "FSIZE": file_size, "NOFILE": open_files}
    if sys.platform != "darwin":  # there, libraries alone reserve more than any sensible bound
        found["AS"] = _ADDRESS_SPACE * memory
        found["SIGPENDING"] = _SIGNALS
    if alone:
        found["NPROC"] = processes
    elif uid:
        found["NPROC"] = processes + tasks_of(uid)
    return found


def _core() -> int:
    """No dumps. Where the kernel hands them to a program of the host, it does so even at 0, and only a 1 means none at all."""
    try:
        with open(_CORE_PATTERN, "rb") as pattern:
            return int(pattern.read(1) in {b"|", b"@"})
    except OSError:
        return 0


def apply(rules: dict[str, int]) -> None:
    """Hard and soft alike, so that no program can raise them again. A stricter bound that is there already stays."""
    import resource

    for name, value in rules.items():
        number = getattr(resource, f"RLIMIT_{name}")
        _, hard = resource.getrlimit(number)
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)  # noqa: PLW2901 - the stricter of two
        resource.setrlimit(number, (value, value))


def tasks_of(uid: int) -> int:
    """How many threads a user has now, as far as they can be seen from here."""
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
