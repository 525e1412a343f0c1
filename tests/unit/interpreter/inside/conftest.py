"""One worker for the tests of a file that leave it as they found it, a fresh one for the others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.interpreter.inside.worker_process import Worker, started


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    with started(tmp_path_factory.mktemp("shared")) as running:
        yield running


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Worker]:
    with started(tmp_path) as running:
        yield running
