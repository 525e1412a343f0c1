"""Your own model is one method. Requests and replies are plain values."""

from __future__ import annotations

import asyncio

from clicket import Runtime, tool
from clicket.agents import ReActAgent
from clicket.model.chat import ChatReply, ChatRequest, ToolUse, Usage


class Parrot:
    """Calls the first tool that it is offered, then repeats the tool's result."""

    name = "parrot"

    async def chat(self, request: ChatRequest) -> ChatReply:
        last = request.messages[-1]
        usage = Usage(input_tokens=len(request.messages), output_tokens=1, cost=0.001)
        if last.role == "tool":
            return ChatReply(text=f"{last.content}! {last.content}!", usage=usage)
        use = ToolUse(id="1", name=request.tools[0].name, arguments='{"of": "Peru"}')
        return ChatReply(uses=(use,), usage=usage)


@tool(read_only=True)
async def capital(of: str) -> str:
    """The capital of a country."""
    return {"Peru": "Lima", "Norway": "Oslo"}[of]


async def main() -> None:
    async with Runtime(tools=[capital], store="memory://") as rt:
        result = await ReActAgent(rt, Parrot()).run("What is the capital of Peru?")
        print(result.text, f"for {result.usage.cost}")
        assert result.text == "Lima! Lima!"

        # A limit on steps, calls, tokens, cost, time or repeated calls stops a model that never answers.
        class Stuck(Parrot):
            async def chat(self, request: ChatRequest) -> ChatReply:
                return await super().chat(ChatRequest(messages=request.messages[:1], tools=request.tools))

        for limits in ({"max_steps": 2}, {"max_cost": 0.002}, {"max_repeats": 2}):
            result = await ReActAgent(rt, Stuck(), **limits).run("What is the capital of Peru?", thread="stuck")
            print(f"{result.stopped}: {result.text}")


if __name__ == "__main__":
    asyncio.run(main())
