"""What the tests of the PostgreSQL store share."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from clicket.stores.postgres import PostgresStore

__all__ = ["Make", "until"]

Make = Callable[..., PostgresStore]


async def until(true: Callable[[], Awaitable[bool] | bool]) -> None:
    """Wait for a condition."""
    async with asyncio.timeout(60):
        while True:
            answer = true()
            if answer if isinstance(answer, bool) else await answer:
                return
            await asyncio.sleep(0.01)
