"""The compiled modules of the inside, written once."""

from __future__ import annotations

from pathlib import Path

import pytest

from clicket.interpreter.sandbox import python_runtime


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("inside") / "library"
    python_runtime.write_modules(folder, python_runtime.find_python())
    return folder
