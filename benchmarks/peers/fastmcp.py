"""FastMCP: `tools/call` over streamable HTTP. Stateless and answered with plain JSON, no session, no stream: the cheapest case.

The variant is the client's version of the protocol.
"""

from __future__ import annotations

import asyncio
import sys

from fastmcp import FastMCP

from benchmarks import asking, timing
from benchmarks.peers.serving import serve

server = FastMCP("bench")


@server.tool
async def noop(a: int) -> dict[str, int]:
    """Return a small dict."""
    return {"a": a}


async def main() -> None:
    arguments = timing.budget()
    with timing.worker("benchmarks.peers.fastmcp", "serve") as process:
        url = f"http://127.0.0.1:{int(timing.said(process))}/mcp"
        request = asking.tool_call(url, arguments.variant)
        figures = await asking.rates(request, url, asking.STRUCTURED, seconds=arguments.seconds, server=process.pid)
    timing.report(figures, timing.versions("fastmcp", "mcp"))


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        serve(server.http_app(stateless_http=True, json_response=True))
    else:
        asyncio.run(main())
