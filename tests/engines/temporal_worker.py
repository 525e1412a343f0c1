"""A Temporal worker in its own process: `python temporal_worker.py HOST:PORT STORE [plain]`. Prints a line when it is up."""

from __future__ import annotations

import asyncio
import sys
from datetime import timedelta
from typing import Any

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.common import RetryPolicy
from temporalio.worker import Worker

with workflow.unsafe.imports_passed_through():
    from tests.engines.engine_tools import look_up, pay

    from clicket import Runtime
    from clicket.adapters.temporal import activity_of

QUEUE = "tools"


@workflow.defn
class Order:
    """One call, with Temporal's own retries."""

    @workflow.run
    async def run(self, tool: str, arguments: dict[str, Any]) -> Any:
        return await workflow.execute_activity(
            "clicket_call",
            args=[tool, arguments],
            start_to_close_timeout=timedelta(seconds=60),
            heartbeat_timeout=timedelta(seconds=2),
            retry_policy=RetryPolicy(initial_interval=timedelta(milliseconds=100), maximum_attempts=5),
        )


@activity.defn(name="clicket_call")
async def plain(tool: str, arguments: dict[str, Any]) -> Any:
    """A worker without clicket: the body itself."""
    beats = asyncio.create_task(_beat())
    try:
        return await (pay if tool == "pay" else look_up)(**arguments)
    finally:
        beats.cancel()


async def _beat() -> None:
    while True:
        activity.heartbeat()
        await asyncio.sleep(0.5)


async def main(address: str, store: str, kind: str = "clicket") -> None:
    client = await Client.connect(address)
    async with Runtime(tools=[pay, look_up], store=store, lease=2.0) as rt:
        activities = [plain if kind == "plain" else activity_of(rt)]
        async with Worker(client, task_queue=QUEUE, workflows=[Order], activities=activities):
            print("up", flush=True)
            await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
