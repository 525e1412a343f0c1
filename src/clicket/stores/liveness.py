"""Is the process that owned a call still there? Pids are reused, so the kernel's start time is part of the answer."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from pathlib import Path

from clicket.ports import Owner

__all__ = ["host_clock", "is_dead", "this_process"]

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def host_clock() -> float:
    """Seconds since this machine started: the same for all its processes, and deaf to changes of the date."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def this_process(lease: float) -> Owner:
    return Owner(host=socket.gethostname(), boot=_boot(), pid=os.getpid(), started=_started(os.getpid()), lease=lease)


def is_dead(owner: Owner, renewed: float) -> bool:
    """Dead at once when its process or its boot is gone from this host; else when its lease has run out."""
    if owner.host == socket.gethostname():
        if owner.boot != _boot():
            return True
        if not _exists(owner.pid) or _started(owner.pid) != owner.started:
            return True
    return host_clock() > renewed + owner.lease


def _boot() -> str:
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
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
