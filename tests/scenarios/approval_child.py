"""A runtime that the test kills while, or after, a person decides. `python -m tests.scenarios.approval_child STORE
FOLDER`.

It submits one call, prints a line, and lives until it is killed. The tool appends a line to a file for every run; the
first run hangs.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from clicket import Policy, Runtime, Settings, ToolContext, tool

POLICY = Policy(ask=["put"])


@tool(idempotent=True)
async def put(folder: str, word: str, hangs: bool, ctx: ToolContext) -> str:
    with Path(folder, "effects").open("a") as file:
        file.write(f"{ctx.attempt} {word}\n")
    if hangs and ctx.attempt == 1:
        print("started", flush=True)
        await asyncio.sleep(600)
    return word


async def main(store: str, folder: str) -> None:
    async with Runtime([put], policy=POLICY, settings=Settings(store=store)) as rt:
        await rt.submit("put", {"folder": folder, "word": "first", "hangs": True}, id="p")
        print("accepted", flush=True)
        await asyncio.sleep(600)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
