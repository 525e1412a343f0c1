"""The client that the protocol's conformance suite tests: `python -m tests.mcp.conformance_client URL`.

It is a runtime that joins the suite's server, calls every tool, and answers every question with the form's defaults.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from contextlib import suppress
from typing import Any

import mcp_types as types

from clicket import Runtime
from clicket.errors import ClicketError
from clicket.mcp import McpServer

VALUES: dict[str, Any] = {"string": "us-west1", "integer": 3, "number": 1.5, "boolean": True, "object": {}, "array": []}


async def sampling(asked: types.CreateMessageRequestParams) -> types.CreateMessageResult:
    return types.CreateMessageResult(role="assistant", model="none", content=types.TextContent(text="ok"))


def filled(schema: dict[str, Any], *, every: bool = False) -> dict[str, Any]:
    fields = schema.get("properties", {})
    wanted = fields if every else schema.get("required", ())
    return {name: VALUES.get(fields[name].get("type", "string"), "x") for name in wanted}


async def answer(rt: Runtime) -> None:
    while True:
        for record in (await rt.history(waiting_for="approval")).items:
            with suppress(ClicketError):
                question = (await rt.get(record.id)).approval["question"]
                await rt.respond(record.id, filled(question["schema"]))
        await asyncio.sleep(0.02)


async def main(url: str) -> None:
    old = os.environ.get("MCP_CONFORMANCE_PROTOCOL_VERSION") == "2025-11-25"
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    async with Runtime(store="memory://") as rt:
        server = McpServer(
            "suite", url=url, protocol="2025-11-25" if old else "auto", sampling=sampling, roots=["/tmp"]
        )
        tools = {tool.name: tool for tool in await server.join(rt)}
        calls = [
            (each["name"], {name: value for name, value in each["arguments"].items() if value is not None})
            for each in context.get("toolCalls", ())
        ]
        if "json_schema_echo" in tools:
            schema = next(tool.input_schema for name, tool in tools.items() if name != "json_schema_echo")
            calls = [("json_schema_echo", {"schema": schema})]
        answering = asyncio.create_task(answer(rt))
        calls = calls or [(name, filled(dict(tool.input_schema))) for name, tool in tools.items()]
        for result in await asyncio.gather(*(rt.call(name, given) for name, given in calls)):
            print(result.tool, result.state, result.content[:200])
        answering.cancel()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
