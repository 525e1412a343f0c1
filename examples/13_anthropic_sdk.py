"""clicket with the `anthropic` SDK: the model sees the tools it may use now, and every tool_use gets one tool_result.

Needs `pip install 'clicket[anthropic]'`.
The model is a script, so no key is needed; with a key, use `await client.messages.create(...)`.
"""

from __future__ import annotations

import asyncio
from typing import Any

from anthropic.types import Message

from clicket import Runtime, tool
from clicket.adapters.anthropic import run, tool_params


@tool
async def log_in(user: str) -> str:
    """Log in. Other tools need it."""
    return f"{user} is in"


@tool(depends_on="log_in")
async def pay(amount: int) -> str:
    """Pay an amount."""
    return f"paid {amount}"


def use(id: str, name: str, **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": name, "input": arguments}


SCRIPT = [
    [use("u1", "pay", amount=5), use("u2", "log_in", user="ada")],  # too early: pay is not available yet
    [use("u1", "pay", amount=5), use("u2", "pay", amount="five"), use("u3", "paay", amount=5)],
    [{"type": "text", "text": "Paid."}],
]


def ask_model(turn: int, messages: list[Any], tools: list[Any]) -> Message:
    """Replaces `client.messages.create(model=..., max_tokens=..., messages=messages, tools=tools)`."""
    print(f"turn {turn}: the model may use", [tool["name"] for tool in tools])
    usage = {"input_tokens": 1, "output_tokens": 1}
    about = {"role": "assistant", "type": "message", "model": "script", "usage": usage}
    return Message.model_validate({"id": f"msg_{turn}", "content": SCRIPT[turn], **about})


async def main() -> None:
    async with Runtime(tools=[log_in, pay], store="memory://") as rt:
        messages: list[Any] = [{"role": "user", "content": "Pay 5."}]
        for turn in range(len(SCRIPT)):
            message = ask_model(turn, messages, await tool_params(rt, "t1"))
            results = await run(rt, message, "t1")
            if not results:
                print("the model says:", message.content[0].text)
                break
            for result in results:
                print("  error:" if result["is_error"] else "  result:", result["content"])
            messages += [{"role": "assistant", "content": message.content}, {"role": "user", "content": results}]

            # If the program crashes before it stores the results, the same response finds its calls: nothing runs twice.
            assert await run(rt, message, "t1") == results
        print("recorded calls:", len((await rt.history(thread="t1")).items))


if __name__ == "__main__":
    asyncio.run(main())
