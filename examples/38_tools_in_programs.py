"""Tools as functions of a program: one program in place of many tool calls, and each use is a call on record."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from clicket import Record, Runtime, tool
from clicket.agents import ReActAgent
from clicket.interpreter import code_interpreter
from clicket.testing import ScriptedModel

STOCK = {"tea": 10, "milk": 0, "rice": 120, "ink": 3}


@tool(read_only=True)
async def items() -> list[str]:
    """Names of all goods."""
    return list(STOCK)


@tool(read_only=True)
async def stock(item: str) -> int:
    """How many of an item there are."""
    return STOCK[item]


@tool
async def order(item: str, count: int) -> str:
    """Order more of an item."""
    return f"{count} {item} ordered"


PROGRAM = """
import asyncio

names = await tools.items()
counts = dict(zip(names, await asyncio.gather(*(tools.stock(item=name) for name in names))))
for name, count in counts.items():
    if count < 5:
        print(await tools.order(item=name, count=20 - count))
try:
    await tools.stock(item="gold")
except ToolError as error:
    print(f"{error.tool}: {error.code}")
"""


async def main() -> None:
    interpreter = code_interpreter(tools=["items", "stock", "order"], warm=False)
    async with Runtime(tools=[items, stock, order, interpreter], store="memory://") as rt:
        # The agent is offered the interpreter alone; its description lists the tools that programs may use.
        model = ScriptedModel([[("code_interpreter", {"task": PROGRAM})], "Milk and ink are ordered."])
        agent = ReActAgent(rt, model, tools=["code_interpreter"])
        answer = await agent.run("Order what is running out.", thread="t1")
        print(answer.text)
        print(f"{len(model.requests)} requests to the model")
        print(model.requests[0].tools[0].description.split("Tools:")[1].strip())

        page = await rt.history(thread="t1")
        for record in reversed(page.items):
            shown = record.arguments if "use" in record.metadata else "a program"
            print(record.id.partition("~")[0], record.tool, shown, record.state)
        assert {"order": 2, "stock": 5}.items() <= count_of(page.items).items()


def count_of(records: Iterable[Record]) -> dict[str, int]:
    found: dict[str, int] = {}
    for record in records:
        found[record.tool] = found.get(record.tool, 0) + 1
    return found


if __name__ == "__main__":
    asyncio.run(main())
