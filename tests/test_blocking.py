"""The blocking classes are what `scripts/blocking.py` writes from the async ones now."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def test_the_blocking_classes_are_current() -> None:
    command = [sys.executable, str(ROOT / "scripts" / "blocking.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}Run `make docs`."
