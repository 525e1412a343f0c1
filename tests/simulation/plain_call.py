"""The plainest use of the product, with real time: a call in memory, one in SQLite, and a turn of an agent with a tool call.

`python -m tests.simulation.plain_call` prints what came of them.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from clicket import Runtime, tool
from clicket.agents import ReActAgent
from clicket.testing import ScriptedModel

__all__: list[str] = []


@tool
async def add(a: int, b: int) -> int:
    """Adds two numbers."""
    await asyncio.sleep(0)
    return a + b


async def main() -> None:
    async with Runtime(tools=[add], store="memory://") as rt:
        result = await rt.call("add", {"a": 1, "b": 2})
        print("memory", result.state, result.output)
        handle = await rt.submit("add", {"a": 2, "b": 2})
        print("submitted", (await handle.result()).output)
        answer = await ReActAgent(rt, ScriptedModel([[("add", {"a": 2, "b": 3})], "5"])).run("2 + 3?", thread="t")
        print("agent", answer.stopped, answer.text)
    with tempfile.TemporaryDirectory() as folder:
        async with Runtime(tools=[add], store=f"sqlite:///{Path(folder) / 'calls.db'}") as rt:
            result = await rt.call("add", {"a": 3, "b": 4})
            print("sqlite", result.state, result.output)


if __name__ == "__main__":
    asyncio.run(main())
