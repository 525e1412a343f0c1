"""clicket with the `openai` SDK: chat completions, streams and Responses, with typical mistakes of models.

Needs `pip install 'clicket[openai]'`.
The model is a script, so no key is needed; with a key, the objects come from `client.chat.completions.create(...)`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from openai.types.chat import ChatCompletion
from openai.types.responses import ResponseFunctionToolCall

from clicket import Runtime, tool
from clicket.adapters.openai import run, tool_params, watch


@tool(name="shop.price")
async def price(item: str, currency: str = "EUR") -> str:
    """The price of an item."""
    return f"{item}: 3 {currency}"


def completion(name: str, *arguments: str) -> ChatCompletion:
    calls = [
        {"id": f"call_{n}", "type": "function", "function": {"name": name, "arguments": text}}
        for n, text in enumerate(arguments)
    ]
    message = {"role": "assistant", "content": None, "tool_calls": calls}
    choice = {"index": 0, "finish_reason": "tool_calls", "message": message}
    about = {"object": "chat.completion", "created": 0, "model": "script"}
    return ChatCompletion.model_validate({"id": "chatcmpl-1", "choices": [choice], **about})


async def stream(name: str) -> AsyncIterator[dict[str, Any]]:
    """Replaces `await client.chat.completions.create(..., stream=True)`: arguments arrive in pieces."""
    for piece in ('{"item": ', '"tea"}'):
        call = {"index": 0, "id": "call_0", "function": {"name": name, "arguments": piece}}
        yield {"id": "chatcmpl-2", "choices": [{"index": 0, "delta": {"tool_calls": [call]}}]}
    yield {"id": "chatcmpl-2", "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}


async def main() -> None:
    async with Runtime(tools=[price], store="memory://") as rt:
        params = await tool_params(rt, "t1", strict=True)
        name = params[0]["function"]["name"]  # the provider does not accept dots in names
        print("offered as", name, "strict:", params[0]["function"]["strict"])

        good, odd = '{"item": "tea", "currency": null}', '"{\\"item\\": \\"milk\\"}"'
        for message in await run(rt, completion(name, good, odd, '{"item": ', '{"itm": "tea"}'), "t1"):
            print(message["tool_call_id"], "->", message["content"])

        async with watch(rt, stream(name), "t1") as events:  # each call runs as soon as its arguments are complete
            async for _ in events:
                pass
            print("streamed ->", (await events.results())[0]["content"])

        item = ResponseFunctionToolCall(type="function_call", call_id="call_9", name=name, arguments='{"item": "cake"}')
        print("Responses ->", await run(rt, [item], "t1", response_id="resp_1"))


if __name__ == "__main__":
    asyncio.run(main())
