"""kill -9 during two calls. The next runtime over the same store recovers both.

A call that may be repeated runs again with the same idempotency key. The other is `failed` with `outcome_unknown`.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile

from clicket import Runtime, State, ToolContext, tool
from clicket.sync import Runtime as SyncRuntime


@tool(idempotent=True)
async def index(ctx: ToolContext) -> str:
    """May run twice. The first attempt takes long."""
    await asyncio.sleep(60 if ctx.attempt == 1 else 0.1)
    return f"indexed by attempt {ctx.attempt}, key {ctx.idempotency_key[:8]}…"


@tool
async def pay(amount: float) -> str:
    """Must not run twice: it would pay twice."""
    await asyncio.sleep(60)
    return f"paid {amount}"


def doomed(store: str) -> None:
    """The first process: it starts both calls and is killed before they end."""
    with SyncRuntime(tools=[index, pay], store=store) as rt:
        handles = [rt.submit("index", id="job-1"), rt.submit("pay", {"amount": 250.0}, id="payment-1")]
        for handle in handles:
            for event in handle.events():
                if event.state is State.RUNNING:
                    break
        print("ready", flush=True)
        handles[1].result()


async def recover(store: str) -> None:
    async with Runtime(tools=[index, pay], store=store) as rt:
        job = await (await rt.handle("job-1")).result()
        payment = await (await rt.handle("payment-1")).result()
        print(f"job-1: {job.state}, {job.attempts} attempts: {job.output}")
        print(f"payment-1: {payment.state}: {payment.error}")
        # The same id is the same call: submitting it again does not pay again.
        again = await rt.call("pay", {"amount": 250.0}, id="payment-1")
        print("submitted again:", again.error.code if again.error else again.output)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        doomed(sys.argv[1])
    else:
        with tempfile.TemporaryDirectory() as folder:
            url = f"sqlite:///{folder}/calls.db"
            with subprocess.Popen([sys.executable, __file__, url], stdout=subprocess.PIPE, text=True) as child:
                assert child.stdout is not None
                print("child says", child.stdout.readline().strip())
                os.kill(child.pid, signal.SIGKILL)
            print(f"kill -9 {child.pid}")
            asyncio.run(recover(url))
