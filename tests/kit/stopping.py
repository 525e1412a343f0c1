"""Stops processes by SIGSTOP where that stops nothing else."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import closing
from pathlib import Path

import apsw
from tests.kit.waiting import eventually

__all__ = ["stop_between_writes", "stopped_between_writes"]


async def stop_between_writes(pid: int, store: str) -> None:
    """Stop a process. One that is stopped while it writes to SQLite would lock the file for all: it goes on for a moment then."""
    os.kill(pid, signal.SIGSTOP)
    await stopped_between_writes(pid, store)


async def stopped_between_writes(pid: int, store: str) -> None:
    """The same for a process that is stopped already, or soon."""
    while True:
        await eventually(lambda: _is_stopped(pid))
        if not store.startswith("sqlite:") or not _is_locked(store.removeprefix("sqlite:///")):
            return
        os.kill(pid, signal.SIGCONT)
        await asyncio.sleep(0.01)
        os.kill(pid, signal.SIGSTOP)


def _is_stopped(pid: int) -> bool:
    """All its threads: each stops by itself."""
    states = {path.read_text().rpartition(")")[2].split()[0] for path in Path(f"/proc/{pid}/task").glob("*/stat")}
    return states == {"T"}


def _is_locked(path: str) -> bool:
    with closing(apsw.Connection(path)) as connection:
        try:
            connection.execute("BEGIN IMMEDIATE")
        except apsw.BusyError:
            return True
        connection.execute("ROLLBACK")
        return False
