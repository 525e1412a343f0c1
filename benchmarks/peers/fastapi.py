"""A bare FastAPI route, written the usual way: a pydantic model in, a dict out. No authorization, no record, no events.

It runs in clicket's own environment, so that FastAPI, Starlette, uvicorn and pydantic have the same versions.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel

from benchmarks import asking, timing
from benchmarks.peers.serving import serve


class Call(BaseModel):
    tool: str
    arguments: dict[str, Any]
    wait: bool = False


app = FastAPI()


@app.post("/calls")
async def call(call: Call) -> dict[str, Any]:
    return {"success": True, "output": {"a": call.arguments["a"]}}


async def main() -> None:
    arguments = timing.budget()
    with timing.worker("benchmarks.peers.fastapi", "serve") as server:
        url = f"http://127.0.0.1:{int(timing.said(server))}/calls"
        request = asking.post(url, {"tool": "noop", "arguments": {"a": 1}, "wait": True})
        figures = await asking.rates(request, url, b'"output":{"a":1}', seconds=arguments.seconds, server=server.pid)
    timing.report(figures, timing.versions("fastapi", "starlette", "uvicorn", "pydantic"))


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        serve(app)
    else:
        asyncio.run(main())
