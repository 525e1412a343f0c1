"""What the tests of the PostgreSQL store share."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

from tests.kit.waiting import PATIENCE
from tests.postgres_line import Line

from clicket.stores.postgres import PostgresStore

__all__ = ["Make", "impatient", "through", "until"]

Make = Callable[..., PostgresStore]


async def until(true: Callable[[], Awaitable[bool] | bool]) -> None:
    """Wait for a condition."""
    async with asyncio.timeout(PATIENCE):
        while True:
            answer = true()
            if answer if isinstance(answer, bool) else await answer:
                return
            await asyncio.sleep(0.01)


@contextmanager
def impatient(store: PostgresStore) -> Iterator[None]:
    """Inside, the store waits only a moment for answers; outside, a busy machine has all the time that it needs."""
    server, writer = store._server, store._parts.writer  # type: ignore[union-attr]
    patient = server.timeout
    server.timeout = writer._patience = 1.0
    try:
        yield
    finally:
        server.timeout = writer._patience = patient


def through(line: Line, schema: str, timeout: float = 30.0) -> PostgresStore:
    """A store whose connections go over a line that can be cut."""
    return PostgresStore(f"postgresql://postgres@127.0.0.1:{line.port}/postgres?schema={schema}", timeout=timeout)
