"""A new schema for each test, and stores on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from tests.contract.postgres.kit import Make
from tests.postgres_server import PostgresServer, postgres_server

from clicket.stores.postgres import PostgresStore


@pytest.fixture(scope="session")
def server(postgres_here: PostgresServer) -> PostgresServer:
    """Shared by all tests that do not break it."""
    return postgres_here


@pytest.fixture
def own() -> Iterator[PostgresServer]:
    """For tests that break it."""
    with postgres_server() as running:
        yield running


@pytest.fixture
def schema(place: str) -> str:
    return place


@pytest.fixture
def make(server: PostgresServer, schema: str) -> Make:
    """Makes stores on one new schema. Their timeout is long because the machine may be busy."""
    return lambda **options: PostgresStore(f"{server.url()}?schema={schema}", **{"timeout": 30.0, **options})


@pytest.fixture
def sql(server: PostgresServer, schema: str) -> Iterator[Callable[..., list[Any]]]:
    """Runs SQL over another connection to the same schema."""
    with psycopg.connect(server.url(), autocommit=True, options=f"-c search_path={schema}") as connection:

        def run(text: str, *params: Any) -> list[Any]:
            cursor = connection.execute(text, params or None)
            return cursor.fetchall() if cursor.description else []

        yield run
