"""The round trips that a durable call needs, without clicket: its two writes, one after the other, by the same client library.

The writes have the size of a call's writes: the events up to its start, and those of its end.
"""

from __future__ import annotations

import asyncio
from itertools import count
from pathlib import Path

import psycopg
from redis.asyncio import Redis

from benchmarks import timing
from benchmarks.ours.opening import runtime
from clicket import tool
from clicket.model import dump_unit, rows_of

_SCRIPT = "return redis.call('XADD', KEYS[1], ARGV[1], 'e', ARGV[2])"
_TABLE = "CREATE TABLE events (call bigint, seq bigint, body bytea, PRIMARY KEY (call, seq))"
_INSERT = "INSERT INTO events (call, seq, body) VALUES (%s, %s, %s)"


@tool
async def noop(a: int) -> dict[str, int]:
    """Return a small dict."""
    return {"a": a}


async def written() -> tuple[bytes, bytes]:
    """The content of a call's two commits."""
    async with runtime("memory", Path(), [noop]) as rt:
        result = await rt.call("noop", {"a": 1}, thread="t")
        events = (await rt.get(result.call_id)).events
    last = next(n for n, event in enumerate(events, 1) if event.type == "attempt_started")
    return dump_unit(rows_of(events[:last])), dump_unit(rows_of(events[last:]))


async def redis(units: tuple[bytes, bytes], seconds: float) -> float:
    client = Redis.from_url(timing.server("BENCH_REDIS"), protocol=2, single_connection_client=True)
    script = await client.script_load(_SCRIPT)
    numbers = count()

    async def call() -> None:
        key = f"call:{next(numbers)}"
        for seq, body in enumerate(units, 1):
            await client.evalsha(script, 1, key, f"{seq}-0", body)

    figure = await timing.p50_async(call, seconds=seconds)
    await client.aclose()
    return figure


async def postgres(units: tuple[bytes, bytes], seconds: float) -> float:
    async with await psycopg.AsyncConnection.connect(timing.server("BENCH_POSTGRES"), autocommit=True) as connection:
        await connection.execute(_TABLE)
        numbers = count()

        async def call() -> None:
            key = next(numbers)
            for seq, body in enumerate(units, 1):
                await connection.execute(_INSERT, (key, seq, body), prepare=True)

        return await timing.p50_async(call, seconds=seconds)


async def main() -> None:
    arguments = timing.budget()
    measure = {"redis": redis, "postgres": postgres}[arguments.variant]
    figures = {"p50_us": await measure(await written(), arguments.seconds)}
    timing.report(figures, timing.versions("redis", "psycopg"))


asyncio.run(main())
