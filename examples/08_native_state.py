"""A tool with state per thread: it is opened once, handles one call at a time, and is closed at the end."""

from __future__ import annotations

import asyncio
from typing import Any

from pydantic import BaseModel

from clicket import NativeTool, Runtime, ToolContext


class Notebook(NativeTool, timeout=5):
    """Keep notes during a conversation."""

    class Arguments(BaseModel):
        add: str | None = None

    def open(self, thread: str) -> None:
        self.thread = thread
        self.notes: list[str] = []
        print(f"  opened for {thread}")

    def run(self, arguments: dict[str, Any], ctx: ToolContext) -> list[str]:
        if arguments.get("add"):
            self.notes.append(arguments["add"])
        return self.notes

    def close(self) -> None:
        print(f"  closed for {self.thread}, with {len(self.notes)} notes")


async def main() -> None:
    async with Runtime(tools=[Notebook], store="memory://") as rt:
        await rt.call("notebook", {"add": "milk"}, thread="anna")
        await rt.call("notebook", {"add": "nails"}, thread="ben")
        await rt.call("notebook", {"add": "bread"}, thread="anna")
        for thread in ("anna", "ben"):
            result = await rt.call("notebook", thread=thread)
            print(thread, result.output)


if __name__ == "__main__":
    asyncio.run(main())
