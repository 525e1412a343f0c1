"""Temporal: a workflow of one activity on the development server, which keeps its state in a file; the worker is in here.

The workflow requests an eager start, which skips the server's queue: Temporal's fastest mode.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from itertools import count

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.worker import Worker

with workflow.unsafe.imports_passed_through():
    from benchmarks import timing


@activity.defn
async def noop(a: int) -> dict:
    return {"a": a}


@workflow.defn
class OneStep:
    @workflow.run
    async def run(self, a: int) -> dict:
        return await workflow.execute_activity(noop, a, start_to_close_timeout=timedelta(seconds=60))


async def main() -> None:
    arguments = timing.budget()
    client = await Client.connect(timing.server("BENCH_TEMPORAL"))
    numbers = count()

    async def call() -> dict:
        name = f"call-{next(numbers)}"
        return await client.execute_workflow(OneStep.run, 1, id=name, task_queue="bench", request_eager_start=True)

    async with Worker(client, task_queue="bench", workflows=[OneStep], activities=[noop]):
        assert await call() == {"a": 1}
        figures = await timing.at_once(call, seconds=arguments.seconds)
    timing.report(figures, timing.versions("temporalio"))


if __name__ == "__main__":
    asyncio.run(main())
