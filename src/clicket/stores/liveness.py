"""Is the process that owned a call still there? Pids are reused, so the kernel's start time is part of the answer."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from clicket import system
from clicket.model.ports import Owner

__all__ = ["is_dead", "process_gone", "this_process"]


def this_process(lease: float) -> Owner:
    host, boot, pid = system.current().process()
    return Owner(host=host, boot=boot, pid=pid, started=_started(pid), lease=lease)


def is_dead(owner: Owner, renewed: float) -> bool:
    """Dead at once when its process is gone from this host, or its boot from this machine; else when its lease has run out. For a store
    whose users share one machine: leases count from its boot, so those of an earlier boot say nothing, whatever the host is called now."""
    boot = system.current().process().boot
    of_another_boot = bool(boot and owner.boot) and owner.boot != boot
    return process_gone(owner) or of_another_boot or system.uptime() > renewed + owner.lease


def process_gone(owner: Owner) -> bool:
    """Is it known, without waiting for its lease, that the process is no more? Only processes of this host can be seen."""
    host, boot, _ = system.current().process()
    if owner.host != host:
        return False
    return owner.boot != boot or not _exists(owner.pid) or _started(owner.pid) != owner.started


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
