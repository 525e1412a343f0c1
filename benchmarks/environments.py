"""One virtual environment per contender, under `.cache/bench/`, made once and kept until its requirements change."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

__all__ = ["CACHE", "ROOT", "EnvironmentFailed", "python_of"]

ROOT = Path(__file__).resolve().parent.parent
CACHE = ROOT / ".cache" / "bench"
OURS = "clicket"


class EnvironmentFailed(Exception):
    """The environment could not be made; the message has pip's last lines."""


def python_of(name: str) -> Path:
    """The interpreter of the environment `name`, made first if need be. `clicket` is this repository, installed in place.

    If this process already runs in such an environment (`make bench` does, with locked versions), it is used.
    """
    if name == OURS and _has_checkout():
        return Path(sys.executable)
    folder = CACHE / name
    python = folder / "bin" / "python"
    if name == OURS:
        wanted = ["--editable", f"{ROOT}[server,mcp]"]
        content = (ROOT / "pyproject.toml").read_bytes()
    else:
        requirements = ROOT / "benchmarks" / "peers" / f"{name}.txt"
        wanted = ["--requirement", str(requirements)]
        content = requirements.read_bytes()
    stamp = hashlib.sha256(content + sys.version.encode()).hexdigest()
    mark = folder / "stamp"
    if mark.exists() and mark.read_text() == stamp:
        return python
    print(f"making the environment {name} …", file=sys.stderr, flush=True)
    _run([sys.executable, "-m", "venv", "--clear", str(folder)], name)
    _run([str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *wanted], name)
    mark.write_text(stamp)
    return python


def _has_checkout() -> bool:
    found = find_spec(OURS)
    return bool(found and found.origin and Path(found.origin).is_relative_to(ROOT / "src"))


def _run(command: list[str], name: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines()
        told = [line.strip() for line in lines if "rror:" in line] or lines[-1:] or ["no message"]
        raise EnvironmentFailed(f"environment {name}: {told[-1]}")
