"""A slower disk by simple means: a small library, compiled here, that adds milliseconds to each fsync."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from benchmarks.environments import CACHE, ROOT

__all__ = ["slow_down"]

_SOURCE = ROOT / "benchmarks" / "slow_sync.c"


def slow_down(milliseconds: int) -> None:
    """Restart this process with the library preloaded. Returns in the new process."""
    if not milliseconds or os.environ.get("SLOW_SYNC_MS"):
        return
    library = _compiled()
    environment = {**os.environ, "LD_PRELOAD": str(library), "SLOW_SYNC_MS": str(milliseconds)}
    os.execve(sys.executable, sys.orig_argv, environment)


def _compiled() -> Path:
    library = CACHE / "slow_sync.so"
    if not library.exists() or library.stat().st_mtime < _SOURCE.stat().st_mtime:
        made = library.with_suffix(f".{os.getpid()}")
        command = ["cc", "-shared", "-fPIC", "-O2", "-o", str(made), str(_SOURCE), "-ldl"]
        try:
            subprocess.run(command, check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise SystemExit(f"a slower disk needs a C compiler: {error}") from None
        made.replace(library)
    return library
