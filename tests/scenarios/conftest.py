"""By default, every scenario runs on memory and on SQLite."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.scenarios.kit import sqlite_url


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store's URL, new for each test."""
    return "memory://" if request.param == "memory" else sqlite_url(tmp_path)


@pytest.fixture
def sqlite(tmp_path: Path) -> str:
    """For scenarios that need a store that outlives its runtime."""
    return sqlite_url(tmp_path)
