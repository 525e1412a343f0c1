"""One Redis server and one PostgreSQL server for all tests of stores that do not break them; each test has a place of its own in them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import count

import pytest
from tests.postgres_server import PostgresServer, postgres_server
from tests.redis_server import RedisServer, redis_server

_numbers = count(1)


@pytest.fixture(scope="session")
def redis_here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with redis_server(tmp_path_factory.mktemp("redis")) as running:
        yield running


@pytest.fixture(scope="session")
def postgres_here() -> Iterator[PostgresServer]:
    with postgres_server() as running:
        yield running


@pytest.fixture
def place() -> str:
    """A new name: the prefix of keys in Redis, or a schema in PostgreSQL."""
    return f"p{os.getpid()}_{next(_numbers)}"
