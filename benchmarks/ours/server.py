"""`clicket serve` in its own process, over HTTP. Variants name the store, then the additions.

`memory`, `process` (SQLite); `-key`: with a key, which is looked up for every request; `-log`: with its access log, as
shipped; `-mcp`: `tools/call` at `/mcp` instead of `POST /calls`.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks import asking, timing
from benchmarks.ours.opening import place

_MCP_VERSION = "2026-07-28"
_SECRET = "a-secret-of-the-benchmark"


def key(store: str, url: str) -> str:
    """A key for the server: stored, or, where no other process can write to the store, in its settings."""
    if store == "memory":
        os.environ["CLICKET_API_KEYS"] = f"bench:read+call:{_SECRET}"
        return _SECRET
    command = [sys.executable, "-P", "-m", "clicket", "--store", url, "--json", "keys", "create", "--name", "bench"]
    made = subprocess.run(command, check=True, capture_output=True, text=True)
    text: str = json.loads(made.stdout)["key"]
    return text


@contextmanager
def serving(url: str, *, log: bool) -> Iterator[tuple[str, int]]:
    """The server's address and its process, while it runs."""
    words = ["clicket", "--store", url, "--tools", "benchmarks.ours.work:noop", "--json", "serve", "--port", "0"]
    with timing.worker(*words, "--log-format", "text" if log else "off") as process:
        ready = json.loads(timing.said(process))
        if "url" not in ready:
            raise SystemExit(ready["error"]["message"])
        yield ready["url"], process.pid


async def main() -> None:
    arguments = timing.budget()
    store, *added = arguments.variant.split("-")
    with timing.scratch() as folder:
        url, durability = place(store, folder)
        os.environ["CLICKET_DURABILITY"] = durability
        os.environ["CLICKET_MAX_CONCURRENCY"] = str(timing.AT_ONCE)
        headers = {"authorization": f"Bearer {key(store, url)}"} if "key" in added else {}
        with serving(url, log="log" in added) as (address, process):
            if "mcp" in added:
                request = asking.tool_call(f"{address}/mcp", _MCP_VERSION, headers)
                expected = asking.STRUCTURED
            else:
                request = asking.post(
                    f"{address}/calls", {"tool": "noop", "arguments": {"a": 1}, "wait": True}, headers
                )
                expected = b'"output":{"a":1}'
            figures = await asking.rates(request, address, expected, seconds=arguments.seconds, server=process)
    timing.report(figures, timing.versions("clicket", "starlette", "uvicorn", "mcp", "apsw"))


if __name__ == "__main__":
    asyncio.run(main())
