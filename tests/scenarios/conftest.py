"""By default, every scenario runs on memory and on SQLite."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.crash.nest import Nest
from tests.postgres_server import PostgresServer, postgres_server
from tests.redis_server import RedisServer, redis_server
from tests.scenarios.kit import sqlite_url


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store's URL, new for each test."""
    return "memory://" if request.param == "memory" else sqlite_url(tmp_path)


@pytest.fixture
def sqlite(tmp_path: Path) -> str:
    """For scenarios that need a store that outlives its runtime."""
    return sqlite_url(tmp_path)


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with postgres_server() as running:
        yield running


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with redis_server(tmp_path_factory.mktemp("redis")) as running:
        yield running


@pytest.fixture(scope="session")
def _nest() -> Iterator[Nest]:
    with Nest() as running:
        yield running


@pytest.fixture
def nest(_nest: Nest) -> Iterator[Nest]:
    """Starts processes that a scenario kills, one at a time."""
    yield _nest
    _nest.tidy()
