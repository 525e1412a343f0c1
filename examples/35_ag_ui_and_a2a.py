"""An agent for user interfaces (AG-UI) and for other agents (A2A): an approval is answered over one, and the task read over the other.

It needs `pip install 'clicket[server]'`. Run: python examples/35_ag_ui_and_a2a.py
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx2

from clicket import Policy, Runtime, tool
from clicket.agents import ReActAgent
from clicket.server import serving
from clicket.testing import ScriptedModel


@tool
async def pay(amount: int) -> str:
    """Pay an amount."""
    return f"paid {amount}"


async def run(client: httpx2.AsyncClient, id: str, **more: Any) -> dict[str, Any]:
    """One run of AG-UI; the last event."""
    body = {"threadId": "order-7", "runId": id, "messages": [], **more}
    async with client.stream("POST", "/ag-ui/cashier", json=body) as response:
        events = [json.loads(line[6:]) async for line in response.aiter_lines() if line.startswith("data: ")]
    print(id, *(event["type"] for event in events if event["type"] != "TEXT_MESSAGE_CONTENT"), sep="\n  ")
    last: dict[str, Any] = events[-1]
    return last


async def a2a(client: httpx2.AsyncClient, method: str, **params: Any) -> Any:
    request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    response = await client.post("/a2a/cashier", json=request, headers={"A2A-Version": "1.0"})
    return response.json()["result"]


async def main() -> None:
    rt = Runtime(tools=[pay], store="memory://", policy=Policy(ask=["pay"]))
    model = ScriptedModel([[("pay", {"amount": 500})], "Paid, with a discount."])
    async with (
        serving(rt, port=0, agents=[ReActAgent(rt, model, name="cashier")]) as server,
        httpx2.AsyncClient(base_url=server.url) as client,
    ):
        asked = await run(client, "run-1", messages=[{"id": "m1", "role": "user", "content": "Pay the bill."}])
        (interrupt,) = asked["outcome"]["interrupts"]
        print(interrupt["message"])

        task = await a2a(client, "GetTask", id="turn-1:order-7")
        print("over A2A:", task["status"]["state"])

        answer = {"approved": True, "editedArgs": {"amount": 450}}
        done = await run(
            client, "run-2", resume=[{"interruptId": interrupt["id"], "status": "resolved", "payload": answer}]
        )
        print("the agent says:", done["result"]["text"])

        task = await a2a(client, "GetTask", id="turn-1:order-7")
        print("over A2A:", task["status"]["state"], task["artifacts"][0]["parts"][0]["text"])


if __name__ == "__main__":
    asyncio.run(main())
