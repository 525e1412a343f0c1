"""Tools with deps that a child process can import, and their factory."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

from clicket import Depends, ToolContext, tool

__all__ = ["Pool", "by_process", "by_process_context", "connect"]

made = 0


class Pool:
    """Stands for a pool of connections."""

    def __init__(self) -> None:
        self.closed = False

    def read(self, row: int) -> str:
        assert not self.closed
        return f"row {row}"

    async def aclose(self) -> None:
        self.closed = True
        if "CLOSED_AT" in os.environ:
            Path(os.environ["CLOSED_AT"]).write_text("closed")


async def connect() -> Pool:
    global made
    made += 1
    return Pool()


@tool(isolation="process")
async def by_process(row: int, db: Annotated[Pool, Depends("db")]) -> list[Any]:
    return [db.read(row), made]


@tool(isolation="process")
def by_process_context(row: int, ctx: ToolContext) -> list[Any]:
    return [ctx.deps["db"].read(row), made]
