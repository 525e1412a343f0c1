"""One no-op call, all six stages, on each store; and the same function awaited bare."""

from __future__ import annotations

import asyncio
from typing import Any

from benchmarks import timing
from benchmarks.ours.opening import runtime
from clicket import tool


async def body(a: int) -> dict[str, int]:
    """Return a small dict."""
    return {"a": a}


noop = tool(name="noop")(body)


async def main() -> None:
    arguments = timing.budget()
    used = timing.versions("clicket", "apsw", "msgspec", "jsonschema-rs")
    if arguments.variant == "bare":

        async def bare() -> Any:
            return await body(1)

        timing.report(await timing.at_once(bare, seconds=arguments.seconds, batch=100), used)
        return
    with timing.scratch() as folder:
        async with runtime(arguments.variant, folder, [noop]) as rt:

            async def call() -> Any:
                return await rt.call("noop", {"a": 1}, thread="t")

            result = await call()
            assert result.success, result.error
            assert result.output == {"a": 1}
            figures = await timing.at_once(call, seconds=arguments.seconds)
    timing.report(figures, used)


asyncio.run(main())
