"""A process with secrets that is going to be killed: `python -m tests.security.secrets_child STORE FOLDER`, arguments on stdin.

One call holds the only slot, so that the next one waits; another waits for approval, a third was started and may run again.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from tests.security.secrets_kit import pay

from clicket import Policy, Runtime, Settings, ToolContext, tool

POLICY = Policy(ask=["guarded"])
guarded = tool(name="guarded", sensitive="password")(pay.fn)


@tool
async def hold(ctx: ToolContext) -> None:
    """Never returns."""
    await asyncio.sleep(600)


@tool(sensitive="password", idempotent=True)
async def again(name: str, password: str, amount: int, folder: str, header: str = "") -> int:
    if not Path(folder, "second").exists():
        print("started again", flush=True)
        await asyncio.sleep(600)
    return await pay.fn(name, password, amount, folder, header)


TOOLS = [pay, guarded, hold, again]


async def main(store: str, folder: str) -> None:
    given = json.loads(sys.stdin.readline())
    arguments, secret_key = given["arguments"], given["key"]
    settings = Settings(store=store, secret_key=secret_key, max_concurrency=2)
    async with Runtime(TOOLS, policy=POLICY, settings=settings) as rt:
        await rt.submit("again", {**arguments, "name": "again"}, id="again")
        await rt.submit("hold", {}, id="hold")
        await rt.submit("pay", {**arguments, "name": "pay"}, id="pay", metadata=given["metadata"])
        await rt.submit("guarded", {**arguments, "name": "guarded"}, id="guarded")
        print("submitted", flush=True)
        await asyncio.sleep(600)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
