"""A payment and a repeatable call on a Ray cluster: `python ray_caller.py ADDRESS STORE FOLDER submit|settle`.

`submit` prints `up` when the bodies of both run; `settle` submits nothing, and prints `up` when its runtime is open. Both wait until the
calls have ended, and then print their error codes or states as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from tests.engines.engine_tools import RAY_TOOLS, runs
from tests.kit.waiting import eventually

from clicket import Runtime

PATIENCE = 120.0


async def main(address: str, store: str, folder: str, what: str) -> None:
    paths = {"charge": Path(folder, "charge"), "fetch": Path(folder, "fetch")}
    async with Runtime(tools=RAY_TOOLS, store=store, ray=address, lease=2.0, close_timeout=0.1) as rt:
        if what == "submit":
            for tool, path in paths.items():
                await rt.submit(tool, {"path": str(path)}, id=tool)
            await eventually(lambda: all(map(runs, paths.values())), timeout=PATIENCE)
        print("up", flush=True)
        ends = {}
        for tool in paths:
            result = await (await rt.handle(tool)).result(timeout=PATIENCE)
            ends[tool] = result.error.code if result.error is not None else str(result.state)
        print(json.dumps(ends), flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
