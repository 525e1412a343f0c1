"""Shared by the tests of `shutdown`."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.kit.waiting import PATIENCE, eventually

from clicket import ClicketError, Runtime, State, ToolContext, tool

__all__ = ["Body", "outcome", "until_state", "why"]


class Body:
    """A tool whose first run waits for the gate, and is cancelled when its runtime closes."""

    def __init__(self, **options: Any) -> None:
        self.runs: list[str] = []
        self.keys: list[str] = []
        self.gate = asyncio.Event()

        @tool(**{"name": "work", "max_retries": 0, **options})
        async def work(ctx: ToolContext) -> int:
            self.runs.append(ctx.call_id)
            self.keys.append(ctx.idempotency_key)
            number = len(self.runs)
            if number == 1:
                await self.gate.wait()
            return number

        self.tool = work

    async def running(self, count: int = 1) -> None:
        await eventually(lambda: len(self.runs) >= count)


async def outcome(rt: Runtime, id: str) -> Any:
    return await asyncio.wait_for((await rt.handle(id)).result(), PATIENCE)


async def why(waiting: Any) -> str:
    """The code of the error that ends a wait."""
    with pytest.raises(ClicketError) as raised:
        await asyncio.wait_for(waiting, PATIENCE)
    return raised.value.code


async def until_state(rt: Runtime, id: str, state: State) -> None:
    async def reached() -> bool:
        return await rt.state(id) is state

    await eventually(reached)
