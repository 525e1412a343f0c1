"""Processes as /proc shows them. A process is a pid and its start time, so that a reused pid is never signalled.

The two guards load this file by its path, with a bare interpreter and without the package: it imports nothing but `os` and `_signal`.
(`signal` and `typing` draw in `enum` and `re`, which would cost a guard more than all the rest of its start.)
"""

from __future__ import annotations

import os

TYPE_CHECKING = False  # the checkers know the name
if TYPE_CHECKING:
    import signal as _signal
else:
    import _signal

__all__ = ["PROC", "below", "open_pid", "processes", "send_exactly", "stat"]

PROC = "/proc"

Stat = tuple[int, int, bool]
"""Parent, start time, and whether it is dead: a zombie of which no thread runs any more."""


def processes() -> dict[int, Stat]:
    """Every process by its pid; empty on a system without /proc."""
    try:
        names = os.listdir(PROC)
    except OSError:
        return {}
    return {int(name): found for name in names if name.isdecimal() and (found := stat(int(name))) is not None}


def below(root: int, table: dict[int, Stat]) -> dict[int, int]:
    """The living processes of the table below `root`, which is not one of them: start times by pid."""
    children: dict[int, list[int]] = {}
    for pid, (parent, _, _) in table.items():
        children.setdefault(parent, []).append(pid)
    found = {}
    todo = list(children.get(root, ()))
    while todo:
        pid = todo.pop()
        todo += children.get(pid, ())
        _, started, dead = table[pid]
        if not dead:
            found[pid] = started
    return found


def stat(pid: int) -> Stat | None:
    """None: there is no such process."""
    try:
        fd = os.open(f"{PROC}/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        # The name in parentheses may hold spaces and parentheses of its own; the fields follow the last one.
        fields = os.read(fd, 4096).rpartition(b")")[2].split()
    except OSError:
        return None
    finally:
        os.close(fd)
    if not fields:
        return None
    # A zombie whose other threads still run is not dead yet.
    dead = fields[0] in {b"Z", b"X"} and int(fields[17]) <= 1
    return int(fields[1]), int(fields[19]), dead


def open_pid(pid: int) -> int | None:
    """A descriptor that turns readable when the process ends; None where there is no such process, or no such descriptor."""
    try:
        return os.pidfd_open(pid) if hasattr(os, "pidfd_open") else None
    except OSError:
        return None


def send_exactly(pid: int, started: int, number: int) -> None:
    """Signal the process if it is still the one that was started then. Raises `OSError` if that is not allowed."""
    # The descriptor is taken first and the start time checked after it: from then on no other process can be meant.
    fd = os.pidfd_open(pid)
    try:
        found = stat(pid)
        if found is not None and found[1] == started and not found[2]:
            _signal.pidfd_send_signal(fd, number)
    finally:
        os.close(fd)
