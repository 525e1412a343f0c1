"""Events of an agent's turn: pieces of text, tool calls with progress, usage. Later readers can replay the stored events."""

from __future__ import annotations

import asyncio

from clicket import Runtime, ToolContext, tool
from clicket.agents import ReActAgent
from clicket.testing import ScriptedModel


@tool
async def crawl(pages: int, ctx: ToolContext) -> str:
    """Visit pages."""
    for page in range(1, pages + 1):
        await asyncio.sleep(0.02)
        ctx.progress(page, pages, f"page {page}")
    return f"{pages} pages"


async def main() -> None:
    model = ScriptedModel([[("crawl", {"pages": 3})], "All three pages are there.", [("crawl", {"pages": 10_000})]])
    async with Runtime(tools=[crawl], store="memory://") as rt:
        agent = ReActAgent(rt, model)
        async for event in agent.stream("Look at the pages.", thread="ann"):
            match event.type:
                case "state":
                    print(f"  {event.data['from']} -> {event.data['to']}")
                case "delta" if event.data["kind"] == "text":
                    print(f"  … {event.data['text']!r}")
                case "tool_started":
                    print(f"  {event.data['tool']} {event.data['arguments']}")
                case "tool_progress" if event.data["kind"] == "progress":
                    print(f"    {event.data['percentage']:.0f} % {event.data['status']}")
                case "tool_result":
                    print(f"    {event.data['content']}")
                case "final":
                    print(f"{event.data['stopped']}: {event.data['text']}")

        # Events with an id are stored: read them again, all or after an id.
        recorded = [event async for event in agent.events("ann")]
        print("stored:", [event.type for event in recorded])
        later = [event.id async for event in agent.events("ann", after=recorded[2].id)]
        assert later == [event.id for event in recorded[3:]]

        # Any process can stop the turn; the thread is then ready for the next one.
        async for event in agent.stream("And the rest?", thread="ann"):
            if event.type == "tool_progress":
                await agent.stop("ann", reason="we have seen enough")
            elif event.type == "final":
                print(event.data["stopped"], "-", event.data["text"])


if __name__ == "__main__":
    asyncio.run(main())
