"""A process of ours that uses another server, to be killed: `python -m tests.mcp.client_child STORE URL TOOL ARGUMENTS`."""

from __future__ import annotations

import asyncio
import json
import sys

from clicket import Runtime
from clicket.mcp import McpServer


async def main(store: str, url: str, tool: str, arguments: str) -> None:
    async with Runtime(store=store) as rt:
        await McpServer("far", url=url, options={"timeout": 60}).join(rt)
        await rt.call(tool, json.loads(arguments), id="the-call", thread="t")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
