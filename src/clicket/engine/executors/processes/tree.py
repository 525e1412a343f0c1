"""Finding and ending process trees. Only the standard library and `process_table`: the guard loads both files by their paths."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING or __name__ != "tree":
    import clicket.system.process_table as process_table  # noqa: PLR0402  # so the import contract sees the module
else:
    import process_table  # the guard has found it already

__all__ = ["MARK", "Process", "bearers", "descendants", "end", "end_tree", "group", "identify", "is_alive", "send"]

MARK = "CLICKET_TOOL_PROCESS"
"""The environment variable that marks every process that a tool process started, wherever it moved in the tree."""


class Process(NamedTuple):
    """One process. Without /proc there is no start time; a negative pid then means a whole process group."""

    pid: int
    started: int


def descendants(root: int) -> list[Process] | None:
    """Every living process below `root`, not `root` itself; None on a system without /proc."""
    table = process_table.processes()
    if not table:
        return None
    return [Process(pid, started) for pid, started in process_table.below(root, table).items()]


def bearers(token: str) -> list[Process]:
    """Every living process whose environment has the tool process's token: also a daemon that has left the tree."""
    mark = f"{MARK}={token}".encode()
    found = []
    for pid, (_, started, dead) in process_table.processes().items():
        try:
            with open(f"{process_table.PROC}/{pid}/environ", "rb") as file:
                marked = mark in file.read().split(b"\0")
        except OSError:  # it is gone, or it belongs to another user
            continue
        if marked and not dead:
            found.append(Process(pid, started))
    return found


def group(leader: int) -> list[Process]:
    """The process group of `leader` as one target, while it has members; used on systems without /proc."""
    try:
        os.killpg(leader, 0)
    except (ProcessLookupError, PermissionError):  # some systems raise the latter for a group of zombies
        return []
    return [Process(-leader, 0)]


def identify(pid: int) -> Process:
    """The process that has this pid now; for a caller that knows that the pid was not reused."""
    stat = process_table.stat(pid)
    return Process(pid, stat[1] if stat is not None else 0)


def is_alive(process: Process) -> bool:
    stat = process_table.stat(process.pid)
    return stat is not None and stat[1] == process.started and not stat[2]


def send(process: Process, number: int) -> bool:
    """Signal exactly this process. False when it may not be signalled by us; True when it was, or is gone already."""
    try:
        if process.pid < 0:
            os.killpg(-process.pid, number)
        elif hasattr(os, "pidfd_open"):
            process_table.send_exactly(process.pid, process.started, number)
        elif is_alive(process):
            os.kill(process.pid, number)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return True


def end(find: Callable[[], Iterable[Process]], grace: float, pause: Callable[[float], bool]) -> None:
    """TERM to all that `find` finds, KILL to what is left after `grace` seconds, until nothing is found.

    `pause(seconds)` waits between two scans; when it returns True the grace is over. A process that we may not signal (a
    setuid child) is skipped, or this would never return."""
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
                # A stopped process does not handle TERM until it is continued.
                allowed = send(process, signal.SIGTERM) and send(process, signal.SIGCONT)
            if not allowed or (rest <= 0 and process.pid < 0):  # a group's dead count as members until they are reaped
                done_with.add(process)
        if pause(0.01 if rest <= 0 else min(0.05, rest)):
            kill_at = time.monotonic()


def end_tree(roots: Sequence[Process], token: str, grace: float) -> None:
    """End `roots`, their descendants and all processes with the token. Blocks until they are gone: use a thread."""

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
