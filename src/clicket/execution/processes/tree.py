"""Finding and ending process trees through /proc. A process is a pid and its start time, so that a pid that has been
given to somebody else meanwhile is never signalled. Only the standard library: the guard loads this file by itself."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

__all__ = ["MARK", "Process", "bearers", "descendants", "end", "end_tree", "group", "identify", "is_alive", "send"]

MARK = "CLICKET_WORKER"
"""The environment variable by which everything that a worker started is known, wherever it moved in the tree."""

PROC = "/proc"


class Process(NamedTuple):
    """One process. Without /proc there is no start time; a negative pid then stands for a whole process group."""

    pid: int
    started: int


class _Stat(NamedTuple):
    parent: int
    started: int
    dead: bool


def descendants(root: int) -> list[Process] | None:
    """Every living process below `root`, not `root` itself; None on a system without /proc."""
    table = _table()
    if table is None:
        return None
    below: dict[int, list[int]] = {}
    for pid, stat in table.items():
        below.setdefault(stat.parent, []).append(pid)
    found, todo = [], list(below.get(root, ()))
    while todo:
        pid = todo.pop()
        todo.extend(below.get(pid, ()))
        if not table[pid].dead:
            found.append(Process(pid, table[pid].started))
    return found


def bearers(token: str) -> list[Process]:
    """Every living process whose environment has the worker's token: also a daemon that nobody's tree holds any more."""
    mark = f"{MARK}={token}".encode()
    found = []
    for pid, stat in (_table() or {}).items():
        try:
            with open(f"{PROC}/{pid}/environ", "rb") as file:
                marked = mark in file.read().split(b"\0")
        except OSError:  # gone, or somebody else's
            continue
        if marked and not stat.dead:
            found.append(Process(pid, stat.started))
    return found


def group(leader: int) -> list[Process]:
    """The process group of `leader` as one target, while it has members: all there is on a system without /proc."""
    try:
        os.killpg(leader, 0)
    except (ProcessLookupError, PermissionError):  # some systems say the latter of a group of zombies
        return []
    return [Process(-leader, 0)]


def identify(pid: int) -> Process:
    """The process that has this pid now; for a caller who knows that it cannot have been given away yet."""
    stat = _stat(pid)
    return Process(pid, stat.started if stat is not None else 0)


def is_alive(process: Process) -> bool:
    stat = _stat(process.pid)
    return stat is not None and stat.started == process.started and not stat.dead


def send(process: Process, number: int) -> bool:
    """Signal exactly this process. False when it may not be signalled by us; True when it was, or is gone already."""
    try:
        if process.pid < 0:
            os.killpg(-process.pid, number)
        elif hasattr(os, "pidfd_open"):
            _send_exactly(process, number)
        elif is_alive(process):
            os.kill(process.pid, number)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return True


def _send_exactly(process: Process, number: int) -> None:
    # The descriptor is taken first and the start time checked after it: from then on no other process can be meant.
    fd = os.pidfd_open(process.pid)
    try:
        if is_alive(process):
            signal.pidfd_send_signal(fd, number)
    finally:
        os.close(fd)


def end(find: Callable[[], Iterable[Process]], grace: float, pause: Callable[[float], bool]) -> None:
    """TERM to all that `find` finds, KILL to what is left after `grace` seconds, until nothing is found.

    `pause(seconds)` waits between two looks; when it returns True the grace is over. What we may not signal (a setuid
    child) is left alone, or this would never return."""
    asked: set[Process] = set()
    done_with: set[Process] = set()
    kill_at = time.monotonic() + grace
    while left := [process for process in find() if process not in done_with]:
        rest = kill_at - time.monotonic()
        for process in left:
            if rest <= 0:
                allowed = send(process, signal.SIGKILL)
            elif process in asked:
                continue
            else:
                asked.add(process)
                # A stopped process would sleep through its TERM.
                allowed = send(process, signal.SIGTERM) and send(process, signal.SIGCONT)
            if not allowed or (rest <= 0 and process.pid < 0):  # a group's dead count as members until they are reaped
                done_with.add(process)
        if pause(0.01 if rest <= 0 else min(0.05, rest)):
            kill_at = time.monotonic()


def end_tree(roots: Sequence[Process], token: str, grace: float) -> None:
    """End `roots`, what descends from them and all that bears the token. Blocks until they are gone: use a thread."""

    def find() -> set[Process]:
        found = set(bearers(token))
        for root in roots:
            below = descendants(root.pid)
            if below is None:
                found.update(group(root.pid))
            elif is_alive(root):
                found.update((root, *below))
        return found

    def pause(seconds: float) -> bool:
        time.sleep(seconds)
        return False

    end(find, grace, pause)


def _table() -> dict[int, _Stat] | None:
    try:
        names = os.listdir(PROC)
    except OSError:
        return None
    table = {int(name): stat for name in names if name.isdigit() and (stat := _stat(int(name))) is not None}
    return table or None


def _stat(pid: int) -> _Stat | None:
    try:
        with open(f"{PROC}/{pid}/stat", "rb") as file:
            # The name in parentheses may hold spaces and parentheses of its own; the fields follow the last one.
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    # A zombie whose other threads still run is not dead yet.
    dead = fields[0] in (b"Z", b"X") and int(fields[17]) <= 1
    return _Stat(int(fields[1]), int(fields[19]), dead)
