"""The durable stores that the suite runs on: one row each. A new store is a new row."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
from tests.postgres_server import postgres_server
from tests.redis_server import redis_server

__all__ = ["STORES", "Fresh", "Row"]

Fresh = Callable[[Path], str]
"""The URL of an empty store; the folder is the run's own."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """`serve` starts what all runs share, for example a server, and returns a function that makes empty stores."""

    name: str
    scheme: str
    serve: Callable[[], AbstractContextManager[Fresh]]
    durability: str = "process"


@contextmanager
def _files() -> Iterator[Fresh]:
    yield lambda folder: f"sqlite:///{folder / 'calls.db'}"


@contextmanager
def _redis() -> Iterator[Fresh]:
    numbers = count(1)
    keep = ("--appendonly", "yes", "--appendfsync", "everysec")
    with TemporaryDirectory(prefix="clicket-crash-redis-") as folder, redis_server(Path(folder), *keep) as server:
        yield lambda _: f"{server.url}?prefix=run{next(numbers)}"


@contextmanager
def _postgres() -> Iterator[Fresh]:
    numbers = count(1)
    with postgres_server() as server:
        yield lambda _: f"{server.url()}?schema=run{next(numbers)}"


STORES = {
    row.name: row
    for row in (
        Row(name="sqlite", scheme="sqlite", serve=_files),
        Row(name="sqlite-power", scheme="sqlite", serve=_files, durability="power"),
        Row(name="redis", scheme="redis", serve=_redis),
        Row(name="postgres", scheme="postgresql", serve=_postgres),
    )
}
