"""langchain: `tool.ainvoke` of an async tool. Arguments are validated; nothing is recorded, timed, limited or retried."""

from __future__ import annotations

import asyncio

from langchain_core.tools import tool

from benchmarks import timing


@tool
async def noop(a: int) -> dict:
    """Return a small dict."""
    return {"a": a}


async def main() -> None:
    seconds = timing.budget().seconds

    async def call() -> object:
        return await noop.ainvoke({"a": 1})

    assert await call() == {"a": 1}
    timing.report(await timing.at_once(call, seconds=seconds), timing.versions("langchain-core"))


asyncio.run(main())
