"""Calls on a Ray cluster over Ray's client: `python ray_client.py ray://HOST:PORT STORE PATH`. Prints the results as JSON."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys

from tests.engines.engine_tools import RAY_TOOLS, runs
from tests.kit.waiting import eventually

from clicket import Runtime


async def main(address: str, store: str, path: str) -> None:
    print("up", flush=True)
    async with Runtime(tools=RAY_TOOLS, store=store, ray=address) as rt:
        added = await rt.call("add", {"a": 1, "b": 2})
        assert added.success, added.error
        streamed = await rt.call("stream", {"count": 20})
        handle = await rt.submit("charge", {"path": path})
        (pid,) = await eventually(lambda: runs(path), timeout=60)
        os.kill(pid, signal.SIGKILL)
        killed = await handle.result()
        bodies = len(runs(path))
        handle = await rt.submit("charge", {"path": path + "2"})
        await eventually(lambda: runs(path + "2"), timeout=60)
        await handle.cancel()
        cancelled = await handle.result()
    results = {
        "sum": added.output["sum"],
        "streamed": streamed.output,
        "killed": killed.error.code if killed.error else "",
        "bodies": bodies,
        "cancelled": cancelled.state,
    }
    print(json.dumps(results), flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
