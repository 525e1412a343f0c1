"""Is the process that owned a call still there? Pids are reused, so the kernel's start time is part of the answer."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

from clicket.ports import Owner

__all__ = ["boot_id", "host_clock", "is_dead", "process_gone", "this_process"]

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")

host_clock: Callable[[], float] = partial(time.clock_gettime, getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
"""Seconds since this machine started, the same for all its processes. It counts sleep, and no change of the date moves it."""


def this_process(lease: float) -> Owner:
    return Owner(host=_host(), boot=boot_id(), pid=os.getpid(), started=_started(os.getpid()), lease=lease)


def is_dead(owner: Owner, renewed: float) -> bool:
    """Dead at once when its process or its boot is gone from this host; else when its lease has run out."""
    return process_gone(owner) or host_clock() > renewed + owner.lease


def process_gone(owner: Owner) -> bool:
    """Is it known, without waiting for its lease, that the process is no more? Only processes of this host can be seen."""
    if owner.host != _host():
        return False
    return owner.boot != boot_id() or not _exists(owner.pid) or _started(owner.pid) != owner.started


@cache
def _host() -> str:
    """This machine as far as pids are concerned: containers may share a name and not see each other's processes."""
    with contextlib.suppress(OSError):
        return f"{socket.gethostname()}/{os.readlink('/proc/self/ns/pid')}"
    return socket.gethostname()


@cache
def boot_id() -> str:
    with contextlib.suppress(OSError):
        return _BOOT_ID.read_text().strip()
    return ""


def _started(pid: int) -> str:
    """Field 22 of /proc/PID/stat; empty where there is no /proc, and then the pid alone decides."""
    with contextlib.suppress(OSError, IndexError):
        stat = Path(f"/proc/{pid}/stat").read_text()
        fields = stat[stat.rindex(")") + 2 :].split()
        return "zombie" if fields[0] == "Z" else fields[19]
    return ""


def _exists(pid: int) -> bool:
    if not 0 < pid < 1 << 31:  # not the id of a process
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
