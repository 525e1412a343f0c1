"""Another MCP server asks a question while it works. It waits like an approval, and a person answers it. Needs clicket[mcp].

Run it: python examples/36_mcp_question.py
"""

import asyncio
import sys

from clicket import Runtime, ToolContext, tool
from clicket.mcp import McpServer, answers, elicit, need

FORM = {"properties": {"flavour": {"type": "string", "enum": ["lemon", "plum"]}}, "required": ["flavour"]}


@tool(tags=["mcp"])
async def cake(guests: int, ctx: ToolContext) -> object:
    """Bake a cake. This tool is served by the other process."""
    given = answers(ctx)
    if "choice" not in given:
        return need(choice=elicit("Which flavour?", FORM))
    choice = given["choice"]
    return f"a {choice['content']['flavour']} cake for {guests}" if choice["action"] == "accept" else "no cake"


async def main() -> None:
    command = [sys.executable, "-m", "clicket", "mcp", "--tools", __file__, "--store", "memory://"]
    async with Runtime(store="memory://") as rt:
        await McpServer("bakery", command=command, question_timeout=600).join(rt)
        handle = await rt.submit("cake", {"guests": 8})
        async for event in handle.events():
            if event.type == "approval_requested":
                break
        record = await rt.get(handle.id)
        assert record.approval is not None
        print(record.approval["why"])
        print("fields:", list(record.approval["question"]["schema"]["properties"]))
        await rt.respond(handle.id, {"flavour": "plum"}, by="ann")  # or: clicket respond ID '{"flavour": "plum"}'
        print((await handle.result()).output)


if __name__ == "__main__":
    asyncio.run(main())
