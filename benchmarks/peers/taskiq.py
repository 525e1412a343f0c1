"""taskiq on a Redis stream: tasks sent by this process, run by a worker process, results back through Redis.

A waiting client of taskiq polls for the result, every 200 ms as shipped. That would be the whole
figure, so it polls every millisecond here when it is alone, and every 50 ms when there are 100: polling more often is slower.
"""

from __future__ import annotations

import asyncio
import os

from taskiq_redis import RedisAsyncResultBackend, RedisStreamBroker

from benchmarks import timing

URL = timing.server("BENCH_REDIS")
broker = RedisStreamBroker(url=URL).with_result_backend(RedisAsyncResultBackend(redis_url=URL))


@broker.task(task_name="noop")
async def noop(a: int) -> dict:
    return {"a": a}


async def call(ask_every: float) -> dict:
    sent = await noop.kiq(1)
    result = await sent.wait_result(check_interval=ask_every, timeout=60)
    return result.return_value


async def main() -> None:
    arguments = timing.budget()
    command = ("taskiq", "worker", "benchmarks.peers.taskiq:broker", "--log-level", "CRITICAL")
    with timing.worker(*command, "--workers", str(os.cpu_count())):
        await broker.startup()
        try:
            assert await call(0.01) == {"a": 1}
            figures = {
                "p50_us": await timing.p50_async(lambda: call(0.001), seconds=arguments.seconds),
                "per_second": await timing.per_second(lambda: call(0.05), seconds=arguments.seconds),
            }
        finally:
            await broker.shutdown()
    timing.report(figures, timing.versions("taskiq", "taskiq-redis", "redis"))


if __name__ == "__main__":
    asyncio.run(main())
