"""Makes uvicorn exit at once in tests. Importing this is enough.

uvicorn checks ten times a second whether it should exit, then sleeps a tenth of a second so that connections can close:
every server in a test would idle for that long. Here it checks more often, otherwise unchanged. Servers in their own
process keep uvicorn's timing.
"""

from __future__ import annotations

import asyncio
from typing import Any

import uvicorn.server

__all__: list[str] = []

_LOOK_EVERY = 0.005


class _QuickAsyncio:
    """asyncio, with short sleeps."""

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)

    @staticmethod
    async def sleep(seconds: float) -> None:
        await asyncio.sleep(min(seconds, _LOOK_EVERY))


uvicorn.server.asyncio = _QuickAsyncio()  # type: ignore[assignment]
