"""Many calls at once: `call_many` keeps the order, one failure does not affect the others, and limits are enforced."""

from __future__ import annotations

import asyncio
import time

from clicket import Runtime, Settings, ToolCall, tool


@tool
async def square(number: int) -> int:
    """Square a number; fails for 13."""
    await asyncio.sleep(0.01)
    if number == 13:
        raise ValueError("13 is not supported")
    return number * number


@tool(max_concurrency=2)
async def careful(number: int) -> int:
    """At most two of these run at once, across all callers."""
    await asyncio.sleep(0.05)
    return number


async def main() -> None:
    settings = Settings(store="memory://", max_concurrency=50)
    async with Runtime(tools=[square, careful], settings=settings) as rt:
        calls = [ToolCall("square", {"number": n}, thread="batch") for n in range(1, 21)]
        results = await rt.call_many(calls, max_concurrency=20)
        print([result.output for result in results])
        print("failed:", [(result.tool, str(result.error)) for result in results if not result.success])

        began = time.perf_counter()
        await rt.call_many([("careful", {"number": n}) for n in range(8)], max_concurrency=8)
        print(f"8 careful calls, 2 at once, 50 ms each: {time.perf_counter() - began:.2f} s")

        # Calls with a higher priority leave the queue first.
        handles = [await rt.submit("careful", {"number": n}, priority=n) for n in range(6)]
        order: list[int] = []

        async def note(number: int) -> None:
            await handles[number].result()
            order.append(number)

        await asyncio.gather(*(note(number) for number in range(6)))
        print("ended in this order:", order)

        began = time.perf_counter()
        thousand = await rt.call_many([("square", {"number": 2})] * 1_000, max_concurrency=50)
        print(f"{sum(r.success for r in thousand)} calls in {time.perf_counter() - began:.2f} s")


if __name__ == "__main__":
    asyncio.run(main())
