"""A server and its clients in one file: the Python client, plain HTTP, and live events. No keys, loopback only.

Needs `pip install 'clicket[server]'`.
"""

from __future__ import annotations

import asyncio
import json

import httpx2

from clicket import Runtime, ToolContext, tool
from clicket.client import Client
from clicket.server import serving


@tool
async def price(item: str) -> dict[str, object]:
    """The price of an item."""
    return {"item": item, "cents": 300}


@tool(timeout=600)
async def pack(boxes: int, ctx: ToolContext) -> str:
    """Pack boxes."""
    for box in range(1, boxes + 1):
        ctx.progress(box, boxes, f"box {box}")
        await asyncio.sleep(0.05)
    return f"{boxes} boxes"


async def with_the_client(url: str) -> None:
    """The client has the methods of a runtime."""
    async with Client(url) as rt:
        print((await rt.call("price", {"item": "tea"}, thread="chat-1")).output)
        print((await rt.call("price", {"itm": "tea"}, thread="chat-1")).error)
        handle = await rt.submit("pack", {"boxes": 3}, thread="chat-1", id="order-7")
        async for event in handle.events():
            if event.type == "progress":
                print(f"{event.data['percentage']} %")
        print((await handle.result()).output, "|", await rt.hub("chat-1").summary())


async def with_plain_http(url: str) -> None:
    """The same over plain HTTP, as any other language would do it."""
    async with httpx2.AsyncClient(base_url=url) as http:
        answer = await http.post("/calls", json={"tool": "price", "arguments": {"item": "milk"}, "wait": True})
        print(answer.status_code, answer.json()["output"])
        answer = await http.post("/calls", json={"tool": "prize"})
        print(answer.status_code, answer.json()["code"], "-", answer.json()["detail"])

        seen = 0
        for _ in range(2):  # the second time like a reader that lost its connection after five events
            headers = {"last-event-id": "5"} if seen else {}
            async with http.stream("GET", "/calls/order-7/events?thread=chat-1", headers=headers) as stream:
                lines = [line async for line in stream.aiter_lines() if line.startswith("data: ")]
            first, seen = json.loads(lines[0].removeprefix("data: "))["seq"], len(lines)
            print(f"events from number {first} on: {seen}")


async def main() -> None:
    runtime = Runtime(tools=[price, pack], store="memory://")
    async with serving(runtime, port=0) as server:  # `clicket serve --tools shop` does this in its own process
        print("listening on", server.url)
        await with_the_client(server.url)
        await with_plain_http(server.url)


if __name__ == "__main__":
    asyncio.run(main())
