"""Child processes of tests: where the checkout is, and an environment in which they import its code and its tests."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PYTHONPATH = os.pathsep.join([str(ROOT / "src"), str(ROOT)])


def environment(**more: str) -> dict[str, str]:
    """The environment of this process, with clicket and tests of this checkout importable."""
    return {**os.environ, "PYTHONPATH": PYTHONPATH, **more}


def is_running(pid: int) -> bool:
    """Whether the process lives. A zombie, which only waits to be reaped, does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
