"""One shared worker for tests that do not change it, a fresh one for the others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.interpreter.inside.sandbox_process import SandboxProcess, lay_out, started


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return lay_out(tmp_path_factory.mktemp("inside") / "library")


@pytest.fixture(scope="module")
def child(library: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxProcess]:
    with started(library, tmp_path_factory.mktemp("shared")) as running:
        yield running


@pytest.fixture
def fresh(library: Path, tmp_path: Path) -> Iterator[SandboxProcess]:
    with started(library, tmp_path) as running:
        yield running
