"""A new prefix of keys for each test, and stores on it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import redis
from tests.contract.redis.kit import Make
from tests.redis_server import RedisServer, redis_server

from clicket.stores.redis import RedisStore


@pytest.fixture(scope="session")
def server(redis_here: RedisServer) -> RedisServer:
    """Shared by all tests that do not break it."""
    return redis_here


@pytest.fixture
def own(tmp_path: Path) -> Iterator[RedisServer]:
    """For tests that break it."""
    with redis_server(tmp_path / "redis") as running:
        yield running


@pytest.fixture
def prefix(place: str) -> str:
    return place


@pytest.fixture
def make(server: RedisServer, prefix: str) -> Make:
    """Makes stores on one new prefix. Their timeout is long because the machine may be busy."""
    return partial(RedisStore, server.url, prefix=prefix, timeout=30.0)


@pytest.fixture
def raw(server: RedisServer) -> Iterator[Any]:
    """A plain client of the server."""
    with redis.Redis(port=server.port, protocol=2) as client:
        yield client
