"""One PostgreSQL server for these tests, and a new schema for each."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from tests.contract.postgres.kit import Make
from tests.postgres_server import PostgresServer, postgres_server

from clicket.stores.postgres import PostgresStore

_numbers = itertools.count(1)


@pytest.fixture(scope="package")
def server() -> Iterator[PostgresServer]:
    """Shared by all tests that do not break it."""
    with postgres_server() as running:
        yield running


@pytest.fixture
def schema() -> str:
    return f"s{next(_numbers)}"


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
